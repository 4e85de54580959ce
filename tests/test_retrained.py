"""Traces trained again, as `pitb verify` does: those of the breadth, which no bundle holds."""

import json
from dataclasses import replace

import pytest

from conftest import ROOT
from pitb import trace
from pitb.bundle import retrained
from pitb.explain.configurations import configuration
from pitb.explain.sources import KEPT

SLICE = ROOT / "results/breadth-slice"
CASES = {
    # Roundings decide how often it evaluates, and with it what it keeps.
    "lbfgs": ("max-eval_rosenbrock_f32", "history_embedding_f64", "fast_tall_f32", "fast_tied_f64"),
    "adam": ("default_a1_f32", "default_embedding_f64"),
}
PAIRS = [(key, f"{key}_{case}", side) for key, cases in CASES.items() for case in cases
         for side in ("pytorch", "burn")]  # fmt: skip


def recorded(key, name, side):
    case = json.loads((SLICE / f"plans/{key}.json").read_text())["cases"][name]["case"]
    found = trace.read(SLICE / f"traces/{key}/{side}/{name}.parquet")
    given = {k: v for k, v in found.configuration.items() if k not in (*KEPT, "initial_state")}
    spec = {"side": side, **given, "problem": case["problem"], "dtype": found.metadata["dtype"]}
    return found, configuration(spec, name)


@pytest.mark.parametrize(("key", "name", "side"), PAIRS)
def test_the_reference_follows_what_was_recorded(key, name, side):
    found, side = recorded(key, name, side)
    assert retrained.follows(found, side).faults == []


@pytest.mark.parametrize(("key", "name", "side"), PAIRS)
def test_and_finds_a_parameter_that_was_changed(key, name, side):
    found, side = recorded(key, name, side)
    entry = next(e for e in found.entries if (e.step, e.quantity) == (1, "param"))
    values = found.values.copy()
    values[entry.first_row] += 0.5
    (fault,) = retrained.follows(replace(found, values=values), side).faults
    assert fault[0] == f"{entry.where}[0]"
