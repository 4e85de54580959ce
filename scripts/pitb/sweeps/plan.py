"""Which run is in which batch, and the files that a job reads its batch from.

A new run's place follows from its digest: the digests are cut into as many equal ranges as there
are batches. That number is a power of two unless the sweep gives it, so that a sweep that grows
keeps its batches, or splits each in two. Runs that were planned before stay where they were, and a
run that was edited, which is a new one to the pipeline, takes the place that it has left: so one
edit changes one batch.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from pitb import schema
from pitb.errors import PitbError
from pitb.files import read_json, write_json
from pitb.sweeps.design import Sweep, read, read_schema
from pitb.sweeps.points import Point

SIDES = ("pytorch", "burn")
VERSION = 1
"""Of what batches hold; another one trains all batches anew."""
Batch = dict[str, Any]
PLACES = "places.json"
"""Keeps the places of runs from one plan to the next; no rule's output, which would be deleted."""
PLACES_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["count", "places"],
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "places": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
    },
}
TEXT: schema.Schema = {"type": "string"}
ABOUT = schema.having(
    sweep=TEXT,
    about=TEXT,
    written={"type": "integer", "minimum": 0},
    axes=schema.listed(TEXT),
    runs={"type": "integer", "minimum": 0},
    batches=schema.listed(TEXT),
    digests={"type": "object", "additionalProperties": TEXT},
)
BATCH = schema.having(
    version={"const": VERSION},
    sweep=TEXT,
    batch=TEXT,
    digest=TEXT,
    tolerance={"type": "number", "minimum": 0},
    quantities=read_schema()["properties"]["quantities"],
    runs=schema.listed(schema.having(name=TEXT, point=schema.fields_of(Point))),
)


def count_batches(sweep: Sweep) -> int:
    """How many batches a sweep is cut into; some may be empty."""
    if sweep.batches is not None:
        return sweep.batches
    found = 1
    while found * sweep.batch_size < len(sweep.points):
        found *= 2
    return found


def place_of(digest: str, count: int) -> int:
    """The batch of a run, 0 being the first."""
    return (int(digest[:16], 16) * count) >> 64


def places(sweep: Sweep, before: Mapping[str, int] | None = None) -> dict[str, int]:
    """The number of each run's batch, by name; ``before`` has those of an earlier plan."""
    count = count_batches(sweep)
    before = before or {}
    found = {name: before[name] for name in sweep.points if name in before}
    left = [before[name] for name in sorted(before) if name not in sweep.points]
    added = [name for name in sorted(sweep.points) if name not in before]
    for number, name in enumerate(added):
        digest = sweep.points[name].digest
        found[name] = left[number] if number < len(left) else place_of(digest, count)
    return found


def batches(sweep: Sweep, before: Mapping[str, int] | None = None) -> dict[str, list[str]]:
    """The names of the runs of each batch that has some, in order."""
    count = count_batches(sweep)
    width = len(str(count - 1))
    found: dict[int, list[str]] = {}
    for name, place in places(sweep, before).items():
        found.setdefault(place, []).append(name)
    return {f"{place:0{width}}of{count}": sorted(found[place]) for place in sorted(found)}


def read_places(sweep: Sweep, folder: Path) -> dict[str, int]:
    """Where the runs of an earlier plan were, if it had as many batches; empty otherwise.

    Raises:
        PitbError: The file that keeps them is malformed.
    """
    path = folder / "plan" / PLACES
    if not path.is_file():
        return {}
    found = schema.read(path, PLACES_SCHEMA)
    if found["count"] != count_batches(sweep):
        return {}
    for name, place in found["places"].items():
        if place >= found["count"]:
            wrong = f"{path}: {name!r} is in batch {place}, and there are {found['count']:g}"
            raise PitbError(f"{wrong}; delete the file, and the runs are placed anew")
    return {name: int(place) for name, place in found["places"].items()}


@cache
def digests(path: Path, folder: Path) -> dict[str, tuple[str, str]]:
    """Of each batch of a sweep's file: the digest of what is trained, and of how it is compared.

    Raises:
        PitbError: The file is malformed.
    """
    sweep = read(path)
    return {
        batch: (
            digest := digest_of(sweep.points[name] for name in names),
            _comparing(digest, sweep.tolerance, sweep.quantities),
        )
        for batch, names in batches(sweep, read_places(sweep, folder)).items()
    }


