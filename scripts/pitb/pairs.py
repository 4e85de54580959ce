"""The comparison of a pair of runs whose traces stand in a folder of results."""

from pathlib import Path
from typing import Any

from pitb import compare, trace
from pitb.compare import Comparison
from pitb.results import trace_path


def compare_pair(pair: dict[str, Any], results: Path) -> Comparison:
    """The comparison of a pair; where there is no comparing, one that holds the reason."""
    a, b = (trace.read(results / trace_path(pair[side])) for side in ("a", "b"))
    exempt = pair["initial_state_may_differ"]
    return compare.attempt(a, b, pair["tolerance"], list(pair["quantities"]), exempt)
