"""A plan as the processes that train it see it. Needs no PyTorch."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pitb import programs
from pitb.errors import PitbError

Plan = dict[str, Any]
Spec = dict[str, Any]
Stamps = dict[str, tuple[Path, tuple[int, int, int] | None]]
"""Of each run the place of its trace, and what stands there."""
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


def stamps(specs: Iterable[Spec], folder: Path) -> Stamps:
    """What stands in ``folder`` in the places of the runs' traces, before they are trained."""
    paths = {str(spec["id"]): folder / f"{spec['id']}.parquet" for spec in specs}
    return {run: (path, _stamp(path)) for run, path in paths.items()}


def check_left(before: Stamps, program: Path | str) -> None:
    """See to it that ``program`` has left a trace of each run, one that was not there ``before``.

    Raises:
        PitbError: It has not, or one is not whole; names the first.
    """
    missing = [run for run, (path, stamp) in before.items() if _stamp(path) in (None, stamp)]
    if missing:
        path, _ = before[missing[0]]
        first = f"it has left no trace of {missing[0]} in {path}"
        raise PitbError(
            f"{program} has ended well, but {first} (and of {len(missing)} runs in all)"
        )
    programs.check_whole((path for path, _ in before.values()), str(program))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes where a file is replaced; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
