"""PyTorch's optimizers and clips as burn's configurations."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pitb import declared, libraries, rust
from pitb.errors import PitbError, nearest
from pitb.port.calls import Call, bind
from pitb.port.values import (
    Argument,
    Evaluator,
    Function,
    Made,
    Placeholder,
    RunTime,
    Tensor,
    is_number,
    refused,
)
from pitb.reference.descriptions import differences, shared_differences
from pitb.registry import IMPLEMENTATION, Optimizer, by_pytorch_name, max_eval_of
from pitb.rust import Expression

Options = dict[str, Any]
BY_OPTION = frozenset({"decay_where", "relative_step", "parameter_scale"})
"""Choices of equation that fields of burn's choose, which the port states."""
BY_ROUNDING = frozenset({"float32", "folded", "center_product", "interpolation"})
"""Choices of equation that differ in roundings alone."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the generated function: a value that is known only when the program runs."""

    name: str
    type: str
    code: str
    """The expression in Python."""
    line: int


@dataclass
class Group:
    """A group of parameters."""

    code: str
    """Its parameters in Python."""
    line: int
    options: Options
    """PyTorch's options, all of them."""
    burn: Options
    """burn's fields, those that PyTorch has a counterpart of."""
    lr: Any
    field: str | None = None
    """The model's field that holds it, ``head``; None where that is not known."""


@dataclass
class Clip:
    """Clipping by the training loop."""

    call: Call
    name: str
    """``clip_grad_norm_``."""
    bound: Any
    """The norm or the magnitude that is allowed."""
    norm_type: float = 2.0
    error_if_nonfinite: bool = False
    parameters: str = ""
    """Whose gradients, in Python."""
    called: bool = True
    """Whether the generated update clips; not where it is a part of the model that is clipped."""


@dataclass
class Ported:
    """One optimizer in burn's words."""

    call: Call
    name: str
    """The variable that holds it."""
    entry: Optimizer
    groups: list[Group]
    lost: list[str] = field(default_factory=list)
    """What cannot be carried over."""
    notes: list[str] = field(default_factory=list)
    placeholders: dict[str, Placeholder] = field(default_factory=dict)

    @property
    def lr(self) -> Any:
        """The rate of the first group."""
        return self.groups[0].lr


def style() -> rust.Style:
    """Everything is written."""
    return rust.Style(libraries.recorded()["burn"], everything=True)


def port_optimizer(
    call: Call, evaluator: Evaluator, name: str, dtype: str, added: Sequence[ast.expr] = ()
) -> Ported:
    """burn's counterpart of a call of an optimizer's.

    Args:
        call: The call.
        evaluator: Of its source.
        name: What the result is called.
        dtype: Of the parameters, ``float32`` or ``float64``.
        added: The arguments of its ``add_param_group``.

    Raises:
        PitbError: PyTorch would refuse the call; says what it takes.
    """
    entry = by_pytorch_name(call.name)
    bound = bind(call, evaluator)
    defaults = {
        item["name"]: item["default"] for item in call.parameters if item["name"] != "params"
    }
    given = {key: _value(item, evaluator) for key, item in bound.items() if key != "params"}
    options = _checked(call, {**defaults, **given}, given, defaults, "")
    found = Ported(call, name, entry, [])
    groups = [
        *_groups(call, bound["params"], evaluator, found),
        *(group for node in added for group in _added(call, node, evaluator)),
    ]
    for label, line, own in groups:
        known = {key: item for key, item in own.items() if key in defaults}
        for key in own.keys() - known.keys():
            near = nearest(key, defaults)
            found.notes.append(f"PyTorch's {call.name} does not read {key!r}; nearest: {near!r}")
        resolved = _checked(call, {**options, **known}, known, defaults, f"group {label}: ")
        found.groups.append(Group(label, line, resolved, {}, resolved["lr"]))
    if len(found.groups) > 1 and call.name == "LBFGS":
        raise PitbError(f"{call.where}: PyTorch's LBFGS takes no parameter groups")
    _name_fields(found)
    if call.name == "Adam" and options.get("decoupled_weight_decay") is True:
        found.entry = by_pytorch_name("AdamW")
        found.notes.append("Adam with decoupled_weight_decay=True is AdamW")
        for group in found.groups:
            group.options["decoupled_weight_decay"] = True
    for group in found.groups:
        group.burn = _to_burn(found, group, dtype)
    _add_notes(found, given)
    return found


