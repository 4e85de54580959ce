"""What a diagnosis reads of a trace: parameters, gradients and rates, and what is amiss with them.

Only the values are held, in the trace's own dtype, so that a million parameters over 20 steps take
some 200 MB.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pitb import trace
from pitb.errors import PitbError, nearest
from pitb.trace import Entry, Trace

Array = NDArray[Any]
GRADIENTS = ("grad", "clipped_grad")
READ = ("param", "lr", *GRADIENTS)
FEWEST = 6
"""Numbers that must have moved for a diagnosis to mean anything."""


@dataclass
class Recording:
    """The steps of a run, without any word on its configuration.

    ``parameters`` and ``gradients`` map names to arrays of shape (steps + 1, n) and (steps, n);
    ``present`` maps names to the steps, of shape (steps,), at which there is a gradient.
    """

    path: str
    dtype: str
    steps: int
    shapes: dict[str, tuple[int, ...]]
    parameters: dict[str, Array]
    gradients: dict[str, Array]
    present: dict[str, NDArray[np.bool_]]
    clipped: dict[str, Array] | None
    """As ``gradients``, after clipping, where that is recorded."""
    rates: NDArray[np.float64] | None
    """The recorded rate of each update, of shape (steps,)."""
    notes: list[str] = field(default_factory=list)
    states: tuple[str, ...] = ()
    """Names of the recorded states."""

    @property
    def names(self) -> list[str]:
        """The tensors that can be replayed: those with a gradient."""
        return list(self.gradients)

    @property
    def numbers(self) -> int:
        """Recorded parameters of one step that have a gradient."""
        return sum(self.parameters[name].shape[1] for name in self.gradients)

    def only(self, names: Sequence[str]) -> "Recording":
        """The same of some of its tensors."""
        return Recording(
            self.path,
            self.dtype,
            self.steps,
            {name: self.shapes[name] for name in names},
            {name: self.parameters[name] for name in names},
            {name: self.gradients[name] for name in names},
            {name: self.present[name] for name in names},
            None if self.clipped is None else {name: self.clipped[name] for name in names},
            self.rates,
            self.notes,
            self.states,
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


@dataclass(frozen=True)
class Mapping:
    """``old=new`` or ``old=new.T`` of the command line."""

    old: str
    new: str
    transposed: bool


def parse_map(text: str) -> Mapping:
    """A ``--map``.

    Raises:
        PitbError: It is not of the form ``old=new``.
    """
    old, equals, new = text.partition("=")
    if not (old and equals and new):
        raise PitbError(
            f"--map {text} is not of the form old=new; for a transposed tensor: "
            "fc.weight=fc.weight.T"
        )
    turned = new.endswith(".T")
    return Mapping(old, new.removesuffix(".T"), turned)


def load(path: Path, maps: Sequence[Mapping] = (), whole: bool = False) -> Recording:
    """Read what a diagnosis needs of a trace.

    Args:
        path: A trace of :mod:`pitb.trace`.
        maps: Tensors to rename or to transpose: of a name that parameters and gradients share, the
            gradients are transposed, or with ``whole`` both.
        whole: See ``maps``.

    Raises:
        PitbError: It is no trace, or does not hold what is needed; says what to record.
    """
    contents, values, metadata = _read(path)
    contents = _mapped(contents, values, maps, path, whole)
    return _recording(contents, values, metadata, str(path))


def of_trace(found: Trace) -> Recording:
    """The same of a trace in memory.

    Raises:
        PitbError: It does not hold what is needed.
    """
    values = {e.key: found.of(e) for e in found.entries if e.quantity in READ}
    return _recording(found.entries, values, found.metadata, found.path or found.run)


Values = dict[tuple[int, str, str], Array]


def _read(path: Path) -> tuple[list[Entry], Values, dict[str, Any]]:
    """The entries, and the values of those that count; one row group at a time."""
    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            trace._check_schema(file.schema_arrow, path)
            raw = (file.metadata.metadata or {}).get(trace.METADATA_KEY)
            if raw is None:
                raise PitbError(f"{path} is not a trace: its metadata has no key 'pitb'")
            metadata = trace._metadata(raw, path)
            entries: list[Entry] = metadata.pop("contents")
            rows = sum(entry.count for entry in entries)
            if rows != file.metadata.num_rows:
                raise PitbError(
                    f"{path} lists {rows} values in its metadata but holds {file.metadata.num_rows}"
                )
            return entries, _values(file, entries, path), metadata
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None


def _values(file: pq.ParquetFile, entries: list[Entry], path: Path) -> Values:
    kept = [entry for entry in entries if entry.quantity in READ and entry.count]
    found: Values = {
        entry.key: np.empty(entry.count, np.float32 if entry.dtype == "float32" else np.float64)
        for entry in kept
    }
    starts = np.array([entry.first_row for entry in entries if entry.count], dtype=np.int64)
    steps = np.array([entry.step for entry in entries if entry.count], dtype=np.int32)
    row, first = 0, 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=["step", "index", "value"], use_threads=False)
        column = table.column("value")
        if column.null_count:
            raise PitbError(f"{path} is not a trace: column 'value' holds nulls")
        chunk = column.to_numpy()
        where = np.arange(row, row + len(chunk), dtype=np.int64)
        owner = np.searchsorted(starts, where, side="right") - 1
        for name, expected in (("step", steps[owner]), ("index", where - starts[owner])):
            if not np.array_equal(table.column(name).to_numpy(), expected):
                raise PitbError(
                    f"{path}: column '{name}' is not what its metadata lists; rows stand in order "
                    "of step, contents and index"
                )
        del where, owner
        while first < len(kept) and kept[first].first_row + kept[first].count <= row:
            first += 1
        for entry in kept[first:]:
            if entry.first_row >= row + len(chunk):
                break
            low = max(entry.first_row, row)
            high = min(entry.first_row + entry.count, row + len(chunk))
            target = found[entry.key]
            target[low - entry.first_row : high - entry.first_row] = chunk[low - row : high - row]
        row += len(chunk)
    return found


def _mapped(
    entries: list[Entry], values: Values, maps: Sequence[Mapping], path: Path, whole: bool
) -> list[Entry]:
    names = {entry.tensor for entry in entries if entry.quantity in ("param", *GRADIENTS)}
    for item in maps:
        if item.old not in names:
            near = nearest(item.old, sorted(names))
            raise PitbError(f"{path} has no tensor {item.old!r} to map; nearest: {near!r}")
    by_old = {item.old: item for item in maps}
    found = []
    for entry in entries:
        if entry.tensor not in by_old or entry.quantity not in ("param", *GRADIENTS):
            found.append(entry)
            continue
        item = by_old[entry.tensor]
        value, shape = values.pop(entry.key), entry.shape
        renamed = item.old != item.new
        if item.transposed and (whole or renamed or entry.quantity in GRADIENTS):
            if len(shape) != 2:
                raise PitbError(
                    f"{path}: {item.old} has shape {list(shape)}, and only a matrix can be "
                    "transposed"
                )
            value, shape = value.reshape(shape).T.reshape(-1), shape[::-1]
        new = Entry(entry.step, entry.quantity, item.new, shape, entry.dtype, entry.first_row)
        if new.key in values:
            raise PitbError(
                f"{path}: --map {item.old}={item.new} gives two tensors the name {item.new!r}"
            )
        values[new.key] = value
        found.append(new)
    return found


def _recording(
    entries: list[Entry], values: Values, metadata: dict[str, Any], path: str
) -> Recording:
    initial = [e for e in entries if e.quantity == "param" and e.step == 0]
    if not any(e.quantity == "param" for e in entries):
        raise PitbError(
            f"{path} holds no parameters; record 'param' at step 0 and after each update"
        )
    if not initial:
        raise PitbError(
            f"{path} holds no parameters at step 0; record them before the first update, since "
            "what an optimizer keeps is built up from there"
        )
    if not any(e.quantity == "grad" for e in entries):
        raise PitbError(
            f"{path} holds no gradients; record 'grad' of each tensor at each update, before "
            "clipping"
        )
    shapes = {e.tensor: e.shape for e in initial}
    _check_names(entries, shapes, path)
    notes: list[str] = []
    steps = _usable_steps(entries, values, shapes, path, notes)
    if metadata.get("error"):
        notes.append(f"the run ended early: {metadata['error']}")
    rates = [values.get((k, "lr", "")) for k in range(1, steps + 1)]
    known = np.array([x[0] for x in rates if x is not None], dtype=np.float64)
    clipped = any(e.quantity == "clipped_grad" for e in entries)
    found = Recording(
        path=path,
        dtype=initial[0].dtype,
        steps=steps,
        shapes={},
        parameters={},
        gradients={},
        present={},
        clipped={} if clipped else None,
        rates=known if len(known) == steps else None,
        notes=notes,
        states=tuple(
            dict.fromkeys(
                e.quantity.removeprefix("state.") for e in entries if e.quantity[:6] == "state."
            )
        ),
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


def _fill(found: Recording, values: Values, shapes: dict[str, tuple[int, ...]]) -> None:
    still, fixed = [], []
    steps = range(1, found.steps + 1)
    for name, shape in shapes.items():
        track = np.stack([values[k, "param", name] for k in (0, *steps)])
        here = np.array([(k, "grad", name) in values for k in steps])
        if not here.any():
            if (track != track[0]).any():
                twin = _twin(track, found.parameters)
                if twin is None:
                    raise PitbError(
                        f"{found.path}: {name} moves, and no gradient of it is recorded; record "
                        "'grad' of each tensor at each update"
                    )
                found.notes.append(f"{name} is {twin} under a second name")
            else:
                still.append(name)
            continue
        empty = np.zeros(track.shape[1], dtype=track.dtype)

        def stacked(quantity: str, name: str = name, empty: Array = empty) -> Array:
            return np.stack([values.get((k, quantity, name), empty) for k in steps])

        raw = stacked("grad")
        if raw.any() and not (track != track[0]).any():
            fixed.append(name)
            continue
        found.shapes[name], found.parameters[name] = shape, track
        found.gradients[name], found.present[name] = raw, here
        if found.clipped is not None:
            kept = [(k, "clipped_grad", name) in values for k in steps]
            found.clipped[name] = np.where(np.array(kept)[:, None], stacked("clipped_grad"), raw)
    if still:
        found.notes.append(
            f"{', '.join(still)} {'have' if len(still) > 1 else 'has'} no gradient and never moved"
        )
    tracks = [found.parameters[name] for name in found.names]
    moved = sum(int((track[1:] != track[:-1]).sum()) for track in tracks)
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


def _check_names(entries: list[Entry], shapes: dict[str, tuple[int, ...]], path: str) -> None:
    """Refuse gradients that belong to no parameter; propose which they may belong to."""
    gradients = {e.tensor: e.shape for e in entries if e.quantity in GRADIENTS}
    free = [name for name in shapes if name not in gradients]
    for name, shape in gradients.items():
        if name in shapes:
            if shapes[name] == shape:
                continue
            if shapes[name] == shape[::-1]:
                raise PitbError(
                    f"{path}: the gradients of {name} have shape {list(shape)}, the parameter "
                    f"{list(shapes[name])}; if they are transposed, give --map {name}={name}.T"
                )
            raise PitbError(
                f"{path}: the gradients of {name} have shape {list(shape)}, the parameter "
                f"{list(shapes[name])}"
            )
        alike = [other for other in free if shapes[other] == shape]
        turned = [other for other in free if len(shape) == 2 and shapes[other] == shape[::-1]]
        if alike or turned:
            best = nearest(name, alike or turned)
            hint = f"--map {name}={best}{'' if alike else '.T'}"
            raise PitbError(
                f"{path} holds gradients of {name}, and no parameter of that name; if it is "
                f"{best}, give {hint}"
            )
        raise PitbError(
            f"{path} holds gradients of {name}, and no parameter of that name; there are "
            f"{', '.join(shapes)}"
        )


def _usable_steps(
    entries: list[Entry],
    values: Values,
    shapes: dict[str, tuple[int, ...]],
    path: str,
    notes: list[str],
) -> int:
    """How many updates from the first are whole and finite."""
    last = max((e.step for e in entries if e.quantity == "param"), default=0)
    if last == 0:
        raise PitbError(
            f"{path} is too short: it holds parameters at step 0 alone; record them after each "
            "update, too"
        )
    seen: dict[int, set[str]] = {}
    for key in values:
        seen.setdefault(key[0], set()).add(key[1])
    for step in range(1, last + 1):
        lacking = [name for name in shapes if (step, "param", name) not in values]
        reason = ""
        if lacking:
            what = "the parameters" if len(lacking) == len(shapes) else lacking[0]
            reason = f"step {step} lacks {what}"
        elif "grad" not in seen[step] and any(
            (values[step, "param", n] != values[step - 1, "param", n]).any() for n in shapes
        ):
            reason = f"step {step} lacks the gradients"
        else:
            bad = next(
                (
                    (q, n)
                    for n in shapes
                    for q in ("param", *GRADIENTS)
                    if (step, q, n) in values and not np.isfinite(values[step, q, n]).all()
                ),
                None,
            )
            if bad is not None:
                i = int(np.flatnonzero(~np.isfinite(values[step, bad[0], bad[1]]))[0])
                value = values[step, bad[0], bad[1]][i]
                reason = f"{bad[0]} of {bad[1]} at step {step} is {value} at index {i}"
        if not reason:
            continue
        if step == 1:
            raise PitbError(
                f"{path}: {reason}, so that no update can be replayed; record 'param' and 'grad' "
                "at every step from the first on"
            )
        until = "step 1 was" if step == 2 else f"steps 1 to {step - 1} were"
        notes.append(f"{reason}; only {until} looked at")
        return step - 1
    return last


def common_name(names: Sequence[str]) -> str:
    """Tensors in a few words."""
    return ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} others"
