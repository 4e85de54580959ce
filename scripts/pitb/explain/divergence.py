"""Where two traces first differ: step, stage, tensor, index, both values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pitb.breadth.laws import LAWS
from pitb.compare import ulps
from pitb.stream.initial import chunks
from pitb.trace import Entry, Trace

START = "initial state"
STAGES = (START, "loss", "gradient", "clipped gradient", "state", "parameter")
"""The stages of an update, in order; before the first stands what the run started from."""
MOST_NAMED = 6
"""Tensors that a sentence names; the others are counted."""
_STAGE_OF = {
    "logits": "loss",
    "loss": "loss",
    "grad": "gradient",
    "grad_norm": "clipped gradient",
    "clipped_grad": "clipped gradient",
    "state": "state",
    "param": "parameter",
}


@dataclass(frozen=True)
class Element:
    """The element that differs most, of the tensor in which two traces first differ."""

    step: int
    stage: str
    quantity: str
    tensor: str
    index: int
    a: float
    b: float
    ulp: float
    """Floats of the tensor's dtype that lie between; infinite where one alone is NaN."""
    difference: float
    allowed: float
    """What roundings are given: the law of the dtype, times the tensor's largest magnitude."""


@dataclass(frozen=True)
class Divergence:
    """The first difference of two traces."""

    first: Element | None
    """The first one beyond roundings."""
    first_bit: Element | None
    """The first one at all."""
    by_stage: dict[str, Element]
    """The first one beyond roundings of each stage."""
    missing: tuple[str, ...]
    """What was not compared, in sentences."""

    @property
    def parameter_step(self) -> int | None:
        """After which update the parameters first differ beyond roundings; None for never."""
        found = self.by_stage.get("parameter")
        return found.step if found is not None else None

    @property
    def rule(self) -> str:
        """Which of the pages' rules of thumb applies, by name."""
        return rule(self.parameter_step if START not in self.by_stage else 0)


RULES = ("none", "apart", "first", "second", "later")
"""No difference; apart from the start; the pages' rule of step 1, and of step 2; and later."""


def rule(step: int | None) -> str:
    """The pages' rule of thumb: what differs after update 1 is epsilon, decay or clipping, what
    splits at update 2 is momentum, dampening or another state.
    """
    return RULES[0] if step is None else RULES[min(step, 3) + 1]


def stage_of(entry: Entry) -> str | None:
    """The stage to which a quantity belongs; None for what is of none, such as the rate."""
    if entry.step == 0:
        return START if entry.quantity in ("param", "input") else None
    return _STAGE_OF.get(entry.quantity.partition(".")[0])


def allowance(dtype: str, step: int) -> float:
    """The relative difference that the law of a dtype gives to roundings."""
    name = dtype if dtype in ("float32", "float64") else "float32"
    return next(law for law in LAWS if law.name == name).tolerance(step)


def divergence(
    a: Trace, b: Trace, chosen: Mapping[str, NDArray[np.int64]] | None = None
) -> Divergence:
    """Compare two traces element by element, in the order in which an update computes them.

    NaN on both sides is no difference, NaN on one side is an infinite one. What one side lacks, and
    tensors of other shapes, are left out, and said.

    Args:
        a: One trace.
        b: The other.
        chosen: Where these are parts of traces: which elements of each tensor they hold.
    """
    entries_b = b.by_key()
    ordered = sorted(
        (entry for entry in a.entries if stage_of(entry) is not None),
        key=lambda entry: (entry.step, STAGES.index(stage_of(entry) or START)),
    )
    first_bit: Element | None = None
    by_stage: dict[str, Element] = {}
    shapes: list[str] = []
    for entry in ordered:
        other = entries_b.get(entry.key)
        if other is None:
            continue
        if other.shape != entry.shape:
            shapes.append(
                f"{entry.where} has shape {entry.shape} in {a.run} and {other.shape} in {b.run}"
            )
            continue
        bit, beyond = _elements(a, entry, b, other)
        taken = (chosen or {}).get(entry.tensor)
        if bit is not None and taken is not None and taken.shape == entry.shape:
            bit = replace(bit, index=int(taken[bit.index]))
            beyond = beyond and bit
        if first_bit is None:
            first_bit = bit
        if beyond is not None:
            by_stage.setdefault(beyond.stage, beyond)
    missing = [*_lacking(a, b), *_lacking(b, a), *shapes[:3]]
    if len(shapes) > 3:
        missing.append(f"{len(shapes) - 3} more tensors have other shapes")
    first = min(
        by_stage.values(), key=lambda found: (found.step, STAGES.index(found.stage)), default=None
    )
    return Divergence(first, first_bit, by_stage, tuple(missing))


