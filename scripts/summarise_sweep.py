"""Write the table of a sweep's runs, and what people read of it."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import run_main
from pitb.sweeps import plan, runs, summary

EXAMPLES = """  python scripts/summarise_sweep.py --folder results/sweeps/example"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--folder", type=Path, required=True, help="the sweep's folder of results")
    arguments = parser.parse_args()
    table = arguments.folder / "runs.parquet"
    counts = runs.write(arguments.folder, table)
    about = plan.read_about(arguments.folder / "plan")
    summary.write(table, about, arguments.folder)
    print(runs.line(about["sweep"], counts))


if __name__ == "__main__":
    run_main(main)
