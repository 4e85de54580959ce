# Takes: burn's defaults and the burn program. Gives: every optimizer, option, clip and problem on
# both sides and on the reference; what differs, why, and whether a mistake would be noticed.
#
# `breadth` is all of it, `breadth-slice` touches everything once. Neither belongs to `rule all`.


localrules:
    publish_findings,


rule plan_breadth:
    input:
        script=lazily("plan_breadth.py"),
        defaults="results/evidence/defaults/burn.json",
        lock=ROOT / "requirements.lock",
    output:
        plans=PLANS,
    log:
        "results/logs/plan_{scope}.log",
    benchmark:
        "results/benchmarks/plan_{scope}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(30),
    params:
        sliced=lambda wildcards: "--slice" if wildcards.scope.endswith("slice") else "",
    message:
        "Planning the {wildcards.scope}"
    shell:
        "python {input.script[0]:q} --defaults {input.defaults:q} {params.sliced}"
        " --out results/{wildcards.scope}/plans > {log:q} 2>&1"


rule train_breadth_pytorch:
    input:
        script=lazily("train_breadth_pytorch.py"),
        plan="results/{scope}/plans/{optimizer}.json",
        lock=ROOT / "requirements.lock",
    output:
        traces=directory("results/{scope}/traces/{optimizer}/pytorch"),
    log:
        "results/logs/train_{scope}_pytorch_{optimizer}.log",
    benchmark:
        "results/benchmarks/train_{scope}_pytorch_{optimizer}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(60),
    message:
        "Training {wildcards.optimizer} on PyTorch's side ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} --plan {input.plan:q}"
        " --traces results/{wildcards.scope}/traces/{wildcards.optimizer} > {log:q} 2>&1"


rule train_breadth_burn:
    input:
        script=lazily("train_breadth_burn.py"),
        plan="results/{scope}/plans/{optimizer}.json",
        program=program("optdef"),
    output:
        traces=directory("results/{scope}/traces/{optimizer}/burn"),
    log:
        "results/logs/train_{scope}_burn_{optimizer}.log",
    benchmark:
        "results/benchmarks/train_{scope}_burn_{optimizer}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(60),
    message:
        "Training {wildcards.optimizer} on burn's side ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} --plan {input.plan:q} --program {input.program:q}"
        " --traces results/{wildcards.scope}/traces/{wildcards.optimizer} > {log:q} 2>&1"


rule judge_breadth:
    input:
        script=lazily("judge_breadth.py"),
        plan="results/{scope}/plans/{optimizer}.json",
        pytorch="results/{scope}/traces/{optimizer}/pytorch",
        burn="results/{scope}/traces/{optimizer}/burn",
    output:
        rows="results/{scope}/judged/{optimizer}/rows.parquet",
        outcomes="results/{scope}/judged/{optimizer}/outcomes.json",
        kills="results/{scope}/judged/{optimizer}/kills.json",
        papers="results/{scope}/judged/{optimizer}/papers.json",
        traces=directory("results/{scope}/traces/{optimizer}/reference"),
    log:
        "results/logs/judge_{scope}_{optimizer}.log",
    benchmark:
        "results/benchmarks/judge_{scope}_{optimizer}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(60),
    message:
        "Judging {wildcards.optimizer}, and hunting mutants ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} {wildcards.optimizer:q} --plan {input.plan:q}"
        " --traces results/{wildcards.scope}/traces/{wildcards.optimizer}"
        " --out results/{wildcards.scope}/judged/{wildcards.optimizer} > {log:q} 2>&1"


# L-BFGS evaluates the loss many times in an update, so that judging it takes by far the longest:
# begun last, one core would idle for as long as that takes.
use rule train_breadth_pytorch as train_breadth_pytorch_longest with:
    wildcard_constraints:
        optimizer="lbfgs",
    priority: 1


use rule train_breadth_burn as train_breadth_burn_longest with:
    wildcard_constraints:
        optimizer="lbfgs",
    priority: 1


use rule judge_breadth as judge_breadth_longest with:
    wildcard_constraints:
        optimizer="lbfgs",
    priority: 1