def _value(given: Any, evaluator: Evaluator) -> Any:
    return evaluator.value(given) if isinstance(given, ast.expr) else given


def _checked(call: Call, options: Options, given: Options, defaults: Options, at: str) -> Options:
    """Options of the types that PyTorch takes, within the ranges that it takes."""
    found = dict(options)
    for name, value in given.items():
        found[name] = _typed(call, name, value, defaults.get(name), at)
    for condition in declared.refusals(call.name):
        if refused(condition, found):
            names = [key for key in found if re.search(rf"\b{key}\b", condition)]
            said = ", ".join(f"{key}={_shown(found[key])}" for key in names)
            takes = condition.removeprefix("not ") if condition.startswith("not ") else ""
            range_ = f"takes {takes}" if takes else f"refuses {condition}"
            raise PitbError(
                f"{call.where}: {at}PyTorch's {call.name} {range_}, and {said} is given"
            )
    return found


def _typed(call: Call, name: str, value: Any, default: Any, at: str) -> Any:
    def wrong(what: str) -> PitbError:
        return PitbError(
            f"{call.where}: {at}{name} of {call.name} is {what}, and {_shown(value)} is given"
        )

    if isinstance(value, Placeholder):
        return value
    if isinstance(value, (Made, Function, Argument, dict)):
        raise PitbError(f"{call.where}: {at}{name} of {call.name} is no number, but an object")
    if isinstance(default, list):
        if not isinstance(value, list) or len(value) != len(default):
            raise wrong(f"a tuple of {len(default)} numbers")
        for item, usual in zip(value, default, strict=True):
            fits = is_number(item) or isinstance(item, Placeholder) or (item is usual is None)
            if not fits:
                raise wrong(f"a tuple of {len(default)} numbers")
        return value
    if isinstance(default, bool):
        if isinstance(value, bool) or value in (0, 1):
            return bool(value)
        raise wrong("True or False")
    neutral = by_pytorch_name(call.name).neutral
    off = value is None and name in neutral and neutral[name] is None
    if is_number(default) and not is_number(value) and not off:
        raise wrong("a number")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, Placeholder):
        return value.code
    if isinstance(value, Tensor):
        return repr(float(value))
    return repr(tuple(value)) if isinstance(value, list) else repr(value)


# Groups


def _groups(
    call: Call, given: Any, evaluator: Evaluator, found: Ported
) -> Iterator[tuple[str, int, Options]]:
    """The text, line and own options of each group."""
    value: Any = None
    if isinstance(given, ast.expr):
        try:
            value = evaluator.known(given)
        except RunTime:
            value = None
    else:
        value = given
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for item in value:
            if not isinstance(item, dict) or "params" not in item:
                raise PitbError(f"{call.where}: a parameter group of {call.name} has no 'params'")
            held = item["params"]
            node = held.node if isinstance(held, Argument) else call.node
            own = {key: item_ for key, item_ in item.items() if key != "params"}
            yield call.source.code(node), node.lineno, own
        return
    if isinstance(value, list) and not value:
        raise PitbError(f"{call.where}: PyTorch's {call.name} refuses an empty list of parameters")
    node = given if isinstance(given, ast.expr) else call.node
    code = call.source.code(node)
    alone = len(call.source.tree.body) == 1
    if isinstance(node, ast.Name) and value is None and not alone and _may_be_groups(call, node):
        found.notes.append(
            f"what {code} holds is known only when the program runs; if it has groups with options "
            "of their own, they are not carried over"
        )
    yield code, node.lineno, {}


def _added(call: Call, node: ast.expr, evaluator: Evaluator) -> Iterator[tuple[str, int, Options]]:
    """A group that ``add_param_group`` adds."""
    value = evaluator.value(node)
    if not isinstance(value, dict) or "params" not in value:
        raise call.source.error(node, f"the group that {call.name} is given has no 'params'")
    held = value["params"]
    own = {key: item for key, item in value.items() if key != "params"}
    code = held.node if isinstance(held, Argument) else node
    yield call.source.code(code), node.lineno, own


def _may_be_groups(call: Call, node: ast.Name) -> bool:
    """Whether a name stands for what may be a list of groups: anything but ``x.parameters()``."""
    binding = call.source.binding(node.id, node)
    return binding is None or ".parameters()" not in call.source.code(binding.node)


