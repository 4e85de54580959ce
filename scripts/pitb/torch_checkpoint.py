"""Parameters and states of a PyTorch run in a file, and the run that goes on from it."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pitb.errors import PitbError
from pitb.files import replacing
from pitb.registry import plain
from pitb.torch_models import Model


@dataclass(frozen=True)
class Parts:
    """What a checkpoint holds the state of."""

    model: Model
    dtype: str
    optimizers: Sequence[torch.optim.Optimizer]
    schedulers: Sequence[Any]

    @property
    def items(self) -> tuple[Any, ...]:
        """All that has a state besides the model."""
        return (*self.optimizers, *self.schedulers)

    @property
    def identity(self) -> dict[str, str]:
        """What a run and the one that goes on from it have in common."""
        return {
            "problem": self.model.problem.name,
            "dtype": self.dtype,
            "optimizer": _names(self.optimizers),
            "scheduler": _names(self.schedulers),
        }


def save(path: Path, parts: Parts, updates: int) -> None:
    """Write what ``parts`` are after so many updates.

    Raises:
        PitbError: The file cannot be written.
    """
    buffer = io.BytesIO()
    saved = {
        "of": parts.identity,
        "updates": updates,
        "model": parts.model.state_dict(),
        "states": [item.state_dict() for item in parts.items],
    }
    torch.save(saved, buffer)
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getvalue())


def load(path: Path, parts: Parts, updates: int) -> None:
    """Take up what `save` wrote after so many updates.

    Raises:
        PitbError: It is no such file, or another run has saved it.
    """
    try:
        saved = torch.load(path, weights_only=True)
        _check(saved, parts, updates)
        parts.model.load_state_dict(saved["model"])
        for item, state in zip(parts.items, saved["states"], strict=True):
            item.load_state_dict(state)
    except PitbError as error:
        raise PitbError(f"{path} cannot be resumed from: {error}") from None
    except Exception as error:  # whatever PyTorch raises of a file
        first = (str(error).splitlines() or [""])[0]
        raise PitbError(f"{path} cannot be resumed from: {type(error).__name__}: {first}") from None


def _check(saved: Any, parts: Parts, updates: int) -> None:
    """Refuse what another run has saved, of which PyTorch takes whatever fits by its shape.

    Raises:
        PitbError: Says what the other run had.
    """
    if not isinstance(saved, dict) or set(saved) != {"of", "updates", "model", "states"}:
        raise PitbError("it holds no parameters and states of a run")
    for key, wanted in parts.identity.items():
        if saved["of"].get(key) != wanted:
            found = saved["of"].get(key)
            raise PitbError(f"it was saved by a run with the {key} {found}, not {wanted}")
    if saved["updates"] != updates:
        message = f"it was saved after {saved['updates']} updates"
        raise PitbError(f'{message}, but "resume_step" is {updates}')
    # PyTorch takes the options from the file, whatever the run was given.
    for item, state in zip(parts.optimizers, saved["states"], strict=False):
        for ours, theirs in zip(item.param_groups, state["param_groups"], strict=False):
            for key in item.defaults:
                if key == "lr" and parts.schedulers:
                    continue  # it changes as the run goes
                a, b = plain(theirs.get(key)), plain(ours[key])
                if a != b:
                    raise PitbError(f"it was saved by a run with {key}={a!r}, not {b!r}")


def _names(items: Sequence[Any]) -> str:
    return ", ".join(type(item).__name__ for item in items) or "none"
