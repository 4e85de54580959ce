# Takes: the project's own figures, and the versions that the configuration lists under `watch`.
# Gives: what each of them changes, and a table of all.
#
# `watch` does not belong to `rule all`. A version is built or installed in a folder of its own, below
# results/watch, which no rule lists as its output: so it stays, and is not made again.

WATCHED = [
    f"results/watch/{library}-{version}/facts.json" for library, version in CONFIG.watch
]
CHANGES = [
    f"results/watch/changes{suffix}" for suffix in (".md", ".zh.md", ".csv", ".json")
]


rule watch:
    input:
        changes=CHANGES if WATCHED else [],
    message:
        "Every version that is listed under watch is compared"


for library, version in CONFIG.watch:

    rule:
        name:
            f"watch_{library}_{re.sub('[^0-9A-Za-z]', '_', version)}"
        input:
            script=lazily("watch_version.py"),
            config=config_files(),
            schema=ROOT / "config/schema.json",
            sources=rust_sources() if library == "burn" else [],
            runs=RUN_FILES,
            evidence=EVIDENCE,
            figures=[f"results/tables/{page}/figures.csv" for page in CONFIG.pages],
        output:
            facts=f"results/watch/{library}-{version}/facts.json",
        log:
            f"results/logs/watch_{library}-{version}.log",
        benchmark:
            f"results/benchmarks/watch_{library}-{version}.tsv"
        threads: 64  # as many as there are: Snakemake caps it at --cores
        resources:
            mem_mb=with_threads(2000, 2000),
            runtime=at_each_attempt(240),
        params:
            library=library,
            version=version,
            overrides=json.dumps(config_overrides(), sort_keys=True),
        message:
            f"Watching {library} {version} (minutes and gigabytes, the first time)"
        shell:
            "python {input.script[0]:q} {params.library} {params.version:q} --jobs {threads}"
            " --config {input.config:q} --results results --out results/watch"
            " 2>&1 | tee {log:q} >&2"


if WATCHED:

    rule report_watch:
        input:
            script=lazily("report_watch.py"),
            facts=WATCHED,
        output:
            changes=CHANGES,
        log:
            "results/logs/report_watch.log",
        benchmark:
            "results/benchmarks/report_watch.tsv"
        threads: 1
        resources:
            mem_mb=at_each_attempt(1000),
            runtime=at_each_attempt(10),
        message:
            "Listing what other versions change"
        shell:
            "python {input.script[0]:q} {input.facts:q} --out results/watch > {log:q} 2>&1"
