"""What is planned and called alike for every version of both libraries."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pitb import libraries, trace
from pitb.errors import PitbError
from pitb.watch import calls, cases
from pitb.watch.versions import Wanted


def make_plan(side: str, printed: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of the cases that touch every choice of equation on a side.

    Args:
        side: ``burn`` or ``pytorch``.
        printed: By configuration burn's defaults, of what a version prints; the recorded ones
            stand for the rest.
    """
    from pitb.breadth import plan, scope  # which need PyTorch

    recorded = libraries.recorded()["burn"]
    burn = {
        name: {"fields": {**entry["fields"], **printed.get(name, {}).get("fields", {})}}
        for name, entry in recorded.items()
    }
    return plan.plan(cases.select(side, scope.all_cases(burn)), burn)


def check_version(traces: Path, version: Wanted) -> None:
    """See to it that traces were made with the version that they are taken for.

    Raises:
        PitbError: One was not.
    """
    for path in sorted(traces.rglob("*.parquet")):
        found = trace.read(path).metadata["versions"].get(version.library)
        if found != version.version:
            raise PitbError(f"{path} was made with {version.library} {found}, not {version.name}")


def call_script(command: Sequence[Any], python: Path | None = None) -> str:
    """Call one of the project's scripts; what it complains of, empty where it does not.

    Args:
        command: The script and its arguments.
        python: The interpreter, by default this one.

    Raises:
        PitbError: It cannot be started, or the machine ended it.
    """
    name = Path(command[0]).name
    ended = calls.call([python or sys.executable, *command], name=name)
    if ended.code == 0:
        return ""
    lines = [line for line in ended.complained.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("error:")]
    said = (errors or lines or [f"it ended with code {ended.code}"])[-1]
    return f"{name}: {said.removeprefix('error: ').strip()}"
