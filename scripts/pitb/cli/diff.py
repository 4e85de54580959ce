"""Say which figures differ between two bundles, rounding apart from real differences.

The ledger's figures go by the ledger's own rules, other numbers by the same bounds in f32 ulp, and
text, verdicts and exact figures differ really where they differ at all. Versions and machines that
differ are listed, and are no figures.

Exit code 0 where nothing differs but by rounding, 1 where something does, 2 where a bundle could
not be read or was altered.
"""

import argparse
from pathlib import Path

from pitb.cli.verify import add_limits

HELP = "say which figures differ between two bundles"
EXAMPLES = """  pitb diff here.zip there.zip
  pitb diff pitb-0.1.0-4f0c6a61c6cf2d2c7f2b7d1a53a0e6b1.zip other-machine.zip --all
  pitb diff here.zip there.zip --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("a", type=Path, metavar="A", help="a bundle")
    parser.add_argument("b", type=Path, metavar="B", help="another")
    parser.add_argument("--all", action="store_true", help="print every difference")
    add_limits(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print what differs."""
    from pitb.bundle import diff, limits, report

    paths = [arguments.a, arguments.b]
    a, b = limits.run("figures", paths, arguments.seconds, arguments.memory)
    for side, path in ((a, arguments.a), (b, arguments.b)):
        side["bundle"] = str(path)
    found = diff.diff(a, b)
    if arguments.json:
        print(report.json_text(diff.as_json(a, b, found)))
    else:
        print(diff.text(a, b, found, arguments.all))
    return int(found.real > 0)
