"""Reads what the pages' tables are computed from, below one folder of results."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pitb import compare, trace
from pitb.compare import Comparison, Row
from pitb.files import read_json
from pitb.results import comparison_path, evidence_path, trace_path
from pitb.tables import SUMMARY, Table
from pitb.trace import Trace


@dataclass(frozen=True)
class Sources:
    """Traces, comparisons and evidence below ``results``."""

    results: Path

    def trace(self, run: str) -> Trace:
        """The trace of a run."""
        return _trace(self.results / trace_path(run))

    def comparison(self, pair: tuple[str, str]) -> tuple[Comparison, str]:
        """The comparison of two runs, and where it stands.

        Raises:
            PitbError: The two could not be compared; says why.
        """
        path = comparison_path(*pair)
        return _comparison(self.results / path), path

    def evidence(self, name: str) -> tuple[Any, str]:
        """A piece of evidence, and where it stands."""
        path = evidence_path(name)
        return _evidence(self.results / path), path


# A table reads what others have read; the results do not change while tables are made.
_trace = cache(trace.read)
_evidence = cache(read_json)


@cache
def _comparison(path: Path) -> Comparison:
    comparison = compare.read(path)
    if comparison.error is not None:
        raise compare.NotComparable(f"{path}: {comparison.error}")
    return comparison


def forget() -> None:
    """Forget what was read, before tables are made of results that have changed since."""
    for cached in (_trace, _evidence, _comparison):
        cached.cache_clear()


def add_row(table: Table, name: str, row: Row, evidence: str) -> None:
    """Add the number of elements and the largest difference of a comparison's row."""
    table.add(name, "n", row.n, evidence)
    table.difference(name, "max_abs_diff", row.max_abs, evidence)


def add_verdict(table: Table, comparison: Comparison, evidence: str, *, exit_code: bool) -> None:
    """Add worst difference, tolerance, verdict, and the comparison's exit code, as a summary."""
    table.difference(SUMMARY, "worst", comparison.worst, evidence)
    table.add(SUMMARY, "tolerance", f"{comparison.tolerance:g}", evidence)
    table.add(SUMMARY, "verdict", comparison.verdict, evidence)
    if exit_code:
        table.add(SUMMARY, "exit_code", comparison.exit_code, evidence)
