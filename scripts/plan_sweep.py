"""Expand a sweep into runs, cut into batches, and write each batch's runs as JSON."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import run_main
from pitb.sweeps import plan

EXAMPLES = """  python scripts/plan_sweep.py --sweep config/sweeps/example.yaml \\
    --out results/sweeps/example"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--sweep", type=Path, required=True, help="the sweep, as YAML")
    parser.add_argument("--out", type=Path, required=True, help="the sweep's folder of results")
    arguments = parser.parse_args()
    found = plan.write(arguments.sweep, arguments.out)
    batches = len(plan.batches(found))
    print(f"{found.written} points, {len(found.points)} runs, {batches} batches")


if __name__ == "__main__":
    run_main(main)
