"""burn's configurations as PyTorch's calls: out of their ``Debug``, their JSON, or the Rust that
makes them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pitb import declared, libraries
from pitb.errors import PitbError, nearest
from pitb.lint import sources, values
from pitb.port.values import refused
from pitb.registry import Hyperparameter, Optimizer, optimizers

DEEPEST = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+|inf|NaN))(?![\w.])"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<mark>[{}()\[\],:])|(?P<end>$))"
)


@dataclass
class Reversed:
    """A configuration of burn's as Python."""

    configuration: str
    """``AdamConfig``."""
    entry: Optimizer
    options: dict[str, Any]
    """PyTorch's, by name; those that it has no counterpart of are left at its defaults."""
    clip: Mapping[str, float] | None = None
    """burn's own clipping, ``{"Norm": 0.1}``."""
    lost: list[str] = field(default_factory=list)
    """What PyTorch cannot do."""
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 where everything is carried over, 1 where something is not."""
        return 1 if self.lost else 0


def is_burn(text: str) -> bool:
    """Whether a text looks like a configuration of burn's, not like Python."""
    shown = re.match(r"\s*(\w+Config\s*\{|\{\s*\")", text) is not None
    return shown or re.search(r"\b\w+Config\s*::\s*new\s*\(", text) is not None


def reverse(text: str, name: str) -> Reversed:
    """The call of PyTorch's that means the same as a configuration of burn's.

    Args:
        text: ``AdamConfig { beta_1: 0.9, ... }`` as burn prints it, its JSON, or Rust,
            ``AdamConfig::new().with_beta_1(0.9)``, of which the rest is at burn's defaults.
        name: How messages call it.

    Raises:
        PitbError: It is neither, a field is unknown or missing, or a value has the wrong type.
    """
    configuration, fields = _read(text.strip().removeprefix("\ufeff"), name)
    entry = next(item for item in optimizers() if item.burn_config == configuration)
    stated = _checked(configuration, fields, name, "")
    found = Reversed(configuration, entry, {})
    for item in entry.hyperparameters:
        _take(found, item, stated)
    found.options |= entry.neutral
    for path in entry.burn_only:
        _take_own(found, path, stated)
    _refuse(found)
    return found


# Reading


def _read(text: str, name: str) -> tuple[str, Any]:
    if text.startswith("{"):
        return _read_json(text, name)
    if "::" in text:
        return _read_rust(text, name)
    value = _Debug(text, name).whole()
    if not isinstance(value, dict) or "" not in value:
        raise PitbError(f"{name} is no configuration of an optimizer of burn's")
    kind = value.pop("")
    _check_name(kind, name)
    return kind, value


def _read_rust(text: str, name: str) -> tuple[str, Any]:
    known = {item.burn_config for item in optimizers()}
    try:
        read = sources.read(text, name)
    except PitbError:
        # An expression is no file of Rust, but the body of a function is.
        read = sources.read(f"fn made() {{ {text}\n}}", name)
    sites = [site for site in read.sites if site.configuration in known]
    if len(sites) != 1:
        raise PitbError(
            f"{name}: {len(sites)} configurations of optimizers are made in it, and one can be read"
        )
    (site,) = sites
    found = dict(libraries.burn_fields(site.configuration))
    for field_name, node in site.fields.items():
        if node is None:
            raise PitbError(f"{name}, line {site.line}: what {field_name} is, a macro hides")
        entry = declared.field(site.configuration, field_name)
        try:
            given = values.value(node)
        except RecursionError:
            raise PitbError(f"{name}, line {site.line}: it is nested too deeply") from None
        if entry is not None and isinstance(given, dict) and entry.inner in declared.structs():
            own = libraries.recorded()["burn"].get(entry.inner, {}).get("fields", {})
            given = {**own, **given}
        found[field_name] = given
    return site.configuration, found


def _check_name(kind: str, name: str) -> None:
    known = [item.burn_config for item in optimizers()]
    if kind not in known:
        near = nearest(kind, known)
        raise PitbError(f"{name}: burn has no optimizer with a {kind}; nearest: {near!r}")


def _read_json(text: str, name: str) -> tuple[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: _unrepeated(pairs, name))
    except json.JSONDecodeError as error:
        raise PitbError(f"{name}, line {error.lineno}: this is not JSON: {error.msg}") from None
    except RecursionError:
        raise PitbError(f"{name}: the JSON is nested too deeply") from None
    if len(value) == 1:
        ((kind, inner),) = value.items()
        if kind.endswith("Config") and isinstance(inner, dict):
            _check_name(kind, name)
            return kind, inner
    # The name does not stand in it, so the fields must say it.
    likely = max(optimizers(), key=lambda item: _likeness(item, value))
    own = {item.name for item in declared.structs()[likely.burn_config]}
    alike = [o for o in optimizers() if _likeness(o, value) == _likeness(likely, value)]
    if not set(value) & own or len(alike) > 1:
        raise PitbError(
            f"{name}: whose configuration this is does not follow from its fields; write "
            f'{{"AdamConfig": {{...}}}}'
        )
    return likely.burn_config, value


