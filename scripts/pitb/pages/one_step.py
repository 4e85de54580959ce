"""The tables of the page "One step"."""

from collections.abc import Callable

import numpy as np

from pitb import compare
from pitb.pages import F32_PAIR, STEP_PAIR
from pitb.pages.sources import Sources, add_row, add_verdict
from pitb.results import trace_path
from pitb.tables import Table


def train_step(found: Sources) -> Table:
    """Logits, loss, gradients, parameters and loss after the step, each compared."""
    table = Table("train-step")
    comparison, evidence = found.comparison(STEP_PAIR)
    for row in comparison.rows:
        add_row(table, compare.page_name(row, last_step=1), row, evidence)
    add_verdict(table, comparison, evidence, exit_code=True)
    return table


def f32_inputs(found: Sources) -> Table:
    """How many inputs and biases differ when computed in f32, by how much, and what follows."""
    table = Table("f32-inputs", wide=False)
    evidence = trace_path(F32_PAIR[1])
    once, throughout = found.trace(STEP_PAIR[1]), found.trace(F32_PAIR[1])
    for quantity in compare.INITIAL:
        for entry in once.select(0, quantity):
            a, b = throughout.find(0, quantity, entry.tensor), once.of(entry)
            ulps = compare.ulps(a, b, entry.dtype)
            differ = np.flatnonzero(a.view(np.int64) != b.view(np.int64))
            name = entry.tensor
            table.add(name, "elements_that_differ", len(differ), evidence)
            table.add(name, "elements", entry.count, evidence)
            if len(differ) == 0:
                continue
            table.add(name, "min_ulps", int(ulps[differ].min()), evidence)
            table.add(name, "max_ulps", int(ulps[differ].max()), evidence)
            for i in differ:
                element = f"{name}[{i}]"
                table.add(element, "computed_in_f32", float(a[i]), evidence)
                table.add(element, "computed_in_f64_rounded_once", float(b[i]), evidence)
                table.add(element, "ulps", int(ulps[i]), evidence)
    comparison, evidence = found.comparison(F32_PAIR)
    for row in comparison.rows:
        name = compare.page_name(row, last_step=1)
        table.difference(name, "max_abs_diff", row.max_abs, evidence)
    add_verdict(table, comparison, evidence, exit_code=False)
    return table


def moves(found: Sources) -> Table:
    """Keys of burn's gradients, and what aliases, clones and identities do across a step."""
    table = Table("moves", wide=False)
    burn, evidence = found.evidence("moves/burn")
    step = burn["step"]
    table.add("burn GradientsParams", "len", step["gradients_len"], evidence)
    for key in step["keys"]:
        some = _rust(key["is_some"])
        table.add(f"burn {key['name']}", f"get::<{key['rank']}> is_some", some, evidence)
    table.add("burn fc2.bias", "get::<1>", step["fc2.bias.grad"], evidence)
    table.add("burn fc2.bias", "before", step["before"], evidence)
    table.add("burn fc2.bias", "after step", step["after"], evidence)
    table.add(
        "burn clone taken before step",
        "value after step equals value before",
        _rust(step["clone_equals_before"]),
        evidence,
    )
    shares = _rust(step["clone_shares_ids"])
    table.add("burn clone taken before step", "shares ParamId", shares, evidence)
    table.add("burn fc2.bias", "ParamId unchanged", _rust(step["id_unchanged"]), evidence)
    table.add("burn fc2.weight", "still require_grad", _rust(step["require_grad"]), evidence)
    ids_differ = _rust(burn["ids_differ_between_runs"])
    table.add("burn ParamId", "differs between two runs", ids_differ, evidence)

    pytorch, evidence = found.evidence("moves/pytorch")
    step = pytorch["step"]
    table.add("pytorch fc2.bias", "grad", step["gradient"], evidence)
    table.add("pytorch fc2.bias", "before", step["before"], evidence)
    table.add("pytorch fc2.bias", "after step", step["after"], evidence)
    alias, clone = "pytorch alias taken before step", "pytorch clone taken before step"
    table.add(alias, "value after step", step["alias_after"], evidence)
    table.add(clone, "value after step", step["clone_after"], evidence)
    table.add("pytorch fc2.bias", "same object", step["same_object"], evidence)
    table.add("pytorch fc2.bias", "same buffer", step["same_buffer"], evidence)
    return table


def wrong_model(found: Sources) -> Table:
    """What a step does when gradients and parameters belong to different models."""
    table = Table("wrong-model", wide=False)
    pytorch, evidence = found.evidence("moves/pytorch")
    wrong = pytorch["wrong_model"]
    table.add("pytorch other fc2.bias", "changed by opt.step()", wrong["changed"], evidence)
    table.add("pytorch model params", "have grad", wrong["have_grad"], evidence)
    burn, evidence = found.evidence("moves/burn")
    wrong = burn["wrong_model"]
    table.add("burn from_grads(.., &other)", "len", wrong["gradients_len"], evidence)
    table.add("burn other fc2.bias", "changed by step", _rust(wrong["changed"]), evidence)
    return table


def noassign(found: Sources) -> Table:
    """What the compiler says where the result of a step is not assigned."""
    table = Table("noassign", wide=False)
    error, evidence = found.evidence("noassign")
    table.add("rustc", "error code", error["code"], evidence)
    table.add("rustc", "message", error["message"], evidence)
    labels = " | ".join(label["text"] for label in error["labels"])
    table.add("rustc", "labels", labels, evidence)
    lines = " | ".join(f"{label['line']}: {label['source']}" for label in error["labels"])
    table.add("rustc", "lines", lines, evidence)
    table.add("rustc", "help", error["help"], evidence)
    table.add("rustc", "suggested insertion", error["insertion"], evidence)
    return table


def discard(found: Sources) -> Table:
    """That a dropped step compiles without a warning and leaves the loss as it was."""
    table = Table("discard", wide=False)
    discarded, evidence = found.evidence("discard")
    table.add("cargo", "warnings", discarded["warnings"], evidence)
    table.add("burn", "loss before", discarded["loss_before"], evidence)
    table.add("burn", "loss after", discarded["loss_after"], evidence)
    table.add("burn", "loss before equals loss after", _rust(discarded["equal"]), evidence)
    probe, evidence = found.evidence("must-use")
    marked = _rust(probe["probe_warns"])
    table.add("burn ModuleOptimizer::step", "must_use", marked, evidence)
    control = _rust(probe["control_warns"])
    table.add("control marked #[must_use]", "warns when dropped", control, evidence)
    return table


def _rust(value: bool) -> str:
    """As Rust prints it."""
    return str(value).lower()


TABLES: dict[str, Callable[[Sources], Table]] = {
    "train-step": train_step,
    "f32-inputs": f32_inputs,
    "moves": moves,
    "wrong-model": wrong_model,
    "noassign": noassign,
    "discard": discard,
}
