"""Which files of this package a script's result depends on, so that editing one reruns it."""

import ast
from functools import cache
from pathlib import Path

PACKAGE = "pitb"


def dependencies(script: Path, folder: Path | None = None) -> list[Path]:
    """The script, every module of the package that it imports, directly or not, and their data.

    Data are the files beside a module that its source names. Found by reading, not by importing:
    the modules may need libraries that take seconds to load.

    Args:
        script: A script, or a module of the package.
        folder: That in which the package stands; by default the script's.
    """
    folder = folder or script.parent
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            if path.suffix == ".py":
                waiting += _mentioned(path, folder)
    return sorted(found)


@cache
def _mentioned(path: Path, folder: Path) -> list[Path]:
    text = path.read_text(encoding="utf-8")
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    paths: list[Path] = []
    for name in sorted(names):
        parts = name.split(".")
        if parts[0] != PACKAGE:
            continue
        # Importing a.b runs a/__init__.py too.
        for i in range(1, len(parts) + 1):
            module = folder.joinpath(*parts[:i])
            candidates = (module.with_suffix(".py"), module / "__init__.py")
            paths += [candidate for candidate in candidates if candidate.is_file()]
    if path.is_relative_to(folder / PACKAGE):
        data = (item for item in path.parent.iterdir() if item.suffix not in (".py", ""))
        paths += [item for item in data if f'"{item.name}"' in text]
    return paths
