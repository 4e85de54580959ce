"""Comparing the traces of a case: both libraries with the reference, and with each other."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb import trace
from pitb.breadth import laws, runs
from pitb.breadth.cases import REPORTED, Case
from pitb.breadth.phases import IMPOSSIBLE, trace_path
from pitb.compare import ERROR, MISMATCH, OK
from pitb.errors import PitbError
from pitb.reference.training import train
from pitb.registry import by_pytorch_name
from pitb.trace import Entry, Trace

Array = NDArray[np.float64]
Response = Mapping[str, Sequence[float]]
"""By ``param`` and, where it has one of its own, ``state``: after each update, from update 0."""
SIDES = ("pytorch", "burn")
PAIRS = ("pytorch--reference", "burn--reference", "pytorch--burn")
QUANTITIES = ("param", "loss", "state")
UNDECIDED = "undecided"
"""The verdict where roundings alone move a run further than any tolerance: a declared skip."""
FAILURES = (
    ("the loaded state is float32", "dtype mismatch"),
    ("the flat gradient lacks", "incompatible shapes"),
    ("which is not to be clipped", "total norm"),
    ("Muon takes matrices", "2D"),
    ("max_eval leaves no evaluation", "local variable"),
    ("the total norm of order", "the total norm of the gradients"),
)
"""Parts of the reference's message and of a library's, in lower case, that speak of one failure."""


@dataclass(frozen=True)
class Row:
    """One case, pair, step and kind of quantity."""

    case: str
    suite: str
    optimizer: str
    set: str
    problem: str
    dtype: str
    pair: str
    step: int
    quantity: str
    tensor: str
    index: int
    a: float
    b: float
    max_abs: float
    scale: float
    needed: float
    """The relative tolerance that would have been needed: max_abs over scale."""
    tolerance: float
    law: str
    moved: float
    """How far the parameters have moved, in units of the tolerance."""
    verdict: str


@dataclass
class Outcome:
    """What became of one case and pair."""

    case: Case
    pair: str
    verdict: str
    rows: list[Row] = field(default_factory=list)
    reason: str = ""
    """Of an error, or of what is impossible."""
    nonfinite: tuple[int, int] = (-1, -1)
    """The first step at which a parameter of either trace is not finite; -1 for never."""


@dataclass(frozen=True)
class Difference:
    """The largest difference within one kind of quantity at one step."""

    tensor: str
    index: int
    a: float
    b: float
    max_abs: float
    scale: float

    @property
    def relative(self) -> float:
        """The difference over the scale; 0 where there is none."""
        if self.max_abs == 0:
            return 0.0
        return self.max_abs / self.scale if self.scale > 0 else np.inf


_NEWEST = ("old_dirs", "old_stps")
"""The newest pair of L-BFGS's history; whether there is one its length says, which is compared."""


