"""The list of all comparisons, as CSV, as Markdown, and in one line."""

import csv
import io
from collections.abc import Sequence

from pitb import compare
from pitb.compare import Comparison

COLUMNS = ("a", "b", "verdict", "worst", "tolerance", "tensors", "error")
CHECKED = "every pair was compared, every published figure reproduced\n"
"""What ``checked.txt`` says; where it is not so there is no such file."""


def _rows(found: Sequence[Comparison]) -> list[tuple[str, ...]]:
    return [
        (c.a, c.b, c.verdict, f"{c.worst:.2e}", f"{c.tolerance:g}", str(len(c.rows)), c.error or "")
        for c in found
    ]


def csv_text(found: Sequence[Comparison]) -> str:
    """``comparisons.csv``."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([COLUMNS, *_rows(found)])
    return buffer.getvalue()


def markdown(found: Sequence[Comparison]) -> str:
    """``comparisons.md``."""
    rows = (COLUMNS, ["---"] * len(COLUMNS), *_rows(found))
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(["# Comparisons", "", *lines, "", compare.summary(found), ""])
