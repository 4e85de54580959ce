"""What a finding is: one difference, where it shows, how large it is, where it stands."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pitb.errors import PitbError
from pitb.problems import problem
from pitb.registry import optimizers

KINDS = DEFAULT, EQUATION, ONE_SIDED = ("default", "equation", "one-sided")
STEPS = (1, 10, 200)
"""At which the sizes are given."""
ACROSS = "pytorch--burn"
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SCHEDULE = "lr_scheduler"
"""Stands for an optimizer's name where a finding is about a schedule."""
Burn = Mapping[str, Any]

ZERO, NOT_RUN, NOT_FINITE, FAILS = "zero", "not run", "not finite", "one side fails"


@dataclass(frozen=True)
class Size:
    """How far the parameters are apart at one step."""

    status: str = NOT_RUN
    """Empty for a number; otherwise zero, not run, not finite, or one side fails."""
    absolute: float = math.nan
    relative: float = math.nan
    """Over the largest magnitude that the tensor has had."""


@dataclass(frozen=True)
class Align:
    """Whether the sides can be made to agree, and how."""

    how: str = "not known"
    how_zh: str = "未知"
    case: str = ""
    """A case of the breadth in which they do agree."""


@dataclass(frozen=True)
class Finding:
    """One difference."""

    id: str
    kind: str
    optimizers: tuple[str, ...]
    """PyTorch's names; ``lr_scheduler`` for a schedule."""
    option: str
    """The option, or the choice of equation."""
    pytorch: str
    """PyTorch's value."""
    burn: str
    meaning: str
    case: str = ""
    """The smallest run that shows it; empty where none does."""
    note: str = ""
    """What is to be known of that run, or why there is none."""
    sizes: tuple[Size, ...] = (Size(),) * len(STEPS)
    pytorch_source: tuple[str, ...] = ()
    burn_source: tuple[str, ...] = ()
    align: Align = field(default_factory=Align)
    step: int = 0
    """The first update at which it shows; 0 where no update does."""
    quantity: str = "param"
    """Where it shows: in a parameter, or in a state, ``state.step fc.bias``."""
    alone: bool = True
    """Whether no other difference shows in that run's parameters."""


@dataclass(frozen=True)
class Evidence:
    """What a scope of the breadth has left behind."""

    entries: Mapping[str, Mapping[str, Any]]
    """The plans' entries by the case's name."""
    outcomes: Sequence[Mapping[str, Any]]
    kills: Sequence[Mapping[str, Any]]
    rows: Mapping[tuple[str, int], Mapping[str, Any]]
    """Of the parameters of both libraries, by case and step."""
    burn: Burn

    @property
    def across(self) -> dict[str, Mapping[str, Any]]:
        """The outcomes between the libraries, by case."""
        return {o["case"]: o for o in self.outcomes if o["pair"] == ACROSS}


def read(plans: Path, judged: Path, burn: Burn) -> Evidence:
    """What stands in the folders of plans and of what was judged.

    Raises:
        PitbError: An optimizer is missing.
    """
    from pitb.breadth import inputs

    entries: dict[str, Any] = {}
    outcomes, kills = [], []
    rows: dict[tuple[str, int], Mapping[str, Any]] = {}
    for optimizer in optimizers():
        entries |= inputs.read_plan(plans / f"{optimizer.key}.json")["cases"]
        outcomes += inputs.read_outcomes(judged / optimizer.key / "outcomes.json")
        kills += inputs.read_kills(judged / optimizer.key / "kills.json")
        table = inputs.read_rows(
            judged / optimizer.key / "rows.parquet",
            columns=["case", "step", "max_abs", "needed", "verdict"],
            filters=[("pair", "=", ACROSS), ("quantity", "=", "param")],
        )
        rows |= {(row["case"], row["step"]): row for row in table.to_pylist()}
    return Evidence(entries, outcomes, kills, rows, burn)


def check(found: Sequence[Finding]) -> None:
    """That ids are slugs, each of its own, and that an equation's difference has its places.

    Raises:
        PitbError: They are not.
    """
    seen: set[str] = set()
    for finding in found:
        if not SLUG.fullmatch(finding.id):
            raise PitbError(f"{finding.id!r} is no slug")
        if finding.id in seen:
            raise PitbError(f"two findings are called {finding.id}")
        seen.add(finding.id)
        if finding.kind == EQUATION and not (finding.pytorch_source and finding.burn_source):
            raise PitbError(f"{finding.id} has no place in the source of each side")


def slug(*parts: str) -> str:
    """Words of the parts, joined by ``-``."""
    return "-".join(re.findall(r"[a-z0-9]+", " ".join(parts).lower()))


def size(absolute: float, relative: float) -> Size:
    """A size of two numbers."""
    if absolute == 0:
        return Size(ZERO, 0.0, 0.0)
    if not math.isfinite(absolute):
        return Size(NOT_FINITE)
    return Size("", absolute, relative)


@cache
def numbers(name: str, steps: int) -> int:
    """The numbers of parameters, inputs, and prescribed gradients up to an update."""
    found = problem(name)
    given = [*found.parameters.values(), *found.inputs.values()]
    if found.gradients:
        given += [value for step in range(1, steps + 1) for value in found.gradient(step).values()]
    return sum(value.size for value in given)


def plain(finding: Finding) -> dict[str, Any]:
    """As JSON has it: what is not a number as null."""
    found = asdict(finding)
    for item in found["sizes"]:
        for key in ("absolute", "relative"):
            if not math.isfinite(item[key]):
                item[key] = None
    return found


def from_plain(value: Mapping[str, Any]) -> Finding:
    """What `plain` made."""
    measured = [
        Size(
            item["status"],
            *(math.nan if item[key] is None else item[key] for key in ("absolute", "relative")),
        )
        for item in value["sizes"]
    ]
    tuples = {key: tuple(value[key]) for key in ("optimizers", "pytorch_source", "burn_source")}
    return Finding(
        **{**value, **tuples, "sizes": tuple(measured), "align": Align(**value["align"])}
    )
