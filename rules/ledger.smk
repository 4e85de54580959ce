# Takes: the figures of all tables and the published ones. Gives: the ledger, and its verdict.


rule make_ledger:
    input:
        script=script("make_ledger.py"),
        published=[ROOT / f"config/published/{page}.csv" for page in PAGES],
        figures=[f"results/tables/{page}/figures.csv" for page in PAGES],
    output:
        csv="results/ledger.csv",
        markdown="results/ledger.md",
        parquet="results/ledger.parquet",
        summary="results/ledger.summary",
    log:
        "results/logs/make_ledger.log",
    benchmark:
        "results/benchmarks/make_ledger.tsv"
    message:
        "Judging every published figure"
    shell:
        "python {input.script[0]:q} --published {input.published:q}"
        " --figures {input.figures:q} --out results/ledger > {log:q} 2>&1"


# A rule of its own: where a figure was not reproduced this fails, and the ledger stays.
rule check_ledger:
    input:
        script=script("check_ledger.py"),
        ledger="results/ledger.csv",
        preflight=[f"results/evidence/preflight/{name}.json" for name in PAIR_BATCHES],
    output:
        ok="results/ledger.ok",
    log:
        "results/logs/check_ledger.log",
    benchmark:
        "results/benchmarks/check_ledger.tsv"
    message:
        "Checking that every published figure was reproduced"
    shell:
        "python {input.script[0]:q} {input.ledger:q} --out {output.ok:q} > {log:q} 2>&1"
