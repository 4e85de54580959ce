import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitb import compare, trace
from pitb.compare import EXIT_CODES, MISMATCH, OK, NotComparable

TOLERANCE = 1e-6
F32 = st.floats(width=32, allow_nan=False, allow_infinity=False)


def made(
    param=(1.0, 2.0), loss=0.5, start=(1.0, 1.0), run="pytorch/x", error=None, extra=(), shape=None
):
    recorder = trace.Recorder()
    recorder.add(0, "input", [0.25], "float32", "x")
    recorder.add(0, "param", start, "float32", "w")
    recorder.add(1, "loss", loss, "float32")
    recorder.add(1, "param", np.reshape(param, shape or np.shape(param)), "float32", "w")
    for entry in extra:
        recorder.add(*entry)
    metadata = {"schema": trace.SCHEMA_VERSION, "run": run}
    return recorder.trace(metadata | ({"error": error} if error else {}))


def compared(a, b, quantities=("loss", "param"), **options):
    return compare.compare(a, b, TOLERANCE, quantities, **options)


@pytest.mark.parametrize(
    ("changes", "verdict", "worst"),
    [
        ({}, OK, 0.0),
        ({"param": (1.0, 2.0 + 5e-7)}, OK, 5e-7),
        ({"param": (1.0, 2.0 + 2e-6)}, MISMATCH, 2e-6),
        # One bad value among good ones: the verdict rests on no mean.
        ({"loss": 0.6}, MISMATCH, 0.1),
        ({"param": (math.inf, 2.0)}, MISMATCH, math.inf),
    ],
)
def test_the_worst_value_decides(changes, verdict, worst):
    comparison = compared(made(), made(**changes))
    assert comparison.verdict == verdict
    assert comparison.worst == pytest.approx(worst, rel=1e-6)
    assert comparison.exit_code == EXIT_CODES[verdict]


def test_a_row_says_where_the_worst_value_is():
    comparison = compared(made(), made(param=(1.0, 2.5)))
    (row,) = comparison.at(1, "param", "w")
    assert (row.n, row.worst_index, row.a, row.b) == (2, 1, 2.0, 2.5)
    assert row.relative == 0.2
    assert row.rmse == pytest.approx(math.sqrt(0.125))
    assert row.max_ulp == 0.5 / 2**-22


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_on_both_sides_is_never_ok(value):
    both = made(param=(value, 2.0))
    assert compared(both, both).verdict == MISMATCH


@pytest.mark.parametrize(
    ("a", "b", "sentence"),
    [
        (
            {},
            {"param": (math.nan, 2.0)},
            r"param of w at step 1\[0\] is NaN on one side only: 1 vs nan",
        ),
        ({"loss": math.nan}, {}, r"loss at step 1\[0\] is NaN on one side only"),
        ({}, {"param": (1.0, 2.0, 3.0)}, r"has shape \(2,\) in pytorch/x and \(3,\)"),
        ({"shape": (1, 2)}, {}, r"has shape \(1, 2\)"),
        ({}, {"error": "it broke"}, "ended early: it broke"),
        ({}, {"extra": [(2, "loss", 0.1, "float32")]}, "has no loss at step 2"),
        ({"extra": [(1, "param", 0.1, "float32", "v")]}, {}, "has no param of v at step 1"),
        ({}, {"start": (1.0, 1.5)}, r"initial state differs: w\[1\] 1.0 vs 1.5"),
        ({}, {"start": (1.0, 1.0, 1.0)}, r"initial state differs: w has shape \(2,\) vs \(3,\)"),
        (
            {"start": (0.0, 1.0)},
            {"start": (-0.0, 1.0)},
            r"initial state differs: w\[0\] 0.0 vs -0.0",
        ),
        ({"extra": [(0, "param", 1.0, "float32", "v")]}, {}, "has no param v"),
    ],
)
def test_what_cannot_be_compared_is_named(a, b, sentence):
    with pytest.raises(NotComparable, match=sentence):
        compared(made(**a), made(**b))


def test_a_quantity_that_neither_has_is_named_with_the_nearest():
    with pytest.raises(NotComparable, match="'parm'; nearest: 'param'"):
        compared(made(), made(), ["parm"])


def test_the_preflight_is_waived_by_declaration_alone():
    a, b = made(), made(start=(1.0, 1.5))
    comparison = compared(a, b, initial_state_may_differ="shown on purpose")
    assert comparison.verdict == OK
    assert comparison.initial_state["status"] == compare.EXEMPT
    assert "w[1]" in comparison.initial_state["difference"]


