"""The list of all comparisons, as CSV, as Markdown, and in one line."""

import csv
import io
from collections.abc import Mapping, Sequence

from pitb import compare
from pitb.compare import Comparison

COLUMNS = ("a", "b", "verdict", "worst", "tolerance", "tensors", "error")
NOT_FINITE = ("not_finite_a", "not_finite_b")
"""The step at which each side is first not finite; columns of a list in which a run diverges."""
CHECKED = "every pair was compared, every published figure reproduced\n"
"""What ``checked.txt`` says; where it is not so there is no such file."""


def _table(found: Sequence[Comparison]) -> list[tuple[str, ...]]:
    diverged = any(c.first_not_finite for c in found)
    rows: list[tuple[str, ...]] = [(*COLUMNS, *(NOT_FINITE if diverged else ()))]
    for c in found:
        row = (c.a, c.b, c.verdict, f"{c.worst:.2e}", f"{c.tolerance:g}", str(len(c.rows)))
        steps = (str(c.first_not_finite.get(side, {}).get("step", "")) for side in "ab")
        rows.append((*row, c.error or "", *(steps if diverged else ())))
    return rows


def was_compared(row: Mapping[str, str]) -> bool:
    """Whether a row of ``comparisons.csv`` is of runs that were compared to the end.

    One that came to NaN alone is: its comparison has an error, and all its rows too.
    """
    return not row["error"] or (row["tensors"] != "0" and any(map(row.get, NOT_FINITE)))


def csv_text(found: Sequence[Comparison]) -> str:
    """``comparisons.csv``."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(_table(found))
    return buffer.getvalue()


def markdown(found: Sequence[Comparison]) -> str:
    """``comparisons.md``."""
    head, *rows = _table(found)
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    said = []
    if any(c.first_not_finite for c in found):
        said = [
            "A run that diverges is compared to the end and is never OK: `not_finite_a` and"
            " `not_finite_b` are the steps at which each side is first NaN or infinite.",
            "",
        ]
    return "\n".join(["# Comparisons", "", *lines, "", *said, compare.summary(found), ""])
