# Takes: the Rust sources. Gives: the burn programs, by one call of cargo, and the library that
# compares large traces by hand.


# On a cluster, where Snakemake is called: nodes often have no network to fetch crates from.
localrules:
    build_programs,
    build_comparison,


rule build_programs:
    input:
        sources=rust_sources(),
    output:
        programs=[program(name) for name in PROGRAMS],
    log:
        "results/logs/build_programs.log",
    benchmark:
        "results/benchmarks/build_programs.tsv"
    threads: 64  # as many as there are: Snakemake caps it at --cores
    resources:
        mem_mb=with_threads(4000, 3000),
        runtime=at_each_attempt(120),
    params:
        manifest=ROOT / "Cargo.toml",
        target=TARGET,
        check=SCRIPTS / "bootstrap.py",
    message:
        "Building the burn programs (the first time takes minutes)"
    # cargo leaves alone what it finds unchanged; touch says that this was looked at.
    shell:
        "(python {params.check:q} --check cargo &&"
        " cargo build --release --locked --workspace --jobs {threads}"
        " --manifest-path {params.manifest:q} --target-dir {params.target:q} &&"
        " touch {output.programs:q}) 2>&1 | tee {log:q} >&2"


# The call above builds it too, so nothing is built twice; and an edit of it trains nothing anew.
rule build_comparison:
    input:
        sources=comparison_sources(),
        programs=ancient([program(name) for name in PROGRAMS]),
    output:
        library=COMPARISON_LIBRARY,
    log:
        "results/logs/build_comparison.log",
    benchmark:
        "results/benchmarks/build_comparison.tsv"
    threads: 64  # as many as there are: Snakemake caps it at --cores
    resources:
        mem_mb=with_threads(2000, 500),
        runtime=at_each_attempt(30),
    params:
        manifest=ROOT / "Cargo.toml",
        target=TARGET,
        check=SCRIPTS / "bootstrap.py",
    message:
        "Building the library that compares large traces"
    shell:
        "(python {params.check:q} --check cargo &&"
        " cargo build --release --locked --package pitb-compare --jobs {threads}"
        " --manifest-path {params.manifest:q} --target-dir {params.target:q} &&"
        " touch {output.library:q}) 2>&1 | tee {log:q} >&2"
