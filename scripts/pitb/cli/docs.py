"""Fill the marks in Markdown documents with tables and figures of the results, or check them.

A table stands on lines of its own, a figure within a line:

  <!-- pitb:optimizer-defaults/mismatch column="step 10 max|dparam|" -->
  <!-- /pitb -->

  RMSprop ends <!-- pitb:optimizer-defaults/mismatch row=rmsprop
  column="step 10 max|dparam|" format=.2f --><!-- /pitb --> apart.

What is outside the marks stays as it is, to the byte; marks in code are text. Exit code 0 where all
is current or was filled, 1 where --check finds a place that is not, 2 where something is wrong:
then no file is written. docs/documents.md tells the whole of it.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitb.errors import PitbError

if TYPE_CHECKING:
    from pitb.docs.figures import Tables
    from pitb.docs.fill import Filled

HELP = "fill and check the tables and figures of Markdown documents"
EXAMPLES = """  pitb docs paper.md notes.md
  pitb docs --check paper.md --results ../pitb/results
  pitb docs --list
  pitb docs --check paper.md --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="Markdown files")
    parser.add_argument(
        "--results",
        type=Path,
        help="folder of results (default: results beside a document or above it, else in or above "
        "the working folder)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--check", action="store_true", help="write nothing; exit code 1 if stale")
    how.add_argument("--list", action="store_true", help="print every name that a mark can use")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Fill, check, or list."""
    from pitb.docs import fill, source
    from pitb.docs.figures import Tables

    given = Tables(source.folder(arguments.results)) if arguments.results else None
    found: dict[Path, Tables] = {}

    def contents(path: Path) -> Tables:
        if given is not None:
            return given
        folder = source.nearest_folder(path)
        return found.setdefault(folder.path, Tables(folder))

    if arguments.list:
        if arguments.files:
            raise PitbError("--list takes no file; it prints the names of the results")
        return _list(contents(Path("document")), arguments.json)
    if not arguments.files:
        raise PitbError("no file is named; pitb docs FILE... fills files, pitb docs --list prints "
                        "the names that marks can use")  # fmt: skip
    filled = fill.fill_all(arguments.files, contents)
    if not arguments.check:
        fill.write(filled)
    _report(filled, arguments.check, arguments.json)
    return int(arguments.check and any(item.stale for item in filled))


def _report(filled: "list[Filled]", check: bool, as_json: bool) -> None:
    if as_json:
        files = [
            {"file": str(item.document.path), "marks": item.marks, "notes": item.notes,
             "stale" if check else "filled": [asdict(stale) for stale in item.stale]}
            for item in filled
        ]  # fmt: skip
        print(json.dumps({"files": files}, indent=2, ensure_ascii=False))
        return
    for item in filled:
        for note in item.notes:
            print(f"note: {note}", file=sys.stderr)
        for stale in item.stale if check else ():
            print(stale)
        many = f"{item.marks} mark{'' if item.marks == 1 else 's'}"
        how = f"{len(item.stale)} {'stale' if check else 'filled anew'}"
        print(f"{item.document.path}: {many}, {how}")


def _list(tables: "Tables", as_json: bool) -> int:
    found: list[dict[str, Any]] = []
    for name in tables.names():
        figures = tables.table(name).figures
        rows: dict[str, list[str]] = {}
        for figure in figures:
            rows.setdefault(figure.row, []).append(figure.column)
        title = {language: tables.title(name, language) for language in ("en", "zh")}
        found.append({"name": name, "title": title, "rows": rows})
    if as_json:
        print(json.dumps({"tables": found}, indent=2, ensure_ascii=False))
        return 0
    for item in found:
        print(f"{item['name']}: {item['title']['en']}")
        alike: dict[tuple[str, ...], list[str]] = {}
        for row, columns in item["rows"].items():
            alike.setdefault(tuple(columns), []).append(row)
        for columns, named in alike.items():
            print(f"  rows     {', '.join(map(quoted, named))}")
            print(f"  columns  {', '.join(map(quoted, columns))}")
    return 0


def quoted(name: str) -> str:
    """A row or column as a mark names it."""
    if name and not any(c.isspace() or c in "\"'\\>" for c in name):
        return name
    plain = name.replace("\\", "\\\\").replace('"', '\\"').replace("-->", "--\\>")
    return f'"{plain}"'
