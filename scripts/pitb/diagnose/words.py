"""Explanations in plain words."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pitb.diagnose import space
from pitb.diagnose.clips import Clip
from pitb.diagnose.explanation import Explanation
from pitb.diagnose.space import Hypothesis

PLACES = {
    "outside": "outside the root",
    "inside": "under the root",
    "before-correction": "added before the bias correction",
}
LIBRARIES = {"pytorch": "PyTorch", "burn": "burn"}
WIDE = 1.2
"""Ratio of the ends of an interval beyond which it is said how wide it is."""


def number(value: Any) -> str:
    """A number with the digits it needs, 1e-5 and not 1e-05."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return str(value)
    text = f"{value:.6g}"
    base, e, exponent = text.partition("e")
    return f"{base}e{int(exponent)}" if e else base


def label(hypothesis: Hypothesis, name: str) -> str:
    """A hyper-parameter as people call it."""
    for item in hypothesis.entry.hyperparameters:
        if item.pytorch == name:
            return {"eps": "epsilon"}.get(item.label, item.label)
    if name.startswith("clip."):
        return "the limit of the clip"
    return "rate" if name == "lr" else name.replace("_", " ").replace(".", " ")


def listed(items: list[str]) -> str:
    """a, b and c."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def settings(item: Explanation) -> list[str]:
    """What is to be said of an explanation's values: those that not all libraries have."""
    hypothesis, found = item.hypothesis, []
    standards = [space.defaults(hypothesis.optimizer, side) for side in space.SIDES]
    for name, value in hypothesis.options.items():
        if name == space.SNAPSHOT or name in item.tied_options:
            continue
        if isinstance(value, list):
            pairs = [
                (f"{name}[{i}]", x, [s[name][i] for s in standards]) for i, x in enumerate(value)
            ]
        else:
            pairs = [(name, value, [s[name] for s in standards if name in s])]
        for full, x, usual in pairs:
            if any(_differs(x, u) for u in usual) and not _is_moot(item, full, x):
                found.append(_setting(item, full, x))
    if hypothesis.clip is not None:
        found.append(clip_words(hypothesis.clip))
    return found


def _differs(a: Any, b: Any) -> bool:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) > 1e-6 * abs(b)
    return bool(a != b) and not (a in (None, "original") and b in (None, "original"))


def _is_moot(item: Explanation, name: str, value: Any) -> bool:
    """Whether a number is off, and would not show."""
    if name not in item.intervals:
        return space.is_number(value)
    low, high = item.intervals[name]
    bounds = space.bounds(name)
    return low <= bounds[0] and high >= min(bounds[1], 1e12)


def _setting(item: Explanation, name: str, value: Any) -> str:
    text = label(item.hypothesis, name)
    if isinstance(value, bool):
        return text if value else f"no {text}"
    if value is None:
        return f"no {text}"
    found = f"{text} {number(value)}"
    eq = item.hypothesis.equations
    other = set(item.tied.get("epsilon", []))
    in_doubt = "inside" in other if eq.epsilon != "inside" else bool(other)
    if name == "eps" and not in_doubt and "epsilon" in space.reads(item.hypothesis)[0]:
        found += f" {PLACES[eq.epsilon]}"
    return found


def clip_words(how: dict[str, Any]) -> str:
    """A clip."""
    late = f" from step {how['first_step']} on" if how.get("first_step", 1) > 1 else ""
    if how["scope"] == "value":
        return f"gradients clipped to {number(how['clip_value'])} number by number{late}"
    where = "all tensors together" if how["scope"] == "global" else "each tensor alone"
    p = how.get("norm_type", 2.0)
    return f"gradients clipped to a {number(p)}-norm of {number(how['max_norm'])}, {where}{late}"


def deviations(item: Explanation) -> list[str]:
    """The choices of equation that its library does not have."""
    standard = space.base(item.hypothesis.optimizer, item.hypothesis.side).equations
    return [
        f"{name}={choice(item.hypothesis.equations.value(name))} instead of "
        f"{choice(standard.value(name))}"
        for name in item.deviations
    ]


def choice(value: Any) -> str:
    """The value of a choice of equation."""
    if isinstance(value, frozenset):
        return "+".join(sorted(value)) or "none"
    return str(value)


def rate_words(item: Explanation) -> str:
    """The rates."""
    rates = item.rates
    low, high = float(np.min(rates)), float(np.max(rates))
    if high - low <= 1e-6 * high:
        return f"at rate {number(float(rates[0]))}"
    return f"at rates from {number(float(rates[0]))} to {number(float(rates[-1]))}"


def summary(item: Explanation) -> str:
    """An explanation in one clause."""
    said = settings(item)
    text = item.hypothesis.optimizer
    if said:
        text += f" with {listed(said)}"
    own = LIBRARIES[item.hypothesis.side]
    if not item.changes and not item.deviations and item.hypothesis.clip is None:
        text += f" ({own}'s defaults)" if said else ""
    odd = deviations(item)
    if odd:
        text += f", with {listed(odd)}, which {own} does not have"
    text += f", {rate_words(item)}"
    if item.rates_found:
        text += " (found, not recorded)"
    return f"{text}; residual {item.judged.ulp:.1f} ulp"


def undecided(item: Explanation, steps: int) -> Iterator[str]:
    """What the data cannot tell apart, a sentence each."""
    hypothesis = item.hypothesis
    span = f"these {steps} steps" if steps > 1 else "this one step"
    hidden, anything = [], []
    for name, (low, high) in item.intervals.items():
        text, bounds = label(hypothesis, name), space.bounds(name)
        if name == "lr":
            continue
        if low <= bounds[0] and (high >= bounds[1] or high > 1e9):
            anything.append(text)
        elif low <= 0.0 and bounds[0] == 0.0:
            hidden.append(f"{text} below {high:.1g}".replace("e-0", "e-"))
        elif low > 0 and high / low > WIDE:
            edge = "any larger value" if not np.isfinite(high) else number(float(f"{high:.3g}"))
            yield f"{text} could be anything from {number(float(f'{low:.3g}'))} to {edge}"
    if hidden:
        yield f"{listed(hidden)} would not show in {span}"
    if anything:
        yield f"{listed(anything)} could be anything in {span}"
    for name, values in item.tied_options.items():
        mine = hypothesis.options[name]
        words = _choices([mine, *values])
        yield f"{label(hypothesis, name)} could be {' or '.join(words)}"
    if item.tied:
        each = [
            f"{name} ({' or '.join(map(choice, (hypothesis.equations.value(name), *values)))})"
            for name, values in item.tied.items()
        ]
        yield f"these choices of equation make no difference here: {', '.join(each)}"


def _choices(values: list[Any]) -> list[str]:
    """Values in words; whole numbers that follow each other as a span."""
    if len(values) < 4 or not all(type(value) is int for value in values):
        return [number(v) if v is not None else "none" for v in values]
    spans: list[list[int]] = []
    for value in sorted(values):
        if spans and spans[-1][1] == value - 1:
            spans[-1][1] = value
        else:
            spans.append([value, value])
    return [f"{a}" if a == b else f"from {a} to {b}" for a, b in spans]


def clip_found(clip: Clip) -> str:
    """The clip that a trace shows, in a sentence."""
    if not clip.explained:
        return "between 'grad' and 'clipped_grad' something was done that no known clip does"
    if not clip.how:
        return "clipping is recorded, and never clipped anything: its limit cannot be told"
    text = clip_words(clip.how)
    if clip.others:
        text += f"; or {'; or '.join(clip_words(how) for how in clip.others)}"
    return text
