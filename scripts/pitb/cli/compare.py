"""Compare two traces, or two JSON files of the pages' programs, number by number.

Exit code 0 where every difference is within the tolerance, 1 where one is not, 2 where the two
could not be compared, or one side alone is NaN. Where a run diverged, its first value that is not
finite is named; that is never OK, also where both sides have the same.
"""

import argparse
import math
from pathlib import Path

HELP = "compare two traces number by number"
EXAMPLES = """  pitb compare pytorch.json burn.json
  pitb compare results/traces/pytorch/rmsprop.parquet results/traces/burn/rmsprop.parquet
  pitb compare a.parquet b.parquet --tol 1e-5 --quantities loss param"""


def tolerance(text: str) -> float:
    """A tolerance from the command line: a number that is not negative."""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 0 or more")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("a", type=Path, help="a trace or a JSON file")
    parser.add_argument("b", type=Path, help="another of the same kind")
    parser.add_argument(
        "--tol", type=tolerance, default=1e-6, help="largest difference allowed (default: 1e-6)"
    )
    parser.add_argument(
        "--quantities",
        nargs="+",
        help="what to compare of traces (default: logits loss grad param of one step, "
        "loss param of more)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print what differs most."""
    from pitb import compare

    try:
        comparison = compare.compare_files(
            arguments.a, arguments.b, arguments.tol, arguments.quantities
        )
    except compare.NaNOnOneSide as error:
        print(compare.report(error.comparison))
        raise
    print(compare.report(comparison))
    return comparison.exit_code
