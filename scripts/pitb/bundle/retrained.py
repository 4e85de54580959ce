"""Every trace trained again: the reference in NumPy, as the configuration says, must give it.

Each number of a trace, of whatever quantity, is held against the reference's, within the law of
tolerance that is declared for its kind (`pitb.breadth.laws`): what roundings may do and no more. So
a value that was changed by more than that is found also where no table shows it, and so is a trace
that was made up, whatever else was made up with it. What the reference has and the run's side
records must be there.

What is trained is laid out from the configuration, never from what the trace says of itself; that
both agree is `pitb.bundle.configured`'s to see.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pitb.breadth import laws
from pitb.breadth.judge import of_kind, response
from pitb.bundle.configured import is_known
from pitb.bundle.contents import RESULTS
from pitb.bundle.report import Report
from pitb.config import Config, Run
from pitb.errors import PitbError
from pitb.explain.configurations import Configuration, configuration
from pitb.explain.items import lay_out
from pitb.explain.recorded import start_of
from pitb.explain.sources import KEPT
from pitb.problems import added, problem
from pitb.reference.training import train
from pitb.registry import optimizers
from pitb.results import trace_path
from pitb.trace import Entry, Key, Trace

Array = NDArray[np.float64]
OWN = "the trace's own start"


def check(
    config: Config, versions: Mapping[str, str], traces: Mapping[str, Trace], report: Report
) -> None:
    """Train every trace again, and say where it is not what the reference gives.

    Args:
        config: The bundle's configuration.
        versions: Of the libraries, as the bundle says.
        traces: By run.
        report: What is wrong is added to it.
    """
    for run in config.runs:
        if run.id not in traces:
            continue
        name = f"{RESULTS}/{trace_path(run.id)}"
        try:
            side = configured(run)
        except PitbError as error:
            # What this package describes is all that its optimizers have at the versions it knows.
            tell = report.fault if _is_described(run, versions) else report.taken
            tell(name, f"the reference cannot train what the configuration says: {error}")
            continue
        try:
            found = follows(traces[run.id], side)
        except (PitbError, KeyError, ValueError, TypeError, IndexError, ArithmeticError) as error:
            report.fault(name, f"the reference trains its configuration, but not it: {error}")
            continue
        for where, what in found.faults:
            report.fault(f"{name}, {where}", what)
        if found.alone:
            report.taken(name, f"the reference keeps no {', '.join(sorted(found.alone))}")
        if found.undecided:
            report.taken(name, f"roundings decide {found.undecided} of its tensors and numbers")
        report.checked["traces trained again"] += 1


def configured(run: Run) -> Configuration:
    """What a run of the configuration trains.

    Raises:
        PitbError: The reference knows no such optimizer, option or value.
    """
    spec = {key: value for key, value in run.spec.items() if key not in KEPT}
    side = configuration({"side": run.side, **spec}, run.id)
    problem(side.problem)
    return side


def _is_described(run: Run, versions: Mapping[str, str]) -> bool:
    """Whether all that a run can say is described: of burn every optimizer, of PyTorch burn's."""
    names = [entry.pytorch for entry in optimizers()]
    is_one = run.side == "burn" or run.spec["optimizer"] in names
    return is_one and is_known(run.side, versions)


@dataclass
class Followed:
    """How the reference follows a trace."""

    faults: list[tuple[str, str]] = field(default_factory=list)
    """Where it does not, the first place of each quantity, and how."""
    alone: set[str] = field(default_factory=set)
    """Quantities that it does not have."""
    undecided: int = 0
    """Entries of which the law says that roundings alone decide them."""


