"""The ledger: for each figure that the pages print, whether it was reproduced.

The rules are those of the published figures' own description:

- ``exact``: equal, as numbers where both sides parse as numbers, else as text.
- ``size``: within half a unit of the last printed digit plus 2.4e-7 (2 ulp of f32 at 1).
- ``rounding``: set by the order of f32 additions. A value agrees within 4 ulp of f32 at its own
  magnitude times its step, plus half a unit of the last printed digit, element by element. A
  largest difference agrees when it is at most the printed one plus 2.4e-7 and within 1e-6.
"""

import csv
import io
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from decimal import Decimal, InvalidOperation
from pathlib import Path

from pitb.errors import PitbError
from pitb.files import read_text, replacing, write_text
from pitb.tables import Figure

AGREES, DIFFERS, MISSING = "agrees", "differs", "missing"
STATUSES = (AGREES, DIFFERS, MISSING)
SUFFIXES = (".csv", ".md", ".parquet")
"""Of the files that a ledger is written to."""
KINDS = ("exact", "size", "rounding")
PUBLISHED_FIELDS = ("table", "row", "column", "printed", "kind")
SLACK = 2.4e-7
"""2 ulp of f32 at 1."""
PAGE_TOLERANCE = 1e-6
VALUE_ULPS = 4

_DIFFERENCE = re.compile(r"max_abs_diff|worst|\|dloss\||max\|dparam\|")
_STEP = re.compile(r"\bstep (\d{1,9})\b")
_SEPARATOR = re.compile(r"\s+to\s+")


@dataclass(frozen=True)
class Published:
    """One figure that a page prints."""

    page: str
    table: str
    row: str
    column: str
    printed: str
    kind: str

    @property
    def step(self) -> int:
        """The step that its row or column names, else 1."""
        match = _STEP.search(self.row) or _STEP.search(self.column)
        return int(match[1]) if match else 1

    @property
    def is_difference(self) -> bool:
        """Whether it is a largest difference rather than a value."""
        return _DIFFERENCE.search(self.column) is not None


@dataclass(frozen=True)
class Judged(Published):
    """One row of the ledger: a published figure, and what became of it."""

    reproduced: str
    allowed: str
    status: str
    evidence: str


def read_published(path: Path) -> list[Published]:
    """The published figures of one page, which is named as the file.

    Raises:
        PitbError: The file cannot be read, lacks a column, or has a row that is not understood;
            the sentence names the line.
    """
    reader = csv.DictReader(read_text(path).splitlines(), strict=True)
    figures: list[Published] = []
    seen: dict[tuple[str, str, str], int] = {}
    try:
        if reader.fieldnames is None or list(reader.fieldnames) != list(PUBLISHED_FIELDS):
            raise PitbError(f"{path}, line 1: the columns must be {', '.join(PUBLISHED_FIELDS)}")
        for row in reader:
            where = f"{path}, line {reader.line_num}"
            if None in row or None in row.values():
                raise PitbError(f"{where}: not {len(PUBLISHED_FIELDS)} fields")
            figure = Published(path.stem, **row)
            if figure.kind not in KINDS:
                raise PitbError(f"{where}: kind {figure.kind!r} is not one of {', '.join(KINDS)}")
            if figure.kind != "exact" and numbers(figure.printed) is None:
                raise PitbError(f"{where}: {figure.printed!r} is no number, so not {figure.kind}")
            key = (figure.table, figure.row, figure.column)
            if key in seen:
                raise PitbError(f"{where}: the same figure stands in line {seen[key]}")
            seen[key] = reader.line_num
            figures.append(figure)
    except csv.Error as error:
        line = reader.reader.line_num  # the row's own, not that of the one before
        raise PitbError(f"{path}, line {line}: not valid CSV: {error}") from None
    if not figures:
        raise PitbError(f"{path} lists no figure")
    return figures


def judge(published: Iterable[Published], figures: Iterable[Figure]) -> list[Judged]:
    """Judge every published figure; one that no table holds is missing."""
    found = {(figure.table, figure.row, figure.column): figure for figure in figures}
    rows = []
    for item in published:
        figure = found.get((item.table, item.row, item.column))
        allowed, agrees = verdict(item, figure.value if figure else None)
        status = MISSING if figure is None else AGREES if agrees else DIFFERS
        rows.append(
            Judged(
                **asdict(item),
                reproduced=figure.value if figure else "",
                allowed=allowed,
                status=status,
                evidence=figure.evidence if figure else "",
            )
        )
    return rows


def verdict(item: Published, reproduced: str | None) -> tuple[str, bool]:
    """What is allowed, in words, and whether ``reproduced`` is."""
    if item.kind == "exact":
        return "equal", reproduced is not None and _equal(item.printed, reproduced)
    printed = numbers(item.printed)
    assert printed is not None  # checked when it was read
    values = numbers(reproduced) if reproduced is not None else None
    if item.kind == "rounding" and item.is_difference:
        bound = min(float(printed[0]) + SLACK, PAGE_TOLERANCE)
        agrees = values is not None and len(values) == 1 and 0 <= values[0] <= Decimal(bound)
        return f"at most {bound:.3g}", agrees
    bounds = [_bound(item, number) for number in printed]
    shown = ", ".join(dict.fromkeys(f"{float(bound):.3g}" for bound in bounds))
    agrees = (
        values is not None
        and len(values) == len(printed)
        and all(
            abs(value - number) <= bound
            for value, number, bound in zip(values, printed, bounds, strict=True)
        )
    )
    return f"within {shown}", agrees


