"""The sizes of the findings, computed again.

Each is what one default or equation alone does to a run of the reference, so that run is trained
again, with it and without.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from pitb.breadth import inputs
from pitb.breadth.default_findings import alone
from pitb.breadth.equation_findings import aligned_runs, sizes
from pitb.breadth.finding import DEFAULT, EQUATION, STEPS, Finding, Size, from_plain
from pitb.bundle.report import Report
from pitb.reference.training import train
from pitb.registry import optimizers

SIZE_RELATIVE = 1e-3
"""How far sizes may be apart: the digits that the page shows. A long run magnifies roundings, which
are the processor's own."""


def check(folder: Path, below: str, told: Report) -> None:
    """Train the runs of a scope's findings again, and compare their sizes."""
    found = [from_plain(item) for item in inputs.read_findings(folder / below / "findings.json")]
    entries: dict[str, Any] = {}
    for optimizer in optimizers():
        plan = folder / below / "plans" / f"{optimizer.key}.json"
        if plan.is_file():
            entries |= inputs.read_plan(plan)["cases"]
    left = 0
    for finding in found:
        made = _sizes(finding, entries)
        if made is None:
            left += any(not size.status for size in finding.sizes)
            continue
        told.checked["sizes of findings"] += 1
        for step, have, size in zip(STEPS, finding.sizes, made, strict=True):
            if not _same(have, size):
                told.fault(
                    f"{below}/findings.json",
                    f"{finding.id} is {_shown(have)} at step {step}, but trained again "
                    f"{_shown(size)}",
                )
    if left:
        told.taken(f"{below}/findings.json", f"the sizes of {left} findings, on schedules")


def _sizes(finding: Finding, entries: dict[str, Any]) -> tuple[Size, ...] | None:
    """What a finding's run gives; None where it has none of an optimizer."""
    if finding.case not in entries:
        return None
    entry = dict(entries[finding.case])
    if finding.kind == DEFAULT:
        return alone(entry, finding.option)
    if finding.kind == EQUATION:
        pair = [replace(run, steps=max(STEPS)) for run in aligned_runs(entry, finding.option)]
        return sizes(*(train(run) for run in pair))
    return None


def _same(a: Size, b: Size) -> bool:
    if a.status != b.status:
        return False
    pairs = ((a.absolute, b.absolute), (a.relative, b.relative))
    return all(
        x == y or (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=SIZE_RELATIVE)
        for x, y in pairs
    )


def _shown(size: Size) -> str:
    return size.status or f"{size.relative!r} ({size.absolute!r})"
