"""A port as JSON."""

from typing import TYPE_CHECKING, Any

from pitb import declared, libraries
from pitb.port import emit, reverse
from pitb.port.assemble import Port, Unit, burn_clipping
from pitb.port.reverse import Reversed
from pitb.port.translate import Group
from pitb.port.values import Placeholder
from pitb.rust import Expression

if TYPE_CHECKING:
    from pitb.port.verify import Verdict


def plain(value: Any) -> Any:
    """As JSON has it: what depends on the run is ``{"run_time": "args.lr"}``."""
    if isinstance(value, Placeholder):
        return {"run_time": value.code, "line": value.line, "parameter": value.name}
    if isinstance(value, Expression):
        return {"rust": value.code}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    return value


def port_json(port: Port, verdicts: "dict[str, Verdict] | None" = None) -> dict[str, Any]:
    """Everything that a port says."""
    versions = libraries.recorded()["versions"]
    found: dict[str, Any] = {
        "source": port.source.name,
        "versions": versions,
        "units": [_unit(unit) for unit in port.units],
        "not_carried_over": port.all_lost,
        "rust": emit.rust_of(port),
    }
    if verdicts is not None:
        found["verified"] = {
            name: {
                "status": item.status,
                "reason": item.reason,
                "cases": item.cases,
                "same": item.same,
                "choices": item.choices,
            }
            for name, item in verdicts.items()
        }
    return found


def _unit(unit: Unit) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": unit.name,
        "not_carried_over": unit.all_lost,
        "notes": unit.all_notes,
        "schedules": plain(unit.schedules),
        "stepped": unit.stepped if unit.schedules else None,
        "clips": [
            {
                "function": clip.name,
                "line": clip.call.line,
                "bound": plain(clip.bound),
                "norm_type": plain(clip.norm_type) if clip.name == "clip_grad_norm_" else None,
                "by_burn": burn_clipping(unit) is not None,
            }
            for clip in unit.clips
        ],
    }
    if unit.ported is not None:
        entry = unit.ported.entry
        found |= {
            "line": unit.ported.call.line,
            "call": unit.ported.call.code,
            "configuration": entry.burn_config,
            "path": declared.paths()[entry.burn_config],
            "groups": [_group(group) for group in unit.ported.groups],
        }
    return found


def _group(group: Group) -> dict[str, Any]:
    return {
        "parameters": group.code,
        "field": group.field,
        "lr": plain(group.lr),
        "options": plain(group.options),
        "burn": plain(group.burn),
    }


def reverse_json(found: Reversed, lr: float | None) -> dict[str, Any]:
    """Everything that the other way says."""
    return {
        "configuration": found.configuration,
        "optimizer": f"{found.entry.module}.{found.entry.pytorch}",
        "options": plain(found.options),
        "clip": plain(found.clip),
        "call": reverse.call(found, lr),
        "not_carried_over": found.lost,
        "python": reverse.python(found, lr),
    }