def _bound(item: Published, printed: Decimal) -> Decimal:
    half_unit = Decimal((0, (5,), int(printed.as_tuple().exponent) - 1))
    if item.kind == "size":
        return half_unit + Decimal(SLACK)
    return half_unit + Decimal(VALUE_ULPS * item.step * f32_ulp(float(printed)))


def f32_ulp(value: float) -> float:
    """The distance from ``value``'s magnitude to the next larger f32."""
    if value == 0:
        return 2.0**-149
    exponent = math.frexp(abs(value))[1]
    return 2.0 ** (max(exponent - 1, -126) - 23)


def numbers(text: str) -> list[Decimal] | None:
    """The numbers of ``1.0``, ``1.0 to 2.0`` or ``[1.0, 2.0]``; None where it is none of these."""
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        parts = text[1:-1].split(",")
    else:
        parts = _SEPARATOR.split(text)
    found = [_number(part) for part in parts]
    finite = [number for number in found if number is not None and number.is_finite()]
    return finite if len(finite) == len(found) else None


def _number(text: str) -> Decimal | None:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    # Nothing here is beyond f64, and arithmetic on what is may overflow.
    return None if number.is_finite() and abs(number.adjusted()) > 400 else number


def _equal(printed: str, reproduced: str) -> bool:
    a, b = _number(printed), _number(reproduced)
    if a is None or b is None:
        return printed == reproduced
    return a == b


def summary(rows: list[Judged]) -> str:
    """One line: how many figures were reproduced, and which were not, by number.

    The numbers are checked to add up.
    """
    counts = {status: sum(row.status == status for row in rows) for status in STATUSES}
    if sum(counts.values()) != len(rows):
        raise AssertionError(f"{counts} do not add up to {len(rows)}")
    parts = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"ledger: {len(rows)} published figures: {parts}"


def failures(rows: list[Judged]) -> list[Judged]:
    """The rows that do not agree."""
    return [row for row in rows if row.status != AGREES]


FIELDS = tuple(field.name for field in fields(Judged))


def write(rows: list[Judged], csv_path: Path, markdown_path: Path, parquet_path: Path) -> None:
    """Write the ledger as CSV, Markdown and Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_text(csv_path, csv_text(rows))
    write_text(markdown_path, markdown(rows))
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in FIELDS])
    with replacing(parquet_path) as temporary:
        table = pa.Table.from_pylist([asdict(row) for row in rows], schema=schema)
        pq.write_table(table, temporary, compression="none", store_schema=False)


def csv_text(rows: Iterable[Judged]) -> str:
    """The ledger as CSV."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return buffer.getvalue()


def read(csv_path: Path) -> list[Judged]:
    """Read a ledger's CSV.

    Raises:
        PitbError: The file is missing or is no ledger.
    """
    return parse(read_text(csv_path), str(csv_path))


def parse(text: str, where: str) -> list[Judged]:
    """Read the text of a ledger's CSV; ``where`` names it in messages.

    Raises:
        PitbError: It is no ledger; names the line.
    """
    reader = csv.DictReader(text.splitlines())
    if list(reader.fieldnames or ()) != list(FIELDS):
        raise PitbError(f"{where} is no ledger: its columns must be {', '.join(FIELDS)}")
    rows = []
    for row in reader:
        if None in row or None in row.values() or row["status"] not in STATUSES:
            raise PitbError(f"{where}, line {reader.line_num}: not a row of a ledger")
        rows.append(Judged(**row))
    return rows


def check_complete(rows: Iterable[Published], published: Iterable[Published]) -> None:
    """Check that a ledger holds every published figure, each once, and no other.

    Raises:
        PitbError: Names the first one that is too many or too few.
    """

    def keys(figures: Iterable[Published]) -> list[tuple[str, str, str, str]]:
        return sorted((f.page, f.table, f.row, f.column) for f in figures)

    found, wanted = keys(rows), keys(published)
    for key in (*wanted, *found):
        if found.count(key) != wanted.count(key):
            place = " / ".join(key)
            raise PitbError(f"the ledger holds {place} {found.count(key)} times; make it again")


def markdown(rows: list[Judged]) -> str:
    """The ledger for people: the summary, what does not agree, then every figure."""
    lines = ["# Ledger", "", summary(rows), ""]
    failed = failures(rows)
    if failed:
        lines += ["## Not reproduced", "", *_table(failed), ""]
    for page in dict.fromkeys(row.page for row in rows):
        lines += [f"## {page}", "", *_table([row for row in rows if row.page == page]), ""]
    return "\n".join(lines)


def _table(rows: list[Judged]) -> list[str]:
    columns = [name for name in FIELDS if name != "page"]
    lines = [_line(columns), _line(["---"] * len(columns))]
    return lines + [_line([getattr(row, column) for column in columns]) for row in rows]


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
