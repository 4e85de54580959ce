"""Where the tensors of one step of A1 go in PyTorch, and what a step on the wrong model does."""

import argparse
from pathlib import Path

from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """examples:
  python scripts/one_moves.py
  python scripts/one_moves.py --json moves.json"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", type=Path, help="write everything as JSON here, print nothing")
    arguments = parser.parse_args()

    # Takes seconds, so only once the arguments are known to be right.
    import torch

    from pitb import moves

    torch.set_num_threads(1)
    found = moves.moves()
    if arguments.json:
        write_json(arguments.json, found)
    else:
        print(moves.console(found))


if __name__ == "__main__":
    run_main(main)
