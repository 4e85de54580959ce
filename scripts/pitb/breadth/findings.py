"""Every difference in a default or an equation, found in what the breadth has judged.

A finding is generated, not typed: which choice or default differs comes from the descriptions and
from burn's own defaults, where it matters from the outcomes, its size from the reference, its place
from the installed source. What is declared by hand is a pattern for each place
(:mod:`pitb.breadth.sources`) and a way to align what can be aligned.
"""

from collections.abc import Sequence

from pitb.breadth.default_findings import default_findings
from pitb.breadth.equation_findings import equation_findings
from pitb.breadth.finding import KINDS, Evidence, Finding, check, from_plain, plain, read
from pitb.breadth.other_findings import (
    Refusal,
    clip_findings,
    one_sided_findings,
    schedule_findings,
    schedule_rows,
)
from pitb.schedulers import Row as ScheduleRow

__all__ = [
    "KINDS",
    "Evidence",
    "Finding",
    "find",
    "from_plain",
    "plain",
    "read",
    "schedule_rows",
]


def find(
    evidence: Evidence,
    measured: Sequence[ScheduleRow] = (),
    refusal: Refusal | None = None,
) -> list[Finding]:
    """Every finding: defaults, equations, what is one-sided, and schedules.

    Args:
        evidence: What was judged.
        measured: The rows of the judge of the schedules; none of them leaves those out.
        refusal: What burn itself says to options, which is quoted.
    """
    found = [
        *default_findings(evidence),
        *equation_findings(evidence),
        *one_sided_findings(evidence, refusal),
        *clip_findings(evidence, refusal),
        *schedule_findings(measured),
    ]
    check(found)
    return found
