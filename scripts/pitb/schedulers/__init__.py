"""Learning-rate schedules of burn and PyTorch: the rates of each update, and how they relate.

`cases` lists what is asked for, `sides` has the rates of the libraries and of their descriptions
in `reference`, and `judge` says which of them agree, to how many ulp.
"""

from pitb.schedulers.cases import CASES, Case
from pitb.schedulers.judge import Row, coverage, judge, kills, mutants, totals
from pitb.schedulers.sides import (
    Outcome,
    burn_rates,
    burn_variants,
    pytorch_classes,
    pytorch_rates,
    pytorch_scheduler,
    reference_rates,
)

__all__ = [
    "CASES",
    "Case",
    "Outcome",
    "Row",
    "burn_rates",
    "burn_variants",
    "coverage",
    "judge",
    "kills",
    "mutants",
    "pytorch_classes",
    "pytorch_rates",
    "pytorch_scheduler",
    "reference_rates",
    "totals",
]
