"""Check a bundle of results that someone has sent.

Every checksum, the description of what ran, the schema of every trace; then every comparison, table
and row of the ledger is computed again from the traces and held against what the bundle says.
Nothing in a bundle is run, nothing is written but below a temporary folder, and the check may take
so much time and memory and no more. Neither torch nor cargo is needed.

Exit code 0 where all is as it must be, 1 where something was altered, 2 where it could not be read.
"""

import argparse
from pathlib import Path

from pitb.arguments import count
from pitb.bundle import limits

HELP = "check a bundle: checksums, and everything computed again from its traces"
EXAMPLES = """  pitb verify pitb-0.1.0-4f0c6a61c6cf2d2c7f2b7d1a53a0e6b1.zip
  pitb verify bundle.zip --json
  pitb verify bundle.zip --findings --seconds 120 --memory 2000"""


def add_limits(parser: argparse.ArgumentParser) -> None:
    """How much reading strangers' files may take."""
    for name, letter, most, what in (
        ("--seconds", "N", limits.SECONDS, "time"),
        ("--memory", "MB", limits.MEGABYTES, "memory"),
    ):
        parser.add_argument(
            name,
            type=count,
            default=most,
            metavar=letter,
            help=f"most {what} it may take (default: {most})",
        )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="the zip")
    parser.add_argument(
        "--findings",
        action="store_true",
        help="also train the runs of the breadth's findings again, for their sizes",
    )
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    """Check, and say what is wrong and where."""
    from pitb.bundle import report

    found = limits.run(
        "verify",
        [arguments.bundle],
        arguments.seconds,
        arguments.memory,
        findings=arguments.findings,
    )
    found["bundle"] = str(arguments.bundle)
    if arguments.json:
        print(report.json_text(found))
    else:
        print(report.text(found))
    return int(bool(found["faults"]))
