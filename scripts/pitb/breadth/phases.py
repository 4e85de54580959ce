"""A plan as the processes that train it see it. Needs no PyTorch."""

from pathlib import Path
from typing import Any

Plan = dict[str, Any]
Spec = dict[str, Any]
IMPOSSIBLE = "impossible"
"""The key of the reason where a side cannot do a case; also the verdict then."""


def phases(found: Plan, side: str, folder: Path) -> tuple[list[Spec], list[Spec]]:
    """What one process of a side trains, and then another.

    The second takes up the runs that are interrupted, from what the first saved in ``folder``.
    """
    first, second = [], []
    for entry in found["cases"].values():
        if IMPOSSIBLE in entry[side]:
            continue
        spec, step = entry[side], entry["case"]["resume_step"]
        if not step:
            first.append(spec)
            continue
        path = str((folder / "checkpoints" / spec["id"]).absolute())
        first.append({**spec, "id": f"{spec['id']}_first", "steps": step, "save": path})
        second.append({**spec, "resume": path, "resume_step": step})
    return first, second


def trace_path(folder: Path, side: str, name: str) -> Path:
    """Where a run's trace stands below the folder of its batch."""
    return folder / side / f"{name}.parquet"
