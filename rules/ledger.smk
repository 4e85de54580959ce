# Takes: the comparisons, and the figures of all tables and the published ones. Gives: the list of
# comparisons, the ledger, and their verdict.


rule summarise_comparisons:
    input:
        script=script("summarise_comparisons.py"),
        comparisons=COMPARISONS,
    output:
        csv="results/comparisons.csv",
        markdown="results/comparisons.md",
        summary="results/comparisons.summary",
    log:
        "results/logs/summarise_comparisons.log",
    benchmark:
        "results/benchmarks/summarise_comparisons.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Listing all comparisons"
    shell:
        "python {input.script[0]:q} {input.comparisons:q} --out results/comparisons"
        " > {log:q} 2>&1"


rule make_ledger:
    input:
        script=script("make_ledger.py"),
        published=PUBLISHED,
        figures=[f"results/tables/{page}/figures.csv" for page in CONFIG.pages],
    output:
        csv="results/ledger.csv",
        markdown="results/ledger.md",
        parquet="results/ledger.parquet",
        summary="results/ledger.summary",
    log:
        "results/logs/make_ledger.log",
    benchmark:
        "results/benchmarks/make_ledger.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Judging every published figure"
    shell:
        "python {input.script[0]:q} --published {input.published:q}"
        " --figures {input.figures:q} --out results/ledger > {log:q} 2>&1"


# A rule of its own: where a figure was not reproduced this fails, and the ledger stays.
rule check_results:
    input:
        script=script("check_results.py"),
        comparisons="results/comparisons.csv",
        ledger=LEDGER,
        published=PUBLISHED,
    output:
        ok="results/checked.txt",
    log:
        "results/logs/check_results.log",
    benchmark:
        "results/benchmarks/check_results.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    params:
        ledger=f"--ledger {LEDGER[0]}" if LEDGER else "",
    message:
        "Checking that every pair was compared and every published figure reproduced"
    shell:
        "python {input.script[0]:q} --comparisons {input.comparisons:q} {params.ledger}"
        " --published {input.published:q} --out {output.ok:q} > {log:q} 2>&1"
