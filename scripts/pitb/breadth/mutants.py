"""Known mistakes, put into the reference: each must be noticed at the tolerance in force.

The mistakes are not a list of their own: they are every other value of every choice of equation
that an optimizer reads, every hyper-parameter kept in another precision, and every option ignored.
"""

import typing
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np

from pitb import libraries
from pitb.breadth import runs
from pitb.breadth.cases import Case
from pitb.breadth.judge import SIDES, Judge, Outcome, judge
from pitb.breadth.laws import law
from pitb.breadth.phases import IMPOSSIBLE
from pitb.compare import ERROR, MISMATCH
from pitb.problems import problem
from pitb.reference import lbfgs
from pitb.reference.equations import Equations
from pitb.reference.training import Run, train
from pitb.registry import IMPLEMENTATION, by_pytorch_name

EQUIVALENT = {
    "burn own_clip_denominator=none": "the smallest normal number is lost in any norm above it",
    "burn Adagrad accumulator=zero": "burn begins at zero in any case",
    "Adan decay=coupled": "where its decay goes is the choice of prox",
    "Adan decay=decoupled-after": "where its decay goes is the choice of prox",
    "LBFGS norm_precision=float64": "no problem with a loss has gradients whose squares overflow",
    "LBFGS norm_precision=dtype": "no problem with a loss has gradients whose squares overflow",
    "pytorch Muon clip_denominator": "its update does not depend on the gradient's size but by"
    " what bfloat16 hides; burn's side kills it",
    "pytorch Muon clip_scope": "as for the denominator",
    "Lion betas[0] in float32": "the sign of the update hides it",
    "Lion betas[0] in float64": "the sign of the update hides it",
    "pytorch Muon eps in float32": "bfloat16 hides it; burn's side kills it",
    "pytorch Muon weight_decay in float32": "bfloat16 hides it; burn's side kills it",
    "pytorch Muon momentum in float32": "bfloat16 hides it; burn's side kills it",
    "pytorch Muon ns_coefficients in float32": "bfloat16 hides it; burn's side kills it",
    "RMSprop epsilon=before-correction": "it corrects no bias",
    "Adagrad epsilon=before-correction": "it corrects no bias",
    "Adafactor parameter_scale=flag": "PyTorch has no such flag",
    "Adafactor relative_step=flag": "PyTorch has no such flag",
    "Adan epsilon=before-correction": "it is LAMB's and Adam's formula that has this place",
}
"""Choices, or values of them for one optimizer, that change no parameter, and why."""


@dataclass(frozen=True)
class Mutant:
    """One mistake."""

    optimizer: str
    kind: str
    """choice, precision or option."""
    name: str
    """What is changed, ``decay=none``."""
    field: str
    """The choice of equation that must be read for it to matter; empty for an option."""
    value: Any = None


@dataclass(frozen=True)
class Kill:
    """What became of one mutant on one side."""

    optimizer: str
    side: str
    kind: str
    mutant: str
    tried: int
    """Cases that could have shown it."""
    flagged: int
    """Cases that were tried before it was flagged in every precision, and did flag it."""
    killed_by_float32: str
    killed_by_float64: str
    excess: float
    """The largest difference that it made, in units of the tolerance."""
    status: str
    """killed, survived, or equivalent."""
    reason: str = ""


class Watched(Equations):
    """Equations that note which choices are read."""

    def __getattribute__(self, name: str) -> Any:
        """Note the name, and give the value."""
        if name in _names():
            _READ.add(name)
        return super().__getattribute__(name)


_READ: set[str] = set()


@cache
def _names() -> frozenset[str]:
    return frozenset(item.name for item in fields(Equations))


def choices_read(run: Run) -> set[str]:
    """The choices of equation that the reference reads when it trains ``run``."""
    _READ.clear()
    watched = tuple(
        replace(group, equations=Watched(**vars(group.equations))) for group in run.groups
    )
    train(replace(run, groups=watched))
    return set(_READ)


def alternatives(of: type, name: str) -> tuple[Any, ...]:
    """The values that a choice of a dataclass of choices can take."""
    hint = typing.get_type_hints(of)[name]
    if hint is bool:
        return (False, True)
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()


_LBFGS_NUMBERS = {"c1": 0.3, "c2": 0.1, "rise_checked_from": 1}
"""Mistaken values of L-BFGS's constants: the Armijo and curvature conditions, algorithm 3.5."""


