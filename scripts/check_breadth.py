"""Fail where the breadth has an unexplained difference or a mutant that nothing noticed."""

import argparse
from pathlib import Path

from pitb.errors import PitbError, run_main
from pitb.files import read_text, write_text

SHOWN = 20
"""Complaints that the message quotes; all stand in the file."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--complaints", type=Path, required=True, help="one line each")
    parser.add_argument("--summary", type=Path, required=True, help="the totals")
    parser.add_argument("--out", type=Path, required=True, help="written where all is well")
    arguments = parser.parse_args()
    summary = read_text(arguments.summary)
    print(summary, end="")
    lines = read_text(arguments.complaints).splitlines()
    if lines:
        shown = "\n".join(lines[:SHOWN])
        raise PitbError(f"{len(lines)} complaints, all in {arguments.complaints}:\n{shown}")
    write_text(arguments.out, summary)


if __name__ == "__main__":
    run_main(main)
