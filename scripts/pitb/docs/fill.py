"""Documents filled from what their marks name, or held against it.

All documents of a call are read and all contents found before any is written: a fault in one
leaves every one as it was.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pitb.docs import document as documents
from pitb.docs.content import Content, difference
from pitb.docs.document import LINE_END, Document
from pitb.docs.grammar import Mark, marks
from pitb.errors import PitbError

CHINESE = ".zh.md"
BREAKS = "a comment that begins a line ends the paragraph in Markdown; put a word before the mark"


class Contents(Protocol):
    """What marks can name."""

    def content(self, mark: Mark, language: str) -> Content:
        """What a mark stands for, in the language of its document, ``en`` or ``zh``.

        Raises:
            PitbError: It names nothing; the sentence does not say where.
        """


@dataclass(frozen=True)
class Stale:
    """A place whose print is not what is current."""

    file: str
    line: int
    mark: str
    place: str
    printed: str
    current: str

    def __str__(self) -> str:
        """One line."""
        where = f"{self.file}, line {self.line}: {self.mark}"
        place = f", {self.place}" if self.place else ""
        return f"{where}{place}: printed {_short(self.printed)}, current {_short(self.current)}"


@dataclass(frozen=True)
class Filled:
    """A document, what it is filled with, and what was found on the way."""

    document: Document
    text: str
    marks: int
    stale: list[Stale] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def language_of(path: Path) -> str:
    """The language of a document, by its name: ``zh`` for ``.zh.md``, else ``en``."""
    return "zh" if path.name.endswith(CHINESE) else "en"


def fill(document: Document, contents: Contents) -> Filled:
    """A document with every mark filled that is not current; the rest stays to the byte.

    Raises:
        PitbError: A mark is malformed or names nothing; the sentence says file and line.
    """
    text = document.text
    pieces: list[str] = []
    stale: list[Stale] = []
    notes: list[str] = []
    language = language_of(document.path)
    position = 0
    found = marks(document)
    for mark in found:
        where = f"{document.path}, line {mark.line}"
        try:
            content = contents.content(mark, language)
        except PitbError as error:
            raise PitbError(f"{where}: {error}") from None
        if "<!--" in content.text:
            raise PitbError(f"{where}: {mark.named.name} holds a comment, which would be a mark")
        notes += [f"{where}: {note}" for note in content.notes]
        if mark.breaks:
            notes.append(f"{where}: {BREAKS}")
        pieces.append(text[position : mark.start])
        inner = text[mark.start : mark.end]
        differs = difference(_printed(inner, mark), content)
        if differs is None:
            pieces.append(inner)
        else:
            names = (str(document.path), mark.line, name_of(mark))
            stale.append(Stale(*names, differs.place if mark.block else "",
                               differs.printed, differs.current))  # fmt: skip
            pieces.append(_laid(content.text, mark, document))
        position = mark.end
    pieces.append(text[position:])
    filled = "".join(pieces)
    if [mark.named for mark in found] != [mark.named for mark in _marks(document, filled)]:
        raise PitbError(f"{document.path}: what would be filled in is Markdown that hides a mark")
    return Filled(document, filled, len(found), stale, notes)


def _marks(document: Document, text: str) -> list[Mark]:
    """The marks of a document as it would be filled; none where they do not pair."""
    try:
        return marks(document.with_text(text))
    except PitbError:
        return []


def name_of(mark: Mark) -> str:
    """A mark in messages: its name, and of a figure its row and column."""
    options = mark.named.options
    if mark.block:
        return mark.named.name
    return " / ".join([f"{mark.named.name} {''.join(options.row)}".strip(), *options.column])


def fill_all(paths: Iterable[Path], contents: Callable[[Path], Contents]) -> list[Filled]:
    """Fill several documents in memory, each once however it is named.

    Raises:
        PitbError: Something is wrong with one or more; a sentence for each, a line for each.
    """
    found: dict[Path, Filled] = {}
    errors: list[str] = []
    for path in paths:
        if path.resolve() in found:
            continue
        try:
            found[path.resolve()] = fill(documents.read(path), contents(path))
        except PitbError as error:
            errors.append(str(error))
    if errors:
        first, *others = dict.fromkeys(errors)
        raise PitbError(first, *(f"error: {error}" for error in others))
    return list(found.values())


def write(filled: Sequence[Filled]) -> None:
    """Write the documents that are not current.

    Raises:
        PitbError: One cannot be written; says which were.
    """
    done: list[str] = []
    for item in filled:
        if item.text == item.document.text:
            continue
        try:
            raw = item.document.with_text(item.text).raw
            documents.replace(item.document.path, raw)
        except PitbError as error:
            others = f"; {', '.join(done)} had been filled before" if done else ""
            raise PitbError(f"{error}{others}") from None
        done.append(str(item.document.path))


def _printed(inner: str, mark: Mark) -> str:
    if not mark.block:
        return " ".join(inner.split())
    lines = LINE_END.split(inner)
    return "\n".join(line.removeprefix(mark.indent) for line in lines)


def _laid(text: str, mark: Mark, document: Document) -> str:
    """A content as it is put into a document: with its indentation and its line ends."""
    if not mark.block:
        return text
    before = document.text[max(mark.start - 2, 0) : mark.start]
    ending = "\r\n" if before == "\r\n" else before[-1]
    lines = [mark.indent + each if each else "" for each in text.split("\n")]
    return ending.join([*lines, ""])


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."
