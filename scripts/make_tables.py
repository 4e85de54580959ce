"""Make one page's tables from what the runs left behind."""

from pathlib import Path

from pitb import arguments as command_line
from pitb import tables
from pitb.errors import run_main
from pitb.pages import PAGES
from pitb.pages.builders import build
from pitb.pages.sources import Sources

EXAMPLES = """  python scripts/make_tables.py one-step --results results"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("page", choices=PAGES)
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    arguments = parser.parse_args()
    made = build(arguments.page, Sources(arguments.results))
    for table in made:
        if table.error is not None:
            print(f"{table.name}: {table.error}")
    tables.write(made, arguments.results / "tables" / arguments.page)


if __name__ == "__main__":
    run_main(main)
