"""Record which versions made the results and on which machine, as Markdown and CSV."""

import csv
import io
from pathlib import Path

from pitb import arguments as command_line
from pitb import trace, versions
from pitb.errors import run_main
from pitb.files import write_text
from pitb.labels import LANGUAGES
from pitb.tables import line

EXAMPLES = (
    """  python scripts/record_versions.py results/traces/*/*.parquet --out results/versions"""
)


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("traces", type=Path, nargs="+", help="traces of the runs")
    parser.add_argument("--out", type=Path, required=True, help="the table, without its suffix")
    arguments = parser.parse_args()
    rows = versions.rows(trace.read(path) for path in arguments.traces)
    for language, suffix in LANGUAGES.items():
        head = versions.HEAD[language]
        lines = [f"# {versions.TITLE[language]}", "", versions.NOTE[language], ""]
        lines += [line(head), line("---" for _ in head)]
        lines += [line((name[language], value)) for name, value in rows]
        write_text(Path(f"{arguments.out}{suffix}.md"), "\n".join([*lines, ""]))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([versions.HEAD["en"], *((name["en"], value) for name, value in rows)])
    write_text(Path(f"{arguments.out}.csv"), buffer.getvalue())


if __name__ == "__main__":
    run_main(main)
