"""How gradients were clipped: read off where both sides of it are recorded, supposed elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose import space
from pitb.diagnose.fit import round_values
from pitb.diagnose.recording import Recording
from pitb.diagnose.space import Hypothesis
from pitb.reference import clipping
from pitb.reference.descriptions import describe
from pitb.reference.equations import Equations

Array = NDArray[Any]
ROUNDINGS = 64
"""Roundings allowed to a clipped number, in units of the dtype's epsilon."""
NORM_TYPES = (2.0, float("inf"), 1.0)
SUPPOSED_STEPS = 4


@dataclass
class Clip:
    """How recorded gradients became recorded clipped ones."""

    how: dict[str, Any]
    """As :func:`pitb.reference.clipping.clip` takes it; empty where nothing was clipped, or where
    no clip that is known explains it (``explained`` is then false)."""
    explained: bool
    others: list[dict[str, Any]]
    """Other clips that do the same here."""
    clipped_steps: int = 0
    """Steps at which something was scaled or cut."""


def recorded(recording: Recording) -> Clip | None:
    """The clip between ``grad`` and ``clipped_grad``; None where the latter is not recorded."""
    if recording.clipped is None:
        return None
    raw = {n: g.astype(np.float64) for n, g in recording.gradients.items()}
    cut = {n: g.astype(np.float64) for n, g in recording.clipped.items()}
    changed = [
        k for k in range(recording.steps) if any((raw[n][k] != cut[n][k]).any() for n in raw)
    ]
    if not changed:
        return Clip({}, True, [])
    found = [
        how
        for how in _candidates(raw, cut, changed, recording.updates)
        if _explains(recording, raw, cut, how)
    ]
    if not found:
        return Clip({}, False, [], len(changed))
    return Clip(found[0], True, found[1:], len(changed))


def _candidates(
    raw: dict[str, Array],
    cut: dict[str, Array],
    changed: list[int],
    updates: NDArray[np.int64],
) -> Iterator[dict[str, Any]]:
    largest = max(float(np.abs(cut[n][k]).max(initial=0)) for n in cut for k in changed)
    first = {"first_step": int(updates[changed[0]])} if changed[0] else {}
    for p in (*NORM_TYPES, _norm_type(raw, cut, changed)):
        if p is None:
            continue
        for scope in ("global", "per-parameter"):
            sizes = []
            for k in changed:
                groups = [list(raw)] if scope == "global" else [[n] for n in raw]
                for names in groups:
                    if any((raw[n][k] != cut[n][k]).any() for n in names):
                        sizes.append(float(clipping.norm([cut[n][k] for n in names], p)))
            how = {"scope": scope, "max_norm": _limit(sizes), "norm_type": p}
            yield how
            if first:
                yield {**how, **first}
    yield {"scope": "value", "clip_value": _limit([largest])}
    if first:
        yield {"scope": "value", "clip_value": _limit([largest]), **first}


def _limit(sizes: list[float]) -> float:
    middle = float(np.median(sizes))
    # What is added to the norm leaves a limit slightly larger than the norm that comes out.
    near = round_values(middle * (1 - 2e-6), middle * (1 + 2e-5))
    return near[0] if near and len(f"{near[0]:.9g}") < 8 else middle


def _norm_type(raw: dict[str, Array], cut: dict[str, Array], changed: list[int]) -> float | None:
    """The p of a global norm that comes out the same at every step, by golden section."""
    if len(changed) < 2:
        return None

    def spread(p: float) -> float:
        with np.errstate(all="ignore"):
            sizes = [float(clipping.norm([cut[n][k] for n in cut], p)) for k in changed]
            return float(np.std(sizes) / np.mean(sizes))

    low, high = np.log(0.25), np.log(8.0)
    ratio = (np.sqrt(5.0) - 1) / 2
    for _ in range(40):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if spread(np.exp(a)) < spread(np.exp(b)) else (a, high)
    best = float(np.exp((low + high) / 2))
    near = round_values(best * 0.999, best * 1.001)
    return near[0] if near else best


def _explains(
    recording: Recording, raw: dict[str, Array], cut: dict[str, Array], how: dict[str, Any]
) -> bool:
    eps = ROUNDINGS * float(np.finfo(recording.dtype).eps)
    first = how.get("first_step", 1)
    for eq in (Equations(), Equations(clip_denominator="tiny")):
        if all(
            _matches(raw, cut, how, eq, k, eps, recording.updates[k] >= first)
            for k in range(recording.steps)
        ):
            return True
    return False


def _matches(
    raw: dict[str, Array],
    cut: dict[str, Array],
    how: dict[str, Any],
    eq: Equations,
    k: int,
    eps: float,
    on: bool,
) -> bool:
    step = {n: g[k] for n, g in raw.items()}
    with np.errstate(all="ignore"):
        expected = clipping.clip(step, how, eq)[0] if on else step
    for name, value in expected.items():
        size = float(np.abs(value).max(initial=0.0))
        if not (np.abs(value - cut[name][k]) <= eps * size).all():
            return False
    return True


def supposed(recording: Recording, hypothesis: Hypothesis) -> Iterator[Hypothesis]:
    """Clips that may stand between recorded gradients and an update, at several limits."""
    steps = range(min(recording.steps, SUPPOSED_STEPS))
    gradients = [g.astype(np.float64) for g in recording.gradients.values()]
    whole = [float(clipping.norm([g[k] for g in gradients], 2.0)) for k in steps]
    each = [float(clipping.norm([g[k]], 2.0)) for k in steps for g in gradients]
    largest = [float(np.abs(g[k]).max(initial=0)) for k in steps for g in gradients]
    for scope, sizes, limit in (
        ("global", whole, "max_norm"),
        ("per-parameter", each, "max_norm"),
        ("value", largest, "clip_value"),
    ):
        sizes = [size for size in sizes if size > 0]
        if sizes:
            for value in np.geomspace(0.03 * min(sizes), max(sizes), 8)[:-1]:
                yield replace(hypothesis, clip={"scope": scope, limit: float(value)})


def denominators(hypothesis: Hypothesis) -> Iterator[Hypothesis]:
    """A supposed clip with what each library adds to the norm."""
    for name in dict.fromkeys(
        x
        for side in space.SIDES
        for eq in [describe(side, hypothesis.optimizer)]
        for x in (eq.clip_denominator, eq.own_clip_denominator)
    ):
        yield hypothesis.but(clip_denominator=name)
