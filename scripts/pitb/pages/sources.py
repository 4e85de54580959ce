"""What the pages' tables are computed from: traces, comparisons and evidence below one folder."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pitb import compare, trace
from pitb.compare import Comparison, Row
from pitb.files import read_json
from pitb.tables import Table
from pitb.trace import Trace


def trace_path(run: str) -> str:
    """Of a run's trace, below the folder of results."""
    return f"traces/{run}.parquet"


def comparison_path(a: str, b: str) -> str:
    """Of a comparison of two runs, below the folder of results."""
    return f"comparisons/{a}--{b}".replace("/", ".").replace("comparisons.", "comparisons/") + (
        ".parquet"
    )


def evidence_path(name: str) -> str:
    """Of a piece of evidence, below the folder of results."""
    return f"evidence/{name}.json"


@dataclass(frozen=True)
class Sources:
    """Reads each file below ``results`` once."""

    results: Path

    def trace(self, run: str) -> Trace:
        """The trace of a run."""
        return _trace(self.results / trace_path(run))

    def comparison(self, a: str, b: str) -> Comparison:
        """The comparison of two runs."""
        return _comparison(self.results / comparison_path(a, b))

    def evidence(self, name: str) -> Any:
        """A piece of evidence."""
        return _evidence(self.results / evidence_path(name))


@cache
def _trace(path: Path) -> Trace:
    return trace.read(path)


@cache
def _comparison(path: Path) -> Comparison:
    return compare.read(path)


@cache
def _evidence(path: Path) -> Any:
    return read_json(path)


def add_row(table: Table, name: str, row: Row, evidence: str) -> None:
    """Add the number of elements and the largest difference of a comparison's row."""
    table.add(name, "n", row.n, evidence)
    table.difference(name, "max_abs_diff", row.max_abs, evidence)


def add_verdict(table: Table, comparison: Comparison, evidence: str, *, exit_code: bool) -> None:
    """Add worst difference, tolerance, verdict, and the comparison's exit code, as a summary."""
    table.difference("summary", "worst", comparison.worst, evidence)
    table.add("summary", "tolerance", f"{comparison.tolerance:g}", evidence)
    table.add("summary", "verdict", comparison.verdict, evidence)
    if exit_code:
        table.add("summary", "exit_code", comparison.exit_code, evidence)