def _name_fields(found: Ported) -> None:
    """The model's field of each group, where the source shows one: ``model.head.parameters()``."""
    if len(found.groups) == 1:
        return
    paths = []
    for group in found.groups:
        match = re.fullmatch(r"(?:list\()?([\w.]+)\.parameters\(\)\)?", group.code)
        paths.append(match[1].split(".") if match else None)
    known = [path for path in paths if path is not None]
    if len(known) != len(paths):
        return
    common = 0
    while all(len(path) > common + 1 for path in known) and (
        len({path[common] for path in known}) == 1
    ):
        common += 1
    for group, path in zip(found.groups, known, strict=True):
        group.field = ".".join(path[common:])


# Options


def _to_burn(found: Ported, group: Group, dtype: str) -> Options:
    """burn's fields for a group; what they cannot say is lost, and named."""
    entry = found.entry
    neutral = _neutral(entry, dtype)
    options = {name: neutral[name] for name in neutral}
    where = "" if len(found.groups) == 1 else f"group {group.code}: "
    for name, value in group.options.items():
        if name == "lr" or (name in ("decoupled_weight_decay",) and entry.pytorch == "AdamW"):
            continue
        value = _derived(found, group, name, value, dtype)
        lost = _lost(entry, {**neutral, name: value}, name, value)
        if lost:
            said = f"{found.call.where}: {where}{name}={_shown(group.options[name])}: {lost}"
            if said not in found.lost:
                found.lost.append(said)
        else:
            options[name] = value
    late = _by_word(entry, options)
    burn = entry.to_burn({**options, **{name: neutral[name] for name in late}})
    for item in entry.hyperparameters:
        if item.pytorch_name in late:
            burn[item.burn] = item.of(options)
    _collect(found, burn)
    return burn


def _neutral(entry: Optimizer, dtype: str) -> Options:
    """Values that burn can have, for what is judged one option at a time."""
    recorded = libraries.recorded()["pytorch"][entry.pytorch]["parameters"]
    options = {
        item["name"]: item["default"] for item in recorded if item["name"] not in ("params", "lr")
    }
    options |= entry.neutral
    if entry.pytorch == "Adafactor":
        options["eps"] = [_epsilon(dtype), options["eps"][1]]
    if "max_eval" in options:
        options["max_eval"] = max_eval_of(options["max_iter"])
    return options


def _epsilon(dtype: str) -> float:
    return float(str(np.finfo(dtype).eps))


def _derived(found: Ported, group: Group, name: str, value: Any, dtype: str) -> Any:
    """What None stands for in PyTorch."""
    if found.entry.pytorch == "Adafactor" and name == "eps" and isinstance(value, list):
        if value[0] is None:
            note = f"None of eps[0] stands for the epsilon of the dtype, here {dtype}"
            if note not in found.notes:
                found.notes.append(note)
            return [_epsilon(dtype), value[1]]
        return value
    if name == "max_eval" and value is None:
        most = group.options["max_iter"]
        if isinstance(most, Placeholder):
            return Expression(f"{most.name} * 5 / 4")
        return max_eval_of(most)
    return value


def _lost(entry: Optimizer, options: Options, name: str, value: Any) -> str:
    """Why burn cannot have one option at a value; empty where it can."""
    if _by_word(entry, {name: value}):
        return ""
    if name in entry.pytorch_only and isinstance(value, Placeholder) and name not in IMPLEMENTATION:
        return f"burn's {entry.burn} has no such option, and its value depends on the run"
    try:
        burn = entry.to_burn(options)
        rust.configuration(entry.burn_config, expressions(burn), style())
    except PitbError as error:
        return str(error)
    return ""


def _by_word(entry: Optimizer, options: Options) -> list[str]:
    """Options that words choose, and whose word depends on the run."""
    return [
        item.pytorch_name
        for item in entry.hyperparameters
        if item.values and isinstance(options.get(item.pytorch_name), Placeholder)
    ]


def expressions(burn: Any) -> Any:
    """burn's options with the names of placeholders for them."""
    if isinstance(burn, Placeholder):
        return Expression(burn.name)
    if isinstance(burn, dict):
        return {key: expressions(item) for key, item in burn.items()}
    if isinstance(burn, list):
        return [expressions(item) for item in burn]
    return burn


def _collect(found: Ported, value: Any) -> None:
    if isinstance(value, Placeholder):
        found.placeholders.setdefault(value.name, value)
    elif isinstance(value, dict):
        for item in value.values():
            _collect(found, item)
    elif isinstance(value, list):
        for item in value:
            _collect(found, item)


