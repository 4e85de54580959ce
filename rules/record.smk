# Takes: the worked example of docs/recording.md, a small network on real digits. Gives: its traces
# on both sides, recorded by the training loops themselves, how they compare, what the diagnosis of
# the two says, and the ported optimizer.
#
# `digits` is all of it. It does not belong to `rule all`.


localrules:
    build_digits,


DIGITS = ROOT / "examples/digits/digits.py"


rule digits:
    input:
        summary="results/digits/summary.md",
        diagnosis="results/digits/diagnosis.md",
    message:
        "The worked example is made"


rule build_digits:
    input:
        sources=rust_sources(),
    output:
        program=TARGET / "release/examples/digits",
    log:
        "results/logs/build_digits.log",
    benchmark:
        "results/benchmarks/build_digits.tsv"
    threads: 64  # as many as there are: Snakemake caps it at --cores
    resources:
        mem_mb=with_threads(4000, 3000),
        runtime=at_each_attempt(120),
    params:
        manifest=ROOT / "Cargo.toml",
        target=TARGET,
    message:
        "Building the burn side of the worked example"
    shell:
        "(cargo build --release --locked -p pitb-record --example digits --jobs {threads}"
        " --manifest-path {params.manifest:q} --target-dir {params.target:q} &&"
        " touch {output.program:q}) > {log:q} 2>&1"


rule write_digits:
    input:
        script=DIGITS,
        lock=ROOT / "requirements.lock",
    output:
        data="results/digits/data.json",
    log:
        "results/logs/write_digits.log",
    benchmark:
        "results/benchmarks/write_digits.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(10),
    params:
        package=SCRIPTS,
    message:
        "Writing the digits and the initial parameters"
    shell:
        "PYTHONPATH={params.package:q} python {input.script:q} data {output.data:q} > {log:q} 2>&1"


rule train_digits_pytorch:
    input:
        script=DIGITS,
        package=lambda wildcards: script("pitb/record.py"),
        data="results/digits/data.json",
        lock=ROOT / "requirements.lock",
    output:
        trace=directory("results/digits/traces/pytorch"),
    log:
        "results/logs/train_digits_pytorch.log",
    benchmark:
        "results/benchmarks/train_digits_pytorch.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(30),
    params:
        package=SCRIPTS,
    message:
        "Training and recording the worked example on PyTorch's side"
    shell:
        "PYTHONPATH={params.package:q} python {input.script:q} train {input.data:q}"
        " --trace {output.trace:q} > {log:q} 2>&1"


rule train_digits_burn:
    input:
        program=TARGET / "release/examples/digits",
        data="results/digits/data.json",
    output:
        trace=directory("results/digits/traces/burn-{version}"),
    log:
        "results/logs/train_digits_burn_{version}.log",
    benchmark:
        "results/benchmarks/train_digits_burn_{version}.tsv"
    wildcard_constraints:
        version="naive|fixed",
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(30),
    params:
        fixed=lambda wildcards: "--fixed" if wildcards.version == "fixed" else "",
    message:
        "Training and recording the worked example on burn's side ({wildcards.version})"
    shell:
        "{input.program:q} {input.data:q} {output.trace:q} {params.fixed} > {log:q} 2>&1"


rule compare_digits:
    input:
        script=lazily("compare_digits.py"),
        pytorch="results/digits/traces/pytorch",
        naive="results/digits/traces/burn-naive",
        fixed="results/digits/traces/burn-fixed",
    output:
        summary="results/digits/summary.md",
    log:
        "results/logs/compare_digits.log",
    benchmark:
        "results/benchmarks/compare_digits.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Comparing the recorded trainings"
    shell:
        "python {input.script[0]:q} {input.pytorch:q} {input.naive:q} {input.fixed:q}"
        " --out {output.summary:q} > {log:q} 2>&1"


rule diagnose_digits:
    input:
        script=lazily("diagnose_digits.py"),
        commands=lambda wildcards: script("pitb/cli/diagnose.py")
        + script("pitb/cli/port.py"),
        training=DIGITS,
        pytorch="results/digits/traces/pytorch",
        naive="results/digits/traces/burn-naive",
        fixed="results/digits/traces/burn-fixed",
    output:
        diagnosis="results/digits/diagnosis.md",
    log:
        "results/logs/diagnose_digits.log",
    benchmark:
        "results/benchmarks/diagnose_digits.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(30),
    params:
        package=SCRIPTS,
    message:
        "Diagnosing the recorded trainings, and porting the optimizer"
    shell:
        "PYTHONPATH={params.package:q} python {input.script[0]:q} {input.pytorch:q} {input.naive:q}"
        " {input.fixed:q} --script {input.training:q} --out {output.diagnosis:q} > {log:q} 2>&1"
