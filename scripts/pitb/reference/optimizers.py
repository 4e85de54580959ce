"""Every optimizer, one short function each, with its choices of equation as named parameters.

A function takes one parameter and gives it back updated::

    parameter, gradient    arrays of one shape, in PyTorch's layout, of one float dtype
    state                  what it keeps between updates, by PyTorch's names; changed in place
    lr                     the rate of this update
    h                      the hyper-parameters, by PyTorch's names (:class:`Scalars`)
    eq                     the choices (:class:`~pitb.reference.equations.Equations`)

L-BFGS, which updates all parameters at once, stands in :mod:`pitb.reference.lbfgs`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pitb.reference.equations import Equations, powi

Array = Any  # an NDArray of the run's float dtype
State = dict[str, Any]


class Scalars:
    """Hyper-parameters and what is computed of them, in the precision that a library has."""

    def __init__(self, options: Mapping[str, Any], eq: Equations, transposed: bool = False) -> None:
        """Of ``options`` by PyTorch's names, and burn's for what PyTorch lacks.

        ``transposed`` says that burn stores the parameter transposed.
        """
        self.options = options
        self.eq = eq
        self.transposed = transposed

    def __getitem__(self, name: str) -> Any:
        """The value of ``betas[0]``, ``eps``, ..."""
        base, _, index = name.partition("[")
        value = self.options[base]
        value = value[int(index[:-1])] if index else value
        if name in self.eq.float32:
            return [_f32(x) for x in value] if isinstance(value, list) else _f32(value)
        return value

    def get(self, name: str, default: Any) -> Any:
        """The value, or ``default`` where the optimizer has no such option."""
        return self[name] if name.partition("[")[0] in self.options else default

    def rest(self, name: str) -> float:
        """1 - value."""
        if name in self.eq.float32:
            return float(np.float32(1) - np.float32(self[name]))
        return 1.0 - float(self[name])

    def correction(self, name: str, t: int) -> float:
        """1 - value ** t, the bias correction of a moment after t updates."""
        if self.eq.bias_correction == "late":
            t -= 1
            if t == 0:
                return 1.0
        which = {"betas[0]": "first", "betas[1]": "second"}.get(name, "second")
        if self.eq.bias_correction not in ("both", "late", which):
            return 1.0
        if name in self.eq.float32:
            return float(np.float32(1) - powi(np.float32(self[name]), t))
        return 1.0 - float(self[name] ** t)

    def root(self, value: float) -> float:
        """The square root of a correction."""
        if self.eq.float32:
            return float(np.sqrt(np.float32(value)))
        return math.sqrt(value)


def _f32(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    return float(np.float32(value))


GROUP_STEP = "group_step"
"""Where the training loop puts the number of the group's update."""


def count(state: State, eq: Equations) -> int:
    """The number of this update, kept in ``step``."""
    state["step"] = state.get("step", 0) + 1
    return int(state[GROUP_STEP] if eq.step_counter == "group" else state["step"])


def coupled(p: Array, g: Array, h: Scalars, eq: Equations) -> Array:
    """The gradient with L2 regularisation added, where decay is coupled."""
    decay = h["weight_decay"]
    return g + p * decay if decay and eq.decay == "coupled" else g


def decoupled(p: Array, lr: float, h: Scalars, eq: Equations) -> Array:
    """The parameter shrunk by decoupled decay (Loshchilov and Hutter, arXiv:1711.05101).

    With timm's ``corrected_weight_decay`` the rate counts squared, over the largest one
    (arXiv:2506.02285).
    """
    if not h["weight_decay"] or eq.decay in ("none", "coupled"):
        return p
    return shrunk(p, lr, h, eq)


def shrunk(p: Array, lr: float, h: Scalars, eq: Equations) -> Array:
    """The parameter after decoupled decay, whatever the choice of decay."""
    decay = h["weight_decay"]
    rate = lr if eq.decay_rate == "lr" else 1.0
    if h.get("corrected_weight_decay", False):
        rate = rate**2 / h["max_lr_snapshot"]
    return p * (1.0 - rate * decay)


