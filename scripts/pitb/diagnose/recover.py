"""Whether a diagnosis recovers a configuration that is known, and was not shown to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pitb.breadth.runs import reference_run
from pitb.diagnose import fit, space
from pitb.diagnose.diagnosis import Diagnosis
from pitb.diagnose.explanation import Explanation
from pitb.diagnose.recording import Recording
from pitb.diagnose.replay import view
from pitb.diagnose.space import Hypothesis
from pitb.reference.descriptions import describe
from pitb.reference.training import Group, Run
from pitb.registry import IMPLEMENTATION, by_pytorch_name, optimizers

MOOT = 1e-6
"""A root mean square of the difference, in units in the last place, that is none."""
NEAR = 1e-6
"""Relative slack at the ends of an interval: a hyper-parameter in float32 is that far off."""


@dataclass(frozen=True)
class Truth:
    """The configuration of some tensors; no names stand for all others."""

    hypothesis: Hypothesis
    tensors: tuple[str, ...] = ()
    rate: float | None = None
    """Their rate, where it is not the one that the trace records."""


def of_run(run: Run, side: str) -> list[Truth]:
    """The configuration of a reference's run."""
    return [
        Truth(
            _of_group(group, side, group.clip or run.clip),
            group.parameters,
            group.lr if group.parameters and not run.rates else None,
        )
        for group in run.groups
    ]


def _of_group(group: Group, side: str, clip: dict[str, Any] | None) -> Hypothesis:
    if clip is not None and group.clip is not None and "max_norm" in clip:
        limit = clip["max_norm"]
        if group.equations.own_clip_limit == "float32":
            clip = {**clip, "max_norm": float(np.float32(limit))}
    options = {k: v for k, v in group.options.items() if k not in (*IMPLEMENTATION, "lr")}
    equations = group.equations
    if group.clip is not None:  # what the optimizer's own clipping adds to the norm
        equations = equations.but(clip_denominator=equations.own_clip_denominator)
    return Hypothesis(group.optimizer, side, options, equations, clip)


def of_plan(entry: dict[str, Any], side: str) -> list[Truth]:
    """The configuration of a library's run of a case, by its entry of the plan."""
    return of_run(reference_run(entry, side), side)


def of_configuration(configuration: dict[str, Any], side: str) -> list[Truth]:
    """The configuration that a trace of a library names, with either library's names."""
    name, given = configuration["optimizer"], configuration["options"]
    if side == "pytorch":
        entry = by_pytorch_name(name)
        known = space.defaults(entry.pytorch, side)
        options = {k: given.get(k, v) for k, v in known.items()}
        return [Truth(Hypothesis(entry.pytorch, side, options, describe(side, entry.pytorch)))]
    entry = next(item for item in optimizers() if item.burn == name)
    hypothesis = space.base(entry.pytorch, side)
    for item in entry.hyperparameters:
        value: Any = given
        for part in item.burn.split("."):
            value = None if value is None else value.get(part)
        if value is None and item.off is not None:
            value = item.off
        if value is not None:
            hypothesis = hypothesis.having(item.pytorch, value)
    return [Truth(hypothesis)]


def evaluates_once(truths: list[Truth]) -> bool:
    """Whether each update comes of one gradient: L-BFGS may evaluate the loss more often."""
    return all(
        not truth.hypothesis.joint
        or (
            truth.hypothesis.options["max_iter"] == 1
            and truth.hypothesis.options["line_search_fn"] is None
        )
        for truth in truths
    )


def is_identifiable(recording: Recording, truths: list[Truth]) -> bool:
    """Whether a recording holds all that its updates came of: the truth must explain it."""
    return all(_holds(recording, truth, truths) for truth in truths)


def _holds(recording: Recording, truth: Truth, truths: list[Truth]) -> bool:
    named = {name for other in truths for name in other.tensors}
    names = [
        n for n in recording.names if (n in truth.tensors if truth.tensors else n not in named)
    ]
    if not names:
        return True
    part = recording.only(names)
    if truth.rate is not None:
        part.rates = np.full(part.steps, truth.rate)
    hypothesis = truth.hypothesis
    if hypothesis.entry.matrices_only and any(len(part.shapes[n]) != 2 for n in names):
        return False
    problem = fit.Problem(view(part, space.is_elementwise(hypothesis)))
    return fit.judge(problem, hypothesis).explained


def failure(diagnosis: Diagnosis, truths: list[Truth]) -> str | None:
    """Why a diagnosis does not hold the truth; None where it does.

    It must be among the explanations: the same optimizer, each choice of equation, flag and word
    the same or reported as tied, each number within its interval.
    """
    if not diagnosis.explained:
        return "nothing explains it"
    named = {name for truth in truths for name in truth.tensors}
    for group in diagnosis.groups:
        for truth in truths:
            mine = set(truth.tensors) or set(group.tensors) - named
            if not mine & set(group.tensors):
                continue
            recording = diagnosis.recording.only(group.tensors)
            if truth.rate is not None:
                recording.rates = np.full(recording.steps, truth.rate)
            reasons = [_missed(item, truth.hypothesis, recording) for item in group.explanations]
            if all(reason is not None for reason in reasons):
                return reasons[_nearest(group.explanations, truth.hypothesis)]
    return None


def _nearest(explanations: list[Explanation], truth: Hypothesis) -> int:
    wanted = (truth.optimizer, truth.side)
    kinds = [(item.hypothesis.optimizer, item.hypothesis.side) for item in explanations]
    return kinds.index(wanted) if wanted in kinds else 0


def _missed(item: Explanation, truth: Hypothesis, recording: Recording) -> str | None:
    found = item.hypothesis
    if found.function is not truth.function:
        return f"{found.optimizer} instead of {truth.optimizer}"
    for name in space.reads(truth)[0]:
        value = truth.equations.value(name)
        known = name in space.reads(found)[0]
        if known and value != found.equations.value(name) and value not in item.tied.get(name, []):
            return f"{name} is {found.equations.value(name)} instead of {value}"
    for name, value in truth.options.items():
        mine: Any = found.options.get(name)
        if name == space.SNAPSHOT:
            continue
        if isinstance(value, list):
            pairs = [(f"{name}[{i}]", x, mine[i]) for i, x in enumerate(value)]
        else:
            pairs = [(name, value, mine)]
        for full, wanted, got in pairs:
            reason = _missed_value(item, full, wanted, got)
            if reason and not _is_moot(truth, full, got, recording):
                return reason
    return None


def _is_moot(truth: Hypothesis, name: str, got: Any, recording: Recording) -> bool:
    """Whether the value that was found makes no difference in the truth itself: a decay that an
    equation leaves out can have any."""
    if not isinstance(got, float):
        return False
    problem = fit.Problem(view(recording, space.is_elementwise(truth)))
    off = problem.residual(truth.having(name, got)) - problem.residual(truth)
    return fit.rms(off) < MOOT


def _missed_value(item: Explanation, name: str, wanted: Any, got: Any) -> str | None:
    if name in item.intervals and isinstance(wanted, (int, float)):
        low, high = item.intervals[name]
        slack = NEAR * max(abs(wanted), 1e-12)
        if not low - slack <= wanted <= high + slack:
            return f"{name} is within [{low:g}, {high:g}] instead of {wanted:g}"
        return None
    if wanted == got or wanted in item.tied_options.get(name, []):
        return None
    if name not in space.reads(item.hypothesis)[1] | {"maximize", space.OWN_LIMIT}:
        return None  # not read as things stand
    if wanted in (None, "original") and got in (None, "original"):
        return None
    return f"{name} is {got} instead of {wanted}"
