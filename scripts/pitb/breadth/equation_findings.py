"""The differences in equations: which choices differ, the smallest run that shows each, sizes."""

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pitb.breadth import runs, sources
from pitb.breadth.cases import NEEDS_LOSS, Case
from pitb.breadth.cases import STEPS as STEPS_OF_A_CASE
from pitb.breadth.finding import (
    ACROSS,
    EQUATION,
    FAILS,
    NOT_RUN,
    STEPS,
    Align,
    Evidence,
    Finding,
    Size,
    numbers,
    size,
    slug,
)
from pitb.breadth.judge import Pair
from pitb.breadth.laws import law
from pitb.breadth.mutants import EQUIVALENT
from pitb.compare import MISMATCH, OK
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.reference import equations, lbfgs
from pitb.reference.descriptions import FLAGS, INTERNAL, OURS, describe
from pitb.reference.equations import Equations
from pitb.reference.training import Run, train
from pitb.registry import by_pytorch_name, optimizers
from pitb.trace import Trace


@dataclass(frozen=True)
class Recipe:
    """How a choice of equation is aligned."""

    how: str
    how_zh: str
    sets: tuple[str, ...] = ()
    """The option sets that show it; none where there is nothing to show."""
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
    "amsgrad_nan": Recipe(
        "leave out updates whose gradients are not finite",
        "跳过梯度不是有限值的更新",
        ("amsgrad",),
        "gradients",
    ),
    "nan_in_bound": Recipe(
        "leave out updates whose gradients are not finite",
        "跳过梯度不是有限值的更新",
        ("default",),
        "gradients",
    ),
    "center_product": Recipe(
        "clip gradients whose squares leave the range of float32",
        "裁剪平方超出 float32 范围的梯度",
        ("centered",),
        "gradients",
    ),
    "step_counter": Recipe(
        "give every parameter a gradient at every step, of zeros if need be",
        "让每个参数在每一步都有梯度，必要时用零",
        ("adapt", "betas"),
        "gradients",
    ),
    "float32": Recipe(
        "it cannot: burn's fields are f32; what differs is one rounding of each value",
        "不能：burn 的字段是 f32；差别是每个值的一次舍入",
    ),
    "interpolation": Recipe(
        "it cannot be chosen on either side; what differs is a rounding, but for infinities",
        "两边都不能选；除无穷大之外只差一次舍入",
    ),
    "folded": Recipe(
        "it cannot be chosen on either side; what differs is a rounding",
        "两边都不能选；只差一次舍入",
    ),
    "newton_schulz": Recipe(
        "it cannot: PyTorch iterates in bfloat16 whatever the dtype",
        "不能：无论精度如何 PyTorch 都用 bfloat16 迭代",
    ),
    "lbfgs.last_evaluation": Recipe(
        "it need not be: the parameters are the same, burn evaluates once more",
        "不必：参数相同，burn 多求一次值",
        ("default",),
    ),
    "lbfgs.nan_in_min_max": Recipe(
        "keep the rate so small that the loss stays finite in the line search",
        "让学习率小到线搜索中 loss 保持有限",
        ("wolfe",),
    ),
    "lbfgs.nan_loss": Recipe(
        "keep the rate so small that the loss is no NaN in the line search",
        "让学习率小到线搜索中 loss 不是 NaN",
        ("wolfe",),
    ),
    "lbfgs.negative_max_ls": Recipe(
        "give max_eval at least 1",
        "max_eval 至少取 1",
        ("max-eval",),
    ),
    "lbfgs.line_search_tolerance": Recipe(
        "leave tolerance_change at 1e-9, which is what PyTorch's line search has in any case",
        "tolerance_change 保持 1e-9，PyTorch 的线搜索反正用这个值",
        ("wolfe",),
    ),
}
"""By choice. Of what is not here no way to align it is known."""


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
    """Every choice of equation of the libraries, those of L-BFGS as ``lbfgs.curvature``."""
    own = [f"lbfgs.{item.name}" for item in fields(lbfgs.Choices)]
    every = [item.name for item in fields(Equations) if item.name != "lbfgs"] + own
    return [name for name in every if name not in OURS | INTERNAL]


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
            a, b = (eq.value(choice) for eq in sides)
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
        """The smaller, the better it shows the choice: in a parameter, alone, in a plain run, by
        more than a trace, with few numbers, and with the optimizer that comes first.
        """
        case = self.case
        return (
            self.effect.quantity != "param",
            not self.alone,
            _is_odd(case.problem, case.optimizer),
            self.effect.size < WEAK,
            self.numbers,
            case.dtype != "float32",
            _place(case.optimizer),
            len(case.options),
            -self.effect.size,
            case.name,
        )

    def beats(self, odd: bool, numbers: int) -> bool:
        """Whether no run as odd and with as many numbers can show it better."""
        state, others, mine, weak, *_ = self.order
        return not (state or others or weak) and (odd, numbers) > (mine, self.numbers)


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


WEAK = 1e-8
"""Relative; what makes less of a difference is not seen in float32 at all."""
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
        given = numbers(outcome["problem"], 1)
        odd = _is_odd(outcome["problem"], outcome["optimizer"])
        others = outcome["because"] != [field_name]
        long = outcome["steps"] > STEPS_OF_A_CASE
        return odd or long, others, given, _place(outcome["optimizer"]), outcome["case"]

    best: Shown | None = None
    for outcome in sorted(candidates, key=least)[:MOST_TRIED]:
        odd, _, given, *_ = least(outcome)
        if best is not None and best.beats(odd, given):
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
            numbers=numbers(outcome["problem"], max(found.step, 1)),
            alone=not any(other and other.quantity == "param" for other in others),
        )
        if best is None or shown.order < best.order:
            best = shown
    return best


def aligned_runs(entry: dict[str, Any], choice: str) -> tuple[Run, Run]:
    """The run as burn's description has it, and with one choice as PyTorch's has it."""
    return runs.aligned(entry, []), runs.aligned(entry, [choice])


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
    packages = {by_pytorch_name(name).module.partition(".")[0] for name in names}
    for name in names:
        value = describe(side, name).value(choice)
        text = ", ".join(sorted(value)) or "none" if isinstance(value, frozenset) else str(value)
        found.setdefault(text, []).append(name)
    if len(found) == 1:
        own = side == "pytorch" and packages != {"torch"}
        return next(iter(found)) + (f" ({' and '.join(sorted(packages))})" if own else "")
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
