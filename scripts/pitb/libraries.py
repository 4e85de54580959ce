"""What both libraries take and have as defaults, recorded, so that neither has to be installed.

``make libraries`` records it anew; the tests hold it against the installed libraries.
"""

import json
from functools import cache
from importlib import resources
from typing import Any


@cache
def recorded() -> dict[str, Any]:
    """Everything.

    ``versions`` of torch, timm and burn; ``pytorch``: by optimizer ``module``, ``parameters`` in
    order (``name``, ``default`` unless required) and ``defaults`` as ``opt.defaults`` has them;
    ``schedulers`` and ``clips``: parameters by name; ``burn``: by configuration ``debug``,
    ``fields``.
    """
    text = resources.files("pitb").joinpath("libraries.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def pytorch_defaults(optimizer: str) -> dict[str, Any]:
    """``opt.defaults`` of an optimizer by PyTorch's name, its tuples as lists."""
    found: dict[str, Any] = recorded()["pytorch"][optimizer]["defaults"]
    return found


def burn_fields(configuration: str) -> dict[str, Any]:
    """The fields of one of burn's configurations, ``AdamConfig``, at their defaults."""
    found: dict[str, Any] = recorded()["burn"][configuration]["fields"]
    return found