def _likeness(item: Optimizer, value: Mapping[str, Any]) -> float:
    own = {entry.name for entry in declared.structs()[item.burn_config]}
    return len(own & set(value)) / len(own | set(value))


def _unrepeated(pairs: list[tuple[str, Any]], name: str) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise PitbError(f"{name}: the field {key!r} is given twice")
    return dict(pairs)


class _Debug:
    """A reader of what Rust's ``{:?}`` and ``{:#?}`` print. The name of a struct is under ""."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name, self.at, self.depth = text, name, 0, 0

    def error(self, what: str) -> PitbError:
        line = self.text.count("\n", 0, self.at) + 1
        return PitbError(f"{self.name}, line {line}: this is not burn's Debug: {what}")

    def next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise self.error(f"{self.text[self.at : self.at + 10].strip()!r} is not expected")
        self.at = match.end()
        kind = str(match.lastgroup)
        return kind, match[kind]

    def peek(self) -> tuple[str, str]:
        at = self.at
        found = self.next()
        self.at = at
        return found

    def expect(self, mark: str) -> None:
        _, text = self.next()
        if text != mark:
            raise self.error(f"{mark!r} is expected, and not {text or 'the end'!r}")

    def whole(self) -> Any:
        found = self.value()
        if self.peek()[0] != "end":
            raise self.error(f"{self.peek()[1]!r} after the end")
        return found

    def value(self) -> Any:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self.error("it is nested too deeply")
        try:
            return self._value()
        finally:
            self.depth -= 1

    def _value(self) -> Any:
        kind, text = self.next()
        if kind == "number":
            plain = text.replace("_", "").replace("NaN", "nan")
            return int(plain) if re.fullmatch(r"[-+]?\d+", plain) else float(plain)
        if kind == "mark" and text in "([":
            return self._items(")" if text == "(" else "]")
        if kind != "word":
            raise self.error(f"a value is expected, and not {text or 'the end'!r}")
        if text in ("true", "false"):
            return text == "true"
        after = self.peek()[1]
        if after == "{":
            self.next()
            return {"": text, **self._fields()}
        if after == "(":
            self.next()
            items = self._items(")")
            if text == "Some" and len(items) == 1:
                return items[0]
            return {text: items[0] if len(items) == 1 else items}
        # `None` of an Option or of an enum: which of them, the type of the field says.
        return text

    def _fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.peek()[1] != "}":
            kind, text = self.next()
            if kind != "word":
                raise self.error(f"the name of a field is expected, and not {text!r}")
            if text in found:
                raise self.error(f"the field {text!r} is given twice")
            self.expect(":")
            found[text] = self.value()
            if self.peek()[1] != "}":
                self.expect(",")
        self.next()
        return found

    def _items(self, end: str) -> list[Any]:
        found = []
        while self.peek()[1] != end:
            found.append(self.value())
            if self.peek()[1] != end:
                self.expect(",")
        self.next()
        return found


# Checking


def _checked(configuration: str, fields: Any, name: str, path: str) -> dict[str, Any]:
    """The fields of a configuration, of the types that burn declares."""
    declared_fields = {item.name: item for item in declared.structs()[configuration]}
    if not isinstance(fields, dict):
        raise PitbError(f"{name}: {path or configuration} is no {configuration}")
    fields = {key: value for key, value in fields.items() if key}
    for key in fields:
        if key not in declared_fields:
            near = nearest(key, declared_fields)
            raise PitbError(
                f"{name}: {configuration} has no field {path}{key!r}; nearest: {near!r}"
            )
    for key in declared_fields:
        if key not in fields:
            raise PitbError(f"{name}: {configuration} lacks the field {path}{key}")
    return {
        key: _typed(declared_fields[key].type, value, name, f"{path}{key}")
        for key, value in fields.items()
    }


def _typed(kind: str, value: Any, name: str, path: str) -> Any:
    def wrong(what: str) -> PitbError:
        return PitbError(f"{name}: {path} is {what}, and not {value!r}")

    if kind.startswith("Option<"):
        inner = kind.removeprefix("Option<").removesuffix(">")
        return None if value in (None, "None") else _typed(inner, value, name, path)
    if kind in declared.structs():
        return _checked(kind, value, name, f"{path}.")
    if kind in declared.enums():
        word = next(iter(value)) if isinstance(value, dict) and len(value) == 1 else value
        variants = declared.enums()[kind]
        if not isinstance(word, str) or word not in variants:
            raise wrong(f"one of {', '.join(variants)}")
        if not variants[word]:
            return word
        if not isinstance(value, dict):
            raise wrong(f"a number in {word}")
        return {word: _typed(variants[word][0], value[word], name, f"{path}.{word}")}
    if kind.startswith("("):
        kinds = kind.strip("()").split(", ")
        if not isinstance(value, list) or len(value) != len(kinds):
            raise wrong(f"{len(kinds)} numbers")
        return [_typed(k, x, name, path) for k, x in zip(kinds, value, strict=True)]
    if kind == "bool":
        if not isinstance(value, bool):
            raise wrong("true or false")
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong("a number")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise wrong("a number of 64 bits")
    if kind == "usize":
        if not float(value).is_integer() or value < 0:
            raise wrong("a whole number of 0 or more")
        return int(value)
    # An f32 as its shortest decimal: 0.9, not 0.8999999761581421.
    return float(str(np.float32(value))) if kind == "f32" else float(value)


# Saying it in PyTorch's words


def _take(found: Reversed, item: Hyperparameter, stated: Mapping[str, Any]) -> None:
    first, _, rest = item.burn.partition(".")
    value = stated[first]
    if rest and value is not None:
        value = value[rest]
    if value is None and rest and item.off is None:
        return  # of a part that is off
    if value is None and item.off is not None:
        value = item.off
    if item.values:
        back = {theirs: ours or None for ours, theirs in reversed([*item.values.items()])}
        value = back[value]
    base, _, index = item.pytorch.partition("[")
    if not index:
        found.options[base] = value
        return
    standard = list(libraries.pytorch_defaults(found.entry.pytorch)[base])
    held = found.options.setdefault(base, standard)
    held[int(index[:-1])] = value


def _take_own(found: Reversed, path: str, stated: Mapping[str, Any]) -> None:
    """What burn alone has: clipping, which a training loop can do, and what PyTorch cannot."""
    first, _, rest = path.partition(".")
    value = stated[first]
    if rest and isinstance(value, dict):
        value = value[rest]
    if path.endswith("clipping"):
        found.clip = value
        return
    default = libraries.burn_fields(found.configuration)[first]
    default = default[rest] if rest else default
    if value != default:
        shown = str(value).lower() if isinstance(value, bool) else value
        found.lost.append(f"{path}: {shown}, which PyTorch's {found.entry.pytorch} does not have")


def _refuse(found: Reversed) -> None:
    options = {**libraries.pytorch_defaults(found.entry.pytorch), **found.options}
    for condition in declared.refusals(found.entry.pytorch):
        if refused(condition, options):
            names = [key for key in options if re.search(rf"\b{key}\b", condition)]
            said = ", ".join(f"{key}={_python(options[key])}" for key in names)
            takes = condition.removeprefix("not ")
            how = f"takes {takes}" if takes != condition else f"refuses {condition}"
            found.lost.append(f"{said}: PyTorch's {found.entry.pytorch} {how}")


def _python(value: Any) -> str:
    if isinstance(value, list):
        return f"({', '.join(map(_python, value))})"
    if isinstance(value, float) and not np.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def call(found: Reversed, lr: float | None = None) -> str:
    """PyTorch's call with every option that burn's configuration states."""
    rate = "lr" if lr is None else _python(lr)
    options = "".join(f", {name}={_python(value)}" for name, value in found.options.items())
    module = found.entry.module
    return f"{module}.{found.entry.pytorch}(model.parameters(), lr={rate}{options})"


def python(found: Reversed, lr: float | None = None) -> str:
    """The Python: the call, and the clipping that belongs into the training loop."""
    lines = [f"# PyTorch cannot do {text}" for text in found.lost]
    if lr is None:
        lines.append("# burn's configuration holds no rate: lr is what is given to its step().")
    lines.append(f"optimizer = {call(found, lr)}")
    if found.clip is not None:
        ((kind, limit),) = found.clip.items()
        lines.append("# Between backward() and step(), as burn does it within its step:")
        if kind == "Value":
            lines.append(f"torch.nn.utils.clip_grad_value_(model.parameters(), {_python(limit)})")
        else:
            lines.append("for parameter in model.parameters():  # each by its own norm")
            lines.append(f"    torch.nn.utils.clip_grad_norm_([parameter], {_python(limit)})")
    return "\n".join(lines) + "\n"
