"""The Rust of a port: functions that make the optimizer and its schedule, and one that updates."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from pitb import declared, libraries, rust
from pitb.errors import PitbError
from pitb.port import templates
from pitb.port.assemble import EPOCH, Port, Unit, burn_clipping
from pitb.port.schedules import Config
from pitb.port.translate import Parameter, Ported, expressions, own_clipping, parameters_of, style
from pitb.port.values import Placeholder
from pitb.rust import Expression

_NAMES = {
    "burn::lr_scheduler::module_lr_scheduler": (
        *("ModuleLearningRate", "ModuleLrScheduler", "ModuleLrSchedulerConfig"),
    ),
    "burn::module": ("Module", "ModuleVisitor", "Param", "ParamGroup", "ParamId"),
    "burn::optim": ("GradientsParams", "LBFGS", "ModuleOptimizer"),
    "burn::tensor": ("Tensor",),
}
"""What generated code names beside configurations."""
WIDTH = 96


def rust_of(port: Port) -> str:
    """The Rust of everything in a source; several optimizers stand in modules of their names."""
    versions = libraries.recorded()["versions"]
    head = [
        f"Ported from {port.source.name}: PyTorch {versions['torch']} to burn {versions['burn']}."
    ]
    lines = [f"// {text}" for text in head] + comments(port.lost, "not carried over")
    if len(port.units) == 1:
        code = "\n".join([*lines, *_about(port.units[0]), "", unit_code(port.units[0])])
        return code.rstrip("\n") + "\n"
    for unit in port.units:
        body = "\n".join([*_about(unit), "", unit_code(unit)]).strip("\n")
        lines += ["", f"/// {_what(unit)}", f"pub mod {unit.name} {{"]
        lines += [textwrap.indent(body, "    "), "}"]
    return "\n".join(lines) + "\n"


def comments(texts: Sequence[str], word: str) -> list[str]:
    """Comment lines that say what is not carried over, or note."""
    found = []
    for text in texts:
        wrapped = textwrap.wrap(f"{word}: {text}", WIDTH, break_long_words=False)
        found += [f"// {line}" for line in wrapped]
    return found


def _about(unit: Unit) -> list[str]:
    found = comments(unit.all_lost, "not carried over") + comments(unit.all_notes, "note")
    return found


def _what(unit: Unit) -> str:
    if unit.ported is not None:
        return f"`{unit.name}` of line {unit.ported.call.line}."
    calls = [*unit.schedule_calls, *(clip.call for clip in unit.clips)]
    return f"`{unit.name}` of line {calls[0].line}." if calls else f"`{unit.name}`."


def unit_code(unit: Unit) -> str:
    """The Rust of one unit, with its ``use`` lines."""
    items: list[str] = []
    if unit.ported is not None and not scheduled(unit):
        items += _rate(unit)
    if unit.ported is not None:
        items += _groups(unit.ported)
        items.append(_optimizer(unit, unit.ported))
    if scheduled(unit):
        items.append(_schedule(unit))
    if unit.ported is not None:
        items.append(_update(unit, unit.ported))
    items += _clips(unit)
    body = "\n".join(items)
    return "\n".join([*_uses(body), "", body]) if items else ""


def _uses(code: str) -> list[str]:
    code = re.sub(r"//.*", "", code)
    by_module: dict[str, set[str]] = {}
    for module, names in _NAMES.items():
        for name in names:
            if re.search(rf"(?<![\w:]){name}\b", code):
                by_module.setdefault(module, set()).add(name)
    for line in rust.uses(code):
        module, _, name = line.removeprefix("use ").removesuffix(";").rpartition("::")
        by_module.setdefault(module, set()).add(name)
    found = []
    for module, kept in sorted(by_module.items()):
        names_ = sorted(kept)
        listed = names_[0] if len(names_) == 1 else f"{{{', '.join(names_)}}}"
        line = f"use {module}::{listed};"
        if len(line) > 100:
            wrapped = textwrap.wrap(", ".join(names_), WIDTH)
            inside = "\n".join(f"    {text}" for text in wrapped)
            line = f"use {module}::{{\n{inside},\n}};"
        found.append(line)
    return sorted(found)


def scheduled(unit: Unit) -> bool:
    """Whether the rates come from a schedule: of the source, or because groups have their own."""
    return bool(unit.schedules) or _rates_differ(unit.ported)


def _rates_differ(ported: Ported | None) -> bool:
    if ported is None or len(ported.groups) == 1:
        return False
    first = ported.groups[0].lr
    return any(group.lr != first for group in ported.groups)


def _rate(unit: Unit) -> list[str]:
    assert unit.ported is not None
    if isinstance(unit.ported.lr, Placeholder):
        return []
    literal = rust.number("f64", float(unit.ported.lr))
    return [
        "/// burn's configurations hold no rate: it is given to every `step`.\n"
        f"pub const LEARNING_RATE: f64 = {literal};\n"
    ]


# The optimizer


def _signature(parameters: Sequence[Parameter]) -> str:
    return ", ".join(f"{item.name}: {item.type}" for item in parameters)


def _documented(parameters: Sequence[Parameter]) -> list[str]:
    if not parameters:
        return []
    said = [f"/// - `{item.name}`: `{item.code}` of line {item.line}" for item in parameters]
    return ["///", "/// Known only when the program runs:", *said]


def _group_parameters(ported: Ported) -> list[Parameter]:
    return [
        Parameter(f"group_{i}", "ParamGroup", group.code, group.line)
        for i, group in enumerate(ported.groups)
        if i and group.field is None
    ]


def _group(i: int, ported: Ported) -> str:
    return f"group_{i}" if ported.groups[i].field is None else f"group_{i}()"


def _groups(ported: Ported) -> list[str]:
    found = []
    for i, group in enumerate(ported.groups):
        if i and group.field is not None:
            pattern = group.field.replace(".", r"\.")
            found.append(
                f"/// `{_one_line(group.code)}`: the model's field `{group.field}`.\n"
                f"pub fn group_{i}() -> ParamGroup {{\n"
                f'    ParamGroup::from_regex(r"^{pattern}(\\.|$)").expect("the pattern is valid")\n'
                "}\n"
            )
    return found


def _one_line(code: str) -> str:
    found = code.replace("`", "'")
    return found if len(found) <= 70 else f"{found[:67]}..."


def _configured(unit: Unit, ported: Ported, index: int) -> str:
    burn = dict(expressions(ported.groups[index].burn))
    clipping = burn_clipping(unit)
    field = own_clipping(ported.entry)
    if clipping is not None and field is not None and index == 0:
        burn[field] = clipping
    return rust.configuration(ported.entry.burn_config, burn, style())


def _optimizer(unit: Unit, ported: Ported) -> str:
    made = "LBFGS" if ported.entry.burn == "LBFGS" else "ModuleOptimizer"
    parameters = [*parameters_of(ported), *_clip_parameters(unit, True), *_group_parameters(ported)]
    doc = [
        f"/// `{_one_line(ported.call.code)}`",
        f"/// of line {ported.call.line}, with every option stated.",
    ]
    doc += _documented(parameters)
    head = f"pub fn optimizer({_signature(parameters)}) -> {made} {{"
    if len(ported.groups) == 1:
        body = textwrap.indent(f"{_configured(unit, ported, 0)}\n    .init()", "    ")
        return "\n".join([*doc, head, body, "}", ""])
    lines = []
    for i, group in enumerate(ported.groups):
        text = _configured(unit, ported, i)
        lines.append(f"// {_one_line(group.code)}")
        lines.append(f"let config_{i} = {text};")
    if len(ported.groups) > 1:
        lines.append("// burn's first group also has the parameters that are in no other.")
    clipping = burn_clipping(unit)
    third = "None"
    if clipping is not None:
        third = f"Some({rust.value('GradientClippingConfig', clipping, style())}.init())"
    lines.append("config_0")
    lines.append("    .init()")
    for i in range(1, len(ported.groups)):
        group_code = _group(i, ported)
        lines.append(f"    .with_group({group_code}, config_{i}.build(), {third})")
    body = textwrap.indent("\n".join(lines), "    ")
    return "\n".join([*doc, head, body, "}", ""])


# The schedule


def _schedule_parameters(unit: Unit) -> list[Parameter]:
    types: dict[str, str] = {}
    for config in _configs(unit):
        _find_types("LrSchedulerConfig", config, types)
    known = {**unit.placeholders}
    if unit.ported is not None:
        known |= {group.lr.name: group.lr for group in unit.ported.groups if _is_open(group.lr)}
    return [
        Parameter(name, kind, known[name].code, known[name].line)
        for name, kind in types.items()
        if name in known
    ]


def _is_open(value: Any) -> bool:
    return isinstance(value, Placeholder)


def _find_types(kind: str, value: Any, types: dict[str, str]) -> None:
    if isinstance(value, Expression):
        name = re.match(r"\w+", value.code)
        if name:
            types.setdefault(name[0], "f64" if kind == "LearningRate" else kind)
    elif isinstance(value, list):
        for item in value:
            _find_types(kind.removeprefix("Vec<").removesuffix(">"), item, types)
    elif isinstance(value, dict) and kind in declared.enums():
        ((name_, held),) = value.items()
        _find_types(declared.enums()[kind][name_][0], held, types)
    elif isinstance(value, dict):
        for key, item in value.items():
            declared_field = declared.field(kind, key)
            if declared_field is not None:
                _find_types(declared_field.type, item, types)


def _configs(unit: Unit) -> list[Config]:
    if unit.schedules:
        return unit.schedules
    assert unit.ported is not None
    return [{"Constant": _rate_value(group.lr)} for group in unit.ported.groups]


def _rate_value(lr: Any) -> Any:
    return expressions(lr) if isinstance(lr, Placeholder) else float(lr)


def _schedule(unit: Unit) -> str:
    parameters = _schedule_parameters(unit)
    if unit.ported is not None:
        parameters += _group_parameters(unit.ported)
    calls = [f"`{_one_line(call.code)}` of line {call.line}" for call in unit.schedule_calls]
    said = " and ".join(calls) if calls else "The rates of the groups"
    doc = [f"/// {said}.", "///"]
    doc += [f"/// Its `step` gives the rates of the {unit.stepped} to come, so call it before."]
    doc += _documented(parameters)
    plain = rust.Style(libraries.recorded()["burn"], stated=True)
    configs = [rust.value("LrSchedulerConfig", config, plain) for config in _configs(unit)]
    lines = [rust.folded(f"ModuleLrSchedulerConfig::new({configs[0]})", 4)]
    for i, config in enumerate(configs[1:], start=1):
        assert unit.ported is not None
        line = f".with_group({_group(i, unit.ported)}, {config})"
        lines.append(f"    {rust.folded(line, 8)}")
    lines += ["    .init()", '    .expect("burn takes the schedule")']
    head = f"pub fn schedule({_signature(parameters)}) -> ModuleLrScheduler {{"
    body = "\n".join(f"    {line}" for line in lines)
    return "\n".join([*doc, head, body, "}", ""])


# The update


def _clip_parameters(unit: Unit, in_optimizer: bool) -> list[Parameter]:
    """Bounds that are known only when the program runs."""
    own = burn_clipping(unit) is not None
    if own != in_optimizer:
        return []
    return [
        Parameter(clip.bound.name, "f32" if own else "f64", clip.bound.code, clip.bound.line)
        for clip in unit.clips
        if isinstance(clip.bound, Placeholder)
    ]


def _clip_calls(unit: Unit, model: str) -> list[str]:
    if burn_clipping(unit) is not None:
        return []
    found = []
    for clip in unit.clips:
        if not clip.called:
            continue
        bound = (
            clip.bound.name
            if isinstance(clip.bound, Placeholder)
            else rust.number("f64", float(clip.bound))
        )
        name = clip.name.rstrip("_")
        found.append(f"{name}({model}, &mut grads, {bound});")
    return found


def _update(unit: Unit, ported: Ported) -> str:
    lbfgs = ported.entry.burn == "LBFGS"
    takes = ["model: M", f"optimizer: &mut {'LBFGS' if lbfgs else 'ModuleOptimizer'}"]
    own: list[Parameter] = []
    if not scheduled(unit):
        rate = "LEARNING_RATE"
        if isinstance(ported.lr, Placeholder):
            rate = ported.lr.name
            own.append(Parameter(rate, "f64", ported.lr.code, ported.lr.line))
    elif unit.stepped == EPOCH:
        takes.append("rates: &ModuleLearningRate")
        rate = "rates.clone()"
    else:
        takes.append("schedule: &mut ModuleLrScheduler")
        rate = "schedule.step()"
    own += [item for item in _clip_parameters(unit, False) if item.name not in _names(own)]
    clips = _clip_calls(unit, "&model")
    if lbfgs:
        return _lbfgs_update(unit, takes, own, rate, clips)
    takes += [f"{item.name}: {item.type}" for item in own]
    takes.append("mut grads: GradientsParams" if clips else "grads: GradientsParams")
    doc = [
        "/// One update, with what `GradientsParams::from_grads(loss.backward(), &model)` gives."
    ]
    doc += _documented(own)
    lines = [*clips, f"optimizer.step({rate}, model, grads)"]
    head = _head("pub fn update<M: Module>(", takes, ") -> M {")
    return "\n".join([*doc, head, *(f"    {line}" for line in lines), "}", ""])


def _names(parameters: Sequence[Parameter]) -> list[str]:
    return [item.name for item in parameters]


def _head(start: str, takes: Sequence[str], end: str) -> str:
    line = f"{start}{', '.join(takes)}{end}"
    if len(line) <= 100:
        return line
    return "\n".join([start, *(f"    {item}," for item in takes), end])


def _lbfgs_update(
    unit: Unit, takes: list[str], own: Sequence[Parameter], rate: str, clips: Sequence[str]
) -> str:
    rate = rate.replace("schedule.step()", "schedule.step().base()")
    rate = rate.replace("rates.clone()", "rates.base()")
    takes += [f"{item.name}: {item.type}" for item in own]
    takes.append("mut closure: F" if clips else "closure: F")
    doc = ["/// One update; `closure` gives the loss of a model and its gradients."]
    doc += _documented(own)
    if clips:
        step = [
            f"optimizer.step({rate}, model, |model: M| {{",
            "    let (loss, mut grads) = closure(model.clone());",
            *(f"    {line}" for line in clips),
            "    (loss, grads)",
            "})",
        ]
    else:
        step = [f"optimizer.step({rate}, model, closure)"]
    head = _head("pub fn update<M, F>(", takes, ") -> (M, f64)")
    where = ["where", "    M: Module,", "    F: FnMut(M) -> (f64, GradientsParams),", "{"]
    return "\n".join([*doc, head, *where, *(f"    {line}" for line in step), "}", ""])


def _clips(unit: Unit) -> list[str]:
    if burn_clipping(unit) is not None:
        return []
    norms = [clip for clip in unit.clips if clip.name == "clip_grad_norm_"]
    found = []
    kinds = {(clip.norm_type, clip.error_if_nonfinite) for clip in norms}
    if len(kinds) > 1:
        raise PitbError(
            f"{norms[1].call.where}: gradients of one optimizer are clipped by norms of two kinds"
        )
    for norm_type, error in kinds:
        found.append(templates.clip_norm(norm_type, error))
    if any(clip.name == "clip_grad_value_" for clip in unit.clips):
        found.append(templates.clip_value())
    return found
