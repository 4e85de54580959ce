"""What a configuration leaves at a default that PyTorch has otherwise."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pitb import declared, libraries, rust
from pitb.breadth.defaults import differences
from pitb.errors import PitbError, nearest
from pitb.lint.sources import ENUM, RustSource, Site
from pitb.registry import Optimizer, by_pytorch_name, optimizers

CLIP = "clip"
"""What comments call the finding on clipping by norm."""


@dataclass(frozen=True)
class Rule:
    """A field whose default is not the same in both libraries."""

    optimizer: str
    """PyTorch's name."""
    field: str
    burn: str
    """burn's default in Rust."""
    pytorch: str
    """PyTorch's default in Python."""
    add: str
    """``with_epsilon(1e-8)``."""


@dataclass(frozen=True)
class Finding:
    """A configuration that leaves a field unstated."""

    file: str
    line: int
    column: int
    configuration: str
    field: str
    burn: str
    pytorch: str
    add: str
    test: bool
    message: str


def _style() -> rust.Style:
    return rust.Style(libraries.recorded()["burn"])


@cache
def rules() -> dict[str, tuple[Rule, ...]]:
    """By configuration: what must be stated."""
    recorded = libraries.recorded()
    standards = {name: item["defaults"] for name, item in recorded["pytorch"].items()}
    found: dict[str, list[Rule]] = {}
    for item in differences(recorded["burn"], standards):
        if item.absent:
            continue  # no field of burn's
        optimizer = by_pytorch_name(item.optimizer)
        parameter = next(h for h in optimizer.hyperparameters if h.pytorch == item.name)
        first, _, rest = parameter.burn.partition(".")
        value, shown = _meant(item.pytorch)
        if parameter.when is not None:
            kind, field, given = parameter.when, rest, value
        else:
            kind, field = optimizer.burn_config, first
            given = {rest: value} if rest else value
            given = parameter.values["" if value is None else value] if parameter.values else given
        rule = _rule(optimizer, kind, field, given, shown)
        if rule not in found.setdefault(kind, []):
            found[kind].append(rule)
    return {kind: tuple(items) for kind, items in found.items()}


def _meant(value: Any) -> tuple[Any, str]:
    """PyTorch's default as a number, and as it is shown: None stands for the dtype's epsilon."""
    if value is None:
        return float(str(np.finfo(np.float32).eps)), "None, the epsilon of the dtype"
    return value, repr(tuple(value)) if isinstance(value, list) else repr(value)


def _rule(optimizer: Optimizer, kind: str, field: str, given: Any, shown: str) -> Rule:
    entry = declared.field(kind, field)
    assert entry is not None, f"{kind} has no {field}"
    default = rust.default_of(kind, field, libraries.recorded()["burn"])
    written = rust.value(entry.type, given, _style())
    return Rule(
        optimizer.pytorch,
        field,
        rust.shown(entry.type, default, _style()),
        shown,
        f"with_{field}({written})",
    )


@cache
def within(configuration: str, field: str) -> tuple[Rule, ...]:
    """What a part that replaces another default must state: ``MomentumConfig::new()`` in
    ``MuonConfig``, whose own momentum has other values.
    """
    entry = declared.field(configuration, field)
    optimizer = next((o for o in optimizers() if o.burn_config == configuration), None)
    if entry is None or optimizer is None or entry.inner not in declared.structs():
        return ()
    usual = libraries.burn_fields(configuration)[field]
    if not isinstance(usual, dict):
        return ()
    found = []
    standard = libraries.pytorch_defaults(optimizer.pytorch)
    for item in declared.structs()[entry.inner]:
        if item.required:
            continue
        default = rust.default_of(entry.inner, item.name, libraries.recorded()["burn"])
        path = f"{field}.{item.name}"
        mapped = next((h for h in optimizer.hyperparameters if h.burn == path), None)
        wanted = mapped.of(standard) if mapped is not None else usual[item.name]
        if not rust.same_value(item.type, wanted, default):
            found.append(_rule(optimizer, entry.inner, item.name, wanted, repr(wanted)))
    return tuple(found)


def check(source: RustSource) -> Iterator[Finding]:
    """The findings of a source.

    Raises:
        PitbError: A comment silences a field that there is not.
    """
    for site in source.sites:
        _check_allowed(source, site)
        if "*" in site.allowed:
            continue
        yield from _clip(source, site)
        if site.whole or site.configuration not in declared.structs():
            continue
        own = within(*site.outer) if site.outer else ()
        for rule in own or rules().get(site.configuration, ()):
            if rule.field not in site.fields and rule.field not in site.allowed:
                said = (
                    f"{site.configuration} leaves {rule.field} at burn's default {rule.burn}, "
                    f"where PyTorch's {rule.optimizer} has {rule.pytorch}; add .{rule.add}"
                )
                yield _finding(source, site, rule.field, rule.burn, rule.pytorch, rule.add, said)


def _clip(source: RustSource, site: Site) -> Iterator[Finding]:
    if site.configuration != f"{ENUM}::Norm" or CLIP in site.allowed:
        return
    said = (
        f"{site.configuration} clips each tensor by its own norm, where PyTorch's clip_grad_norm_ "
        "clips all of them by their common norm; clip between backward and step, with the "
        "function that `pitb port 'clip_grad_norm_(model.parameters(), 1.0)'` writes"
    )
    yield _finding(source, site, CLIP, "each tensor", "all tensors", "", said)


def _finding(
    source: RustSource, site: Site, field: str, burn: str, pytorch: str, add: str, said: str
) -> Finding:
    return Finding(
        source.name,
        site.line,
        site.column,
        site.configuration,
        field,
        burn,
        pytorch,
        add,
        site.test,
        said,
    )


def _check_allowed(source: RustSource, site: Site) -> None:
    known = {item.name for fields in declared.structs().values() for item in fields} | {CLIP, "*"}
    for name in sorted(site.allowed):
        if name not in known:
            near = nearest(name, sorted(known))
            raise PitbError(
                f"{source.name}, line {site.line}: the comment allows {name!r}, which is no field "
                f"of burn's; nearest: {near!r}"
            )
