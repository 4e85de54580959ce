"""What each side trains for a case, or why it cannot.

Making a plan asks PyTorch for its defaults, which takes seconds; a plan is kept as JSON, so that
burn's side and the reference need no PyTorch.
"""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pitb import pytorch
from pitb.breadth.cases import Case
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.registry import by_pytorch_name

Plan = dict[str, Any]
IMPOSSIBLE = "impossible"


def plan(cases: Iterable[Case]) -> Plan:
    """Specifications of both sides for every case, and the problems that they name.

    ``cases`` maps a case's name to the ``case``, to its resolved ``options`` and to ``pytorch``
    and ``burn``: a specification each, or ``{"impossible": reason}``.
    """
    found: dict[str, Any] = {}
    for case in cases:
        if case.name in found:
            raise AssertionError(f"two cases are called {case.name}")
        options = case.entry.resolved(case.options)
        options.pop("lr")
        found[case.name] = {
            "case": asdict(case),
            "options": options,
            "pytorch": _or_reason(pytorch_spec, case),
            "burn": _or_reason(burn_spec, case),
        }
    used = dict.fromkeys(entry["case"]["problem"] for entry in found.values())
    names = dict.fromkeys(entry["case"]["optimizer"] for entry in found.values())
    return {
        "problems": {name: problem(name).json() for name in used},
        "defaults": {name: by_pytorch_name(name).defaults() for name in names},
        "cases": found,
    }


def _or_reason(make: Any, case: Case) -> dict[str, Any]:
    try:
        return dict(make(case))
    except PitbError as error:
        return {IMPOSSIBLE: str(error)}


def _common(case: Case, side: str) -> dict[str, Any]:
    return {
        "id": f"{side}/{case.name}",
        "lr": case.lr,
        "steps": case.steps,
        "problem": case.problem,
        "dtype": case.dtype,
        "frozen": list(case.frozen),
        "accumulate": case.accumulate,
    }


def pytorch_spec(case: Case) -> dict[str, Any]:
    """What PyTorch trains.

    Raises:
        PitbError: It cannot; says why.
    """
    if case.burn:
        raise PitbError(f"PyTorch's {case.optimizer} has no {', '.join(case.burn)}")
    spec = {
        **_common(case, "pytorch"),
        "optimizer": case.optimizer,
        "options": dict(case.options),
        "clip": case.clip or _loop_clip(case.burn_clip),
        "groups": [dict(group) for group in case.groups],
    }
    try:
        pytorch.check(spec)
    except PitbError as error:
        raise PitbError(str(error).partition(": ")[2]) from None
    return spec


def _loop_clip(burn_clip: dict[str, Any] | None) -> dict[str, Any] | None:
    """What clips in PyTorch as burn's optimizer does."""
    if burn_clip is None:
        return None
    ((kind, limit),) = burn_clip.items()
    if kind == "Value":
        return {"scope": "value", "clip_value": limit}
    return {"scope": "per-parameter", "max_norm": limit}


def burn_spec(case: Case) -> dict[str, Any]:
    """What burn trains, with every option stated that PyTorch has a counterpart of.

    Raises:
        PitbError: It cannot; says why.
    """
    entry = case.entry
    options = {**entry.to_burn(entry.resolved(case.options)), **case.burn}
    if case.burn_clip is not None:
        field = next((name for name in entry.burn_only if name.endswith("clipping")), None)
        if field is None:
            raise PitbError(f"burn's {entry.burn_config} has no gradient clipping")
        options[field] = dict(case.burn_clip)
    spec = {**_common(case, "burn"), "optimizer": entry.burn, "options": options}
    if case.clip is not None:
        spec["clip"] = dict(case.clip)
    if case.clipping_by != "builder":
        spec["clipping_by"] = case.clipping_by
    if case.groups:
        spec["groups"] = [_burn_group(group, case) for group in case.groups]
    return spec


def _burn_group(group: dict[str, Any], case: Case) -> dict[str, Any]:
    entry = by_pytorch_name(group["optimizer"])
    options = entry.to_burn(entry.resolved(group["options"]))
    return {**group, "optimizer": entry.burn, "options": options}


def specs(found: Plan, side: str) -> list[dict[str, Any]]:
    """The runs of one side that it can do."""
    return [entry[side] for entry in found["cases"].values() if IMPOSSIBLE not in entry[side]]


def burn_batch(found: Plan) -> dict[str, Any]:
    """The file that burn's program reads."""
    return {"problems": found["problems"], "runs": specs(found, "burn")}


def trace_path(folder: Path, side: str, name: str) -> Path:
    """Where a run's trace stands below the folder of its batch."""
    return folder / side / f"{name}.parquet"
