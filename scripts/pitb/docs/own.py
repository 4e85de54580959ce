"""What the project's own documents can name beside the tables: each a function of the language.

They are computed only where a document asks, and once.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pitb.docs import cluster, field, machine, readme, transcripts
from pitb.docs.content import Content
from pitb.docs.figures import Tables
from pitb.docs.grammar import Mark
from pitb.docs.options import Options
from pitb.docs.source import Folder
from pitb.errors import PitbError, nearest

Made = str | Content
Maker = Callable[[str], Made]


def makers(root: Path) -> dict[str, Maker]:
    """All names but those of tables, for a project's folder."""
    results = root / "results"
    found: dict[str, Maker] = {}
    for module in (readme, field, transcripts, machine, cluster):
        contents: Mapping[str, Callable[[Path, str], Made]] = module.CONTENTS
        found |= {name: partial(make, root) for name, make in contents.items()}
    if not results.is_dir():
        raise PitbError(f"{results} does not exist; run make first")
    return found


class Own:
    """The project's own names, and its tables."""

    def __init__(self, root: Path) -> None:
        """Compute nothing yet."""
        self.makers = makers(root)
        self.tables = Tables(Folder(root / "results"))
        self._made: dict[tuple[str, str], Content] = {}

    def content(self, mark: Mark, language: str) -> Content:
        """What a mark stands for.

        Raises:
            PitbError: It names nothing, or lines where it stands within one.
        """
        name, options = mark.named.name, mark.named.options
        if name not in self.makers:
            if name not in self.tables.names():
                near = nearest(name, [*self.makers, *self.tables.names()])
                raise PitbError(f"nothing is called {name!r}; the nearest is {near!r}")
            return self.tables.content(mark, language)
        if options != Options(language=options.language):
            raise PitbError(f"{name} takes no option but language")
        key = name, options.language or language
        if key not in self._made:
            made = self.makers[name](key[1])
            self._made[key] = made if isinstance(made, Content) else Content(made.rstrip("\n"))
        content = self._made[key]
        if not mark.block and "\n" in content.text:
            raise PitbError(f"{name} has several lines; its mark stands alone on a line")
        return content
