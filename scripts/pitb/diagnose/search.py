"""The search for the optimizers that a recording allows.

Every optimizer of the reference is tried as both libraries describe it, then with its flags flipped
one after another, and its numbers fitted. What explains the recording ends that; every other
optimizer is then asked whether it would do the same. Only where nothing explains it are choices of
equation flipped, too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pitb.diagnose import fit, space
from pitb.diagnose.coefficients import Coefficients
from pitb.diagnose.explanation import Explanation
from pitb.diagnose.finish import Finish
from pitb.diagnose.fit import Fitted, Judged, Problem
from pitb.diagnose.recording import Recording
from pitb.diagnose.replay import view
from pitb.diagnose.space import Hypothesis

SHORT_STEPS, SHORT_NUMBERS = 4, 300
STEPS, NUMBERS = 20, 1500
WHOLE = 12_000
"""Most numbers of whole tensors that are searched over, where numbers do not count alone."""
ROUNDS = 3
"""How many flags, or choices of equation, may differ from a library's."""
NEAR = 3.0
"""A cost below which a view may well be explained."""
GAIN = 0.7
"""What another flag must leave, of what was left without it, for still others to be tried."""
BEAM = 5
"""Hypotheses that are followed at a time."""
PROMISING = 8
"""Hypotheses that a few steps explain, and that are held against more of them."""
PART = 50_000
"""Numbers of one step that are held against an explanation at a time."""
LOOSE, SMALLEST = 100.0, 1.0
"""How many times what the tightest explanation leaves, or of a unit, is no explanation as good."""
TOGETHER = 4_000_000
"""Numbers that are replayed at most where all tensors are one vector."""
BUDGET = 45_000
"""Updates replayed after which no further choices of equation are tried."""
HOPELESS = 0.8
"""Share of the movement that is left where an optimizer is no place to begin."""
FARFETCHED = 3
"""How much has to be said of an explanation before stranger ones are tried beside it."""


@dataclass(frozen=True)
class Kind:
    """A hypothesis but for its numbers."""

    optimizer: str
    side: str
    words: tuple[tuple[str, Any], ...]
    equations: Any

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> "Kind":
        """The flags, counts and choices of a hypothesis."""
        words = tuple(
            (name, value)
            for name, value in hypothesis.options.items()
            if isinstance(value, (bool, str, int)) and not space.is_number(value)
        )
        return cls(hypothesis.optimizer, hypothesis.side, words, hypothesis.equations)


