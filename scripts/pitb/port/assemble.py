"""What belongs together in a source: an optimizer, its schedule, its clips."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pitb.port import calls, translate
from pitb.port.calls import ABSENT, CLIP, OPTIMIZER, SCHEDULER, Call
from pitb.port.schedulers import node_of
from pitb.port.schedules import Config, NotCarriedOver
from pitb.port.schedules import translate as translate_schedule
from pitb.port.source import Source
from pitb.port.translate import Clip, Ported, expressions
from pitb.port.values import Evaluator, Placeholder, identifier
from pitb.registry import optimizers
from pitb.rust import Expression

UPDATE, EPOCH = "update", "epoch"
Item = tuple[Call, Config, list[Any]]
"""A scheduler, as `translate_schedule` takes it, and the calls and placeholders in it."""


@dataclass
class Unit:
    """An optimizer of burn's with what surrounds it; or a schedule or clip of an optimizer that
    the source does not show.
    """

    name: str
    ported: Ported | None
    schedules: list[Config] = field(default_factory=list)
    """burn's schedule of each group; empty where rates are constant."""
    node: Config = field(default_factory=dict)
    """PyTorch's scheduler, as `schedules.translate` takes it."""
    schedule_calls: list[Call] = field(default_factory=list)
    stepped: str = UPDATE
    """Whether the schedule advances with every update or every epoch."""
    clips: list[Clip] = field(default_factory=list)
    placeholders: dict[str, Placeholder] = field(default_factory=dict)
    """Of the schedule."""
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def all_lost(self) -> list[str]:
        """What cannot be carried over."""
        return [*(self.ported.lost if self.ported else []), *self.lost]

    @property
    def all_notes(self) -> list[str]:
        """What is worth knowing."""
        return list(dict.fromkeys([*(self.ported.notes if self.ported else []), *self.notes]))


@dataclass
class Port:
    """What a source comes to."""

    source: Source
    units: list[Unit]
    lost: list[str] = field(default_factory=list)
    """Calls that burn has no counterpart of."""

    @property
    def all_lost(self) -> list[str]:
        """What cannot be carried over, of all units."""
        return [*self.lost, *(text for unit in self.units for text in unit.all_lost)]

    @property
    def exit_code(self) -> int:
        """0 where everything is carried over, 1 where something is not."""
        return 1 if self.all_lost else 0


def assemble(
    source: Source,
    dtype: str = "float32",
    steps: int | None = None,
    known: Mapping[str, Any] | None = None,
) -> Port:
    """The units of a source.

    Args:
        source: As it was read.
        dtype: Of the parameters, ``float32`` or ``float64``.
        steps: How many updates there are, which schedules without an end need.
        known: Values of expressions that depend on the run, ``{"args.lr": 3e-4}``.

    Raises:
        PitbError: A call is one that PyTorch would refuse, or there is none.
    """
    evaluator = Evaluator(source, known)
    found = calls.find(source)
    port = Port(source, [])
    for call in found:
        if call.kind == ABSENT:
            has = ", ".join(item.burn for item in optimizers())
            port.lost.append(f"{call.where}: burn has no counterpart of {call.full}, only {has}")
        elif call.kind == OPTIMIZER:
            name = _free(_variable(call), [unit.name for unit in port.units])
            added, lost = _later_groups(call)
            ported = translate.port_optimizer(call, evaluator, name, dtype, added)
            port.units.append(Unit(name, ported, lost=[*lost, *_own_rates(call)]))
    _add_schedules(port, [call for call in found if call.kind == SCHEDULER], evaluator, steps)
    for call in found:
        if call.kind == CLIP:
            _add_clip(port, translate.port_clip(call, evaluator))
    return port


def _later_groups(call: Call) -> tuple[list[ast.expr], list[str]]:
    """What ``add_param_group`` is given before training, and what is lost of it."""
    source, target = call.source, _target(call)
    found: list[ast.expr] = []
    lost: list[str] = []
    for node in _methods(source, target, "add_param_group"):
        given = [*node.args, *(keyword.value for keyword in node.keywords)]
        conditional = any(
            isinstance(item, (ast.If, ast.Try, ast.While, ast.For))
            for item in _around(source, node)
        )
        if len(given) != 1 or conditional:
            lost.append(f"{source.where(node)}: a group is added while the program runs")
        else:
            found.append(given[0])
    return found, lost