class Pair:
    """Two traces side by side."""

    def __init__(self, a: Trace, b: Trace) -> None:
        """Index both."""
        self.a, self.b = a, b
        self.entries_a, self.entries_b = a.by_key(), b.by_key()
        self.scales: dict[tuple[str, str], float] = {}
        self._both: dict[tuple[int, str], list[tuple[Entry, Entry]]] = {}
        for key, entry in self.entries_a.items():
            other = self.entries_b.get(key)
            if other is not None and entry.count == other.count > 0:
                kind = key[1].partition(".")[0]
                self._both.setdefault((key[0], kind), []).append((entry, other))

    def difference(self, step: int, kind: str) -> Difference | None:
        """The worst of all tensors that both sides have at ``step``; None where there is none.

        Scales grow with the steps, so steps must be asked for in order.
        """
        worst: Difference | None = None
        for entry, other in self._both.get((step, kind), ()):
            found = self._tensor(entry.quantity, entry.tensor, self.a.of(entry), self.b.of(other))
            if worst is None or found.relative > worst.relative:
                worst = found
        return worst

    def _tensor(self, quantity: str, tensor: str, a: Array, b: Array) -> Difference:
        with np.errstate(all="ignore"):
            distance = np.abs(a - b)
            i = int(distance.argmax())  # that of a NaN, where there is one
            finite: Any = slice(None)
            if not np.isfinite(distance[i]):  # else all values are
                finite = np.isfinite(a) & np.isfinite(b)
                same = (a == b) | (np.isnan(a) & np.isnan(b))
                distance = np.where(same, 0.0, np.where(finite, distance, np.inf))
                i = int(distance.argmax())
        largest = max(np.abs(a[finite]).max(initial=0), np.abs(b[finite]).max(initial=0))
        # A loss that is kept is as exact as the losses are, however small it is.
        of = ("loss", "") if quantity == "state.prev_loss" else (quantity, tensor)
        self.scales[of] = scale = max(float(largest), self.scales.get(of, 0.0))
        name = tensor if quantity in ("param", "loss") else f"{quantity} {tensor}"
        return Difference(name, i, float(a[i]), float(b[i]), float(distance[i]), scale)

    def missing(self, start: int) -> str | None:
        """A parameter or loss that only one side has after step ``start``, or that has another
        size there, in words.
        """
        if not any(key[1] == "param" for key in self.entries_a):
            return f"{self.a.run} has no parameter at all"
        for mine, other, run in (
            (self.entries_a, self.entries_b, self.b),
            (self.entries_b, self.entries_a, self.a),
        ):
            for key, entry in mine.items():
                if key[0] <= start or key[1] not in ("param", "loss"):
                    continue
                if key not in other:
                    return f"{run.run} has no {entry.where}"
                if other[key].count != entry.count:
                    return f"{run.run} has {entry.where} with {other[key].count} values"
        return None

    def state_alone(self, case: Case, start: int) -> str | None:
        """A state after step ``start`` that one side alone keeps and is not declared, in words."""
        if case.clipping_by == "config":
            return None  # burn's optimizer is then made whole, and its states are not to be seen
        members = (case.optimizer, *(group["optimizer"] for group in case.groups))
        declared = {name for member in members for name in by_pytorch_name(member).state_alone}
        for mine, other, run in (
            (self.entries_a, self.entries_b, self.b),
            (self.entries_b, self.entries_a, self.a),
        ):
            for key, entry in mine.items():
                kind, _, name = key[1].partition(".")
                if kind != "state" or key[0] <= start or name in declared:
                    continue
                if key[2] and not self._updated(key[0], key[2]):
                    continue  # burn's is seen where the optimizer is called for it
                if name in _NEWEST or self._unfit(key):
                    continue
                if key not in other or other[key].count != entry.count:
                    return f"{run.run} has no {entry.where}"
        return None

    def _unfit(self, key: trace.Key) -> bool:
        """Whether either side's is one vector that does not fit the parameters, as burn's of L-BFGS
        where it leaves a gradient out of it.
        """
        flat = (key[0], key[1], "")
        both = (entries.get(flat) for entries in (self.entries_a, self.entries_b))
        return any(entry is not None and entry.shape for entry in both)

    def _updated(self, step: int, tensor: str) -> bool:
        """Whether a tensor has a gradient at ``step`` on both sides."""
        key = (step, "grad", tensor)
        return key in self.entries_a and key in self.entries_b


def response(run: Any, base: Trace, law: laws.Law) -> Response:
    """The reference's largest relative response to the law's nudges, step by step; also that of
    states where the law tries several.
    """
    kinds = ("param", "state") if law.nudges > 1 else ("param",)
    found = {kind: [0.0] * (run.steps + 1) for kind in kinds}
    plain = replace(run, states="state" in kinds)
    others = [replace(plain, nudge=law.nudge, phase=7 * i) for i in range(law.nudges)]
    if law.narrow:
        narrow = replace(plain, dtype="float32")
        others += [narrow, *(replace(other, dtype="float32") for other in others)]
    for other in others:
        pair = Pair(train(other), base)
        # As a trace that is taken up again, which knows no larger magnitudes from before.
        first = run.resume_step + 1 if run.resume_step else 0
        for step, kind in itertools.product(range(first, run.steps + 1), kinds):
            if kind == "state":
                pair.difference(step, "loss")  # whose magnitude counts for losses that are kept
            worst = pair.difference(step, kind)
            if worst is not None:
                found[kind][step] = max(found[kind][step], worst.relative)
    return found


def _larger(a: Response, b: Response) -> Response:
    """The larger of two responses at each step."""
    if not a:
        return b
    return {kind: [max(pair) for pair in zip(a[kind], b[kind], strict=True)] for kind in a}


def of_kind(responses: Response, kind: str) -> Sequence[float]:
    """The response of a kind of quantity: its own, or else that of the parameters."""
    return responses.get(kind, responses.get("param", ()))


