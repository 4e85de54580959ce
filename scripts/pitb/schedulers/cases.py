"""The schedules that both libraries are asked for, from ``schedulers.json``."""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Case:
    """One schedule on both sides."""

    name: str
    steps: int
    base: list[float]
    """The rates that PyTorch's parameter groups start with."""
    burn: dict[str, Any] | None
    """``LrSchedulerConfig`` as JSON, or None where burn has none."""
    pytorch: dict[str, Any] | None
    """A class of ``torch.optim.lr_scheduler`` and its arguments, or None where it has none."""
    note: str = ""
    """Why a side has none, or what is behind a difference."""
    resume_at: int | None = None
    """Updates before the state is saved and loaded; half of the steps where None."""
    group: int = 0
    """The parameter group whose rates are asked for."""
    metrics: tuple[float, ...] = ()
    """What ReduceLROnPlateau is told after each update."""

    @property
    def resumed_after(self) -> int:
        """Updates before the state is saved and loaded."""
        return self.steps // 2 if self.resume_at is None else self.resume_at


_TEXT = resources.files("pitb").joinpath("schedulers.json").read_text(encoding="utf-8")
CASES = tuple(Case(**case) for case in json.loads(_TEXT)["cases"])
