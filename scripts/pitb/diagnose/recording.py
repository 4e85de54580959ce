"""A recording: parameters before and after each update, gradients, rates, and what is amiss."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose import reading, usable
from pitb.diagnose.reading import STATE, Mapping, Values
from pitb.errors import PitbError
from pitb.trace import Entry, Trace

Array = NDArray[Any]
FEWEST = 6
"""Numbers that must have moved for a diagnosis to mean anything."""
States = dict[str, dict[str, Array]]
"""What is kept of each tensor, by name."""


@dataclass
class Recording:
    """Updates of a run, without any word on its configuration.

    ``before``, ``after`` and ``gradients`` map names to arrays of shape (steps, n); ``present``
    maps names to the steps, of shape (steps,), at which there is a gradient.
    """

    path: str
    dtype: str
    steps: int
    """How many updates there are."""
    updates: NDArray[np.int64]
    """Which they are, of shape (steps,), from 1."""
    shapes: dict[str, tuple[int, ...]]
    before: dict[str, Array]
    after: dict[str, Array]
    gradients: dict[str, Array]
    present: dict[str, NDArray[np.bool_]]
    clipped: dict[str, Array] | None
    """As ``gradients``, after clipping, where that is recorded."""
    rates: NDArray[np.float64] | None
    """The recorded rate of each update, of shape (steps,)."""
    starts: dict[int, States] = field(default_factory=dict)
    """The states that a stretch of updates begins with, by the index of its first update."""
    evaluations: NDArray[np.int64] | None = None
    """How often the loss was evaluated in each update, where that is recorded."""
    notes: list[str] = field(default_factory=list)

    @property
    def evaluated_often(self) -> int:
        """The most evaluations of an update, where there are more than one gradient can tell of; 0
        elsewhere. burn's L-BFGS evaluates the point that it reaches, too."""
        most = 0 if self.evaluations is None else int(self.evaluations.max(initial=0))
        return most if most > 2 else 0

    @property
    def names(self) -> list[str]:
        """The tensors that can be replayed: those with a gradient."""
        return list(self.gradients)

    @property
    def numbers(self) -> int:
        """Recorded parameters of one step that have a gradient."""
        return sum(self.before[name].shape[1] for name in self.gradients)

    def only(self, names: Sequence[str]) -> "Recording":
        """The same of some of its tensors."""
        return replace(
            self,
            shapes={name: self.shapes[name] for name in names},
            before={name: self.before[name] for name in names},
            after={name: self.after[name] for name in names},
            gradients={name: self.gradients[name] for name in names},
            present={name: self.present[name] for name in names},
            clipped=None if self.clipped is None else {n: self.clipped[n] for n in names},
        )

    def transposed(self, name: str) -> "Recording":
        """The same with the gradients of one matrix transposed."""
        found = self.only(self.names)
        rows, columns = self.shapes[name]

        def turned(x: Array) -> Array:
            return np.ascontiguousarray(x.reshape(-1, columns, rows).transpose(0, 2, 1)).reshape(
                x.shape
            )

        found.gradients[name] = turned(found.gradients[name])
        if found.clipped is not None:
            found.clipped[name] = turned(found.clipped[name])
        return found


def load(path: Path, maps: Sequence[Mapping] = (), whole: bool = False) -> Recording:
    """Read what a diagnosis needs of a trace.

    Args:
        path: A trace of :mod:`pitb.trace`, a file or a folder of parts.
        maps: Tensors to rename or to transpose: of a name that parameters and gradients share, the
            gradients are transposed, or with ``whole`` both.
        whole: See ``maps``.

    Raises:
        PitbError: It is no trace, or does not hold what is needed; says what to record.
    """
    contents, values, metadata = reading.read(path)
    contents = reading.mapped(contents, values, maps, path, whole)
    return _recording(contents, values, metadata, str(path))


def of_trace(found: Trace) -> Recording:
    """The same of a trace in memory.

    Raises:
        PitbError: It does not hold what is needed.
    """
    return _recording(found.entries, reading.of(found), found.metadata, found.path or found.run)


