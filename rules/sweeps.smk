# Takes: config/sweeps/*.yaml and the burn program. Gives: the traces, comparisons and outcomes of
# thousands of runs, a job for each batch of them and stage, and a summary.
#
# `sweeps` does not belong to `rule all`. A sweep is expanded only where a target asks for it.


rule sweeps:
    input:
        lambda wildcards: expand(
            "results/sweeps/{sweep}/summary.md", sweep=sweep_names()
        ),
    message:
        "The sweeps are made"


# The sweep is ancient to a batch: it runs again when its digest changes, and not whenever another
# run was edited. The plan is no rule's output: Snakemake does not ask for the digest of a job that
# stands behind one that runs.
rule train_sweep_pytorch:
    input:
        script=lazily("train_sweep_pytorch.py"),
        sweep=lambda wildcards: ancient(sweep_file(wildcards.sweep)),
        # Another PyTorch is another result.
        lock=ROOT / "requirements.lock",
    output:
        traces="results/sweeps/{sweep}/traces/pytorch-{batch}.parquet",
    log:
        "results/logs/sweeps/{sweep}/pytorch-{batch}.log",
    benchmark:
        "results/benchmarks/sweeps/{sweep}/pytorch-{batch}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(60),
    params:
        digest=sweep_digest(0),
    message:
        "Training batch {wildcards.batch} of {wildcards.sweep} on PyTorch's side"
    shell:
        "python {input.script[0]:q} {wildcards.batch} --digest {params.digest}"
        " --plan results/sweeps/{wildcards.sweep}/plan --out {output.traces:q} > {log:q} 2>&1"


rule train_sweep_burn:
    input:
        script=lazily("train_sweep_burn.py"),
        sweep=lambda wildcards: ancient(sweep_file(wildcards.sweep)),
        program=program("optdef"),
    output:
        traces="results/sweeps/{sweep}/traces/burn-{batch}.parquet",
    log:
        "results/logs/sweeps/{sweep}/burn-{batch}.log",
    benchmark:
        "results/benchmarks/sweeps/{sweep}/burn-{batch}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(60),
    params:
        digest=sweep_digest(0),
    message:
        "Training batch {wildcards.batch} of {wildcards.sweep} on burn's side"
    shell:
        "python {input.script[0]:q} {wildcards.batch} --digest {params.digest}"
        " --plan results/sweeps/{wildcards.sweep}/plan --program {input.program:q}"
        " --out {output.traces:q} > {log:q} 2>&1"


rule compare_sweep:
    input:
        script=lazily("compare_sweep.py"),
        sweep=lambda wildcards: ancient(sweep_file(wildcards.sweep)),
        pytorch="results/sweeps/{sweep}/traces/pytorch-{batch}.parquet",
        burn="results/sweeps/{sweep}/traces/burn-{batch}.parquet",
    output:
        comparisons="results/sweeps/{sweep}/comparisons/{batch}.parquet",
        outcomes="results/sweeps/{sweep}/outcomes/{batch}.parquet",
    log:
        "results/logs/sweeps/{sweep}/compare-{batch}.log",
    benchmark:
        "results/benchmarks/sweeps/{sweep}/compare-{batch}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(60),
    params:
        digest=sweep_digest(0),
        comparing=sweep_digest(1),
    message:
        "Comparing batch {wildcards.batch} of {wildcards.sweep}"
    shell:
        "python {input.script[0]:q} {wildcards.batch} --digest {params.digest}"
        " --folder results/sweeps/{wildcards.sweep} > {log:q} 2>&1"


rule summarise_sweep:
    input:
        script=lazily("summarise_sweep.py"),
        sweep=lambda wildcards: sweep_file(wildcards.sweep),
        outcomes=lambda wildcards: expand(
            "results/sweeps/{sweep}/outcomes/{batch}.parquet",
            sweep=wildcards.sweep,
            batch=sweep_batches(wildcards.sweep),
        ),
    output:
        runs="results/sweeps/{sweep}/runs.parquet",
        tables=[
            f"results/sweeps/{{sweep}}/summary{suffix}"
            for suffix in (".md", ".zh.md", ".csv")
        ],
        plots=[
            f"results/sweeps/{{sweep}}/plots/{name}.svg"
            for name in ("verdicts", "differences")
        ],
    log:
        "results/logs/summarise_sweep_{sweep}.log",
    benchmark:
        "results/benchmarks/summarise_sweep_{sweep}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1500),
        runtime=at_each_attempt(60),
    message:
        "Summing up the sweep {wildcards.sweep}"
    shell:
        "python {input.script[0]:q} --folder results/sweeps/{wildcards.sweep} > {log:q} 2>&1"
