# Takes: the burn programs and the compiler. Gives: what the pages show that is no trace.


rule record_burn_defaults:
    input:
        program=program("optdef"),
    output:
        defaults="results/evidence/defaults/burn.json",
    log:
        "results/logs/record_burn_defaults.log",
    benchmark:
        "results/benchmarks/record_burn_defaults.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Asking burn for its defaults"
    shell:
        "{input.program:q} --defaults {output.defaults:q} > {log:q} 2>&1"


rule record_moves:
    input:
        script=script("record_moves.py"),
        program=program("moves"),
    output:
        moves="results/evidence/moves/burn.json",
    log:
        "results/logs/record_moves.log",
    benchmark:
        "results/benchmarks/record_moves.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(1000),
        runtime=at_each_attempt(10),
    message:
        "Following the tensors of one step on burn's side"
    shell:
        "python {input.script[0]:q} --program {input.program:q} --out {output.moves:q}"
        " > {log:q} 2>&1"


rule probe_compiler:
    input:
        script=script("probe_compiler.py"),
        probes=[
            ROOT / f"crates/train-one/src/bin/{name}.rs"
            for name in ("noassign", "must_use")
        ],
        program=program("discard"),
    output:
        noassign="results/evidence/noassign.json",
        discard="results/evidence/discard.json",
        must_use="results/evidence/must-use.json",
    log:
        "results/logs/probe_compiler.log",
    benchmark:
        "results/benchmarks/probe_compiler.tsv"
    threads: 1
    resources:
        mem_mb=at_each_attempt(4000),
        runtime=at_each_attempt(60),
    params:
        root=ROOT,
        target=TARGET,
    message:
        "Asking the compiler about steps that are not assigned, dropped, or marked (builds where it must)"
    shell:
        "python {input.script[0]:q} --root {params.root:q} --target-dir {params.target:q}"
        " --noassign {output.noassign:q} --discard {output.discard:q}"
        " --must-use {output.must_use:q} > {log:q} 2>&1"
