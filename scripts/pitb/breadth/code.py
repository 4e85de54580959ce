"""Options as a user writes them: burn's configurations in Rust, PyTorch's arguments in Python."""

from collections.abc import Mapping
from typing import Any

from pitb import rust
from pitb.registry import Optimizer
from pitb.rust import uses

__all__ = ["arguments", "burn_config", "number", "python_number", "uses"]

Options = Mapping[str, Any]
Burn = Mapping[str, Any]


def burn_config(optimizer: Optimizer, options: Options, burn: Burn) -> str:
    """``AdamConfig::new().with_epsilon(1e-8)``: what is not at burn's default.

    Args:
        optimizer: Whose configuration it is.
        options: burn's options, as its specifications have them.
        burn: burn's defaults, as ``optdef --defaults`` prints them.
    """
    return rust.configuration(optimizer.burn_config, options, rust.Style(burn))


def number(value: Any, default: Any) -> str:
    """A number or bool as Rust writes it, of the type of ``default``."""
    if isinstance(value, bool):
        return rust.number("bool", value)
    if isinstance(default, float) or isinstance(value, float):
        return rust.float_literal(float(value))
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