def mutants(
    optimizer: str, eq: Equations, read: set[str], precise: Collection[str]
) -> Iterator[Mutant]:
    """Every mistake that concerns an optimizer which reads the choices ``read``; ``precise`` are
    the hyper-parameters whose values float32 rounds.
    """
    for name in sorted(read - {"float32", "lbfgs"}):
        for value in alternatives(Equations, name):
            if value != getattr(eq, name):
                yield Mutant(optimizer, "choice", f"{name}={value}", name, value)
    if "lbfgs" in read:
        for item in fields(lbfgs.Choices):
            values = alternatives(lbfgs.Choices, item.name) or (_LBFGS_NUMBERS[item.name],)
            for value in values:
                if value != getattr(eq.lbfgs, item.name):
                    full = f"lbfgs.{item.name}"
                    changed = replace(eq.lbfgs, **{item.name: value})
                    yield Mutant(optimizer, "choice", f"{full}={value}", "lbfgs", changed)
    for hyper in by_pytorch_name(optimizer).hyperparameters:
        if "float32" in read and hyper.pytorch in precise:
            other = eq.float32 ^ {hyper.pytorch}
            width = "float32" if hyper.pytorch in other else "float64"
            name = f"{hyper.pytorch} in {width}"
            yield Mutant(optimizer, "precision", name, "float32", other)


class Hunt:
    """Looks for a case that flags each mutant of one optimizer."""

    EXCUSED = 100
    """Cases on which a mutant is tried that is declared not to be noticed."""

    def __init__(self, judge_: Judge) -> None:
        """Among the cases of a judge's plan."""
        self.judge = judge_
        self.read: dict[tuple[str, str], set[str]] = {}

    def kills(self, optimizer: str) -> Iterator[Kill]:
        """What became of each mutant of ``optimizer``, on each side."""
        entries = [e for e in self.judge.entries() if e["case"]["optimizer"] == optimizer]
        entries.sort(key=_promising)
        for side in SIDES:
            able = [entry for entry in entries if IMPOSSIBLE not in entry[side]]
            able = [e for e in able if self.judge.follows(runs.case_of(e).name, side)]
            if not able:
                continue  # nothing follows, which is complained of already
            eq = runs.described(able[0], side)
            read: set[str] = set()
            for entry in able:
                name = runs.case_of(entry).name
                self.read[side, name] = choices_read(runs.reference_run(entry, side))
                # What only another group's optimizer reads is no choice of this one.
                read |= set() if entry["groups"] else self.read[side, name]
            for mutant in mutants(optimizer, eq, read, _rounded(optimizer, side, able)):
                yield self._hunt(mutant, side, able)
            yield from self._options(optimizer, side, able)

    def _hunt(self, mutant: Mutant, side: str, entries: list[dict[str, Any]]) -> Kill:
        excuse = ""
        choice, whole = mutant.name.partition("=")[0], f"{mutant.optimizer} {mutant.name}"
        alone = f"{side} {mutant.optimizer} {choice}"
        for key in (choice, whole, alone, f"{side} {mutant.name}", f"{side} {whole}"):
            if key in EQUIVALENT:
                excuse = EQUIVALENT[key]
        able = [
            entry for entry in entries if mutant.field in self.read[side, runs.case_of(entry).name]
        ]

        def changed(entry: dict[str, Any]) -> Run | None:
            eq = runs.described(entry, side)
            if mutant.kind == "choice" and getattr(eq, mutant.field) == mutant.value:
                return None
            run = runs.reference_run(entry, side, eq.but(**{mutant.field: mutant.value}))
            return _everywhere(run, mutant)

        # An excuse is tried, too, though not on all that could refute it.
        kill = self._try(mutant, side, able[: self.EXCUSED] if excuse else able, changed)
        if kill.status == "survived" and excuse:
            return replace(kill, status="equivalent", reason=excuse)
        return kill

    def _options(self, optimizer: str, side: str, entries: list[dict[str, Any]]) -> Iterator[Kill]:
        """Each option ignored, which is left at the default: noticed on any case that sets it."""
        setting: dict[str, list[dict[str, Any]]] = {}
        for entry in entries:
            case = runs.case_of(entry)
            if case.suite in ("options", "schedule"):
                for option in (*case.options, *case.burn):
                    standard = self._default(optimizer, option)
                    value = entry["options"][side].get(option, case.burn.get(option))
                    if value != standard and option not in _SWITCHES:
                        setting.setdefault(option, []).append(entry)
        for option, members in setting.items():
            standard = self._default(optimizer, option)
            mutant = Mutant(optimizer, "option", f"{option} ignored", "", standard)

            def changed(entry: dict[str, Any], option: str = option, value: Any = standard) -> Run:
                run = runs.reference_run(entry, side)
                options = {**run.groups[0].options, option: value}
                return replace(
                    run, groups=(replace(run.groups[0], options=options), *run.groups[1:])
                )

            yield self._try(mutant, side, members, changed)

    def _default(self, optimizer: str, option: str) -> Any:
        defaults = self.judge.plan["defaults"][optimizer]
        if option in defaults:
            return defaults[option]
        found: Any = libraries.burn_fields(by_pytorch_name(optimizer).burn_config)
        for name in option.split("."):
            found = found[name]
        return found

    def _try(self, mutant: Mutant, side: str, entries: list[dict[str, Any]], changed: Any) -> Kill:
        found: list[tuple[Case, float]] = []
        tried = 0
        for dtype in ("float64", "float32"):
            for entry in entries:
                case = runs.case_of(entry)
                if case.dtype != dtype:
                    continue
                run = changed(entry)
                if run is None:
                    continue
                tried += 1
                outcome = self._outcome(case, side, run)
                if outcome.verdict in (MISMATCH, ERROR):
                    found.append((case, _excess(outcome)))
                    break
        status = "killed" if found else "survived"
        return _kill(mutant, side, tried, found, status)

    def _outcome(self, case: Case, side: str, run: Run) -> Outcome:
        pair = f"{side}--reference"
        library = self.judge.library(case.name, side)
        responses = self.judge.responses.get(case.name, {})
        return judge(case, pair, library, train(run), law(case, pair), responses)


