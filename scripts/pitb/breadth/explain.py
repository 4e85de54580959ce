"""Why the two libraries differ on a case: which choices of equation, which defaults."""

from dataclasses import fields
from typing import Any

import numpy as np

from pitb.breadth import runs
from pitb.breadth.judge import QUANTITIES, Judge, Outcome, Pair
from pitb.breadth.laws import ACROSS, law
from pitb.breadth.mutants import choices_read
from pitb.breadth.phases import IMPOSSIBLE
from pitb.compare import ERROR, OK
from pitb.reference.equations import Equations
from pitb.reference.training import train
from pitb.trace import Trace

FORMULA, DEFAULT, UNEXPLAINED = "formula", "default", "unexplained"


def explain(judge: Judge, entry: dict[str, Any], outcome: Outcome) -> tuple[str, list[str]]:
    """The kind of an explanation, and the choices or defaults that make the difference.

    An outcome between the libraries is explained where the reference follows both: what differs is
    then among the choices in which the descriptions differ, and each is tried alone.
    """
    case = outcome.case
    if outcome.verdict in (OK, IMPOSSIBLE):
        return "", []
    if outcome.pair.endswith("--twin"):
        side = outcome.pair.partition("--")[0]
        same = outcome.verdict == ERROR and judge.follows(case.name, side)
        return (FORMULA, ["resumed_dtype"]) if same else (UNEXPLAINED, [])
    if "reference" in outcome.pair:
        return UNEXPLAINED, []
    if not all(judge.follows(case.name, side) for side in ("pytorch", "burn")):
        return UNEXPLAINED, []
    if case.left:
        return DEFAULT, list(case.left)
    alone = _alone(entry, judge.responses.get(case.name, []))
    matter = [name for name, differs in alone.items() if differs]
    # Where no choice makes the difference alone, it takes all of them.
    because = matter or list(alone)
    return (FORMULA, because) if because else (UNEXPLAINED, [])


def _alone(entry: dict[str, Any], responses: list[float]) -> dict[str, bool]:
    """For each choice in which the descriptions differ, whether aligning it moves burn's run."""
    case = runs.case_of(entry)
    sides = {side: runs.equations_of(case, side) for side in ("pytorch", "burn")}
    run = runs.reference_run(entry, "burn")
    read = choices_read(run) | choices_read(runs.reference_run(entry, "pytorch"))
    base = train(run)
    limit = law(case, ACROSS)
    found: dict[str, bool] = {}
    for name in (item.name for item in fields(Equations)):
        value = getattr(sides["pytorch"], name)
        if name not in read or value == getattr(sides["burn"], name):
            continue
        changed = train(runs.reference_run(entry, "burn", sides["burn"].but(**{name: value})))
        found[name] = _differs(base, changed, limit.tolerance, case.steps, responses)
    return found


def _differs(a: Trace, b: Trace, tolerance: Any, steps: int, responses: list[float]) -> bool:
    if (a.error is None) != (b.error is None):
        return True
    pair = Pair(a, b)
    if pair.missing(0) is not None:
        return True
    for step in range(steps + 1):
        for kind in QUANTITIES:
            worst = pair.difference(step, kind)
            if worst is not None and not worst.relative <= tolerance(step, responses):
                return True
    return False


def size(outcome: Outcome, step: int) -> float:
    """How far the parameters of two traces are apart at ``step``, relatively; NaN if not known."""
    rows = [row.needed for row in outcome.rows if row.step == step and row.quantity == "param"]
    return max(rows, default=float(np.nan))
