"""Tables of figures: each figure has a row, a column, a value, and the file it was computed from.

The names of rows and columns are those of the published figures, so that a ledger can match them.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pitb.errors import PitbError
from pitb.files import read_text, write_text
from pitb.labels import COLONS, COLUMNS, LANGUAGES, NOTES, PATTERNS, TITLES

SUMMARY = "summary"
"""The row that speaks of the whole table; it is printed below it."""

FIELDS = ("table", "row", "column", "value", "shown", "evidence")


@dataclass(frozen=True)
class Figure:
    """One figure."""

    table: str
    row: str
    column: str
    value: str
    """In full: the shortest decimal that names the number, or text."""
    shown: str
    """As the page prints it."""
    evidence: str


@dataclass
class Table:
    """One table of a page.

    ``wide`` tables have a column for each column of their figures, the others list row, column
    and value, since their rows have little in common.
    """

    name: str
    wide: bool = True
    figures: list[Figure] = field(default_factory=list)
    error: str | None = None
    """Why there is no table, where there is none."""

    def add(
        self, row: str, column: str, value: object, evidence: str, shown: str | None = None
    ) -> None:
        """Add a figure; ``shown`` is how people read it, where that is not ``value`` itself."""
        text = str(value)
        self.figures.append(
            Figure(self.name, row, column, text, text if shown is None else shown, evidence)
        )

    def difference(self, row: str, column: str, value: float, evidence: str) -> None:
        """Add a difference, shown with three digits as the pages do."""
        self.add(row, column, value, evidence, f"{value:.2e}")

    def body(self) -> list[Figure]:
        """The figures above the summary."""
        return [figure for figure in self.figures if figure.row != SUMMARY]

    def summary(self) -> list[Figure]:
        """The figures of the summary."""
        return [figure for figure in self.figures if figure.row == SUMMARY]


def write(tables: Iterable[Table], folder: Path) -> None:
    """Write Markdown in both languages and CSV for each table, and all figures in one CSV."""
    for name, text in texts(tables).items():
        write_text(folder / name, text)


def texts(tables: Iterable[Table]) -> dict[str, str]:
    """What `write` writes, by the files' names."""
    found: dict[str, str] = {}
    figures: list[Figure] = []
    for table in tables:
        figures += table.figures
        for language, suffix in LANGUAGES.items():
            found[f"{table.name}{suffix}.md"] = markdown(table, language)
        found[f"{table.name}.csv"] = _csv(_rows(table))
    found["figures.csv"] = _csv([FIELDS, *(vars(f).values() for f in figures)])
    return found


def read_figures(path: Path) -> list[Figure]:
    """The figures that `write` wrote.

    Raises:
        PitbError: The file cannot be read or holds no figures.
    """
    return parse_figures(read_text(path), str(path))


def parse_figures(text: str, where: str) -> list[Figure]:
    """The figures of such a file's text; ``where`` names it in messages.

    Raises:
        PitbError: It does not hold figures; names the line.
    """
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        if tuple(reader.fieldnames or ()) != FIELDS:
            raise PitbError(f"{where} holds no figures: its columns must be {', '.join(FIELDS)}")
        found = []
        for row in reader:
            if None in row or None in row.values():
                raise PitbError(f"{where}, line {reader.line_num}: not {len(FIELDS)} fields")
            found.append(Figure(**row))
    except csv.Error as error:
        raise PitbError(f"{where}, line {reader.line_num}: not valid CSV: {error}") from None
    return found


def markdown(table: Table, language: str) -> str:
    """The table as Markdown with headings in ``language``, ``en`` or ``zh``."""
    lines = [f"# {TITLES[table.name][language]}", ""]
    if table.error is not None:
        return "\n".join([*lines, f"{label('no table', language)}: {table.error}", ""])
    note = NOTES.get(table.name)
    if note:
        lines += [note[language], ""]
    cells, list_below = rows(table, language), below(table, language)
    lines += [*cells, ""] if cells else []
    lines += [*list_below, ""] if list_below else []
    return "\n".join(lines)


def rows(table: Table, language: str, columns: list[str] | None = None) -> list[str]:
    """The lines of the table itself; none where all its figures stand below it."""
    if table.wide:
        # A figure that has no column of the first row's stands alone, below the table.
        columns = columns or _first_columns(table)
        head = [label("row", language), *(label(column, language) for column in columns)]
        within = [f for f in table.body() if f.column in columns]
        cells = [[label(row, language), *values] for row, values in _by_row(within, columns)]
    else:
        head = [label(column, language) for column in ("row", "column", "value")]
        cells = [[f.row, label(f.column, language), f.shown] for f in table.body()]
    return [line(head), line("---" for _ in head), *map(line, cells)] if cells else []


def below(table: Table, language: str) -> list[str]:
    """The list below the table: what stands alone in its row, and what speaks of the whole."""
    named = [(label(f.column, language), f) for f in table.summary()]
    if table.wide:
        columns = _first_columns(table)
        alone = [f for f in table.body() if f.column not in columns]
        named = [
            (f"{label(f.row, language)}, {label(f.column, language)}", f) for f in alone
        ] + named
    colon = COLONS[language]
    return [f"- {_escaped(name)}{colon}{_escaped(f.shown)}" for name, f in named]


def _first_columns(table: Table) -> list[str]:
    return _columns([f for f in table.body() if f.row == table.body()[0].row])


def _columns(figures: list[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.column for figure in figures))


def _by_row(figures: list[Figure], columns: list[str]) -> Iterator[tuple[str, list[str]]]:
    rows: dict[str, dict[str, Figure]] = {}
    for figure in figures:
        rows.setdefault(figure.row, {})[figure.column] = figure
    for row, found in rows.items():
        yield row, [found[column].shown if column in found else "" for column in columns]


def _rows(table: Table) -> Iterator[Iterable[str]]:
    """The rows of the CSV, values in full; the summary is its last row."""
    if table.error is not None:
        yield from (["error"], [table.error])
        return
    if not table.wide:
        yield "row", "column", "value"
        for figure in table.figures:
            yield figure.row, figure.column, figure.value
        return
    columns = _columns(table.figures)
    yield "row", *columns
    rows: dict[str, dict[str, str]] = {}
    for figure in table.body() + table.summary():
        rows.setdefault(figure.row, {})[figure.column] = figure.value
    for row, found in rows.items():
        yield row, *(found.get(column, "") for column in columns)


def _csv(rows: Iterable[Iterable[str]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()


def label(name: str, language: str) -> str:
    """A heading or the name of a row in ``language``; what has no label is its own."""
    if name in COLUMNS:
        return COLUMNS[name][language]
    for pattern, text in PATTERNS.items():
        match = pattern.fullmatch(name)
        if match is not None:
            return match.expand(text[language])
    return name


def line(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    return text.replace("\\|", "|").replace("|", "\\|").replace("\n", " ")