def same_failure(a: str, b: str) -> bool:
    """Whether two messages speak of one failure: alike, or as `FAILURES` pairs them."""
    texts = (a.lower(), b.lower())
    return texts[0] == texts[1] or any(
        (ours.lower() in x and theirs.lower() in y)
        for ours, theirs in FAILURES
        for x, y in (texts, texts[::-1])
    )


def last_step(found: Trace) -> int:
    """The last step of which there are parameters; -1 where there are none."""
    return max((entry.step for entry in found.entries if entry.quantity == "param"), default=-1)


def first_nonfinite(found: Trace) -> int:
    """The first step at which a parameter is not finite; -1 for never."""
    for entry in found.entries:
        if entry.quantity == "param" and not np.isfinite(found.of(entry)).all():
            return entry.step
    return -1


def movement(found: Trace, step: int) -> float:
    """How far any parameter is from where it began, relative to its tensor's largest."""
    entries = found.by_key()
    first = min((entry.step for entry in found.entries if entry.quantity == "param"), default=0)
    furthest = 0.0
    for entry in found.select(step, "param"):
        start = entries.get((first, "param", entry.tensor))
        if start is None:
            continue
        before, now = found.of(start), found.of(entry)
        with np.errstate(all="ignore"):
            scale = max(np.abs(before).max(initial=0), np.abs(now).max(initial=0))
            distance = np.abs(now - before).max(initial=0)
        if scale > 0 and np.isfinite(distance) and np.isfinite(scale):
            furthest = max(furthest, float(distance / scale))
    return furthest


class Judge:
    """Judges the cases of a plan whose libraries' traces stand in a folder."""

    def __init__(self, plan: dict[str, Any], folder: Path, states: bool = True) -> None:
        """Of ``plan``, with traces at ``<folder>/<side>/<case>.parquet``.

        ``states`` is whether every trace must hold the states that are not declared to be one
        side's alone.
        """
        self.plan, self.folder, self.states = plan, folder, states
        self.responses: dict[str, Response] = {}
        self.verdicts: dict[tuple[str, str], str] = {}
        self._libraries: dict[tuple[str, str], Trace] = {}
        self._references: list[Trace] = []

    def entries(self) -> Iterable[dict[str, Any]]:
        """The plan's entries."""
        return list(self.plan["cases"].values())

    def outcomes(self, entry: dict[str, Any]) -> Iterator[Outcome]:
        """The outcome of each pair of one case."""
        case = runs.case_of(entry)
        traces: dict[str, Trace | str] = {}
        for side in SIDES:
            if IMPOSSIBLE in entry[side]:
                traces[side] = entry[side][IMPOSSIBLE]
            else:
                traces[side] = self.library(case.name, side)
        responses: Response = {}
        references: dict[str, Trace] = {}
        for side in SIDES if case.observe else ():
            if isinstance(traces[side], str):
                continue
            run = runs.reference_run(entry, side)
            references[side] = train(run)
            limit = laws.law(case, f"{side}--reference")
            # Where a law tries several nudges the sides may branch apart.
            if limit.nudge and (limit.nudges > 1 or not responses):
                found = response(run, references[side], limit)
                self.responses[case.name] = responses = _larger(responses, found)
        for side in SIDES if case.observe else ():
            library = traces[side]
            pair = f"{side}--reference"
            if isinstance(library, str):
                yield Outcome(case, pair, IMPOSSIBLE, reason=library)
                continue
            reference, limit = references[side], laws.law(case, pair)
            self._references.append(reference)
            outcome = judge(case, pair, library, reference, limit, responses, self.states)
            self.verdicts[case.name, side] = outcome.verdict
            yield outcome
        if case.observe:
            yield self._across(case, traces, responses)
        for side in SIDES if case.twin else ():
            yield self._twins(case, side, traces[side])

    def _twins(self, case: Case, side: str, found: Trace | str) -> Outcome:
        """Whether a run ends in the same bits as the one that it is a variant of."""
        pair = f"{side}--twin"
        if isinstance(found, str):
            return Outcome(case, pair, IMPOSSIBLE, reason=found)
        twin = self.library(case.twin, side)
        errors = [run.error for run in (found, twin) if run.error is not None]
        if errors:
            return Outcome(case, pair, ERROR, reason="; ".join(errors))
        ends = [[run.of(e) for e in run.select(case.steps, "param")] for run in (found, twin)]
        same = len(ends[0]) == len(ends[1]) > 0 and all(
            a.tobytes() == b.tobytes() for a, b in zip(*ends, strict=True)
        )
        reason = "" if same else f"does not end in the bits of {case.twin}"
        return Outcome(case, pair, OK if same else MISMATCH, reason=reason)

    def library(self, name: str, side: str) -> Trace:
        """The trace of a library's run."""
        if (name, side) not in self._libraries:
            path = trace_path(self.folder, side, name)
            if not path.is_file():
                again = f"delete {path.parent}, and it is trained again"
                raise PitbError(f"{path} does not exist; {again}")
            found = trace.read(path)
            if found.run != f"{side}/{name}":
                raise PitbError(f"{path} is the trace of {found.run!r}, not of {side}/{name}")
            self._libraries[name, side] = found
        return self._libraries[name, side]

    def references(self) -> Iterator[Trace]:
        """The reference's traces of what was judged; each is given once, and let go."""
        while self._references:
            yield self._references.pop()

    def follows(self, name: str, side: str) -> bool:
        """Whether the reference followed a library's run, once that was judged."""
        return self.verdicts.get((name, side)) == OK

    def _across(self, case: Case, traces: dict[str, Trace | str], responses: Response) -> Outcome:
        pair = "pytorch--burn"
        a, b = traces["pytorch"], traces["burn"]
        for found in (a, b):
            if isinstance(found, str):
                return Outcome(case, pair, IMPOSSIBLE, reason=found)
        assert isinstance(a, Trace)
        assert isinstance(b, Trace)
        return judge(case, pair, a, b, laws.law(case, pair), responses)


