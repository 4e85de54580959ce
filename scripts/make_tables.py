"""Make one page's tables from what the runs left behind."""

import argparse
from pathlib import Path

from pitb import tables
from pitb.errors import run_main
from pitb.pages import PAGES, one_step, optimizer_defaults
from pitb.pages.sources import Sources

BUILDERS = {"one-step": one_step.TABLES, "optimizer-defaults": optimizer_defaults.TABLES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", choices=PAGES)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    arguments = parser.parse_args()
    found = Sources(arguments.results)
    builders = BUILDERS[arguments.page]
    made = [builders[name](found) for name in PAGES[arguments.page].tables]
    tables.write(made, arguments.results / "tables" / arguments.page)


if __name__ == "__main__":
    run_main(main)
