"""Every difference in a default or an equation, found in what the breadth has judged.

A finding is generated, not typed: which choice or default differs comes from the descriptions and
from burn's own defaults, where it matters from the outcomes, its size from the reference, its place
from the installed source. What is declared by hand is a pattern for each place
(:mod:`pitb.breadth.sources`) and a way to align what can be aligned.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pitb.breadth import code, runs, sources
from pitb.breadth.cases import NEEDS_LOSS, Case
from pitb.breadth.cases import STEPS as STEPS_OF_A_CASE
from pitb.breadth.defaults import DefaultDifference, differences
from pitb.breadth.judge import Pair
from pitb.breadth.laws import law
from pitb.breadth.mutants import EQUIVALENT
from pitb.breadth.phases import IMPOSSIBLE
from pitb.compare import MISMATCH, OK
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.reference import equations, lbfgs
from pitb.reference.descriptions import describe
from pitb.reference.equations import Equations
from pitb.reference.training import Run, train
from pitb.registry import Optimizer, by_pytorch_name, optimizers
from pitb.schedulers import Row as ScheduleRow
from pitb.schedulers import reference_rates
from pitb.schedulers.cases import CASES
from pitb.schedulers.judge import DIFFERENT as BY_FORMULA
from pitb.schedulers.judge import ONE_SIDED as NOT_BOTH
from pitb.schedulers.judge import names
from pitb.trace import Trace

KINDS = DEFAULT, EQUATION, ONE_SIDED = ("default", "equation", "one-sided")
STEPS = (1, 10, 200)
"""At which the sizes are given."""
ACROSS = "pytorch--burn"
SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
SCHEDULE = "lr_scheduler"
"""Stands for an optimizer's name where a finding is about a schedule."""
Burn = Mapping[str, Any]
Refusal = Callable[[str, dict[str, Any]], str | None]

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

    how: str = "no"
    how_zh: str = "不能"
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
    import pyarrow.parquet as pq

    from pitb.files import read_json

    entries: dict[str, Any] = {}
    outcomes, kills = [], []
    rows: dict[tuple[str, int], Mapping[str, Any]] = {}
    for optimizer in optimizers():
        entries |= read_json(plans / f"{optimizer.key}.json")["cases"]
        outcomes += read_json(judged / optimizer.key / "outcomes.json")
        kills += read_json(judged / optimizer.key / "kills.json")
        table = pq.read_table(
            judged / optimizer.key / "rows.parquet",
            columns=["case", "step", "max_abs", "needed", "verdict"],
            filters=[("pair", "=", ACROSS), ("quantity", "=", "param")],
        )
        rows |= {(row["case"], row["step"]): row for row in table.to_pylist()}
    return Evidence(entries, outcomes, kills, rows, burn)


def find(
    evidence: Evidence,
    measured: Sequence[ScheduleRow] = (),
    refusal: Refusal | None = None,
) -> list[Finding]:
    """Every finding: defaults, equations, what is one-sided, and schedules.

    Args:
        evidence: What was judged.
        measured: The rows of the judge of the schedules; none of them leaves those out.
        refusal: What burn itself says to options, which is quoted.
    """
    found = [
        *default_findings(evidence),
        *equation_findings(evidence),
        *one_sided_findings(evidence, refusal),
        *schedule_findings(measured),
    ]
    check(found)
    return found


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


# Equations


@dataclass(frozen=True)
class Recipe:
    """How a choice of equation is aligned."""

    how: str
    how_zh: str
    sets: tuple[str, ...]
    """The option sets that show it."""
    problem: str = ""


