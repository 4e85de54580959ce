"""The rates of both libraries and of their descriptions, by update."""

import copy
import json
import re
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitb import programs
from pitb.errors import PitbError, nearest
from pitb.files import read_json
from pitb.schedulers import reference
from pitb.schedulers.cases import Case
from pitb.schedulers.reference import CHOICES, Choices, Refused

SIDES = ("burn", "pytorch")


@dataclass(frozen=True)
class Outcome:
    """What a side gives: the rates of update 1, 2, ..., and why there is none after the last."""

    rates: tuple[float, ...] = ()
    error: str | None = None


def reference_rates(case: Case, side: str, choices: Choices | None = None) -> Outcome | None:
    """The rates that the description of a side gives, f64; None where it has no such schedule.

    Args:
        case: The schedule.
        side: ``burn`` or ``pytorch``.
        choices: What is described, if not the side's own choices.

    Raises:
        PitbError: There is no description of a scheduler of the case.
    """
    choices = choices or CHOICES[side]
    found: list[float] = []
    try:
        if side == "burn" and case.burn is not None:
            reference.check_burn(case.burn)
            for t in range(case.steps):
                found.append(reference.burn_rate(case.burn, t + choices.offset, choices))
        elif side == "pytorch" and case.pytorch is not None:
            if min(case.base) < 0:
                raise Refused(f"an optimizer takes no rate of {min(case.base)}")
            rule = reference.pytorch_rule(case.pytorch, choices, case.metrics)
            steps = case.steps + choices.offset
            reference.rates(rule, case.base[case.group], steps, found)
        else:
            return None
    except (Refused, ZeroDivisionError) as refusal:
        return Outcome(tuple(found), str(refusal))
    return Outcome(tuple(found[-case.steps :]))


def pytorch_scheduler(node: dict[str, Any], optimizer: Any) -> Any:
    """The scheduler over ``optimizer`` that ``{"class": "StepLR", "step_size": 3}`` describes.

    ``schedulers`` holds more of these; ``lr_lambda`` names a function, see `reference.FORMULAS`.

    Raises:
        PitbError: torch has no such class, or it has no such argument.
    """
    from torch.optim import lr_scheduler

    arguments = {name: value for name, value in node.items() if name != "class"}
    if "schedulers" in arguments:
        children = arguments["schedulers"]
        arguments["schedulers"] = [pytorch_scheduler(child, optimizer) for child in children]
    if "lr_lambda" in arguments:
        arguments["lr_lambda"] = reference.formula(arguments["lr_lambda"])
    kind, known = str(node.get("class")), pytorch_classes()
    if kind not in known:
        said = f"torch.optim.lr_scheduler has no {kind}; the nearest is {nearest(kind, known)}"
        raise PitbError(said)
    try:
        return getattr(lr_scheduler, kind)(optimizer=optimizer, **arguments)
    except TypeError as error:
        raise PitbError(f"{kind}: {str(error).split('() ')[-1]}") from None


def pytorch_classes() -> list[str]:
    """The public schedulers of ``torch.optim.lr_scheduler``, without their base class."""
    from torch.optim import lr_scheduler

    base = lr_scheduler.LRScheduler
    members = {n: v for n, v in vars(lr_scheduler).items() if isinstance(v, type) and v is not base}
    return sorted(n for n, v in members.items() if issubclass(v, base) and not n.startswith("_"))


def pytorch_rates(case: Case, resume: bool = False) -> Outcome | None:
    """The rates that PyTorch's updates are made with; None where PyTorch has no such schedule.

    ``scheduler.step()`` comes after ``optimizer.step()``, so update 1 has the rate that the
    scheduler's constructor leaves.

    Args:
        case: The schedule.
        resume: Whether the states go, after `Case.resumed_after` updates, into a fresh optimizer
            and a fresh scheduler, which make the rest.
    """
    import torch

    node = case.pytorch
    if node is None:
        return None

    def built() -> tuple[Any, Any]:
        groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": lr} for lr in case.base]
        # The rate is checked where it is the default, not where it is a group's.
        optimizer = torch.optim.SGD(groups, lr=case.base[0])
        return optimizer, pytorch_scheduler(node, optimizer)

    rates: list[float] = []
    try:
        # A SequentialLR makes its own children warn while it is built.
        with warnings.catch_warnings(action="ignore"):
            optimizer, scheduler = built()
            for k in range(case.steps):
                if k > 0:
                    optimizer.step()
                    scheduler.step(*case.metrics[k - 1 : k])
                if resume and k == case.resumed_after:
                    states = copy.deepcopy((optimizer.state_dict(), scheduler.state_dict()))
                    optimizer, scheduler = built()
                    optimizer.load_state_dict(states[0])
                    scheduler.load_state_dict(states[1])
                rates.append(float(optimizer.param_groups[case.group]["lr"]))
    except (ValueError, ArithmeticError, NotImplementedError) as error:
        return Outcome(tuple(rates), f"{type(error).__name__} {error}".strip())
    return Outcome(tuple(rates))


def burn_rates(cases: Sequence[Case], program: Path, resume: bool = False) -> dict[str, Outcome]:
    """The rates that burn's ``step()`` gives, called before each update, by the case's name.

    Args:
        cases: The schedules; those that burn does not have are left out.
        program: ``optdef``.
        resume: Whether the state goes, after `Case.resumed_after` calls, through its bytes into a
            fresh scheduler, which gives the rest.

    Raises:
        PitbError: The program failed, or left a case out.
    """
    asked = [case for case in cases if case.burn is not None]
    schedules = [
        {"name": case.name, "config": case.burn, "steps": case.steps}
        | ({"resume_at": case.resumed_after} if resume else {})
        for case in asked
    ]
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "schedules.json"), Path(folder, "rates.json")
        file.write_text(json.dumps({"schedules": schedules}), encoding="utf-8")
        command: list[str | Path] = [program, "--schedules", file, "--out", out]
        ended = programs.captured(command)
        if ended.returncode != 0:
            said = " ".join(ended.stderr.split()) or "it does not say why"
            raise PitbError(f"{program.name} --schedules failed: {said}")
        answers = read_json(out)["schedules"]
    for case in asked:
        if case.name not in answers:
            raise PitbError(f"{program.name} --schedules left out {case.name}")
    return {case.name: _outcome(answers[case.name]) for case in asked}


def burn_variants(program: Path) -> list[str]:
    """The variants of burn's ``LrSchedulerConfig``, as the built program lists them.

    Raises:
        PitbError: The program does not list them where it is asked for one that there is not.
    """
    said = burn_rates([Case("none", 1, [], {"": None}, None)], program)["none"].error or ""
    found = re.findall(r"`(\w+)`", said)
    if not found:
        raise PitbError(f"{program.name} --schedules does not list burn's schedulers: {said}")
    return found


def _outcome(answer: dict[str, Any]) -> Outcome:
    # JSON has no NaN, so serde writes null.
    rates = [float("nan") if rate is None else float(rate) for rate in answer.get("rates", [])]
    return Outcome(tuple(rates), answer.get("error"))
