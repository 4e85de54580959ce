import math

import numpy as np
import pytest

from explaining import explained
from pitb import trace
from pitb.explain import report
from pitb.explain.divergence import divergence, rule

STAGES = {
    "loss": ("loss", ""),
    "gradient": ("grad", "w"),
    "clipped gradient": ("clipped_grad", "w"),
    "state": ("state.buffer", "w"),
    "parameter": ("param", "w"),
}


def made(run="pytorch/x", steps=3, changes=(), left_out=(), shape=(3,), dtype="float32"):
    """A trace of one tensor; ``changes`` sets elements: (step, quantity, tensor, index, value)."""
    recorder = trace.Recorder()
    recorder.add(0, "input", [0.5], dtype, "x")
    recorder.add(0, "param", np.full(shape, 1.0), dtype, "w")
    for step in range(1, steps + 1):
        recorder.add(step, "loss", 2.0, dtype)
        for quantity in ("grad", "clipped_grad", "param", "state.buffer"):
            value = np.full(shape, 1.0 + step)
            recorder.add(step, quantity, value, dtype, "w")
    recorder.add(steps + 1, "loss", 2.0, dtype)
    found = recorder.trace({"run": run})
    for step, quantity, tensor, index, value in changes:
        found.find(step, quantity, tensor)[index] = value
    kept = [e for e in found.entries if e.key not in left_out and e.quantity not in left_out]
    return trace.Trace(kept, found.values, found.metadata)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("step", [1, 3])
def test_the_first_difference_is_found_at_each_stage(stage, step):
    quantity, tensor = STAGES[stage]
    index = 0 if tensor == "" else 2
    b = made("burn/x", changes=[(step, quantity, tensor, index, 7.5)])
    found = divergence(made(), b)
    first = found.first
    assert first is not None
    assert (first.step, first.stage, first.quantity) == (step, stage, quantity)
    assert (first.tensor, first.index, first.b) == (tensor, index, 7.5)
    assert first.a == (2.0 if tensor == "" else 1.0 + step)
    assert found.by_stage == {stage: first}
    assert found.first_bit == first
    assert found.missing == ()


def test_an_update_is_read_in_the_order_in_which_it_is_computed():
    # The trace has the parameter before the state, which comes first.
    changes = [(2, quantity, tensor, 0, 9.0) for quantity, tensor in reversed(STAGES.values())]
    found = divergence(made(), made("burn/x", changes=changes))
    assert list(found.by_stage) == list(STAGES)
    assert found.first.stage == "loss"
    earlier = [*changes, (1, "param", "w", 1, 9.0)]
    found = divergence(made(), made("burn/x", changes=earlier))
    assert (found.first.step, found.first.stage) == (1, "parameter")
    # Of each stage the first: that of the parameter is now at step 1.
    assert {stage: e.step for stage, e in found.by_stage.items()} == {
        "parameter": 1,
        "loss": 2,
        "gradient": 2,
        "clipped gradient": 2,
        "state": 2,
    }


@pytest.mark.parametrize(("dtype", "by", "ulp"), [("float32", 2**-22, 1), ("float64", 2**-51, 1)])
def test_one_bit_is_no_difference_beyond_roundings(dtype, by, ulp):
    b = made("burn/x", changes=[(1, "param", "w", 1, 2.0 + by)], dtype=dtype)
    found = divergence(made(dtype=dtype), b)
    assert found.first is None
    assert (found.first_bit.index, found.first_bit.ulp) == (1, ulp)
    # Control: more than the law gives is one.
    far = made("burn/x", changes=[(1, "param", "w", 1, 2.0 + 5000 * by)], dtype=dtype)
    narrow = divergence(made(dtype=dtype), far)
    assert (narrow.first is not None) == (dtype == "float32" or 5000 * by > 2e-12)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_on_one_side_is_a_difference(value):
    change = [(2, "grad", "w", 1, value)]
    found = divergence(made(), made("burn/x", changes=change))
    assert (found.first.step, found.first.stage, found.first.index) == (2, "gradient", 1)
    assert found.first.difference == math.inf
    assert math.isinf(found.first.ulp) == math.isnan(value)
    both = divergence(made(changes=change), made("burn/x", changes=change))
    assert both.first is both.first_bit is None


