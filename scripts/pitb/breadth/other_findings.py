"""What one side alone can do, and how learning-rate schedules differ."""

import ast
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pitb.breadth import sources
from pitb.breadth.equation_findings import meaning
from pitb.breadth.finding import (
    EQUATION,
    ONE_SIDED,
    SCHEDULE,
    STEPS,
    ZERO,
    Evidence,
    Finding,
    Size,
    size,
    slug,
)
from pitb.breadth.phases import IMPOSSIBLE
from pitb.errors import PitbError
from pitb.reference.descriptions import FLAGS
from pitb.registry import by_pytorch_name
from pitb.schedulers import Row as ScheduleRow
from pitb.schedulers import reference_rates
from pitb.schedulers.cases import CASES
from pitb.schedulers.judge import DIFFERENT as BY_FORMULA
from pitb.schedulers.judge import ONE_SIDED as NOT_BOTH
from pitb.schedulers.judge import names

Refusal = Callable[[str, dict[str, Any]], str | None]
"""What burn says to options of its optimizer of that name; None where it takes them."""

_BURN_CANNOT = re.compile(r"burn's (\w+) cannot do ([\w\[\]]+)=(.*)")
_PYTORCH_LACKS = re.compile(r"PyTorch's (\w+) has no ([\w.]+)")
_PYTORCH_REFUSES = re.compile(r"[\w.]*?(\w+) refuses its options: (.*)")


def one_sided_findings(evidence: Evidence, refusal: Refusal | None = None) -> Iterator[Finding]:
    """A finding for each option that one side has and the other cannot do.

    Args:
        evidence: What was judged.
        refusal: What burn itself says to options, which is quoted.

    Raises:
        PitbError: A plan says in words that are not known why a case is impossible.
    """
    groups: dict[tuple[str, str], dict[str, list[tuple[str, str, str]]]] = {}
    for name, entry in evidence.entries.items():
        if entry["case"]["suite"] == "defaults":
            continue  # a default that burn cannot have is a finding of its own
        for side in ("pytorch", "burn"):
            if IMPOSSIBLE in entry[side]:
                option, value, words = _reason(entry[side][IMPOSSIBLE], entry["case"]["options"])
                found = groups.setdefault((side, option), {})
                found.setdefault(entry["case"]["optimizer"], []).append((value, words, name))
    for (lacking, option), by_optimizer in groups.items():
        finding = _one_sided(lacking, option, by_optimizer)
        if refusal is not None and lacking == "burn":
            finding = replace(finding, meaning=f"{finding.meaning}{_quoted(finding, refusal)}")
        yield finding


@dataclass(frozen=True)
class _Clip:
    """A way to clip that PyTorch has."""

    option: str
    clips: Callable[[Mapping[str, Any]], bool]
    """Whether a training loop's clipping is one of this way."""
    tried: Mapping[str, Any]
    """How burn's field of clipping would have it."""


_CLIPS = (
    _Clip("clip_grad_norm_", lambda clip: clip["scope"] == "global", {"GlobalNorm": 0.1}),
    _Clip(
        "norm_type",
        lambda clip: clip.get("norm_type", 2.0) != 2.0,
        {"Norm": {"max_norm": 0.1, "norm_type": 1.0}},
    ),
    _Clip(
        "error_if_nonfinite",
        lambda clip: bool(clip.get("error_if_nonfinite")),
        {"Norm": {"max_norm": 0.1, "error_if_nonfinite": True}},
    ),
)


def clip_findings(evidence: Evidence, refusal: Refusal | None = None) -> Iterator[Finding]:
    """A finding for each way to clip that burn lacks. On its side this project's training loop
    clips, so that the cases are no impossible ones.

    Raises:
        PitbError: burn takes what it is said to lack.
    """
    for way in _CLIPS:
        cases = [
            (name, entry["case"]["optimizer"])
            for name, entry in evidence.entries.items()
            if entry["case"]["clip"] and way.clips(entry["case"]["clip"])
        ]
        if not cases:
            continue
        said = "burn clips each tensor by its own 2-norm or by value, and by nothing else"
        if refusal is not None:
            words = refusal("AdamW", {"grad_clipping": dict(way.tried)})
            if words is None:
                raise PitbError(f"burn takes {way.tried}, and is said to have no {way.option}")
            said += f" (burn: {words})"
        head = "" if way.option.endswith("_") else "clip_grad_norm_"
        python = rf"^    {way.option}: " if head else rf"^def {way.option}\("
        enum = "pub enum GradientClippingConfig {"
        yield Finding(
            id=slug("one-sided-burn", way.option.replace("_", "-")),
            kind=ONE_SIDED,
            optimizers=tuple(dict.fromkeys(optimizer for _, optimizer in cases)),
            option=way.option,
            pytorch="yes",
            burn="no",
            meaning=said,
            case=min((name for name, _ in cases), key=_shortest),
            note="this project's clip_grad_norm does it on burn's side",
            pytorch_source=(
                sources.locate(
                    sources.torch_spot("nn/utils/clip_grad.py", python, head), way.option
                ),
            ),
            burn_source=(
                sources.locate(
                    sources.burn_spot("grad_clipping/base.rs", r"^    Norm\(f32\)", enum),
                    way.option,
                ),
            ),
        )


def _quoted(finding: Finding, refusal: Refusal) -> str:
    """burn's own words, of the first optimizer that has some."""
    if "[" in finding.option:
        return ""
    for name in finding.optimizers:
        value = ast.literal_eval(finding.pytorch.partition("/")[0])
        said = refusal(by_pytorch_name(name).burn, {finding.option: value})
        if said is not None:
            return f" (burn: {said})"
    return ""


