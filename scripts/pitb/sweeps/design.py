"""A sweep's file: read, checked, and expanded into points.

A sentence on what is wrong names file, line and key. No library of either side is needed.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pitb import problems, schema, strict_yaml
from pitb.compare import LONG_QUANTITIES
from pitb.errors import PitbError, nearest
from pitb.registry import by_pytorch_name
from pitb.sweeps import random_axes
from pitb.sweeps.points import Point, check_option

Block = dict[str, Any]
Key = tuple[str | int, ...]
BATCH_SIZE = 512
"""Runs in a batch, at most."""
TOLERANCE = 1e-6
MOST = 1_000_000
"""Points of a sweep; each is held in memory."""
NESTED = ("options", "burn_options")
KINDS = ("grid", "list", "random")
CLIPS = {
    "global": ("max_norm", "norm_type"),
    "per-parameter": ("max_norm", "norm_type"),
    "value": ("clip_value",),
}


@dataclass(frozen=True)
class Sweep:
    """A sweep as its file has it, and its points, each configuration once, by name."""

    name: str
    points: dict[str, Point]
    tolerance: float = TOLERANCE
    quantities: tuple[str, ...] = LONG_QUANTITIES
    batch_size: int = BATCH_SIZE
    batches: int | None = None
    about: str = ""
    written: int = 0
    """How many points the file describes, also those that are there twice."""


@cache
def read_schema() -> schema.Schema:
    """What a sweep's file may say."""
    text = resources.files("pitb.sweeps").joinpath("schema.json").read_text(encoding="utf-8")
    found: schema.Schema = json.loads(text)
    return found


def read(path: Path) -> Sweep:
    """Read a sweep.

    Raises:
        PitbError: It cannot be read or is malformed; names file, line and key.
    """
    document = strict_yaml.load(path)
    value = document.value
    found = schema.first_error(value, read_schema(), "the file")
    if found is not None:
        raise PitbError(f"{document.where(found[0])}: {found[1]}")
    if value["name"] != path.stem:
        wrong = f"name is {value['name']!r}, but must be that of the file, {path.stem!r}"
        raise PitbError(f"{document.where(('name',))}: {wrong}")
    _refuse_infinite(value, (), document)
    points: dict[str, Point] = {}
    written = described = 0
    for number, block in enumerate(value["design"]):
        place: Key = ("design", number)
        if len(block) != 1:
            name = schema.name_of(place)
            wrong = f"{name} must be one of {', '.join(KINDS)}, and is {' and '.join(block)}"
            raise PitbError(f"{document.where(place)}: {wrong}")
        ((kind, given),) = block.items()
        checker = _Checker(document, (*place, kind))
        described += _count(kind, given)
        if described > MOST:
            checker.refuse((), f"these are {described:,} points; a sweep has {MOST:,} at most")
        for point in _EXPAND[kind](given, checker):
            written += 1
            other = points.setdefault(point.name, point)
            if other.digest != point.digest:
                raise PitbError(f"{path}: two configurations have the name {point.name}")
    return Sweep(
        name=value["name"],
        points=points,
        tolerance=float(value.get("tolerance", TOLERANCE)),
        quantities=tuple(value.get("quantities", LONG_QUANTITIES)),
        # 64.0 is an integer to JSON Schema.
        batch_size=int(value.get("batch_size", BATCH_SIZE)),
        batches=int(value["batches"]) if "batches" in value else None,
        about=value.get("about", ""),
        written=written,
    )


def _refuse_infinite(value: Any, path: Key, document: strict_yaml.Document) -> None:
    """Refuse 1e400, which is a number to JSON Schema."""
    if isinstance(value, float) and not math.isfinite(value):
        where = document.where(path)
        raise PitbError(f"{where}: {schema.name_of(path)} is not a finite number")
    items: Any = ()
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        _refuse_infinite(item, (*path, key), document)


def _count(kind: str, given: Any) -> int:
    """How many points a block describes, without making them."""
    if kind == "random":
        return int(given["n"])
    if kind == "list":
        return len(given)
    nested = [values for name in NESTED for values in given.get(name, {}).values()]
    return math.prod(len(v) for v in [*(given[n] for n in given if n not in NESTED), *nested])


def _point(fields: Block) -> Point:
    """A point that was checked."""
    whole = {"steps": int(fields["steps"])} if "steps" in fields else {}
    return Point(**{**fields, **whole})