def follows(found: Trace, side: Configuration) -> Followed:
    """Train a run again and compare every number of its trace.

    Args:
        found: The trace.
        side: What it is a trace of.

    Raises:
        PitbError: The trace does not start from what its problem starts from.
    """
    like = problem(side.problem)
    start = start_of(found, OWN, like)
    if start is not None and start.model != like.model:
        raise PitbError(f"it lacks a parameter that {like.name} starts from, or has it otherwise")
    with added(*([start] if start else [])):
        name = OWN if start else side.problem
        run = replace(lay_out(side, side, (name, name)).run(()), states=True)
        reference = train(run)
        case = replace(side.case(), problem=name, steps=run.steps)
        limit = laws.law(case, f"{side.side}--reference")
        responses = response(replace(run, states=False), reference, limit) if limit.nudge else {}
    if (found.error is None) != (reference.error is None):
        ended = found.error or reference.error
        return Followed([("its end", f"one of it and the reference ends early: {ended}")])
    entries = reference.by_key()
    kept = {entry.quantity for entry in reference.entries}
    scales: dict[tuple[str, str], float] = {}
    sentences: dict[str, tuple[str, str]] = {}
    followed = Followed()
    for entry in found.entries:
        other = entries.get(entry.key)
        if other is None:
            if entry.quantity in kept and not (entry.quantity == "lr" and side.groups):
                what = "the reference, trained again, has none"
                sentences.setdefault(f"more {entry.quantity}", (entry.where, what))
            elif not _is_count(found, entry):
                followed.alone.add(entry.quantity)
            continue
        if other.count != entry.count:
            what = f"it has {entry.count} numbers, but trained again {other.count}"
            sentences.setdefault(entry.quantity, (entry.where, what))
            continue
        a, b = found.of(entry), reference.of(other)
        # A loss that is kept is as exact as the losses are, however small it is.
        kept_loss = entry.quantity == "state.prev_loss"
        place = ("loss", "") if kept_loss else (entry.quantity, entry.tensor)
        finite = np.isfinite(a) & np.isfinite(b)
        largest = max(np.abs(a[finite]).max(initial=0), np.abs(b[finite]).max(initial=0))
        scales[place] = scale = max(float(largest), scales.get(place, 0.0))
        kind = entry.quantity.partition(".")[0]
        tolerance = limit.tolerance(min(entry.step, run.steps), of_kind(responses, kind))
        if not limit.decides(tolerance):
            followed.undecided += 1
            continue
        wrong = _beyond(a, b, tolerance * scale)
        if wrong is not None and entry.quantity not in sentences:
            sentences[entry.quantity] = (
                f"{entry.where}[{wrong}]",
                f"it is {float(a[wrong])!r}, but trained again by the reference "
                f"{float(b[wrong])!r}, and roundings account for {tolerance * scale:.2g}",
            )
    mine = found.by_key()
    lacking: dict[str, list[Entry]] = {}
    for key, entry in entries.items():
        if key not in mine and not _is_unrecorded(side, entry, entries):
            lacking.setdefault(entry.quantity, []).append(entry)
    for quantity, those in lacking.items():
        sentences[f"lacking {quantity}"] = (
            "its contents",
            f"it lacks {those[0].where} ({len(those)} of its {quantity} in all)",
        )
    followed.faults = list(sentences.values())
    return followed


def _beyond(a: Array, b: Array, allowed: float) -> int | None:
    """The worst element that is further away than allowed; None where there is none."""
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        distance = np.where(same, 0.0, np.where(finite, np.abs(a - b), np.inf))
    if not len(distance) or distance.max() <= allowed:
        return None
    return int(distance.argmax())


def _is_count(found: Trace, entry: Entry) -> bool:
    """Whether it is the number of updates, which some optimizers keep beside their states."""
    return entry.quantity == "state.step" and bool((found.of(entry) == entry.step).all())


UNRECORDED = {
    ("pytorch", "Lamb"): ("state.step",),
    ("pytorch", "Adan"): ("state.step",),
    ("burn", "LBFGS"): ("state.H_diag", "state.func_evals"),
}
"""By side and PyTorch's name of an optimizer: what the reference keeps and its traces do not hold.
timm counts the updates of a group, not of a tensor; burn derives the one and counts no other."""


def _is_unrecorded(side: Configuration, entry: Entry, entries: Mapping[Key, Entry]) -> bool:
    """Whether the run's side does not record something that the reference has."""
    if entry.quantity in UNRECORDED.get((side.side, side.member.entry.pytorch), ()):
        return True
    if side.side != "burn":
        return False
    if entry.quantity == "grad" and side.member.entry.pytorch == "LBFGS":
        return entry.tensor in dict(problem(side.problem).tied)  # found under the first name alone
    # burn's states are seen where a gradient comes by, and a tensor without one keeps none.
    is_state = entry.quantity.startswith("state.") and side.member.entry.pytorch != "LBFGS"
    return is_state and (entry.step, "grad", entry.tensor) not in entries
