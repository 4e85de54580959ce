"""From two sources to an explanation of what differs, and of what each difference costs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.breadth.cases import NEEDS_LOSS
from pitb.errors import PitbError
from pitb.explain import game, sampled
from pitb.explain.configurations import STEPS, Configuration
from pitb.explain.divergence import Divergence, divergence
from pitb.explain.factorial import Factorial, factorial, tensors
from pitb.explain.factorial import rounding_floor as factorial_floor
from pitb.explain.items import EQUATION, LOOP, VALUE, Item, Layout, lay_out
from pitb.explain.recorded import Recorded, known_problem, recorded, start_of
from pitb.explain.sources import VERSION, Source
from pitb.problems import Problem, added, names, problem
from pitb.reference.training import train
from pitb.registry import plain
from pitb.trace import Trace

Array = NDArray[np.float64]
Note = tuple[str, dict[str, str]]
SHARED = ("problem", "steps", "dtype")
"""What one side may leave to the other, and the command line may set for both."""
TOLERANCE = 1e-6
"""The pages' tolerance, which the picture shows."""
STRONG = 0.1
"""By which part of the total the effects alone may miss it before they are said to interact."""


@dataclass(frozen=True)
class Explanation:
    """What differs, what it costs, where it begins, and whether the traces agree."""

    a: Configuration
    b: Configuration
    problem: str
    layout: Layout
    factorial: Factorial
    divergence: Divergence
    recorded: Recorded | None
    """None where not both sides have a trace of these very runs."""
    replayed: str
    """Whose recorded gradients every run was given; empty where the problem was trained."""
    notes: tuple[Note, ...]
    """What was not done, and why: the name of a sentence and its values."""
    tensors: tuple[list[str], Array]
    """Of the recorded traces, or else of the reference's: names, and the largest differences of
    shape (tensors, steps)."""
    tolerance: float = TOLERANCE

    @property
    def differs(self) -> bool:
        """Whether a value differs, an equation that can be seen to, or the runs themselves."""
        values = any(item.kind != EQUATION for item in self.layout.items)
        untried = any(item.kind == LOOP for item in self.layout.untried)
        seen = bool((self.factorial.total > self.factorial.floor).any())
        alone = any(self.detectable(effect.broken).any() for effect in self.factorial.effects)
        return values or untried or seen or alone or self.divergence.first is not None

    def detectable(self, values: Array) -> NDArray[np.bool_]:
        """Which of some effects, by reported step and measure, are above the floor."""
        return np.asarray(np.abs(values) > self.factorial.floor)


def explain(
    source_a: Source,
    source_b: Source,
    overrides: dict[str, Any] | None = None,
    permutations: int = game.PERMUTATIONS,
    seed: int = 0,
    at: Sequence[int] = (),
    tolerance: float = TOLERANCE,
) -> Explanation:
    """Explain what tells B from A.

    Args:
        source_a: What things are aligned to.
        source_b: What is aligned.
        overrides: ``problem``, ``steps`` and ``dtype`` for both, where they are set.
        permutations: How many orders are drawn, where more than 8 items differ.
        seed: Of the draws.
        at: The steps that are reported; 1, 10 and the last where none is given.
        tolerance: What the picture shows beside the floor.

    Raises:
        PitbError: They train different problems, or the reference cannot train them.
    """
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    notes: list[Note] = []
    with _laid_out(source_a, source_b, given, notes) as laid:
        (a, b), layout = laid.sides, laid.layout
        rest = _rest(source_a, source_b) if all(laid.traces) else ()
        layout = replace(layout, untried=(*layout.untried, *rest))
        for step in at:
            if not 1 <= step <= layout.steps:
                raise PitbError(f"step {step} is not one of 1 to {layout.steps}")
        outcome = factorial(layout, permutations, seed, at)
        found: Recorded | None = None
        pair = (outcome.a, outcome.b)
        if laid.traces[0] is not None and laid.traces[1] is not None:
            assert laid.trained[0] is not None
            assert laid.trained[1] is not None
            real = (laid.trained[0], laid.trained[1])
            floor = outcome.floor_every_step
            found = recorded(layout, real, pair, outcome.steps, floor, laid.chosen)
            pair = (laid.traces[0], laid.traces[1])
        first, then = (_until(trace, layout.steps) for trace in pair)
        return Explanation(
            a=a,
            b=b,
            problem=a.problem,
            layout=layout,
            factorial=outcome,
            divergence=divergence(first, then, laid.chosen if found is None else None),
            recorded=found,
            replayed=laid.replayed,
            notes=tuple(notes),
            tensors=tensors(*pair, layout.steps),
            tolerance=tolerance,
        )


