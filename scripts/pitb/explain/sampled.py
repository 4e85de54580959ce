"""Explaining traces that are too large to be trained again: some of the parameters stand for all.

Where every number is updated as if it were alone, a run of the reference on some of them is exactly
that part of the whole run, given the gradients that were recorded and, where these are clipped, the
norms of all of them. Where updates take whole tensors, all parameters are trained with gradients
that are read step by step, and what is recorded of a run is some of them. The largest differences
of every tensor and step are among those that are taken, so the largest of the whole is seen; and so
are the first numbers that are not finite.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.errors import PitbError
from pitb.explain.items import Layout
from pitb.problems import Problem, added
from pitb.reference import clipping
from pitb.reference.training import Run, train
from pitb.stream.initial import CHUNK, chunks
from pitb.stream.stored import Readable, reading
from pitb.trace import Entry, Trace

Chosen = dict[str, NDArray[np.int64]]
"""By tensor, the ascending indices of its elements that are taken."""
LARGE = 1 << 21
"""Recorded numbers of a trace from which on a part of them is taken, where that is exact."""
SAMPLE = 1 << 13
"""Elements that are taken of all tensors together, and more where a tensor would have few."""
LEAST = 16
"""Elements of a tensor that are taken at least, besides those that differ most."""
HELD = 1 << 23
"""Recorded numbers of a trace up to which runs are recorded whole, where no part stands for all."""
MOST = 1 << 25
"""Parameters that are trained, where no part stands for all; each takes some 90 bytes."""
PART, SEEN, WHOLE = "part", "seen", "whole"
"""What is trained and recorded: some parameters; all, of which some are recorded; all."""
_SEED = 0
_ROUGH = 1e3
"""By how much one gradient is multiplied, to see which numbers that changes."""


@dataclass(frozen=True)
class Sampled:
    """Traces of a part of the parameters."""

    traces: list[Trace | None]
    chosen: int
    """How many parameters."""
    of: int
    shapes: dict[str, tuple[int, ...]]
    """Of the whole tensors."""
    indices: Chosen


def sample(traces: list[Trace | None]) -> Sampled | None:
    """A part of the parameters of one or two traces; None where they are small or do not fit.

    Raises:
        PitbError: Their values can no longer be read.
    """
    given = [found for found in traces if found is not None]
    if max((len(found.values) for found in given), default=0) <= LARGE:
        return None
    shapes = _shapes(given[0])
    replayed = (entry for entry in given[0].entries if entry.quantity == "grad")
    if any(_shapes(found) != shapes for found in given) or any(
        shapes.get(entry.tensor) != entry.shape for entry in replayed
    ):
        return None  # which is an error that is said elsewhere
    sizes = {name: math.prod(shape) for name, shape in shapes.items()}
    total = sum(sizes.values())
    if total <= SAMPLE:
        return None  # many steps of a small model
    worst = _worst(given[0], given[-1])
    generator = np.random.default_rng(_SEED)
    chosen: Chosen = {}
    for name, size in sizes.items():
        count = min(size, max(LEAST, SAMPLE * size // total))
        drawn = generator.choice(size, count, replace=False, shuffle=False)
        chosen[name] = np.unique(np.concatenate([drawn, worst.get(name, drawn[:0])]))
    return Sampled(
        [None if found is None else _part(found, sizes, chosen) for found in traces],
        sum(map(len, chosen.values())),
        total,
        shapes,
        chosen,
    )


def _shapes(found: Trace) -> dict[str, tuple[int, ...]]:
    return {entry.tensor: entry.shape for entry in found.select(0, "param")}


def _worst(a: Trace, b: Trace) -> Chosen:
    """The elements of each tensor that differ most, and the first that are not finite on a side,
    one of each for each step; the traces may be one and the same.
    """
    entries = b.by_key()
    found: dict[str, list[int]] = {}
    for entry in a.entries:
        other = entries.get(entry.key)
        if entry.quantity != "param" or other is None or other.count != entry.count:
            continue
        largest = 0.0
        odd = index = None
        for start, in_a, in_b in chunks(a, entry, b, other):
            with np.errstate(invalid="ignore", over="ignore"):
                difference = np.abs(in_a - in_b)
            if not np.isfinite(difference).all():
                finite = np.isfinite(in_a) & np.isfinite(in_b)
                if odd is None and not finite.all():
                    odd = start + int(finite.argmin())
                same = (in_a == in_b) | (np.isnan(in_a) & np.isnan(in_b))  # no difference, as `gap`
                difference = np.where(same, 0.0, np.where(finite, difference, np.inf))
            i = int(difference.argmax())
            if difference[i] > largest:
                largest, index = float(difference[i]), start + i
        taken = [place for place in (index, odd) if place is not None]
        found.setdefault(entry.tensor, []).extend(taken)
    return {name: np.array(indices, dtype=np.int64) for name, indices in found.items()}


def _part(found: Trace, sizes: Mapping[str, int], chosen: Chosen) -> Trace:
    """The trace with the chosen elements of what has as many as a parameter."""
    entries: list[Entry] = []
    values: list[NDArray[np.float64]] = []
    row = 0
    with reading(found.values) as reader:
        for entry in found.entries:
            indices = chosen.get(entry.tensor)
            if indices is None or entry.count != sizes[entry.tensor]:
                kept = np.array(reader.read(entry.first_row, np.empty(entry.count)))
                shape = entry.shape
            else:
                kept = _taken(reader, entry, indices)
                shape = indices.shape
            entries.append(replace(entry, shape=shape, first_row=row))
            values.append(kept)
            row += len(kept)
    return Trace(entries, np.concatenate(values), found.metadata, found.path)


def _taken(reader: Readable, entry: Entry, indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """Some elements of a tensor, read a chunk at a time, and only the chunks that have any."""
    kept = np.empty(len(indices))
    room = np.empty(min(CHUNK, entry.count))
    bounds = np.searchsorted(indices, np.arange(0, entry.count + CHUNK, CHUNK))
    for number, (begin, end) in enumerate(pairwise(bounds)):
        if begin == end:
            continue
        start = number * CHUNK
        read = reader.read(entry.first_row + start, room[: min(CHUNK, entry.count - start)])
        kept[begin:end] = read[indices[begin:end] - start]
    return kept


def stands_for_all(layout: Layout, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether each number is updated as if it were alone, in A, B and what lies between: tried on
    a small problem with tensors of the same names, and not declared.

    Args:
        layout: The two configurations.
        shapes: Of the whole tensors.
    """
    everyone = frozenset(range(len(layout.items)))
    sets = {frozenset[int](), everyone}
    sets |= {frozenset([i]) for i in everyone} | {everyone - {i} for i in everyone}
    runs = [layout.run(broken) for broken in sets]
    if not all(_has_recorded_norms(run) for run in runs):
        return False
    one, other = _small(shapes)
    with added(one, other):
        return all(_alone(_without_norms(run), one, other) for run in runs)


