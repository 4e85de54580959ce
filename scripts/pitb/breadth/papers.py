"""Whether timm's and burn's Lion, LAMB and Adan are those of the papers.

For each choice that a paper settles: the value it has there and in the implementation, and where
they differ what the paper's own value would have made of the implementation's traces.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pitb import libraries
from pitb.breadth import runs
from pitb.breadth.judge import SIDES, Judge, judge
from pitb.breadth.laws import law
from pitb.breadth.phases import IMPOSSIBLE
from pitb.compare import ERROR, MISMATCH
from pitb.problems import problem
from pitb.reference.descriptions import describe
from pitb.reference.papers import PAPERS
from pitb.reference.training import train
from pitb.registry import by_pytorch_name

AS_IN_PAPER, DIFFERENT, NOT_IN_PAPER = "as in the paper", "different", "not in the paper"


@dataclass(frozen=True)
class Row:
    """One choice of one implementation."""

    optimizer: str
    paper: str
    implementation: str
    choice: str
    in_paper: str
    in_library: str
    relation: str
    tried: int = 0
    """Option cases on ordinary gradients that the library trained and its description follows."""
    differ: int = 0
    """Those on which the paper's value leaves the library's trace."""
    most: float = 0.0
    """The largest relative difference that it makes there."""
    shown_by: str = ""


def rows(judge_: Judge, optimizer: str) -> Iterator[Row]:
    """Each choice that the paper of ``optimizer`` settles, and each option on by default of which
    the paper knows nothing. The cases must have been judged.
    """
    paper = PAPERS.get(optimizer)
    for side in SIDES if paper is not None else ():
        assert paper is not None
        name = _implementation(side, optimizer)
        eq = describe(side, optimizer)
        for choice, value in paper.choices.items():
            has = eq.value(choice)
            row = Row(optimizer, paper.source, name, choice, str(value), str(has), AS_IN_PAPER)
            yield row if has == value else _differing(judge_, side, row, value)
        entry = by_pytorch_name(optimizer)
        for option, neutral in entry.neutral.items() if side == "pytorch" else ():
            default = libraries.pytorch_defaults(optimizer)[option]
            if default != neutral:
                texts = (str(neutral), str(default))
                yield Row(optimizer, paper.source, name, option, *texts, NOT_IN_PAPER)


def _implementation(side: str, optimizer: str) -> str:
    versions = libraries.recorded()["versions"]
    if side == "burn":
        return f"burn {versions['burn']}"
    package = by_pytorch_name(optimizer).module.partition(".")[0]
    return f"{package} {versions[package]}"


def _differing(judge_: Judge, side: str, row: Row, value: Any) -> Row:
    tried, differing, worst, shown_by = 0, 0, 0.0, ""
    for entry in judge_.entries():
        case = runs.case_of(entry)
        of = problem(case.problem)
        plain = case.suite == "options" and not of.extreme and not of.tied
        if not plain or IMPOSSIBLE in entry[side] or not judge_.follows(case.name, side):
            continue
        tried += 1
        eq = runs.described(entry, side).with_value(row.choice, value)
        pair, library = f"{side}--reference", judge_.library(case.name, side)
        responses = judge_.responses.get(case.name, {})
        run = runs.reference_run(entry, side, eq)
        outcome = judge(case, pair, library, train(run), law(case, pair), responses)
        if outcome.verdict not in (MISMATCH, ERROR):
            continue
        differing += 1
        size = max((r.needed for r in outcome.rows if r.quantity == "param"), default=0.0)
        if size > worst or not shown_by:
            worst, shown_by = max(size, worst), case.name
    return Row(
        row.optimizer,
        row.paper,
        row.implementation,
        row.choice,
        row.in_paper,
        row.in_library,
        DIFFERENT,
        tried,
        differing,
        worst,
        shown_by,
    )


def shown(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rows as the sheet has them: without numbers where nothing had to be tried."""
    tried = ("tried", "differ", "most")
    for row in found:
        blank = {} if row["relation"] == DIFFERENT else dict.fromkeys(tried, "")
        yield {**row, **blank}


def complaints(found: list[dict[str, Any]]) -> list[str]:
    """A difference from a paper that no case shows. One sentence each."""
    return [
        f"{row['optimizer']}, {row['implementation']}: {row['choice']} is {row['in_library']!r} and"
        f" not the paper's {row['in_paper']!r}, but none of {row['tried']} cases shows it"
        for row in found
        if row["relation"] == DIFFERENT and not row["differ"]
    ]
