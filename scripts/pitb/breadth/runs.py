"""The reference's runs of a case, as it describes each side."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pitb.breadth.cases import Case
from pitb.problems import problem
from pitb.reference.descriptions import describe
from pitb.reference.equations import Equations
from pitb.reference.training import Group, Run
from pitb.registry import set_option


def case_of(entry: dict[str, Any]) -> Case:
    """The case of an entry of a plan."""
    fields = entry["case"]
    tuples = {name: tuple(fields[name]) for name in ("frozen", "groups", "left")}
    return Case(**{**fields, **tuples})


def equations_of(case: Case, side: str) -> Equations:
    """The description of the library on ``side``, as the case's options have it."""
    found = describe(side, case.optimizer)
    if case.optimizer == "Adam" and case.options.get("decoupled_weight_decay", False):
        return found.but(decay="decoupled")
    return found


def described(entry: dict[str, Any], side: str) -> Equations:
    """The description of a case, with what depends on the processor as it was found here."""
    return equations_of(case_of(entry), side).but(**entry.get("processor", {}).get(side, {}))


def option_of(entry: dict[str, Any], side: str, name: str) -> Any:
    """The value of a hyper-parameter, ``betas[0]``, on one side."""
    base, _, index = name.partition("[")
    value = entry["options"][side][base]
    return value[int(index[:-1])] if index else value


def with_option(run: Run, name: str, value: Any) -> Run:
    """A run with one hyper-parameter of its first group changed."""
    options = dict(run.groups[0].options)
    set_option(options, name, value)
    return replace(run, groups=(replace(run.groups[0], options=options), *run.groups[1:]))


def aligned(entry: dict[str, Any], names: Sequence[str]) -> Run:
    """burn's run with choices of equation as PyTorch's description has them, in every group."""
    run = reference_run(entry, "burn")
    first = described(entry, "pytorch")
    groups = []
    for group in run.groups:
        ours = first if group is run.groups[0] else describe("pytorch", group.optimizer)
        changed = group.equations
        for name in names:
            changed = changed.with_value(name, ours.value(name))
        groups.append(replace(group, equations=changed))
    return replace(run, groups=tuple(groups))


def is_narrow(case: Case) -> bool:
    """Whether the case leaves the range of its dtype, so that the reference must have that range.

    Besides the squares of some problems' gradients it is the square of Adafactor's epsilon 1.
    """
    eps = case.options.get("eps", [1.0])
    tiny = case.optimizer == "Adafactor" and eps[0] ** 2 < np.finfo(np.float32).tiny
    return problem(case.problem).overflows or tiny


def reference_run(entry: dict[str, Any], side: str, eq: Equations | None = None) -> Run:
    """The run that should come out as the library's on ``side``, or as ``eq`` says.

    It computes in float64, or in float32 where squares leave that range in the library, too.
    """
    case = case_of(entry)
    options = {**entry["options"][side], **case.burn}
    if "max_lr_snapshot" in options:
        options["max_lr_snapshot"] = max(entry["rates"][side], default=case.lr)
    if case.optimizer == "Adafactor" and options["eps"][0] is None:
        options["eps"] = [float(np.finfo(case.dtype).eps), options["eps"][1]]
    first = Group(
        case.optimizer,
        options,
        eq or described(entry, side),
        lr=case.lr,
        clip=case.own_clip,
    )
    others = [
        Group(
            group["optimizer"],
            group["resolved"],
            describe(side, group["optimizer"]),
            lr=group["lr"],
            parameters=tuple(group["parameters"]),
        )
        for group in entry["groups"]
    ]
    return Run(
        name=f"{case.name}_as-{side}",
        problem=case.problem,
        groups=(first, *others),
        steps=case.steps,
        dtype=case.dtype if is_narrow(case) else "float64",
        frozen=case.frozen,
        clip=case.clip,
        rates=tuple(entry["rates"][side]),
        accumulate=case.accumulate,
        resume_step=case.resume_step,
        library_dtype=case.dtype,
    )
