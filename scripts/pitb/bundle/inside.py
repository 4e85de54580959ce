"""Reading the files of an unpacked bundle: small ones, as text or JSON, with faults in words."""

import json
from pathlib import Path
from typing import Any

from pitb.errors import PitbError

MOST_TEXT = 16 << 20
"""Bytes of a text or a JSON file; Python holds JSON in some ten times as many."""


class Unreadable(PitbError):
    """A file that cannot be read at all, so that nothing can be said of what it claims."""


def read_text(folder: Path, name: str) -> str:
    """The text of a file.

    Raises:
        PitbError: It is missing, too large, or not UTF-8; names it as the bundle does.
    """
    path = folder / name
    if not path.is_file():
        raise Unreadable(f"{name} is not in the bundle")
    if path.stat().st_size > MOST_TEXT:
        raise Unreadable(f"{name} has more than {MOST_TEXT >> 20} MB")
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{name} is not UTF-8 text (byte {error.start})") from None


def read_json(folder: Path, name: str, kind: type = dict) -> Any:
    """The value of a JSON file, which must be of this kind.

    Raises:
        PitbError: It cannot be read, is not JSON, or is another kind of value.
    """
    text = read_text(folder, name)
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise Unreadable(f"{name} is not usable JSON: it is nested too deeply") from None
    except ValueError as error:  # also a number of too many digits
        raise Unreadable(f"{name} is not valid JSON: {error}") from None
    if not isinstance(found, kind):
        raise Unreadable(f"{name} holds {type(found).__name__}, not {kind.__name__}")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def first_difference(stored: str, made: str) -> str:
    """The first line in which two texts differ, in words."""
    a, b = stored.splitlines(), made.splitlines()
    for number, (line, other) in enumerate(zip(a, b, strict=False), start=1):
        if line != other:
            return f"line {number} is {_short(line)}, but computed again {_short(other)}"
    if len(a) != len(b):
        return f"it has {len(a)} lines, but computed again {len(b)}"
    return "its line ends differ from what is computed again"


def _short(line: str) -> str:
    return repr(line if len(line) <= 160 else f"{line[:157]}...")
