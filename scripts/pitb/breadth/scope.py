"""Which cases are tried: all, or a slice that touches everything once."""

from collections.abc import Iterator

from pitb.breadth.cases import LONG, Case, cases
from pitb.breadth.coverage import coverage_cases
from pitb.breadth.defaults import Burn, default_cases
from pitb.problems import problem
from pitb.registry import by_pytorch_name, optimizers

SLICE_PROBLEMS = (
    "a1",
    "tall",
    "embedding",
    "gradients",
    "absent",
    "tied",
    "scale-1e30",
    "inf",
    "nan",
    "rosenbrock",
)
"""The problems of the slice: one that shows each kind of mistake."""


def all_cases(burn: Burn) -> Iterator[Case]:
    """Every case."""
    yield from cases()
    yield from default_cases(burn)
    yield from coverage_cases()


def slice_cases(burn: Burn) -> Iterator[Case]:
    """Every optimizer and option set, on fewer problems and never long."""
    everything = [case for case in all_cases(burn) if case.steps != LONG]
    twins = {case.twin for case in everything}
    for case in everything:
        wide = case.suite in ("options", "coverage") and not problem(case.problem).special
        broad = wide and case.problem not in SLICE_PROBLEMS
        if not broad or case.name in twins:
            yield case


def by_optimizer(burn: Burn, sliced: bool) -> dict[str, list[Case]]:
    """The cases by the optimizer's key."""
    found: dict[str, list[Case]] = {optimizer.key: [] for optimizer in optimizers()}
    for case in slice_cases(burn) if sliced else all_cases(burn):
        found[by_pytorch_name(case.optimizer).key].append(case)
    return found
