"""Python as it stands, read and never run: names, imports, and where each was given its value."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from pitb import libraries
from pitb.errors import PitbError
from pitb.files import read_text

LONGEST = 20_000_000
"""Characters of a source."""
Scoped = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
_SCOPES = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_USUAL = {
    "torch": "torch",
    "timm": "timm",
    "nn": "torch.nn",
    "optim": "torch.optim",
    "lr_scheduler": "torch.optim.lr_scheduler",
}
"""What names stand for in a piece of code that has none of its imports."""
SCHEDULERS = "torch.optim.lr_scheduler"
CLIPS = "torch.nn.utils"


@dataclass(frozen=True)
class Binding:
    """Where a name is given a value."""

    node: ast.AST
    value: ast.expr | None
    """What it is given by a plain assignment; None by anything else."""
    index: int | None = None
    """Which of the values, where several names are given several."""


@dataclass
class Source:
    """One Python source."""

    name: str
    """How messages call it."""
    text: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    """What imported names stand for, ``{"o": "torch.optim"}``."""
    stars: list[str] = field(default_factory=list)
    """Modules of which all names are imported."""
    bindings: dict[tuple[ast.AST, str], list[Binding]] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    """Names that are declared global or nonlocal somewhere."""
    identifiers: dict[str, str] = field(default_factory=dict)
    """The expressions that depend on the run, by what they are called in Rust."""

    def error(self, node: ast.AST, message: str) -> PitbError:
        """An error with the place of ``node``."""
        return PitbError(f"{self.where(node)}: {message}")

    def where(self, node: ast.AST) -> str:
        """``train.py, line 3``."""
        return f"{self.name}, line {line_of(node)}"

    def code(self, node: ast.AST) -> str:
        """The text of an expression on one line."""
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
        if not first or last is None:
            return "?"
        # Columns count bytes. ast.get_source_segment would split the whole text for each node.
        lines = [self._lines[i] for i in range(first - 1, last)]
        lines[-1] = lines[-1][: getattr(node, "end_col_offset", None)]
        lines[0] = lines[0][getattr(node, "col_offset", 0) :]
        return " ".join(b" ".join(lines).decode("utf-8", "replace").split())

    @cached_property
    def _lines(self) -> list[bytes]:
        """As Python counts them: a form feed ends none."""
        return [line.encode() for line in re.split(r"\r\n|\r|\n", self.text)]

    def scopes(self, node: ast.AST) -> Iterator[ast.AST]:
        """The functions around a node, the innermost first, then the module."""
        inner = True
        here: ast.AST | None = node
        while here is not None:
            here = self.parents.get(here)
            if isinstance(here, ast.ClassDef):
                # Functions do not see the names of the class around them.
                if inner:
                    yield here
            elif isinstance(here, _SCOPES):
                yield here
                inner = False

    def binding(self, name: str, node: ast.AST) -> Binding | None:
        """What a name stands for at a node, where that does not depend on the run.

        It must be given a value once in its scope, before the node where that is in the same scope.
        """
        if name in self.shared:
            return None
        for depth, scope in enumerate(self.scopes(node)):
            found = self.bindings.get((scope, name))
            if found is None:
                continue
            if len(found) > 1 or found[0].value is None:
                return None
            late = depth == 0 and line_of(found[0].node) > line_of(node)
            return None if late or self._within(node, found[0].node) else found[0]
        return None

    def _within(self, node: ast.AST, outer: ast.AST) -> bool:
        here: ast.AST | None = node
        while here is not None:
            if here is outer:
                return True
            here = self.parents.get(here)
        return False

    def bound(self, name: str) -> bool:
        """Whether a name is given a value anywhere."""
        return name in self.imports or name in self._bound

    @cached_property
    def _bound(self) -> set[str]:
        return {name for _, name in self.bindings}

    def qualified(self, node: ast.AST, depth: int = 0) -> str | None:
        """The full name, ``torch.optim.AdamW``, of what an expression names; None for none."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or depth > 20:
            return None
        base = self._name(node, depth)
        return None if base is None else ".".join([base, *reversed(attributes)])

    def _name(self, node: ast.Name, depth: int) -> str | None:
        name = node.id
        if name in self.imports:
            return self.imports[name]
        binding = self.binding(name, node)
        if binding is not None and binding.index is None:
            return self.qualified(binding.value, depth + 1) if binding.value else None
        if self.bound(name):
            return None
        if name in _USUAL:
            return _USUAL[name]
        known = _known()
        if name in known and (not self.imports or known[name].rpartition(".")[0] in self.stars):
            return known[name]
        return None

    def loop(self, node: ast.AST) -> ast.AST | None:
        """The innermost loop around a node, within its function."""
        here = self.parents.get(node)
        while here is not None and not isinstance(here, _SCOPES):
            if isinstance(here, (ast.For, ast.While, ast.AsyncFor)):
                return here
            here = self.parents.get(here)
        return None


