"""The tables of the page "Optimizer defaults differ"."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise

import numpy as np

from pitb import a1, compare, defaults
from pitb.compare import Comparison
from pitb.pages import (
    ABLATIONS,
    CLIPS,
    OPTIMIZERS,
    ablation_pair,
    aligned_pair,
    default_pair,
)
from pitb.pages.sources import Sources, add_row, add_verdict
from pitb.results import comparison_path, trace_path
from pitb.tables import SUMMARY, Table
from pitb.trace import Trace

BURN_CONFIGS = ("MomentumConfig", "AdamWConfig", "RmsPropConfig", "AdaGradConfig")
"""The configurations whose defaults the page prints."""


def all_defaults(found: Sources) -> Table:
    """What each PyTorch run was left with, and what each burn configuration prints."""
    table = Table("defaults", wide=False)
    for name in OPTIMIZERS:
        run = f"pytorch/{name}"
        configuration = found.trace(run).configuration
        values = {"lr": configuration["lr"], **configuration["options"]}
        for key, value in values.items():
            text = json.dumps(value) if isinstance(value, list) else str(value)
            table.add(f"pytorch {name}", key, text, trace_path(run))
    burn, evidence = found.evidence("defaults/burn")
    for config in BURN_CONFIGS:
        _, fields = defaults.parse_debug(burn[config]["debug"])
        for key, text in fields.items():
            table.add(f"burn {config}", key, text, evidence)
    return table


def default_differences(found: Sources) -> Table:
    """Every default that differs, computed from both sides' own output."""
    table = Table("default-differences")
    pytorch, pytorch_path = found.evidence("defaults/pytorch")
    burn, burn_path = found.evidence("defaults/burn")
    evidence = f"{pytorch_path}; {burn_path}"
    differences = defaults.differences(pytorch, burn)
    for difference in differences:
        table.add(difference.name, "pytorch", difference.pytorch, evidence)
        table.add(difference.name, "burn", difference.burn, evidence)
        table.add(difference.name, "source", ", ".join(difference.sources), evidence)
    table.add(SUMMARY, "differences", len(differences), evidence)
    return table


def mismatch(found: Sources) -> Table:
    """Only the learning rate given: how far apart the sides are after the first and last step."""
    table = Table("mismatch")
    exit_codes, tolerances = set(), set()
    for name in OPTIMIZERS:
        comparison, evidence = found.comparison(default_pair(name))
        first, last = min(comparison.steps()), max(comparison.steps())
        for step in (first, last):
            largest = comparison.max_abs(step, "param")
            table.difference(name, f"step {step} max|dparam|", largest, evidence)
        loss = comparison.max_abs(last, "loss")
        table.difference(name, f"step {last} |dloss|", loss, evidence)
        table.add(name, "verdict", comparison.verdict, evidence)
        exit_codes.add(comparison.exit_code)
        tolerances.add(comparison.tolerance)
    _shared_summary(table, exit_codes, tolerances, map(default_pair, OPTIMIZERS))
    return table


def problem(found: Sources) -> Table:
    """The size of the model."""
    table = Table("a1", wide=False)
    run = f"pytorch/{OPTIMIZERS[0]}"
    count = found.trace(run).metadata["model"]["parameters"]
    table.add("model", "parameters", count, trace_path(run))
    return table


def steps(found: Sources, name: str) -> Table:
    """One optimizer with each side's defaults, step by step."""
    table = Table(f"{name}-steps")
    comparison, evidence = found.comparison(default_pair(name))
    for step in comparison.steps():
        _add_step(table, f"step {step:02}", comparison, step, evidence)
    losses = [comparison.at(step, "loss")[0].b for step in comparison.steps()]
    rises = [
        str(step)
        for step, (before, loss) in zip(comparison.steps()[1:], pairwise(losses), strict=True)
        if loss > before
    ]
    table.add(SUMMARY, "steps at which loss_burn rises", ", ".join(rises) or "none", evidence)
    split = _split_step(comparison)
    table.add(SUMMARY, "step at which the two sides split", split, evidence)
    if split == 2:
        largest = [comparison.max_abs(step, "param") for step in comparison.steps()]
        growth = [after - before for before, after in pairwise(largest[1:])]
        low, high = min(growth), max(growth)
        row, column = f"growth per step after step {split}", "range"
        table.add(row, column, _range(low, high), evidence, f"{low:.2e} to {high:.2e}")
    return table


def ablation(found: Sources) -> Table:
    """One of burn's defaults set to PyTorch's, the rest left: what remains of the difference."""
    table = Table("ablation")
    for name, item in ABLATIONS:
        comparison, evidence = found.comparison(ablation_pair(name, item))
        for step in comparison.steps():
            _add_step(table, f"{name} {item} step {step:02}", comparison, step, evidence)
    return table


