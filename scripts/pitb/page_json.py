"""The JSON of the pages' own programs, made from a trace; the burn programs write the same."""

import math
from typing import Any

from pitb.trace import Entry, Trace


def step_json(recorded: Trace) -> dict[str, Any]:
    """The first step in the structure that both sides share, values as nested lists."""

    if recorded.error is not None:
        return {"error": recorded.error}
    (logits,) = recorded.select(1, "logits")
    return {
        "logits": _nested(recorded, logits),
        "loss": _plain(float(recorded.find(1, "loss")[0])),
        "grads": _by_tensor(recorded, 1, "grad"),
        "params_after": _by_tensor(recorded, 1, "param"),
        "loss_after": _plain(float(recorded.find(2, "loss")[0])),
    }


def clip_json(recorded: Trace) -> dict[str, Any]:
    """The parameters after the step, as nested lists."""
    return _by_tensor(recorded, 1, "param")


def steps_json(recorded: Trace) -> dict[str, Any]:
    """The loss before and the parameters after each update, values as nested lists."""
    steps = int(recorded.configuration["steps"])
    return {
        "steps": [
            {
                "loss": _plain(float(recorded.find(step, "loss")[0])),
                "params_after": _by_tensor(recorded, step, "param"),
            }
            for step in range(1, steps + 1)
        ]
    }


def _by_tensor(recorded: Trace, step: int, quantity: str) -> dict[str, Any]:
    return {entry.tensor: _nested(recorded, entry) for entry in recorded.select(step, quantity)}


def _nested(recorded: Trace, entry: Entry) -> Any:
    return _plain(recorded.of(entry).reshape(entry.shape).tolist())


def _plain(value: Any) -> Any:
    """What JSON has no number for becomes text: "nan", "inf", "-inf"."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if math.isfinite(value) else str(value)
