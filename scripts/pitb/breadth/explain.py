"""Why the two libraries differ on a case: which choices of equation, which defaults."""

from dataclasses import fields
from typing import Any

import numpy as np

from pitb.breadth import runs
from pitb.breadth.judge import QUANTITIES, UNDECIDED, Judge, Outcome, Pair, Response, of_kind
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
    if outcome.verdict in (OK, IMPOSSIBLE, UNDECIDED):
        return "", []
    if outcome.pair.endswith("--twin"):
        side = outcome.pair.partition("--")[0]
        same = outcome.verdict == ERROR and judge.follows(case.name, side)
        return (FORMULA, ["resumed_dtype"]) if same else (UNEXPLAINED, [])
    if "reference" in outcome.pair:
        return UNEXPLAINED, []
    # Where one side fails as its description does, the other may be one that roundings decide.
    settled = (OK, UNDECIDED) if outcome.verdict == ERROR else (OK,)
    verdicts = [judge.verdicts.get((case.name, side)) for side in ("pytorch", "burn")]
    if not all(verdict in settled for verdict in verdicts):
        return UNEXPLAINED, []
    responses = judge.responses.get(case.name, {})
    defaults = _defaults_alone(entry, responses)
    alone = _alone(entry, responses)
    matter = [name for name, differs in alone.items() if differs]
    if defaults:
        return DEFAULT, [*defaults, *matter]
    if not matter and len(alone) > 1 and _together(entry, list(alone), responses):
        # No choice makes the difference alone: it takes all of them.
        matter = list(alone)
    return (FORMULA, matter) if matter else (UNEXPLAINED, [])


def _defaults_alone(entry: dict[str, Any], responses: Response) -> list[str]:
    """The defaults left to each side that make a difference, each aligned alone."""
    case = runs.case_of(entry)
    base = runs.reference_run(entry, "burn")
    trained = train(base)
    found = []
    for name in case.left:
        ours, theirs = (runs.option_of(entry, side, name) for side in ("pytorch", "burn"))
        if ours == theirs:
            continue
        changed = train(runs.with_option(base, name, ours))
        if _differs(trained, changed, law(case, ACROSS).tolerance, case.steps, responses):
            found.append(name)
    return found


def _together(entry: dict[str, Any], names: list[str], responses: Response) -> bool:
    """Whether aligning choices at once moves burn's run."""
    case = runs.case_of(entry)
    a, b = (train(runs.aligned(entry, chosen)) for chosen in ([], names))
    return _differs(a, b, law(case, ACROSS).tolerance, case.steps, responses)


def _alone(entry: dict[str, Any], responses: Response) -> dict[str, bool]:
    """For each choice in which the descriptions differ, whether aligning it moves burn's run."""
    case = runs.case_of(entry)
    sides = [runs.reference_run(entry, side) for side in ("pytorch", "burn")]
    read = choices_read(sides[0]) | choices_read(sides[1])
    limit = law(case, ACROSS)
    base = train(sides[1])
    found: dict[str, bool] = {}
    for name in (item.name for item in fields(Equations)):
        values = [[getattr(g.equations, name) for g in run.groups] for run in sides]
        if name in read and values[0] != values[1]:
            changed = train(runs.aligned(entry, [name]))
            found[name] = _differs(base, changed, limit.tolerance, case.steps, responses)
    return found


def _differs(a: Trace, b: Trace, tolerance: Any, steps: int, responses: Response) -> bool:
    if (a.error is None) != (b.error is None):
        return True
    pair = Pair(a, b)
    if pair.missing(0) is not None:
        return True
    for step in range(steps + 1):
        for kind in QUANTITIES:
            worst = pair.difference(step, kind)
            if worst is not None and not worst.relative <= tolerance(
                step, of_kind(responses, kind)
            ):
                return True
    return False


def size(outcome: Outcome, step: int) -> float:
    """How far the parameters of two traces are apart at ``step``, relatively; NaN if not known."""
    rows = [row.needed for row in outcome.rows if row.step == step and row.quantity == "param"]
    return max(rows, default=float(np.nan))
