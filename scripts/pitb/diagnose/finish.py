"""What an explanation leaves open: round values, intervals, and what else explains as much."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose import fit, space
from pitb.diagnose.explanation import Explanation
from pitb.diagnose.fit import Fitted
from pitb.diagnose.space import Hypothesis

if TYPE_CHECKING:
    from pitb.diagnose.search import Search


FAR = 30.0
"""A cost of the short view beyond which a hypothesis is not fitted to more."""


BEYOND = 100.0
"""How many times what rounding may do to one explanation is too much for another, too."""
Array = NDArray[Any]


class Finish:
    """Makes explanations of hypotheses that a search has fitted."""

    def __init__(self, search: "Search") -> None:
        """Of what ``search`` has found."""
        self.search = search
        self.recording = search.recording

    def finished(self, fitted: Fitted) -> Explanation | None:
        """An explanation with round values, intervals and ties; None where the whole recording
        refutes it."""
        hypothesis = self.simplified(fitted.hypothesis)
        names = space.numbers(hypothesis)
        free = self.recording.rates is None
        search = self.search
        finish = self
        factor_names: list[str] = []
        if free:
            search, hypothesis = self.with_one_rate(hypothesis)
            finish = Finish(search)
            free = search.recording.rates is None
            factor_names = [] if free else [fit.RATE]
        hypothesis = finish.rounded(hypothesis, names)
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
        finish.ties(found)
        return found

    def with_one_rate(self, hypothesis: Hypothesis) -> tuple["Search", Hypothesis]:
        """The search with one rate for all updates, where that explains the recording."""
        rates = self.search.problem(hypothesis, "middle").predict(hypothesis).rates
        middle = float(np.median(rates))
        if middle <= 0.0 or not np.allclose(rates, middle, rtol=0.01):
            return self.search, hypothesis
        from pitb.diagnose.search import Search

        for rate in (*(float(f"{middle:.{digits}g}") for digits in range(1, 8)), middle):
            found = Search(replace(self.recording, rates=np.full(self.recording.steps, rate)))
            fitted = found.fitted(hypothesis, "middle", fresh=False, iterations=6)
            if found.explains(fitted).explained:
                return found, fitted.hypothesis
        return self.search, hypothesis

    def simplified(self, hypothesis: Hypothesis) -> Hypothesis:
        """With every flag and choice set back to the library's that need not be set."""
        standard = self.search.resolved(space.base(hypothesis.optimizer, hypothesis.side))
        for name in space.differences(standard.equations, hypothesis.equations):
            value = standard.equations.value(name)
            hypothesis = self.kept(hypothesis, hypothesis.choosing(name, value))
        for name, value in standard.options.items():
            if space.is_flag(value) and hypothesis.options[name] != value:
                hypothesis = self.kept(hypothesis, hypothesis.having(name, value))
        return hypothesis

    def kept(self, old: Hypothesis, new: Hypothesis) -> Hypothesis:
        """The new one, fitted, if it explains the middle view; the old one otherwise."""
        found = self.search.fitted(new, "middle", fresh=False, iterations=6)
        return found.hypothesis if self.search.explains(found).explained else old

    def rounded(self, hypothesis: Hypothesis, names: list[str]) -> Hypothesis:
        """With every number at a library's default or at few digits, where the data allow it."""
        problem = self.search.problem(hypothesis, "middle")
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
            standard = self.search.resolved(space.base(hypothesis.optimizer, side))
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
        problem = self.search.problem(hypothesis, "middle")
        allowed = fit.judge(problem, hypothesis).allowed
        for name, other in space.choice_alternatives(hypothesis, problem.view.absent):
            if self.as_well(other, allowed):
                found.tied.setdefault(name, []).append(other.equations.value(name))
        for name, other in space.option_alternatives(hypothesis):
            if self.as_well(other, allowed):
                found.tied_options.setdefault(name, []).append(other.options[name])

    def as_well(self, hypothesis: Hypothesis, allowed: Array) -> bool:
        """Whether a hypothesis explains the middle view, as it is or fitted; ``allowed`` is what
        rounding may do to one that does."""
        problem = self.search.problem(hypothesis, "middle")
        same = allowed.shape == problem.recorded.shape

        def explains(item: Hypothesis) -> bool:
            # What is far beyond that is not worth finding out what rounding may do to it itself.
            if same and fit.judge(problem, item, allowed=allowed).score > BEYOND:
                return False
            return self.search.explains(Fitted(item, 0.0)).explained

        if explains(hypothesis):
            return True
        quick = self.search.fitted(hypothesis, "short", fresh=False, iterations=3)
        if quick.cost > FAR:
            return False
        again = self.search.fitted(hypothesis, "middle", fresh=False, iterations=4)
        return explains(again.hypothesis)
