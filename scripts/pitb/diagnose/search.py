"""The search for the optimizers that a recording allows.

Every optimizer of the reference is tried as both libraries describe it, its flags are flipped one
after another, its numbers fitted. Only where that does not explain the recording are choices of
equation flipped, too, then rates doubted, clipping supposed, tensors taken apart.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose import fit, space
from pitb.diagnose.fit import Fitted, Judged, Problem
from pitb.diagnose.recording import Recording
from pitb.diagnose.replay import view
from pitb.diagnose.space import Hypothesis

SHORT_STEPS, SHORT_NUMBERS = 4, 300
STEPS, NUMBERS = 20, 1500
WHOLE = 12_000
"""Most numbers of whole tensors that are searched over, where numbers do not count alone."""
FAR = 0.3
"""Share of a recording's movement that a first fit leaves, beyond which flags are not tried once
something explains all."""
ROUNDS = 4
NEAR = 3.0
"""A cost below which a view may well be explained."""
MOST_STARTS = 4
"""Optimizers that choices of equation are tried on."""
PART = 50_000
"""Numbers of one step that are held against an explanation at a time."""
LOOSE, SMALLEST = 100.0, 1.0
"""How many times what the tightest explanation leaves, or of a unit, is no explanation as good."""
BUDGET = 250_000
"""Updates replayed after which no further choices of equation are tried."""
HOPELESS = 0.8
"""Share of the movement that is left where an optimizer is no place to begin."""


@dataclass
class Explanation:
    """A hypothesis that explains every number looked at, and what else would."""

    hypothesis: Hypothesis
    names: list[str]
    """Its continuous hyper-parameters."""
    judged: Judged
    rates: NDArray[np.float64]
    rates_found: bool
    """Whether the rates were fitted, not recorded."""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By hyper-parameter, and ``lr`` where one rate was found for all updates."""
    tied: dict[str, list[Any]] = field(default_factory=dict)
    """Other values of choices of equation that explain it as well."""
    tied_options: dict[str, list[Any]] = field(default_factory=dict)
    """Other values of flags, counts and words that do."""
    rest: float = 0.0
    """Root mean square of what is left, in units in the last place and of the step."""
    checked: int = 0
    """Numbers that were held against it."""

    @property
    def changes(self) -> list[str]:
        """The options that are not at the library's defaults."""
        standard = space.defaults(self.hypothesis.optimizer, self.hypothesis.side)
        found = []
        for name, value in self.hypothesis.options.items():
            if name == space.SNAPSHOT or name in self.tied_options:
                continue
            usual: Any = standard.get(name)
            if isinstance(value, list):
                found += [
                    f"{name}[{i}]"
                    for i, item in enumerate(value)
                    if not _same(item, usual[i]) and not (name == "eps" and usual[i] is None)
                ]
            elif not _same(value, usual):
                found.append(name)
        return found

    @property
    def deviations(self) -> list[str]:
        """The choices of equation that are not the library's."""
        standard = space.base(self.hypothesis.optimizer, self.hypothesis.side).equations
        return [
            name
            for name in standard.differences(self.hypothesis.equations)
            if name not in self.tied
        ]

    @property
    def complexity(self) -> tuple[int, int, float]:
        """How much has to be said: choices, options and digits, then the residual."""
        digits = sum(
            len(f"{self.hypothesis.value(name):.15e}".partition("e")[0].rstrip("0")) > 6
            for name in self.names
            if self.hypothesis.value(name) is not None
        )
        said = 3 * len(self.deviations) + len(self.changes) + 2 * digits
        said += 2 * (self.hypothesis.clip is not None)
        return said, len(self.hypothesis.options), self.judged.score


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-7 * abs(b)
    return bool(a == b)


@dataclass
class Trial:
    """A hypothesis on its way."""

    fitted: Fitted
    kind: tuple[str, str]
    """Optimizer and side."""


