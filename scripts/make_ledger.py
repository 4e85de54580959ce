"""Judge every published figure against the tables and write the ledger."""

from pathlib import Path

from pitb import arguments as command_line
from pitb import ledger, tables
from pitb.errors import run_main
from pitb.files import write_text

EXAMPLES = """  python scripts/make_ledger.py --published config/published/*.csv \\
    --figures results/tables/*/figures.csv --out results/ledger"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--published", type=Path, nargs="+", required=True, help="CSV, one a page")
    parser.add_argument("--figures", type=Path, nargs="+", required=True, help="CSV, one a page")
    parser.add_argument("--out", type=Path, required=True, help="the ledger, without its suffix")
    arguments = parser.parse_args()
    rows = []
    for published, figures in zip(arguments.published, arguments.figures, strict=True):
        rows += ledger.judge(ledger.read_published(published), tables.read_figures(figures))
    ledger.write(rows, *(arguments.out.with_suffix(suffix) for suffix in ledger.SUFFIXES))
    summary = ledger.summary(rows)
    write_text(arguments.out.with_suffix(".summary"), summary + "\n")
    print(summary)


if __name__ == "__main__":
    run_main(main)
