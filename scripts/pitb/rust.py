"""burn's configurations as a user writes them in Rust.

Values are those of burn's serialised configurations: null or a value for an ``Option``, an object
for a configuration, ``{"Norm": 0.1}`` or ``"Original"`` for an enum.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pitb import declared
from pitb.declared import Field
from pitb.defaults import as_f32
from pitb.errors import PitbError, nearest

Options = Mapping[str, Any]
Configurations = Mapping[str, Any]
FLOATS = ("f32", "f64", "LearningRate")
INDENT = "    "


@dataclass(frozen=True)
class Expression:
    """A value that is Rust already, such as the name of a parameter."""

    code: str


@dataclass(frozen=True)
class Style:
    """How configurations are written.

    A part that is on by default has the defaults that the field gives it, not its own.
    """

    defaults: Configurations
    """burn's defaults: by configuration ``fields``, as ``optdef --defaults`` prints them."""
    everything: bool = False
    """Whether also what is at burn's default is written, and what is not gets a comment."""
    stated: bool = False
    """Whether also what is at burn's default is written, on one line and without comments."""


def configuration(name: str, options: Options, style: Style) -> str:
    """``AdamConfig::new().with_epsilon(1e-8)``.

    On one line, or, where everything is written, a line for each field.

    Args:
        name: ``AdamConfig``.
        options: The fields that are set; the others have burn's defaults.
        style: What is written.

    Raises:
        PitbError: It has no such field, or the field cannot hold the value.
    """
    fields = {field.name: field for field in _fields(name)}
    for field in options:
        if field not in fields:
            near = nearest(field, fields)
            raise PitbError(f"burn's configuration has no field {field!r}; nearest: {near!r}")
    new = ", ".join(
        value(item.type, _given(name, item, options), style)
        for item in fields.values()
        if item.required
    )
    lines = [f"{name}::new({new})"]
    whole = style.everything or style.stated
    for item in fields.values() if whole else _in_order(fields, options):
        if not item.required:
            lines += _setter(name, item, options, style)
    if not style.everything:
        return "".join(lines)
    return f"\n{INDENT}".join("\n".join(lines).split("\n"))


def _in_order(fields: Mapping[str, Field], options: Options) -> Iterator[Field]:
    return (fields[name] for name in options)


def _fields(name: str) -> tuple[Field, ...]:
    known = declared.structs()
    if name not in known:
        raise PitbError(f"burn has no {name}; the nearest is {nearest(name, known)!r}")
    return known[name]


def _given(name: str, item: Field, options: Options) -> Any:
    if item.name not in options:
        raise PitbError(f"{name} has no default for {item.name!r}, and none is given")
    return options[item.name]


def default_of(name: str, field: str, defaults: Configurations) -> Any:
    """burn's default of a field that has one."""
    if name not in defaults:
        text = next(item.default for item in _fields(name) if item.name == field)
        return _default_value(text or "")
    return defaults[name]["fields"][field]


def _default_value(text: str) -> Any:
    """A default of a configuration that ``optdef`` does not print, a scheduler's."""
    if text == "Vec::new()":
        return []
    if "::" in text:
        return text.rpartition("::")[2]
    return float(text) if "." in text or "e" in text else int(text)


def _setter(name: str, item: Field, options: Options, style: Style) -> Iterator[str]:
    default = default_of(name, item.name, style.defaults)
    given = options.get(item.name, default)
    whole = given
    if isinstance(default, dict) and isinstance(given, dict):
        whole = {**default, **given}
    same = same_value(item.type, whole, default)
    if not style.everything:
        if not style.stated and (same or (isinstance(given, dict) and not given)):
            return
        if isinstance(default, dict):
            yield f".with_{item.name}({_literal(item.inner, whole, style)})"
        else:
            yield f".with_{item.name}({value(item.type, given, style)})"
        return
    inner = style
    if isinstance(default, dict):
        inner = Style({**style.defaults, item.inner: {"fields": default}}, everything=True)
    written = value(item.type, whole, inner)
    comment = "" if same else f" // burn's default: {shown(item.type, default, style)}"
    yield f".with_{item.name}({written}){comment}"


def same_value(kind: str, given: Any, default: Any) -> bool:
    """Whether a field of a type holds the same with both values."""
    if isinstance(given, Expression) or isinstance(default, Expression):
        return False
    inner = kind.removeprefix("Option<").removesuffix(">")
    if given is None or default is None:
        return given is None and default is None
    if inner.startswith("("):
        kinds = inner.strip("()").split(", ")
        return all(map(same_value, kinds, given, default))
    if inner in FLOATS:
        pair = float(given), float(default)
        return pair[0] == pair[1] or (inner == "f32" and as_f32(pair[0]) == as_f32(pair[1]))
    if isinstance(given, dict) and isinstance(default, dict) and inner in declared.structs():
        fields = {item.name: item.type for item in _fields(inner)}
        return all(same_value(fields[key], given.get(key), default[key]) for key in default)
    return bool(given == default)


def shown(kind: str, given: Any, style: Style) -> str:
    """A value on one line, as a comment says it."""
    if isinstance(given, dict) and kind in declared.structs():
        return _literal(kind, given, style)
    return value(kind, given, Style(style.defaults))


def _literal(name: str, given: Options, style: Style) -> str:
    """``MomentumConfig { momentum: 0.95, ... }``: where the defaults are not those of ``new``."""
    parts = [f"{item.name}: {value(item.type, given[item.name], style)}" for item in _fields(name)]
    return f"{name} {{ {', '.join(parts)} }}"


