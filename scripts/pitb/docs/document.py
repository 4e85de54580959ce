"""A text file that is read, and replaced, to the byte."""

import contextlib
import os
import re
import stat
import tempfile
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pitb.errors import PitbError

BOM = b"\xef\xbb\xbf"
LINE_END = re.compile(r"\r\n|\r|\n")
"""Markdown's line ends; a form feed or U+2028 is none."""


@dataclass(frozen=True)
class Document:
    """A document: its text without a byte order mark, line ends as they are."""

    path: Path
    text: str
    bom: bytes = b""

    @cached_property
    def starts(self) -> list[int]:
        """Where each line starts; the last is the end of the text."""
        found = [0, *(match.end() for match in LINE_END.finditer(self.text))]
        return found if found[-1] == len(self.text) and len(found) > 1 else [*found, len(self.text)]

    def line(self, position: int) -> int:
        """The number of the line that a position is in, from 1."""
        return max(bisect_right(self.starts, position), 1)

    def where(self, position: int) -> str:
        """A position in words, for messages."""
        return f"{self.path}, line {self.line(position)}"

    def with_text(self, text: str) -> "Document":
        """The same document with another text."""
        return Document(self.path, text, self.bom)

    @property
    def raw(self) -> bytes:
        """Its bytes."""
        return self.bom + self.text.encode("utf-8")


def read(path: Path) -> Document:
    """Read a document.

    Raises:
        PitbError: It is missing, a folder, no file, cannot be read, or is not UTF-8; then the
            sentence names the byte and its line.
    """
    if path.is_dir():
        raise PitbError(f"{path} is a folder; name the Markdown files in it")
    if path.exists() and not path.is_file():
        raise PitbError(f"{path} is not a regular file, so it cannot be filled")
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise PitbError(f"{path} does not exist") from None
    except OSError as error:
        raise PitbError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + len(re.findall(rb"\r\n|\r|\n", raw[: error.start]))
        byte = f"byte 0x{raw[error.start]:02x}"
        raise PitbError(f"{path}, line {line}: {byte} is not part of UTF-8 text") from None
    has_bom = raw.startswith(BOM)
    return Document(path, text[1:] if has_bom else text, BOM if has_bom else b"")


def replace(path: Path, raw: bytes) -> None:
    """Put ``raw`` in the place of a file at once, with the mode it has; a link stays a link.

    Raises:
        PitbError: The file is read-only, or its folder cannot be written to.
    """
    target = path.resolve()
    temporary: str | None = None
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        if not os.access(target, os.W_OK):
            raise PitbError(f"cannot write {path}: it is read-only")
        number, temporary = tempfile.mkstemp(".part", ".pitb-", target.parent)
        with os.fdopen(number, "wb") as file:
            file.write(raw)
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):  # the error that counts is the one before
                os.unlink(temporary)
        raise PitbError(f"cannot write {path}: {error.strerror or error}") from error