def test_every_tensor_is_counted_once():
    a = made(extra=[(1, "state.a", 1.0, "float32", "w"), (1, "lr", 0.1, "float64")])
    b = made(extra=[(1, "state.b", 1.0, "float32", "w"), (1, "lr", 0.1, "float64")], run="burn/x")
    comparison = compared(a, b)
    assert comparison.counts() == {
        OK: 2,
        MISMATCH: 0,
        "initial state": 2,
        "not asked for": 1,
        "only in burn/x": 1,
        "only in pytorch/x": 1,
    }
    comparison.total += 1
    with pytest.raises(AssertionError, match="do not add up"):
        comparison.counts()


@pytest.mark.parametrize(
    ("a", "b", "dtype", "distance"),
    [
        (1.0, 1.0, "float32", 0),
        (1.0, 1.0 + 2**-23, "float32", 1),
        (0.0, -0.0, "float32", 0),
        (-(2.0**-149), 2.0**-149, "float32", 2),
        (1.0, 1.0 + 2**-52, "float64", 1),
        (-5e-324, 5e-324, "float64", 2),
        (math.nan, 1.0, "float32", math.inf),
        (-1.7976931348623157e308, 1.7976931348623157e308, "float64", 2 * 0x7FEFFFFFFFFFFFFF),
    ],
)
def test_ulps_count_the_floats_between(a, b, dtype, distance):
    assert compare.ulps(np.array([a]), np.array([b]), dtype)[0] == distance


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(0,), (6,), (1, 6), (6, 1), (2, 3), (3, 2, 1), (0, 4)])
def test_ulps_are_those_of_arrays_of_any_shape(dtype, shape):
    a = np.resize([1.0, -2.0, 0.0, np.nan, 3e-39, 7.5], shape)
    b = np.resize([1.0, 2.0, -0.0, 1.0, 5e-39, 7.25], shape)
    each = [compare.ulps(a[at][None], b[at][None], dtype)[0] for at in np.ndindex(*shape)]
    found = compare.ulps(a, b, dtype)
    assert found.shape == shape
    assert found.reshape(-1).tolist() == each


@given(F32, F32, F32)
def test_ulps_are_a_distance(a, b, c):
    def d(x, y):
        return compare.ulps(np.array([x]), np.array([y]), "float32")[0]

    assert d(a, b) == d(b, a)
    assert (d(a, b) == 0) == (a == b)
    assert d(a, c) <= d(a, b) + d(b, c)
    step = float(np.nextafter(np.float32(a), np.float32(np.inf)))
    assert math.isinf(step) or d(a, step) == 1 or a == step == 0


@given(st.lists(F32, min_size=1, max_size=8), st.lists(F32, min_size=1, max_size=8))
def test_the_verdict_is_that_of_the_largest_difference(a, b):
    size = min(len(a), len(b))
    a, b = a[:size], b[:size]
    comparison = compared(made(param=a), made(param=b))
    largest = max(abs(x - y) for x, y in zip(a, b, strict=True))
    assert comparison.worst == largest
    assert (comparison.verdict == OK) == (largest <= TOLERANCE)
    (row,) = comparison.at(1, "param")
    assert abs(row.a - row.b) == largest


def test_a_comparison_is_read_back(tmp_path):
    for comparison in (
        compared(made(), made(param=(1.0, 2.5))),
        compare.Comparison("a", "b", 1.0, ["param"], error="no"),
    ):
        path = tmp_path / "c.parquet"
        compare.write(comparison, path)
        assert compare.read(path) == comparison


# -- the command ------------------------------------------------------------------------------


