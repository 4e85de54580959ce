"""The table of a sweep's runs, a row for each: what it was, and what became of it."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitb import libraries
from pitb.compare import OK
from pitb.errors import PitbError
from pitb.files import replacing
from pitb.sweeps import outcomes, plan
from pitb.sweeps.points import Point

if TYPE_CHECKING:
    import pyarrow as pa

POINT = {
    "optimizer": "string",
    "lr": "double",
    "steps": "int32",
    "problem": "string",
    "dtype": "string",
    "burn": "string",
    "clip": "string",
    "burn_options": "string",
}
"""Columns that every run has; ``clip`` and ``burn_options`` as JSON, empty where there is none."""


def option_columns(optimizers: Iterable[str]) -> dict[str, str]:
    """A column for each of PyTorch's options, ``betas_0`` for the first of a tuple.

    They are null for the runs of optimizers that have no such option.
    """
    found: dict[str, str] = {}
    for name in sorted(optimizers):
        for key, default in libraries.pytorch_defaults(name).items():
            if key == "lr":
                continue
            items = default if isinstance(default, list) else [default]
            for place, item in enumerate(items):
                column = f"{key}_{place}" if isinstance(default, list) else key
                kind = "string" if item is None and not isinstance(default, list) else "double"
                found[column] = "bool" if isinstance(item, bool) else kind
    return found


def axes(about: dict[str, Any], columns: Iterable[str]) -> list[str]:
    """The columns of the options that a sweep gives any of its points."""
    given = [axis.replace("[", "_").rstrip("]") for axis in about["axes"]]
    return [
        column
        for column in columns
        if column in given or column.rstrip("0123456789").removesuffix("_") in given
    ]


def _options(point: Point, columns: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in point.resolved.items():
        items = {f"{key}_{i}": v for i, v in enumerate(value)} if isinstance(value, list) else None
        for column, item in (items or {key: value}).items():
            if item is not None and columns[column] == "string":
                item = item if isinstance(item, str) else json.dumps(item)
            found[column] = item
    return found


def _columns(optimizers: Iterable[str]) -> "pa.Schema":
    import pyarrow as pa

    first = [pa.field("run", pa.string(), False), pa.field("digest", pa.string(), False)]
    first += [pa.field(k, pa.type_for_alias(v), False) for k, v in POINT.items()]
    first += [
        pa.field(k, pa.type_for_alias(v), True) for k, v in option_columns(optimizers).items()
    ]
    outcome = [item for item in fields(outcomes.Outcome) if item.name != "run"]
    first += [
        pa.field(item.name, pa.type_for_alias(outcomes.TYPES[item.type]), False)  # type: ignore[index]
        for item in outcome
    ]
    return pa.schema(first)


def write(folder: Path, path: Path) -> Counter[str]:
    """Write the table of a sweep's folder from its plan and its outcomes.

    Returns:
        The number of runs by verdict.

    Raises:
        PitbError: A file is missing or malformed, or a run is lost, so that the verdicts do not add
            up to the runs.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = plan.read_about(folder / "plan")
    counts: Counter[str] = Counter()
    optimizers = {
        point.optimizer
        for batch in about["batches"]
        for point in plan.read_batch(folder / "plan", batch)["points"].values()
    }
    schema_of = _columns(optimizers)
    options = option_columns(optimizers)
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema_of, compression="zstd", store_schema=False) as writer,
    ):
        for batch in about["batches"]:
            planned = plan.read_batch(folder / "plan", batch)
            points = planned["points"]
            file = folder / "outcomes" / f"{batch}.parquet"
            listed = outcomes.read_outcomes(file)
            found = {item["run"]: item for item in listed}
            if found.keys() != points.keys():
                lost = sorted(found.keys() ^ points.keys())[0]
                raise PitbError(f"{file}: the run {lost!r} is lost, or is none of the sweep's")
            if len(listed) != len(found):
                raise PitbError(f"{file} holds a run twice")
            for item in listed:
                if item["verdict"] == OK and not item["max_abs"] <= planned["tolerance"]:
                    raise PitbError(f"{file}: {item['run']!r} is {OK} beyond the tolerance")
            rows = [_row(name, point, found[name], options) for name, point in points.items()]
            counts.update(row["verdict"] for row in rows)
            writer.write_table(pa.Table.from_pylist(rows, schema=schema_of))
        check_sum(counts, about["runs"], path)
    return counts


def check_sum(counts: Counter[str], runs: int, path: Path) -> None:
    """Refuse verdicts that do not add up.

    Raises:
        PitbError: Runs are missing, or a verdict is none of those that there are.
    """
    unknown = set(counts) - set(outcomes.VERDICTS)
    if unknown or sum(counts.values()) != runs:
        said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in outcomes.VERDICTS)
        raise PitbError(f"{path}: {said} do not add up to {runs} runs")


def _row(
    name: str, point: Point, outcome: dict[str, Any], options: dict[str, str]
) -> dict[str, Any]:
    return {
        **outcome,
        "run": name,
        "digest": point.digest,
        "optimizer": point.optimizer,
        "lr": float(point.lr),
        "steps": point.steps,
        "problem": point.problem,
        "dtype": point.dtype,
        "burn": point.burn,
        "clip": json.dumps(point.clip, sort_keys=True) if point.clip else "",
        "burn_options": json.dumps(point.burn_options, sort_keys=True)
        if point.burn_options
        else "",
        **_options(point, options),
    }


def line(name: str, counts: Counter[str]) -> str:
    """The last word on a sweep."""
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in outcomes.VERDICTS)
    return f"sweep {name}: {sum(counts.values())} runs: {parts}"
