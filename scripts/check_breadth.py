"""Fail where the breadth has an unexplained difference or a mutant that nothing noticed."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.breadth import report
from pitb.errors import PitbError, run_main
from pitb.files import read_text, write_text

SHOWN = 20
"""Complaints that the message quotes; all stand in the file."""

EXAMPLES = """  python scripts/check_breadth.py --complaints results/breadth-slice/complaints.txt \\
    --summary results/breadth-slice/summary.txt --out results/breadth-slice/checked.txt"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--complaints", type=Path, required=True, help="one line each")
    parser.add_argument("--summary", type=Path, required=True, help="the totals")
    parser.add_argument("--out", type=Path, required=True, help="written where all is well")
    arguments = parser.parse_args()
    summary = read_text(arguments.summary)
    if not summary.strip():
        raise PitbError(f"{arguments.summary} is empty: it holds no totals")
    report.check_summary(summary)
    print(summary, end="")
    lines = read_text(arguments.complaints).splitlines()
    if lines:
        said = f"{len(lines)} complaints, all in {arguments.complaints}:"
        raise PitbError(said, *lines[:SHOWN])
    write_text(arguments.out, summary)


if __name__ == "__main__":
    run_main(main)
