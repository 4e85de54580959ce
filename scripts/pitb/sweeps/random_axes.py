"""Seeded draws: a value depends on the seed, the axis and the number of the point alone.

So that another axis, or more points, leave what was drawn as it is.
"""

import hashlib
import math
from typing import Any

KINDS = {
    "choice": "a list of values",
    "uniform": "two numbers, the least and the most",
    "log_uniform": "two numbers above 0, the least and the most",
    "integers": "two whole numbers, the least and the most",
}
SIGNIFICANT = 6
"""Digits of a drawn number: it can be written down, and rounds the same on every machine."""


def is_distribution(value: Any) -> bool:
    """Whether an axis is drawn, and not one value for all points."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in KINDS


def wrong(value: dict[str, Any]) -> str | None:
    """What is wrong with a distribution, in words, or None."""
    ((kind, given),) = value.items()
    if kind == "choice":
        fits = isinstance(given, list) and bool(given)
    else:
        fits = isinstance(given, list) and len(given) == 2 and all(map(_is_number, given))
        fits = fits and given[0] <= given[1]
        if kind == "log_uniform":
            fits = fits and given[0] > 0
        if kind == "integers":
            fits = fits and all(isinstance(item, int) for item in given)
    return None if fits else f"{kind} is {given}, but must be {KINDS[kind]}"


def draw(value: dict[str, Any], seed: int, axis: str, number: int) -> Any:
    """A value of an axis for the point of that number."""
    raw = hashlib.sha256(f"{seed}/{axis}/{number}".encode()).digest()
    share = int.from_bytes(raw[:7], "big") / 2**56  # 0 or more and less than 1
    ((kind, given),) = value.items()
    if kind == "choice":
        return given[int(share * len(given))]
    low, high = given
    if kind == "integers":
        return low + int(share * (high - low + 1))
    if kind == "log_uniform":
        found = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:
        found = low + share * (high - low)
    return min(max(float(f"{found:.{SIGNIFICANT}g}"), low), high)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
