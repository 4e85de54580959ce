"""Write Markdown as HTML pages that need nothing else, for the report."""

import re
from pathlib import Path

from pitb import arguments as command_line
from pitb import reported
from pitb.errors import PitbError, run_main
from pitb.files import read_text, write_text
from pitb.page import page

EXAMPLES = """  python scripts/write_pages.py --page ledger.html results/ledger.md \\
    --page mismatch.html results/tables/optimizer-defaults/mismatch.md mismatch.zh.md"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument(
        "--page",
        nargs="+",
        type=Path,
        action="append",
        required=True,
        metavar="FILE",
        help="the page to write, its Markdown in English, and in Chinese where there is one",
    )
    arguments = parser.parse_args()
    for out, *sources in arguments.page:
        if not 1 <= len(sources) <= 2:
            raise PitbError(f"--page {out} takes one or two files of Markdown, not {len(sources)}")
        english = read_text(sources[0])
        chinese = read_text(sources[1]) if len(sources) > 1 else reported.in_chinese(english)
        title = re.search(r"^# (.+)$", english, re.MULTILINE)
        write_text(out, page(title[1] if title else out.stem, {"en": english, "zh": chinese}))


if __name__ == "__main__":
    run_main(main)
