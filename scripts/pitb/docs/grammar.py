"""Where a Markdown document is marked.

A mark opens with the comment ``<!-- pitb:NAME options -->`` and closes with ``<!-- /pitb -->``.
Where both comments stand alone on their lines, the lines between are the mark's; else both stand
in one paragraph, heading, list item or cell of a table, and the text between is. Comments in fenced
or indented code and in code spans are text. What is code is said by markdown-it, a CommonMark
parser; only the places within a paragraph, which it does not tell, are found here.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt

from pitb.docs.document import LINE_END, Document
from pitb.docs.options import Named, parse
from pitb.errors import PitbError

CLOSE = "<!-- /pitb -->"

_COMMENT_OPEN = re.compile(r"<!--\s*pitb:(.*?)-->", re.DOTALL)
_COMMENT_CLOSE = re.compile(r"<!--\s*/pitb\s*-->")
_LIKE_A_MARK = re.compile(r"<!--\s*/?pitb\b")
_TEXT = re.compile(r"\\[\s\S]|`+|<!--")
_BLANKS = " \t"
_PIPE = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Mark:
    """A marked place; ``start`` and ``end`` bound what is between its two comments."""

    named: Named
    line: int
    start: int
    end: int
    block: bool
    """Whether it has lines of its own."""
    indent: str
    """What stands before a block's opening comment."""
    cell: bool
    """Whether it stands in a row of a table, where a pipe is written ``\\|``."""
    breaks: bool = False
    """Whether it begins a line, where CommonMark takes a comment for the end of the paragraph."""
    outer: tuple[int, int] = (0, 0)
    """Where it begins and ends with its comments; of a block the whole lines."""


@dataclass(frozen=True)
class _Region:
    """A stretch of a document in which comments are looked for."""

    start: int
    end: int
    kind: str
    """``text``, ``row`` or ``html``."""


@dataclass(frozen=True)
class _Comment:
    start: int
    end: int
    region: _Region
    alone: bool


def marks(document: Document) -> list[Mark]:
    """All marks of a document, in order.

    Raises:
        PitbError: A mark is malformed, not closed, not opened, or within another; the sentence
            names the line.
    """
    text = document.text
    found: list[Mark] = []
    opened: tuple[_Comment, Named] | None = None
    for comment in _comments(document):
        raw = text[comment.start : comment.end]
        where = document.where(comment.start)
        match = _COMMENT_OPEN.fullmatch(raw)
        if match is not None:
            if opened is not None:
                line = document.line(opened[0].start)
                raise PitbError(
                    f"{where}: a mark opens within that of line {line}, which is not closed by "
                    f"{CLOSE}"
                )
            opened = comment, parse(match[1], where)
        elif _COMMENT_CLOSE.fullmatch(raw):
            if opened is None:
                raise PitbError(f"{where}: {CLOSE} closes nothing")
            found.append(_pair(document, *opened, comment))
            opened = None
        elif _LIKE_A_MARK.match(raw) and "/pitb" in raw:
            raise PitbError(f"{where}: a mark is closed by {CLOSE}, and not by {raw!r}")
    if opened is not None:
        raise PitbError(f"{document.where(opened[0].start)}: the mark is not closed by {CLOSE}")
    return found


def without_marks(document: Document) -> str:
    """The text of a document without the comments of its marks, whose contents stay.

    Raises:
        PitbError: As `marks`.
    """
    text, position = document.text, 0
    pieces: list[str] = []
    for mark in marks(document):
        pieces += [text[position : mark.outer[0]], text[mark.start : mark.end]]
        position = mark.outer[1]
    return "".join([*pieces, text[position:]])


def _pair(document: Document, opened: _Comment, named: Named, closed: _Comment) -> Mark:
    line = document.line(opened.start)
    where = document.where(opened.start)
    start = document.starts[line - 1]
    before = document.text[start : opened.start]
    if opened.alone and closed.alone and document.line(closed.start) != line:
        first = document.starts[document.line(opened.end - 1)]
        last = document.line(closed.start) - 1
        outer = start, _at(document.starts, document.line(closed.end - 1))
        return Mark(named, line, first, document.starts[last], True, before, False, outer=outer)
    # A comment that begins a line is a region of its own; what follows may be its paragraph.
    follows = not opened.alone and opened.region.end == closed.region.start
    if opened.region != closed.region and not follows:
        raise PitbError(
            f"{where}: the mark is not closed by {CLOSE} where it should be: in the same paragraph "
            "or cell, or, where the mark stands alone on its line, alone on another"
        )
    kind = opened.region.kind
    breaks = kind == "html" and not before.strip()
    outer = opened.start, closed.end
    return Mark(named, line, opened.end, closed.start, False, "", kind == "row", breaks, outer)


def _comments(document: Document) -> Iterator[_Comment]:
    """All comments that are no code, in order."""
    text = document.text
    for region in _regions(document):
        for start, end in _within(document, region):
            first = document.starts[document.line(start) - 1]
            last = LINE_END.search(text, end)
            rest = text[end : last.start() if last else len(text)]
            alone = not text[first:start].strip(_BLANKS) and not rest.strip(_BLANKS)
            yield _Comment(start, end, region, alone)


def _within(document: Document, region: _Region) -> Iterator[tuple[int, int]]:
    """The comments of a region."""
    text = document.text
    position = region.start
    ends: dict[int, list[int]] = {}  # of runs of backticks, by their length
    for run in re.finditer("`+", text[region.start : region.end]):
        ends.setdefault(run.end() - run.start(), []).append(region.start + run.end())
    closes = text.rfind("-->", region.start, region.end)
    while True:
        match = _TEXT.search(text, position, region.end)
        if match is None:
            return
        position = match.end()
        if match[0] == "<!--":
            if match.start() + 2 <= closes:
                end = text.find("-->", match.start() + 2, region.end)
                position = end + 3
                yield match.start(), position
            elif region.kind == "row" and _LIKE_A_MARK.match(text, match.start()):
                where = document.where(match.start())
                raise PitbError(f"{where}: in a row of a table, a | within a mark is written \\|")
        elif match[0][0] == "`" and region.kind != "html":
            alike = ends.get(len(match[0]), [])
            later = bisect_right(alike, position)
            position = alike[later] if later < len(alike) else position
        elif match[0][0] == "\\" and region.kind == "html":
            position = match.start() + 1


def _regions(document: Document) -> list[_Region]:
    starts, text = document.starts, document.text
    found: list[_Region] = []
    row = False
    for token in _PARSER.parse(text):
        if token.type in ("tr_open", "tr_close"):
            row = token.type == "tr_open"
            if row and token.map:
                found += _cells(text, starts[token.map[0]], _at(starts, token.map[0] + 1))
        elif token.type == "html_block" and token.map:
            found.append(_Region(starts[token.map[0]], _at(starts, token.map[1]), "html"))
        elif token.type == "inline" and token.map and not row:
            found.append(_Region(starts[token.map[0]], _at(starts, token.map[1]), "text"))
    return found


def _at(starts: list[int], line: int) -> int:
    return starts[min(line, len(starts) - 1)]


def _cells(text: str, start: int, end: int) -> Iterator[_Region]:
    """The cells of a row, with what is between pipes; an escaped one is none."""
    first = start
    for match in _PIPE.finditer(text, start, end):
        yield _Region(first, match.start(), "row")
        first = match.end()
    yield _Region(first, end, "row")


_PARSER = MarkdownIt("commonmark").enable("table")
_PARSER.core.ruler.enableOnly(["normalize", "block"])  # blocks alone are asked for