class Search:
    """The search over one set of tensors that share their options."""

    def __init__(self, recording: Recording) -> None:
        """Over all tensors of a recording."""
        self.recording = recording
        self._problems: dict[tuple[bool, str], Problem] = {}
        self.matrices = all(len(recording.shapes[name]) == 2 for name in recording.names)
        self.best: tuple[Hypothesis, Judged] | None = None
        self.tried: list[Fitted] = []

    # -- views ---------------------------------------------------------------------------------

    def problem(self, hypothesis: Hypothesis, size: str) -> Problem:
        """The short, middle or whole view that suits a hypothesis."""
        flat = space.is_elementwise(hypothesis)
        if (flat, size) not in self._problems:
            limits: dict[str, tuple[int | None, int | None]] = {
                "short": (SHORT_STEPS, SHORT_NUMBERS if flat else WHOLE // 10),
                "middle": (STEPS, NUMBERS if flat else WHOLE),
                "whole": (None, None),
            }
            steps, most = limits[size]
            if size == "whole" and not flat and self.recording.numbers > 40 * WHOLE:
                most = 40 * WHOLE  # a large matrix is not made orthogonal at every step
            self._problems[flat, size] = Problem(view(self.recording, flat, steps, most))
        return self._problems[flat, size]

    def free_rates(self) -> "Search":
        """The same with the recorded rates forgotten."""
        return Search(replace(self.recording, rates=None))

    @property
    def spent(self) -> int:
        """Updates that were replayed."""
        return sum(problem.evaluations for problem in self._problems.values())

    # -- fitting -------------------------------------------------------------------------------

    def fitted(
        self,
        hypothesis: Hypothesis,
        size: str,
        fresh: bool,
        iterations: int = 15,
        deep: bool = False,
    ) -> Fitted:
        """A hypothesis with its numbers fitted to a view."""
        problem = self.problem(hypothesis, size)
        names = space.numbers(hypothesis, deep)
        start = fit.begin(problem, hypothesis, names) if fresh else Fitted(hypothesis, 0.0)
        return fit.fit(problem, start, names, iterations)

    def explains(self, fitted: Fitted, size: str = "middle") -> Judged:
        """How well a hypothesis explains a view; remembers the closest."""
        parts = -(-self.recording.numbers // PART)
        if size == "whole" and parts > 1 and space.is_elementwise(fitted.hypothesis):
            return self.explains_parts(fitted.hypothesis, parts)
        judged = fit.judge(self.problem(fitted.hypothesis, size), fitted.hypothesis)
        if size == "middle" and (self.best is None or judged.score < self.best[1].score):
            self.best = (fitted.hypothesis, judged)
        return judged

    def explains_parts(self, hypothesis: Hypothesis, parts: int) -> Judged:
        """The same of all numbers, a part of them in memory at a time."""
        each = [
            fit.judge(Problem(view(self.recording, True, part=(i, parts))), hypothesis)
            for i in range(parts)
        ]
        worst = max(each, key=lambda item: item.score)
        return replace(
            worst,
            ulp=max(item.ulp for item in each),
            unexplained=sum(item.unexplained for item in each),
        )

    # -- the search ----------------------------------------------------------------------------

    def run(self) -> list[Explanation]:
        """Everything that explains the recording with a library's equations, the simplest first."""
        explained: list[Fitted] = []
        for trial in sorted(self.pool(), key=lambda trial: trial.fitted.cost):
            twin = next((x for x in explained if x.hypothesis.optimizer == trial.kind[0]), None)
            if twin is not None:
                start = self.as_other_side(twin.hypothesis, trial.fitted.hypothesis)
                found = self.settle(Fitted(start, 0.0), first=False)
                if not self.close(found):
                    found = self.settle(trial.fitted, first=True)
            elif explained and self.is_far(trial.fitted):
                # It may still do the same with another flag, as LAMB does without its ratio.
                other = self.flipped(trial.fitted)
                if other is None:
                    continue
                found = self.settle(other, first=False)
            else:
                found = self.settle(trial.fitted, first=not explained)
            self.tried.append(found)
            if self.explains(found).explained:
                explained.append(found)
        if not explained:
            deep = [self.deepened(found) for found in sorted(self.tried, key=self.relative)[:4]]
            explained = [found for found in deep if self.explains(found).explained]
        return self.ranked(explained)

    def run_equations(self) -> list[Explanation]:
        """What explains it with equations that no library has, near what :meth:`run` has tried."""
        starts: dict[str, Fitted] = {}
        for found in sorted(self.tried, key=self.relative):
            if not self.is_hopeless(found):
                kind = found.hypothesis.optimizer
                usual = self.with_defaults(found.hypothesis, off=False)
                starts.setdefault(kind, replace(found, hypothesis=usual))
        return self.ranked(self.by_equations([*starts.values()][:MOST_STARTS]))

    def ranked(self, explained: Iterable[Fitted]) -> list[Explanation]:
        """Finished explanations of one of each optimizer and side."""
        distinct: dict[tuple[str, str], Fitted] = {}
        for item in explained:
            distinct.setdefault((item.hypothesis.optimizer, item.hypothesis.side), item)
        ready = [x for x in map(self.finished, distinct.values()) if x is not None]
        tightest = min((item.rest for item in ready), default=0.0)

        def rank(item: Explanation) -> tuple[int, int, float]:
            # What bfloat16 would hide is no reason to believe in bfloat16.
            loose = item.rest > LOOSE * max(tightest, SMALLEST)
            said, options, score = item.complexity
            return said + 5 * loose, options, score

        return sorted(ready, key=rank)

    def is_far(self, fitted: Fitted) -> bool:
        """Whether a fit to the short view leaves much of the movement."""
        return fitted.cost > FAR * self.movement(fitted.hypothesis)

    def flipped(self, start: Fitted) -> Fitted | None:
        """The first hypothesis one flag away that is not far; None where all are."""
        usual = self.with_defaults(start.hypothesis)
        for _, other in space.option_alternatives(usual):
            found = self.fitted(other, "short", fresh=False, iterations=5)
            if not self.is_far(found):
                return found
        return None

    def with_defaults(self, hypothesis: Hypothesis, off: bool = True) -> Hypothesis:
        """The same flags with a library's default numbers: a fit without the right flag may have
        led the numbers far away. Unless ``off``, what is off by default stays as it was found."""
        standard = self.resolved(space.base(hypothesis.optimizer, hypothesis.side))
        for name in space.numbers(hypothesis):
            if not name.startswith("clip.") and (off or standard.value(name)):
                hypothesis = hypothesis.having(name, standard.value(name))
        return hypothesis

    def movement(self, hypothesis: Hypothesis) -> float:
        """The size of what is to be explained, in the unit of a fit's cost."""
        return self.problem(hypothesis, "short").movement()

    def relative(self, fitted: Fitted) -> float:
        """What a fit leaves of the movement of the middle view."""
        problem = self.problem(fitted.hypothesis, "middle")
        return fitted.cost / max(problem.movement(), 1e-300)

    def pool(self) -> Iterator[Trial]:
        """Every optimizer as both libraries have it, fitted to a few steps."""
        for hypothesis in space.bases():
            if hypothesis.entry.matrices_only and not self.matrices:
                continue
            hypothesis = self.resolved(hypothesis)
            fitted = self.fitted(hypothesis, "short", fresh=True, iterations=8)
            yield Trial(fitted, (hypothesis.optimizer, hypothesis.side))

    def resolved(self, hypothesis: Hypothesis) -> Hypothesis:
        """With what follows from the trace: the dtype's epsilon, and whether it goes uphill."""
        if hypothesis.optimizer == "Adafactor" and hypothesis.options["eps"][0] is None:
            eps = float(np.finfo(self.recording.dtype).eps)
            hypothesis = hypothesis.having("eps[0]", eps)
        if "maximize" in hypothesis.options and self.uphill():
            hypothesis = hypothesis.having("maximize", True)
        return hypothesis

    def uphill(self) -> bool:
        """Whether the first update goes with the gradients."""
        total = 0.0
        with np.errstate(all="ignore"):
            for name in self.recording.names:
                moved = self.recording.parameters[name][1] - self.recording.parameters[name][0]
                total += float(np.sum(np.sign(moved) * np.sign(self.recording.gradients[name][0])))
        return total > 0

    def as_other_side(self, known: Hypothesis, other: Hypothesis) -> Hypothesis:
        """One library's options with the other's equations."""
        shared = {k: v for k, v in known.options.items() if k in other.options}
        return replace(other, options={**other.options, **shared}, clip=known.clip)

    def settle(self, start: Fitted, first: bool) -> Fitted:
        """A hypothesis with the flags that suit it best, fitted to the middle view.

        ``first`` says that nothing explains the recording yet, so that time is well spent.
        """
        best = self.fitted(start.hypothesis, "middle", fresh=False)
        if first and not self.close(best):
            again = self.fitted(start.hypothesis, "middle", fresh=True)
            best = min(best, again, key=lambda item: item.cost)
        for _ in range(ROUNDS):
            if self.close(best):
                return best
            others = [
                self.fitted(other, "short", fresh=first, iterations=8)
                for _, other in space.option_alternatives(best.hypothesis)
            ]
            others.sort(key=lambda item: item.cost)
            improved = best
            for other in others[:3]:
                whole = self.fitted(other.hypothesis, "middle", fresh=False)
                if whole.cost < improved.cost * 0.95:
                    improved = whole
                    if self.close(whole):
                        break
            if improved is best:
                break
            best = improved
        return self.jumps(best)

    def deepened(self, best: Fitted) -> Fitted:
        """The same with its coefficients free, too, for every count of their uses."""
        names = space.numbers(best.hypothesis)
        if names == space.numbers(best.hypothesis, deep=False) or self.is_hopeless(best):
            return best
        others = [best.hypothesis]
        for name, other in space.option_alternatives(best.hypothesis):
            if type(other.options[name]) is int:
                others.append(other)
        found = [self.fitted(o, "short", fresh=False, iterations=12, deep=True) for o in others]
        found.sort(key=lambda item: item.cost)
        tried = [self.fitted(x.hypothesis, "middle", fresh=False, deep=True) for x in found[:2]]
        return min([best, *tried], key=lambda item: item.cost)

    def is_hopeless(self, fitted: Fitted) -> bool:
        """Whether a fit leaves nearly all of the movement of the middle view."""
        return self.relative(fitted) > HOPELESS

    def close(self, fitted: Fitted) -> bool:
        """Whether nothing is left to gain."""
        return fitted.cost < NEAR and self.explains(fitted).explained

    def jumps(self, fitted: Fitted) -> Fitted:
        """The same, its weights tried one by one where no slope leads on."""
        if fitted.cost < 1.0:
            return fitted
        problem = self.problem(fitted.hypothesis, "middle")
        names = space.numbers(fitted.hypothesis)
        weights = [n for n in names if np.isfinite(fit.limits(n)[1])]
        if not weights or self.recording.steps < 2:
            return fitted
        residual = problem.residual(fitted.hypothesis)
        if np.median(np.abs(residual)) > 0.02 * problem.movement():
            return fitted
        slopes = fit.jacobian(problem, fitted, weights, residual)
        if (slopes != 0).sum() > 0.02 * slopes.size:
            return fitted
        found = fit.scan(problem, fitted, names)
        return fit.fit(problem, found, names)

    def by_equations(self, starts: list[Fitted]) -> Iterator[Fitted]:
        """The first hypothesis that explains all with choices that no library has."""
        most = self.spent + BUDGET
        for _ in range(ROUNDS):
            improved, explained = [], False
            for start in starts:
                if self.spent > most:
                    return
                better = self.better(start)
                if self.close(better):
                    explained = True
                    yield better
                elif better is not start:
                    improved.append(better)
            if explained:
                return
            # The next choice is added to what has gained most.
            starts = sorted(improved, key=lambda item: item.cost)[:2]

    def better(self, best: Fitted) -> Fitted:
        """The best hypothesis one choice or flag away, or the same."""
        others = list(self.neighbours(best.hypothesis))
        # A few steps say already which are worth all of them. Numbers begin anew: a fit of the
        # wrong equation may have led them far away.
        quick = [self.fitted(other, "short", fresh=True, iterations=8) for other in others]
        quick.sort(key=lambda item: item.cost)
        improved = best
        for other in quick[:5]:
            whole = self.fitted(other.hypothesis, "middle", fresh=False, iterations=12)
            if whole.cost < improved.cost * 0.8:
                improved = whole
                if self.close(improved):
                    break
        return improved

    def neighbours(self, hypothesis: Hypothesis) -> Iterator[Hypothesis]:
        """Every hypothesis one choice or flag away."""
        absent = self.problem(hypothesis, "middle").view.absent
        for _, other in space.choice_alternatives(hypothesis, absent):
            yield other
        for _, other in space.option_alternatives(hypothesis):
            yield other

    # -- what an explanation leaves open -------------------------------------------------------

    def finished(self, fitted: Fitted) -> Explanation | None:
        """An explanation with round values, intervals and ties; None where the whole recording
        refutes it."""
        hypothesis = self.simplified(fitted.hypothesis)
        names = space.numbers(hypothesis)
        free = self.recording.rates is None
        search: Search = self
        factor_names: list[str] = []
        if free:
            search, hypothesis = self.with_one_rate(hypothesis)
            free = search.recording.rates is None
            factor_names = [] if free else [fit.RATE]
        hypothesis = search.rounded(hypothesis, names)
        judged = search.explains(Fitted(hypothesis, 0.0), "whole")
        if not judged.explained:
            again = search.fitted(fitted.hypothesis, "middle", fresh=False)
            hypothesis = again.hypothesis
            judged = search.explains(again, "whole")
            if not judged.explained:
                return None
        found = Explanation(
            hypothesis, names, judged, judged.rates, rates_found=self.recording.rates is None
        )
        found.rest = fit.rms(search.problem(hypothesis, "middle").residual(hypothesis))
        if space.is_elementwise(hypothesis):
            found.checked = self.recording.numbers * self.recording.steps
        else:
            found.checked = search.problem(hypothesis, "whole").view.count
        problem = search.problem(hypothesis, "middle")
        allowed = fit.judge(problem, hypothesis).allowed
        start = Fitted(hypothesis, 0.0)
        for name in (*names, *factor_names):
            found.intervals[name] = fit.interval(
                problem, start, name, (*names, *factor_names), allowed
            )
        search.ties(found)
        return found

    def with_one_rate(self, hypothesis: Hypothesis) -> tuple["Search", Hypothesis]:
        """The search with one rate for all updates, where that explains the recording."""
        rates = self.problem(hypothesis, "middle").predict(hypothesis).rates
        middle = float(np.median(rates))
        if middle <= 0.0 or not np.allclose(rates, middle, rtol=0.01):
            return self, hypothesis
        for rate in (*(float(f"{middle:.{digits}g}") for digits in range(1, 8)), middle):
            found = Search(replace(self.recording, rates=np.full(self.recording.steps, rate)))
            fitted = found.fitted(hypothesis, "middle", fresh=False, iterations=6)
            if found.explains(fitted).explained:
                return found, fitted.hypothesis
        return self, hypothesis

    def simplified(self, hypothesis: Hypothesis) -> Hypothesis:
        """With every flag and choice set back to the library's that need not be set."""
        standard = self.resolved(space.base(hypothesis.optimizer, hypothesis.side))
        for name in standard.equations.differences(hypothesis.equations):
            value = standard.equations.value(name)
            hypothesis = self.kept(hypothesis, hypothesis.but(**{name: value}))
        for name, value in standard.options.items():
            if space.is_flag(value) and hypothesis.options[name] != value:
                hypothesis = self.kept(hypothesis, hypothesis.having(name, value))
        return hypothesis

    def kept(self, old: Hypothesis, new: Hypothesis) -> Hypothesis:
        """The new one, fitted, if it explains the middle view; the old one otherwise."""
        found = self.fitted(new, "middle", fresh=False, iterations=6)
        return found.hypothesis if self.explains(found).explained else old

    def rounded(self, hypothesis: Hypothesis, names: list[str]) -> Hypothesis:
        """With every number at a library's default or at few digits, where the data allow it."""
        problem = self.problem(hypothesis, "middle")
        allowed = fit.judge(problem, hypothesis).allowed
        fixed: list[str] = []
        for name in names:
            for value in self.usual(hypothesis, name):
                other = hypothesis.having(name, value)
                rest = [n for n in names if n not in (*fixed, name)]
                if not fit.judge(problem, other, allowed=allowed).explained:
                    other = fit.fit(problem, Fitted(other, 0.0), rest, 5).hypothesis
                if fit.judge(problem, other, allowed=allowed).explained:
                    hypothesis = other
                    fixed.append(name)
                    break
        for name in [n for n in names if n not in fixed]:
            rest = [n for n in names if n not in fixed]
            start = Fitted(hypothesis, 0.0)
            low, high = fit.interval(problem, start, name, rest, allowed)
            for value in fit.round_values(low, high):
                other = hypothesis.having(name, value)
                others = [n for n in rest if n != name]
                if not fit.judge(problem, other, allowed=allowed).explained:
                    other = fit.fit(problem, Fitted(other, 0.0), others, 5).hypothesis
                if fit.judge(problem, other, allowed=allowed).explained:
                    hypothesis = other
                    fixed.append(name)
                    break
        return hypothesis

    def usual(self, hypothesis: Hypothesis, name: str) -> list[float]:
        """The libraries' defaults of a number, its own library's first."""
        found = []
        for side in sorted(space.SIDES, key=lambda side: side != hypothesis.side):
            standard = self.resolved(space.base(hypothesis.optimizer, side))
            try:
                value = standard.value(name)
            except KeyError:
                continue
            if value is not None:
                found.append(float(value))
        return list(dict.fromkeys(found))

    def ties(self, found: Explanation) -> None:
        """Note which other choices, flags and words explain the recording as well."""
        hypothesis = found.hypothesis
        absent = self.problem(hypothesis, "middle").view.absent
        for name, other in space.choice_alternatives(hypothesis, absent):
            if self.as_well(other):
                found.tied.setdefault(name, []).append(other.equations.value(name))
        for name, other in space.option_alternatives(hypothesis):
            if self.as_well(other):
                found.tied_options.setdefault(name, []).append(other.options[name])

    def as_well(self, hypothesis: Hypothesis) -> bool:
        """Whether a hypothesis explains the middle view, as it is or fitted."""
        first = self.explains(Fitted(hypothesis, 0.0))
        if first.explained:
            return True
        if first.score > 1e6 and self.recording.dtype == "float32":
            return False
        again = self.fitted(hypothesis, "middle", fresh=False, iterations=4)
        return self.explains(again).explained
