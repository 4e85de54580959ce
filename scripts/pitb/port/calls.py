"""The calls of the libraries that a source holds, and their arguments by name."""

import ast
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pitb import libraries
from pitb.errors import PitbError, nearest
from pitb.port.source import CLIPS, SCHEDULERS, Source
from pitb.port.values import Evaluator, Made, RunTime

OPTIMIZER, SCHEDULER, CLIP, ABSENT = "optimizer", "scheduler", "clip", "absent"
Parameters = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Call:
    """A call of one of the libraries."""

    kind: str
    """optimizer, scheduler, clip, or absent: an optimizer that burn has no counterpart of."""
    name: str
    """``AdamW``."""
    full: str
    """``torch.optim.AdamW``."""
    node: ast.Call
    source: Source

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.node.lineno

    @property
    def where(self) -> str:
        """``train.py, line 3``."""
        return self.source.where(self.node)

    @property
    def code(self) -> str:
        """Its text."""
        return self.source.code(self.node)

    @property
    def parameters(self) -> Parameters:
        """The parameters that it takes.

        Raises:
            PitbError: PyTorch has no such scheduler or clip; names the nearest.
        """
        recorded = libraries.recorded()
        if self.kind == OPTIMIZER:
            return list(recorded["pytorch"][self.name]["parameters"])
        known = recorded["schedulers" if self.kind == SCHEDULER else "clips"]
        if self.name not in known:
            near = nearest(self.name, known)
            raise PitbError(f"{self.where}: PyTorch has no {self.full}; nearest: {near!r}")
        return list(known[self.name])


def classify(full: str) -> tuple[str, str] | None:
    """Kind and name of what a full name calls; None where that is no matter of this project."""
    module, _, name = full.rpartition(".")
    recorded = libraries.recorded()
    if module == SCHEDULERS or (
        module.startswith("torch.optim") and name in recorded["schedulers"]
    ):
        return (SCHEDULER, name) if name[:1].isupper() else None
    if module.startswith(CLIPS):
        return (CLIP, name) if name.startswith("clip_grad") else None
    for package in ("torch.optim", "timm.optim"):
        if module == package or module.startswith(f"{package}."):
            if recorded["pytorch"].get(name, {}).get("module") == package:
                return OPTIMIZER, name
            made = name[:1].isupper() or name.startswith("create_optimizer")
            return (ABSENT, name) if made and name != "Optimizer" else None
    return None


def find(source: Source) -> list[Call]:
    """The calls of a source in the order of its text, those within other calls too.

    Raises:
        PitbError: There is none.
    """
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            full = source.qualified(node.func)
            kind = classify(full) if full is not None else None
            if full is not None and kind is not None:
                found.append(Call(*kind, full, node, source))
    if not found:
        said = f"{source.name}: there is no call of an optimizer, a scheduler or a clip in it"
        raise PitbError(said + _almost(source))
    return sorted(found, key=lambda call: (call.line, call.node.col_offset))


def _almost(source: Source) -> str:
    """What a call was most likely meant to be, where there is no other."""
    recorded = libraries.recorded()
    names = (*recorded["pytorch"], *recorded["schedulers"], *recorded["clips"])
    known = {name.lower(): name for name in names}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            name = source.code(node.func).rpartition(".")[2]
            for near in difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75):
                meant = f"{known[near]}, imported from torch"
                return f"; is {name} in line {node.lineno} meant to be {meant}?"
    return ""


def made(value: Made, source: Source) -> Call | None:
    """The call behind a value; None where it is no matter of this project."""
    kind = classify(value.function)
    return Call(*kind, value.function, value.node, source) if kind else None


def bind(call: Call, evaluator: Evaluator) -> dict[str, Any]:
    """The arguments of a call by name, as expressions or, out of ``**``, as values.

    Raises:
        PitbError: One is unknown, given twice or missing, or it is not known which are given.
    """
    parameters = call.parameters
    positional = [str(item["name"]) for item in parameters if not item.get("keyword_only")]
    names = [str(item["name"]) for item in parameters]
    found: dict[str, Any] = {}
    given: list[Any] = []
    for argument in call.node.args:
        given += (
            _starred(call, argument, evaluator) if isinstance(argument, ast.Starred) else [argument]
        )
    if len(given) > len(positional):
        raise PitbError(
            f"{call.where}: {call.name} takes {len(positional)} positional arguments "
            f"({', '.join(positional)}), and {len(given)} are given"
        )
    found |= dict(zip(positional, given, strict=False))
    for keyword in call.node.keywords:
        items = (
            {keyword.arg: keyword.value}
            if keyword.arg is not None
            else _unpacked(call, keyword.value, evaluator)
        )
        for name, value in items.items():
            if name in found:
                raise PitbError(f"{call.where}: {call.name} is given {name!r} twice")
            if name not in names:
                near = nearest(name, names)
                raise PitbError(
                    f"{call.where}: {call.name} has no option {name!r}; nearest: {near!r}"
                )
            found[name] = value
    for item in parameters:
        if "default" not in item and item["name"] not in found:
            raise PitbError(f"{call.where}: {call.name} needs {item['name']!r}, which is not given")
    return found


def _starred(call: Call, node: ast.Starred, evaluator: Evaluator) -> list[Any]:
    try:
        found = evaluator.known(node.value)
    except RunTime:
        found = None
    if isinstance(found, list):
        return found
    raise PitbError(
        f"{call.where}: which options *{call.source.code(node.value)} holds is known only when the "
        "program runs; write them out"
    )


def _unpacked(call: Call, node: ast.expr, evaluator: Evaluator) -> dict[str, Any]:
    try:
        found = evaluator.known(node)
    except RunTime:
        found = None
    if isinstance(found, dict) and all(isinstance(key, str) for key in found):
        return found
    raise PitbError(
        f"{call.where}: which options **{call.source.code(node)} holds is known only when the "
        "program runs; write them out"
    )
