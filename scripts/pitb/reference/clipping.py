"""Clipping of gradients, with its choices of equation."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.reference.equations import Equations

Array = NDArray[Any]
Tensors = dict[str, Array]
Norms = Callable[[str, float], float]
"""The p-norm of a whole tensor, given its name and p, where the gradients are a part of it."""


def clip(
    gradients: Tensors, how: dict[str, Any], eq: Equations, whole: Norms | None = None
) -> tuple[Tensors, dict[str, float]]:
    """Clip gradients as the training loop does.

    Args:
        gradients: float arrays of any shapes by name.
        how: ``scope`` (global, per-parameter or value), ``max_norm`` and ``norm_type`` (2 unless
            given; "inf" for the largest element), or ``clip_value``; ``error_if_nonfinite``.
        eq: ``clip_denominator``, ``clip_scope`` and ``norm_precision`` count.
        whole: The tensors' norms; the gradients' own where None.

    Returns:
        The clipped gradients, and the norms before, by name; the name of a global norm is empty.

    Raises:
        ValueError: A norm is not finite where that is to be an error.

    Source: Pascanu, Mikolov and Bengio, arXiv:1211.5063; the denominator of
    ``torch.nn.utils.clip_grad_norm_``.
    """
    wide = eq.norm_precision == "float64"
    return _clip(gradients, how, eq, eq.clip_denominator, wide, whole)


def own_clip(
    gradients: Tensors, how: dict[str, Any], eq: Equations, whole: Norms | None = None
) -> Tensors:
    """Clip gradients as burn's optimizers do, and as a loop in PyTorch does in their place.

    Source: burn's ``GradientClipping``.
    """
    if eq.own_clip_limit == "float32":
        limits = ("max_norm", "clip_value")
        how = {k: float(np.float32(v)) if k in limits else v for k, v in how.items()}
    return _clip(gradients, how, eq, eq.own_clip_denominator, wide=False, whole=whole)[0]


def within_norm(gradients: Tensors, limit: float) -> Tensors:
    """Gradients scaled so that their global 2-norm is at most ``limit``."""
    total = norm(list(gradients.values()), 2.0)
    return {name: g * _coefficient(total, limit, g, "none") for name, g in gradients.items()}


def _clip(
    gradients: Tensors,
    how: dict[str, Any],
    eq: Equations,
    denominator: str,
    wide: bool,
    whole: Norms | None = None,
) -> tuple[Tensors, dict[str, float]]:
    if how["scope"] == "value":
        limit = how["clip_value"]
        return {name: np.clip(g, -limit, limit) for name, g in gradients.items()}, {}
    scope = how["scope"] if eq.clip_scope == "asked" else eq.clip_scope
    p = float(how.get("norm_type", 2.0))
    groups = {"": list(gradients)} if scope == "global" else {name: [name] for name in gradients}
    found, norms = {}, {}
    for group, members in groups.items():
        if whole is None:
            tensors = [gradients[name] for name in members]
        else:  # the norm of a single number is that number
            tensors = [np.array([whole(name, p)]) for name in members]
        total = norm([x.astype(np.float64) for x in tensors] if wide else tensors, p)
        if how.get("error_if_nonfinite", False) and not np.isfinite(total):
            raise ValueError(f"the total norm is {total}, which is not to be clipped")
        for name in members:
            gradient = gradients[name]
            found[name] = gradient * _coefficient(total, how["max_norm"], gradient, denominator)
        norms[group] = float(total)
    return {name: found[name] for name in gradients}, norms


def norm(tensors: list[Array], p: float) -> Any:
    """The p-norm of all elements as one vector, taken as the p-norm of the tensors' p-norms."""
    if not tensors:
        return 0.0
    each = np.array([_vector_norm(x.reshape(-1), p) for x in tensors], dtype=tensors[0].dtype)
    return _vector_norm(each, p)


def _vector_norm(x: Array, p: float) -> Any:
    if math.isinf(p):
        return np.abs(x).max(initial=0)
    if p == 2.0:
        return np.sqrt((x * x).sum())
    if p == 1.0:
        return np.abs(x).sum()
    return (np.abs(x) ** p).sum() ** (1.0 / p)


def _coefficient(total: Any, max_norm: float, gradient: Array, denominator: str) -> Any:
    added = {"1e-6": 1e-6, "tiny": float(np.finfo(gradient.dtype).tiny), "none": 0.0}
    # Not `min`, which would drop a NaN.
    return np.minimum(max_norm / (total + added[denominator]), 1.0).astype(gradient.dtype)
