"""The diagnosis of a recording: of all its tensors together, or of groups of them.

What is supposed comes in this order, and ends where all is explained: a library's equations;
tensors with options of their own; equations that no library has; other rates than those recorded;
clipping that the trace does not show; gradients that stand transposed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pitb.diagnose import clips, fit, space
from pitb.diagnose.clips import Clip
from pitb.diagnose.explanation import Explanation
from pitb.diagnose.fit import Fitted, Judged, Problem
from pitb.diagnose.reading import Mapping
from pitb.diagnose.recording import Recording, load
from pitb.diagnose.replay import view
from pitb.diagnose.search import FARFETCHED, Search, ranked
from pitb.diagnose.space import Hypothesis, is_elementwise

Say = Callable[[str], None]
SUPPOSED = 30
"""Clips that are fitted, of all that are supposed."""


@dataclass
class Group:
    """Tensors that are explained together."""

    tensors: list[str]
    explanations: list[Explanation]
    """Ranked, the simplest first."""


@dataclass
class Diagnosis:
    """What was found of one trace."""

    recording: Recording
    groups: list[Group] = field(default_factory=list)
    clip: Clip | None = None
    """The clip that the trace shows, where it shows one."""
    closest: tuple[Hypothesis, Judged] | None = None
    """What comes closest to the tensors that nothing explains."""
    unexplained: list[str] = field(default_factory=list)
    transposed: list[str] = field(default_factory=list)
    """Matrices whose gradients had to be transposed."""

    @property
    def explained(self) -> bool:
        """Whether every tensor is."""
        return bool(self.groups) and not self.unexplained

    @property
    def best(self) -> Explanation:
        """The simplest explanation of the first group."""
        return self.groups[0].explanations[0]


def diagnose_file(
    path: Path, maps: list[Mapping] | None = None, whole: bool = False, say: Say | None = None
) -> Diagnosis:
    """Diagnose a trace.

    Raises:
        PitbError: It is no trace, or lacks what is needed; says what to record.
    """
    return diagnose(load(path, maps or [], whole), say)


def diagnose(recording: Recording, say: Say | None = None) -> Diagnosis:
    """Diagnose a recording; ``say`` hears what is tried next."""
    return _Diagnosing(recording, say or (lambda text: None)).run()


def _bites(item: Explanation) -> bool:
    """Whether the limit of a supposed clip cannot be anything above."""
    ends = [high for name, (_, high) in item.intervals.items() if name.startswith("clip.")]
    return all(np.isfinite(high) for high in ends)


class _Diagnosing:
    def __init__(self, recording: Recording, say: Say) -> None:
        self.recording, self.say = recording, say
        self._alone: dict[str, list[Explanation]] = {}
        self.result = Diagnosis(recording, clip=clips.recorded(recording))

    def run(self) -> Diagnosis:
        recording, result = self.recording, self.result
        search = Search(recording)
        self.say(f"{recording.path}: trying the optimizers of both libraries")
        found = search.run()
        if found and found[0].complexity[0] <= FARFETCHED:
            return self.whole(found)
        if not found and recording.evaluated_often:
            return self.nothing(search)
        several = len(recording.names) > 1
        if not found and several and self.differs_by_tensor():
            self.say("one tensor alone is explained; trying groups of them")
            if self.apart():
                return result
        if recording.clipped is None:
            self.say("trying clipping that is not recorded")
            found = ranked([*found, *self.clipped(search)])
            if found and found[0].complexity[0] <= FARFETCHED:
                return self.whole(found)
        self.say("trying equations that no library has")
        found = ranked([*found, *search.run_equations()])
        if found:
            return self.whole(found)
        if recording.rates is not None:
            self.say("trying other rates than those recorded")
            found = search.free_rates().run()
            if found:
                return self.whole(found)
        if several:
            self.say("trying each tensor at a rate of its own")
            if self.apart():
                return result
        if self.turned():
            return result
        return self.nothing(search)

    def nothing(self, search: Search) -> Diagnosis:
        """What is left where nothing explains all."""
        self.result.groups, self.result.unexplained = [], list(self.recording.names)
        self.result.closest = search.best
        return self.result

    def largest(self, names: list[str]) -> str:
        """The tensor that says most."""
        return max(names, key=lambda name: self.recording.before[name].shape[1])

    def differs_by_tensor(self) -> bool:
        """Whether the largest tensor alone is explained, so that others must differ from it."""
        alone = self.alone(self.largest(self.recording.names))
        return bool(alone) and alone[0].complexity[0] <= FARFETCHED

    def alone(self, name: str) -> list[Explanation]:
        """What explains one tensor."""
        if name not in self._alone:
            self._alone[name] = Search(self.recording.only([name]), rounds=1).run()
        return self._alone[name]

    def whole(self, found: list[Explanation]) -> Diagnosis:
        self.result.groups = [Group(list(self.recording.names), found)]
        self.result.unexplained = []
        return self.result

    def apart(self) -> bool:
        """Whether the tensors are explained in groups with options, or rates, of their own."""
        rest = list(self.recording.names)
        groups: list[Group] = []
        while rest:
            group = self.next_group(rest)
            if group is None:
                return False
            groups.append(group)
            rest = [name for name in rest if name not in group.tensors]
        self.result.groups = groups
        return True

    def next_group(self, rest: list[str]) -> Group | None:
        """The tensors that the largest one's best explanation explains, and what else does."""
        first = self.largest(rest)
        alone = self.recording.only([first])
        found = self.alone(first)
        if alone.rates is not None and (not found or found[0].complexity[0] >= FARFETCHED):
            # Other tensors may have a rate of their own, of which the trace does not speak.
            found = [*found, *Search(alone).free_rates().run()]
            found.sort(key=lambda item: item.complexity[0] + (FARFETCHED - 1) * item.rates_found)
        best: list[str] = []
        chosen = None
        for item in found:
            members = [name for name in rest if name == first or self.shared(item, name)]
            if len(members) > len(best):
                best, chosen = members, item
        if chosen is None:
            return None
        together = self.recording.only(best)
        if chosen.rates_found:
            together = replace(together, rates=None)
        joined = Search(together).run()
        return Group(best, joined) if joined else None

    def shared(self, item: Explanation, name: str) -> bool:
        """Whether an explanation of one tensor is one of another."""
        other = self.recording.only([name])
        if item.hypothesis.entry.matrices_only and len(other.shapes[name]) != 2:
            return False
        if item.rates_found:
            other = replace(other, rates=item.rates)
        flat = is_elementwise(item.hypothesis)
        problem = Problem(view(other, flat, min(len(item.rates), other.steps), 2000))
        return fit.judge(problem, item.hypothesis).explained

    def clipped(self, search: Search) -> list[Explanation]:
        """Explanations with a clip that the trace does not show."""
        tried: list[Fitted] = []
        starts = [found.hypothesis for found in search.tried]
        usual = [search.resolved(base) for base in space.bases() if search.suits(base)]
        for start in (*starts, *usual):
            for hypothesis in clips.supposed(self.recording, start):
                problem = search.problem(hypothesis, "short")
                tried.append(Fitted(hypothesis, fit.rms(problem.residual(hypothesis))))
        tried.sort(key=lambda item: item.cost)
        counts: dict[tuple[str, str], int] = {}
        refined: list[Fitted] = []
        for item in tried:
            kind = (item.hypothesis.optimizer, item.hypothesis.side)
            counts[kind] = counts.get(kind, 0) + 1
            if counts[kind] <= 4 and len(refined) < SUPPOSED:
                refined.append(search.fitted(item.hypothesis, "short", False, iterations=8))
        explained = []
        best_of: dict[tuple[str, str, str], Fitted] = {}
        for item in sorted(refined, key=lambda item: item.cost):
            found_in = item.hypothesis
            scope = (found_in.clip or {})["scope"]
            best_of.setdefault((found_in.optimizer, found_in.side, scope), item)
        for item in [*best_of.values()][: SUPPOSED // 3]:
            for hypothesis in clips.denominators(item.hypothesis):
                best = search.fitted(hypothesis, "middle", fresh=False)
                if search.explains(best).explained:
                    explained.append(best)
        ready = [item for item in search.finished(explained) if _bites(item)]
        if ready:
            ready += search.finished(search.others([x.hypothesis for x in ready], strange=False))
        return ranked(ready)

    def turned(self) -> bool:
        """Whether gradients of square matrices stand transposed."""
        recording = self.recording
        square = [
            name
            for name in recording.names
            if len(recording.shapes[name]) == 2 and len(set(recording.shapes[name])) == 1
        ]
        square = [
            name
            for name in square
            if not np.array_equal(
                recording.gradients[name], recording.transposed(name).gradients[name]
            )
        ]
        turned = []
        for name in square:
            alone = recording.only([name])
            if self.alone(name):
                continue
            if Search(alone.transposed(name), rounds=1).run():
                turned.append(name)
        if not turned:
            return False
        other = recording
        for name in turned:
            other = other.transposed(name)
        found = Search(other).run()
        if found:
            self.whole(found)
            self.result.transposed = turned
        return bool(found)
