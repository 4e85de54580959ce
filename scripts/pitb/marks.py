"""Marked places in a Markdown file, filled with what was generated.

A place opens with ``<!-- pitb:NAME -->`` and closes with ``<!-- /pitb -->``, each on a line of its
own; everything outside stays as it is, to the byte.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from pitb.errors import PitbError, nearest

_OPEN = re.compile(r"<!-- pitb:(\S+) -->")
_CLOSE = "<!-- /pitb -->"


def fill(text: str, contents: Mapping[str, str], path: Path) -> str:
    """``text`` with every marked place filled from ``contents``.

    Raises:
        PitbError: A name is unknown, a place is not closed or not opened; says the line.
    """
    lines: list[str] = []
    opened: int | None = None
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        stripped = line.strip()
        match = _OPEN.fullmatch(stripped)
        if match is not None:
            if opened is not None:
                raise PitbError(f"{path}, line {opened}: the mark is not closed by {_CLOSE}")
            if match[1] not in contents:
                near = nearest(match[1], contents)
                where = f"{path}, line {number}"
                raise PitbError(f"{where}: nothing is called {match[1]!r}; the nearest is {near!r}")
            opened = number
            lines += [line, contents[match[1]].rstrip("\n") + "\n"]
        elif stripped == _CLOSE:
            if opened is None:
                raise PitbError(f"{path}, line {number}: {_CLOSE} closes nothing")
            opened = None
            lines.append(line)
        elif opened is None:
            lines.append(line)
    if opened is not None:
        raise PitbError(f"{path}, line {opened}: the mark is not closed by {_CLOSE}")
    return "".join(lines)