def parameters_of(found: Ported) -> list[Parameter]:
    """What the generated function for the optimizer takes, with the types of burn's fields."""
    types: dict[str, tuple[str, Placeholder]] = {}
    for group in found.groups:
        _types(found.entry.burn_config, group.burn, types)
        most = group.options.get("max_iter")
        if isinstance(most, Placeholder):
            types.setdefault(most.name, ("usize", most))
    return [Parameter(name, kind, item.code, item.line) for name, (kind, item) in types.items()]


def _types(kind: str, value: Any, types: dict[str, tuple[str, Placeholder]]) -> None:
    kind = kind.removeprefix("Option<").removesuffix(">")
    if isinstance(value, Placeholder):
        types.setdefault(value.name, (kind, value))
    elif isinstance(value, dict) and kind in declared.structs():
        for name, item in value.items():
            declared_field = declared.field(kind, name)
            if declared_field is not None:
                _types(declared_field.type, item, types)
    elif isinstance(value, list) and kind.startswith("("):
        for inner, item in zip(kind.strip("()").split(", "), value, strict=True):
            _types(inner, item, types)


# Notes


def _add_notes(found: Ported, given: Mapping[str, Any]) -> None:
    entry = found.entry
    chosen = [name for name in IMPLEMENTATION if given.get(name)]
    if chosen:
        found.notes.append(
            f"{' and '.join(chosen)} chooses how PyTorch computes, not what; burn needs no "
            "counterpart"
        )
    for name, value in given.items():
        if isinstance(value, Tensor):
            found.notes.append(f"{name} is a tensor in PyTorch; burn takes the number in it")
    if entry.matrices_only:
        found.notes.append(
            f"burn's {entry.burn} takes matrices alone; give the others an optimizer of their own, "
            "by with_group"
        )
    found.notes += equations(entry.pytorch)


def equations(optimizer: str) -> list[str]:
    """The differences in equations that no option aligns, a sentence each."""
    from pitb.breadth.equation_findings import meaning

    shared = shared_differences()
    found = []
    own = 0
    for name, (ours, theirs) in differences(optimizer).items():
        if name in shared or name in BY_OPTION | BY_ROUNDING:
            continue
        if name.startswith("lbfgs."):
            own += 1  # what they make of the ends of a line search, which most runs never see
            continue
        said = re.sub(r" (?=[,.])", "", " ".join(meaning(name).split())).replace("``", "`")
        found.append(f"no option aligns {name}, {ours} in PyTorch and {theirs} in burn: {said}")
    if own:
        found.append(f"no option aligns {own} rarely reached branches; see docs/breadth.md")
    return found


# Clips


def port_clip(call: Call, evaluator: Evaluator) -> Clip:
    """A call of ``clip_grad_norm_`` or ``clip_grad_value_``.

    Raises:
        PitbError: An argument is of the wrong type or out of range.
    """
    bound = bind(call, evaluator)
    names = [item["name"] for item in call.parameters]
    values = {item["name"]: item["default"] for item in call.parameters if "default" in item}
    values |= {key: _value(item, evaluator) for key, item in bound.items() if key != "parameters"}
    bound_name = names[1]
    limit = values[bound_name]
    if not isinstance(limit, Placeholder) and not (is_number(limit) and float(limit) >= 0):
        raise PitbError(
            f"{call.where}: {bound_name} of {call.name} is a number of 0 or more, and "
            f"{_shown(limit)} is given"
        )
    node = bound["parameters"]
    found = Clip(call, call.name, limit)
    found.parameters = call.source.code(node) if isinstance(node, ast.expr) else ""
    if call.name == "clip_grad_norm_":
        kind = values["norm_type"]
        if kind == "inf":
            kind = float("inf")
        if isinstance(kind, Placeholder) or not is_number(kind) or not float(kind) > 0:
            raise PitbError(
                f"{call.where}: norm_type of {call.name} is a number greater than 0 or 'inf', and "
                f"{_shown(kind)} is given"
            )
        found.norm_type = float(kind)
        found.error_if_nonfinite = values["error_if_nonfinite"] is True
    return found


def own_clipping(entry: Optimizer) -> str | None:
    """The field of burn's configuration that clips each gradient; None where it has none."""
    return next((name for name in entry.burn_only if name.endswith("clipping")), None)
