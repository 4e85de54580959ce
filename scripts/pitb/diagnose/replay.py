"""One update after another, each from the recorded parameters, by the reference's own functions.

What an optimizer keeps is built up from the recorded gradients; the parameters that an update
starts from are the recorded ones, so that an error of one update is not carried into the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose.recording import Recording
from pitb.diagnose.space import OWN_LIMIT, SNAPSHOT, Hypothesis
from pitb.problems import is_linear
from pitb.reference import clipping, lbfgs
from pitb.reference.optimizers import GROUP_STEP, Scalars

Array = NDArray[Any]
ROUNDINGS = 8
"""How many roundings of a step's own size are allowed, in units of the dtype's epsilon."""


@dataclass
class Lane:
    """Numbers that are updated together: a tensor, or a sample of several.

    ``p``, ``after`` and ``g`` are float64 of shape (steps, *shape): the parameters before and after
    each update, and the gradients. ``weight``, of that shape, is what a difference is measured by.
    """

    names: tuple[str, ...]
    owner: NDArray[np.int64]
    """The tensor of each number, as an index of ``names``, flat."""
    index: NDArray[np.int64]
    """The position of each number in its tensor, flat."""
    p: Array
    after: Array
    g: Array
    present: NDArray[np.bool_]
    weight: Array
    transposed: bool = False
    starts: dict[int, dict[str, Any]] = field(default_factory=dict)
    """The recorded states that a stretch of updates begins with, by the index of its first."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one step."""
        return tuple(self.g.shape[1:])


@dataclass
class View:
    """A part of a recording that is replayed."""

    recording: Recording
    lanes: list[Lane]
    steps: int
    flat: bool
    rates: NDArray[np.float64] | None
    """The rate of each update; None where it is to be found."""
    norms: dict[float, NDArray[np.float64]] = field(default_factory=dict)

    @cached_property
    def precision(self) -> str:
        """What is computed in: float64, or the trace's own where squares leave its range."""
        if self.dtype == "float64":
            return "float64"
        limits = np.finfo(self.dtype)
        for lane in self.lanes:
            sizes = np.abs(lane.g[lane.g != 0.0])
            sizes = sizes[np.isfinite(sizes)]
            if sizes.size and (sizes.max() ** 2 > limits.max or sizes.min() ** 2 < limits.tiny):
                usual = float(np.median(sizes)) ** 2
                if not limits.tiny < usual < limits.max:
                    return self.dtype
        return "float64"

    @property
    def dtype(self) -> str:
        """The trace's."""
        return self.recording.dtype

    @property
    def updates(self) -> NDArray[np.int64]:
        """The number of each update."""
        return self.recording.updates[: self.steps]

    @property
    def absent(self) -> bool:
        """Whether a tensor has no gradient at some step."""
        return any(not lane.present.all() for lane in self.lanes)

    @property
    def count(self) -> int:
        """Numbers that are predicted."""
        return sum(lane.g.size for lane in self.lanes)

    def joined(self, each: Sequence[Array]) -> Array:
        """Arrays of the lanes as one, of shape (steps, numbers)."""
        return np.concatenate([x.reshape(self.steps, -1) for x in each], axis=1)

    def norms_of(self, p: float) -> NDArray[np.float64]:
        """The p-norm of each whole tensor's gradient, of shape (steps, tensors); 0 where it has
        none."""
        if p not in self.norms:
            gradients = self.recording.gradients
            self.norms[p] = np.array(
                [
                    [clipping.norm([g[k].astype(np.float64)], p) for g in gradients.values()]
                    for k in range(self.steps)
                ]
            )
        return self.norms[p]

    def with_rates(self, rates: NDArray[np.float64] | None) -> "View":
        """The same with other rates."""
        return replace(self, rates=rates)


