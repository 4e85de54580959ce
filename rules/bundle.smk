# Takes: all that rule all makes, and what of the breadth and the findings is there; the sources as
# git tracks them. Gives: one zip of it that others can check, and what the checks say of it.
#
# `bundle` is all of it. It does not belong to `rule all`.


localrules:
    bundle,


rule bundle:
    input:
        record="results/bundles/latest.json",
        crate="results/bundles/crate.txt",
        verified="results/bundles/verified.txt",
    message:
        "The bundle is made and checked"


# The bundle's name has its hash in it, so what is known before is the file that names it.
rule make_bundle:
    input:
        script=lazily("make_bundle.py"),
        checked="results/checked.txt",
        comparisons=COMPARISONS,
        preflight=PREFLIGHTS,
        runs=RUN_FILES,
        evidence=EVIDENCE,
        tables=list(TABLE_FILES.values()),
        ledger=LEDGER,
        summaries=SUMMARIES,
        config=config_files(),
        schema=ROOT / "config/schema.json",
        citation=ROOT / "CITATION.cff",
    output:
        record="results/bundles/latest.json",
    log:
        "results/logs/make_bundle.log",
    benchmark:
        "results/benchmarks/make_bundle.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(30),
    params:
        root=ROOT,
        dirty="--allow-dirty" if os.getenv("PITB_ALLOW_DIRTY") else "",
    message:
        "Making a bundle"
    shell:
        "python {input.script[0]:q} --root {params.root:q} --results results"
        " --config {input.config:q} --schema {input.schema:q} --out results/bundles"
        " --record {output.record:q} {params.dirty} > {log:q} 2>&1"


rule check_crate:
    input:
        script=lazily("check_crate.py"),
        record="results/bundles/latest.json",
    output:
        said="results/bundles/crate.txt",
    log:
        "results/logs/check_crate.log",
    benchmark:
        "results/benchmarks/check_crate.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(30),
    message:
        "Asking the RO-Crate validator about the bundle"
    shell:
        "python {input.script[0]:q} {input.record:q} --out {output.said:q} > {log:q} 2>&1"


rule verify_bundle:
    input:
        script=lazily("verify_bundle.py"),
        record="results/bundles/latest.json",
    output:
        said="results/bundles/verified.txt",
    log:
        "results/logs/verify_bundle.log",
    benchmark:
        "results/benchmarks/verify_bundle.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(60),
    message:
        "Verifying the bundle as a stranger would"
    shell:
        "python {input.script[0]:q} {input.record:q} --out {output.said:q} > {log:q} 2>&1"