def _reason(text: str, options: Mapping[str, Any]) -> tuple[str, str, str]:
    """The option, its value and the words of a reason. A combination of options is one."""
    if match := _BURN_CANNOT.fullmatch(text):
        return match[2], match[3], text
    if match := _PYTORCH_LACKS.fullmatch(text):
        return match[2], "", text
    if match := _PYTORCH_REFUSES.fullmatch(text):
        return ", ".join(options), "", match[2]
    raise PitbError(f"no option can be read out of the reason {text!r}")


def _one_sided(
    lacking: str, option: str, found: Mapping[str, Sequence[tuple[str, str, str]]]
) -> Finding:
    names = tuple(found)
    values = dict.fromkeys(value for items in found.values() for value, _, _ in items)
    words = dict.fromkeys(text for items in found.values() for _, text, _ in items)
    can = "/".join(filter(None, values)) or "yes"
    ours, theirs = [], []
    for name in names:
        optimizer = by_pytorch_name(name)
        if lacking == "burn":
            ours.append(sources.locate(sources.argument_spot(optimizer, option), option))
        elif "," not in option:
            config, path = optimizer.burn_config, option.split(".")
            if len(path) == 2:
                config = "MomentumConfig"
            theirs.append(sources.locate(sources.config_field(config, path[-1]), option))
    said = "; ".join(words) if lacking == "pytorch" else f"burn cannot do {option}={can}"
    flags = [choice for choice, (_, flag, _) in FLAGS.items() if flag == option]
    about = " ".join(meaning(choice) for choice in flags)
    return Finding(
        id=slug("one-sided", "pytorch" if lacking == "burn" else "burn", option.replace("_", "-")),
        kind=ONE_SIDED,
        optimizers=names,
        option=option,
        pytorch=can if lacking == "burn" else "no",
        burn="no" if lacking == "burn" else can,
        meaning=f"{about} {said}".strip(),
        case=min((case for items in found.values() for _, _, case in items), key=_shortest),
        note="impossible on one side",
        pytorch_source=tuple(dict.fromkeys(ours)),
        burn_source=tuple(dict.fromkeys(theirs)),
    )


def _shortest(name: str) -> tuple[int, str]:
    return len(name), name


def schedule_rows(judged: Mapping[str, Any]) -> list[ScheduleRow]:
    """The rows of what judging the schedules left behind."""
    found = []
    for row in judged["rows"]:
        numbers = {key: float(row[key]) for key in ("worst", "needed", "largest")}
        found.append(ScheduleRow(**{**row, **numbers}))
    return found


def schedule_findings(rows: Sequence[ScheduleRow]) -> Iterator[Finding]:
    """A finding for each schedule that differs by formula or that one side alone has.

    Raises:
        PitbError: A schedule that differs has no declared place.
    """
    cases = {case.name: case for case in CASES}
    for row in rows:
        if row.pair != "burn ~ pytorch" or row.relation not in (NOT_BOTH, BY_FORMULA):
            continue
        case = cases[row.case]
        finding = Finding(
            id=slug("one-sided-schedule", case.name),
            kind=ONE_SIDED,
            optimizers=(SCHEDULE,),
            option=case.name,
            pytorch="no" if case.pytorch is None else json.dumps(case.pytorch),
            burn="no" if case.burn is None else json.dumps(case.burn),
            meaning=row.explanation,
            case=case.name,
        )
        if row.relation == NOT_BOTH:
            yield replace(
                finding,
                pytorch_source=_schedule_places(case.pytorch, "pytorch"),
                burn_source=_schedule_places(case.burn, "burn"),
            )
            continue
        if case.name not in sources.SCHEDULER_SPOTS:
            raise PitbError(f"no place is declared for the schedule {case.name}")
        ours, theirs = sources.SCHEDULER_SPOTS[case.name]
        longer = replace(case, steps=max(STEPS))
        outcomes = [reference_rates(longer, side) for side in ("burn", "pytorch")]
        rates = [outcome.rates for outcome in outcomes if outcome is not None]
        pairs = list(zip(*rates, strict=False))  # where one ends with an error, both do
        yield replace(
            finding,
            id=slug("equation-schedule", case.name),
            kind=EQUATION,
            sizes=tuple(
                _rate_size(pairs[:step]) if step <= len(pairs) else Size() for step in STEPS
            ),
            step=next(k for k, (a, b) in enumerate(pairs, 1) if not math.isclose(a, b)),
            pytorch_source=(sources.locate(ours, case.name),),
            burn_source=(sources.locate(theirs, case.name),),
        )


def _schedule_places(node: Any, side: str) -> tuple[str, ...]:
    """The classes or configurations that a schedule is made of."""
    found = []
    for name in dict.fromkeys(names(node)):
        if side == "pytorch":
            spot = sources.torch_spot("optim/lr_scheduler.py", rf"^class {name}\(")
        elif name == "Constant":
            head = "pub enum LrSchedulerConfig {"
            spot = sources.burn_spot("lr_scheduler/base.rs", r"^    Constant\(", head)
        else:
            file = f"lr_scheduler/{name.lower()}.rs"
            spot = sources.burn_spot(file, rf"^pub struct {name}\w*Config \{{")
        found.append(sources.locate(spot, name))
    return tuple(found)


def _rate_size(pairs: Sequence[tuple[float, float]]) -> Size:
    """The difference of the last two rates, relative to the largest so far."""
    a, b = pairs[-1]
    # The last digits differ by rounding, which is no difference of a formula.
    if math.isclose(a, b, rel_tol=1e-12):
        return Size(ZERO, 0.0, 0.0)
    return size(abs(a - b), abs(a - b) / max(abs(rate) for pair in pairs for rate in pair))
