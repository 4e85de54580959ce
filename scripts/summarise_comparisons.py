"""List every comparison with its verdict, as Markdown and CSV, and count them."""

from pathlib import Path

from pitb import arguments as command_line
from pitb import compare, listing
from pitb.errors import run_main
from pitb.files import write_text

EXAMPLES = """  python scripts/summarise_comparisons.py results/comparisons/*.parquet \\
    --out comparisons"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("comparisons", type=Path, nargs="*", help="files of comparisons")
    parser.add_argument("--out", type=Path, required=True, help="the list, without its suffix")
    arguments = parser.parse_args()
    found = [compare.read(path) for path in arguments.comparisons]
    write_text(arguments.out.with_suffix(".csv"), listing.csv_text(found))
    write_text(arguments.out.with_suffix(".md"), listing.markdown(found))
    write_text(arguments.out.with_suffix(".summary"), compare.summary(found) + "\n")


if __name__ == "__main__":
    run_main(main)
