"""Sheets: lists of records as CSV and as Markdown with headings in both languages."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pitb.files import write_text
from pitb.labels import LANGUAGES, SHEETS
from pitb.tables import label, line
from pitb.words import worded

WORDED: dict[str, tuple[str, ...]] = {
    "options": ("relation", "where"),
    "laws": ("growth", "reason"),
    "kills": ("kind",),
    "papers": ("relation",),
    "coverage": ("status", "reason"),
    "fields": ("status", "reason"),
    "schedules": ("relation", "verdict", "explanation", "law"),
}
"""The columns of each sheet whose values are words of ours."""
NAMED: dict[str, tuple[str, ...]] = {
    "options": ("because",),
    "coverage": ("cases",),
    "fields": ("default", "cases"),
    "schedulers": ("cases",),
}
"""Those whose values are names, with a word or a sentence of ours here and there."""


def write(name: str, records: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write ``<folder>/<name>.csv``, ``.md`` and ``.zh.md``; columns are the first record's keys.

    A sheet without records has its title alone.
    """
    found = list(records)
    columns = write_csv(name, found, folder)
    for language, suffix in LANGUAGES.items():
        write_text(folder / f"{name}{suffix}.md", markdown(name, found, columns, language))


def write_csv(name: str, records: Iterable[Mapping[str, Any]], folder: Path) -> list[str]:
    """Write ``<folder>/<name>.csv`` alone; gives its columns."""
    found = list(records)
    columns = list(found[0]) if found else []
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerows([columns, *([record[key] for key in columns] for record in found)])
    write_text(folder / f"{name}.csv", buffer.getvalue())
    return columns


def markdown(
    name: str, records: Sequence[Mapping[str, Any]], columns: Sequence[str], language: str
) -> str:
    """A sheet as Markdown with its title, note and headings in ``language``."""
    title, note = SHEETS[name]
    lines = [f"# {title[language]}", "", note[language], ""]
    if records:
        lines += [line(label(column, language) for column in columns), line("---" for _ in columns)]
        spoken = (*WORDED.get(name, ()), *NAMED.get(name, ()))
        for record in records:
            shown = {column: _shown(record[column]) for column in columns}
            # What has no other words is English in both: a library's message, or a name.
            words = {key: worded(text, language) for key, text in shown.items() if key in spoken}
            lines.append(line(words.get(column) or shown[column] for column in columns))
        lines.append("")
    return "\n".join(lines)


def _shown(value: Any) -> str:
    """A value as people read it: three digits of what is small or large."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
