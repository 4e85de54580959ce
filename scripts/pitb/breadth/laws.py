"""How far apart two traces may be: a law for each kind of case, with its reason.

A tolerance is relative to the largest magnitude that the quantity has had in its tensor so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pitb.breadth.cases import LONG, Case
from pitb.problems import problem

EPSILON = {dtype: float(np.finfo(dtype).eps) for dtype in ("float32", "float64")}
BFLOAT16 = 2.0**-7
ACROSS = "pytorch--burn"
MOST = 0.1
"""The largest relative tolerance that is a tolerance; what needs more is left undecided."""


@dataclass(frozen=True)
class Law:
    """``base * (1 + slope * step)``, or what the case's own sensitivity demands if that is more."""

    name: str
    base: float
    slope: float
    reason: str
    sensitivity: float = 0.0
    """How many times the reference's own response to a nudge of one unit in the last place at each
    update is allowed; 0 where the law does not look at it."""
    nudge: float = 0.0
    """The size of that nudge."""
    nudges: int = 1
    """How many patterns of it are tried."""
    narrow: bool = False
    """Whether the reference computed in float32 counts as another one."""

    def tolerance(self, step: int, response: Sequence[float] = ()) -> float:
        """The relative tolerance at ``step``.

        Args:
            step: The number of updates.
            response: The relative response to the nudge after each update, from update 0.
        """
        line = self.base * (1.0 + self.slope * step)
        if not self.sensitivity or not response:
            return line
        # The response is one sample of many roundings: the largest so far is the better estimate.
        seen = [value for value in response[: step + 1] if np.isfinite(value)]
        return max(line, self.sensitivity * max(seen, default=0.0))

    @staticmethod
    def decides(tolerance: float) -> bool:
        """Whether a difference within ``tolerance`` says anything: beyond, roundings decide."""
        return tolerance <= MOST

    def json(self) -> dict[str, Any]:
        """As the tables show it."""
        growth = f"1 + {self.slope:g} step" if self.slope else "constant"
        if self.sensitivity:
            growth = f"{growth}, or {self.sensitivity:g} times the response to a nudge"
        return {"law": self.name, "base": self.base, "growth": growth, "reason": self.reason}


_F64 = Law(
    "float64", 1e-12, 0.0, "both sides compute the same formula in float64, rounded differently"
)
_F32 = Law(
    "float32",
    24 * EPSILON["float32"],
    1.0,
    "each update rounds parameter, state and gradient to float32 once more",
)
_SENSITIVE = (
    "the run itself magnifies roundings: where it does, the reference's response to a nudge of "
    "one unit in the last place at each update says by how much"
)
_F64_SENSITIVE = Law(
    "float64-sensitive", 1e-12, 0.0, _SENSITIVE, sensitivity=100.0, nudge=EPSILON["float64"]
)
_F32_SENSITIVE = Law(
    "float32-sensitive",
    _F32.base,
    _F32.slope,
    _SENSITIVE,
    sensitivity=100.0,
    nudge=EPSILON["float32"],
)
_BRANCHES = (
    "L-BFGS evaluates and branches many times within an update, on losses and slopes that it sees "
    "rounded: the reference's response to nudges of every evaluation says by how much"
)
_F64_BRANCHES = replace(
    _F64_SENSITIVE, name="float64-branches", reason=_BRANCHES, nudges=3, sensitivity=30.0
)
_F32_BRANCHES = replace(
    _F32_SENSITIVE,
    name="float32-branches",
    reason=_BRANCHES,
    nudges=5,
    sensitivity=60.0,
    narrow=True,
)
_BFLOAT16_OWN = Law(
    "bfloat16",
    1e-4,
    2.0,
    "PyTorch iterates Newton-Schulz in bfloat16 whatever the dtype, and so does the reference; now "
    "and then a matrix product that is summed in another order is rounded to the next bfloat16",
)
_BFLOAT16 = Law(
    "bfloat16-across",
    0.5 * BFLOAT16,
    0.5,
    "PyTorch iterates Newton-Schulz in bfloat16 whatever the dtype, burn in the dtype",
)
_F32_DIFFERENCE = Law(
    "float32-difference",
    48 * EPSILON["float32"],
    1.0,
    "Adan keeps the difference of two gradients: what is alike cancels, and roundings do not",
)
_SCALARS = Law(
    "scalars",
    64 * EPSILON["float32"],
    1.0,
    "burn computes 1 - beta of a hyper-parameter in float32, which then differs by thousands of "
    "times what the hyper-parameter itself does",
)
LAWS = (
    _F64,
    _F32,
    _F64_SENSITIVE,
    _F32_SENSITIVE,
    _F64_BRANCHES,
    _F32_BRANCHES,
    _BFLOAT16_OWN,
    _BFLOAT16,
    _F32_DIFFERENCE,
    _SCALARS,
)


def is_sensitive(case: Case) -> bool:
    """Whether a case is one whose roundings are known to grow by the run's own doing."""
    if case.problem == "rosenbrock":
        return True
    return case.steps == LONG and problem(case.problem).model != "prescribed"


def keeps_averages(case: Case) -> bool:
    """Whether an optimizer weighs old and new by ``beta`` and 1 - beta, or alpha and 1 - alpha."""
    names = {item.pytorch_name for item in case.entry.hyperparameters}
    return bool(names & {"betas", "alpha"})


def law(case: Case, pair: str) -> Law:
    """The law for a case and a pair, ``pytorch--reference``, ``burn--reference``, or
    ``pytorch--burn``.
    """
    narrow = case.dtype == "float32"
    if case.optimizer == "Muon" and pair == ACROSS:
        return _BFLOAT16
    if case.optimizer == "Muon" and "pytorch" in pair:
        return _BFLOAT16_OWN
    if case.optimizer == "LBFGS":
        return _F32_BRANCHES if narrow else _F64_BRANCHES
    if is_sensitive(case):
        return _F32_SENSITIVE if narrow else _F64_SENSITIVE
    if pair == ACROSS and keeps_averages(case) and narrow:
        return _SCALARS
    if case.optimizer == "Adan" and narrow:
        return _F32_DIFFERENCE
    return _F32 if narrow else _F64
