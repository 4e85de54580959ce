"""The tables of results by name, and what a mark that names one stands for.

Beside the pages' tables, whose figures the ledger judges, there are `pitb.docs.sheets`.

A figure that a page prints and that the ledger says agrees is printed as the page prints it: what
was reproduced differs in its last bits from one processor to another. One that does not agree is
printed as it was reproduced, and that is said. ``value=reproduced`` asks for what was reproduced.
"""

import csv
import io
import re
from dataclasses import dataclass, replace
from functools import cached_property

from pitb import ledger, tables
from pitb.docs import sheets
from pitb.docs.content import Content
from pitb.docs.grammar import Mark
from pitb.docs.options import FULL, PRINTED, Options
from pitb.docs.source import FIGURES, LEDGER, TABLES, Source
from pitb.errors import PitbError, nearest
from pitb.labels import LANGUAGES, TITLES
from pitb.ledger import AGREES, MISSING, Judged
from pitb.tables import SUMMARY, Figure, Table, label

_PARTS = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|nan))\Z")
_RANGE = re.compile(r"(?<=\d)\s+to\s+(?=[-+\d])")
_BETWEEN = re.compile(r"(\s+to\s+|[\[\],]\s*)")


@dataclass(frozen=True)
class Shown:
    """A figure as a document prints it, and what is to be said about that."""

    text: str
    note: str | None = None