def digest_of(points: Iterable[Point]) -> str:
    """Changes when what a batch trains does."""
    text = "\n".join([str(VERSION), *sorted(point.digest for point in points)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _comparing(digest: str, tolerance: float, quantities: Iterable[str]) -> str:
    text = json.dumps([digest, float(tolerance), list(quantities)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write(path: Path, folder: Path) -> Sweep:
    """Write the batches of the sweep at ``path`` to ``<folder>/plan``.

    Removes what other plans left in the folder, so that what is there at the end is this sweep's.

    Raises:
        PitbError: The sweep is malformed, or a file cannot be written.
    """
    sweep = read(path)
    before = read_places(sweep, folder)
    cut = batches(sweep, before)
    plan = folder / "plan"
    whole = {
        batch: _comparing(
            digest_of(sweep.points[name] for name in names), sweep.tolerance, sweep.quantities
        )
        for batch, names in cut.items()
    }
    about: dict[str, Any] = {"sweep": sweep.name, "about": sweep.about, "written": sweep.written}
    about["axes"] = sorted({key for point in sweep.points.values() for key in point.options})
    about |= {"runs": len(sweep.points), "batches": list(cut), "digests": whole}
    if _is_written(plan, about):
        return sweep
    _remove_others(folder, cut)
    kept = {"count": count_batches(sweep), "places": places(sweep, before)}
    write_json(plan / PLACES, kept, indent=None)
    for batch, names in cut.items():
        points = [sweep.points[name] for name in names]
        value = {
            "version": VERSION,
            "sweep": sweep.name,
            "batch": batch,
            "digest": digest_of(points),
            "tolerance": sweep.tolerance,
            "quantities": list(sweep.quantities),
            "runs": [
                {"name": name, "point": asdict(point)}
                for name, point in zip(names, points, strict=True)
            ],
        }
        write_json(plan / f"{batch}.json", value, indent=None)
    # The last one, so that a plan that is there is whole.
    write_json(plan / "sweep.json", about)
    return sweep


def _is_written(plan: Path, about: dict[str, Any]) -> bool:
    """Whether this plan is there already; one that lacks a file or is malformed is written anew."""
    if not all((plan / f"{batch}.json").is_file() for batch in about["batches"]):
        return False
    try:
        return bool(read_json(plan / "sweep.json") == about)
    except PitbError:
        return False


def _remove_others(folder: Path, cut: Iterable[str]) -> None:
    wanted = {
        "plan": {PLACES, *(f"{batch}.json" for batch in cut)},
        "traces": {f"{side}-{batch}.parquet" for batch in cut for side in SIDES},
        "comparisons": {f"{batch}.parquet" for batch in cut},
        "outcomes": {f"{batch}.parquet" for batch in cut},
    }
    # What sums up other runs than those that are there looks whole and is not.
    others = [folder / "runs.parquet", *folder.glob("summary*")]
    others += [p for name, names in wanted.items() for p in (folder / name).glob("*")
               if p.name not in names]  # fmt: skip
    for path in others:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise PitbError(f"cannot remove {path}: {error.strerror or error}") from None


def read_about(plan: Path) -> dict[str, Any]:
    """What a plan says of the whole sweep.

    Raises:
        PitbError: There is none, or it is malformed.
    """
    path = plan / "sweep.json"
    found: dict[str, Any] = schema.read(path, ABOUT)
    if sorted(found["digests"]) != sorted(found["batches"]):
        raise PitbError(f"{path}: the digests are not those of the batches")
    return found


def read_batch(plan: Path, batch: str, digest: str | None = None) -> Batch:
    """A batch, its points as `Point`.

    Raises:
        PitbError: It is missing or malformed, or is not the one whose digest was given.
    """
    path = plan / f"{batch}.json"
    found: Batch = schema.read(path, BATCH)
    if digest not in (None, found["digest"]):
        raise PitbError(f"{path}: the sweep was edited during the run; start the run again")
    runs = found.pop("runs")
    found["points"] = {run["name"]: Point(**run["point"]) for run in runs}
    whole = read_about(plan)["digests"].get(batch)
    if not _is_whole(found, batch, len(runs), whole):
        wrong = f"{path} does not hold the runs that its digest and their names are of"
        raise PitbError(f"{wrong}; delete it, and it is written anew")
    return found


def _is_whole(found: Batch, batch: str, runs: int, comparing: str | None) -> bool:
    """Whether a batch holds what was planned."""
    points: dict[str, Point] = found["points"]
    try:
        names = [point.name for point in points.values()]
        digest = digest_of(points.values())
    except (PitbError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return False  # an option or a value that no plan has
    same = (found["batch"], found["digest"], len(points)) == (batch, digest, runs)
    return (
        same
        and names == list(points)
        and comparing == _comparing(digest, found["tolerance"], found["quantities"])
    )
