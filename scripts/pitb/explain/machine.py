"""An explanation as JSON, for machines."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb.explain import game
from pitb.explain.divergence import Element
from pitb.explain.explanation import Explanation
from pitb.explain.factorial import MEASURES
from pitb.explain.items import described
from pitb.explain.words import text

Array = NDArray[np.float64]


def as_json(found: Explanation) -> dict[str, Any]:
    """Everything, for machines.

    An effect is ``value`` and ``detectable``; the value of one that is not detectable is null, and
    so is an undefined one; infinite ones are the text "inf".
    """
    outcome, divergence = found.factorial, found.divergence
    return {
        "a": found.a.label,
        "b": found.b.label,
        "differs": found.differs,
        "problem": found.problem,
        "steps": found.layout.steps,
        "dtype": [found.a.dtype, found.b.dtype],
        "replayed": found.replayed or None,
        "notes": [text(name, "en", **values) for name, values in found.notes],
        "differences": {
            kind: [
                {
                    "name": item.name,
                    "kind": item.kind,
                    "a": described(item.a),
                    "b": described(item.b),
                    "note": item.note or None,
                }
                for item in items
            ]
            for kind, items in (
                ("tried", found.layout.items),
                ("unread", found.layout.unread),
                ("untried", found.layout.untried),
            )
        },
        "factorial": {
            "combinations": outcome.runs,
            "orders": outcome.permutations or None,
            "seed": outcome.seed if outcome.permutations else None,
            "exact": len(outcome.effects) <= game.MOST_EXACT,
            "measures": list(MEASURES),
            "reported": outcome.steps,
            "items": [
                {
                    "name": effect.name,
                    "broken": _effects(found, effect.broken),
                    "aligned": _effects(found, effect.aligned),
                    "share": _effects(found, effect.share),
                    "standard_error": _plain(effect.error) if outcome.permutations else None,
                }
                for effect in outcome.effects
            ],
            "total": _effects(found, outcome.total),
            "floor": _plain(outcome.floor),
            "loss_after_last": {
                "value": _json(
                    outcome.trained if outcome.trained > outcome.floor_trained else None
                ),
                "detectable": outcome.trained > outcome.floor_trained,
            },
            "diverging": [vars(combination) for combination in outcome.diverging],
        },
        "divergence": {
            "of": "traces" if found.recorded is not None else "reference",
            "first": _element(divergence.first),
            "first_bit": _element(divergence.first_bit),
            "by_stage": {s: _element(e) for s, e in divergence.by_stage.items()},
            "rule": divergence.rule,
            "not_compared": list(divergence.missing),
        },
        "recorded": _recorded(found),
    }


def _effects(found: Explanation, values: Array) -> list[dict[str, Any]]:
    seen = found.detectable(values)
    return [
        {
            "step": step,
            **{
                measure: {
                    "value": _json(float(values[row, column]) if seen[row, column] else None),
                    "detectable": bool(seen[row, column]),
                }
                for column, measure in enumerate(MEASURES)
            },
        }
        for row, step in enumerate(found.factorial.steps)
    ]


def _plain(values: Array) -> list[Any]:
    return [[_json(float(value)) for value in row] for row in values]


def _json(value: float | None) -> float | str | None:
    if value is None or math.isnan(value):
        return None
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")


def _element(element: Element | None) -> dict[str, Any] | None:
    if element is None:
        return None
    numbers = {
        key: "nan" if math.isnan(value) else _json(value)
        for key, value in vars(element).items()
        if isinstance(value, float)
    }
    return {**vars(element), **numbers}


def _recorded(found: Explanation) -> dict[str, Any] | None:
    real = found.recorded
    if real is None:
        return None
    return {
        "total": [
            {
                "step": step,
                "parameters": _json(float(real.distance.values[step, 0])),
                "loss": _json(float(real.distance.values[step, 2])),
                "explained_parameters": _json(float(real.explained[row, 0])),
                "explained_loss": _json(float(real.explained[row, 1])),
                "within_roundings_parameters": bool(real.rounded[row, 0]),
                "within_roundings_loss": bool(real.rounded[row, 1]),
            }
            for row, step in enumerate(real.steps)
        ],
        "follows": [
            {
                "run": item.run,
                "holds": item.holds,
                "law": item.law,
                "step": item.step,
                "where": item.where or None,
                "needed": _json(item.needed),
                "allowed": _json(item.allowed),
                "reason": item.reason or None,
            }
            for item in real.follows
        ],
    }
