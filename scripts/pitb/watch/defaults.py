"""Defaults of another version against those that are recorded of the project's own."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pitb import libraries
from pitb.watch.changes import CHANGED, DEFAULT, UNCHANGED, Item, Why

ABSENT = "not there"


def burn_items(found: Mapping[str, Any], missing: Mapping[str, Why], evidence: str) -> list[Item]:
    """Every field of every configuration of burn.

    Args:
        found: By configuration ``fields``, as the version prints them.
        missing: By configuration status and reason of those that it does not print.
        evidence: Where ``found`` stands.
    """
    items: list[Item] = []
    recorded = libraries.recorded()["burn"]
    for config, entry in recorded.items():
        before = flat(config, entry["fields"])
        if config in missing:
            status, reason = missing[config]
            items += [
                Item(DEFAULT, name, status, value, reason, evidence)
                for name, value in before.items()
            ]
        else:
            items += _compared(before, flat(config, found[config]["fields"]), evidence)
    return items


def torch_items(found: Mapping[str, Any], evidence: str) -> list[Item]:
    """Every parameter of the calls of PyTorch's side, and every ``opt.defaults``.

    Args:
        found: As `pitb.libraries.recorded` has it, of that version.
        evidence: Where it stands.
    """
    recorded = libraries.recorded()
    before, then = (
        {
            **_calls("lr_scheduler.", of["schedulers"]),
            **_calls("clip: ", of["clips"]),
            **_calls("", {name: item["parameters"] for name, item in of["pytorch"].items()}),
            **{
                key: value
                for name, item in of["pytorch"].items()
                for key, value in flat(f"{name}.defaults", item["defaults"]).items()
            },
        }
        for of in (recorded, found)
    )
    return list(_compared(before, then, evidence))


def _calls(prefix: str, calls: Mapping[str, Any]) -> dict[str, str]:
    """The parameters of calls by ``<call>(<parameter>)``; one without a default is required."""
    found = {}
    for call, parameters in calls.items():
        for item in parameters:
            value = _text(item["default"]) if "default" in item else "required"
            only = ", keyword only" if item.get("keyword_only") else ""
            found[f"{prefix}{call}({item['name']})"] = value + only
    return found


def flat(name: str, value: Any) -> dict[str, str]:
    """The leaves of nested fields as text, by their path."""
    if isinstance(value, Mapping) and value:
        found: dict[str, str] = {}
        for key, inner in value.items():
            found |= flat(f"{name}.{key}", inner)
        return found
    return {name: _text(value)}


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _compared(before: Mapping[str, str], then: Mapping[str, str], evidence: str) -> Iterator[Item]:
    for name in dict.fromkeys([*before, *then]):
        pair = (before.get(name, ABSENT), then.get(name, ABSENT))
        status = UNCHANGED if _same(*pair) else CHANGED
        yield Item(DEFAULT, name, status, *pair, evidence)


def _same(a: str, b: str) -> bool:
    """Whether two texts are equal, or name one number."""
    try:
        return a == b or float(a) == float(b)
    except ValueError:
        return False
