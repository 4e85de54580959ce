# Takes: traces of the comparisons that say `explain: true`. Gives: for each of them what differs and
# what each difference costs, in both languages, as JSON, and drawn. Not part of rule all.


localrules:
    explain,


rule explain:
    input:
        EXPLANATIONS,
    message:
        "All is explained that is to be"


if EXPLANATIONS:

    rule explain_pairs:
        input:
            script=lazily("explain_pairs.py"),
            traces=sorted(
                {
                    f"results/traces/{run}.parquet"
                    for pair in CONFIG.explained()
                    for run in (pair.a, pair.b)
                }
            ),
        output:
            explained=[path for path in EXPLANATIONS if not path.endswith(".svg")],
            drawn=[
                shown(item)
                for item in reported.explanation_pictures(CONFIG.explained())
            ],
        log:
            "results/logs/explain_pairs.log",
        benchmark:
            "results/benchmarks/explain_pairs.tsv"
        threads: 1
        resources:
            mem_mb=at_each_attempt(1000),
            runtime=at_each_attempt(30),
        params:
            pairs=" ".join(
                f"--pair {pair.a} {pair.b} {pair.tolerance!r}"
                for pair in CONFIG.explained()
            ),
        message:
            "Explaining pairs of runs"
        shell:
            "python {input.script[0]:q} {params.pairs} --results results > {log:q} 2>&1"
