"""Sheets of the results as tables that marks can name: the comparisons, and those of the field.

A row of a sheet is named by the values of its first columns, as many as tell all rows apart, with
spaces between: ``SGD float32 10`` of ``breadth-slice/floor``.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence

from pitb.docs.source import Source
from pitb.errors import PitbError
from pitb.labels import SHEETS, Text, both
from pitb.results import SCOPES
from pitb.tables import Figure, Table

TITLES: dict[str, Text] = {
    "comparisons": both("Every comparison and its verdict", "每一对比较和它的结论"),
    "findings": both("Every difference in a default or an equation", "默认值或公式的每一处差别"),
    **{name: title for name, (title, _) in SHEETS.items()},
}
DIGITS = 6
"""A number of more digits was computed, and is shown with three; one of fewer was written so."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")


def names(source: Source) -> Iterator[str]:
    """The sheets that a source has."""
    candidates = ["comparisons", *(f"{s}/{name}" for s in SCOPES for name in (*SHEETS, "findings"))]
    yield from (name for name in candidates if source.has(f"{name}.csv"))


def read(source: Source, name: str) -> Table:
    """A sheet as a table.

    Raises:
        PitbError: It is no CSV, or a row has not as many fields as there are columns.
    """
    path = f"{name}.csv"
    where = f"{source.where}/{path}"
    reader = csv.reader(io.StringIO(source.text(path), newline=""), strict=True)
    try:
        head = next(reader, [])
        rows = list(reader)
    except csv.Error as error:
        raise PitbError(f"{where}, line {reader.line_num}: not valid CSV: {error}") from None
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head):
            raise PitbError(f"{where}: row {number} has {len(row)} fields, not {len(head)}")
    keys = _keys(rows, len(head))
    table = Table(name.rpartition("/")[2])
    for row in rows:
        key = " ".join(row[:keys])
        for column, value in zip(head[keys:], row[keys:], strict=True):
            table.figures.append(Figure(table.name, key, column, value, _shown(value), path))
    return table


def _keys(rows: Sequence[Sequence[str]], most: int) -> int:
    """How many first columns tell all rows apart."""
    for count in range(1, most):
        if len({tuple(row[:count]) for row in rows}) == len(rows):
            return count
    return max(most - 1, 1)


def _shown(value: str) -> str:
    if not _NUMBER.fullmatch(value):
        return value
    mantissa = re.split("[eE]", value)[0]
    digits = mantissa.replace("-", "").replace(".", "").lstrip("0")
    return f"{float(value):.3g}" if "." in mantissa and len(digits) > DIGITS else value
