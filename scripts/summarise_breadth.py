"""Make the sheets of the breadth: options, rounding floor, laws, mutants, coverage, schedules."""

from pathlib import Path

import pyarrow.parquet as pq

from pitb import arguments as command_line
from pitb.breadth import inputs, papers, report, sheets
from pitb.errors import run_main
from pitb.files import replacing, write_text

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
    sheets.write("options", report.relations(judged.outcomes), arguments.out)
    sheets.write("floor", report.floor(judged.rows), arguments.out)
    sheets.write("laws", report.law_rows(judged.outcomes), arguments.out)
    sheets.write("kills", report.kill_counts(judged.kills), arguments.out)
    sheets.write("papers", papers.shown(judged.papers), arguments.out)
    sheets.write("coverage", report.shown(coverage["rows"]), arguments.out)
    sheets.write("fields", report.shown(coverage["fields"]), arguments.out)
    sheets.write("schedules", report.shown(schedules["rows"]), arguments.out)
    sheets.write("schedulers", report.shown(schedules["schedulers"]), arguments.out)
    sheets.write_csv("verdicts", report.shown(report.verdict_rows(judged.outcomes)), arguments.out)
    sheets.write_csv("mutants", judged.kills, arguments.out)
    with replacing(arguments.out / "rows.parquet") as path:
        pq.write_table(judged.rows, path)
    summary = report.summary(judged, schedules, coverage)
    report.check_summary(summary)
    write_text(arguments.out / "summary.txt", summary + "\n")
    complaints = [*report.complaints(judged), *report.schedule_complaints(schedules)]
    write_text(arguments.out / "complaints.txt", "".join(f"{text}\n" for text in complaints))


if __name__ == "__main__":
    run_main(main)