def _around(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    """The statements around a node, within its function."""
    here = source.parents.get(node)
    while here is not None and not isinstance(here, (ast.FunctionDef, ast.Module)):
        yield here
        here = source.parents.get(here)


def _own_rates(call: Call) -> list[str]:
    """Where the source changes options of groups itself, ``group["lr"] = ...``."""
    source, groups = call.source, f"{_target(call)}.param_groups"
    found = []
    for node in ast.walk(source.tree):
        if not isinstance(node, (ast.Assign, ast.AugAssign)):
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if not isinstance(target, ast.Subscript) or not isinstance(target.slice, ast.Constant):
                continue
            base = source.code(target.value)
            over = [
                item
                for item in _around(source, node)
                if isinstance(item, ast.For)
                and source.code(item.target) == base
                and groups in source.code(item.iter)
            ]
            if over or base.startswith(f"{groups}["):
                found.append(
                    f"{source.where(node)}: {source.code(target)} is set while the program runs; "
                    "burn is given the rate at each step, and other options when it is made"
                )
    return found


def _variable(call: Call) -> str:
    """The name of what a call's result is assigned to."""
    usual = "optimizer" if call.kind == OPTIMIZER else "schedule"
    return identifier(_target(call).rpartition(".")[2], usual)


def _target(call: Call) -> str:
    """The text of what a call's result is assigned to; empty where it is not."""
    parent = call.source.parents.get(call.node)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return call.source.code(parent.targets[0])
    if isinstance(parent, (ast.AnnAssign, ast.NamedExpr)):
        return call.source.code(parent.target)
    return ""


def _free(name: str, taken: Sequence[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


def _unit_of(port: Port, text: str) -> Unit | None:
    """The unit of the optimizer that a source calls ``text``."""
    own = [unit for unit in port.units if unit.ported is not None]
    for unit in reversed(own):
        if unit.ported is not None and text and _target(unit.ported.call) == text:
            return unit
    for unit in own:
        if unit.ported is not None and unit.ported.call.code == text:
            return unit
    return own[0] if len(own) == 1 else None


# Schedules


def _add_schedules(
    port: Port, found: Sequence[Call], evaluator: Evaluator, steps: int | None
) -> None:
    made: list[Item] = []
    for call in found:
        used: list[Any] = []
        made.append((call, node_of(call, evaluator, used), used))
    inner = {item for call, _, used in made for item in used if item is not call.node}
    by_unit: dict[int, list[Item]] = {}
    alone: list[Item] = []
    for item in made:
        if item[0].node in inner:
            continue
        unit = _unit_of(port, _optimizer_text(item[0], evaluator))
        if unit is None:
            alone.append(item)
        else:
            by_unit.setdefault(port.units.index(unit), []).append(item)
    for index, items in by_unit.items():
        _schedule(port.units[index], items, steps)
    for item in alone:
        name = _free(_variable(item[0]), [unit.name for unit in port.units])
        unit = Unit(name, None)
        port.units.append(unit)
        _schedule(unit, [item], steps)


def _optimizer_text(call: Call, evaluator: Evaluator) -> str:
    bound = calls.bind(call, evaluator)
    node = bound.get("optimizer")
    if isinstance(node, ast.expr):
        return call.source.code(node)
    children = bound.get("schedulers")
    for child in ast.walk(children) if isinstance(children, ast.expr) else ():
        inner: ast.AST | None = child
        if isinstance(child, ast.Name):
            binding = call.source.binding(child.id, child)
            inner = binding.value if binding else None
        if isinstance(inner, ast.Call) and inner.args:
            return call.source.code(inner.args[0])
    return ""


def _schedule(
    unit: Unit, items: Sequence[tuple[Call, Config, list[Any]]], steps: int | None
) -> None:
    call = items[0][0]
    node = items[0][1]
    if len(items) > 1:
        node = {"class": "ChainedScheduler", "schedulers": [item[1] for item in items]}
        unit.notes.append("several schedulers step one rate, as a ChainedScheduler does")
    unit.stepped = _stepped(unit, call)
    for _, _, used in items:
        unit.placeholders |= {item.name: item for item in used if isinstance(item, Placeholder)}
    rates = [group.lr for group in unit.ported.groups] if unit.ported else [None]
    try:
        for rate in rates:
            found = translate_schedule(node, _base(unit, rate, call), steps)
            unit.schedules.append(found.config)
            unit.notes += [text for text in found.notes if text not in unit.notes]
    except NotCarriedOver as refusal:
        unit.schedules = []
        unit.lost.append(f"{call.where}: {node['class']}: {refusal}")
        return
    unit.node = node
    unit.schedule_calls = [item[0] for item in items]
    if unit.stepped == EPOCH:
        unit.notes.append(
            "the source steps the scheduler once per epoch: call step() of the schedule before "
            "each epoch, and keep its rates during it"
        )


def _base(unit: Unit, rate: Any, call: Call) -> float | Expression:
    if rate is None:
        base = Placeholder("lr", "the optimizer's lr", call.line)
        unit.placeholders.setdefault("lr", base)
        return Expression("lr")
    if isinstance(rate, Placeholder):
        unit.placeholders.setdefault(rate.name, rate)
        found: Expression = expressions(rate)
        return found
    return float(rate)


def _stepped(unit: Unit, call: Call) -> str:
    """Whether a scheduler's ``step()`` stands in the loop of the optimizer's, or around it."""
    source = call.source
    target = _target(call)
    ours = _steps(source, target) if target else []
    theirs = _steps(source, _target(unit.ported.call)) if unit.ported else []
    if not ours or not theirs:
        return UPDATE
    loop, inner = source.loop(ours[0]), source.loop(theirs[0])
    if loop is inner or loop is None or inner is None:
        return UPDATE
    around = source.loop(inner)
    while around is not None:
        if around is loop:
            return EPOCH
        around = source.loop(around)
    return UPDATE


def _steps(source: Source, target: str) -> list[ast.Call]:
    return _methods(source, target, "step")


def _methods(source: Source, target: str, name: str) -> list[ast.Call]:
    """The calls of a method of what a source calls ``target``."""
    if not target:
        return []
    return [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and source.code(node.func.value) == target
    ]


# Clips


def _add_clip(port: Port, clip: Clip) -> None:
    own = [unit for unit in port.units if unit.ported is not None]
    same = [unit for unit in own if unit.ported and clip.parameters in _parameters(unit.ported)]
    where = clip.call.where
    if not own:
        name = _free("clip", [unit.name for unit in port.units])
        port.units.append(Unit(name, None, clips=[clip]))
        return
    stepped = _stepped_after(clip, own)
    if len(stepped) == 1:
        same = stepped
    if (len(same) == 1 and len(stepped) < 2) or len(own) == 1:
        unit = same[0] if len(same) == 1 else own[0]
        assert unit.ported is not None
        part = _part(clip.parameters, _parameters(unit.ported))
        if part:
            unit.lost.append(
                f"{where}: {clip.name} clips {clip.parameters} alone; call the generated function "
                f"on that part of the model, &model.{part}"
            )
            clip.called = False
            unit.clips.append(clip)
            return
        if not same and not _whole(clip.parameters, _parameters(unit.ported)):
            unit.notes.append(
                f"{where}: {clip.name} is taken to clip what {unit.name} updates, "
                f"{', '.join(_parameters(unit.ported))}"
            )
        unit.clips.append(clip)
        return
    port.lost.append(
        f"{where}: whose gradients {clip.call.code} clips, of several optimizers, is not known"
    )


def _stepped_after(clip: Clip, units: Sequence[Unit]) -> list[Unit]:
    """The optimizers that step after a clip, in its block, and update nothing but what it clips.

    With a gradient scaler it is ``scaler.step(optimizer)``.
    """
    source, node = clip.call.source, clip.call.node
    block = next((item for item in _around(source, node) if isinstance(item, _BLOCKS)), None)
    found = []
    for unit in units:
        assert unit.ported is not None
        target, parameters = _target(unit.ported.call), _parameters(unit.ported)
        if not target or not (clip.parameters in parameters or _whole(clip.parameters, parameters)):
            continue
        steps = [
            call
            for call in ast.walk(block or source.tree)
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "step"
            and target in (source.code(call.func.value), *map(source.code, call.args[:1]))
        ]
        if any(_place(call) > _place(node) for call in steps):
            found.append(unit)
    return found


_BLOCKS = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith)


def _place(node: ast.Call) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _parameters(ported: Ported) -> list[str]:
    return [group.code for group in ported.groups]


def _root(code: str) -> str | None:
    match = re.fullmatch(r"([\w.]+)\.parameters\(\)", code)
    return match[1] if match else None


def _part(clip: str, parameters: Sequence[str]) -> str:
    """The field of the model that is clipped, where an optimizer has the whole model."""
    mine = _root(clip)
    for code in parameters:
        whole = _root(code)
        if mine and whole and mine.startswith(f"{whole}."):
            return mine.removeprefix(f"{whole}.")
    roots = [_root(code) for code in parameters]
    if len(parameters) > 1 and mine in roots:
        return (mine or "").rpartition(".")[2]
    return ""


def _whole(clip: str, parameters: Sequence[str]) -> bool:
    """Whether what is clipped holds all of the groups, ``model`` of ``model.head``."""
    mine = _root(clip)
    roots = [_root(code) for code in parameters]
    return mine is not None and all(root and f"{root}.".startswith(f"{mine}.") for root in roots)


def burn_clipping(unit: Unit) -> Any:
    """burn's own clipping in place of the loop's, where both are the same: by value, alone.

    ``{"Value": 0.5}``, or None.
    """
    if unit.ported is None or len(unit.clips) != 1 or unit.clips[0].name != "clip_grad_value_":
        return None
    if not unit.clips[0].called or translate.own_clipping(unit.ported.entry) is None:
        return None
    return {"Value": expressions(unit.clips[0].bound)}
