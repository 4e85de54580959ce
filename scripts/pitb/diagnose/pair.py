"""Two diagnoses side by side, and the change that would bring the two together."""

from typing import Any

import numpy as np

from pitb.diagnose import space, words
from pitb.diagnose.diagnosis import Diagnosis, Group
from pitb.diagnose.explanation import Explanation
from pitb.diagnose.recording import Recording, common_name

ROUNDED = "the equation's float32"
ROUNDING = (
    ", but for hyper-parameters that one library rounds to float32 and the other does not, which "
    "no option changes"
)
Difference = tuple[str, str, str]
"""What differs, and its value on either side."""


def sentence(a: Diagnosis, b: Diagnosis) -> str:
    """What to change on either side, in one sentence."""
    for diagnosis in (a, b):
        if not diagnosis.explained:
            return f"no change can be named, since nothing explains {diagnosis.recording.path}"
    said = []
    rounded = False
    for mine, other in _groups(a, b):
        found = differences(mine, other)
        rounded |= any(name == ROUNDED for name, _, _ in found)
        found = [item for item in found if item[0] != ROUNDED]
        where = ""
        if len(a.groups) > 1 or len(b.groups) > 1:
            shared = [name for name in mine.tensors if name in other.tensors] or mine.tensors
            where = f"for {common_name(shared)} "
        if found:
            first = words.listed([f"{name} to {theirs}" for name, _, theirs in found])
            second = words.listed([f"{name} to {ours}" for name, ours, _ in found])
            said.append(f"{where}set {first} in the first, or {second} in the second")
    clips = [None if d.clip is None or not d.clip.how else d.clip.how for d in (a, b)]
    if _clip(clips[0]) != _clip(clips[1]):
        said.append(f"clip alike: {_clip(clips[0])} in the first, {_clip(clips[1])} in the second")
    rest = ROUNDING if rounded else ""
    if not said:
        return f"nothing needs to change: one configuration explains both traces{rest}"
    return f"to bring them together, {'; '.join(said)}{rest}"


def _clip(how: dict[str, Any] | None) -> str:
    return "none" if how is None else words.clip_words(how)


def _groups(a: Diagnosis, b: Diagnosis) -> list[tuple[Group, Group]]:
    found = []
    for mine in a.groups:
        for other in b.groups:
            if set(mine.tensors) & set(other.tensors):
                found.append((mine, other))
    return found or [(a.groups[0], b.groups[0])]


def differences(a: Group, b: Group) -> list[Difference]:
    """Where the two explanations that lie nearest to each other differ."""
    pairs = [(_between(x, y), x, y) for x in a.explanations for y in b.explanations]

    def distance(pair: tuple[list[Difference], Explanation, Explanation]) -> tuple[int, int]:
        found, x, y = pair
        # An optimizer's name weighs more than its values; then the simplest of each.
        other = x.hypothesis.optimizer != y.hypothesis.optimizer
        return len(found) + 10 * other, a.explanations.index(x) + b.explanations.index(y)

    return min(pairs, key=distance)[0]


def _between(x: Explanation, y: Explanation) -> list[Difference]:
    a, b = x.hypothesis, y.hypothesis
    if a.optimizer != b.optimizer and a.function is not b.function:
        return [("the optimizer", words.summary(x), words.summary(y))]
    found: list[Difference] = []
    for name in dict.fromkeys((*x.intervals, *y.intervals)):
        if name != "lr" and not _overlap(x, y, name):
            found.append((name, _value(x, name), _value(y, name)))
    for name, value in a.options.items():
        other = b.options.get(name)
        if not isinstance(value, (bool, str)) and value is not None:
            continue
        if name not in b.options or value == other or {value, other} <= {None, "original"}:
            continue
        if other in x.tied_options.get(name, []) or value in y.tied_options.get(name, []):
            continue
        if f"{name}" not in space.reads(a)[1] | space.reads(b)[1] | {"maximize", space.OWN_LIMIT}:
            continue
        found.append((name, words.number(value), words.number(other)))
    for name in sorted(space.reads(a)[0] & space.reads(b)[0]):
        mine, theirs = a.equations.value(name), b.equations.value(name)
        if mine == theirs:
            continue
        if theirs in x.tied.get(name, []) or mine in y.tied.get(name, []):
            continue
        found.append((f"the equation's {name}", words.choice(mine), words.choice(theirs)))
    steps = min(len(x.rates), len(y.rates))
    if not np.allclose(x.rates[:steps], y.rates[:steps], rtol=1e-5):
        found.append(("the rate", words.rate_words(x)[3:], words.rate_words(y)[3:]))
    return found


def _overlap(x: Explanation, y: Explanation, name: str) -> bool:
    """Whether one value of a number is possible on both sides."""
    ends = []
    for item in (x, y):
        if name in item.intervals:
            ends.append(item.intervals[name])
        else:
            try:
                value = float(item.hypothesis.value(name) or 0.0)
            except (KeyError, TypeError):
                value = 0.0  # the other side has no such option
            ends.append((value, value))
    low, high = max(end[0] for end in ends), min(end[1] for end in ends)
    return low <= high * (1 + 1e-6) + 1e-300


def _value(item: Explanation, name: str) -> str:
    try:
        return words.number(item.hypothesis.value(name))
    except KeyError:
        return "0"


def proposals(a: Recording, b: Recording) -> list[str]:
    """Tensors of two traces that are the same under another name, or transposed: by their initial
    values."""
    found = []
    free = [name for name in b.names if name not in a.names or not _same(a, b, name, name)]
    for name in a.names:
        if name in b.names and _same(a, b, name, name):
            continue
        for other in free:
            turned = _turned(a, b, name, other)
            if turned is None or (other == name and not turned):
                continue
            found.append(
                f"{other} of {b.path} is {name} of {a.path}"
                f"{', transposed' if turned else ''}: --map {other}={name}{'.T' if turned else ''}"
            )
            break
    return found


def _same(a: Recording, b: Recording, name: str, other: str) -> bool:
    return a.shapes[name] == b.shapes[other] and bool(
        np.array_equal(a.before[name][0], b.before[other][0])
    )


def _turned(a: Recording, b: Recording, name: str, other: str) -> bool | None:
    """Whether a tensor is another transposed; None where it is not that tensor at all."""
    if _same(a, b, name, other):
        return False
    shape = a.shapes[name]
    if len(shape) == 2 and b.shapes[other] == shape[::-1]:
        mine = a.before[name][0].reshape(shape).T.reshape(-1)
        if np.array_equal(mine, b.before[other][0]):
            return True
    return None
