"""The cases that touch every choice of equation: those that noticed a mistake in it.

`make libraries` does not know them; ``scripts/record_watch_cases.py`` picks them from what the
breadth's slice has found: of every known mistake in a choice, the case that noticed it first.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from pitb.breadth.cases import Case
from pitb.errors import PitbError
from pitb.reference import descriptions

Touching = Mapping[str, Mapping[str, Mapping[str, list[str]]]]
"""By side, optimizer and choice, the names of cases."""
FILE = "cases.json"


@cache
def recorded() -> Touching:
    """By side, PyTorch's name of an optimizer and choice: the cases that notice a mistake in it."""
    text = resources.files("pitb.watch").joinpath("cases.json").read_text(encoding="utf-8")
    found: Touching = json.loads(text)["cases"]
    return found


def choice_of(mutant: str, kind: str) -> str:
    """The choice that a mistake is one in: ``decay`` of ``decay=none``, ``precision of eps``."""
    if kind == "precision":
        return f"precision of {mutant.rpartition(' in ')[0]}"
    return mutant.partition("=")[0]


def pick(kills: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, dict[str, list[str]]]]:
    """The cases of `recorded`, from the kills of the breadth."""
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for kill in kills:
        if kill["kind"] not in ("choice", "precision"):
            continue
        names = [kill[f"killed_by_{dtype}"] for dtype in ("float64", "float32")]
        side = found.setdefault(kill["side"], {}).setdefault(kill["optimizer"], {})
        choice = side.setdefault(choice_of(kill["mutant"], kill["kind"]), [])
        choice += [name for name in names if name and name not in choice]
    return {
        side: {
            optimizer: {choice: cases for choice, cases in sorted(choices.items()) if cases}
            for optimizer, choices in optimizers.items()
        }
        for side, optimizers in sorted(found.items())
    }


def names(side: str) -> list[str]:
    """All cases of a side, each once."""
    each = (
        name
        for choices in recorded()[side].values()
        for cases in choices.values()
        for name in cases
    )
    return list(dict.fromkeys(each))


def select(side: str, everything: Iterable[Case]) -> list[Case]:
    """Those of all cases that `recorded` names.

    Raises:
        PitbError: One is named that there is not.
    """
    wanted = names(side)
    by_name = {case.name: case for case in everything if case.name in set(wanted)}
    missing = [name for name in wanted if name not in by_name]
    if missing:
        raise PitbError(
            f"there is no case {missing[0]}; pick them anew by scripts/record_watch_cases.py"
        )
    return [by_name[name] for name in wanted]


def value_of(side: str, optimizer: str, choice: str) -> str:
    """What a side's description says of a choice, as text."""
    eq = descriptions.describe(side, optimizer)
    if choice.startswith("precision of "):
        name = choice.removeprefix("precision of ")
        return "float32" if name in eq.float32 else "float64"
    return str(eq.value(choice))
