"""The differences in defaults: both values, what each costs, and how burn's is set to PyTorch's."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from pitb.breadth import code, runs, sources
from pitb.breadth.defaults import DefaultDifference, differences
from pitb.breadth.equation_findings import sizes
from pitb.breadth.finding import (
    DEFAULT,
    STEPS,
    Align,
    Burn,
    Evidence,
    Finding,
    Size,
    numbers,
    slug,
)
from pitb.breadth.phases import IMPOSSIBLE
from pitb.compare import MISMATCH, OK
from pitb.reference.training import train
from pitb.registry import Optimizer, by_pytorch_name


def default_findings(evidence: Evidence) -> Iterator[Finding]:
    """A finding for each default that differs."""
    for item in differences(evidence.burn):
        optimizer = by_pytorch_name(item.optimizer)
        ours, theirs = sources.default_places(optimizer, item.name)
        case, measured, note = _own_default(evidence, item)
        yield Finding(
            id=slug("default", item.optimizer, item.name),
            kind=DEFAULT,
            optimizers=(item.optimizer,),
            option=item.name,
            pytorch=shown_value(item.pytorch),
            burn="no such option" if item.absent else shown_value(item.burn),
            meaning=_default_meaning(optimizer, item),
            case=case,
            note=note,
            sizes=measured,
            pytorch_source=(ours,),
            burn_source=(theirs,) if theirs else (f"no field of {optimizer.burn_config}",),
            align=default_align(optimizer, item, evidence.burn),
        )


def shown_value(value: Any) -> str:
    """A value as its library writes it."""
    return repr(value) if not isinstance(value, list) else repr(tuple(value))


def _default_meaning(optimizer: Optimizer, item: DefaultDifference) -> str:
    """What burn's own comment says of the field."""
    found = next((h for h in optimizer.hyperparameters if h.pytorch == item.name), None)
    words = sources.field_words(sources.field_spot(optimizer, found)) if found else ""
    return words or item.label


def _own_default(evidence: Evidence, item: DefaultDifference) -> tuple[str, tuple[Size, ...], str]:
    """The smallest case with that one default left to each side, and its sizes."""
    cases = [
        outcome
        for outcome in evidence.across.values()
        if outcome["suite"] == "defaults"
        and outcome["optimizer"] == item.optimizer
        and outcome["set"] == f"own-{item.slug}"
    ]
    if not cases:
        return "", (Size(),) * len(STEPS), "no case leaves this default to both sides"

    def order(outcome: Mapping[str, Any]) -> tuple[bool, int, bool, int]:
        given = numbers(outcome["problem"], 1)
        differs = outcome["verdict"] == MISMATCH
        return not differs, given, outcome["dtype"] != "float32", outcome["steps"]

    chosen = min(cases, key=order)
    found = alone(dict(evidence.entries[chosen["case"]]), item.name)
    impossible = chosen["verdict"] == IMPOSSIBLE
    note = chosen["reason"] if impossible else ""
    if not note and chosen["verdict"] == OK:
        note = "within rounding in this run"
    return chosen["case"], found, note


def alone(entry: dict[str, Any], name: str) -> tuple[Size, ...]:
    """The effect of one default alone: burn's run, and the same with PyTorch's value."""
    base = replace(runs.reference_run(entry, "burn"), steps=max(STEPS))
    value = runs.option_of(entry, "pytorch", name)
    if value is None:
        # PyTorch puts the epsilon of the dtype there.
        value = float(np.finfo(entry["case"]["dtype"]).eps)
    return sizes(train(base), train(runs.with_option(base, name, value)))


def default_align(optimizer: Optimizer, item: DefaultDifference, burn: Burn) -> Align:
    """burn's configuration with PyTorch's default written out, where burn has that field."""
    if item.absent:
        value = optimizer.neutral[item.name]
        how = f"burn has no such option; in Python, {item.name}={value!r}"
        return Align(how, f"burn 没有这个选项；在 Python 一侧写 {item.name}={value!r}")
    written = default_code(optimizer, item, burn)
    if item.pytorch is None:
        return Align(
            f"`{written}`, which is what None stands for in float32",
            f"`{written}`，即 None 在 float32 下所代表的值",
        )
    return Align(f"`{written}`", f"`{written}`")


def default_code(optimizer: Optimizer, item: DefaultDifference, burn: Burn) -> str:
    """``AdamConfig::new().with_epsilon(1e-8)``."""
    options = {**optimizer.defaults(), **dict(item.needs)}
    if item.pytorch is None:
        # PyTorch puts the epsilon of the dtype there.
        base, _, index = item.name.partition("[")
        options[base] = list(options[base])
        options[base][int(index[:-1])] = float(np.finfo("float32").eps)
    options |= dict(optimizer.neutral)
    hyper = next(h for h in optimizer.hyperparameters if h.pytorch == item.name)
    head = hyper.burn.partition(".")[0]
    others = [
        h.pytorch
        for h in optimizer.hyperparameters
        if h.pytorch != item.name and h.pytorch_name not in dict(item.needs)
    ]
    found = optimizer.to_burn(options, others)
    return code.burn_config(optimizer, {head: found[head]}, burn)