def rounding_floor(source_a: Source, source_b: Source) -> Array:
    """What roundings alone can do to two runs, as `explain` has it, and nothing else of it.

    Returns:
        By update from 0 and by measure, shape (steps + 1, 3): the parameters' largest absolute and
        relative difference, and that of the loss.

    Raises:
        PitbError: They train different problems, or the reference cannot train them.
    """
    with _laid_out(source_a, source_b, {}, []) as laid:
        layout = laid.layout
        everyone = frozenset(range(len(layout.items)))
        pair = [train(layout.run(broken)) for broken in (frozenset[int](), everyone)]
        return factorial_floor(layout, pair)[0]


@contextmanager
def _laid_out(
    source_a: Source, source_b: Source, given: dict[str, Any], notes: list[Note]
) -> Iterator["_Laid"]:
    """Both sides, the traces that can be used, whose gradients are replayed, and what differs.

    What the traces start from is a problem of its own while this is entered.
    """
    sides = [_configured(mine, other, given) for mine, other in _both(source_a, source_b)]
    a, b = sides
    if a.problem != b.problem:
        raise PitbError(
            f"{a.label} trains {a.problem!r} and {b.label} {b.problem!r}; --problem gives both one"
        )
    traces = [
        _usable(source, side, given, notes)
        for source, side in zip((source_a, source_b), sides, strict=True)
    ]
    part = sampled.sample(traces) if known_problem(a.problem) is None else None
    for way in _ways(sides, traces, part):
        start = way.start
        trained = sides
        if start.replayed:  # what is recorded is added up already
            trained = [replace(side, accumulate=1) for side in sides]
        with added(*start.problems):
            _check(trained, start.names)
            layout = lay_out(trained[0], trained[1], start.names, given.get("steps"))
            if way.name == sampled.PART:
                assert part is not None
                if not sampled.stands_for_all(layout, part.shapes):
                    continue
            chosen = None
            if way.name != sampled.WHOLE:
                assert part is not None
                chosen = part.indices
                notes.append((way.name, {"count": f"{part.chosen:,}", "of": f"{part.of:,}"}))
            yield _Laid(trained, traces, way.compared, start.replayed, layout, chosen)
            return


@dataclass(frozen=True)
class _Way:
    """How traces can be trained again."""

    name: str
    start: "_Start"
    compared: list[Trace | None]
    """What the reference's runs are held against: the traces, or a part of them."""


def _ways(
    sides: list[Configuration], traces: list[Trace | None], part: sampled.Sampled | None
) -> Iterator[_Way]:
    """The cheapest first, which may not do."""
    if part is not None:
        start = _start(sides, part.traces)
        known = tuple(sampled.with_norms(item, traces) for item in start.problems)
        yield _Way(sampled.PART, replace(start, problems=known), part.traces)
    start = _start(sides, traces)
    if part is None or sampled.fit(traces):
        yield _Way(sampled.WHOLE, start, traces)
        return
    sampled.check_size(part)
    seen = tuple(replace(item, chosen=part.indices) for item in start.problems)
    yield _Way(sampled.SEEN, replace(start, problems=seen), part.traces)


@dataclass(frozen=True)
class _Laid:
    """Both sides laid out."""

    sides: list[Configuration]
    traces: list[Trace | None]
    """Those that can be used."""
    trained: list[Trace | None]
    """The same, or the part of them that the reference trains."""
    replayed: str
    layout: Layout
    chosen: sampled.Chosen | None
    """Which elements of each tensor are trained or recorded; None for all."""


def _both(a: Source, b: Source) -> tuple[tuple[Source, Source], tuple[Source, Source]]:
    return (a, b), (b, a)


def _rest(a: Source, b: Source) -> tuple[Item, ...]:
    """What else the traces say differently: no description says what it does, so it is not tried.

    What one library alone speaks of is no difference between two, and neither are versions.
    """
    if a.spec["side"] == b.spec["side"]:
        names = a.rest.keys() | b.rest.keys()
    else:
        names = {name for name in a.rest.keys() & b.rest.keys() if not name.startswith(VERSION)}
    return tuple(
        Item(
            name, VALUE, a.rest.get(name), b.rest.get(name), (), "no description says what it does"
        )
        for name in sorted(names)
        if a.rest.get(name) != b.rest.get(name)
    )


def _configured(mine: Source, other: Source, given: dict[str, Any]) -> Configuration:
    """A side's configuration; what it leaves open is as the other side has it."""
    standard = {"steps": STEPS}
    filled = {
        key: given.get(key, mine.spec.get(key, other.spec.get(key, standard.get(key))))
        for key in SHARED
    }
    spec = {key: value for key, value in filled.items() if value is not None}
    rates = mine.spec.get("rates")
    if rates and len(rates) < spec["steps"]:
        reason = f"a schedule of {len(rates)} rates does not reach {spec['steps']} steps"
        raise PitbError(f"{mine.where}: {reason}")
    return mine.configured(spec)