def average(old: Array | None, new: Array, keep: float, share: float, eq: Equations) -> Array:
    """keep * old + share * new, where ``old`` begins as 0."""
    old = np.zeros_like(new) if old is None else old
    if eq.interpolation == "weights":
        return old * keep + new * share
    # As torch.lerp, which starts from the nearer end.
    return old + (new - old) * share if share < 0.5 else new - (new - old) * (1.0 - share)


def held(state: State, name: str, like: Array) -> Array:
    """A state, which begins as 0."""
    found = state.get(name)
    return np.zeros_like(like) if found is None else found


def cautious(update: Array, g: Array, h: Scalars) -> Array:
    """The update without the elements that go against the gradient, the others scaled up.

    Source: Liang et al., Cautious optimizers, arXiv:2411.16085, where ``caution`` is set.
    """
    if not h.get("caution", False):
        return update
    mask = (update * g > 0).astype(g.dtype)
    return update * (mask / np.maximum(mask.mean(), 1e-3))


def stepped(
    p: Array, step: Array, lr: float, h: Scalars, eq: Equations, keep: Array | None = None
) -> Array:
    """The parameter after decay, where that is decoupled, and after a step.

    ``keep`` marks the elements that cautious decay leaves alone.
    """
    if eq.decay == "decoupled-after":
        return decoupled(p - step, lr, h, eq)
    smaller = decoupled(p, lr, h, eq)
    return (smaller if keep is None else np.where(keep, p, smaller)) - step