def line_of(node: ast.AST) -> int:
    """The line that a node begins in; 1 where it has none."""
    return int(getattr(node, "lineno", 1))


def _known() -> dict[str, str]:
    """The full names of the calls that are recorded, by their last part."""
    recorded = libraries.recorded()
    found = {name: f"{item['module']}.{name}" for name, item in recorded["pytorch"].items()}
    found |= {name: f"{SCHEDULERS}.{name}" for name in recorded["schedulers"]}
    return found | {name: f"{CLIPS}.{name}" for name in recorded["clips"]}


def read(path: Path) -> Source:
    """A Python file.

    Raises:
        PitbError: It cannot be read or parsed; says the line.
    """
    if path.is_dir():
        raise PitbError(f"{path} is a folder; give a Python file, or the text of a call")
    return parse(read_text(path), str(path))


def parse(text: str, name: str) -> Source:
    """Python text that messages call ``name``.

    Raises:
        PitbError: It is not Python, or nested too deeply; says the line.
    """
    if len(text) > LONGEST:
        raise PitbError(f"{name} has {len(text)} characters; no more than {LONGEST} are read")
    text = text.removeprefix("\ufeff")
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        if "nested" in (error.msg or ""):
            raise PitbError(f"{name}, line {error.lineno or 1}: {error.msg}") from None
        raise PitbError(
            f"{name}, line {error.lineno or 1}: this is not Python: {error.msg}"
        ) from None
    except (RecursionError, MemoryError):
        raise PitbError(f"{name}: an expression is nested too deeply to be read") from None
    except ValueError as error:  # a null byte
        raise PitbError(f"{name}: this is not Python: {error}") from None
    source = Source(name, text, tree)
    _index(source)
    return source


def _index(source: Source) -> None:
    waiting: list[tuple[ast.AST, ast.AST]] = [(source.tree, source.tree)]
    while waiting:
        node, scope = waiting.pop()
        _bind(source, node, scope)
        inner = node if isinstance(node, _SCOPES) else scope
        for child in ast.iter_child_nodes(node):
            source.parents[child] = node
            waiting.append((child, inner))
    # In the order of the text, whatever the order of the walk.
    for found in source.bindings.values():
        found.sort(key=lambda item: line_of(item.node))


def _bind(source: Source, node: ast.AST, scope: ast.AST) -> None:
    def add(name: str, value: ast.expr | None = None, index: int | None = None) -> None:
        source.bindings.setdefault((scope, name), []).append(Binding(node, value, index))

    if isinstance(node, ast.Import):
        for alias in node.names:
            full = alias.name if alias.asname else alias.name.partition(".")[0]
            source.imports[alias.asname or full] = full
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            if alias.name == "*":
                source.stars.append(node.module or "")
            elif node.level == 0:
                source.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            else:
                add(alias.asname or alias.name)
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        source.shared.update(node.names)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        add(node.name)
    elif isinstance(node, ast.arg):
        add(node.arg)
    elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        add(node.name)
    elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            _assign(add, target, node.value)
    elif isinstance(node, ast.Name) and _changed(source, node):
        add(node.id)


def _changed(source: Source, node: ast.Name) -> bool:
    """Whether a name is changed other than by a plain assignment, of it or of a tuple of names."""
    if isinstance(node.ctx, ast.Load):
        return False
    parent = source.parents.get(node)
    while isinstance(parent, (ast.Tuple, ast.List)):
        parent = source.parents.get(parent)
    plain = isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
    return isinstance(node.ctx, ast.Del) or not plain


def _assign(add: Callable[..., None], target: ast.expr, value: ast.expr | None) -> None:
    if isinstance(target, ast.Name):
        add(target.id, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        starred = any(isinstance(item, ast.Starred) for item in target.elts)
        for i, item in enumerate(target.elts):
            if isinstance(item, ast.Name):
                add(item.id, None if starred else value, i)
            elif isinstance(item, (ast.Tuple, ast.List)):
                for inner in ast.walk(item):
                    if isinstance(inner, ast.Name):
                        add(inner.id)
            elif isinstance(item, ast.Starred) and isinstance(item.value, ast.Name):
                add(item.value.id)
