"""Make the sheets of the breadth: options, rounding floor, laws, mutants, coverage, schedules."""

from pathlib import Path

import pyarrow.parquet as pq

from pitb import arguments as command_line
from pitb.breadth import inputs, report, summarise
from pitb.errors import run_main
from pitb.files import replacing

EXAMPLES = """  python scripts/summarise_breadth.py --judged results/breadth-slice/judged/* \\
    --coverage results/breadth-slice/coverage.json --schedules results/evidence/schedules.json \\
    --out results/breadth-slice"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--judged", type=Path, nargs="+", required=True, help="folders")
    parser.add_argument("--coverage", type=Path, required=True, help="the coverage, as JSON")
    parser.add_argument("--schedules", type=Path, required=True, help="the schedules, as JSON")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the sheets")
    arguments = parser.parse_args()
    judged = report.load(arguments.judged)
    coverage = inputs.read_coverage(arguments.coverage)
    schedules = inputs.read_schedules(arguments.schedules)
    summarise.write(judged, report.floor(judged.rows), coverage, schedules, arguments.out)
    with replacing(arguments.out / "rows.parquet") as path:
        pq.write_table(judged.rows, path)


if __name__ == "__main__":
    run_main(main)
