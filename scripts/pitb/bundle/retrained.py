"""Every trace trained again: the reference in NumPy, configured as the trace says, must follow it.

Each number of a trace, of whatever quantity, is held against the reference's, within the law of
tolerance that is declared for its kind (`pitb.breadth.laws`): what roundings may do and no more. So
a value that was changed by more than that is found also where no table shows it, and so is a trace
that was made up, whatever else was made up with it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from pitb.breadth import laws
from pitb.breadth.judge import of_kind, response
from pitb.bundle.contents import RESULTS
from pitb.bundle.report import Report
from pitb.config import Config
from pitb.errors import PitbError
from pitb.explain.items import lay_out
from pitb.explain.recorded import known_problem, start_of
from pitb.explain.sources import of_trace
from pitb.problems import added
from pitb.reference.training import train
from pitb.results import trace_path
from pitb.trace import Entry, Trace

Array = NDArray[np.float64]
OWN = "the trace's own start"


def check(config: Config, traces: Mapping[str, Trace], report: Report) -> None:
    """Train every trace again, and say where the reference does not follow it."""
    for run in config.runs:
        if run.id not in traces:
            continue
        name = f"{RESULTS}/{trace_path(run.id)}"
        try:
            found = follows(traces[run.id])
        except PitbError as error:
            report.taken(name, f"the reference cannot train it: {error}")
            continue
        except (KeyError, ValueError, TypeError, IndexError, ArithmeticError) as error:
            # Its metadata is what no run has; that it is not the configuration's was told.
            report.taken(name, f"the reference makes nothing of its metadata: {error!r}")
            continue
        for where, what in found.faults:
            report.fault(f"{name}, {where}", what)
        if found.alone:
            report.taken(name, f"the reference keeps no {', '.join(sorted(found.alone))}")
        if found.undecided:
            report.taken(name, f"roundings decide {found.undecided} of its tensors and numbers")
        report.checked["traces trained again"] += 1


@dataclass
class Followed:
    """How the reference follows a trace."""

    faults: list[tuple[str, str]] = field(default_factory=list)
    """Where it does not, the first place of each quantity, and how."""
    alone: set[str] = field(default_factory=set)
    """Quantities that it does not have."""
    undecided: int = 0
    """Entries of which the law says that roundings alone decide them."""


def follows(found: Trace) -> Followed:
    """Train a trace again and compare every number.

    Raises:
        PitbError: The reference cannot train what the trace's metadata says.
    """
    side = of_trace(found).configured({})
    start = start_of(found, OWN, known_problem(side.problem))
    with added(*([start] if start else [])):
        name = OWN if start else side.problem
        run = replace(lay_out(side, side, (name, name)).run(()), states=True)
        reference = train(run)
        case = replace(side.case(), problem=name, steps=run.steps)
        limit = laws.law(case, f"{side.side}--reference")
        responses = response(replace(run, states=False), reference, limit) if limit.nudge else {}
    moved = of_kind(responses, "param")
    if (found.error is None) != (reference.error is None):
        ended = found.error or reference.error
        return Followed([("its end", f"one of it and the reference ends early: {ended}")])
    entries = reference.by_key()
    scales: dict[tuple[str, str], float] = {}
    sentences: dict[str, tuple[str, str]] = {}
    followed = Followed()
    for entry in found.entries:
        other = entries.get(entry.key)
        if other is None or other.count != entry.count:
            if not _is_count(found, entry):
                followed.alone.add(entry.quantity)
            continue
        a, b = found.of(entry), reference.of(other)
        place = (entry.quantity, entry.tensor)
        finite = np.isfinite(a) & np.isfinite(b)
        largest = max(np.abs(a[finite]).max(initial=0), np.abs(b[finite]).max(initial=0))
        scales[place] = scale = max(float(largest), scales.get(place, 0.0))
        tolerance = limit.tolerance(min(entry.step, run.steps), moved)
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
    lacking = [key for key in entries if key not in mine and key[1] in ("param", "loss")]
    if lacking:
        step, quantity, tensor = lacking[0]
        sentences["lacking"] = ("its contents", f"it lacks {quantity} {tensor} of step {step}")
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
