# Takes: PyTorch's own list of configurations, burn as it is built. Gives: each configuration as Rust
# that pitb port writes, built in one crate, trained on both sides and judged.
#
# `port` does not belong to `rule all`.


rule port:
    input:
        summary="results/port/summary.txt",
    message:
        "Every configuration of PyTorch's list is ported"


rule port_configurations:
    input:
        script=lazily("port_configurations.py"),
        sources=rust_sources(),
        lock=ROOT / "requirements.lock",
        programs=[program(name) for name in PROGRAMS],
    output:
        tables=[
            f"results/port/port{suffix}"
            for suffix in (".md", ".zh.md", ".csv", ".json")
        ],
        crate=directory("results/port/crate/src"),
        summary="results/port/summary.txt",
    log:
        "results/logs/port_configurations.log",
    benchmark:
        "results/benchmarks/port_configurations.tsv"
    threads: 64  # as many as there are: Snakemake caps it at --cores
    resources:
        mem_mb=with_threads(4000, 1000),
        runtime=at_each_attempt(120),
    params:
        root=ROOT,
        target=TARGET,
    message:
        "Porting every configuration of PyTorch's list, building and training it"
    shell:
        "python {input.script[0]:q} --root {params.root:q} --target-dir {params.target:q}"
        " --out results/port > {log:q} 2>&1"