RECIPES: Mapping[str, Recipe] = {
    "late_clipping": Recipe(
        "set clipping when the optimizer is built",
        "在构造优化器时就设好裁剪",
        ("clip-norm", "clip-value"),
    ),
    "own_clip_denominator": Recipe(
        "clip in the training loop, with PyTorch's denominator",
        "在训练循环里裁剪，用 PyTorch 的分母",
        ("clip-each",),
    ),
    "own_clip_limit": Recipe(
        "clip in the training loop, with a limit in f64",
        "在训练循环里裁剪，界限用 f64",
        ("clip-each", "clip-value-loop"),
    ),
    "trust_ratio": Recipe(
        "switch the trust ratio on at both sides: always_adapt=True, with_use_trust_ratio(true)",
        "两边都打开信任比：always_adapt=True，with_use_trust_ratio(true)",
        ("adapt", "adapt-only"),
    ),
    "factored_epsilon": Recipe(
        "an epsilon 1 so small that neither form matters, 1e-30 at both sides",
        "两边都用小到哪种形式都不起作用的 epsilon 1：1e-30",
        ("default",),
    ),
    "momentum": Recipe(
        "keep eps far below the gradients' norm: the update is normalised, and its scale lost",
        "让 eps 远小于梯度的范数：更新会归一化，尺度就不起作用",
        ("match-rms",),
        "gradients",
    ),
    "fan": Recipe(
        "adjust the rate by match_rms_adamw, in which both axes count alike",
        "用 match_rms_adamw 调整学习率，它对两个轴一视同仁",
        ("match-rms",),
        "gradients",
    ),
    "lbfgs.line_search_tolerance": Recipe(
        "leave tolerance_change at 1e-9, which is what PyTorch's line search has in any case",
        "tolerance_change 保持 1e-9，PyTorch 的线搜索反正用这个值",
        ("wolfe",),
    ),
}
"""By choice. What is not here cannot be aligned."""

FLAGS: Mapping[str, str] = {
    "decay_where": "cautious_weight_decay",
    "relative_step": "relative_step",
    "parameter_scale": "scale_parameter",
}
"""Choices that differ in the descriptions because one side alone has an option for them."""


def equation_findings(evidence: Evidence) -> Iterator[Finding]:
    """A finding for each choice of equation that differs and that an optimizer reads.

    Raises:
        PitbError: The place of one that matters is not declared.
    """
    matters = _mattering(evidence)
    differing = _differing(evidence)
    for choice in choices():
        found = [] if choice in FLAGS else differing.get(choice, [])
        field_name = choice.partition(".")[0]
        telling = [name for name in found if matters.get((field_name, name))]
        candidates = [outcome for name in telling for outcome in matters[field_name, name]]
        shown = smallest(evidence, choice, candidates)
        if shown is not None and not shown.alone:
            more = smallest(evidence, choice, _also(evidence, candidates))
            shown = min(filter(None, (shown, more)), key=lambda each: each.order)
        if found:
            yield _equation(evidence, choice, tuple(telling if shown else found), shown)


