"""The configuration: read strictly, checked against its schema, resolved into runs and batches."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pitb import strict_yaml
from pitb.errors import PitbError, nearest
from pitb.files import read_json
from pitb.pages import PAGES
from pitb.results import pair_name
from pitb.schema import first_error, name_of
from pitb.strict_yaml import Document

T = TypeVar("T")

DEFAULT_PROGRAM = "optdef"
TIME_LIMIT = 3600.0
"""Seconds, where the configuration names no ``time_limit``."""


@dataclass(frozen=True)
class Run:
    """One training of one model on one side with one configuration."""

    side: str
    name: str
    program: str
    spec: dict[str, Any]
    """What the programs read; the id is in it."""
    sources: dict[str, str]
    """File and line of ``options`` and of each path below it, for messages."""

    @property
    def id(self) -> str:
        """``<side>/<name>``."""
        return f"{self.side}/{self.name}"


@dataclass(frozen=True)
class Pair:
    """Two runs to compare."""

    a: str
    b: str
    quantities: tuple[str, ...]
    tolerance: float
    initial_state_may_differ: str | None
    explain: bool = False
    """Whether ``make explain`` is to say which difference costs what."""

    @property
    def name(self) -> str:
        """``<a>--<b>``, as the comparison's file is called."""
        return pair_name(self.a, self.b)


@dataclass(frozen=True)
class Config:
    """A checked configuration."""

    tolerance: float
    threads: int
    batch_size: int
    runs: tuple[Run, ...]
    pairs: tuple[Pair, ...]
    pages: tuple[str, ...]
    time_limit: float = TIME_LIMIT
    """Seconds that a batch, or a program that is called for evidence, may take."""
    watch: tuple[tuple[str, str], ...] = ()
    """Library and version of what ``watch`` makes, in order."""

    def batches(self, side: str, program: str | None = None) -> dict[int, list[Run]]:
        """The runs of one side, and of one program where it is named, by batch."""
        runs = [r for r in self.runs if r.side == side and program in (None, r.program)]
        return _assign(runs, [run.id for run in runs], self.batch_size)

    def pair_batches(self) -> dict[int, list[Pair]]:
        """The comparisons by batch."""
        return _assign(self.pairs, [pair.name for pair in self.pairs], self.batch_size)

    def explained(self) -> list[Pair]:
        """The comparisons that are to be explained."""
        return [pair for pair in self.pairs if pair.explain]

    def programs(self, side: str) -> list[str]:
        """The programs that some run of ``side`` needs, sorted."""
        return sorted({run.program for run in self.runs if run.side == side})


def _assign(items: Sequence[T], ids: Sequence[str], size: int) -> dict[int, list[T]]:
    """Assign items to batches by a hash of their ids, so that a new one moves none of the others.

    The number of batches is a power of two, and so changes seldom.
    """
    count = 1
    while count * size < len(items):
        count *= 2
    batches: dict[int, list[T]] = {}
    for item, name in zip(items, ids, strict=True):
        number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % count
        batches.setdefault(number, []).append(item)
    return dict(sorted(batches.items()))