def command(root, *arguments):
    ended = subprocess.run(
        [sys.executable, root / "scripts/compare.py", *arguments], capture_output=True, text=True
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stdout, ended.stderr


def test_the_command_prints_the_pages_table(root, tmp_path):
    a = {"logits": [[1.0, 2.0]], "loss": 1.0, "grads": {"w": [1.0]}, "loss_after": 0.5}
    b = {**a, "loss": 1.0 + 1.1920928955078125e-07}
    for name, value in (("a", a), ("b", b)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    code, printed, _ = command(root, tmp_path / "a.json", tmp_path / "b.json")
    assert code == 0
    assert printed.splitlines() == [
        "logits      n=  2  max|diff|=0.00e+00",
        "loss        n=  1  max|diff|=1.19e-07",
        "grads.w     n=  1  max|diff|=0.00e+00",
        "loss_after  n=  1  max|diff|=0.00e+00",
        "worst=1.19e-07 tol=1e-06 OK",
    ]
    code, printed, _ = command(root, tmp_path / "a.json", tmp_path / "b.json", "--tol", "1e-8")
    assert code == 1
    assert printed.endswith("worst=1.19e-07 tol=1e-08 MISMATCH\n")


GOOD = '{"loss": 1.0, "w": [1.0, 2.0]}'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"loss": 1.0}', "has no w"),
        ('{"loss": 1.0, "w": [1.0]}', "shape"),
        ('{"loss": NaN, "w": [1.0, 2.0]}', "NaN on one side only"),
        ('{"loss": null, "w": [1.0, 2.0]}', "not a number"),
        ('{"loss": "1", "w": [1.0, 2.0]}', "not a number"),
        ('{"loss": 1.0, "w": [1.0, [2.0]]}', "differ in length"),
        ('{"loss": 1.0, "w": [1.0, true]}', "not a number"),
        ('{"loss": 1.0, "w": [1.0, 2.0', "not valid JSON"),
        ("[" * 100_000, "nested too deeply|not valid JSON"),
        ("", "not valid JSON"),
        ("{}", "has no loss"),
        ('{"loss": "nan", "w": [1.0, 2.0]}', "NaN on one side only"),
    ],
)
def test_what_the_command_cannot_compare_is_exit_code_2(root, tmp_path, text, sentence):
    (tmp_path / "a.json").write_text(GOOD)
    (tmp_path / "b.json").write_text(text)
    code, _, error = command(root, tmp_path / "a.json", tmp_path / "b.json")
    assert code == 2
    assert re.search(sentence, error)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a.b": 1, "a": {"b": 2}}', "two values are called a.b"),
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
        ('{"a": 9007199254740993}', "not a number"),
        (f'{{"a": {"9" * 5000}}}', "not usable JSON"),
        ('{"\\ud800": "x"}', "not a number"),
    ],
)
def test_json_that_could_mean_two_things_is_refused(root, tmp_path, text, sentence):
    (tmp_path / "a.json").write_text(text)
    code, printed, error = command(root, tmp_path / "a.json", tmp_path / "a.json")
    assert (code, printed) == (2, "")
    assert sentence in error


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs a device that is full")
def test_a_full_output_is_exit_code_2(root, tmp_path):
    (tmp_path / "a.json").write_text(GOOD)
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, root / "scripts/compare.py", tmp_path / "a.json", tmp_path / "a.json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ended.returncode == 2
    assert ended.stderr == "error: No space left on device\n"


@pytest.mark.parametrize("text", ["{}", "[]", '{"w": []}'])
def test_nothing_compared_is_not_ok(root, tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    code, printed, error = command(root, tmp_path / "a.json", tmp_path / "a.json")
    assert (code, printed) == (2, "")
    assert "no value to compare" in error


def test_what_json_has_no_number_for_is_text(root, tmp_path):
    (tmp_path / "a.json").write_text('{"loss": "inf", "w": [1.0, 2.0]}')
    code, printed, _ = command(root, tmp_path / "a.json", tmp_path / "a.json")
    assert code == 1
    assert printed.endswith("worst=inf tol=1e-06 MISMATCH\n")


def test_comparisons_are_counted_by_verdict():
    found = [compared(made(), made()), compared(made(), made(loss=1.0))]
    found.append(compare.Comparison("a", "b", 1.0, [], error="no"))
    assert compare.summary(found) == "comparisons: 3: 1 OK, 1 MISMATCH, 1 error"


def test_a_missing_file_and_a_mixed_pair_are_exit_code_2(root, tmp_path):
    (tmp_path / "a.json").write_text(GOOD)
    code, _, error = command(root, tmp_path / "a.json", tmp_path / "b.json")
    assert (code, "b.json does not exist" in error) == (2, True)
    trace.write(made(), tmp_path / "t.parquet")
    code, _, error = command(root, tmp_path / "a.json", tmp_path / "t.parquet")
    assert (code, "not of one kind" in error) == (2, True)
    code, _, error = command(root, tmp_path / "a.json", tmp_path / "a.json", "--tol", "nan")
    assert (code, "not a number of 0 or more" in error) == (2, True)


def test_traces_of_many_steps_are_shown_step_by_step(root, tmp_path):
    steps = [(2, "loss", 0.4, "float32"), (2, "param", (0.5, 0.5), "float32", "w")]
    trace.write(made(extra=steps), tmp_path / "a.parquet")
    steps = [(2, "loss", 0.45, "float32"), (2, "param", (0.5, 0.75), "float32", "w")]
    trace.write(made(extra=steps, run="burn/x"), tmp_path / "b.parquet")
    code, printed, _ = command(root, tmp_path / "a.parquet", tmp_path / "b.parquet")
    assert code == 1
    assert printed.splitlines() == [
        "step     loss_pt   loss_burn   |dloss|  max|dparam|",
        "   1  0.50000000  0.50000000  0.00e+00     0.00e+00",
        "   2  0.40000000  0.45000000  5.00e-02     2.50e-01",
        "worst=2.50e-01 tol=1e-06 MISMATCH",
    ]
