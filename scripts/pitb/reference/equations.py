"""The choices of equation that tell two implementations of one optimizer apart.

A library is *described* by a value for each choice. The values that no library takes are there for
the mistakes that the comparison must notice.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from pitb.reference import lbfgs as l_bfgs


@dataclass(frozen=True)
class Equations:
    """One value for each choice; each optimizer reads those that concern it."""

    float32: frozenset[str] = frozenset()
    """Hyper-parameters that are stored, and whose powers and complements are computed, in f32."""
    interpolation: Literal["lerp", "weights"] = "lerp"
    """How averages move: by PyTorch's ``lerp``, or as a weighted sum. The same but for roundings
    and infinities, of which lerp makes NaN."""
    decay: Literal["coupled", "decoupled", "decoupled-after", "none"] = "coupled"
    """Weight decay is added to the gradient, shrinks the parameter before the step, or after it."""
    decay_rate: Literal["lr", "one"] = "lr"
    """What decoupled decay is multiplied by."""
    decay_where: Literal["everywhere", "cautious"] = "everywhere"
    """Cautious decay leaves out elements whose first moment has the other sign (burn's AdamW)."""
    first_momentum: Literal["gradient", "dampened"] = "gradient"
    """The first momentum buffer is the gradient, or (1 - dampening) times it."""
    dampening: Literal["applied", "ignored"] = "applied"
    momentum: Literal["sum", "average"] = "sum"
    """The buffer adds up gradients, or averages them with weight 1 - momentum (PyTorch's Muon)."""
    nesterov: Literal["lookahead", "ignored"] = "lookahead"
    epsilon: Literal["outside", "inside", "before-correction"] = "outside"
    """Added to the root of the corrected second moment, under it, or to the uncorrected root."""
    bias_correction: Literal["both", "none", "first", "second", "late"] = "both"
    """Which moments are corrected; late counts from 0, one step behind."""
    folded: bool = False
    """Both corrections are folded into one factor and into epsilon, as burn's Adam does; the same
    but for the rounding of the factors."""
    amsgrad: Literal["uncorrected", "corrected", "ignored"] = "uncorrected"
    """What the running maximum is taken of."""
    amsgrad_nan: Literal["propagates", "dropped"] = "propagates"
    """What the maximum makes of a NaN."""
    second_moment: Literal["square", "abs"] = "square"
    lr_decay: Literal["from-zero", "from-one"] = "from-zero"
    """Whether Adagrad's first rate is undivided."""
    center: Literal["variance", "ignored"] = "variance"
    """What RMSprop's ``centered`` subtracts."""
    center_product: Literal["wide", "dtype"] = "wide"
    """Whether the mean's square is rounded before it is subtracted: PyTorch's ``addcmul`` fuses
    both where its kernels for the processor do (AVX2 and wider; not those it falls back to), so
    that a square beyond the range of float32 does not become infinite."""
    momentum_rate: Literal["outside", "inside"] = "outside"
    """Whether the rate multiplies RMSprop's buffer or what goes into it."""
    accumulator: Literal["initial", "zero"] = "initial"
    """Whether Adagrad's ``initial_accumulator_value`` counts."""
    trust_ratio: Literal["flag", "decay-or-flag", "always", "ignored", "inverted"] = "flag"
    """LAMB's ratio where its flag is set, or (timm) also where there is weight decay, or always, as
    in the paper."""
    lamb_decay: Literal["in-update", "after-ratio"] = "in-update"
    """Whether the norm of LAMB's update includes the weight decay."""
    factored_epsilon: Literal["clamp", "add"] = "clamp"
    """Adafactor's epsilon 1 is a lower bound (PyTorch) or added to the squares (the paper)."""
    relative_step: Literal["always", "flag", "never"] = "always"
    """Whether Adafactor's rate is bounded by 1 / sqrt(t)."""
    parameter_scale: Literal["always", "flag", "never"] = "always"
    """Whether Adafactor's rate is scaled by the parameter's root mean square."""
    update_clip: Literal["root-mean-square", "norm", "ignored"] = "root-mean-square"
    """Adafactor's bound on its update."""
    nan_in_bound: Literal["dropped", "propagates"] = "dropped"
    """What becomes of a NaN in the bounds of Adafactor's update and rate: Python's
    ``max(1.0, nan)`` is 1.0."""
    factoring: Literal["last-two", "none"] = "last-two"
    factored_mean: Literal["rows", "ignored"] = "rows"
    """Whether Adafactor's row factor is divided by its mean."""
    newton_schulz: Literal["dtype", "bfloat16"] = "dtype"
    """The precision of Muon's iteration; PyTorch computes it in bfloat16 whatever the dtype."""
    normalization: Literal["frobenius", "ignored"] = "frobenius"
    fan: Literal["rows/columns", "columns/rows", "stored"] = "rows/columns"
    """The axes of Muon's rate adjustment, in PyTorch's layout, or as burn stores the matrix, which
    for a linear layer is transposed."""
    lion_order: Literal["interpolate-then-update", "update-then-interpolate"] = (
        "interpolate-then-update"
    )
    lion_sign: Literal["sign", "none"] = "sign"
    sign_of_nan: Literal["zero", "nan"] = "zero"
    """0 in PyTorch, so that an element whose momentum is NaN stays where it is for good."""
    difference: Literal["kept", "ignored"] = "kept"
    """Adan's gradient difference."""
    averages_start: Literal["zero", "gradient"] = "zero"
    """What Adan's moments begin as: 0, or (the paper) the first gradient and its square."""
    prox: Literal["flag", "always", "never"] = "flag"
    """Adan's proximal weight decay unless ``no_prox``, in any case, or not at all."""
    step_counter: Literal["parameter", "group"] = "parameter"
    """What counts the steps of the bias correction: also those where a parameter has no gradient,
    where the counter is the group's (timm)."""
    absent_gradient: Literal["skipped", "zero"] = "skipped"
    """What a parameter without a gradient gets."""
    clip_denominator: Literal["1e-6", "tiny", "none"] = "1e-6"
    """What the training loop's clipping adds to the norm before it divides."""
    own_clip_denominator: Literal["1e-6", "tiny", "none"] = "1e-6"
    """What the optimizer's own clipping adds: in burn the smallest normal number."""
    own_clip_limit: Literal["float64", "float32"] = "float64"
    """The precision of the limit that the optimizer's own clipping keeps."""
    norm_precision: Literal["dtype", "float64"] = "dtype"
    """Whether the norm of the training loop's clipping is summed in the gradients' dtype, in which
    squares can overflow. On burn's side that is this project's ``clip_grad_norm``, since burn has
    no global norm."""
    clip_scope: Literal["asked", "per-parameter", "global"] = "asked"
    late_clipping: Literal["heard", "ignored"] = "heard"
    """Whether clipping that is set after the first update counts: burn keeps each parameter's
    clipping beside its state, and does not look again."""
    tied: Literal["one", "first-only"] = "one"
    """One tensor under two names stays one, or only the first name is updated (burn)."""
    rate: Literal["on-time", "late", "early"] = "on-time"
    """Whether a scheduled rate is that of the update before or after."""
    resumed_state: Literal["kept", "reset"] = "kept"
    resumed_dtype: Literal["kept", "default"] = "kept"
    """The dtype of a state that is loaded: the parameter's, or the device's default, float32, with
    which a float64 run cannot go on (burn)."""
    gradient_layout: Literal["stored", "transposed"] = "stored"
    """Whether square matrices meet their gradient transposed."""
    accumulation: Literal["mean", "sum", "last"] = "mean"
    """What becomes of the gradients of micro-batches."""
    frozen: Literal["kept", "updated"] = "kept"
    flat_gradient: Literal["zeros", "left-out"] = "zeros"
    """What a parameter without a gradient adds to L-BFGS's flat one: zeros, or nothing, whereupon
    it no longer fits the parameters (burn)."""
    lbfgs: l_bfgs.Choices = field(default=l_bfgs.PYTORCH)
    """The choices of L-BFGS, which are its own."""

    def but(self, **changes: Any) -> "Equations":
        """These with some of the values changed.

        Raises:
            TypeError: There is no such choice.
        """
        return replace(self, **changes)

    def value(self, choice: str) -> Any:
        """The value of a choice, also of one of L-BFGS's, ``lbfgs.curvature``."""
        outer, _, inner = choice.partition(".")
        return getattr(self.lbfgs, inner) if inner else getattr(self, outer)

    def with_value(self, choice: str, value: Any) -> "Equations":
        """These with one choice changed, also one of L-BFGS's."""
        outer, _, inner = choice.partition(".")
        if inner:
            return self.but(lbfgs=replace(self.lbfgs, **{inner: value}))
        return self.but(**{outer: value})

    def differences(self, other: "Equations") -> dict[str, tuple[Any, Any]]:
        """The choices in which two descriptions differ, with both values."""
        pairs = {
            item.name: (getattr(self, item.name), getattr(other, item.name))
            for item in fields(self)
        }
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def powi(base: np.float32, exponent: int) -> np.float32:
    """``f32::powi``: binary powering, each product rounded to f32.

    Source: compiler-rt's ``__powisf2``, which Rust's ``f32::powi`` calls.
    """
    result = np.float32(1)
    while True:
        if exponent & 1:
            result = np.float32(result * base)
        exponent //= 2
        if exponent == 0:
            return result
        base = np.float32(base * base)
