"""Which updates of a trace can be replayed, and what is amiss with the others."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose.reading import GRADIENTS, STATE, Values
from pitb.errors import PitbError, nearest
from pitb.trace import Entry


def check_names(entries: list[Entry], shapes: dict[str, tuple[int, ...]], path: str) -> None:
    """Refuse gradients that belong to no parameter.

    Raises:
        PitbError: There are some; proposes which they may belong to.
    """
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


def updates(
    entries: Sequence[Entry],
    values: Values,
    shapes: dict[str, tuple[int, ...]],
    path: str,
    notes: list[str],
) -> list[int]:
    """The updates that are whole and finite, with the parameters before them.

    Where no states are recorded, nothing can be replayed after one that is amiss.

    Raises:
        PitbError: There is none; says what to record.
    """
    held = sorted({e.step for e in entries if e.quantity == "param"})
    if len(held) == 1:
        raise PitbError(
            f"{path} is too short: it holds parameters at step {held[0]} alone; record them after "
            "each update, too"
        )
    states = any(key[1].startswith(STATE) for key in values)
    seen: dict[int, set[str]] = {}
    for key in values:
        seen.setdefault(key[0], set()).add(key[1])
    found: list[int] = []
    for step in range(held[0] + 1, held[-1] + 1):
        if not seen.get(step, set()) & {"lr", *GRADIENTS} and not {step, step - 1} <= set(held):
            continue  # not recorded, or recorded for the sake of the next one
        reason, lost = _amiss(step, values, shapes, seen)
        if not reason:
            found.append(step)
            continue
        if not found and not states:
            raise PitbError(
                f"{path}: {reason}, so that no update can be replayed; record 'param' and 'grad' "
                "at every step from the first on"
            )
        if states and not lost:
            notes.append(f"{reason}; it was left out")
            continue
        until = (
            f"step {found[0]} was" if len(found) == 1 else f"steps {found[0]} to {found[-1]} were"
        )
        if not found:
            break
        notes.append(f"{reason}; only {until} looked at")
        break
    if not found:
        raise PitbError(
            f"{path}: no update has parameters before and after it and gradients; record 'param', "
            "'grad' and 'state' before and after each update"
        )
    if len(found) < found[-1] - found[0] + 1 and not states:
        notes.append(
            "updates are left out between those recorded, and no states: the optimizer was taken "
            "to remember nothing; record 'state' before each update if it does"
        )
    return found


def _amiss(
    step: int, values: Values, shapes: dict[str, tuple[int, ...]], seen: dict[int, set[str]]
) -> tuple[str, bool]:
    """Why an update cannot be replayed, and whether none after it can; no text where it can."""
    for at in (step - 1, step):
        lacking = [name for name in shapes if (at, "param", name) not in values]
        if lacking:
            what = "the parameters" if len(lacking) == len(shapes) else lacking[0]
            return f"step {at} lacks {what}", False
    if "grad" not in seen[step] and any(
        (values[step, "param", n] != values[step - 1, "param", n]).any() for n in shapes
    ):
        return f"step {step} lacks the gradients", False
    for name in shapes:
        for quantity in ("param", *GRADIENTS):
            value = values.get((step, quantity, name))
            if value is None or np.isfinite(value).all():
                continue
            i = int(np.flatnonzero(~np.isfinite(value))[0])
            return f"{quantity} of {name} at step {step} is {value[i]} at index {i}", True
    return "", False


def evaluations(values: Values, steps: Sequence[int]) -> NDArray[np.int64] | None:
    """How often the loss was evaluated in each update, where an optimizer keeps count."""
    found = []
    for k in steps:
        if (k, "state.evaluations", "") in values:
            found.append(int(values[k, "state.evaluations", ""][0]))
            continue
        total = [_counted(values, at) for at in (k - 1, k)]
        if total[1] is None or (total[0] is None and k > 1):
            return None
        found.append(total[1] - (total[0] or 0))
    return np.array(found, dtype=np.int64)


def _counted(values: Values, step: int) -> int | None:
    """``func_evals`` of the one state, or of the first tensor that keeps it."""
    return next(
        (int(v[0]) for (k, q, _), v in values.items() if k == step and q == "state.func_evals"),
        None,
    )