def _elements(
    a: Trace, entry: Entry, b: Trace, other: Entry
) -> tuple[Element | None, Element | None]:
    """The element that differs most, and the same again where it is beyond roundings."""
    largest = magnitude = 0.0
    index = 0
    ends = np.empty(0), np.empty(0)
    for start, in_a, in_b in chunks(a, entry, b, other):
        if np.array_equal(in_a.view(np.int64), in_b.view(np.int64)):
            scale = np.abs(in_a)
            magnitude = float(scale[np.isfinite(scale)].max(initial=magnitude))
            continue
        with np.errstate(invalid="ignore", over="ignore"):
            difference = np.abs(in_a - in_b)
        finite = np.isfinite(in_a) & np.isfinite(in_b)
        same = (in_a == in_b) | (np.isnan(in_a) & np.isnan(in_b))
        difference = np.where(same, 0.0, np.where(finite, difference, np.inf))
        scale = np.maximum(np.abs(in_a), np.abs(in_b))
        magnitude = float(scale[finite].max(initial=magnitude))
        i = int(np.argmax(difference))
        if difference[i] > largest:
            largest, index = float(difference[i]), start + i
            ends = in_a[i : i + 1].copy(), in_b[i : i + 1].copy()
    if not largest:
        return None, None
    # The coarser of two dtypes: a float64 beside a float32 is not more exact.
    dtype = "float32" if "float32" in (entry.dtype, other.dtype) else entry.dtype
    allowed = allowance(dtype, entry.step) * magnitude if entry.step else 0.0
    found = Element(
        step=entry.step,
        stage=stage_of(entry) or START,
        quantity=entry.quantity,
        tensor=entry.tensor,
        index=index,
        a=float(ends[0][0]),
        b=float(ends[1][0]),
        ulp=float(ulps(*ends, dtype)[0]),
        difference=largest,
        allowed=allowed,
    )
    return found, found if found.difference > allowed else None


def _lacking(have: Trace, lack: Trace) -> Iterable[str]:
    """A sentence for each quantity and tensor that only one trace has."""
    keys = lack.by_key()
    absent: dict[tuple[str, str], list[int]] = {}
    for entry in have.entries:
        if entry.key not in keys and stage_of(entry) is not None:
            absent.setdefault((entry.quantity, entry.tensor), []).append(entry.step)
    # Libraries keep their states as they like, often one more or less: one sentence for all.
    states = [quantity for quantity, _ in absent if quantity.startswith("state.")]
    if states:
        yield f"{lack.run} has no {_some(list(dict.fromkeys(states)))}"
    by_quantity: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (quantity, tensor), steps in absent.items():
        if quantity not in states:
            by_quantity.setdefault((quantity, tuple(steps)), []).append(tensor)
    for (quantity, found), tensors in by_quantity.items():
        named = [tensor for tensor in tensors if tensor]
        of = f" of {_some(named)}" if named else ""
        when = f"step {found[0]}" if len(found) == 1 else f"steps {found[0]} to {found[-1]}"
        yield f"{lack.run} has no {quantity}{of} at {when}"


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