ruleorder: train_breadth_pytorch_longest > train_breadth_pytorch
ruleorder: train_breadth_burn_longest > train_breadth_burn
ruleorder: judge_breadth_longest > judge_breadth


rule judge_schedules:
    input:
        script=lazily("judge_schedules.py"),
        program=program("optdef"),
        lock=ROOT / "requirements.lock",
    output:
        found="results/evidence/schedules.json",
    log:
        "results/logs/judge_schedules.log",
    benchmark:
        "results/benchmarks/judge_schedules.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(30),
    message:
        "Comparing learning-rate schedules"
    shell:
        "python {input.script[0]:q} --program {input.program:q} --out {output.found:q}"
        " > {log:q} 2>&1"


rule cover_breadth:
    input:
        script=lazily("cover_breadth.py"),
        plans=PLANS,
        outcomes=OUTCOMES,
        defaults="results/evidence/defaults/burn.json",
        program=program("optdef"),
    output:
        found="results/{scope}/coverage.json",
    log:
        "results/logs/cover_{scope}.log",
    benchmark:
        "results/benchmarks/cover_{scope}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(30),
    message:
        "Holding the {wildcards.scope} against PyTorch's own list of configurations"
    shell:
        "python {input.script[0]:q} --plans {input.plans:q} --outcomes {input.outcomes:q}"
        " --defaults {input.defaults:q} --program {input.program:q} --out {output.found:q}"
        " > {log:q} 2>&1"


rule summarise_breadth:
    input:
        script=lazily("summarise_breadth.py"),
        outcomes=OUTCOMES,
        coverage="results/{scope}/coverage.json",
        schedules="results/evidence/schedules.json",
    output:
        sheets=[
            f"results/{{scope}}/{sheet}{suffix}"
            for sheet in SHEETS
            for suffix in (".md", ".zh.md", ".csv")
        ],
        verdicts="results/{scope}/verdicts.csv",
        mutants="results/{scope}/mutants.csv",
        rows="results/{scope}/rows.parquet",
        summary="results/{scope}/summary.txt",
        complaints="results/{scope}/complaints.txt",
    log:
        "results/logs/summarise_{scope}.log",
    benchmark:
        "results/benchmarks/summarise_{scope}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    params:
        judged=lambda wildcards: [
            f"results/{wildcards.scope}/judged/{key}" for key in OPTIMIZERS
        ],
    message:
        "Making the sheets of the {wildcards.scope}"
    shell:
        "python {input.script[0]:q} --judged {params.judged:q} --coverage {input.coverage:q}"
        " --schedules {input.schedules:q} --out results/{wildcards.scope} > {log:q} 2>&1"


# A rule of its own: where something is amiss this fails, and the sheets stay.
rule check_breadth:
    input:
        script=lazily("check_breadth.py"),
        complaints="results/{scope}/complaints.txt",
        summary="results/{scope}/summary.txt",
    output:
        ok="results/{scope}/checked.txt",
    log:
        "results/logs/check_{scope}.log",
    benchmark:
        "results/benchmarks/check_{scope}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Checking that all of the {wildcards.scope} is explained, and every mutant noticed"
    shell:
        "python {input.script[0]:q} --complaints {input.complaints:q}"
        " --summary {input.summary:q} --out {output.ok:q} > {log:q} 2>&1"


rule publish_findings:
    input:
        "results/breadth/findings{suffix}",
    output:
        "results/findings{suffix}",
    log:
        "results/logs/publish_findings{suffix}.log",
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Publishing the findings ({wildcards.suffix})"
    shell:
        "cp {input:q} {output:q} > {log:q} 2>&1"


rule breadth:
    input:
        files=breadth_files("breadth"),
        checked="results/breadth/checked.txt",
        findings=expand("results/findings{suffix}", suffix=FINDINGS),
    message:
        "The breadth is made"


rule breadth_slice:
    input:
        files=breadth_files("breadth-slice"),
        checked="results/breadth-slice/checked.txt",
        findings=expand("results/breadth-slice/findings{suffix}", suffix=FINDINGS),
    message:
        "The slice of the breadth is made"
