"""Compare both sides of one batch of a sweep."""

from pathlib import Path

from pitb import arguments as command_line
from pitb import programs
from pitb.errors import run_main
from pitb.sweeps import dataset, judge, outcomes, plan

EXAMPLES = """  python scripts/compare_sweep.py 0of1 --folder results/sweeps/example"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("batch", help="the batch, such as 0of1")
    parser.add_argument("--folder", type=Path, required=True, help="the sweep's folder of results")
    parser.add_argument("--digest", help="digest that the batch must have")
    arguments = parser.parse_args()
    folder, name = arguments.folder, arguments.batch
    batch = plan.read_batch(folder / "plan", name, arguments.digest)
    programs.limit_this_process(f"comparing the batch {name}")
    sides = (dataset.read(folder / "traces" / f"{side}-{name}.parquet") for side in plan.SIDES)
    found, rows = judge.judge(batch, *sides)
    outcomes.write_rows(batch, rows, folder / "comparisons" / f"{name}.parquet")
    outcomes.write_outcomes(found, folder / "outcomes" / f"{name}.parquet")


if __name__ == "__main__":
    run_main(main)
