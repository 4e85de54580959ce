"""Compare two traces, or two JSON files of the pages' programs: ``pitb compare`` as a script."""

import argparse

from pitb.cli import compare
from pitb.errors import run_main


def main() -> int:
    examples = compare.EXAMPLES.replace("pitb compare", "python scripts/compare.py")
    parser = argparse.ArgumentParser(
        description=compare.__doc__,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    compare.add_arguments(parser)
    return compare.run(parser.parse_args())


if __name__ == "__main__":
    run_main(main)
