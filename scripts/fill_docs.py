"""Write what is generated into the project's documents, or with --check say what is stale."""

import os
import sys
from pathlib import Path

from pitb import arguments as command_line
from pitb.docs import fill
from pitb.docs.own import Own
from pitb.errors import run_main

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = """  python scripts/fill_docs.py
  python scripts/fill_docs.py --check
  python scripts/fill_docs.py --check docs/one-step.md"""


def documents() -> list[Path]:
    """All that may be marked: the READMEs and the pages."""
    found = [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md"))]
    return [Path(os.path.relpath(path)) for path in found]


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="(default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if stale")
    arguments = parser.parse_args()
    own = Own(ROOT)
    filled = fill.fill_all(arguments.files or documents(), lambda path: own)
    if not arguments.check:
        fill.write(filled)
    for item in filled:
        for note in item.notes:
            print(f"note: {note}", file=sys.stderr)
        for stale in item.stale:
            print(stale if arguments.check else f"filled anew: {stale}")
    stale = any(item.stale for item in filled)
    if stale and arguments.check:
        print("run make docs", file=sys.stderr)
    return int(stale and arguments.check)


if __name__ == "__main__":
    run_main(main)
