"""An explanation of a recording, and how much has to be said of it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.diagnose import space
from pitb.diagnose.fit import Judged
from pitb.diagnose.space import Hypothesis

FROZEN = 3
"""What a weight of 1 counts as, in choices that have to be said."""


@dataclass
class Explanation:
    """A hypothesis that explains every number looked at, and what else would."""

    hypothesis: Hypothesis
    names: list[str]
    """Its continuous hyper-parameters."""
    judged: Judged
    rates: NDArray[np.float64]
    rates_found: bool
    """Whether the rates were fitted, not recorded."""
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By hyper-parameter, and ``lr`` where one rate was found for all updates."""
    tied: dict[str, list[Any]] = field(default_factory=dict)
    """Other values of choices of equation that explain it as well."""
    tied_options: dict[str, list[Any]] = field(default_factory=dict)
    """Other values of flags, counts and words that do."""
    rest: float = 0.0
    """Root mean square of what is left, in units in the last place and of the step."""
    checked: int = 0
    """Numbers that were held against it."""

    @property
    def changes(self) -> list[str]:
        """The options that are not at the library's defaults."""
        standard = space.defaults(self.hypothesis.optimizer, self.hypothesis.side)
        found = []
        for name, value in self.hypothesis.options.items():
            if name == space.SNAPSHOT or name in self.tied_options:
                continue
            usual: Any = standard.get(name)
            if isinstance(value, list):
                found += [
                    f"{name}[{i}]"
                    for i, item in enumerate(value)
                    if not _same(item, usual[i]) and not (name == "eps" and usual[i] is None)
                ]
            elif not _same(value, usual):
                found.append(name)
        return found

    @property
    def deviations(self) -> list[str]:
        """The choices of equation that are not the library's."""
        standard = space.base(self.hypothesis.optimizer, self.hypothesis.side).equations
        return [
            name
            for name in space.differences(standard, self.hypothesis.equations)
            if name not in self.tied
        ]

    @property
    def complexity(self) -> tuple[int, int, float]:
        """How much has to be said: choices, options and digits, then the residual."""
        digits = sum(
            len(f"{self.hypothesis.value(name):.15e}".partition("e")[0].rstrip("0")) > 6
            for name in self.names
            if self.hypothesis.value(name) is not None
        )
        said = 3 * len(self.deviations) + len(self.changes) + 2 * digits
        said += 2 * (self.hypothesis.clip is not None)
        # An average that never moves is nobody's choice.
        said += FROZEN * any(
            name.partition("[")[0] in space.WEIGHTS
            and float(self.hypothesis.value(name) or 0.0) > 1 - 1e-6
            for name in self.names
        )
        return said, len(self.hypothesis.options), self.judged.score


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-7 * abs(b)
    return bool(a == b)