def sgd(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """Stochastic gradient descent with momentum.

    Source: Sutskever et al., On the importance of initialization and momentum in deep learning
    (2013), in the form of torch.optim.SGD's page.
    """
    g = coupled(p, g, h, eq)
    if h["momentum"]:
        share = h.rest("dampening") if eq.dampening == "applied" else 1.0
        if "momentum_buffer" in state:
            buffer = state["momentum_buffer"] * h["momentum"] + g * share
        else:
            buffer = g if eq.first_momentum == "gradient" else g * share
        state["momentum_buffer"] = buffer
        ahead = h["nesterov"] and eq.nesterov == "lookahead"
        g = g + buffer * h["momentum"] if ahead else buffer
    return stepped(p, g * lr, lr, h, eq)


def _moments(g: Array, state: State, h: Scalars, eq: Equations) -> tuple[Array, Array]:
    first = average(state.get("exp_avg"), g, h["betas[0]"], h.rest("betas[0]"), eq)
    square = g * g if eq.second_moment == "square" else np.abs(g)
    second = held(state, "exp_avg_sq", g) * h["betas[1]"] + square * h.rest("betas[1]")
    state["exp_avg"], state["exp_avg_sq"] = first, second
    return first, second


def _adaptive(first: Array, second: Array, t: int, h: Scalars, eq: Equations) -> Array:
    """First moment over the root of the second, both corrected."""
    c1, c2 = h.correction("betas[0]", t), h.correction("betas[1]", t)
    eps = h["eps"]
    if eq.epsilon == "inside":
        return (first / c1) / np.sqrt(second / c2 + eps)
    if eq.epsilon == "before-correction":
        return (first / c1) / ((np.sqrt(second) + eps) / h.root(c2))
    if eq.folded:
        root = h.root(c2)
        factor = float(np.float32(root) / np.float32(c1))
        added = float(np.float32(eps) * np.float32(root)) if "eps" in eq.float32 else eps * root
        return (first * factor) / (np.sqrt(second) + added)
    return (first / c1) / (np.sqrt(second / c2) + eps)


def adam(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """Adam and AdamW, which differ in ``eq.decay``.

    Sources: Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter, arXiv:1711.05101; amsgrad:
    Reddi et al., On the convergence of Adam and beyond (2018); cautious decay: arXiv:2510.12402.
    """
    t = count(state, eq)
    g = coupled(p, g, h, eq)
    first, second = _moments(g, state, h, eq)
    if h["amsgrad"] and eq.amsgrad != "ignored":
        c2 = h.correction("betas[1]", t) if eq.amsgrad == "corrected" else 1.0
        maximum = np.maximum if eq.amsgrad_nan == "propagates" else np.fmax
        second = maximum(state.get("max_exp_avg_sq", second / c2), second / c2)
        state["max_exp_avg_sq"] = second
        second = second * c2
    step = _adaptive(first, second, t, h, eq) * lr
    careful = h.get("cautious_weight_decay", False) and eq.decay_where == "cautious"
    return stepped(p, step, lr, h, eq, (p >= 0) != (first >= 0) if careful else None)


def rmsprop(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """RMSprop.

    Sources: Hinton, Neural networks for machine learning, lecture 6e; centered and momentum:
    Graves, arXiv:1308.0850; in the form of torch.optim.RMSprop's page.
    """
    g = coupled(p, g, h, eq)
    square = g * g if eq.second_moment == "square" else np.abs(g)
    mean_square = held(state, "square_avg", g) * h["alpha"] + square * h.rest("alpha")
    state["square_avg"] = variance = mean_square
    if h["centered"] and eq.center == "variance":
        mean = average(state.get("grad_avg"), g, h["alpha"], h.rest("alpha"), eq)
        state["grad_avg"] = mean
        wide = mean.astype(np.float64) if eq.center_product == "wide" else mean
        variance = (mean_square - wide * wide).astype(mean.dtype)
    eps = h["eps"]
    scaled = g / (np.sqrt(variance + eps) if eq.epsilon == "inside" else np.sqrt(variance) + eps)
    if not h["momentum"] > 0:
        return stepped(p, scaled * lr, lr, h, eq)
    rate = lr if eq.momentum_rate == "inside" else 1.0
    buffer = held(state, "momentum_buffer", g) * h["momentum"] + scaled * rate
    state["momentum_buffer"] = buffer
    return stepped(p, buffer * (lr / rate if rate == 1.0 else 1.0), lr, h, eq)


def adagrad(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """Adagrad.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods (2011), in the form of
    torch.optim.Adagrad's page.
    """
    t = count(state, eq)
    g = coupled(p, g, h, eq)
    start = h.get("initial_accumulator_value", 0) if eq.accumulator == "initial" else 0
    square = g * g if eq.second_moment == "square" else np.abs(g)
    state["sum"] = total = state.get("sum", np.full_like(g, start)) + square
    rate = lr / (1.0 + (t - 1 if eq.lr_decay == "from-zero" else t) * h["lr_decay"])
    eps = h["eps"]
    root = np.sqrt(total + eps) if eq.epsilon == "inside" else np.sqrt(total) + eps
    return stepped(p, g / root * rate, lr, h, eq)


def adafactor(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """Adafactor without momentum, factored over the last two axes.

    Source: Shazeer and Stern, arXiv:1804.04235, algorithms 4 and 5; the bounds on epsilon 1 in
    the form of torch.optim.Adafactor's page where ``eq.factored_epsilon`` is clamp.
    """
    t = count(state, eq)
    eps1, eps2 = h["eps[0]"], h["eps[1]"]
    eps1 = float(np.finfo(p.dtype).eps) if eps1 is None else eps1
    clamp = eq.factored_epsilon == "clamp"
    bound = np.fmax if eq.nan_in_bound == "dropped" else np.maximum
    weight = t ** h["beta2_decay"]
    square = g * g if clamp else g * g + eps1

    def moment(name: str, new: Array) -> Array:
        state[name] = average(state.get(name), new, 1.0 - weight, weight, eq)
        return np.asarray(state[name])

    if g.ndim > 1 and eq.factoring == "last-two":
        rows = moment("row_var", square.mean(axis=-1, keepdims=True))
        columns = moment("col_var", square.mean(axis=-2, keepdims=True))
        mean = rows.mean(axis=-2, keepdims=True)
        mean = np.maximum(mean, eps1) if clamp else mean
        scaled = rows / mean if eq.factored_mean == "rows" else rows
        # As two quotients where the product of two small moments would underflow.
        estimate = scaled * columns
    else:
        scaled, columns = moment("variance", square), np.ones_like(square)
        estimate = scaled
    if clamp:
        update = g / np.sqrt(np.maximum(estimate, eps1 * eps1))
    else:
        update = g / np.sqrt(scaled) / np.sqrt(columns)
    size = _rms(update) if eq.update_clip == "root-mean-square" else np.linalg.norm(update)
    if eq.update_clip != "ignored":
        update = update / bound(1.0, size / h["d"])
    rate = min(lr, 1.0 / math.sqrt(t)) if _on(eq.relative_step, h, "relative_step") else lr
    if _on(eq.parameter_scale, h, "scale_parameter"):
        rate = rate * float(bound(eps2, _rms(p)))
    return stepped(p, update * rate, lr, h, eq)


def _on(choice: str, h: Scalars, flag: str) -> bool:
    return choice == "always" or (choice == "flag" and bool(h.get(flag, True)))


def _rms(x: Array) -> Any:
    return np.sqrt(np.mean(x * x))


def muon(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """Muon: the momentum of a matrix, made orthogonal.

    Sources: Jordan et al., Muon: an optimizer for hidden layers in neural networks (2024); rate
    adjustments: the same, Liu et al., arXiv:2502.16982, and Bernstein, Deriving Muon (2025).

    Raises:
        ValueError: The parameter is not a matrix.
    """
    if p.ndim != 2:
        raise ValueError(f"Muon takes matrices, not a parameter of shape {p.shape}")
    momentum = h["momentum"]
    old = held(state, "momentum_buffer", g)
    ahead = h["nesterov"] and eq.nesterov == "lookahead"
    if eq.momentum == "average":
        buffer = average(old, g, momentum, h.rest("momentum"), eq)
        update = average(g, buffer, h.rest("momentum"), momentum, eq) if ahead else buffer
    else:
        damped = g * (1.0 - h.get("momentum.dampening", 0.0)) if "momentum_buffer" in state else g
        buffer = old * momentum + damped
        update = g + buffer * momentum if ahead else buffer
    state["momentum_buffer"] = buffer
    update = _orthogonal(update, h, eq).astype(p.dtype)
    stored = p.shape[::-1] if h.transposed else p.shape
    rows, columns = {
        "rows/columns": p.shape,
        "columns/rows": p.shape[::-1],
        "stored": stored,
    }[eq.fan]
    kind = h["adjust_lr_fn"] or "original"
    ratio = {
        "original": math.sqrt(max(1.0, rows / columns)),
        "match_rms_adamw": 0.2 * math.sqrt(max(rows, columns)),
        "spectral_unclamped": math.sqrt(rows / columns),
        "none": 1.0,
    }[kind]
    return stepped(p, update * (lr * ratio), lr, h, eq)


def _orthogonal(x: Array, h: Scalars, eq: Equations) -> Array:
    """Newton-Schulz iteration towards the nearest semi-orthogonal matrix."""
    rounded = _bfloat16 if eq.newton_schulz == "bfloat16" else lambda y: y
    a, b, c = h["ns_coefficients"]
    tall = x.shape[0] > x.shape[1]
    x = rounded(x.T if tall else x)
    if eq.normalization == "frobenius":
        norm = rounded(np.sqrt((x * x).sum()))
        x = rounded(x / np.maximum(norm, rounded(np.asarray(h["eps"], dtype=x.dtype))))
    for _ in range(h["ns_steps"]):
        gram = rounded(x @ x.T)
        x = rounded(x * a + rounded(gram * b + (gram @ gram) * c) @ x)
    return x.T if tall else x


def _bfloat16(x: Array) -> Array:
    """The nearest bfloat16, in float32: 8 bits of significand, ties to even."""
    rounded = np.array(x, dtype=np.float32, order="C")
    missing = np.isnan(rounded)  # whose bits would wrap around
    bits = rounded.view(np.uint32)
    up = bits >> 16
    up &= 1
    up += 0x7FFF
    bits += up
    bits &= 0xFFFF0000
    if missing.any():
        rounded[missing] = np.nan
    return rounded


def lion(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """Lion. Source: Chen et al., arXiv:2302.06675, algorithm 2."""
    old = held(state, "exp_avg", g)
    state["exp_avg"] = new = average(old, g, h["betas[1]"], h.rest("betas[1]"), eq)
    base = old if eq.lion_order == "interpolate-then-update" else new
    update = average(base, g, h["betas[0]"], h.rest("betas[0]"), eq)
    if eq.lion_sign == "sign":
        update = np.sign(update)
        update = np.where(np.isnan(update), 0.0, update) if eq.sign_of_nan == "zero" else update
    update = cautious(update, g, h)
    return stepped(p, update * lr, lr, h, eq)


def lamb(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """LAMB. Source: You et al., arXiv:1904.00962, algorithm 2; options as timm has them."""
    t = count(state, eq)
    if h.get("grad_averaging", True):
        first = average(state.get("exp_avg"), g, h["betas[0]"], h.rest("betas[0]"), eq)
    else:
        first = held(state, "exp_avg", g) * h["betas[0]"] + g
    second = held(state, "exp_avg_sq", g) * h["betas[1]"] + g * g * h.rest("betas[1]")
    state["exp_avg"], state["exp_avg_sq"] = first, second
    if h.get("bias_correction", True):
        update = _adaptive(first, second, t, h, eq)
    else:
        update = first / (np.sqrt(second) + h["eps"])
    update = cautious(update, g, h)
    decay = h["weight_decay"] if eq.decay == "coupled" else 0.0
    before = update
    if h.get("decoupled_decay", False):
        p, decay = shrunk(p, lr, h, eq), 0.0
    if decay:
        update = update + p * decay
    adapt = h["always_adapt"] or (eq.trust_ratio == "decay-or-flag" and h["weight_decay"] != 0)
    adapt = adapt or eq.trust_ratio == "always"
    if adapt and eq.trust_ratio != "ignored":
        measured = update if eq.lamb_decay == "in-update" else before
        size, step = (np.sqrt((x * x).sum()) for x in (p, measured))
        size, step = (step, size) if eq.trust_ratio == "inverted" else (size, step)
        ratio = size / step if size > 0 and step > 0 else np.ones_like(size)
        update = update * (np.minimum(ratio, 1.0) if h.get("trust_clip", False) else ratio)
    return stepped(p, update * lr, lr, h, eq)


def adan(p: Array, g: Array, state: State, lr: float, h: Scalars, eq: Equations) -> Array:
    """Adan. Source: Xie et al., arXiv:2208.06677, algorithm 1."""
    t = count(state, eq)
    if t == 1 and eq.averages_start == "gradient":
        state |= {"exp_avg": g, "exp_avg_sq": g * g}
    change = g + state.get("neg_pre_grad", -g)
    if eq.difference == "ignored":
        change = np.zeros_like(g)
    ahead = change * h["betas[1]"] + g
    first = average(state.get("exp_avg"), g, h["betas[0]"], h.rest("betas[0]"), eq)
    slope = held(state, "exp_avg_diff", g) * h["betas[1]"] + change * h.rest("betas[1]")
    second = held(state, "exp_avg_sq", g) * h["betas[2]"] + ahead * ahead * h.rest("betas[2]")
    state |= {"exp_avg": first, "exp_avg_diff": slope, "exp_avg_sq": second, "neg_pre_grad": -g}
    c1, c2, c3 = (h.correction(f"betas[{i}]", t) for i in range(3))
    eps = h["eps"]
    if eq.epsilon == "inside":
        root = np.sqrt(second / (h.root(c3) ** 2) + eps)
    else:
        root = np.sqrt(second) / h.root(c3) + eps
    step = (cautious(first, g, h) / c1 / root + slope * h["betas[1]"] / c2 / root) * lr
    decay = h["weight_decay"] if eq.decay != "none" else 0.0
    prox = eq.prox == "always" or (eq.prox == "flag" and not h["no_prox"])
    if prox:
        return (p - step) / (1.0 + lr * decay)
    return (p * (1.0 - lr * decay) if decay else p) - step


Function = Callable[[Array, Array, State, float, Scalars, Equations], Array]
FUNCTIONS: dict[str, Function] = {
    "SGD": sgd,
    "Adam": adam,
    "AdamW": adam,
    "RMSprop": rmsprop,
    "Adagrad": adagrad,
    "Adafactor": adafactor,
    "Muon": muon,
    "Lion": lion,
    "Lamb": lamb,
    "Adan": adan,
}
"""By PyTorch's names."""
