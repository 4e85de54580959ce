"""The comparison of a pair of runs whose traces stand in a folder of results."""

from pathlib import Path
from typing import Any

from pitb import compare, trace
from pitb.compare import Comparison, NotComparable
from pitb.results import trace_path


def compare_pair(pair: dict[str, Any], results: Path) -> Comparison:
    """The comparison of a pair; where there is no comparing, one that holds the reason."""
    a, b = (trace.read(results / trace_path(pair[side])) for side in ("a", "b"))
    quantities, tolerance = list(pair["quantities"]), pair["tolerance"]
    try:
        return compare.compare(a, b, tolerance, quantities, pair["initial_state_may_differ"])
    except NotComparable as error:
        return Comparison(
            a.run,
            b.run,
            tolerance,
            quantities,
            initial_state=compare.preflight(a, b, pair["initial_state_may_differ"]),
            error=str(error),
        )
