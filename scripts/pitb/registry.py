"""The one list of optimizers, hyper-parameters and states, and of their names on both sides."""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Hyperparameter:
    """One hyper-parameter under both names."""

    pytorch: str
    """PyTorch's name; ``betas[0]`` is the first of a tuple."""
    burn: str
    """Path into burn's configuration; dots reach into nested ones."""
    label: str
    off: float | None = None
    """The value that switches it off, as null does in burn; None where it has no such value."""
    when: str | None = None
    """The burn sub-configuration whose own defaults hold where that part is on."""


@dataclass(frozen=True)
class Optimizer:
    """One optimizer under both names."""

    pytorch: str
    burn: str
    family: str
    hyperparameters: tuple[Hyperparameter, ...]
    pytorch_only: tuple[str, ...]
    """Options that burn has no counterpart of."""
    burn_only: tuple[str, ...]
    """Fields that PyTorch has no counterpart of."""
    state: dict[str, str]
    """PyTorch's state names to burn's."""

    @property
    def burn_config(self) -> str:
        """Name of burn's configuration, ``RmsPropConfig``."""
        return f"{self.burn}Config"


@cache
def optimizers() -> tuple[Optimizer, ...]:
    """All optimizers that both sides have and that this project knows the names of."""
    text = resources.files("pitb").joinpath("optimizers.json").read_text(encoding="utf-8")
    return tuple(
        Optimizer(
            pytorch=entry["pytorch"],
            burn=entry["burn"],
            family=entry["family"],
            hyperparameters=tuple(Hyperparameter(**item) for item in entry["hyperparameters"]),
            pytorch_only=tuple(entry["pytorch_only"]),
            burn_only=tuple(entry["burn_only"]),
            state=entry["state"],
        )
        for entry in json.loads(text)["optimizers"]
    )
