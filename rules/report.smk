# Takes: tables, comparisons and traces, and the breadth, the explanations and the port where they
# were made. Gives: what a report shows: pictures, each table as a page, versions and machine.
#
# `snakemake --report report.html` makes it first where it is missing or stale (common.smk). None of
# it belongs to `rule all`: to import matplotlib alone takes a second.


localrules:
    reported,
    copy_stylesheet,
    plots,


rule reported:
    input:
        [f"results/{item.path}" for item in REPORTED],
        STYLESHEET,
    message:
        "All that a report shows is made"


# Where the profile of this project says that it is, from any working folder.
rule copy_stylesheet:
    input:
        ROOT / "report/stylesheet.css",
    output:
        STYLESHEET,
    log:
        "results/logs/copy_stylesheet.log",
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Copying the report's stylesheet"
    shell:
        "cp {input:q} {output:q} > {log:q} 2>&1"


rule plots:
    input:
        [f"results/{item.path}" for item in REPORTED if item.path.startswith("plots/")],
    message:
        "All is drawn"


if CONFIG.pairs:

    rule draw_plots:
        input:
            script=lazily("draw_plots.py"),
            comparisons=COMPARISONS,
            traces=sorted(
                {
                    f"results/traces/{run}.parquet"
                    for pair in CONFIG.pairs
                    for run in (pair.a, pair.b)
                }
            ),
            lock=ROOT / "requirements.lock",
        output:
            plots=[shown(item) for item in reported.pictures(CONFIG)],
        log:
            "results/logs/draw_plots.log",
        benchmark:
            "results/benchmarks/draw_plots.tsv"
        threads: 1
        resources:
            mem_mb=at_each_attempt(1000),
            runtime=at_each_attempt(30),
        params:
            pairs=" ".join(f"--pair {pair.a} {pair.b}" for pair in CONFIG.pairs),
        message:
            "Drawing every comparison"
        shell:
            "python {input.script[0]:q} {params.pairs} --results results > {log:q} 2>&1"


for scope in reported.SCOPE_NAMES:

    rule:
        name:
            f"draw_breadth_plots_{scope.replace('-', '_')}"
        input:
            script=lazily("draw_breadth_plots.py"),
            coverage=f"results/{scope}/coverage.json",
            kills=f"results/{scope}/kills.csv",
            lock=ROOT / "requirements.lock",
        output:
            plots=[shown(item) for item in reported.breadth_pictures(scope)],
        log:
            f"results/logs/draw_{scope}_plots.log",
        benchmark:
            f"results/benchmarks/draw_{scope}_plots.tsv"
        threads: 1
        resources:
            mem_mb=at_each_attempt(1000),
            runtime=at_each_attempt(30),
        message:
            f"Drawing coverage and kills ({scope})"
        shell:
            "python {input.script[0]:q} --coverage {input.coverage:q} --kills {input.kills:q}"
            " --out {output.plots:q} > {log:q} 2>&1"


rule record_versions:
    input:
        script=lazily("record_versions.py"),
        traces=[path for path in RUN_FILES if path.endswith(".parquet")],
        lock=ROOT / "requirements.lock",
    output:
        tables=[f"results/versions{suffix}" for suffix in (".md", ".zh.md", ".csv")],
    log:
        "results/logs/record_versions.log",
    benchmark:
        "results/benchmarks/record_versions.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Recording versions and machine"
    shell:
        "python {input.script[0]:q} {input.traces:q} --out results/versions > {log:q} 2>&1"


for group, items in PAGE_GROUPS.items():

    rule:
        name:
            f"write_pages_{group.replace('-', '_')}"
        input:
            script=lazily("write_pages.py"),
            sources=[f"results/{path}" for item in items for path in item.sources],
        output:
            pages=[shown(item) for item in items],
        log:
            f"results/logs/write_pages_{group}.log",
        benchmark:
            f"results/benchmarks/write_pages_{group}.tsv"
        threads: 1
        resources:
            mem_mb=at_each_attempt(1000),
            runtime=at_each_attempt(10),
        params:
            pages=" ".join(
                " ".join(
                    ["--page", *(f"results/{p}" for p in (item.path, *item.sources))]
                )
                for item in items
            ),
        message:
            f"Writing the report's pages ({group})"
        shell:
            "python {input.script[0]:q} {params.pages} > {log:q} 2>&1"
