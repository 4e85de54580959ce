"""The search for Muon's coefficients, which are not fitted with the other numbers.

Freed too early they imitate anything, and bfloat16 leaves no slope to follow.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pitb.diagnose import fit, polynomial, round_numbers, space
from pitb.diagnose.fit import Fitted
from pitb.diagnose.space import Hypothesis

if TYPE_CHECKING:
    from pitb.diagnose.search import Search

MOST = 10
"""Starts that are held against the middle view."""
FITTED = 5
"""Starts that are fitted."""


class Coefficients:
    """The search for what explains a recording with other coefficients."""

    def __init__(self, search: "Search") -> None:
        """From what ``search`` has tried so far."""
        self.search = search

    def explaining(self) -> list[Fitted]:
        """The first that explains the middle view. The other library's is not tried, then: it is
        asked later whether it would do the same."""
        for start in self.bases():
            found = self.deepened(start)
            if self.search.explains(found).explained:
                return [found]
        return []

    def bases(self) -> list[Fitted]:
        """The best of each library's optimizers whose coefficients are not fitted at first."""
        best = {(x.hypothesis.optimizer, x.hypothesis.side): x for x in self.search.tried}
        found = []
        for base in space.bases():
            if self.search.suits(base) and space.numbers(base) != space.numbers(base, deep=False):
                known = best.get((base.optimizer, base.side))
                starts = [self.search.resolved(base)]
                if known is not None:  # its flags, and numbers from which to begin anew
                    starts.append(self.search.with_defaults(known.hypothesis))
                for start in {repr(item): item for item in starts}.values():
                    found.append(Fitted(start, self.search.cost(start, "middle")))
        return found

    def deepened(self, best: Fitted) -> Fitted:
        """The same with its coefficients free, too, and any count of their uses."""
        names = space.numbers(best.hypothesis)
        if names == space.numbers(best.hypothesis, deep=False):
            return best
        problem = self.search.problem(best.hypothesis, "middle")
        found = self.as_it_is(round_numbers.usual(best.hypothesis))
        if found is not None:
            return found
        starts = sorted(
            [best.hypothesis, *polynomial.starts(problem.view, best.hypothesis)],
            key=self.search.cost,
        )
        rough = polynomial.rounded(starts[0], 2)
        found = self.as_it_is([*starts[:MOST], *round_numbers.usual(rough)])
        if found is not None:
            return found
        tried = [best]
        for start in starts[:FITTED]:
            for deep in (False, True):
                tried.append(self.search.fitted(start, "middle", fresh=False, deep=deep))
                if self.search.explains(tried[-1]).explained:
                    return tried[-1]
        return min(tried, key=lambda item: item.cost)

    def as_it_is(self, hypotheses: Iterable[Hypothesis]) -> Fitted | None:
        """Of hypotheses what explains the middle view unfitted, or with no more than its decay
        fitted: before a fit follows what bfloat16 has left."""
        for start in sorted(hypotheses, key=self.search.cost)[:MOST]:
            decays = [name for name in space.numbers(start, deep=False) if "decay" in name]
            problem = self.search.problem(start, "middle")
            for item in (start, fit.fit(problem, Fitted(start, 0.0), decays).hypothesis):
                for rounded in (item, polynomial.rounded(item, 3)):
                    if self.search.explains(Fitted(rounded, 0.0)).explained:
                        return Fitted(rounded, self.search.cost(rounded, "middle"))
        return None