_SWITCHES = (*IMPLEMENTATION, "decoupled_weight_decay")
"""Options whose neglect is no mutant: they choose an implementation, or are a choice of equation
(decay), or are set only to what burn does."""


def _everywhere(run: Run, mutant: Mutant) -> Run:
    """With a choice of the training loop changed for every group."""
    groups = [
        group
        if group is run.groups[0] or mutant.kind != "choice" or mutant.field == "lbfgs"
        else replace(group, equations=group.equations.but(**{mutant.field: mutant.value}))
        for group in run.groups
    ]
    return replace(run, groups=tuple(groups))


def _rounded(optimizer: str, side: str, entries: list[dict[str, Any]]) -> set[str]:
    """The hyper-parameters that some case sets to a number that float32 does not hold."""
    found = set()
    for hyper in by_pytorch_name(optimizer).hyperparameters:
        for entry in entries:
            value = runs.option_of(entry, side, hyper.pytorch)
            numbers = value if isinstance(value, list) else [value]
            if any(isinstance(x, float) and float(np.float32(x)) != x for x in numbers):
                found.add(hyper.pytorch)
    return found


def _promising(entry: dict[str, Any]) -> tuple[int, int]:
    """Short runs with gradients of ordinary size first."""
    order = ("gradients", "a1", "absent", "tall", "embedding", "inf", "scale-1e30", "nan")
    name = entry["case"]["problem"]
    place = order.index(name) if name in order else len(order)
    return entry["case"]["steps"], place + 20 * problem(name).overflows


def _excess(outcome: Outcome) -> float:
    return max((row.needed / row.tolerance for row in outcome.rows), default=float("inf"))


def _kill(
    mutant: Mutant,
    side: str,
    tried: int,
    found: list[tuple[Case, float]],
    status: str,
    reason: str = "",
) -> Kill:
    by = {case.dtype: case.name for case, _ in found}
    return Kill(
        optimizer=mutant.optimizer,
        side=side,
        kind=mutant.kind,
        mutant=mutant.name,
        tried=tried,
        flagged=len(found),
        killed_by_float32=by.get("float32", ""),
        killed_by_float64=by.get("float64", ""),
        excess=max((excess for _, excess in found), default=0.0),
        status=status,
        reason=reason,
    )
