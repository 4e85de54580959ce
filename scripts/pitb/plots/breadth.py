"""Pictures of the breadth: how PyTorch's own list is covered, and which mutants were noticed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pitb.errors import PitbError
from pitb.plots import bars

STATUSES = {"covered": 0, "impossible": 1, "no-counterpart": 2, "missing": 3}
"""Of a configuration of PyTorch's list, and how its area is filled."""
ENDS = {"killed": 0, "equivalent": 1, "survived": 3}
"""Of a mutant: what should not be is filled alike in both pictures."""


def coverage(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Draw how many of each optimizer's configurations are covered.

    Args:
        path: An SVG or PNG file.
        rows: Records with ``optimizer`` and ``status``.

    Raises:
        PitbError: A status is unknown, or the picture cannot be written.
    """
    found: dict[str, Counter[str]] = {}
    for row in rows:
        if row["status"] not in STATUSES:
            raise PitbError(
                f"{row['optimizer']}: status {row['status']!r} is none of {', '.join(STATUSES)}"
            )
        found.setdefault(row["optimizer"], Counter())[row["status"]] += 1
    title = "PyTorch's own configurations, by what burn can do"
    bars.counts(path, title, found, STATUSES, "configurations")


def kills(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Draw how many of the mistakes put into each description were noticed.

    Args:
        path: An SVG or PNG file.
        rows: Records with ``optimizer``, ``side``, and a count for each of `ENDS`.

    Raises:
        PitbError: The picture cannot be written.
    """
    found: dict[str, Counter[str]] = {}
    for row in rows:
        counts = found.setdefault(f"{row['optimizer']}, {row['side']}", Counter())
        for end in ENDS:
            counts[end] += int(row[end])
    title = "Mistakes put into the reference (mutants)"
    bars.counts(path, title, found, ENDS, "mutants")
