# Takes: the configuration and the burn programs. Gives: a trace of every run.


# One file for each process. Those who read it call it ancient: they run again when what concerns
# them changes, which their digest says, and not whenever another run was edited.
rule resolve_runs:
    input:
        script=script("resolve_runs.py"),
        config=config_files(),
        schema=ROOT / "config/schema.json",
    output:
        batches=[f"results/batches/{name}.json" for name in ALL_BATCHES],
    log:
        "results/logs/resolve_runs.log",
    benchmark:
        "results/benchmarks/resolve_runs.tsv"
    params:
        overrides=json.dumps(config_overrides()),
    message:
        "Resolving the configuration into batches"
    shell:
        "python {input.script[0]:q} --config {input.config:q} --schema {input.schema:q}"
        " --overrides {params.overrides:q} --out results/batches > {log:q} 2>&1"


for name, batch in PYTORCH_BATCHES.items():

    rule:
        name:
            f"train_{name.replace('-', '_')}"
        input:
            script=script("train_pytorch.py"),
            batch=ancient(f"results/batches/{name}.json"),
        output:
            results(batches.outputs(batch)),
        log:
            f"results/logs/train_{name}.log",
        benchmark:
            f"results/benchmarks/train_{name}.tsv"
        params:
            digest=batch_digest(batch),
        message:
            f"Training {len(batch['runs'])} runs on PyTorch's side ({name})"
        shell:
            "python {input.script[0]:q} --batch {input.batch:q} --results results"
            " > {log:q} 2>&1"


for program_name, program_batches in BURN_BATCHES.items():
    for name, batch in program_batches.items():

        rule:
            name:
                f"train_{name.replace('-', '_')}"
            input:
                program=program(program_name),
                batch=ancient(f"results/batches/{name}.json"),
            output:
                results(batches.outputs(batch, program_name)),
            log:
                f"results/logs/train_{name}.log",
            benchmark:
                f"results/benchmarks/train_{name}.tsv"
            params:
                digest=batch_digest(batch),
                jsons=(
                    "--jsons results/evidence/train-step"
                    if program_name == batches.TRAIN_STEP
                    else ""
                ),
            message:
                f"Training {len(batch['runs'])} runs on burn's side ({name})"
            shell:
                "{input.program:q} --runs {input.batch:q} --traces results/traces"
                " {params.jsons} > {log:q} 2>&1"
