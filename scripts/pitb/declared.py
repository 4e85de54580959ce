"""What the sources of both libraries declare, recorded, so that neither has to be installed.

``make libraries`` records it anew; the tests hold it against the installed sources.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Field:
    """One field of a configuration of burn's."""

    name: str
    type: str
    """In Rust, ``Option<WeightDecayConfig>``."""
    default: str | None = None
    """In Rust; None where ``new`` takes the field as an argument."""
    public: bool = False
    """Whether it can be set without its ``with_*`` method."""

    @property
    def optional(self) -> bool:
        """Whether it is an ``Option``."""
        return self.type.startswith("Option<")

    @property
    def inner(self) -> str:
        """The type within the ``Option``, or the type."""
        return self.type.removeprefix("Option<").removesuffix(">") if self.optional else self.type

    @property
    def required(self) -> bool:
        """Whether ``new`` takes it."""
        return self.default is None


@cache
def recorded() -> dict[str, Any]:
    """Everything, as ``declarations.read`` gives it."""
    text = resources.files("pitb").joinpath("declared.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def structs() -> dict[str, tuple[Field, ...]]:
    """burn's configurations with their fields, in the order of their declaration."""
    return {
        name: tuple(Field(**field) for field in item["fields"])
        for name, item in recorded()["structs"].items()
    }


def field(configuration: str, name: str) -> Field | None:
    """One field; None where there is none of that name."""
    return next((item for item in structs()[configuration] if item.name == name), None)


@cache
def enums() -> dict[str, dict[str, list[str]]]:
    """burn's enums: each variant with the types that it holds."""
    return {name: item["variants"] for name, item in recorded()["enums"].items()}


@cache
def paths() -> dict[str, str]:
    """Where a user finds each, ``burn::optim::AdamConfig``."""
    found = {**recorded()["structs"], **recorded()["enums"]}
    return {name: str(item["path"]) for name, item in found.items()}


def refusals(optimizer: str) -> list[str]:
    """The conditions, in Python, under which PyTorch's constructor raises."""
    found: list[str] = recorded()["refusals"][optimizer]
    return found
