"""The defaults of all eleven optimizers on both sides, and cases that show what each costs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pitb.breadth.cases import DTYPES, LONG, NEEDS_LOSS, STEPS, Case, OptionSet, _case
from pitb.defaults import as_f32
from pitb.registry import Hyperparameter, Optimizer, optimizers

Burn = Mapping[str, Any]
"""What ``optdef --defaults`` prints: each configuration's ``fields``."""
TRIED = ("a1", "gradients", "scale-1e-8")


@dataclass(frozen=True)
class DefaultDifference:
    """One hyper-parameter whose default is not the same on both sides."""

    optimizer: str
    name: str
    """PyTorch's name of it."""
    label: str
    pytorch: Any
    burn: Any
    needs: tuple[tuple[str, Any], ...] = ()
    """What must be on for it to matter."""
    absent: bool = False
    """Whether burn has no counterpart of it at all."""

    @property
    def slug(self) -> str:
        """Its label as part of a name."""
        return "".join(c if c.isalnum() else "-" for c in self.label.lower())


def burn_default(burn: Burn, optimizer: Optimizer, item: Hyperparameter) -> Any:
    """burn's default of one hyper-parameter, in PyTorch's words.

    None where burn derives it from others, as it does with ``max_eval``.
    """
    path = item.burn.split(".")
    fields = burn[optimizer.burn_config]["fields"]
    if item.when is not None:
        value = burn[item.when]["fields"][path[-1]]
    else:
        value = fields[path[0]]
        if len(path) == 2 and value is not None:
            value = value[path[1]]
    if value is None and item.off is not None:
        return item.off
    if item.values:
        back = {theirs: ours or None for ours, theirs in reversed([*item.values.items()])}
        return back[value]
    return value


def differences(
    burn: Burn, pytorch: Mapping[str, Any] | None = None
) -> Iterator[DefaultDifference]:
    """Every default that differs, of all optimizers; also those that burn has no counterpart of.

    Args:
        burn: burn's defaults.
        pytorch: ``opt.defaults`` by optimizer; those that are installed where it is None.
    """
    for optimizer in optimizers():
        standard = optimizer.defaults() if pytorch is None else pytorch[optimizer.pytorch]
        for item in optimizer.hyperparameters:
            ours, theirs = item.of(standard), burn_default(burn, optimizer, item)
            if not _same(ours, theirs, item):
                needs = tuple(item.needs.items())
                yield DefaultDifference(
                    optimizer.pytorch, item.pytorch, item.label, ours, theirs, needs
                )
        for name, neutral in optimizer.neutral.items():
            if standard[name] != neutral:
                label = name.replace("_", " ")
                yield DefaultDifference(
                    optimizer.pytorch, name, label, standard[name], None, absent=True
                )


def _same(ours: Any, theirs: Any, item: Hyperparameter) -> bool:
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(
            _same(a, b, item) for a, b in zip(ours, theirs, strict=True)
        )
    if isinstance(ours, bool) or isinstance(theirs, (bool, str)) or isinstance(ours, str):
        names = item.values
        if names:
            return names["" if ours is None else ours] == names["" if theirs is None else theirs]
        return bool(ours == theirs)
    if theirs is None:
        return ours is None or item.burn == "max_eval"
    if ours is None:
        return False
    return as_f32(float(ours)) == as_f32(float(theirs))


def default_cases(burn: Burn) -> Iterator[Case]:
    """Each side with its own defaults; and all aligned but one of them."""
    found = list(differences(burn))
    for optimizer in optimizers():
        mine = [item for item in found if item.optimizer == optimizer.pytorch]
        everything = tuple(item.pytorch for item in optimizer.hyperparameters)
        absent = tuple(item.name for item in mine if item.absent)
        yield from _cases(optimizer, "own-defaults", {}, (*everything, *absent))
        # Where one default cannot be had on the other side, it must not hide the others.
        common = {name: optimizer.neutral[name] for name in absent} | _alignable(mine)
        for item in mine:
            options = {**common, **dict(item.needs)}
            if item.absent or item.name.partition("[")[0] in _alignable(mine):
                options = {k: v for k, v in options.items() if k != item.name.partition("[")[0]}
            yield from _cases(optimizer, f"own-{item.slug}", options, (item.name,))


def _alignable(found: list[DefaultDifference]) -> dict[str, Any]:
    """burn's values of what PyTorch has at None, which burn cannot have."""
    values: dict[str, Any] = {}
    for item in found:
        base, _, index = item.name.partition("[")
        if item.pytorch is None and index:
            pair = [None, None]
            standard = next(o for o in optimizers() if o.pytorch == item.optimizer).defaults()[base]
            pair = list(standard)
            pair[int(index[:-1])] = item.burn
            values[base] = pair
    return values


def _cases(
    optimizer: Optimizer, name: str, options: dict[str, Any], left: tuple[str, ...]
) -> Iterator[Case]:
    chosen = OptionSet(name, options)
    for problem in TRIED:
        if problem != "a1" and optimizer.pytorch in NEEDS_LOSS:
            continue
        for dtype in DTYPES:
            for steps in (STEPS, LONG):
                case = _case(optimizer, chosen, problem, dtype, steps)
                yield replace(case, left=left, suite="defaults")
