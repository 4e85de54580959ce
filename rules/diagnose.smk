# Takes: the pages' traces and the slice of the breadth. Gives: which of their configurations are
# found again from the numbers alone: all of the pages' runs, and of the slice a sample drawn by name
# for each optimizer and side. It belongs to no other target, and takes some 20 minutes on two cores.

SAMPLE = 24


rule diagnose_runs:
    input:
        script=lazily("diagnose_runs.py"),
        runs=RUN_FILES,
        plans=[path.format(scope="breadth-slice") for path in PLANS],
        traces=[
            f"results/breadth-slice/traces/{key}/{side}"
            for key in OPTIMIZERS
            for side in ("pytorch", "burn")
        ],
    output:
        runs="results/diagnose/recovered.csv",
        counts="results/diagnose/recovered.md",
        counts_zh="results/diagnose/recovered.zh.md",
        summary="results/diagnose/summary.txt",
    log:
        "results/logs/diagnose_runs.log",
    benchmark:
        "results/benchmarks/diagnose_runs.tsv"
    threads: 64  # as many as the call has
    resources:
        mem_mb=with_threads(1000, 1000),
        runtime=at_each_attempt(240),
    params:
        sample=SAMPLE,
    message:
        "Diagnosing runs whose configuration is withheld (results/logs/diagnose_runs.log counts)"
    shell:
        "python {input.script[0]:q} --pages results/traces --breadth results/breadth-slice"
        " --sample {params.sample} --jobs {threads} --out results/diagnose > {log:q} 2>&1"


rule diagnose:
    input:
        "results/diagnose/recovered.md",
        "results/diagnose/recovered.zh.md",
        "results/diagnose/recovered.csv",
        "results/diagnose/summary.txt",
    message:
        "The runs are diagnosed"