def digest(items: Iterable[Any]) -> str:
    """A short hash of anything JSON has, to notice that it changed."""
    text = json.dumps(list(items), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def load(
    paths: Sequence[Path], schema_path: Path, overrides: Mapping[str, Any] | None = None
) -> Config:
    """Read, merge and check configuration files; later ones override earlier ones.

    Args:
        paths: YAML files.
        schema_path: The JSON schema.
        overrides: Single keys set on the command line.

    Raises:
        PitbError: Says file, line and key of what is wrong, and what would be right.
    """
    documents = [strict_yaml.load(path) for path in paths]
    for document in documents:
        if not isinstance(document.value, dict):
            raise PitbError(f"{document.path}: not a configuration: it must hold keys and values")
    merged = Document({}, {}, paths[0])
    sources: dict[strict_yaml.Path_, str] = {}
    for document in documents:
        # Comparisons are added to those of earlier files, so their lines are counted on from them.
        earlier = merged.value.get("comparisons")
        before = len(earlier) if isinstance(earlier, list) else 0
        _merge(merged.value, document.value)
        for path in document.lines:
            moved = path
            if len(path) > 1 and path[0] == "comparisons" and isinstance(path[1], int):
                moved = (path[0], path[1] + before, *path[2:])
            sources[moved] = document.where(path)
    for key, value in (overrides or {}).items():
        merged.value[key] = _override(key, value)
        sources = {path: where for path, where in sources.items() if path[:1] != (key,)}
        sources[(key,)] = "--config"

    def where(path: strict_yaml.Path_) -> str:
        while path and path not in sources:
            path = path[:-1]
        return sources.get(path, str(paths[-1]))

    _validate(merged.value, read_json(schema_path), where)
    return _resolve(merged.value, where)


def _merge(into: dict[str, Any], update: dict[str, Any]) -> None:
    for key, value in update.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif key == "comparisons" and isinstance(value, list) and isinstance(into.get(key), list):
            into[key] = into[key] + value
        else:
            into[key] = value


def _override(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return strict_yaml.scalar(value)
    except ValueError as error:
        raise PitbError(f"--config {key}: {error}") from None


def _validate(value: Any, schema: Any, where: Any) -> None:
    found = first_error(value, schema, "the configuration")
    if found is not None:
        path, sentence = found
        raise PitbError(f"{where(path)}: {sentence}")
    for path, number in _numbers(value, ()):
        if not math.isfinite(number):
            raise PitbError(f"{where(path)}: {name_of(path)} is not a finite number")


def _numbers(value: Any, path: strict_yaml.Path_) -> Iterable[tuple[strict_yaml.Path_, float]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _numbers(inner, (*path, index))
    elif isinstance(value, float):
        yield path, value


def _resolve(value: dict[str, Any], where: Any) -> Config:
    runs = tuple(
        _run(side, name, settings, where)
        for side, named in value["runs"].items()
        for name, settings in named.items()
    )
    known = [run.id for run in runs]
    pairs: list[Pair] = []
    for index, item in enumerate(value["comparisons"]):
        for key in ("a", "b"):
            if item[key] not in known:
                raise PitbError(
                    f"{where(('comparisons', index, key))}: comparisons[{index}].{key} names "
                    f"{item[key]!r}, which is no run; the nearest is {nearest(item[key], known)!r}"
                )
        pair = Pair(
            item["a"],
            item["b"],
            tuple(item["quantities"]),
            float(item.get("tolerance", value["tolerance"])),
            item.get("initial_state_may_differ"),
            item.get("explain", False),
        )
        if any(other.name == pair.name for other in pairs):
            raise PitbError(
                f"{where(('comparisons', index))}: comparisons[{index}] compares {pair.a} with "
                f"{pair.b}, as an earlier one does"
            )
        pairs.append(pair)
    for index, page in enumerate(value["pages"]):
        _check_page(page, known, [pair.name for pair in pairs], where(("pages", index)))
    return Config(
        tolerance=float(value["tolerance"]),
        threads=int(value["threads"]),
        batch_size=int(value["batch_size"]),
        runs=runs,
        pairs=tuple(pairs),
        pages=tuple(value["pages"]),
        time_limit=float(value.get("time_limit", TIME_LIMIT)),
        watch=tuple(
            (library, str(version))
            for library, versions in value.get("watch", {}).items()
            for version in versions
        ),
    )


def _check_page(page: str, runs: list[str], pairs: list[str], source: str) -> None:
    needed = PAGES[page]
    needed_runs = (*needed.traces, *(run for pair in needed.comparisons for run in pair))
    for run in needed_runs:
        if run not in runs:
            raise PitbError(f"{source}: page {page!r} needs the run {run!r}, which is not in runs")
    for a, b in needed.comparisons:
        if pair_name(a, b) not in pairs:
            raise PitbError(
                f"{source}: page {page!r} needs {a!r} compared with {b!r}, which is not in "
                "comparisons"
            )


def _run(side: str, name: str, settings: dict[str, Any], where: Any) -> Run:
    spec = {key: value for key, value in settings.items() if key != "program"}
    spec = {"id": f"{side}/{name}", **spec, "options": spec.get("options", {})}
    if "problem" in spec:
        _check_problem(spec["problem"], where(("runs", side, name, "problem")))
    for index, tensor in enumerate(spec.get("frozen", ())):
        _check_tensor(tensor, spec, where(("runs", side, name, "frozen", index)))
    spec["steps"] = int(spec["steps"])  # 10.0 is an integer to JSON Schema
    sources = {
        ".".join(map(str, path)): where(("runs", side, name, *path))
        for path in _paths(spec["options"], ("options",))
    }
    return Run(side, name, settings.get("program", DEFAULT_PROGRAM), spec, sources)


def _check_problem(name: str, source: str) -> None:
    from pitb.problems import problem  # needs NumPy, which most configurations need not wait for

    try:
        problem(name)
    except PitbError as error:
        raise PitbError(f"{source}: {error}") from None


def _check_tensor(tensor: str, spec: dict[str, Any], source: str) -> None:
    # They need NumPy, which most configurations need not wait for.
    from pitb import a1
    from pitb.problems import problem

    found = problem(spec.get("problem", a1.NAME))
    if tensor not in found.tensors:
        near = nearest(tensor, found.tensors)
        raise PitbError(f"{source}: {found.name} has no tensor {tensor!r}; the nearest is {near!r}")


def _paths(value: Any, path: strict_yaml.Path_) -> Iterable[strict_yaml.Path_]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
