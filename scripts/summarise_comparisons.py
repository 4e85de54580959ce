"""List every comparison with its verdict, as Markdown and CSV, and count them."""

import csv
import io
from pathlib import Path

from pitb import arguments as command_line
from pitb import compare
from pitb.errors import run_main
from pitb.files import write_text

COLUMNS = ("a", "b", "verdict", "worst", "tolerance", "tensors", "error")

EXAMPLES = """  python scripts/summarise_comparisons.py results/comparisons/*.parquet \\
    --out comparisons"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("comparisons", type=Path, nargs="*", help="files of comparisons")
    parser.add_argument("--out", type=Path, required=True, help="the list, without its suffix")
    arguments = parser.parse_args()
    found = [compare.read(path) for path in arguments.comparisons]
    rows = [
        (c.a, c.b, c.verdict, f"{c.worst:.2e}", f"{c.tolerance:g}", str(len(c.rows)), c.error or "")
        for c in found
    ]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([COLUMNS, *rows])
    write_text(arguments.out.with_suffix(".csv"), buffer.getvalue())
    lines = [f"| {' | '.join(row)} |" for row in (COLUMNS, ["---"] * len(COLUMNS), *rows)]
    summary = compare.summary(found)
    text = "\n".join(["# Comparisons", "", *lines, "", summary, ""])
    write_text(arguments.out.with_suffix(".md"), text)
    write_text(arguments.out.with_suffix(".summary"), summary + "\n")


if __name__ == "__main__":
    run_main(main)
