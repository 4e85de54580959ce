"""Where results are read from: named texts. A folder is one; whatever else names texts may be."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pitb.errors import PitbError
from pitb.files import read_text

LEDGER = "ledger.csv"
TABLES = "tables"
FIGURES = "figures.csv"


class Source(Protocol):
    """Results, as far as documents need them."""

    @property
    def where(self) -> str:
        """What to call it in messages."""

    def pages(self) -> Iterable[str]:
        """The names of the folders in ``tables``."""

    def has(self, name: str) -> bool:
        """Whether there is a text of that name, a path below the results with ``/``."""

    def text(self, name: str) -> str:
        """The text of that name.

        Raises:
            PitbError: There is none, or it cannot be read.
        """


@dataclass(frozen=True)
class Folder:
    """A folder of results, as ``make`` fills it."""

    path: Path

    @property
    def where(self) -> str:
        """The folder's path."""
        return str(self.path)

    def pages(self) -> list[str]:
        """The folders in ``tables`` that hold figures."""
        return sorted(path.parent.name for path in self.path.glob(f"{TABLES}/*/{FIGURES}"))

    def has(self, name: str) -> bool:
        """Whether the file is there."""
        return (self.path / name).is_file()

    def text(self, name: str) -> str:
        """What the file holds."""
        return read_text(self.path / name)


def folder(path: Path) -> Folder:
    """A folder of results.

    Raises:
        PitbError: It holds no tables.
    """
    found = Folder(path)
    if not found.pages():
        raise PitbError(f"{path} holds no results: {TABLES}/<page>/{FIGURES} is not there")
    return found


def nearest_folder(document: Path) -> Folder:
    """The folder ``results`` beside a document or above it, else in or above the working folder.

    Raises:
        PitbError: There is none that holds tables.
    """
    for start in (document.resolve().parent, Path.cwd()):
        for parent in (start, *start.parents):
            found = Folder(parent / "results")
            if found.pages():
                return found
    raise PitbError(
        f"no folder results with tables stands beside {document} or above it; name one with "
        "--results"
    )
