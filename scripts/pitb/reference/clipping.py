"""Clipping of gradients, with its choices of equation."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.reference.equations import Equations

Array = NDArray[Any]
Tensors = dict[str, Array]


def clip(
    gradients: Tensors, how: dict[str, Any], eq: Equations
) -> tuple[Tensors, dict[str, float]]:
    """Clip gradients.

    Args:
        gradients: float arrays of any shapes by name.
        how: ``scope`` (global, per-parameter or value), ``max_norm`` and ``norm_type`` (2 unless
            given; "inf" for the largest element), or ``clip_value``.
        eq: ``clip_denominator`` and ``clip_scope`` count.

    Returns:
        The clipped gradients, and the norms before, by name; the name of a global norm is empty.

    Source: Pascanu, Mikolov and Bengio, arXiv:1211.5063; the denominators of
    ``torch.nn.utils.clip_grad_norm_`` and of burn's ``GradientClipping``.
    """
    scope = how["scope"] if eq.clip_scope == "asked" else eq.clip_scope
    if how["scope"] == "value":
        limit = how["clip_value"]
        return {name: np.clip(g, -limit, limit) for name, g in gradients.items()}, {}
    p = float(how.get("norm_type", 2.0))
    groups = {"": list(gradients)} if scope == "global" else {name: [name] for name in gradients}
    found, norms = {}, {}
    for group, members in groups.items():
        total = norm([gradients[name] for name in members], p)
        for name in members:
            found[name] = gradients[name] * _coefficient(
                total, how["max_norm"], gradients[name], eq
            )
        norms[group] = float(total)
    return {name: found[name] for name in gradients}, norms


def norm(tensors: list[Array], p: float) -> Any:
    """The p-norm of all elements as one vector, taken as the p-norm of the tensors' p-norms."""
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


def _coefficient(total: Any, max_norm: float, gradient: Array, eq: Equations) -> Any:
    added = {"1e-6": 1e-6, "tiny": float(np.finfo(gradient.dtype).tiny), "none": 0.0}
    # Not `min`, which would drop a NaN.
    return np.minimum(max_norm / (total + added[eq.clip_denominator]), 1.0).astype(gradient.dtype)
