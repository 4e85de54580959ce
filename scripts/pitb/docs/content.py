"""What stands in for a mark, and whether what is printed is still that.

Printed and current are compared as a reader sees them: cells without their padding, text without
backslashes that only escape, no blank lines. So what a formatter did to a document is not undone.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

_ROW = re.compile(r"\s*\|")
_PIPE = re.compile(r"(?<!\\)\|")
_RULE = re.compile(r":?-+:?")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
_NUMBER = re.compile(r"(?<![\w.])([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.]*\w)")


@dataclass(frozen=True)
class Content:
    """What stands in for a mark."""

    text: str
    """Lines without the last line end; of a mark within a line, one line."""
    roundings: float | None = None
    """Where numbers in it are the processor's to the last bit: how far those that are printed may
    be off, beyond one in their last digit."""
    notes: tuple[str, ...] = ()
    """What is said when it is filled in."""


@dataclass(frozen=True)
class Difference:
    """Where what is printed is not what is current."""

    place: str
    """Row and column of a table, else the line."""
    printed: str
    current: str


def difference(printed: str, content: Content) -> Difference | None:
    """The first difference between what is printed, with ``\\n`` line ends, and its content."""
    old, new = _seen(printed), _seen(content.text)
    heading: list[str] = []
    for number, (a, b) in enumerate(zip(old, new, strict=False)):
        if b.cells and not (number and new[number - 1].cells):
            heading = b.cells
        if not _same(a.text, b.text, content.roundings):
            return _first(a, b, heading, content.roundings)
    if len(old) == len(new):
        return None
    more = len(old) > len(new)
    extra = (old if more else new)[min(len(old), len(new))]
    place = f"row {extra.cells[0]}" if extra.cells else "line"
    return Difference(place, *((extra.text, "nothing") if more else ("nothing", extra.text)))


@dataclass(frozen=True)
class _Line:
    text: str
    cells: list[str]


def _seen(text: str) -> list[_Line]:
    """The lines that are not blank, of rows of tables their cells."""
    found = []
    fence = ""
    for raw in text.split("\n"):
        line = raw.rstrip()
        match = _FENCE.match(line)
        if match and (not fence or match[1].startswith(fence)):
            fence = "" if fence else match[1]
            line = line.strip()
        elif not fence:
            line = line.strip()
        if not line:
            continue
        if not fence and not match and _ROW.match(line):
            cells = [_plain(cell.strip()) for cell in _PIPE.split(line)[1:]]
            if cells and not cells[-1]:
                cells.pop()
            cells = ["---" if _RULE.fullmatch(cell) else cell for cell in cells]
            found.append(_Line(" | ".join(cells), cells))
        else:
            found.append(_Line(line if fence or match else _plain(line), []))
    return found


def _plain(text: str) -> str:
    return " ".join(_ESCAPE.sub(r"\1", text).split())


def _first(a: _Line, b: _Line, heading: list[str], roundings: float | None) -> Difference:
    """The first cell that differs, else the whole line."""
    if not (a.cells and b.cells and len(a.cells) == len(b.cells)):
        return Difference(f"row {b.cells[0]}" if b.cells else "line", a.text, b.text)
    for position, (old, new) in enumerate(zip(a.cells, b.cells, strict=True)):
        if not _same(old, new, roundings):
            column = heading[position] if position < len(heading) else str(position + 1)
            return Difference(f"row {b.cells[0]}, column {column}", old, new)
    raise AssertionError("two rows differ in no cell")


def _same(a: str, b: str, roundings: float | None) -> bool:
    if a == b or roundings is None:
        return a == b
    old, new = _NUMBER.split(a), _NUMBER.split(b)
    if len(old) != len(new):
        return False
    for position, (x, y) in enumerate(zip(old, new, strict=True)):
        is_number = position % 2 == 1
        if is_number and not _close(x, y, roundings):
            return False
        if not is_number and x.split() != y.split():
            return False
    return True


def _close(a: str, b: str, slack: float) -> bool:
    """Whether two printed numbers are the same but for roundings; whole ones must be equal."""
    if a == b:
        return True
    x, y = Decimal(a), Decimal(b)
    if not any("." in text or "e" in text.lower() for text in (a, b)):
        return False
    if max(abs(x.adjusted()), abs(y.adjusted())) > 400:  # nothing here is beyond f64
        return False
    unit = max(Decimal((0, (1,), int(number.as_tuple().exponent))) for number in (x, y))
    return abs(x - y) <= unit + Decimal(slack)