class Tables:
    """The tables of a source, ``<page>/<table>``."""

    def __init__(self, source: Source) -> None:
        """Read nothing yet."""
        self.source = source

    @cached_property
    def _found(self) -> dict[str, Table]:
        found: dict[str, Table] = {}
        for page in self.source.pages():
            name = f"{TABLES}/{page}/{FIGURES}"
            for figure in tables.parse_figures(
                self.source.text(name), f"{self.source.where}/{name}"
            ):
                key = f"{page}/{figure.table}"
                if key not in found:
                    found[key] = Table(figure.table, self._wide(page, figure.table))
                found[key].figures.append(figure)
        return found

    def _wide(self, page: str, table: str) -> bool:
        """Whether a table has columns of its own, which its CSV's first line says."""
        name = f"{TABLES}/{page}/{table}.csv"
        if not self.source.has(name):
            return True
        head = next(csv.reader(io.StringIO(self.source.text(name), newline="")), [])
        return head != ["row", "column", "value"]

    @cached_property
    def _judged(self) -> dict[tuple[str, str, str], Judged]:
        if not self.source.has(LEDGER):
            return {}
        rows = ledger.parse(self.source.text(LEDGER), f"{self.source.where}/{LEDGER}")
        return {(f"{row.page}/{row.table}", row.row, row.column): row for row in rows}

    @cached_property
    def _sheets(self) -> dict[str, Table | None]:
        """The sheets by name, read where one is asked for."""
        return dict.fromkeys(sheets.names(self.source))

    def names(self) -> list[str]:
        """All tables, sheets among them."""
        return [*self._found, *self._sheets]

    def title(self, name: str, language: str) -> str:
        """What a table is called."""
        table = self.table(name).name
        titles = TITLES if name in self._found else sheets.TITLES
        return titles[table][language] if table in titles else table

    def table(self, name: str) -> Table:
        """A table by its name.

        Raises:
            PitbError: There is none; says the nearest, or why it could not be made.
        """
        if name in self._found:
            return self._found[name]
        if name in self._sheets:
            found = self._sheets[name] or sheets.read(self.source, name)
            self._sheets[name] = found
            return found
        page, _, table = name.partition("/")
        path = f"{TABLES}/{page}/{table}.csv"
        if page in self.source.pages() and re.fullmatch(r"[\w-]+", table) and self.source.has(path):
            head, *rest = self.source.text(path).splitlines() or [""]
            if head == "error":
                raise PitbError(f"there is no table {name}: {' '.join(rest)}")
        near = nearest(name, self.names())
        raise PitbError(f"nothing is called {name!r}; the nearest is {near!r}")

    def figure(self, name: str, row: str, column: str) -> Figure:
        """A figure by its table, row and column, each by its own name or its heading.

        Raises:
            PitbError: There is none; says the nearest.
        """
        found = self.table(name)
        row = self._named(found, "row", row)
        column = self._named(found, "column", column)
        for figure in found.figures:
            if (figure.row, figure.column) == (row, column):
                return figure
        columns = ", ".join(repr(f.column) for f in found.figures if f.row == row)
        raise PitbError(f"row {row!r} of {name} has no {column!r}; it has {columns}")

    def _named(self, table: Table, kind: str, text: str) -> str:
        names = list(dict.fromkeys(getattr(figure, kind) for figure in table.figures))
        if text in names:
            return text
        alike = [name for name in names if any(text == label(name, lang) for lang in LANGUAGES)]
        if len(alike) == 1:
            return str(alike[0])
        if alike:
            choices = ", ".join(map(repr, alike))
            raise PitbError(f"{kind} {text!r} of {table.name} may be any of {choices}")
        near = nearest(text, names)
        raise PitbError(f"{table.name} has no {kind} {text!r}; the nearest is {near!r}")

    def shown(self, name: str, figure: Figure, options: Options, language: str = "en") -> Shown:
        """What a document prints for a figure.

        Raises:
            PitbError: It is no number, and a format is asked for.
        """
        row = self._judged.get((name, figure.row, figure.column))
        note = None
        text, full = figure.shown, figure.value
        if row is not None and options.value == PRINTED:
            if row.status == AGREES:
                text = full = row.printed
            else:
                note = (
                    f"{name} {figure.row} / {figure.column} is {figure.shown}, as reproduced: the "
                    f"ledger says that it {row.status} from the published {row.printed}"
                )
        if options.format == FULL:
            text = full
        elif options.format is not None:
            text = formatted(full, options.format, f"{name} {figure.row} / {figure.column}")
        if language == "zh":
            text = _RANGE.sub(" 到 ", text)
        return Shown(text, note)

    def content(self, mark: Mark, language: str) -> Content:
        """What a mark stands for.

        Raises:
            PitbError: It names nothing, or not one figure where it stands within a line.
        """
        name, options = mark.named.name, mark.named.options
        language = options.language or language
        if mark.block:
            return self._block(name, options, language)
        if len(options.row) != 1 or len(options.column) != 1:
            self.table(name)
            raise PitbError(
                f'a mark within a line is one figure, {name} row="..." column="..."; a table\'s '
                "stands alone on its line"
            )
        figure = self.figure(name, options.row[0], options.column[0])
        shown = self.shown(name, figure, options, language)
        text = _within_line(shown.text, mark.cell)
        return Content(text, notes=(shown.note,) if shown.note else ())

    def _block(self, name: str, options: Options, language: str) -> Content:
        table = self.table(name)
        figures, notes = table.figures, []
        if options.only is not None:
            figures = [f for f in figures if (name, f.row, f.column) in self._judged]
            notes = self._missing(name)
        wanted_rows = [self._named(table, "row", text) for text in options.row]
        columns = [self._named(table, "column", text) for text in options.column]
        rows = wanted_rows or list(dict.fromkeys(figure.row for figure in figures))
        figures = [f for f in figures if f.row in rows and (not columns or f.column in columns)]
        if not figures:
            raise PitbError(f"{name} has no figure in the rows and columns that are asked for")
        figures.sort(key=lambda f: rows.index(f.row))
        shown = [self.shown(name, figure, options, language) for figure in figures]
        filled = [replace(f, shown=s.text) for f, s in zip(figures, shown, strict=True)]
        asked = Table(table.name, table.wide, filled)
        lines = tables.rows(asked, language, columns)
        if options.below == "yes" or SUMMARY in rows[: len(wanted_rows)]:
            lines += ["", *tables.below(asked, language)]
        if not any(lines):
            raise PitbError(f"all figures of {name} stand below it: say below=yes")
        notes += [s.note for s in shown if s.note]
        return Content("\n".join(lines).strip("\n"), notes=tuple(notes))

    def _missing(self, name: str) -> list[str]:
        """What is to be said about published figures of a table that were not reproduced."""
        return [
            f"the published figure {name} {row.row} / {row.column}, {row.printed}, is missing"
            for (table, _, _), row in self._judged.items()
            if table == name and row.status == MISSING
        ]


def _within_line(text: str, cell: bool) -> str:
    """A value as one line of Markdown that ends no cell and begins no code that does not end."""
    text = re.sub(r"\\(?=[!-/:-@\[-`{-~]|$)", r"\\\\", " ".join(text.split()))
    if cell:
        text = text.replace("|", "\\|")
    runs = re.findall("`+", text)
    return text.replace("`", "\\`") if len(runs) % 2 or len(set(runs)) > 1 else text


def formatted(value: str, spec: str, where: str) -> str:
    """A number, a range ``a to b`` or a list ``[a, b]`` in a format of Python's.

    Raises:
        PitbError: It is none of these; ``where`` says whose value it is.
    """
    parts = _BETWEEN.split(value.strip())
    for position, part in enumerate(parts):
        if position % 2 or (not part and len(parts) > 1):
            continue
        if not _PARTS.match(part):
            raise PitbError(f"{where} is {value!r}, no number that format {spec} could write")
        number = float(part)
        if spec[-1] != "d":
            parts[position] = format(number, spec)
        elif number.is_integer():
            parts[position] = format(int(number), spec)
        else:
            raise PitbError(f"{where} is {value!r}, no whole number, as format {spec} wants")
    return "".join(parts)