@dataclass
class _Checker:
    """Refuses what no schema can say, with its place."""

    document: strict_yaml.Document
    place: Key

    def refuse(self, path: Key, sentence: str) -> None:
        whole = (*self.place, *path)
        where = self.document.where(whole)
        raise PitbError(f"{where}: {schema.name_of(whole)}: {sentence}")

    def axis(self, path: Key, name: str, value: Any) -> None:
        """A value of an axis."""
        if name == "optimizer":
            try:
                by_pytorch_name(value)
            except PitbError as error:
                self.refuse(path, str(error))
        elif name == "problem" and value not in problems.names():
            near = nearest(value, problems.names())
            self.refuse(path, f"no problem {value!r} is known; nearest: {near!r}")
        elif name == "clip" and value is not None:
            self.clip(path, value)

    def clip(self, path: Key, value: dict[str, Any]) -> None:
        scope = str(value.get("scope"))
        if scope not in CLIPS:
            self.refuse(path, f"scope is {scope!r}; allowed: {', '.join(CLIPS)}")
        for key, item in value.items():
            if key == "scope":
                continue
            if key not in CLIPS[scope]:
                near = nearest(key, CLIPS[scope])
                self.refuse(path, f"clip of scope {scope} has no key {key!r}; nearest: {near!r}")
            if isinstance(item, bool) or not isinstance(item, (int, float)) or not item > 0:
                self.refuse(path, f"{key} is {json.dumps(item)}, not a number above 0")
        if CLIPS[scope][0] not in value:
            self.refuse(path, f"clip of scope {scope} lacks the key {CLIPS[scope][0]!r}")

    def option(self, path: Key, optimizer: str, name: str, value: Any) -> None:
        """An option of PyTorch's side."""
        wrong = check_option(by_pytorch_name(optimizer), name, value)
        if wrong is not None:
            self.refuse(path, wrong)

    def burn_option(self, path: Key, optimizer: str, name: str) -> None:
        """A field of burn's configuration; what lies deeper burn checks itself."""
        from pitb.libraries import burn_fields

        entry = by_pytorch_name(optimizer)
        known = list(burn_fields(entry.burn_config))
        if name.partition(".")[0] not in known:
            near = nearest(name, known)
            self.refuse(path, f"burn's {entry.burn_config} has no {name!r}; nearest: {near!r}")


def _grid(grid: Block, checker: _Checker) -> Iterator[Point]:
    axes: list[tuple[str, str, list[Any]]] = []
    for name, values in grid.items():
        if name in NESTED:
            axes += [(name, inner, items) for inner, items in values.items()]
        else:
            axes.append(("", name, values))
            for place, value in enumerate(values):
                checker.axis((name, place), name, value)
    for outer, name, values in axes:
        for optimizer in grid["optimizer"] if outer else ():
            for place, value in enumerate(values):
                path = (outer, name, place)
                if outer == "options":
                    checker.option(path, optimizer, name, value)
                else:
                    checker.burn_option(path, optimizer, name)
    for values in itertools.product(*(items for _, _, items in axes)):
        fields: Block = {name: {} for name in NESTED}
        for (outer, name, _), value in zip(axes, values, strict=True):
            (fields[outer] if outer else fields)[name] = value
        yield _point(fields)


def _listed(points: list[Block], checker: _Checker) -> Iterator[Point]:
    for number, point in enumerate(points):
        _check_point(point, checker, (number,))
        yield _point(point)


def _check_point(point: Block, checker: _Checker, path: Key) -> None:
    for name, value in point.items():
        checker.axis((*path, name), name, value)
    for name, value in point.get("options", {}).items():
        checker.option((*path, "options", name), point["optimizer"], name, value)
    for name in point.get("burn_options", {}):
        checker.burn_option((*path, "burn_options", name), point["optimizer"], name)


def _random(block: Block, checker: _Checker) -> Iterator[Point]:
    flat: list[tuple[str, str, Any]] = []
    for name, value in block["axes"].items():
        inner = value.items() if name in NESTED else [("", value)]
        flat += [(name, second, item) for second, item in inner]
    for name, second, value in flat:
        if random_axes.is_distribution(value):
            wrong = random_axes.wrong(value)
            if wrong is not None:
                checker.refuse(("axes", name, *([second] if second else [])), wrong)
    checked: set[str] = set()
    single: schema.Schema = read_schema()["$defs"]["point"]
    seed = int(block["seed"])
    for number in range(int(block["n"])):
        point: Block = {}
        for name, second, value in flat:
            axis = f"{name}.{second}" if second else name
            if random_axes.is_distribution(value):
                value = random_axes.draw(value, seed, axis, number)
            if second:
                point.setdefault(name, {})[second] = value
            else:
                point[name] = value
        # Numbers that are drawn are of one kind; what is chosen of a list may not be.
        kinds = repr([_kind(item) for _, item in sorted(_leaves(point))])
        if kinds not in checked:
            found = schema.first_error(point, single)
            if found is not None:
                checker.refuse(("axes", *found[0]), found[1])
            _check_point(point, checker, ("axes",))
            checked.add(kinds)
        yield _point(point)


def _leaves(point: Block) -> list[tuple[str, Any]]:
    nested = [(f"{name}.{key}", v) for name in NESTED for key, v in point.get(name, {}).items()]
    return [*nested, *((key, value) for key, value in point.items() if key not in NESTED)]


def _kind(value: Any) -> Any:
    """What two values have in common that one check can speak for."""
    if isinstance(value, float) and value >= 0:
        return "number"
    return value


_EXPAND: dict[str, Callable[[Any, "_Checker"], Iterator[Point]]] = {
    "grid": _grid,
    "list": _listed,
    "random": _random,
}