def _also(evidence: Evidence, candidates: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Runs that agree within the tolerance between the libraries, and may show a choice that only
    runs of one suite have: what is wider there hides what clipping does.
    """
    suites = {outcome["suite"] for outcome in candidates}
    if not suites or suites & {"options", "coverage"}:
        return []
    return [o for o in evidence.across.values() if o["suite"] in suites and o["verdict"] == OK]


def choices() -> list[str]:
    """Every choice of equation, those of L-BFGS as ``lbfgs.curvature``."""
    own = [f"lbfgs.{item.name}" for item in fields(lbfgs.Choices)]
    return [item.name for item in fields(Equations) if item.name != "lbfgs"] + own


def value_of(eq: Equations, choice: str) -> Any:
    """The value of a choice, also of one of L-BFGS's."""
    outer, _, inner = choice.partition(".")
    return getattr(eq.lbfgs, inner) if inner else getattr(eq, outer)


def with_value(eq: Equations, choice: str, value: Any) -> Equations:
    """With one choice changed."""
    outer, _, inner = choice.partition(".")
    return eq.but(lbfgs=replace(eq.lbfgs, **{inner: value})) if inner else eq.but(**{outer: value})


def _differing(evidence: Evidence, optimizer: str = "") -> dict[str, list[str]]:
    """For each choice the optimizers, or one, whose descriptions differ in it and that read it."""
    read_by: dict[str, set[str]] = {}
    for kill in evidence.kills:
        name = kill["mutant"].partition("=")[0] if kill["kind"] == "choice" else "float32"
        if kill["kind"] in ("choice", "precision"):
            read_by.setdefault(kill["optimizer"], set()).add(name)
    for outcome in evidence.outcomes:
        # What no mutant can change, such as the dtype of a state that is loaded.
        if outcome["explanation"] == "formula":
            read_by.setdefault(outcome["optimizer"], set()).update(outcome["because"])
    found: dict[str, list[str]] = {}
    for name, read_here in read_by.items():
        if optimizer not in ("", name):
            continue
        sides = [describe(side, name) for side in ("pytorch", "burn")]
        for choice in choices():
            a, b = (value_of(eq, choice) for eq in sides)
            if a != b and choice in read_here:
                found.setdefault(choice, []).append(name)
    return found


def _mattering(evidence: Evidence) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """The outcomes that a choice explains, by choice and optimizer."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for outcome in evidence.outcomes:
        if outcome["explanation"] == "formula" and outcome["pair"] == ACROSS:
            for choice in outcome["because"]:
                found.setdefault((choice, outcome["optimizer"]), []).append(outcome)
    return found


@dataclass(frozen=True)
class Shown:
    """A run that shows what a choice does."""

    entry: Mapping[str, Any]
    case: Case
    effect: "Effect"
    numbers: int
    """The numbers that have to be given to see it."""
    alone: bool
    """Whether no other difference shows in it."""

    @property
    def order(self) -> tuple[Any, ...]:
        """The smaller, the better it shows the choice: in a parameter, alone, with numbers that are
        ordinary and few, and with the optimizer that comes first.
        """
        case = self.case
        return (
            self.effect.quantity != "param",
            not self.alone,
            _is_odd(case.problem, case.optimizer),
            self.numbers,
            case.dtype != "float32",
            _place(case.optimizer),
            len(case.options),
            -self.effect.size,
            case.name,
        )


@dataclass(frozen=True)
class Effect:
    """What aligning a choice alone does to a run."""

    step: int
    """The first update after which it shows; 0 where one of the two runs fails instead."""
    quantity: str
    """``param``; or the state in which alone it shows."""
    size: float
    """Relative, at that update."""


def _place(optimizer: str) -> int:
    return [item.pytorch for item in optimizers()].index(optimizer)


def _is_odd(name: str, optimizer: str) -> bool:
    """Whether a run is no plain one: its squares leave the range of float32, or each of its updates
    evaluates the loss many times.
    """
    return problem(name).overflows or optimizer in NEEDS_LOSS


MOST_TRIED = 150
"""Runs that are tried for a choice before the best of them is taken."""


def smallest(
    evidence: Evidence, choice: str, candidates: Iterable[Mapping[str, Any]]
) -> Shown | None:
    """The run with the fewest numbers in which a choice matters, preferably it alone.

    The numbers are those of the parameters, of the inputs, and of the prescribed gradients up to
    the first update that shows it.
    """
    field_name = choice.partition(".")[0]

    def least(outcome: Mapping[str, Any]) -> tuple[bool, bool, int, int, str]:
        numbers = _numbers(outcome["problem"], 1)
        odd = _is_odd(outcome["problem"], outcome["optimizer"])
        others = outcome["because"] != [field_name]
        long = outcome["steps"] > STEPS_OF_A_CASE
        return odd or long, others, numbers, _place(outcome["optimizer"]), outcome["case"]

    best: Shown | None = None
    for outcome in sorted(candidates, key=least)[:MOST_TRIED]:
        odd, _, numbers, *_ = least(outcome)
        settled = best is not None and best.order[:2] == (False, False)
        if best is not None and settled and (odd, numbers) > best.order[2:4]:
            continue
        entry = dict(evidence.entries[outcome["case"]])
        found = effect(entry, choice)
        if found is None:
            continue
        all_others = outcome["because"] or _differing(evidence, outcome["optimizer"])
        others = (effect(entry, other) for other in all_others if other != field_name)
        shown = Shown(
            entry=entry,
            case=runs.case_of(entry),
            effect=found,
            numbers=_numbers(outcome["problem"], max(found.step, 1)),
            alone=not any(other and other.quantity == "param" for other in others),
        )
        if best is None or shown.order < best.order:
            best = shown
    return best


@cache
def _numbers(name: str, steps: int) -> int:
    found = problem(name)
    given = [*found.parameters.values(), *found.inputs.values()]
    if found.gradients:
        given += [value for step in range(1, steps + 1) for value in found.gradient(step).values()]
    return sum(value.size for value in given)


def aligned_runs(entry: dict[str, Any], choice: str) -> tuple[Run, Run]:
    """The run as burn's description has it, and with one choice as PyTorch's has it."""
    case = runs.case_of(entry)
    ours, theirs = (runs.equations_of(case, side) for side in ("pytorch", "burn"))
    changed = with_value(theirs, choice, value_of(ours, choice))
    return runs.reference_run(entry, "burn"), runs.reference_run(entry, "burn", changed)


def effect(entry: dict[str, Any], choice: str) -> Effect | None:
    """What a choice alone does beyond rounding to a run; None where that is nothing."""
    case = runs.case_of(entry)
    a, b = (train(run) for run in aligned_runs(entry, choice))
    pair, limit = Pair(a, b), law(case, "burn--reference")
    of_state: Effect | None = None
    for step in range(case.steps + 1):
        worst = pair.difference(step, "param")
        if worst is not None and not worst.relative <= limit.tolerance(step):
            return Effect(step, "param", worst.relative)
        state = pair.difference(step, "state")
        if state is not None and not state.relative <= limit.tolerance(step):
            of_state = of_state or Effect(step, state.tensor, state.relative)
    if (a.error is None) != (b.error is None):
        return Effect(0, "param", math.inf)
    return of_state


def sizes(a: Trace, b: Trace) -> tuple[Size, ...]:
    """How far two traces are apart at the steps that are given."""
    pair = Pair(a, b)
    found = []
    for step in range(max(STEPS) + 1):
        worst = pair.difference(step, "param")
        if step not in STEPS:
            continue
        if worst is None:
            found.append(Size(FAILS if a.error != b.error else NOT_RUN))
        else:
            found.append(size(worst.max_abs, worst.relative))
    return tuple(found)


def size(absolute: float, relative: float) -> Size:
    """A size of two numbers."""
    if absolute == 0:
        return Size(ZERO, 0.0, 0.0)
    if not math.isfinite(absolute):
        return Size(NOT_FINITE)
    return Size("", absolute, relative)


def _equation(
    evidence: Evidence, choice: str, names: tuple[str, ...], shown: Shown | None
) -> Finding:
    values = {side: _values(choice, side, names) for side in ("pytorch", "burn")}
    finding = Finding(
        id=slug("equation", choice.replace("_", "-")),
        kind=EQUATION,
        optimizers=names,
        option=choice,
        pytorch=values["pytorch"],
        burn=values["burn"],
        meaning=meaning(choice),
        pytorch_source=sources.place(choice, "pytorch", names),
        burn_source=sources.place(choice, "burn", names),
        align=_aligned(evidence, choice, names),
    )
    if shown is None:
        return replace(finding, note=EQUIVALENT.get(choice, "no run shows it beyond rounding"))
    measured = [replace(run, steps=max(STEPS)) for run in aligned_runs(dict(shown.entry), choice)]
    note = "" if shown.alone else "other differences show in this run, too"
    if shown.effect.quantity != "param":
        note = f"shows in {shown.effect.quantity} alone"
    return replace(
        finding,
        case=shown.case.name,
        sizes=sizes(*(train(run) for run in measured)),
        step=shown.effect.step,
        quantity=shown.effect.quantity,
        alone=shown.alone,
        note=note,
    )


def _values(choice: str, side: str, names: Sequence[str]) -> str:
    """The value of a choice, by optimizer where they have several."""
    found: dict[str, list[str]] = {}
    for name in names:
        value = value_of(describe(side, name), choice)
        text = ", ".join(sorted(value)) or "none" if isinstance(value, frozenset) else str(value)
        found.setdefault(text, []).append(name)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{' / '.join(who)}: {text}" for text, who in found.items())


@cache
def _docstrings(path: Path) -> dict[str, str]:
    """What stands below each field of the classes of a module."""
    found = {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        for item, after in zip(node.body, node.body[1:], strict=False):
            if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                found[item.target.id] = " ".join(str(after.value.value).split())
    return found


def meaning(choice: str) -> str:
    """What a choice of equation is about, as its own docstring says.

    Raises:
        PitbError: It has none.
    """
    outer, _, inner = choice.partition(".")
    module = lbfgs if inner else equations
    found = _docstrings(Path(str(module.__file__)))
    if (inner or outer) not in found:
        raise PitbError(f"the choice {choice} has no docstring")
    return found[inner or outer]


def _aligned(evidence: Evidence, choice: str, names: Sequence[str]) -> Align:
    """The declared way to align a choice, and a case that shows it.

    Raises:
        PitbError: There are such cases, and none agrees.
    """
    recipe = RECIPES.get(choice)
    if recipe is None:
        return Align()
    tried = [
        outcome
        for outcome in evidence.across.values()
        if outcome["set"] in recipe.sets
        and outcome["optimizer"] in names
        and recipe.problem in ("", outcome["problem"])
    ]
    agree = [outcome["case"] for outcome in tried if _agrees(evidence, outcome)]
    if tried and not agree:
        sets = ", ".join(recipe.sets)
        raise PitbError(f"{choice} is said to be aligned by {sets}, but no such case agrees")
    # A slice need not have the problem.
    return Align(recipe.how, recipe.how_zh, agree[0] if agree else "")


def _agrees(evidence: Evidence, outcome: Mapping[str, Any]) -> bool:
    """Whether the libraries agree on a case's parameters; states may be kept in another scale."""
    if outcome["verdict"] == OK:
        return True
    steps = range(1, outcome["steps"] + 1)
    rows = [evidence.rows.get((outcome["case"], step)) for step in steps]
    found = [row["verdict"] for row in rows if row is not None]
    return outcome["verdict"] == MISMATCH and bool(found) and set(found) == {OK}


# Defaults


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
        numbers = _numbers(outcome["problem"], 1)
        differs = outcome["verdict"] == MISMATCH
        return not differs, numbers, outcome["dtype"] != "float32", outcome["steps"]

    chosen = min(cases, key=order)
    same = [c for c in cases if (c["problem"], c["dtype"]) == (chosen["problem"], chosen["dtype"])]
    found = []
    for step in STEPS:
        rows = [evidence.rows.get((case["case"], step)) for case in same]
        row = next((row for row in rows if row is not None), None)
        found.append(Size() if row is None else size(row["max_abs"], row["needed"]))
    impossible = chosen["verdict"] == IMPOSSIBLE
    note = chosen["reason"] if impossible else ""
    if not note and chosen["verdict"] == OK:
        note = "within rounding in this run"
    return chosen["case"], tuple(found), note


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


# One-sided


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
    said = "; ".join(words)
    flags = [choice for choice, flag in FLAGS.items() if flag == option]
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


# Schedules


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
            places = {
                "pytorch_source": _schedule_places(case.pytorch, "pytorch"),
                "burn_source": _schedule_places(case.burn, "burn"),
            }
            yield replace(finding, **places)
            continue
        if case.name not in sources.SCHEDULER_SPOTS:
            raise PitbError(f"no place is declared for the schedule {case.name}")
        ours, theirs = sources.SCHEDULER_SPOTS[case.name]
        outcomes = [reference_rates(case, side) for side in ("burn", "pytorch")]
        rates = [outcome.rates for outcome in outcomes if outcome is not None]
        pairs = list(zip(*rates, strict=True))
        yield replace(
            finding,
            id=slug("equation-schedule", case.name),
            kind=EQUATION,
            sizes=tuple(
                _rate_size(*pairs[step - 1]) if step <= len(pairs) else Size() for step in STEPS
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


def _rate_size(a: float, b: float) -> Size:
    # The last digits differ by rounding, which is no difference of a formula.
    if math.isclose(a, b, rel_tol=1e-12):
        return Size(ZERO, 0.0, 0.0)
    return size(abs(a - b), abs(a - b) / max(abs(a), abs(b)))


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
