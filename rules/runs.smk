# Takes: the configuration and the burn programs. Gives: a trace of every run.


# The configuration is ancient to a batch: it runs again when its digest changes, and not whenever
# another run was edited.
for name, batch in PYTORCH_BATCHES.items():

    rule:
        name:
            f"train_{name.replace('-', '_')}"
        input:
            script=script("train_pytorch.py"),
            config=ancient(config_files()),
            schema=ancient(ROOT / "config/schema.json"),
            # Another PyTorch is another result.
            lock=ROOT / "requirements.lock",
        output:
            files=results(batches.outputs(batch)),
        log:
            f"results/logs/train_{name}.log",
        benchmark:
            f"results/benchmarks/train_{name}.tsv"
        # The longest of all: begun last, it would be what everything waits for.
        priority: 1
        threads: CONFIG.threads
        resources:
            mem_mb=at_each_attempt(2000),
            runtime=at_each_attempt(60),
        params:
            batch=name,
            digest=batches.digest_of(batch),
        message:
            f"Training {len(batch['runs'])} runs on PyTorch's side ({name})"
        shell:
            "python {input.script[0]:q} {params.batch} --digest {params.digest}"
            " --config {input.config:q} --schema {input.schema:q} --results results"
            " > {log:q} 2>&1"


for program_name, program_batches in BURN_BATCHES.items():
    for name, batch in program_batches.items():

        rule:
            name:
                f"train_{name.replace('-', '_')}"
            input:
                script=script("train_burn.py"),
                program=program(program_name),
                config=ancient(config_files()),
                schema=ancient(ROOT / "config/schema.json"),
            output:
                files=results(batches.outputs(batch, program_name)),
                batch=f"results/batches/{name}.json",
            log:
                f"results/logs/train_{name}.log",
            benchmark:
                f"results/benchmarks/train_{name}.tsv"
            threads: 1
            resources:
                mem_mb=at_each_attempt(1000),
                runtime=at_each_attempt(60),
            params:
                batch=name,
                digest=batches.digest_of(batch),
            message:
                f"Training {len(batch['runs'])} runs on burn's side ({name})"
            shell:
                "python {input.script[0]:q} {params.batch} --digest {params.digest}"
                " --config {input.config:q} --schema {input.schema:q} --results results"
                " --program {input.program:q} > {log:q} 2>&1"
