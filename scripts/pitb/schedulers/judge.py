"""Whether each library follows its description, and how the two libraries relate."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pitb.errors import PitbError
from pitb.schedulers.cases import CASES, Case
from pitb.schedulers.reference import CHOICES, Choices
from pitb.schedulers.sides import SIDES, Outcome, reference_rates

OK, MISMATCH, ERROR, IMPOSSIBLE = VERDICTS = ("OK", "MISMATCH", "error", "impossible")
SAME, DIFFERENT, ONE_SIDED, NEITHER = RELATIONS = (
    "same",
    "different by formula",
    "not to be had on the other side",
    "refused by both",
)
EPSILON = 2.0**-52
"""One ulp of 1 in f64."""
Outcomes = Mapping[str, Outcome | None]


@dataclass(frozen=True)
class Law:
    """How far apart two rates of update k may be: ``base + growth * (k - 1)`` ulp of a scale."""

    base: float
    growth: float
    of: str
    """The scale: ``rate`` is the larger of the two, ``peak`` the largest of the whole schedule."""
    reason: str

    def __str__(self) -> str:
        """``2 + 1 (k - 1) ulp of the rate``."""
        grows = f" + {self.growth:g} (k - 1)" if self.growth else ""
        return f"{self.base:g}{grows} ulp of the {self.of}"


OWN = Law(2, 0, "rate", "the description has the library's own order of operations")
LOADED = Law(0, 0, "rate", "a state that is saved and loaded is all of the state")


@dataclass(frozen=True)
class Row:
    """One comparison of two sequences of rates."""

    case: str
    pair: str
    relation: str
    verdict: str
    explanation: str
    worst: float = math.nan
    """The largest relative difference of two rates."""
    step: int = 0
    """The update at which the tolerance is used most."""
    law: str = ""
    needed: float = math.nan
    """The base that the law would have to have, in ulp, for the verdict OK."""
    largest: float = math.nan
    """The largest difference in ulp of the law's scale."""


def law(case: Case) -> Law:
    """What rounding alone may put between burn and PyTorch, by the schedulers of a case.

    Every product or quotient rounds by half an ulp on each side, and a recursion keeps what its
    earlier steps lost. Sums and differences, of which linear and cosine schedules are made, lose
    ulp of their largest term, so those are held to the peak.
    """
    kinds = set(names(case.burn))
    growth = 2 * len(kinds & {"Linear", "Cosine"}) + len(kinds & {"Exponential", "Step"})
    if not kinds & {"Linear", "Cosine", "Composed"}:
        return Law(2, growth, "rate", "each operation rounds once on each side")
    reason = "sums and differences round in ulp of the peak"
    # After a minimum PyTorch divides by 1 + cos(pi (n + 1) / n), about (pi / n)^2 / 2, which is
    # known to an ulp of 1; the rates after it keep that relative error.
    n = max(map(int, re.findall(r'"T_max": (\d+)', json.dumps(case.pytorch))), default=case.steps)
    if case.steps <= n + 1:
        return Law(4, growth, "peak", reason)
    return Law(4 + n**2 / 4, growth, "peak", f"{reason}; PyTorch's loses n^2 ulp at a minimum")


def relation(case: Case) -> tuple[str, str]:
    """How the two descriptions of a case relate, and a sentence on why."""
    burn, pytorch = (reference_rates(case, side) for side in SIDES)
    if burn is None or pytorch is None:
        return ONE_SIDED, f"{'burn' if burn is None else 'PyTorch'} has none: {case.note}"
    errors = {"burn": burn.error, "PyTorch": pytorch.error}
    said = [f"{side} refuses it: {error}" for side, error in errors.items() if error]
    if said:
        return (NEITHER if all(errors.values()) else ONE_SIDED), _and(*said, case.note)
    tolerance = law(case)
    if _compared(burn.rates, pytorch.rates, tolerance)["verdict"] == OK:
        return SAME, _and(tolerance.reason, case.note)
    apart = (_compared(burn.rates[:k], pytorch.rates[:k], tolerance) for k in range(case.steps))
    k = next((k for k, prefix in enumerate(apart) if prefix["verdict"] != OK), case.steps)
    a, b = burn.rates[k - 1], pytorch.rates[k - 1]
    return DIFFERENT, _and(f"update {k} has {a:.6g} in burn, {b:.6g} in PyTorch", case.note)