def _has_recorded_norms(run: Run) -> bool:
    """Whether the norms that are taken are those of the gradients that were recorded: not of what
    another clip has left.
    """
    own = any(_is_by_norm(group.clip) for group in run.groups)
    timms = any(group.options.get("max_grad_norm") is not None for group in run.groups)
    return not timms and (run.clip is None or not own)


def _without_norms(run: Run) -> Run:
    """The run without clips by a norm, which is not the part's to find."""
    groups = tuple(
        replace(group, clip=None) if _is_by_norm(group.clip) else group for group in run.groups
    )
    return replace(run, groups=groups, clip=None if _is_by_norm(run.clip) else run.clip)


def _is_by_norm(clip: Mapping[str, Any] | None) -> bool:
    return clip is not None and clip["scope"] != "value"


def with_norms(part: Problem, traces: list[Trace | None]) -> Problem:
    """A part of a problem that knows the norms of the whole gradients.

    Args:
        part: What replays the gradients of the first of the traces.
        traces: The whole ones.
    """
    source = next(found for found in traces if found is not None)
    entries = source.by_key()

    @cache
    def norm(step: int, tensor: str, p: float) -> float:
        entry = entries[(step - 1) % len(part.gradients) + 1, "grad", tensor]
        each = [
            clipping.norm([values.copy()], p)
            for _, values, _ in chunks(source, entry, source, entry)
        ]
        return float(clipping.norm([np.array(each)], p)) if each else 0.0

    return replace(part, norms=norm)


def _small(shapes: Mapping[str, tuple[int, ...]]) -> tuple[Problem, Problem]:
    """A problem of the same tensors, each with 6 elements, and it with one gradient multiplied."""
    generator = np.random.default_rng(_SEED)
    start, first, then = (
        {
            name: generator.normal(size=(*[1] * (len(shape) - 2), 2, 3) if shape[1:] else 6)
            for name, shape in shapes.items()
        }
        for _ in range(3)
    )
    rough = {name: value.copy() for name, value in first.items()}
    for value in rough.values():
        value.reshape(-1)[1] *= _ROUGH
    one = Problem("a part", "prescribed", start, gradients=(first, then))
    return one, replace(one, name="a part, one altered", gradients=(rough, then))


def _alone(run: Run, one: Problem, other: Problem) -> bool:
    """Whether what is altered in one element changes that element alone."""
    both = [
        train(replace(run, problem=item.name, steps=2, resume_step=0, rates=run.rates[:2]))
        for item in (one, other)
    ]
    if any(found.error is not None for found in both):
        return False
    entries = both[1].by_key()
    for entry in both[0].entries:
        if entry.quantity != "param":
            continue
        a, b = both[0].of(entry), both[1].of(entries[entry.key])
        differs = np.flatnonzero(a.view(np.int64) != b.view(np.int64))
        if not set(differs.tolist()) <= {1}:
            return False
    return True


def fit(traces: list[Trace | None]) -> bool:
    """Whether some runs that are as large as the traces can be held."""
    return max((len(found.values) for found in traces if found is not None), default=0) <= HELD


def check_size(found: Sampled) -> None:
    """Refuse what would have to be trained whole, and is too large for that.

    Raises:
        PitbError: Says how large it is, and what can be recorded instead.
    """
    if found.of > MOST:
        raise PitbError(
            f"the traces are of {found.of} parameters, of which no part stands for all, since an "
            f"update takes whole tensors; up to {MOST} can be trained again: record fewer tensors"
        )