def view(
    recording: Recording,
    flat: bool,
    steps: int | None = None,
    most: int | None = None,
    part: tuple[int, int] = (0, 1),
) -> View:
    """A view of a recording.

    Args:
        recording: What is replayed.
        flat: Whether every number counts for itself, so that tensors are sampled and joined.
        steps: How many updates; all unless given.
        most: About how many numbers; of whole tensors the smallest ones are taken.
        part: Which of how many parts of the numbers, where these count for themselves.
    """
    steps = recording.steps if steps is None else min(steps, recording.steps)
    names = recording.names
    groups: list[list[str]] = []
    if flat:
        patterns: dict[bytes, list[str]] = {}
        for name in names:
            counts = [_counters(item.get(name, {})) for item in recording.starts.values()]
            key = recording.present[name][:steps].tobytes() + repr(counts).encode()
            patterns.setdefault(key, []).append(name)
        groups = [*patterns.values()]
    else:
        names = _small(recording, names, most)
        groups = [[name] for name in names]
    share = None if most is None or not flat else max(8, most // len(names))
    lanes = [_lane(recording, group, flat, steps, share, part) for group in groups]
    rates = None if recording.rates is None else recording.rates[:steps]
    return View(recording, lanes, steps, flat, rates)


def _small(recording: Recording, names: list[str], most: int | None) -> list[str]:
    if most is None:
        return names
    sizes = {name: int(np.prod(recording.shapes[name])) for name in names}
    # What fits first; then matrices, of which an optimizer that works on tensors shows the most.
    order = sorted(names, key=lambda n: (sizes[n] > most, len(recording.shapes[n]) < 2, sizes[n]))
    kept: list[str] = []
    total = 0
    for name in order:
        if kept and total + sizes[name] > most:
            continue
        kept.append(name)
        total += sizes[name]
    return [name for name in names if name in kept]


def _lane(
    recording: Recording,
    names: list[str],
    flat: bool,
    steps: int,
    share: int | None,
    part: tuple[int, int],
) -> Lane:
    chosen = []
    for name in names:
        size = recording.gradients[name].shape[1]
        count = size if share is None else min(size, share)
        # Spread by the golden ratio, which falls into step with no layout.
        spread = np.unique((np.arange(count) * 0.6180339887498949 % 1.0 * size).astype(np.int64))
        chosen.append(np.arange(part[0], size, part[1]) if count == size else spread)

    def taken(arrays: dict[str, Array]) -> Array:
        each = [arrays[n][:steps, c] for n, c in zip(names, chosen, strict=True)]
        return np.concatenate(each, axis=1).astype(np.float64)

    gradients = recording.gradients if recording.clipped is None else recording.clipped
    p, after, g = taken(recording.before), taken(recording.after), taken(gradients)
    if not flat:
        shape = recording.shapes[names[0]]
        p, after, g = (x.reshape(-1, *shape) for x in (p, after, g))
    starts = {
        i: _started(recording, item, names, chosen, flat)
        for i, item in recording.starts.items()
        if i < steps
    }
    owner = np.repeat(np.arange(len(names)), [len(c) for c in chosen])
    lane = Lane(
        tuple(names),
        owner,
        np.concatenate(chosen),
        p,
        after,
        g,
        recording.present[names[0]][:steps],
        np.zeros(0),
        is_linear(names[0]),
        starts,
    )
    moved = 4 * float(np.finfo(recording.dtype).eps) * np.abs(after - p)
    lane.weight = spacing(lane, recording.dtype) + moved
    return lane


def _counters(states: dict[str, Array]) -> list[tuple[str, float]]:
    """The states of a tensor that are one number."""
    return [(name, float(x.reshape(-1)[0])) for name, x in states.items() if x.size == 1]


def _started(
    recording: Recording,
    states: dict[str, dict[str, Array]],
    names: list[str],
    chosen: list[NDArray[np.int64]],
    flat: bool,
) -> dict[str, Any]:
    """Recorded states as the reference keeps them, of tensors that are joined where ``flat``."""
    found: dict[str, Any] = {}
    first = states.get(names[0], {})
    for state, value in first.items():
        if value.size == 1 and recording.before[names[0]].shape[1] > 1:
            found[state] = int(value.reshape(-1)[0])
        elif not flat:
            found[state] = value
        elif all(
            states.get(n, {}).get(state, np.zeros(0)).size == recording.before[n].shape[1]
            for n in names
        ):
            each = [states[n][state].reshape(-1)[c] for n, c in zip(names, chosen, strict=True)]
            found[state] = np.concatenate(each)
    return {name: x if isinstance(x, int) else x.astype(np.float64) for name, x in found.items()}


def spacing(lane: Lane, dtype: str) -> Array:
    """One unit in the last place of each parameter before or after an update, in float64."""
    larger = np.maximum(np.abs(lane.p), np.abs(lane.after)).astype(dtype)
    units: Array = np.spacing(np.maximum(larger, np.finfo(dtype).tiny)).astype(np.float64)
    return units


@dataclass
class Prediction:
    """What a hypothesis says the parameters are after each update."""

    lanes: list[Array]
    """float64 of shape (steps, *shape)."""
    rates: NDArray[np.float64]


def replay(
    view: View,
    hypothesis: Hypothesis,
    nudge: int = 0,
    dtype: str = "",
) -> Prediction:
    """Predict every update of a view.

    Args:
        view: The recorded numbers. Where it has no rates, each is found by least squares.
        hypothesis: What is replayed.
        nudge: Other than 0: every gradient and parameter is moved by some units in the last place
            of the trace's dtype, by signs drawn from this seed.
        dtype: The precision; the view's own unless given.
    """
    with np.errstate(all="ignore"):
        return _Replay(view, hypothesis, nudge, dtype or view.precision).run()


class _Remembered(Scalars):
    """Hyper-parameters that are looked up once: a replay asks for each at every step."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._values: dict[str, Any] = {}
        self._rests: dict[str, float] = {}

    def __getitem__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            found = self._values[name] = super().__getitem__(name)
            return found

    def rest(self, name: str) -> float:
        try:
            return self._rests[name]
        except KeyError:
            found = self._rests[name] = super().rest(name)
            return found


class _Replay:
    def __init__(self, view: View, hypothesis: Hypothesis, nudge: int, dtype: str) -> None:
        self.view, self.hypothesis = view, hypothesis
        self.eq = hypothesis.equations
        options = hypothesis.options
        if SNAPSHOT in options and view.rates is not None:
            options = {**options, SNAPSHOT: float(np.max(view.rates))}
        self.scalars = [_Remembered(options, self.eq, transposed=x.transposed) for x in view.lanes]
        self.function = hypothesis.function
        self.states: list[dict[str, Any]] = [{} for _ in view.lanes]
        self.parameters = [lane.p for lane in view.lanes]
        self.starts = [lane.starts for lane in view.lanes]
        self.gradients = self._gradients()
        if nudge:
            self._nudge(nudge)
        if dtype != "float64":
            self.parameters = [p.astype(dtype) for p in self.parameters]
            self.gradients = [g.astype(dtype) for g in self.gradients]
        self.dtype = np.dtype(dtype)
        self.rate = 1e-2

    def _gradients(self) -> list[Array]:
        view, options = self.view, self.hypothesis.options
        sign = -1.0 if options.get("maximize", False) else 1.0
        gradients = [lane.g if sign > 0 else -lane.g for lane in view.lanes]
        clip = self.hypothesis.clip
        if clip is not None and view.recording.clipped is None:
            if clip["scope"] == "value":
                limit = clip["clip_value"]
                gradients = [
                    clipping.clip({"": g}, {"scope": "value", "clip_value": limit}, self.eq)[0][""]
                    for g in gradients
                ]
            else:
                norms = view.norms_of(float(clip.get("norm_type", 2.0)))
                factors = factors_of(norms, lambda step: clipping.clip(step, clip, self.eq)[0])
                gradients = self._scaled(gradients, factors)
        if options.get(OWN_LIMIT) is not None:
            limit = options[OWN_LIMIT]
            norms = view.norms_of(2.0)
            factors = factors_of(norms, lambda step: clipping.within_norm(step, limit))
            gradients = self._scaled(gradients, factors)
        return gradients

    def _scaled(self, gradients: list[Array], factors: Array) -> list[Array]:
        place = {name: i for i, name in enumerate(self.view.recording.gradients)}
        found = []
        for lane, g in zip(self.view.lanes, gradients, strict=True):
            columns = np.array([place[name] for name in lane.names])[lane.owner]
            found.append(g * factors[:, columns].reshape(g.shape))
        return found

    def _nudge(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        size = float(np.finfo(self.view.dtype).eps)
        if self.eq.newton_schulz == "bfloat16" and self.hypothesis.entry.matrices_only:
            size = 2.0**-11  # a step of bfloat16 in some of the products

        def moved(x: Array, by: float) -> Array:
            return x * (1.0 + by * generator.choice([-1.0, 1.0], size=x.shape))

        self.gradients = [moved(g, size) for g in self.gradients]
        eps = float(np.finfo(self.view.dtype).eps)
        self.starts = [
            {
                i: {n: x if isinstance(x, int) else moved(x, eps) for n, x in state.items()}
                for i, state in starts.items()
            }
            for starts in self.starts
        ]

    def run(self) -> Prediction:
        view = self.view
        found: list[list[Array]] = [[] for _ in view.lanes]
        rates = np.empty(view.steps)
        for k in range(view.steps):
            self._take_up(k)
            if view.rates is None:
                self._solve(k)
            else:
                self.rate = float(view.rates[k])
            rates[k] = self.rate
            for i, updated in enumerate(self._update(k, self.rate, self.states)):
                found[i].append(updated)
        return Prediction([np.asarray(x, dtype=np.float64) for x in found], rates)

    def _take_up(self, k: int) -> None:
        """Begin a stretch of updates from the states that are recorded."""
        for i, starts in enumerate(self.starts):
            if k in starts:
                # Of L-BFGS's history the newest pair alone is recorded, so it begins anew.
                self.states[i] = (
                    {}
                    if self.hypothesis.joint
                    else {
                        name: x if isinstance(x, int) else x.astype(self.dtype)
                        for name, x in starts[k].items()
                    }
                )

    def _together(self, k: int, rate: float, state: dict[str, Any]) -> list[Array]:
        """An update of all tensors as one vector: the one evaluation is the recorded gradient."""
        lanes = self.view.lanes
        options = self.hypothesis.options
        gradients = [self.gradients[i][k] * float(lane.present[k]) for i, lane in enumerate(lanes)]
        gradient = np.concatenate([g.reshape(-1) for g in gradients])
        moved = lbfgs.step(
            np.concatenate([p[k].reshape(-1) for p in self.parameters]).astype(np.float64),
            lambda _: (0.0, gradient),
            state,
            lr=rate,
            max_iter=1,
            tolerance_grad=options["tolerance_grad"],
            tolerance_change=options["tolerance_change"],
            history_size=options["history_size"],
            choices=self.eq.lbfgs,
        )
        pieces = np.split(moved, np.cumsum([g.size for g in gradients])[:-1])
        return [x.reshape(g.shape) for x, g in zip(pieces, gradients, strict=True)]

    def _update(self, k: int, rate: float, states: list[dict[str, Any]]) -> list[Array]:
        if self.hypothesis.joint:
            return self._together(k, rate, states[0])
        found = []
        for i, lane in enumerate(self.view.lanes):
            p, g = self.parameters[i][k], self.gradients[i][k]
            if not lane.present[k]:
                if self.eq.absent_gradient == "skipped":
                    found.append(p)
                    continue
                g = np.zeros_like(p)
            state = states[i]
            state[GROUP_STEP] = int(self.view.updates[k])
            found.append(self.function(p, g, state, rate, self.scalars[i], self.eq))
        return found

    def _solve(self, k: int) -> None:
        """Find the rate of an update, in which nearly every step is linear."""
        rec = [lane.after[k] for lane in self.view.lanes]
        weight = [lane.weight[k] for lane in self.view.lanes]

        def at(rate: float) -> Array:
            copies = [
                {name: list(x) if isinstance(x, list) else x for name, x in state.items()}
                for state in self.states
            ]
            new = self._update(k, rate, copies)
            return np.concatenate(
                [((x - r) / w).reshape(-1) for x, r, w in zip(new, rec, weight, strict=True)]
            )

        here = at(0.0)
        for _ in range(2):
            there = at(self.rate)
            slope = (there - here) / self.rate
            size = float(slope @ slope)
            if not np.isfinite(size) or size == 0.0:
                return
            found = -float(here @ slope) / size
            if not np.isfinite(found) or found <= 0.0:
                return
            # Where the rate was far off, what is not linear in it may have come in.
            close = abs(found / self.rate - 1.0) < 0.3
            self.rate = found
            if close:
                return


def factors_of(norms: Array, clipped: Any) -> Array:
    """By how much a clip scales each tensor at each step, shape (steps, tensors).

    A clip by norms does to a number that is a tensor's norm what it does to the tensor.
    """
    found = np.ones_like(norms)
    for k, row in enumerate(norms):
        after = clipped({str(i): np.array([x]) for i, x in enumerate(row)})
        new = np.array([after[str(i)][0] for i in range(len(row))])
        found[k] = np.divide(new, row, out=np.ones_like(row), where=row > 0)
    return found


NUDGES = 4
MANY = 2_000_000
"""Predicted numbers beyond which one nudge has to do."""


def allowance(view: View, hypothesis: Hypothesis, prediction: Prediction) -> Array:
    """How far rounding may take each number, of shape (steps, numbers).

    A unit in the last place of the parameter, some of the step's own, and what the step does when
    its gradients are moved by a unit each and when it is computed in the trace's dtype.
    """
    fixed = view.with_rates(prediction.rates)
    response = np.zeros((view.steps, sum(lane.g[0].size for lane in view.lanes)))
    here = view.joined(prediction.lanes)
    with np.errstate(all="ignore"):
        for seed in range(1, (NUDGES if view.count < MANY else 1) + 1):
            moved = view.joined(replay(fixed, hypothesis, nudge=seed).lanes)
            response = np.fmax(response, np.abs(moved - here))
        narrow = view.joined(replay(fixed, hypothesis, dtype=view.dtype).lanes)
        response = np.fmax(response, np.abs(narrow - here))
    p = view.joined([lane.p for lane in view.lanes])
    after = view.joined([lane.after for lane in view.lanes])
    eps = float(np.finfo(view.dtype).eps)
    unit = view.joined([spacing(lane, view.dtype) for lane in view.lanes])
    size = np.maximum(np.abs(here - p), np.abs(after - p))
    own = ROUNDINGS * eps * np.where(np.isfinite(size), size, 0.0)
    allowed: Array = 1.5 * unit + own + MAGNIFIED * response
    return allowed


MAGNIFIED = 6.0
"""How many times the response to a nudge of one unit is allowed."""
