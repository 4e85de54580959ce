"""Compare two traces, or two JSON files of the pages' programs, number by number.

Exit code 0 where every difference is within the tolerance, 1 where one is not, 2 where the two
could not be compared.
"""

import argparse
import math
from pathlib import Path

from pitb.errors import run_main

EXAMPLES = """examples:
  python scripts/compare.py pytorch.json burn.json
  python scripts/compare.py results/traces/pytorch/rmsprop.parquet \\
      results/traces/burn/rmsprop.parquet
  python scripts/compare.py a.parquet b.parquet --tol 1e-5 --quantities loss param"""


def tolerance(text: str) -> float:
    """A tolerance from the command line: a number that is not negative."""
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"{text} is not a number of 0 or more")
    return value


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
    arguments = parser.parse_args()

    from pitb import compare

    comparison = compare.compare_files(
        arguments.a, arguments.b, arguments.tol, arguments.quantities
    )
    print(compare.report(comparison))
    return comparison.exit_code


if __name__ == "__main__":
    run_main(main)
