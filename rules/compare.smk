# Takes: pairs of traces. Gives: a comparison of each, after a preflight on their initial states.

for name, batch in PAIR_BATCHES.items():

    rule:
        name:
            name.replace("-", "_traces_")
        input:
            script=script("compare_traces.py"),
            config=ancient(config_files()),
            schema=ancient(ROOT / "config/schema.json"),
            traces=sorted(
                {
                    f"results/traces/{pair[side]}.parquet"
                    for pair in batch["pairs"]
                    for side in "ab"
                }
            ),
        output:
            comparisons=results(
                comparison_path(pair["a"], pair["b"]) for pair in batch["pairs"]
            ),
            preflight=f"results/evidence/preflight/{name}.json",
        log:
            f"results/logs/{name}.log",
        benchmark:
            f"results/benchmarks/{name}.tsv"
        threads: 1
        resources:
            mem_mb=at_each_attempt(1000),
            runtime=at_each_attempt(30),
        params:
            batch=name,
            digest=batches.digest_of(batch),
        message:
            f"Comparing {len(batch['pairs'])} pairs of traces ({name})"
        shell:
            "python {input.script[0]:q} {params.batch} --digest {params.digest}"
            " --config {input.config:q} --schema {input.schema:q} --results results"
            " --preflight {output.preflight:q} > {log:q} 2>&1"
