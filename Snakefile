# PyTorch into burn: run -> trace -> comparison -> table -> ledger.
from snakemake.utils import min_version

min_version("9.0")


report: "report/workflow.rst"


include: "rules/common.smk"


localrules:
    all,


# Every run and every comparison of the configuration, also those that no page needs; and every
# file that people read, so that one that was deleted is made again.
rule all:
    input:
        checked="results/checked.txt",
        comparisons=COMPARISONS,
        preflight=PREFLIGHTS,
        runs=RUN_FILES,
        evidence=EVIDENCE,
        library=COMPARISON_LIBRARY,
        tables=list(TABLE_FILES.values()),
        ledger=LEDGER,
        summaries=SUMMARIES,
        # For --report alone, which shows the files of the jobs that lead here.
        reported=[f"results/{item.path}" for item in REPORTED] if REPORTING else [],
    message:
        "All is made"


include: "rules/build.smk"
include: "rules/runs.smk"
include: "rules/evidence.smk"
include: "rules/compare.smk"
include: "rules/tables.smk"
include: "rules/ledger.smk"
include: "rules/breadth.smk"
include: "rules/findings.smk"
include: "rules/explain.smk"
include: "rules/port.smk"
include: "rules/record.smk"
include: "rules/diagnose.smk"
include: "rules/bundle.smk"
include: "rules/report.smk"
include: "rules/watch.smk"
include: "rules/sweeps.smk"


onstart:
    write_sweep_plans()


onsuccess:
    end_at_once()
    if not os.getenv("PITB_SAY_SUMMARY_LATER"):
        print_summary()


onerror:
    end_at_once()
    # Only then do the summaries speak of this call.
    if failed_in("check_results", log):
        print_summary()