def _usable(
    source: Source, side: Configuration, given: dict[str, Any], notes: list[Note]
) -> Trace | None:
    """The source's trace, where the command line asks for nothing else than what it is of."""
    found = source.trace
    if found is None:
        return None
    for key, value in given.items():
        recorded_value = plain(source.spec.get(key))
        enough = key == "steps" and recorded_value is not None and value <= recorded_value
        if recorded_value != value and not enough:
            notes.append(("override", {"key": key, "run": side.label}))
            return None
    return found


@dataclass(frozen=True)
class _Start:
    """What both sides start from."""

    names: tuple[str, str]
    problems: tuple[Problem, ...] = ()
    replayed: str = ""


def _start(sides: list[Configuration], traces: list[Trace | None]) -> _Start:
    """The problems that A and B start from: the named one, or as the traces record it."""
    name = sides[0].problem
    like = known_problem(name)
    if like is None and not any(trace is not None for trace in traces):
        problem(name)  # which says what is nearest
    found: list[Problem | None] = [None, None]
    for index, trace in enumerate(traces):
        if trace is not None:
            run = f"{sides[index].label} ({'AB'[index]})"
            found[index] = start_of(trace, f"{name}, as {run} records it", like)
    for side, trace in zip(sides, traces, strict=True):
        if side.initial_state == "float32" and trace is None:
            raise PitbError(
                f"{side.label}: only burn computes an initial state in float32; give the trace of "
                "the run instead"
            )
    own = [item is not None and _is_own(item, like) for item in found]
    if not any(own):
        if found[0] is not None and found[1] is not None and _alike(found[0], found[1]):
            found[1] = found[0]
        names_ = [item.name if item is not None else name for item in found]
        unique = {item.name: item for item in found if item is not None}
        return _Start((names_[0], names_[1]), tuple(unique.values()))
    # Someone's own model: all runs get the gradients of one trace.
    source = 0 if own[0] else 1
    giver, other = found[source], found[1 - source]
    trace = traces[source]
    assert giver is not None
    assert trace is not None
    if not own[1 - source] and traces[1 - source] is not None:
        raise PitbError(f"{sides[0].label} and {sides[1].label} are not of the same model")
    if other is None or _same_values(giver.parameters, other.parameters):
        return _Start((giver.name, giver.name), (giver,), trace.run)
    fits = {key: value.shape for key, value in giver.parameters.items()}
    theirs = {key: value.shape for key, value in other.parameters.items()}
    if fits != theirs:
        lone = sorted(fits.items() ^ theirs.items())[0][0]
        raise PitbError(
            f"{sides[0].label} and {sides[1].label} do not have the same parameters: {lone}"
        )
    moved = replace(other, gradients=giver.gradients)
    names_ = [giver.name, moved.name] if source == 0 else [moved.name, giver.name]
    return _Start((names_[0], names_[1]), (giver, moved), trace.run)


def _is_own(item: Problem, like: Problem | None) -> bool:
    """Whether a problem replays a trace, and is not the named one with other initial values."""
    return item.model == "prescribed" and (like is None or item.gradients is not like.gradients)


def _alike(a: Problem, b: Problem) -> bool:
    return _same_values(a.parameters, b.parameters) and _same_values(a.inputs, b.inputs)


def _same_values(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)


def _check(sides: Sequence[Configuration], problems: Sequence[str]) -> None:
    """Refuse what the reference cannot train.

    Raises:
        PitbError: Says what and why.
    """
    for side, name in zip(sides, problems, strict=True):
        found = problem(name)
        optimizers = {side.member.entry.pytorch, *(g.entry.pytorch for g in side.groups)}
        if found.model == "prescribed" and optimizers & set(NEEDS_LOSS):
            shown = name if name in names() else found.about
            raise PitbError(
                f"{side.label}: {', '.join(sorted(optimizers & set(NEEDS_LOSS)))} evaluates the "
                f"loss again within an update, which {shown} cannot do"
            )
        rows = len(found.inputs["y"]) if "y" in found.inputs else 1
        if rows % side.accumulate:
            raise PitbError(
                f"{side.label}: accumulate is {side.accumulate}, which does not divide the "
                f"{rows} rows of {found.name}"
            )


def _until(found: Trace, steps: int) -> Trace:
    """A trace without what comes after update ``steps`` and the loss that it leaves."""
    kept = [
        entry
        for entry in found.entries
        if entry.step <= steps or (entry.step == steps + 1 and entry.quantity == "loss")
    ]
    return Trace(kept, found.values, found.metadata, found.path)