def judge(
    case: Case,
    pair: str,
    a: Trace,
    b: Trace,
    limit: laws.Law,
    responses: Response,
    states: bool = True,
) -> Outcome:
    """Compare two traces at the reported steps, by a law; ``states`` as `Judge` has it."""
    outcome = Outcome(case, pair, OK, nonfinite=(first_nonfinite(a), first_nonfinite(b)))
    errors = [found.error is not None for found in (a, b)]
    outcome.reason = "; ".join(
        f"{found.run}: {found.error}" for found in (a, b) if found.error is not None
    )
    if any(errors) and not (
        all(errors) and last_step(a) == last_step(b) and same_failure(a.error or "", b.error or "")
    ):
        outcome.verdict = ERROR
        return outcome
    both = Pair(a, b)
    start = both.difference(0, "param")
    if start is not None and start.max_abs > 0:
        outcome.verdict = ERROR
        outcome.reason = f"{a.run} and {b.run} start apart: {start.tensor}[{start.index}]"
        return outcome
    missing = both.missing(case.resume_step) if not any(errors) else None
    if missing is not None:
        outcome.verdict, outcome.reason = ERROR, missing
        return outcome
    owed = states and "reference" in pair
    alone = both.state_alone(case, case.resume_step) if owed else None
    if alone is not None and not any(errors):
        outcome.verdict, outcome.reason = ERROR, alone
        return outcome
    reported = {*REPORTED, case.steps + 1} - {0}
    for step in range(case.steps + 2):
        # Also of steps that are not reported, as the scales grow with them.
        found = {kind: both.difference(step, kind) for kind in QUANTITIES}
        if step not in reported:
            continue
        moved = movement(a, min(step, case.steps))
        for kind, worst in found.items():
            if worst is None:
                continue
            tolerance = limit.tolerance(step, of_kind(responses, kind))
            row = Row(
                case=case.name,
                suite=case.suite,
                optimizer=case.optimizer,
                set=case.set,
                problem=case.problem,
                dtype=case.dtype,
                pair=pair,
                step=step,
                quantity=kind,
                tensor=worst.tensor,
                index=worst.index,
                a=worst.a,
                b=worst.b,
                max_abs=worst.max_abs,
                scale=worst.scale,
                needed=worst.relative,
                tolerance=tolerance,
                law=limit.name,
                moved=moved / tolerance,
                verdict=_verdict(worst.relative, tolerance, limit),
            )
            outcome.rows.append(row)
    verdicts = {row.verdict for row in outcome.rows}
    if MISMATCH in verdicts:
        outcome.verdict = MISMATCH
    elif verdicts == {UNDECIDED}:
        outcome.verdict = UNDECIDED
        outcome.reason = "roundings alone move the run further than any tolerance from step 1 on"
    return outcome


def _verdict(needed: float, tolerance: float, limit: laws.Law) -> str:
    if not limit.decides(tolerance):
        return UNDECIDED
    return OK if needed <= tolerance else MISMATCH
