"""From settings, a flat table of everything that can differ, to a run of the reference."""

from dataclasses import replace
from typing import Any

from pitb.breadth import runs
from pitb.errors import PitbError
from pitb.explain.configurations import Configuration
from pitb.explain.members import Member
from pitb.problems import problem
from pitb.reference.equations import Equations
from pitb.reference.training import Group, Run
from pitb.registry import Options

Settings = dict[str, Any]
OPTION, CHOICE = "option:", "choice:"
"""What the settings of options and of choices of equation begin with, after their group's name."""
ABSENT = "absent"
"""The value of an option that an optimizer does not have."""


def build(
    settings: Settings, sides: tuple[Configuration, Configuration], steps: int, name: str
) -> Run:
    """The run of the reference that settings describe.

    Raises:
        PitbError: A parameter that is named does not exist.
    """
    found = problem(settings["initial"])
    named = [*found.parameters, *(second for second, _ in found.tied)]
    rates = tuple(settings.get("rates", ()))
    first = _group(settings, "", rates)
    groups = [first]
    for index in range(settings.get("group_count", 0)):
        groups.append(_group(settings, f"groups[{index}].", rates))
    groups += [_group_of(member) for member in settings.get("groups", ())]
    for parameter in (*settings["frozen"], *(p for group in groups for p in group.parameters)):
        if parameter not in named:
            raise PitbError(
                f"{parameter!r} is no parameter of {found.name}; it has {', '.join(named)}"
            )
    cases = (replace(side.case(), problem=found.name) for side in sides)
    narrow = any(map(runs.is_narrow, cases))
    return Run(
        name=name,
        problem=settings["initial"],
        groups=tuple(groups),
        steps=steps,
        dtype=settings["dtype"] if narrow else "float64",
        frozen=tuple(settings["frozen"]),
        clip=_clip_of(settings, "clip"),
        rates=rates,
        accumulate=settings["accumulate"],
        resume_step=min(settings["resume_step"], steps),
        states=False,
        library_dtype=settings["dtype"],
    )


def _clip_of(settings: Settings, key: str) -> Options | None:
    """A clip from its setting, or from one for each of its fields."""
    if key in settings:
        whole: Options | None = settings[key]
        return whole
    start = f"{key}."
    return {k.removeprefix(start): v for k, v in settings.items() if k.startswith(start)}


def _group(settings: Settings, prefix: str, rates: tuple[float, ...]) -> Group:
    options: Options = {}
    for key, value in settings.items():
        if key.startswith(prefix + OPTION) and value is not ABSENT:
            name, _, index = key.removeprefix(prefix + OPTION).partition("[")
            if index:
                listed = options.setdefault(name, [])
                listed.append(value)
            else:
                options[name] = value
    equations = Equations()
    for key, value in settings.items():
        if key.startswith(prefix + CHOICE):
            equations = equations.with_value(key.removeprefix(prefix + CHOICE), value)
    lr = settings.get(f"{prefix}lr", rates[0] if rates else 0.0)
    if "max_lr_snapshot" in options:
        options["max_lr_snapshot"] = options["max_lr_snapshot"] or max(rates, default=lr)
    optimizer = settings[f"{prefix}entry"]
    if optimizer == "LBFGS":
        options = {key: value for key, value in options.items() if key != "lr"}
    return Group(
        optimizer,
        options,
        equations,
        lr=lr,
        parameters=settings.get(f"{prefix}parameters", ()),
        clip=_clip_of(settings, f"{prefix}own_clip"),
    )


def _group_of(member: Member) -> Group:
    options = dict(member.options)
    if "max_lr_snapshot" in options:
        options["max_lr_snapshot"] = options["max_lr_snapshot"] or member.lr
    return Group(
        member.entry.pytorch,
        options,
        member.equations,
        lr=member.lr,
        parameters=member.parameters,
        clip=member.clip,
    )