def test_a_nan_does_not_hide_another_difference():
    nan = (1, "param", "w", 0, math.nan)
    found = divergence(
        made(changes=[nan]), made("burn/x", changes=[nan, (1, "param", "w", 2, 5.0)])
    )
    assert (found.first.index, found.first.b) == (2, 5.0)


def test_the_start_is_compared_bit_by_bit():
    found = divergence(made(), made("burn/x", changes=[(0, "input", "x", 0, 0.5 + 2**-24)]))
    assert (found.first.step, found.first.stage, found.first.ulp) == (0, "initial state", 1)
    assert found.rule == "apart"


def test_traces_that_are_the_same():
    found = divergence(made(), made("burn/x"))
    assert (found.first, found.first_bit, found.by_stage, found.missing) == (None, None, {}, ())
    assert found.rule == "none"


@pytest.mark.parametrize(
    ("left_out", "sentence"),
    [
        (["grad"], "burn/x has no grad of w at steps 1 to 3"),
        ([(2, "param", "w")], "burn/x has no param of w at step 2"),
        (["state.buffer"], "burn/x has no state.buffer"),
        ([(4, "loss", "")], "burn/x has no loss at step 4"),
    ],
)
def test_what_is_missing_is_a_sentence(left_out, sentence):
    b = made("burn/x", left_out=left_out, changes=[(3, "loss", "", 0, 9.0)])
    found = divergence(made(), b)
    assert found.missing == (sentence,)
    assert found.first.stage == "loss"  # the rest is compared
    other = divergence(b, made())
    assert other.missing == (sentence,)


def test_many_missing_tensors_are_counted():
    a, b = trace.Recorder(), trace.Recorder()
    for i in range(20):
        a.add(1, "param", [1.0], "float32", f"w{i}")
    b.add(1, "loss", 1.0, "float32")
    found = divergence(a.trace({"run": "a"}), b.trace({"run": "b"}))
    assert found.missing[0] == "b has no param of w0, w1, w2, w3, w4, w5 and 14 more at step 1"


def test_other_shapes_are_sentences():
    found = divergence(made(), made("burn/x", shape=(3, 1)))
    assert (
        found.missing[0] == "param of w at step 0 has shape (3,) in pytorch/x and (3, 1) in burn/x"
    )
    assert len(found.missing) == 4
    assert found.missing[-1] == "10 more tensors have other shapes"
    assert found.first is None


@pytest.mark.parametrize(
    ("step", "expected"),
    [(None, "none"), (0, "apart"), (1, "first"), (2, "second"), (3, "later"), (99, "later")],
)
def test_the_rule_of_thumb(step, expected):
    assert rule(step) == expected


RULE = [
    ("pytorch:Adam lr=0.01", "pytorch:Adam lr=0.01 eps=1e-3", "epsilon", "eps"),
    ("pytorch:AdamW lr=0.01", "pytorch:AdamW lr=0.01 weight_decay=0.2", "decay", "weight_decay"),
    (
        "pytorch:SGD lr=1",
        "pytorch:SGD lr=1 clip={scope: global, max_norm: 0.1}",
        "clipping",
        "clip",
    ),
    ("pytorch:SGD lr=0.1", "pytorch:SGD lr=0.1 momentum=0.9", "momentum", "momentum"),
    (
        "pytorch:SGD lr=0.1 momentum=0.9",
        "pytorch:SGD lr=0.1 momentum=0.9 dampening=0.1",
        "dampening",
        "dampening",
    ),
]


@pytest.mark.parametrize(("a", "b", "word", "item"), RULE)
def test_the_rule_of_thumb_holds_for_what_it_names(a, b, word, item):
    """At step 1 epsilon, decay and clipping; at step 2 momentum, dampening."""
    found = explained(a, b)
    assert found.divergence.rule == ("second" if word in ("momentum", "dampening") else "first")
    text = report.markdown(found)
    (said,) = [line for line in text.splitlines() if line.startswith("The pages' rule of thumb")]
    assert word in said
    assert f"Broken alone, `{item}` changes the parameters at that step." in text


def test_the_rule_of_thumb_does_not_reach_a_schedule():
    rates = ", ".join(["0.1"] * 4 + ["0.05"] * 6)
    found = explained("pytorch:SGD lr=0.1", f"pytorch:SGD lr=0.1 rates=[{rates}]")
    assert (found.divergence.rule, found.divergence.parameter_step) == ("later", 5)
