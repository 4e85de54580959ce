"""What each library computes, as a value for each choice of equation.

A description is held to: the reference so configured must follow the library's traces. Where burn's
list of f32 hyper-parameters lacks one, burn keeps it in f64.
"""

from dataclasses import fields
from functools import cache

from pitb.reference import lbfgs
from pitb.reference.equations import Equations

_BURN = Equations(
    interpolation="weights",
    own_clip_denominator="tiny",
    own_clip_limit="float32",
    norm_precision="float64",
    tied="first-only",
    amsgrad_nan="dropped",
    nan_in_bound="propagates",
    flat_gradient="left-out",
    late_clipping="ignored",
    resumed_dtype="default",
    lbfgs=lbfgs.BURN,
)
_BETAS = frozenset({"betas[0]", "betas[1]", "weight_decay"})
_ADAM = _BETAS | {"eps"}

DESCRIPTIONS: dict[str, dict[str, Equations]] = {
    "pytorch": {
        "SGD": Equations(),
        "Adam": Equations(),
        "AdamW": Equations(decay="decoupled"),
        "RMSprop": Equations(),
        "Adagrad": Equations(),
        "Adafactor": Equations(decay="decoupled"),
        "Muon": Equations(decay="decoupled", momentum="average", newton_schulz="bfloat16"),
        "LBFGS": Equations(),
        "Lion": Equations(decay="decoupled"),
        "Lamb": Equations(trust_ratio="decay-or-flag", step_counter="group"),
        "Adan": Equations(decay="decoupled", step_counter="group"),
    },
    "burn": {
        "SGD": _BURN.but(float32=frozenset({"momentum", "weight_decay"})),
        "Adam": _BURN.but(float32=_ADAM, folded=True),
        "AdamW": _BURN.but(float32=_ADAM, decay="decoupled", decay_where="cautious"),
        "RMSprop": _BURN.but(
            float32=frozenset({"alpha", "momentum", "eps", "weight_decay"}), center_product="dtype"
        ),
        "Adagrad": _BURN.but(float32=frozenset({"eps", "weight_decay"})),
        "Adafactor": _BURN.but(
            float32=frozenset({"eps[0]", "eps[1]", "d", "weight_decay"}),
            decay="decoupled",
            factored_epsilon="add",
            relative_step="flag",
            parameter_scale="flag",
        ),
        "Muon": _BURN.but(
            float32=frozenset({"momentum", "weight_decay", "eps", "ns_coefficients"}),
            decay="decoupled",
            fan="stored",
        ),
        "LBFGS": _BURN,
        "Lion": _BURN.but(float32=_BETAS, decay="decoupled"),
        "Lamb": _BURN.but(float32=_ADAM),
        "Adan": _BURN.but(float32=_ADAM | {"betas[2]"}, decay="decoupled"),
    },
}
"""By side and PyTorch's name of the optimizer."""
FLAGS: dict[str, tuple[str, str, bool]] = {
    "decay_where": ("cautious", "cautious_weight_decay", False),
    "relative_step": ("flag", "relative_step", True),
    "parameter_scale": ("flag", "scale_parameter", True),
}
"""Choices of equation that are a flag on the other side: the choice that heeds the flag, the flag,
and the value at which it does what a library without it does. So a library without a flag differs
from one with it in a value, not in a value and an equation that only matter together."""
OURS = frozenset({"norm_precision"})
"""Choices of this project's own code on burn's side, which are no difference of burn's."""
INTERNAL = frozenset({"lbfgs.prev_loss"})
"""Choices of what a library keeps in its state and never reads."""


def describe(side: str, optimizer: str) -> Equations:
    """The equations of ``optimizer`` (PyTorch's name) on one side, ``pytorch`` or ``burn``."""
    return DESCRIPTIONS[side][optimizer]


def differences(optimizer: str) -> dict[str, tuple[object, object]]:
    """The choices in which the descriptions of one optimizer differ: PyTorch's and burn's value.

    L-BFGS's own choices stand under ``lbfgs.<name>``, and for L-BFGS alone.
    """
    ours, theirs = (DESCRIPTIONS[side][optimizer] for side in ("pytorch", "burn"))
    found: dict[str, tuple[object, object]] = dict(ours.differences(theirs))
    found.pop("lbfgs", None)
    if optimizer == "LBFGS":
        for item in fields(lbfgs.Choices):
            pair = (getattr(ours.lbfgs, item.name), getattr(theirs.lbfgs, item.name))
            if pair[0] != pair[1]:
                found[f"lbfgs.{item.name}"] = pair
    return found


@cache
def shared_differences() -> dict[str, tuple[object, object]]:
    """Those that all optimizers have alike."""
    each = [differences(optimizer) for optimizer in DESCRIPTIONS["pytorch"]]
    return {
        name: pair
        for name, pair in each[0].items()
        if all(other.get(name) == pair for other in each)
    }
