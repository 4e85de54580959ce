# PyTorch into burn: run -> trace -> comparison -> table -> ledger.
from snakemake.utils import min_version

min_version("9.0")


include: "rules/common.smk"


# What PyTorch and burn leave behind is never made of wildcards from outside.
wildcard_constraints:
    side="pytorch|burn",


localrules:
    all,


rule all:
    input:
        ledger="results/ledger.ok",
        markdown="results/ledger.md",
        parquet="results/ledger.parquet",
        step_jsons=STEP_JSONS,


include: "rules/build.smk"
include: "rules/runs.smk"
include: "rules/evidence.smk"
include: "rules/compare.smk"
include: "rules/tables.smk"
include: "rules/ledger.smk"


onsuccess:
    end_at_once()
    print_summary()


onerror:
    end_at_once()
