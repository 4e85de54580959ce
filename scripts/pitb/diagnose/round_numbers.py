"""Round numbers tried as they are, where bfloat16 leaves no slope that leads to them.

Newton-Schulz in bfloat16 magnifies a rounding of the momentum's smallest singular values, so that
an update a thousandth beside the right number may be as far off as any other, while the right one
explains every bit. People choose round numbers, and coefficients that were published.
"""

from collections.abc import Iterator

from pitb.diagnose import space
from pitb.diagnose.polynomial import COEFFICIENTS, COUNT, MOST
from pitb.diagnose.space import Hypothesis

MOMENTA = (0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
PUBLISHED = ((1.5, -0.5, 0.0), (1.875, -1.25, 0.375), (2.0, -1.5, 0.5))
"""Coefficients besides the libraries' own: the cubic and the quintic iteration of Newton and
Schulz (Bernstein and Newhouse, 2024), and the quintic that Jordan et al. (2024) begin from."""


def usual(hypothesis: Hypothesis) -> Iterator[Hypothesis]:
    """The hypothesis with other usual momenta, and with other published coefficients."""
    flags = [hypothesis, *(h for n, h in space.option_alternatives(hypothesis) if n == "nesterov")]
    for flag in flags:
        for momentum in MOMENTA:
            yield from _worded(flag.having("momentum", momentum))
    known = [space.base("Muon", side).options[COEFFICIENTS] for side in space.SIDES]
    for flag in flags:
        for values in dict.fromkeys([*map(tuple, known), *PUBLISHED]):
            for count in range(1, MOST + 1):
                yield from _worded(flag.having(COEFFICIENTS, list(values)).having(COUNT, count))


def _worded(hypothesis: Hypothesis) -> Iterator[Hypothesis]:
    yield hypothesis
    for name, other in space.option_alternatives(hypothesis):
        if isinstance(hypothesis.options[name], (str, type(None))):
            yield other