def value(kind: str, given: Any, style: Style) -> str:
    """A value of a type.

    Raises:
        PitbError: The type cannot hold it.
    """
    if isinstance(given, Expression):
        return f"Some({given.code})" if kind.startswith("Option<") else given.code
    if kind.startswith("Option<"):
        if given is None:
            return "None"
        inner = value(kind.removeprefix("Option<").removesuffix(">"), given, style)
        return f"Some({_broken(inner)})"
    if kind.startswith("Vec<"):
        inner = kind.removeprefix("Vec<").removesuffix(">")
        return f"vec![{', '.join(value(inner, item, style) for item in given)}]"
    if kind.startswith("("):
        kinds = kind.strip("()").split(", ")
        if not isinstance(given, (list, tuple)) or len(given) != len(kinds):
            raise PitbError(f"{given!r} is not {len(kinds)} numbers")
        return f"({', '.join(value(k, x, style) for k, x in zip(kinds, given, strict=True))})"
    if kind in declared.enums():
        return _variant(kind, given, style)
    if kind in declared.structs():
        return _broken(configuration(kind, given, style))
    return number(kind, given)


def _broken(text: str) -> str:
    """An argument of several lines stands on lines of its own."""
    if "\n" not in text or text.startswith("\n"):
        return text
    code, mark, comment = text.rpartition("\n")[2].partition(" // ")
    last = f"{code},{mark}{comment}"
    body = f"{text.rpartition(chr(10))[0]}\n{last}"
    return f"\n{textwrap.indent(body, INDENT)}\n"


def _variant(kind: str, given: Any, style: Style) -> str:
    variants = declared.enums()[kind]
    name, held = next(iter(given.items())) if isinstance(given, dict) else (given, None)
    if name not in variants:
        near = nearest(str(name), variants)
        raise PitbError(f"burn's {kind} has no variant {name!r}; nearest: {near!r}")
    if not variants[name]:
        return f"{kind}::{name}"
    return f"{kind}::{name}({value(variants[name][0], held, style)})"


def number(kind: str, given: Any) -> str:
    """A number or bool of a Rust type.

    Raises:
        PitbError: The type cannot hold it: an f32 that overflows or underflows, a negative usize.
    """
    if kind == "bool":
        if not isinstance(given, bool):
            raise PitbError(f"{given!r} is not true or false")
        return str(given).lower()
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise PitbError(f"{given!r} is not a number")
    if kind in FLOATS:
        return float_literal(float(given), kind)
    if given != int(given) or given < 0 or given >= 2**64:
        raise PitbError(f"{given!r} is not a whole number of 0 or more")
    return str(int(given))


def float_literal(given: float, kind: str = "f64") -> str:
    """The shortest literal, ``1e-8``, that is this number in f32 or f64."""
    kind = "f32" if kind == "f32" else "f64"
    special = {"inf": "INFINITY", "-inf": "NEG_INFINITY", "nan": "NAN"}.get(repr(given))
    if special is not None:
        return f"{kind}::{special}"
    if kind == "f32" and given:
        try:
            kept = as_f32(given)
        except OverflowError:
            kept = float("inf")
        if kept == 0 or abs(kept) == float("inf"):
            what = "0" if kept == 0 else "infinity"
            raise PitbError(f"{given!r} is {what} in f32")
    return re.sub(r"e(-?)\+?0*", r"e\1", repr(given))  # 1e-08


def uses(code: str) -> list[str]:
    """The ``use`` lines of what a piece of Rust names of burn's configurations."""
    found = []
    for name, path in declared.paths().items():
        if re.search(rf"(?<![\w:]){name}\b", re.sub(r"//.*", "", code)):
            found.append(f"use {path};")
    return sorted(found)


def scheduler(config: Mapping[str, Any], defaults: Configurations) -> str:
    """The configuration of a schedule, ``{"Step": {...}}``, from which ``init`` makes it."""
    ((kind, given),) = config.items()
    style = Style(defaults)
    held = declared.enums()["LrSchedulerConfig"].get(kind)
    if held is not None and held[0] in declared.structs():
        return value(held[0], given, style)
    return value("LrSchedulerConfig", dict(config), style)


def folded(code: str, indent: int = 0, width: int = 100) -> str:
    """An expression on one line; where that is too long, its arguments have lines of their own."""
    if indent + len(code) <= width or not code.endswith((")", "]")):
        return code
    inner = indent + len(INDENT)
    head, *calls = _chain(code)
    if calls:
        links = (f"\n{' ' * inner}{folded(call, inner, width)}" for call in calls)
        return folded(head, indent, width) + "".join(links)
    start = _opening(code)
    if start is None:
        return code
    parts = [folded(part, inner, width - 1) for part in _arguments(code[start + 1 : -1])]
    pad = " " * inner
    lines = "".join(f"{pad}{part},\n" for part in parts)
    return f"{code[: start + 1]}\n{lines}{' ' * indent}{code[-1]}"


def _chain(code: str) -> list[str]:
    """An expression and the ``with_*`` calls on it."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(code):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and i and code.startswith(".with_", i):
            parts.append(code[start:i])
            start = i
    return [*parts, code[start:]]


def _opening(code: str) -> int | None:
    """Where the bracket opens that closes at the end."""
    depth = 0
    for i in range(len(code) - 1, -1, -1):
        depth += (code[i] in ")]}") - (code[i] in "([{")
        if depth == 0:
            return i
    return None


def _arguments(code: str) -> list[str]:
    """The arguments between brackets."""
    parts, depth, start = [], 0, 0
    for i, character in enumerate(code):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append(code[start:i].strip())
            start = i + 1
    return [part for part in (*parts, code[start:].strip()) if part]
