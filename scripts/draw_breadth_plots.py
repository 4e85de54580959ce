"""Draw how PyTorch's own list is covered, and how many mistakes in the reference were noticed."""

import csv
from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import run_main
from pitb.files import read_json, read_text
from pitb.plots import breadth

EXAMPLES = """  python scripts/draw_breadth_plots.py --out coverage.svg kills.svg \\
    --coverage results/breadth-slice/coverage.json --kills results/breadth-slice/kills.csv"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--coverage", type=Path, required=True, help="coverage.json of a breadth")
    parser.add_argument("--kills", type=Path, required=True, help="kills.csv of a breadth")
    parser.add_argument("--out", type=Path, nargs=2, required=True, help="two pictures to write")
    arguments = parser.parse_args()
    breadth.coverage(arguments.out[0], read_json(arguments.coverage)["rows"])
    breadth.kills(arguments.out[1], csv.DictReader(read_text(arguments.kills).splitlines()))


if __name__ == "__main__":
    run_main(main)
