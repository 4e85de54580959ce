"""Diagnose runs with their configuration withheld, and say which were recovered."""

import multiprocessing
import os
from pathlib import Path

from pitb import arguments as command_line
from pitb.diagnose import survey
from pitb.errors import run_main

EXAMPLES = """  python scripts/diagnose_runs.py --pages results/traces --out results/diagnose
  python scripts/diagnose_runs.py --breadth results/breadth-slice --sample 5 --out /tmp/diagnose"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--pages", type=Path, help="the folder of the pages' traces")
    parser.add_argument("--breadth", type=Path, nargs="*", default=[], help="results/breadth-slice")
    parser.add_argument(
        "--sample", type=int, default=0, help="so many of each optimizer and side (default: all)"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the sheets")
    arguments = parser.parse_args()
    items = survey.pages(arguments.pages) if arguments.pages else []
    for folder in arguments.breadth:
        items += survey.breadth(folder, arguments.sample)
    records = []
    # A fork would inherit the threads of libraries, a spawned process works on every system.
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        for number, found in enumerate(pool.imap(survey.record, items, chunksize=1), 1):
            print(
                f"{number} of {len(items)}: {found['side']}/{found['run']}: {found['outcome']} "
                f"({found['seconds']} s) {found['reason']}",
                flush=True,
            )
            records.append(found)
    survey.write(records, arguments.out)
    print(survey.summary(records))


if __name__ == "__main__":
    run_main(main)