def _recording(
    entries: list[Entry], values: Values, metadata: dict[str, Any], path: str
) -> Recording:
    held = sorted({e.step for e in entries if e.quantity == "param"})
    if not held:
        raise PitbError(
            f"{path} holds no parameters; record 'param' at step 0 and after each update"
        )
    if held[0] > 0 and not any(key[1].startswith(STATE) for key in values):
        raise PitbError(
            f"{path} holds no parameters at step 0; record them before the first update, since "
            "what an optimizer keeps is built up from there, or record its states ('state')"
        )
    if not any(e.quantity == "grad" for e in entries):
        raise PitbError(
            f"{path} holds no gradients; record 'grad' of each tensor at each update, before "
            "clipping"
        )
    initial = [e for e in entries if e.quantity == "param" and e.step == held[0]]
    shapes = {e.tensor: e.shape for e in initial}
    usable.check_names(entries, shapes, path)
    notes: list[str] = []
    updates = usable.updates(entries, values, shapes, path, notes)
    if metadata.get("error"):
        notes.append(f"the run ended early: {metadata['error']}")
    rates = [values.get((k, "lr", "")) for k in updates]
    known = np.array([x[0] for x in rates if x is not None], dtype=np.float64)
    clipped = any(e.quantity == "clipped_grad" for e in entries)
    found = Recording(
        path=path,
        dtype=initial[0].dtype,
        steps=len(updates),
        updates=np.array(updates, dtype=np.int64),
        shapes={},
        before={},
        after={},
        gradients={},
        present={},
        clipped={} if clipped else None,
        rates=known if len(known) == len(updates) else None,
        starts=_starts(entries, values, updates),
        evaluations=usable.evaluations(values, updates),
        notes=notes,
    )
    if found.dtype not in ("float32", "float64"):
        raise PitbError(
            f"{path} holds parameters in {found.dtype}, whose roundings hide the formula; record "
            "float32 or float64"
        )
    if found.rates is None:
        notes.append("no rate is recorded, so that it was found, too; record 'lr' at each update")
    _fill(found, values, shapes)
    return found


def _starts(entries: list[Entry], values: Values, updates: list[int]) -> dict[int, States]:
    """The recorded states before each update that does not follow the one before it."""
    found: dict[int, States] = {}
    recorded: dict[int, list[Entry]] = {}
    for entry in entries:
        if entry.quantity.startswith(STATE) and entry.key in values:
            recorded.setdefault(entry.step, []).append(entry)
    for i, step in enumerate(updates):
        if i and updates[i - 1] == step - 1:
            continue
        states: States = {}
        for entry in recorded.get(step - 1, ()):
            value = values[entry.key].reshape(entry.shape)
            states.setdefault(entry.tensor, {})[entry.quantity.removeprefix(STATE)] = value
        if states or i:
            found[i] = states
    return found


def _tracks(values: Values, updates: Sequence[int], name: str) -> tuple[Array, Array]:
    """A parameter before and after each update, of shape (updates, n)."""
    first, last = updates[0], updates[-1]
    if last - first + 1 == len(updates):
        track = np.stack([values[k, "param", name] for k in range(first - 1, last + 1)])
        return track[:-1], track[1:]
    before = np.stack([values[k - 1, "param", name] for k in updates])
    return before, np.stack([values[k, "param", name] for k in updates])


def _fill(found: Recording, values: Values, shapes: dict[str, tuple[int, ...]]) -> None:
    still, fixed = [], []
    steps = [int(k) for k in found.updates]
    for name, shape in shapes.items():
        before, after = _tracks(values, steps, name)
        moves = bool((after != before).any())
        here = np.array([(k, "grad", name) in values for k in steps])
        if not here.any():
            if moves:
                twin = _twin(after, found.after)
                if twin is None:
                    raise PitbError(
                        f"{found.path}: {name} moves, and no gradient of it is recorded; record "
                        "'grad' of each tensor at each update"
                    )
                found.notes.append(f"{name} is {twin} under a second name")
            else:
                still.append(name)
            continue
        empty = np.zeros(after.shape[1], dtype=after.dtype)

        def stacked(quantity: str, name: str = name, empty: Array = empty) -> Array:
            return np.stack([values.get((k, quantity, name), empty) for k in steps])

        raw = stacked("grad")
        if raw.any() and not moves:
            fixed.append(name)
            continue
        found.shapes[name], found.before[name], found.after[name] = shape, before, after
        found.gradients[name], found.present[name] = raw, here
        if found.clipped is not None:
            kept = [(k, "clipped_grad", name) in values for k in steps]
            found.clipped[name] = np.where(np.array(kept)[:, None], stacked("clipped_grad"), raw)
    if still:
        found.notes.append(
            f"{', '.join(still)} {'have' if len(still) > 1 else 'has'} no gradient and never moved"
        )
    moved = sum(int((found.after[n] != found.before[n]).sum()) for n in found.names)
    if fixed:
        found.notes.append(
            f"{', '.join(fixed)} never moved in spite of {'their' if len(fixed) > 1 else 'its'} "
            "gradients: frozen, or at a rate of 0"
        )
    if not moved:
        raise PitbError(
            f"{found.path}: no number moved in {found.steps} steps, so that nothing can be told; "
            "record steps with gradients that are not 0"
        )
    if moved < FEWEST:
        raise PitbError(
            f"{found.path} is too short: {moved} numbers moved in {found.steps} steps; record at "
            "least two updates of a few tensors"
        )


def _twin(track: Array, others: dict[str, Array]) -> str | None:
    same = (n for n, o in others.items() if o.shape == track.shape and np.array_equal(o, track))
    return next(same, None)


def common_name(names: Sequence[str]) -> str:
    """Tensors in a few words."""
    return ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} others"