def _and(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _compared(
    a: Sequence[float], b: Sequence[float], tolerance: Law, expected: Sequence[float] | None = None
) -> dict[str, Any]:
    """The numbers of a `Row`. ``expected`` are the differences that a - b is to have."""
    peak = max((abs(x) for x in (*a, *b)), default=0.0)
    worst = largest = needed = 0.0
    step, most = 0, -math.inf
    for k, (x, y) in enumerate(zip(a, b, strict=True), 1):
        rate = max(abs(x), abs(y))
        off = abs(x - y - (expected[k - 1] if expected else 0.0))
        scale = peak if expected or tolerance.of == "peak" else rate
        # Where off is not a number, or the scale is 0, there is no number of ulp.
        ulps = (
            0.0 if off == 0 else off / (EPSILON * scale) if off < math.inf and scale else math.inf
        )
        worst = max(worst, abs(x - y) / rate if rate else 0.0)
        largest, base = max(largest, ulps), ulps - tolerance.growth * (k - 1)
        needed = max(needed, base)
        if base > most:
            step, most = k, base
    verdict = OK if needed <= tolerance.base else MISMATCH
    numbers = {"worst": worst, "step": step, "needed": needed, "largest": largest}
    return {"verdict": verdict, "law": str(tolerance), **numbers}


def judge(
    cases: Sequence[Case],
    measured: Mapping[str, Outcomes],
    resumed: Mapping[str, Outcomes],
    choices: Mapping[str, Choices] = CHOICES,
) -> list[Row]:
    """Five rows for each case: each side against its description and its resumed self, and both.

    Args:
        cases: The schedules.
        measured: By side and case what the libraries gave; what is missing is an error.
        resumed: The same with the state saved and loaded on the way.
        choices: What the descriptions are, by side.
    """
    rows = []
    for case in cases:
        related = relation(case)
        found = {side: measured[side].get(case.name) for side in SIDES}
        for side in SIDES:
            described = reference_rates(case, side, choices[side])
            again = resumed[side].get(case.name)
            rows.append(_row(case, f"{side} ~ reference", related[0], found[side], described, OWN))
            rows.append(_row(case, f"{side} ~ resumed", related[0], again, found[side], LOADED))
        rows.append(_between(case, related, found))
    return rows


def _row(
    case: Case, pair: str, related: str, found: Outcome | None, right: Outcome | None, own: Law
) -> Row:
    """What a library gave against what it should have given."""
    row = Row(case.name, pair, related, ERROR, "there are no rates to compare")
    if (case.burn if pair.startswith("burn") else case.pytorch) is None:
        return replace(row, verdict=IMPOSSIBLE, explanation=case.note)
    if found is None or right is None:
        return row
    ends = [f"after {len(o.rates)} updates: {o.error}" for o in (found, right) if o.error]
    if len(ends) == 1 or len(found.rates) != len(right.rates):
        said = f"only one of them ends {ends[0]}" if ends else "one of them has more rates"
        return replace(row, verdict=MISMATCH, explanation=said)
    said = f"ends {ends[0]}" if ends else own.reason
    return replace(row, explanation=said, **_compared(found.rates, right.rates, own))


def _between(case: Case, related: tuple[str, str], found: Outcomes) -> Row:
    """burn against PyTorch: equal rates, or the difference that the descriptions have."""
    row = Row(case.name, "burn ~ pytorch", related[0], IMPOSSIBLE, related[1])
    if related[0] in (ONE_SIDED, NEITHER):
        return row
    a, b = (found[side] or Outcome() for side in SIDES)
    if len(a.rates) != case.steps or len(b.rates) != case.steps:
        return replace(row, verdict=ERROR, explanation="there are no rates to compare")
    expected = None
    if related[0] == DIFFERENT:
        burn, pytorch = (reference_rates(case, side) or Outcome() for side in SIDES)
        expected = [x - y for x, y in zip(burn.rates, pytorch.rates, strict=True)]
    return replace(row, **_compared(a.rates, b.rates, law(case), expected))


def totals(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Rows by pair and verdict, and cases by relation.

    Raises:
        PitbError: They do not add up.
    """
    pairs = list(dict.fromkeys(row.pair for row in rows))
    found = {
        pair: {
            verdict: sum((r.pair, r.verdict) == (pair, verdict) for r in rows)
            for verdict in VERDICTS
        }
        for pair in pairs
    }
    related = Counter({row.case: row.relation for row in rows}.values())
    found["cases"] = {name: related[name] for name in RELATIONS}
    sums = {name: sum(by.values()) for name, by in found.items()}
    if len(set(sums.values())) != 1 or sums["cases"] * len(pairs) != len(rows):
        raise PitbError(f"the rows do not add up: {sums} of {len(rows)} rows")
    return found


def mutants() -> list[tuple[str, str, Choices]]:
    """Wrong descriptions: what is wrong, of which side, and the choices that make it so."""
    wrong: dict[str, dict[str, Any]] = {
        "rate of the next update": {"offset": 1},
        "linear goes on past its end": {"linear_past": "continues"},
        "cosine stops at its end": {"cosine_past": "holds"},
        "gamma squared": {"power": 2},
        "milestone one update late": {"milestone": 1},
        "milestone one update early": {"milestone": -1},
        **{f"{name} in closed form": {name: "closed"} for name in _FORMS},
        **{f"{name} in recursive form": {name: "recursive"} for name in _FORMS},
        **{f"{name} for any reduction": {"reduction": name} for name in ("Sum", "Avg", "Prod")},
    }
    made = [(n, s, replace(CHOICES[s], **change)) for s in SIDES for n, change in wrong.items()]
    # PyTorch has no reduction but the product, and no choice that is already made is a mutant.
    return [m for m in made if m[2] != CHOICES[m[1]] and (m[1] == "burn" or not m[2].reduction)]


_FORMS = ("linear", "cosine", "exponential", "step")


def kills(cases: Sequence[Case], measured: Mapping[str, Outcomes]) -> list[dict[str, Any]]:
    """For each mutant the cases of which it changes a bit, and those where the rates flag it.

    A change of fewer ulp than `OWN` allows is not flagged.
    """
    table = []
    for name, side, choices in mutants():
        wrong = {c.name: reference_rates(c, side, choices) for c in cases}
        changed = [c for c in cases if wrong[c.name] != reference_rates(c, side)]
        pair, found = f"{side} ~ reference", measured[side]
        rows = [_row(c, pair, "", found.get(c.name), wrong[c.name], OWN) for c in changed]
        flagged = [row.case for row in rows if row.verdict == MISMATCH]
        table.append(
            {"mutant": name, "side": side, "changed": [c.name for c in changed], "flagged": flagged}
        )
    return table


def names(value: Any) -> Iterator[str]:
    """The schedulers that a configuration of either side is made of, the outermost first."""
    if isinstance(value, list):
        for child in value:
            yield from names(child)
    elif isinstance(value, dict):
        yield from [value["class"]] if "class" in value else [k for k in value if k.istitle()]
        for child in value.values():
            yield from names(child)


def coverage(
    variants: Sequence[str], classes: Sequence[str], cases: Sequence[Case] = CASES
) -> list[dict[str, Any]]:
    """A row for each scheduler of either side: the cases that have it, and its counterparts.

    A counterpart is the other side of a case that has the scheduler as its outermost and whose
    relation is `SAME`; it is written ``Sequential(Linear, Cosine)``.

    Raises:
        PitbError: No case has one of the schedulers.
    """
    same = {case.name for case in cases if relation(case)[0] == SAME}
    rows = []
    for side, listed in (("burn", variants), ("pytorch", classes)):
        for name in listed:
            counterparts, having = [], []
            for case in cases:
                sides = [list(names(case.burn)), list(names(case.pytorch))]
                own, other = sides if side == "burn" else reversed(sides)
                if name in own:
                    having.append(case.name)
                if case.name in same and own[0] == name:
                    inner = ", ".join(dict.fromkeys(other[1:]))
                    counterparts.append(f"{other[0]}({inner})" if inner else other[0])
            found = list(dict.fromkeys(counterparts)) or ["no counterpart"]
            rows.append({"side": side, "name": name, "counterparts": found, "cases": having})
    missing = [str(row["name"]) for row in rows if not row["cases"]]
    if missing:
        raise PitbError(f"no case has the schedulers {', '.join(missing)}")
    return rows