def explanations(found: Sources) -> Table:
    """AdamW's decay arithmetic, Adagrad's constant difference, and where SGD momentum splits."""
    table = Table("explanations", wide=False)
    runs = default_pair("adamw")
    pytorch, burn = map(found.trace, runs)
    lr = pytorch.configuration["lr"]
    decays = [run.configuration["options"]["weight_decay"] for run in (pytorch, burn)]
    weight = a1.WEIGHT_AMPLITUDE
    evidence = "; ".join(map(trace_path, runs))
    arithmetic = f"decay difference {weight:g}*{lr:g}*({decays[0]:g}-{decays[1]:g})"
    difference = weight * lr * (decays[0] - decays[1])
    table.difference("adamw step 1", arithmetic, difference, evidence)

    comparison, evidence = found.comparison(default_pair("adagrad"))
    steps = comparison.steps()
    largest = [comparison.max_abs(step, "param") for step in steps]
    column = f"max|dparam| at every step {steps[0]}..{steps[-1]}"
    if f"{min(largest):.2e}" == f"{max(largest):.2e}":
        table.difference("adagrad", column, max(largest), evidence)
    else:
        low, high = min(largest), max(largest)
        table.add("adagrad", column, _range(low, high), evidence, f"{low:.2e} to {high:.2e}")
    losses = [comparison.max_abs(step, "loss") for step in steps[1:]]
    low, high = min(losses), max(losses)
    shown = f"{low:.2e} to {high:.2e}"
    column = f"|dloss| range from step {steps[1]}"
    table.add("adagrad", column, _range(low, high), evidence, shown)

    comparison, evidence = found.comparison(default_pair("sgdm"))
    table.add("sgdm", "step at which the two sides split", _split_step(comparison), evidence)
    return table


def clip(found: Sources, name: str) -> Table:
    """One step with clipped gradients: the parameters after it, and the total norms."""
    table = Table(name)
    a, b = CLIPS[name]
    comparison, evidence = found.comparison((a, b))
    for row in comparison.rows:
        add_row(table, row.tensor, row, evidence)
    for run in (a, b):
        table.add(run.split("/")[0], "total norm", _total_norm(found.trace(run)), trace_path(run))
    add_verdict(table, comparison, evidence, exit_code=False)
    return table


def _total_norm(run: Trace) -> float:
    """The total norm that a run's clipping returned, or, where it returned none, that of its
    recorded gradients, summed in f64."""
    if (1, "grad_norm", "") in run.by_key():
        return float(run.find(1, "grad_norm")[0])
    gradients = [run.of(entry) for entry in run.select(1, "grad")]
    return float(np.linalg.norm(np.concatenate(gradients)))


def aligned(found: Sources) -> Table:
    """PyTorch's defaults written out on burn's side: the worst difference over all steps."""
    table = Table("aligned")
    exit_codes, tolerances = set(), set()
    for name in OPTIMIZERS:
        comparison, evidence = found.comparison(aligned_pair(name))
        column = f"worst over {len(comparison.steps())} steps (loss or parameter)"
        table.difference(name, column, comparison.worst, evidence)
        table.add(name, "verdict", comparison.verdict, evidence)
        exit_codes.add(comparison.exit_code)
        tolerances.add(comparison.tolerance)
    _shared_summary(table, exit_codes, tolerances, map(aligned_pair, OPTIMIZERS))
    return table


def _shared_summary(
    table: Table, exit_codes: set[int], tolerances: set[float], pairs: Iterable[tuple[str, str]]
) -> None:
    """What all comparisons of a table have in common; several values are listed."""
    evidence = "; ".join(comparison_path(a, b) for a, b in pairs)
    codes = ", ".join(map(str, sorted(exit_codes)))
    table.add(SUMMARY, "exit_code", codes, evidence)
    texts = ", ".join(f"{tolerance:g}" for tolerance in sorted(tolerances))
    table.add(SUMMARY, "tolerance", texts, evidence)


def _add_step(table: Table, row: str, comparison: Comparison, step: int, evidence: str) -> None:
    (loss,) = comparison.at(step, "loss")
    table.add(row, "loss_pt", loss.a, evidence, f"{loss.a:.8f}")
    table.add(row, "loss_burn", loss.b, evidence, f"{loss.b:.8f}")
    table.difference(row, "|dloss|", loss.max_abs, evidence)
    table.difference(row, "max|dparam|", comparison.max_abs(step, "param"), evidence)


def _split_step(comparison: Comparison) -> int | str:
    """The first step after which some parameter differs by more than the tolerance."""
    for step in comparison.steps():
        if any(row.verdict != compare.OK for row in comparison.at(step, "param")):
            return step
    return "none"


def _range(low: float, high: float) -> str:
    return f"{low!r} to {high!r}"


TABLES: dict[str, Callable[[Sources], Table]] = {
    "defaults": all_defaults,
    "default-differences": default_differences,
    "mismatch": mismatch,
    "a1": problem,
    **{f"{name}-steps": partial(steps, name=name) for name in ("rmsprop", "sgdm", "adagrad")},
    "ablation": ablation,
    "explanations": explanations,
    **{name: partial(clip, name=name) for name in CLIPS},
    "aligned": aligned,
}
