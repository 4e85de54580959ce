"""What each side trains for a case, or why it cannot.

Making a plan asks PyTorch for its defaults, which takes seconds; a plan is kept as JSON, so that
burn's side and the reference need no PyTorch.
"""

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from pitb import pytorch, schedulers
from pitb.breadth.cases import Case
from pitb.breadth.defaults import Burn, burn_default
from pitb.breadth.phases import IMPOSSIBLE, Plan
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.registry import by_pytorch_name, set_option


def plan(cases: Iterable[Case], burn: Burn) -> Plan:
    """Specifications of both sides for every case, and the problems that they name.

    Args:
        cases: The cases.
        burn: burn's defaults, as ``optdef --defaults`` prints them.

    Returns:
        ``cases`` maps a case's name to the ``case``, to the resolved ``options`` of each side (by
        PyTorch's names), and to ``pytorch`` and ``burn``: a specification each, or
        ``{"impossible": reason}``; and where the processor decides a choice of equation its value
        as ``processor``. ``problems`` and PyTorch's ``defaults`` stand beside it.
    """
    found: dict[str, Any] = {}
    for case in cases:
        if case.name in found:
            raise AssertionError(f"two cases are called {case.name}")
        options = {side: _options(case, side, burn) for side in ("pytorch", "burn")}
        found[case.name] = {
            "case": asdict(case),
            "options": options,
            "groups": [_resolved(group) for group in case.groups],
            "rates": {side: _rates(case, side) for side in options},
            "pytorch": _or_reason(pytorch_spec, case),
            "burn": _or_reason(burn_spec, case),
        }
        if "centered" in options["pytorch"]:
            found[case.name]["processor"] = {
                "pytorch": {"center_product": pytorch.center_product()}
            }
    used = dict.fromkeys(entry["case"]["problem"] for entry in found.values())
    names = dict.fromkeys(entry["case"]["optimizer"] for entry in found.values())
    return {
        "problems": {name: problem(name).json() for name in used},
        "defaults": {name: by_pytorch_name(name).defaults() for name in names},
        "cases": found,
    }


def _options(case: Case, side: str, burn: Burn) -> dict[str, Any]:
    """Every option of one side, by PyTorch's names."""
    entry = case.entry
    options = {k: v for k, v in entry.resolved(case.options).items() if k != "lr"}
    if side == "burn":
        for item in entry.hyperparameters:
            if item.pytorch in case.left:
                set_option(options, item.pytorch, burn_default(burn, entry, item))
        for name in case.left:
            if name in entry.neutral:
                options[name] = entry.neutral[name]
    return options


def _resolved(group: dict[str, Any]) -> dict[str, Any]:
    return {**group, "resolved": by_pytorch_name(group["optimizer"]).resolved(group["options"])}


def _schedule(case: Case) -> schedulers.Case | None:
    found = [item for item in schedulers.CASES if item.name == case.schedule]
    return found[0] if found else None


def _rates(case: Case, side: str) -> list[float]:
    """The rates that the description of a side's schedule gives."""
    schedule = _schedule(case)
    if schedule is None:
        return []
    longer = replace(schedule, steps=case.steps)
    outcome = schedulers.reference_rates(longer, side)
    return list(outcome.rates) if outcome is not None else []


def _or_reason(make: Any, case: Case) -> dict[str, Any]:
    try:
        return dict(make(case))
    except PitbError as error:
        return {IMPOSSIBLE: str(error)}


def _common(case: Case, side: str) -> dict[str, Any]:
    spec = {
        "id": f"{side}/{case.name}",
        "lr": case.lr,
        "steps": case.steps,
        "problem": case.problem,
        "dtype": case.dtype,
        "frozen": list(case.frozen),
        "accumulate": case.accumulate,
    }
    if not case.observe:
        spec["observe"] = False
    return spec


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
        "clip": case.clip or case.own_clip,
        "groups": [dict(group) for group in case.groups],
    }
    schedule = _schedule(case)
    if schedule is not None:
        spec |= {"scheduler": schedule.pytorch, "lr": schedule.base[0]}
    try:
        pytorch.check(spec)
    except PitbError as error:
        raise PitbError(str(error).partition(": ")[2]) from None
    return spec


def burn_spec(case: Case) -> dict[str, Any]:
    """What burn trains, with every option stated that PyTorch has a counterpart of.

    Raises:
        PitbError: It cannot; says why.
    """
    entry = case.entry
    options = entry.to_burn(entry.resolved(case.options), case.left)
    for path, value in case.burn.items():
        outer, _, inner = path.rpartition(".")
        (options[outer] if outer else options)[inner] = value
    if case.burn_clip is not None:
        field = next((name for name in entry.burn_only if name.endswith("clipping")), None)
        if field is None:
            raise PitbError(f"burn's {entry.burn_config} has no gradient clipping")
        options[field] = dict(case.burn_clip)
    spec = {**_common(case, "burn"), "optimizer": entry.burn, "options": options}
    schedule = _schedule(case)
    if schedule is not None:
        spec["scheduler"] = schedule.burn
        del spec["lr"]
    if case.clip is not None:
        spec["clip"] = dict(case.clip)
    if case.clipping_by != "builder":
        spec["clipping_by"] = case.clipping_by
    if case.groups:
        spec["groups"] = [_burn_group(group) for group in case.groups]
    return spec


def _burn_group(group: dict[str, Any]) -> dict[str, Any]:
    entry = by_pytorch_name(group["optimizer"])
    options = entry.to_burn(entry.resolved(group["options"]))
    return {**group, "optimizer": entry.burn, "options": options}