class Search:
    """The search over one set of tensors that share their options."""

    def __init__(self, recording: Recording, rounds: int = ROUNDS) -> None:
        """Over all tensors of a recording; ``rounds`` flags may differ from a library's."""
        self.recording = recording
        self.rounds = rounds
        self._problems: dict[tuple[bool, str], Problem] = {}
        self.matrices = all(len(recording.shapes[name]) == 2 for name in recording.names)
        self.best: tuple[Hypothesis, Judged] | None = None
        self.tried: list[Fitted] = []
        """The best of each optimizer and side, fitted to the middle view."""

    # -- views ---------------------------------------------------------------------------------

    def problem(self, hypothesis: Hypothesis, size: str) -> Problem:
        """The short, middle or whole view that suits a hypothesis."""
        if hypothesis.joint:
            return self.joint_problem(size)
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

    def joint_problem(self, size: str) -> Problem:
        """A view of all tensors, and of as many steps as memory allows."""
        steps = SHORT_STEPS if size == "short" else max(2, TOGETHER // self.recording.numbers)
        if (False, f"joint {size}") not in self._problems:
            self._problems[False, f"joint {size}"] = Problem(view(self.recording, False, steps))
        return self._problems[False, f"joint {size}"]

    def free_rates(self) -> "Search":
        """The same with the recorded rates forgotten."""
        return Search(replace(self.recording, rates=None), rounds=1)

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
        found = fit.fit(problem, start, names, iterations)
        return found if size == "short" else fit.snapped(problem, found, names)

    def cost(self, hypothesis: Hypothesis, size: str = "short") -> float:
        """What a hypothesis leaves of a view as it is."""
        return fit.rms(self.problem(hypothesis, size).residual(hypothesis))

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
        explained = self.by_flags()
        if not explained and self.rounds > 1:
            # What leaves most may be Muon whose coefficients are others.
            explained = [*Coefficients(self).explaining(), *self.together()]
        ready = self.finished(explained)
        if ready:
            strange = min(item.complexity[0] for item in ready) >= FARFETCHED
            ready += self.finished(self.others([x.hypothesis for x in ready], strange))
        return ranked(ready)

    def together(self) -> list[Fitted]:
        """L-BFGS of one evaluation in an update, where it explains the recording."""
        found = []
        for start in map(self.resolved, space.joint_bases()):
            fitted = Fitted(start, self.cost(start, "middle"))
            if self.explains(fitted).explained:
                found.append(fitted)
                continue
            if self.share(fitted, "middle") > HOPELESS:
                continue
            for size in range(1, min(self.recording.steps, start.options["history_size"])):
                shorter = start.having("history_size", size)
                if self.explains(Fitted(shorter, 0.0)).explained:
                    found.append(Fitted(shorter, 0.0))
                    break
        return found

    def together_otherwise(self) -> list[Fitted]:
        """The same with one choice of equation that neither library has."""
        found = []
        for start in map(self.resolved, space.joint_bases()):
            for _, other in space.choice_alternatives(start):
                item = Fitted(other, self.cost(other))
                # A few steps refute most of them, in little time.
                if item.cost < NEAR and self.explains(item).explained:
                    found.append(item)
        return found

    def by_flags(self) -> list[Fitted]:
        """What explains the middle view with flags flipped one after another, fewest first."""
        pool = self.pool()
        seen = {Kind.of(item.hypothesis) for item in pool}
        parents = pool
        last = np.inf
        for number in range(self.rounds + 1):
            near = self.promising(parents)
            found = [self.fitted(x.hypothesis, "middle", fresh=False) for x in near]
            if number == 0:
                # A few steps may have led numbers far away.
                bad = [i for i, x in enumerate(found) if not self.close(x)][:BEAM]
                if len(bad) == len(found):
                    for i in bad:
                        again = self.fitted(near[i].hypothesis, "middle", fresh=True)
                        found[i] = min(found[i], again, key=lambda item: item.cost)
            found = [self.jumps(x) for x in found]
            if number == 0 and not any(self.close(x) for x in found):
                rest = [x for x in pool if x not in near and self.by_jumps(x)]
                found += [self.jumps(self.fitted(x.hypothesis, "middle", False)) for x in rest]
            self.note(found)
            explained = [x for x in found if self.explains(x).explained]
            best = min(map(self.relative, found), default=np.inf)
            if explained or number == self.rounds or (number > 1 and best > GAIN * last):
                return explained
            last = best
            if number == 0:
                followed = pool if self.rounds > 1 else self.promising(pool)
            else:
                followed = sorted(found, key=self.relative)[:BEAM]
            flipped = []
            for start in followed:
                usual = start.hypothesis
                if number == 0:  # what is off by default stays as it was found
                    usual = self.with_defaults(usual, off=False)
                for _, other in space.option_alternatives(usual):
                    if Kind.of(other) not in seen:
                        seen.add(Kind.of(other))
                        flipped.append(other)
            parents = self.screened(flipped)
            if not parents:
                return []
        return []

    def screened(self, hypotheses: Iterable[Hypothesis], most: float = np.inf) -> list[Fitted]:
        """Hypotheses fitted to the short view from where they are, the best of them anew."""
        quick = []
        for item in hypotheses:
            if self.spent < most:
                quick.append(self.fitted(item, "short", fresh=False, iterations=5))
        quick.sort(key=lambda item: item.cost)
        # A fit of the wrong equation may have led the numbers away.
        again = [
            self.fitted(self.with_defaults(x.hypothesis, off=False), "short", True, 8)
            for x in quick[: 2 * BEAM]
            if x.cost > NEAR and self.spent < most
        ]
        return [*quick, *again]

    def promising(self, items: Iterable[Fitted]) -> list[Fitted]:
        """Those that come nearest in the short view; all that are as good as explained there, the
        most usual first."""
        ordered = sorted(items, key=lambda item: item.cost)
        good = [item for item in ordered if item.cost < NEAR]
        good.sort(key=lambda item: len(item.hypothesis.options))
        rest = [item for item in ordered if item.cost >= NEAR]
        return [*good[:PROMISING], *rest][: max(BEAM, min(len(good), PROMISING))]

    def note(self, found: Iterable[Fitted]) -> None:
        """Keep the best of each optimizer and side, as a start for what comes later."""
        best = {(x.hypothesis.optimizer, x.hypothesis.side): x for x in self.tried}
        for item in found:
            kind = (item.hypothesis.optimizer, item.hypothesis.side)
            if kind not in best or item.cost < best[kind].cost:
                best[kind] = item
        self.tried = [*best.values()]

    def others(self, known: list[Hypothesis], strange: bool) -> list[Fitted]:
        """Other optimizers, and the other library's, that do the same, from the options that are
        known; one flag away at most, or with ``strange`` a choice of equation."""
        done = {(item.optimizer, item.side) for item in known}
        found = []
        for start in space.bases():
            if (start.optimizer, start.side) in done or not self.suits(start):
                continue
            twins = [item for item in known if item.optimizer == start.optimizer]
            tried = self.likely([shared(item, start) for item in (twins or known)[:2]], strange)
            for item in tried:
                quick = self.fitted(item, "short", fresh=False, iterations=5)
                if quick.cost > NEAR and self.share(quick, "short") > 1e-3:
                    continue
                whole = self.fitted(quick.hypothesis, "middle", fresh=False)
                if not self.explains(whole).explained:
                    # The few steps may have led numbers away that later ones show.
                    whole = self.fitted(item, "middle", fresh=False)
                if self.explains(whole).explained:
                    found.append(whole)
                    break
        return found

    def likely(self, starts: list[Hypothesis], strange: bool) -> list[Hypothesis]:
        """The starts, and of all that is one step away from them what comes nearest unfitted."""
        around = []
        for start in map(self.resolved, starts):
            around += [start, *(other for _, other in space.option_alternatives(start))]
            if strange:
                absent = self.problem(start, "short").view.absent
                around += [other for _, other in space.choice_alternatives(start, absent)]
        costs = [self.cost(item) for item in around]
        order = np.argsort(costs, kind="stable")
        first = [around[i] for i in range(len(around)) if around[i] in starts][:2]
        return [*first, *(around[i] for i in order[:3] if around[i] not in first)]

    def pool(self) -> list[Fitted]:
        """Every optimizer as both libraries have it, fitted to a few steps."""
        found = []
        for hypothesis in space.bases():
            if not self.suits(hypothesis):
                continue
            hypothesis = self.resolved(hypothesis)
            found.append(self.fitted(hypothesis, "short", fresh=True, iterations=8))
        return found

    def finished(self, explained: Iterable[Fitted]) -> list[Explanation]:
        """Finished explanations of one of each optimizer and side."""
        distinct: dict[tuple[str, str], Fitted] = {}
        for item in explained:
            distinct.setdefault((item.hypothesis.optimizer, item.hypothesis.side), item)
        finish = Finish(self)
        return [x for x in map(finish.finished, distinct.values()) if x is not None]

    # -- measures ------------------------------------------------------------------------------

    def share(self, fitted: Fitted, size: str) -> float:
        """What a fit leaves of the movement of a view."""
        problem = self.problem(fitted.hypothesis, size)
        return fitted.cost / max(problem.movement(), 1e-300)

    def relative(self, fitted: Fitted) -> float:
        """The same of the middle view."""
        return self.share(fitted, "middle")

    def is_hopeless(self, fitted: Fitted) -> bool:
        """Whether a fit leaves nearly all of the movement of the middle view."""
        return self.relative(fitted) > HOPELESS

    def close(self, fitted: Fitted) -> bool:
        """Whether nothing is left to gain."""
        return fitted.cost < NEAR and self.explains(fitted).explained

    # -- hypotheses ----------------------------------------------------------------------------

    def with_defaults(self, hypothesis: Hypothesis, off: bool = True) -> Hypothesis:
        """The same flags with a library's default numbers: a fit without the right flag may have
        led the numbers far away. Unless ``off``, what is off by default stays as it was found."""
        standard = self.resolved(space.base(hypothesis.optimizer, hypothesis.side))
        for name in space.numbers(hypothesis):
            if not name.startswith("clip.") and (off or standard.value(name)):
                hypothesis = hypothesis.having(name, standard.value(name))
        return hypothesis

    def suits(self, hypothesis: Hypothesis) -> bool:
        """Whether all tensors have the shape that an optimizer takes."""
        return self.matrices or not hypothesis.entry.matrices_only

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
                moved = self.recording.after[name][0] - self.recording.before[name][0]
                total += float(np.sum(np.sign(moved) * np.sign(self.recording.gradients[name][0])))
        return total > 0

    def jumps(self, fitted: Fitted) -> Fitted:
        """The same, its weights tried one by one where no slope leads on."""
        if fitted.cost < 1.0:
            return fitted
        problem = self.problem(fitted.hypothesis, "middle")
        names = space.numbers(fitted.hypothesis)
        weights = [n for n in names if np.isfinite(fit.limits(n)[1])]
        if not weights or self.recording.steps < 2:
            return fitted
        if not self.by_jumps(fitted, "middle"):
            return fitted
        found = fit.trimmed(problem, fitted, [n for n in names if n not in weights])
        residual = problem.residual(found.hypothesis)
        if np.median(np.abs(residual)) > 0.02 * problem.movement():
            return fitted
        found = fit.scan(problem, found, names)
        return fit.fit(problem, found, names)

    def by_jumps(self, fitted: Fitted, size: str = "short") -> bool:
        """Whether the weights of averages move an update by jumps alone, as those of Lion do."""
        problem = self.problem(fitted.hypothesis, size)
        names = space.numbers(fitted.hypothesis)
        weights = [n for n in names if np.isfinite(fit.limits(n)[1])]
        if not weights:
            return False
        residual = problem.residual(fitted.hypothesis)
        slopes = fit.jacobian(problem, fitted, weights, residual)
        return bool(np.abs(residual).max() > 0 and (slopes != 0).sum() <= 0.02 * slopes.size)

    # -- equations that no library has -----------------------------------------------------------

    def run_equations(self) -> list[Explanation]:
        """What explains it with equations that no library has, near what :meth:`run` has tried."""
        starts: dict[str, Fitted] = {}
        for found in sorted(self.tried, key=self.relative):
            if not self.is_hopeless(found):
                usual = self.with_defaults(found.hypothesis, off=False)
                starts.setdefault(found.hypothesis.optimizer, replace(found, hypothesis=usual))
        for base in map(self.resolved, filter(self.suits, space.bases())):
            if base.optimizer not in starts:
                starts[base.optimizer] = Fitted(base, self.cost(base))
        ready = self.finished([*self.by_equations([*starts.values()]), *self.together_otherwise()])
        if ready:
            ready += self.finished(self.others([x.hypothesis for x in ready], strange=True))
        return ranked(ready)

    def by_equations(self, starts: list[Fitted]) -> list[Fitted]:
        """What explains all with choices that no library has, fewest first."""
        most = self.spent + BUDGET
        seen: set[Kind] = set()
        for _ in range(ROUNDS):
            around = []
            for start in starts:
                for other in self.neighbours(start.hypothesis):
                    if Kind.of(other) not in seen:
                        seen.add(Kind.of(other))
                        around.append(other)
            near = self.promising(self.screened(around, most))
            found = [self.fitted(x.hypothesis, "middle", fresh=False) for x in near]
            explained = [x for x in found if self.explains(x).explained]
            if explained or self.spent >= most:
                return explained
            # The next choice is added to what has gained most.
            starts = sorted(found, key=self.relative)[:2]
        return []

    def neighbours(self, hypothesis: Hypothesis) -> Iterator[Hypothesis]:
        """Every hypothesis one choice or flag away."""
        absent = self.problem(hypothesis, "middle").view.absent
        for _, other in space.choice_alternatives(hypothesis, absent):
            yield other
        for _, other in space.option_alternatives(hypothesis):
            yield other


def shared(known: Hypothesis, other: Hypothesis) -> Hypothesis:
    """An optimizer with the options of another that both have: a list as far as both go."""
    options = dict(other.options)
    for name, value in known.options.items():
        mine = options.get(name)
        if isinstance(value, list) and isinstance(mine, list):
            options[name] = [*value[: len(mine)], *mine[len(value) :]]
        elif name in options and not isinstance(value, list) and not isinstance(mine, list):
            options[name] = value
    if known.clip is not None:
        other = other.but(clip_denominator=known.equations.clip_denominator)
    return replace(other, options=options, clip=known.clip)


def ranked(ready: list[Explanation]) -> list[Explanation]:
    """Explanations, the simplest first."""
    tightest = min((item.rest for item in ready), default=0.0)

    def rank(item: Explanation) -> tuple[int, int, float]:
        # What bfloat16 would hide is no reason to believe in bfloat16.
        loose = item.rest > LOOSE * max(tightest, SMALLEST)
        said, options, score = item.complexity
        return said + 5 * loose, options, score

    return sorted(ready, key=rank)
