"""Say whether every pair was compared and every published figure reproduced; exit code 1 if not."""

import csv
from pathlib import Path

from pitb import arguments as command_line
from pitb import ledger, listing
from pitb.errors import run_main
from pitb.files import read_text, write_text

EXAMPLES = """  python scripts/check_results.py --comparisons results/comparisons.csv \\
    --ledger results/ledger.csv --published config/published/*.csv --out results/checked.txt"""


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--comparisons", type=Path, required=True, help="the list of comparisons")
    parser.add_argument("--ledger", type=Path, help="the ledger's CSV, where there is one")
    parser.add_argument("--published", type=Path, nargs="*", default=[], help="CSV, one a page")
    parser.add_argument("--out", type=Path, required=True, help="written where all is well")
    arguments = parser.parse_args()
    failed = []
    for row in csv.DictReader(read_text(arguments.comparisons).splitlines()):
        if not listing.was_compared(row):
            failed.append(f"{row['a']} and {row['b']} were not compared: {row['error']}")
    rows = ledger.read(arguments.ledger) if arguments.ledger else []
    published = [figure for path in arguments.published for figure in ledger.read_published(path)]
    ledger.check_complete(rows, published)
    for figure in ledger.failures(rows):
        found = f"reproduced {figure.reproduced}" if figure.reproduced else "not reproduced"
        place = f"{figure.page} {figure.table} / {figure.row} / {figure.column}"
        failed.append(f"{place}: printed {figure.printed}, {found} ({figure.allowed})")
    for line in failed:
        print(line)
    if failed:
        return 1
    write_text(arguments.out, listing.CHECKED)
    return 0


if __name__ == "__main__":
    run_main(main)
