"""Say whether every published figure was reproduced; exit code 1 where one was not."""

import argparse
from pathlib import Path

from pitb import ledger
from pitb.errors import run_main
from pitb.files import write_text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ledger", type=Path, help="the ledger's CSV")
    parser.add_argument("--out", type=Path, help="file for the summary, where all is well")
    arguments = parser.parse_args()
    rows = ledger.read(arguments.ledger)
    summary = ledger.summary(rows)
    failed = ledger.failures(rows)
    for row in failed:
        found = f"reproduced {row.reproduced}" if row.reproduced else "not reproduced"
        print(
            f"{row.page} {row.table} / {row.row} / {row.column}: printed {row.printed}, {found} "
            f"({row.allowed})"
        )
    print(summary)
    if failed:
        return 1
    if arguments.out:
        write_text(arguments.out, summary + "\n")
    return 0


if __name__ == "__main__":
    run_main(main)
