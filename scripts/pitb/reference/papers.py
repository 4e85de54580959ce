"""What the papers say of the optimizers that PyTorch itself lacks, as values of the choices.

Only choices that the paper settles stand here. Python's best-kept implementation of these (timm's)
and burn's are held against them in :mod:`pitb.breadth.papers`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Paper:
    """The algorithm of a paper."""

    source: str
    choices: Mapping[str, Any]
    """Values of :class:`~pitb.reference.equations.Equations`."""


PAPERS: Mapping[str, Paper] = {
    "Lion": Paper(
        "Chen et al., arXiv:2302.06675, algorithm 2",
        {
            "decay": "decoupled",
            "decay_rate": "lr",
            "lion_order": "interpolate-then-update",
            "lion_sign": "sign",
        },
    ),
    "Lamb": Paper(
        "You et al., arXiv:1904.00962, algorithm 2",
        {
            "decay": "coupled",
            "lamb_decay": "in-update",
            "bias_correction": "both",
            "epsilon": "outside",
            "trust_ratio": "always",
            "step_counter": "parameter",
        },
    ),
    "Adan": Paper(
        "Xie et al., arXiv:2208.06677, algorithm 1",
        {
            "averages_start": "gradient",
            "bias_correction": "none",
            "difference": "kept",
            "epsilon": "outside",
            "prox": "flag",
        },
    ),
}
"""By PyTorch's (timm's) names of the optimizers."""
