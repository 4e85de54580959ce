"""The sheets of the breadth, written from what the judging of all optimizers left behind."""

from collections.abc import Iterable
from pathlib import Path

from pitb.breadth import papers, report, sheets
from pitb.breadth.report import Judged, Record
from pitb.files import write_text


def write(
    judged: Judged,
    floor: Iterable[Record],
    coverage: dict[str, list[Record]],
    schedules: Record,
    out: Path,
) -> None:
    """Write every sheet, the verdicts, the mutants, the summary and the complaints into ``out``.

    Args:
        judged: What was judged; its rows are not read.
        floor: The rows of the sheet of the rounding floor.
        coverage: What covers PyTorch's configurations and both sides' options.
        schedules: What was judged of the schedules.
        out: The folder.
    """
    sheets.write("options", report.relations(judged.outcomes), out)
    sheets.write("floor", floor, out)
    sheets.write("laws", report.law_rows(judged.outcomes), out)
    sheets.write("kills", report.kill_counts(judged.kills), out)
    sheets.write("papers", papers.shown(judged.papers), out)
    sheets.write("coverage", report.shown(coverage["rows"]), out)
    sheets.write("fields", report.shown(coverage["fields"]), out)
    sheets.write("schedules", report.shown(schedules["rows"]), out)
    sheets.write("schedulers", report.shown(schedules["schedulers"]), out)
    sheets.write_csv("verdicts", report.shown(report.verdict_rows(judged.outcomes)), out)
    sheets.write_csv("mutants", judged.kills, out)
    summary = report.summary(judged, schedules, coverage)
    report.check_summary(summary)
    write_text(out / "summary.txt", summary + "\n")
    complaints = [*report.complaints(judged), *report.schedule_complaints(schedules)]
    write_text(out / "complaints.txt", "".join(f"{text}\n" for text in complaints))
