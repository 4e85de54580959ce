# Takes: what the breadth has judged, burn's defaults, the schedules. Gives: every difference in a
# default or an equation, and for each equation two programs that reproduce it, built, run, checked.


rule make_findings:
    input:
        script=lazily("make_findings.py"),
        plans=PLANS,
        judged=[
            f"results/{{scope}}/judged/{key}/{file}"
            for key in OPTIMIZERS
            for file in ("outcomes.json", "kills.json", "rows.parquet")
        ],
        defaults="results/evidence/defaults/burn.json",
        schedules="results/evidence/schedules.json",
        program=program("optdef"),
        lock=ROOT / "requirements.lock",
    output:
        found="results/{scope}/findings.json",
        csv="results/{scope}/findings.csv",
        parquet="results/{scope}/findings.parquet",
        expected="results/{scope}/reproductions/expected.json",
    log:
        "results/logs/make_findings_{scope}.log",
    benchmark:
        "results/benchmarks/make_findings_{scope}.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(2000),
        runtime=at_each_attempt(30),
    message:
        "Finding every difference in a default or an equation ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} --scope results/{wildcards.scope} --defaults {input.defaults:q}"
        " --schedules {input.schedules:q} --program {input.program:q}"
        " --out results/{wildcards.scope} > {log:q} 2>&1"


# With the project's own build of burn, which nothing here builds again.
rule reproduce_findings:
    input:
        script=lazily("reproduce_findings.py"),
        found="results/{scope}/findings.json",
        expected="results/{scope}/reproductions/expected.json",
        manifests=[path / "Cargo.toml" for path in (ROOT, *cargo.members(ROOT))],
        lock=ROOT / "Cargo.lock",
        programs=[program(name) for name in PROGRAMS],
    output:
        pages=[f"results/{{scope}}/findings{suffix}.md" for suffix in ("", ".zh")],
    log:
        "results/logs/reproduce_findings_{scope}.log",
    benchmark:
        "results/benchmarks/reproduce_findings_{scope}.tsv"
    threads: 64  # as many as there are: Snakemake caps it at --cores
    resources:
        mem_mb=with_threads(4000, 1000),
        runtime=at_each_attempt(60),
    params:
        root=ROOT,
        target=TARGET,
    message:
        "Building and running the reproductions ({wildcards.scope})"
    shell:
        "python {input.script[0]:q} --findings results/{wildcards.scope} --root {params.root:q}"
        " --target-dir {params.target:q} > {log:q} 2>&1"
