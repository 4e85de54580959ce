"""Options as a user writes them: burn's configurations in Rust, PyTorch's arguments in Python."""

import re
from collections.abc import Mapping
from typing import Any

from pitb.errors import PitbError
from pitb.registry import Optimizer

Options = Mapping[str, Any]
Burn = Mapping[str, Any]

_PARTS = {"weight_decay": "WeightDecayConfig", "momentum": "MomentumConfig"}
"""Fields that hold a configuration of their own."""
_ENUMS = {"adjust_lr_fn": "AdjustLrFn", "line_search_fn": "LineSearchFn"}
_CLIPPING = ("grad_clipping", "gradient_clipping")
MODULES = {
    "WeightDecayConfig": "burn::optim::decay::WeightDecayConfig",
    "MomentumConfig": "burn::optim::momentum::MomentumConfig",
    "GradientClippingConfig": "burn::grad_clipping::GradientClippingConfig",
}
"""Where burn has what is not directly below ``burn::optim``."""


def burn_config(optimizer: Optimizer, options: Options, burn: Burn) -> str:
    """``AdamConfig::new().with_epsilon(1e-8)``: what is not at burn's default.

    Args:
        optimizer: Whose configuration it is.
        options: burn's options, as its specifications have them.
        burn: burn's defaults, as ``optdef --defaults`` prints them.
    """
    name = optimizer.burn_config
    return f"{name}::new()" + _setters(burn[name]["fields"], options, burn)


def uses(code: str) -> list[str]:
    """The ``use`` lines of what a piece of Rust names of burn's optimizers."""
    enums = [f"burn::optim::{name}" for name in _ENUMS.values()]
    paths = [*MODULES.values(), *enums]
    return [f"use {path};" for path in sorted(paths) if path.rpartition("::")[2] in code]


def _setters(defaults: Options, options: Options, burn: Burn) -> str:
    found = ""
    for field, value in options.items():
        if field not in defaults:
            raise PitbError(f"burn's configuration has no field {field!r}")
        default = defaults[field]
        if value == default or (isinstance(value, dict) and not value):
            continue
        written = _value(field, value, default, burn)
        if written is not None:
            found += f".with_{field}({written})"
    return found


def _value(field: str, value: Any, default: Any, burn: Burn) -> str | None:
    """A value in Rust; None where it says no more than the default does."""
    optional = default is None
    if isinstance(value, dict) and field in _CLIPPING:
        ((kind, limit),) = value.items()
        return f"Some(GradientClippingConfig::{kind}({number(limit, 0.0)}))"
    if isinstance(value, dict):
        written = _part(field, value, default, burn)
        return f"Some({written})" if optional and written else written
    if value is None:
        return "None"
    if field in _ENUMS:
        return f"{_ENUMS[field]}::{value}"
    if isinstance(value, list):
        numbers = ", ".join(number(x, 0.0) for x in value)
        return f"({numbers})"
    written = number(value, default)
    return f"Some({written})" if optional else written


def _part(field: str, value: Options, default: Any, burn: Burn) -> str | None:
    name = _PARTS[field]
    if name == "WeightDecayConfig":
        return f"{name}::new({number(value['penalty'], 0.0)})"
    if default is None:
        return f"{name}::new()" + _setters(burn[name]["fields"], value, burn)
    if all(default[key] == item for key, item in value.items()):
        return None
    # A struct is written out: the defaults of the part alone are not those it has here.
    whole = {**default, **value}
    fields = ", ".join(f"{key}: {number(item, default[key])}" for key, item in whole.items())
    return f"{name} {{ {fields} }}"


def number(value: Any, default: Any) -> str:
    """A number or bool as Rust writes it, of the type of ``default``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(default, float) or isinstance(value, float):
        text = re.sub(r"e(-?)\+?0*", r"e\1", repr(float(value)))  # 1e-08
        special = {"inf": "f64::INFINITY", "-inf": "f64::NEG_INFINITY", "nan": "f64::NAN"}
        return special.get(text, text)
    return str(value)


def arguments(options: Options) -> str:
    """``, betas=(0.9, 0.99)``: what follows the parameters and the rate in PyTorch."""
    return "".join(
        f", {name}={tuple(value) if isinstance(value, list) else value!r}"
        for name, value in options.items()
    )


def python_number(value: float) -> str:
    """A number as Python writes it, also where it is not finite."""
    text = repr(float(value))
    return f'float("{text}")' if text in ("inf", "-inf", "nan") else text
