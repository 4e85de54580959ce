"""Whether the descriptions still explain the traces of another version, and what would.

A case that no longer follows its description is tried with every other value of every choice. What
explains all such cases of an optimizer, and keeps those that follow, is the value of that version.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pitb import trace
from pitb.breadth import laws, runs
from pitb.breadth.cases import Case
from pitb.breadth.judge import UNDECIDED, judge, response
from pitb.breadth.mutants import Mutant, choices_read, mutants
from pitb.breadth.phases import IMPOSSIBLE, trace_path
from pitb.compare import MISMATCH, OK
from pitb.reference.equations import Equations
from pitb.reference.training import train
from pitb.registry import by_pytorch_name
from pitb.trace import Trace
from pitb.watch.cases import choice_of, recorded, value_of
from pitb.watch.changes import CHANGED, EQUATION, FAILURES, NOT_TRIED, UNCHANGED, Item, Why

MOST = 3
"""Choices that are changed at once before an optimizer counts as not explained."""
UNEXPLAINED = "no known choice explains it"
UNTOLD = "what was recorded cannot tell"


@dataclass
class _Tried:
    """A case that was trained."""

    entry: dict[str, Any]
    case: Case
    library: Trace
    read: frozenset[str]
    """The choices that the reference reads when it trains it."""
    verdict: str = ""


def items(
    side: str,
    plan: Mapping[str, Any],
    traces: Path,
    missing: Mapping[str, Why],
    evidence: str,
) -> list[Item]:
    """Every choice of equation of every optimizer, and what became of it.

    Args:
        side: ``burn`` or ``pytorch``.
        plan: Of the cases, as :func:`pitb.breadth.plan.plan` makes it.
        traces: The folder of that version's traces.
        missing: By case, status and reason of what was not trained.
        evidence: ``traces``, below the folder of all versions.
    """
    found: list[Item] = []
    for optimizer, choices in recorded()[side].items():
        names = list(dict.fromkeys(name for cases in choices.values() for name in cases))
        tried = {}
        reasons = dict(missing)
        for name in names:
            entry = plan["cases"][name]
            if IMPOSSIBLE in entry[side]:
                reasons[name] = (NOT_TRIED, entry[side][IMPOSSIBLE])
            elif name not in missing:
                library = trace.read(trace_path(traces, side, name))
                read = frozenset(choices_read(runs.reference_run(entry, side)))
                tried[name] = _Tried(entry, runs.case_of(entry), library, read)
        changes = _explain(side, optimizer, list(tried.values()))
        for choice, cases in choices.items():
            found.append(_item(side, optimizer, choice, cases, tried, changes, reasons, evidence))
    return found


def _item(
    side: str,
    optimizer: str,
    choice: str,
    cases: list[str],
    tried: Mapping[str, _Tried],
    changes: Iterable[Mutant],
    reasons: Mapping[str, Why],
    evidence: str,
) -> Item:
    name, before = f"{optimizer} {choice}", value_of(side, optimizer, choice)
    ran = [tried[case] for case in cases if case in tried]
    if not ran:
        why = [reasons[case] for case in cases]
        # What was tried and failed says more than what nobody tried.
        failed = [(status, reason) for status, reason in why if status in FAILURES]
        status, reason = (failed or why)[0]
        return Item(EQUATION, name, status, before, reason)

    def where(it: _Tried) -> str:
        return f"{evidence}/{side}/{it.case.name}.parquet"

    for change in changes:
        if choice_of(change.name, change.kind) == choice:
            return Item(EQUATION, name, CHANGED, before, _value(change), where(ran[0]))
    apart = [it for it in ran if it.verdict == MISMATCH]
    if apart:
        then = f"{UNEXPLAINED}{_follow(tried.values())}"
        return Item(EQUATION, name, CHANGED, before, then, where(apart[0]), cause=optimizer)
    telling = _telling(side, optimizer, choice, ran, tuple(changes))
    if telling is None:
        return Item(EQUATION, name, NOT_TRIED, before, UNTOLD, where(ran[0]))
    return Item(EQUATION, name, UNCHANGED, before, before, where(telling))


def _follow(tried: Iterable[_Tried]) -> str:
    """Which precision alone follows the description, in words."""
    apart = {it.case.dtype for it in tried if it.verdict == MISMATCH}
    rest = {it.case.dtype for it in tried} - apart
    return f"; {', '.join(sorted(rest))} follows" if rest else ""


def _telling(
    side: str, optimizer: str, choice: str, ran: list[_Tried], changes: tuple[Mutant, ...]
) -> _Tried | None:
    """A case that would notice another value of a choice, in what is recorded of it."""
    for it in ran:
        for change in _mutants(side, optimizer, it):
            mine = choice_of(change.name, change.kind) == choice
            if mine and _judged(side, it, (*changes, change)) == MISMATCH:
                return it
    return None


def _value(change: Mutant) -> str:
    if change.kind == "precision":
        return change.name.rpartition(" in ")[2]
    return change.name.partition("=")[2]


def _explain(side: str, optimizer: str, tried: list[_Tried]) -> list[Mutant]:
    """Judge cases by the description; where some do not follow, find the changes that explain them.

    Leaves in each case its verdict under those changes: one that no changes explain is a mismatch.
    """
    for it in tried:
        it.verdict = _judged(side, it, ())
    changes: list[Mutant] = []
    for _ in range(MOST):
        apart = [it for it in tried if it.verdict == MISMATCH]
        if not apart:
            break
        best, most = None, sum(it.verdict == OK for it in tried)
        for change in _candidates(side, optimizer, apart):
            made = (*changes, change)
            if any(_judged(side, it, made) == OK for it in apart):
                follow = sum(_judged(side, it, made) == OK for it in tried)
                if follow > most:
                    best, most = change, follow
        if best is None:
            break
        changes.append(best)
        for it in tried:
            it.verdict = _judged(side, it, tuple(changes))
    return changes


def _candidates(side: str, optimizer: str, apart: list[_Tried]) -> list[Mutant]:
    """Every other value of every choice that the runs of some cases read."""
    each = (change for it in apart for change in _mutants(side, optimizer, it))
    return list({change.name: change for change in each}.values())


def _mutants(side: str, optimizer: str, it: _Tried) -> Iterable[Mutant]:
    """Every other value of every choice that the run of a case reads."""
    precise = [item.pytorch for item in by_pytorch_name(optimizer).hyperparameters]
    return mutants(optimizer, runs.described(it.entry, side), set(it.read), precise)


def _judged(side: str, it: _Tried, changes: tuple[Mutant, ...]) -> str:
    """The verdict of a case under some changes; a run that failed on one side alone is apart."""
    eq = runs.described(it.entry, side)
    for change in changes:
        eq = _changed(eq, change)
    run = runs.reference_run(it.entry, side, eq)
    groups = [
        group
        if group is run.groups[0]
        else replace(group, equations=_all(group.equations, changes))
        for group in run.groups
    ]
    run = replace(run, groups=tuple(groups))
    reference = train(run)
    pair = f"{side}--reference"
    law = laws.law(it.case, pair)
    responses = response(run, reference, law) if law.nudge else {}
    outcome = judge(it.case, pair, it.library, reference, law, responses, states=False)
    # What roundings decide says nothing against the description.
    return OK if outcome.verdict in (OK, UNDECIDED) else MISMATCH


def _all(eq: Equations, changes: Iterable[Mutant]) -> Equations:
    for change in changes:
        if change.kind == "choice" and change.field != "lbfgs":
            eq = _changed(eq, change)
    return eq


def _changed(eq: Equations, change: Mutant) -> Equations:
    """Equations with one change; changes of one field that is several choices add up."""
    if change.kind == "precision":
        name, _, width = change.name.rpartition(" in ")
        float32 = eq.float32 | {name} if width == "float32" else eq.float32 - {name}
        return eq.but(float32=float32)
    choice = change.name.partition("=")[0]
    if change.field == "lbfgs":
        return eq.with_value(choice, getattr(change.value, choice.partition(".")[2]))
    return eq.with_value(choice, change.value)
