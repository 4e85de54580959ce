# Takes: burn's defaults and the burn program. Gives: every optimizer, option, clip and problem on
# both sides and on the reference; what differs, why, and whether a mistake would be noticed.
#
# `breadth` is all of it, `breadth-slice` touches everything once. Neither belongs to `rule all`.


rule plan_breadth:
    input:
        script=script("plan_breadth.py"),
        defaults="results/evidence/defaults/burn.json",
        lock=ROOT / "requirements.lock",
    output:
        plans=[f"results/{{scope}}/plans/{key}.json" for key in OPTIMIZERS],
    log:
        "results/logs/plan_{scope}.log",
    benchmark:
        "results/benchmarks/plan_{scope}.tsv"
    params:
        sliced=lambda wildcards: "--slice" if wildcards.scope.endswith("slice") else "",
    message:
        "Planning the {wildcards.scope}"
    shell:
        "python {input.script[0]:q} --defaults {input.defaults:q} {params.sliced}"
        " --out results/{wildcards.scope}/plans > {log:q} 2>&1"


rule train_breadth_pytorch:
    input:
        script=script("train_breadth_pytorch.py"),
        plan="results/{scope}/plans/{optimizer}.json",
        lock=ROOT / "requirements.lock",
    output:
        traces=directory("results/{scope}/traces/{optimizer}/pytorch"),
    log:
        "results/logs/train_{scope}_pytorch_{optimizer}.log",
    benchmark:
        "results/benchmarks/train_{scope}_pytorch_{optimizer}.tsv"
    message:
        "Training {wildcards.optimizer} on PyTorch's side ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} --plan {input.plan:q}"
        " --traces results/{wildcards.scope}/traces/{wildcards.optimizer} > {log:q} 2>&1"


rule train_breadth_burn:
    input:
        script=script("train_breadth_burn.py"),
        plan="results/{scope}/plans/{optimizer}.json",
        program=program("optdef"),
    output:
        traces=directory("results/{scope}/traces/{optimizer}/burn"),
    log:
        "results/logs/train_{scope}_burn_{optimizer}.log",
    benchmark:
        "results/benchmarks/train_{scope}_burn_{optimizer}.tsv"
    message:
        "Training {wildcards.optimizer} on burn's side ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} --plan {input.plan:q} --program {input.program:q}"
        " --traces results/{wildcards.scope}/traces/{wildcards.optimizer} > {log:q} 2>&1"


rule judge_breadth:
    input:
        script=script("judge_breadth.py"),
        plan="results/{scope}/plans/{optimizer}.json",
        pytorch="results/{scope}/traces/{optimizer}/pytorch",
        burn="results/{scope}/traces/{optimizer}/burn",
    output:
        rows="results/{scope}/judged/{optimizer}/rows.parquet",
        outcomes="results/{scope}/judged/{optimizer}/outcomes.json",
        kills="results/{scope}/judged/{optimizer}/kills.json",
        traces=directory("results/{scope}/traces/{optimizer}/reference"),
    log:
        "results/logs/judge_{scope}_{optimizer}.log",
    benchmark:
        "results/benchmarks/judge_{scope}_{optimizer}.tsv"
    message:
        "Judging {wildcards.optimizer}, and hunting mutants ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} {wildcards.optimizer:q} --plan {input.plan:q}"
        " --traces results/{wildcards.scope}/traces/{wildcards.optimizer}"
        " --out results/{wildcards.scope}/judged/{wildcards.optimizer} > {log:q} 2>&1"


rule breadth:
    input:
        expand("results/breadth/judged/{optimizer}/kills.json", optimizer=OPTIMIZERS),


rule breadth_slice:
    input:
        expand("results/breadth-slice/judged/{optimizer}/kills.json", optimizer=OPTIMIZERS),
