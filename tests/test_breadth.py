import json
import math
import re
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitb import trace
from pitb.breadth import laws, records, report, runs, sheets
from pitb.breadth.cases import DTYPES, LONG, REPORTED, SETS, STEPS, Case, _case, cases
from pitb.breadth.explain import UNEXPLAINED, explain
from pitb.breadth.judge import (
    PAIRS,
    SIDES,
    Judge,
    Outcome,
    Pair,
    first_nonfinite,
    judge,
    movement,
    response,
)
from pitb.breadth.laws import LAWS, law
from pitb.breadth.mutants import Hunt
from pitb.breadth.phases import IMPOSSIBLE, phases, trace_path
from pitb.compare import ERROR, MISMATCH, OK
from pitb.errors import PitbError
from pitb.files import read_json, write_json
from pitb.labels import LANGUAGES, SHEETS
from pitb.reference.training import train
from pitb.registry import by_pytorch_name, optimizers

NAME = re.compile(r"[A-Za-z0-9_-]+")


@pytest.fixture(scope="module")
def burn(programs):
    printed = subprocess.run([programs / "optdef", "--defaults"], capture_output=True).stdout
    return json.loads(printed)


@pytest.fixture(scope="module")
def planned(burn):
    """Plans cases."""
    import torch

    torch.set_num_threads(1)
    from pitb.breadth.plan import plan

    return lambda found: plan(found, burn)


# Cases


@pytest.mark.torch
def test_names_are_unique_and_fit_for_files(burn):
    from pitb.breadth.scope import all_cases, by_optimizer, slice_cases

    found = list(all_cases(burn))
    by_name = {case.name: case for case in found}
    assert len(by_name) == len(found)
    assert all(NAME.fullmatch(name) for name in by_name)
    for case in found:
        # Another ending of the name is not taken for a dtype or a number of steps.
        assert case.name.startswith(f"{case.entry.key}_{case.set}_{case.problem}_f")
        if case.twin:
            twin = by_name[case.twin]
            aside = {"set": "", "suite": "", "resume_step": 0, "observe": True}
            assert replace(case, **aside) == replace(twin, **aside)
            assert twin.observe and not twin.resume_step
    assert sum(bool(case.twin) for case in found) > 50
    sliced = list(slice_cases(burn))
    assert {case.name for case in sliced} < by_name.keys()
    assert {(c.optimizer, c.suite, c.set) for c in sliced} == {
        (c.optimizer, c.suite, c.set) for c in found
    }
    assert sum(map(len, by_optimizer(burn, True).values())) == len(sliced)


def test_every_optimizer_and_option_set_is_tried_in_both_precisions():
    found = list(cases())
    assert SETS.keys() == {entry.pytorch for entry in optimizers()}
    for name, sets in SETS.items():
        assert len({chosen.name for chosen in sets}) == len(sets)
        for chosen in sets:
            mine = [case for case in found if (case.optimizer, case.set) == (name, chosen.name)]
            assert {case.dtype for case in mine} == set(chosen.dtypes)
            assert any(case.steps == LONG for case in mine) == chosen.long
            assert all(case.options == chosen.options for case in mine)


def test_no_case_hands_its_options_to_another():
    first, second = (_case(by_pytorch_name("SGD"), SETS["SGD"][1], "a1", d, 10) for d in DTYPES)
    first.options["momentum"] = 0.1
    assert second.options == SETS["SGD"][1].options == {"momentum": 0.9}


@pytest.mark.parametrize(
    ("changes", "twin"),
    [
        ({}, ""),
        ({"set": "resumed-max-iter", "resume_step": 5}, "sgd_max-iter_a1_f64"),
        ({"set": "unobserved-plain", "observe": False}, "sgd_plain_a1_f64"),
    ],
)
def test_the_twin_of_a_case(changes, twin):
    assert case(**changes).twin == twin


@pytest.mark.parametrize(
    ("burn_clip", "way", "expected"),
    [
        (None, "builder", None),
        ({"Norm": 0.1}, "builder", {"scope": "per-parameter", "max_norm": 0.1}),
        ({"Value": 0.1}, "group", {"scope": "value", "clip_value": 0.1}),
        ({"Value": 0.1}, "late", {"scope": "value", "clip_value": 0.1, "first_step": 2}),
    ],
)
def test_what_burn_clips_by_itself_is_clipped_by_pytorchs_loop(burn_clip, way, expected):
    assert case(burn_clip=burn_clip, clipping_by=way).own_clip == expected


# Laws


@given(st.sampled_from(LAWS), st.integers(0, LONG))
def test_a_tolerance_is_a_line(limit, step):
    assert limit.tolerance(step) == pytest.approx(limit.base * (1 + limit.slope * step))
    assert limit.tolerance(step + 1) - limit.tolerance(step) == pytest.approx(
        limit.base * limit.slope, rel=1e-9, abs=1e-17
    )


@given(
    st.sampled_from(LAWS),
    st.lists(st.floats(0, 1) | st.sampled_from([math.inf, math.nan]), min_size=1, max_size=12),
    st.integers(0, 11),
)
def test_a_sensitive_law_takes_the_largest_response_so_far(limit, responses, step):
    found = limit.tolerance(step, responses)
    line = limit.tolerance(step)
    if not limit.sensitivity:
        assert found == line
        return
    seen = [x for i, x in enumerate(responses) if i <= step and math.isfinite(x)]
    assert found == max([line, *(limit.sensitivity * x for x in seen)])
    assert found >= limit.tolerance(step, responses[: step + 1]) >= line


def test_laws_have_names_reasons_and_json():
    assert len({limit.name for limit in LAWS}) == len(LAWS)
    for limit in LAWS:
        assert limit.json()["law"] == limit.name
        assert limit.json()["reason"]
        assert ("response" in limit.json()["growth"]) == bool(limit.sensitivity)
        assert bool(limit.nudge) == bool(limit.sensitivity)


@pytest.mark.parametrize(
    ("changes", "pair", "name"),
    [
        ({}, "pytorch--reference", "float64"),
        ({}, "pytorch--burn", "float64"),
        ({"dtype": "float32"}, "burn--reference", "float32"),
        ({"dtype": "float32"}, "pytorch--burn", "float32"),
        ({"dtype": "float32", "optimizer": "Adam"}, "pytorch--burn", "scalars"),
        ({"dtype": "float32", "optimizer": "RMSprop"}, "pytorch--burn", "scalars"),
        ({"dtype": "float32", "optimizer": "Adan"}, "burn--reference", "float32-difference"),
        ({"problem": "rosenbrock"}, "burn--reference", "float64-sensitive"),
        ({"problem": "rosenbrock"}, "pytorch--burn", "float64-sensitive"),
        ({"steps": LONG}, "pytorch--reference", "float64-sensitive"),
        ({"steps": LONG, "problem": "gradients"}, "pytorch--reference", "float64"),
        ({"optimizer": "Muon"}, "pytorch--reference", "bfloat16"),
        ({"optimizer": "Muon"}, "pytorch--burn", "bfloat16-across"),
        ({"optimizer": "Muon"}, "burn--reference", "float64"),
        ({"optimizer": "LBFGS", "dtype": "float32"}, "pytorch--burn", "float32-branches"),
        ({"optimizer": "LBFGS"}, "pytorch--burn", "float64-branches"),
    ],
)
def test_which_law_a_case_is_under(changes, pair, name):
    assert law(case(**changes), pair).name == name


@pytest.mark.parametrize("name", ["float64-sensitive", "float32-branches"])
def test_the_response_to_a_nudge_is_small_and_begins_with_it(name):
    limit = next(found for found in LAWS if found.name == name)
    from test_reference import run

    plain = run("SGD", "rosenbrock", lr=1e-4, options={"momentum": 0.9})
    found = response(plain, train(plain), limit)
    assert set(found) == ({"param", "state"} if limit.nudges > 1 else {"param"})
    for values in found.values():
        assert len(values) == plain.steps + 1
        assert max(values) < 1e6 * limit.nudge
    assert 0 < found["param"][0] < 2 * limit.nudge * (1 + limit.narrow)


# Judging


def case(**changes):
    return Case(**{**asdict(Case("SGD", "plain", "a1", "float64", 0.1)), **changes})


def made(change=None, steps=STEPS, losses=True, error=None, run="a/x"):
    """A trace of two parameters that grow; ``change`` maps (step, quantity, tensor) to values."""
    change, recorder = change or {}, trace.Recorder()
    for step in range(steps + 2):
        entries = {("loss", ""): [1.0 / (step + 1)]} if losses and step else {}
        if step <= steps:
            entries[("param", "w")] = np.array([1.0, -2.0, 4.0]) * (1 + step)
            entries[("param", "b")] = np.array([0.5, 0.25])
            entries[("state.sum", "w")] = np.array([1.0, 1.0, 1.0]) * step
        for (quantity, tensor), values in entries.items():
            values = change.get((step, quantity, tensor), values)
            if values is not None:
                recorder.add(step, quantity, values, "float64", tensor)
    metadata = {"schema": trace.SCHEMA_VERSION, "run": run}
    return recorder.trace(metadata | ({"error": error} if error else {}))


LIMIT = next(found for found in LAWS if found.name == "float64")


def judged(a, b, limit=LIMIT, responses=(), **changes):
    return judge(case(**changes), "pytorch--reference", a, b, limit, {"param": responses})


def test_equal_traces_are_ok_at_every_reported_step():
    outcome = judged(made(), made())
    assert (outcome.verdict, outcome.reason) == (OK, "")
    expected = {(s, q) for s in (1, 2, 10) for q in ("param", "loss", "state")} | {(11, "loss")}
    assert {(row.step, row.quantity) for row in outcome.rows} == expected
    assert all(row.needed == row.max_abs == 0 and row.verdict == OK for row in outcome.rows)
    assert outcome.nonfinite == (-1, -1)


@given(
    step=st.sampled_from([1, 2, 10]),
    where=st.sampled_from([("param", "w", 2), ("param", "b", 0), ("state.sum", "w", 1)]),
    factor=st.sampled_from([0.4, -0.4, 2.0, -2.0]),
    name=st.sampled_from(["float64", "float32", "bfloat16"]),
    swap=st.booleans(),
)
def test_one_value_that_is_off_by_more_than_the_tolerance(step, where, factor, name, swap):
    limit = next(found for found in LAWS if found.name == name)
    quantity, tensor, index = where
    values = made().find(step, quantity, tensor).copy()
    scale = np.abs(values).max()
    values[index] += factor * limit.tolerance(step) * scale
    pair = [made(), made({(step, quantity, tensor): values})]
    outcome = judged(*(reversed(pair) if swap else pair), limit=limit)
    off = abs(factor) > 1
    assert outcome.verdict == (MISMATCH if off else OK)
    bad = [row for row in outcome.rows if row.verdict == MISMATCH]
    assert len(bad) == off
    row = next(r for r in outcome.rows if (r.step, r.quantity) == (step, quantity[:5]))
    assert row.needed == pytest.approx(abs(factor) * limit.tolerance(step), rel=0.1)
    assert row.index == index
    assert row.tensor.endswith(tensor)


def test_the_final_loss_counts_and_steps_between_do_not():
    off = made().find(11, "loss") * (1 + 1e-9)
    assert judged(made(), made({(11, "loss", ""): off})).verdict == MISMATCH
    between = made().find(5, "param", "w") * (1 + 1e-9)
    assert 5 not in REPORTED
    assert judged(made(), made({(5, "param", "w"): between})).verdict == OK


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (math.inf, math.inf, OK),
        (-math.inf, -math.inf, OK),
        (math.nan, math.nan, OK),
        (math.nan, 1.0, MISMATCH),
        (1.0, math.nan, MISMATCH),
        (math.inf, 1.0, MISMATCH),
        (math.inf, -math.inf, MISMATCH),
        (math.inf, math.nan, MISMATCH),
        (0.0, -0.0, OK),
    ],
)
def test_values_that_are_not_finite(a, b, verdict):
    pair = [made({(10, "param", "b"): np.array([0.5, x])}) for x in (a, b)]
    outcome = judged(*pair)
    assert outcome.verdict == verdict
    assert outcome.nonfinite == tuple(-1 if math.isfinite(x) else 10 for x in (a, b))
    if verdict == MISMATCH:
        (row,) = [row for row in outcome.rows if row.verdict == MISMATCH]
        assert (row.step, row.tensor, row.index, row.needed) == (10, "b", 1, math.inf)


@pytest.mark.parametrize("key", [(3, "param", "b"), (10, "param", "w"), (11, "loss", "")])
def test_what_one_side_alone_lacks_is_an_error(key):
    for pair in ([made(), made({key: None}, run="b/x")], [made({key: None}, run="b/x"), made()]):
        outcome = judged(*pair)
        assert outcome.verdict == ERROR
        assert outcome.reason.startswith(f"b/x has no {key[1]}")
        assert f"at step {key[0]}" in outcome.reason
    # What was before a run was taken up is on one side only; states may have any names.
    assert judged(made(), made({key: None}), resume_step=11).verdict == OK
    assert judged(made(), made({(3, "state.sum", "w"): None})).verdict == OK


@pytest.mark.parametrize(
    ("errors", "steps", "change", "verdict", "reason"),
    [
        (("no", "no"), (STEPS, STEPS), {}, OK, "a/x: no; b/x: no"),
        (("no", "no"), (3, 3), {}, OK, "a/x: no; b/x: no"),
        # In words of its own each, but of one failure; and of two.
        (
            ("ValueError: the flat gradient lacks w", "Incompatible shapes"),
            (3, 3),
            {},
            OK,
            "a/x: ValueError: the flat gradient lacks w; b/x: Incompatible shapes",
        ),
        (("no", "never"), (3, 3), {}, ERROR, "a/x: no; b/x: never"),
        # Not at the same step, and not with the same numbers before.
        (("no", "never"), (3, 4), {}, ERROR, "a/x: no; b/x: never"),
        (("no", "no"), (3, 3), {(2, "param", "b"): [0.5, 0.3]}, MISMATCH, "a/x: no; b/x: no"),
        (("no", None), (STEPS, STEPS), {}, ERROR, "a/x: no"),
        ((None, "never"), (STEPS, STEPS), {}, ERROR, "b/x: never"),
    ],
)
def test_runs_that_ended_early(errors, steps, change, verdict, reason):
    a = made(error=errors[0], steps=steps[0])
    b = made(change, error=errors[1], steps=steps[1], run="b/x")
    outcome = judged(a, b)
    assert (outcome.verdict, outcome.reason) == (verdict, reason)


def test_a_parameter_of_another_size_is_an_error():
    outcome = judged(made(), made({(2, "param", "w"): [1.0, 2.0]}, run="b/x"))
    assert outcome.verdict == ERROR
    assert outcome.reason == "b/x has param of w at step 2 with 2 values"


def test_traces_of_nothing_are_an_error():
    empty = trace.Recorder().trace({"schema": trace.SCHEMA_VERSION, "run": "a/x"})
    outcome = judged(empty, empty)
    assert (outcome.verdict, outcome.reason) == (ERROR, "a/x has no parameter at all")


def test_a_response_widens_the_tolerance_of_a_sensitive_law():
    limit = next(found for found in LAWS if found.name == "float64-sensitive")
    pair = made(), made({(10, "param", "w"): made().find(10, "param", "w") * (1 + 1e-9)})
    assert judged(*pair, limit=limit).verdict == MISMATCH
    assert judged(*pair, limit=limit, responses=[1e-10] * 12).verdict == OK
    assert judged(*pair, limit=LIMIT, responses=[1e-10] * 12).verdict == MISMATCH


def test_scales_are_the_largest_magnitude_so_far():
    small = {(10, "param", "w"): np.zeros(3), (9, "param", "w"): np.array([0.0, 0.0, 1e-3])}
    pair = Pair(made(small), made({**small, (10, "param", "w"): np.array([0.0, 1e-3, 0.0])}))
    for step in range(9):
        assert pair.difference(step, "param").max_abs == 0
    pair.difference(9, "param")
    found = pair.difference(10, "param")
    assert (found.tensor, found.index, found.max_abs) == ("w", 1, 1e-3)
    assert found.scale == 36.0
    assert found.relative == 1e-3 / 36.0
    assert (found.a, found.b) == (0.0, 1e-3)
    # Alone, the step has its own scale, and a scale of 0 admits no difference.
    assert Pair(pair.a, pair.b).difference(10, "param").relative == 1.0
    nothing = made({(1, "param", "b"): np.array([0.0, 0.0]), (1, "param", "w"): None})
    nan = made({(1, "param", "b"): np.array([0.0, math.nan]), (1, "param", "w"): None})
    assert Pair(nothing, nothing).difference(1, "param").relative == 0
    assert Pair(nothing, nan).difference(1, "param").relative == math.inf
    assert Pair(made(), made()).difference(99, "param") is None


ANY = st.sampled_from([0.0, -0.0, 1.0, 1.5, -3.0, 1e308, -1e308, math.inf, -math.inf, math.nan])


@given(st.lists(st.tuples(ANY, ANY), min_size=3, max_size=3))
def test_a_difference_is_that_of_each_pair_of_values(pairs):
    """Also where some are not finite, and where two that are lie further apart than any double."""

    def apart(a, b):
        if a == b or (math.isnan(a) and math.isnan(b)):
            return 0.0
        return abs(a - b) if math.isfinite(a) and math.isfinite(b) else math.inf

    a, b = (made({(1, "param", "w"): x, (1, "param", "b"): None}) for x in np.array(pairs).T)
    found = Pair(a, b).difference(1, "param")
    distances = [apart(*pair) for pair in pairs]
    assert found.max_abs == max(distances)
    assert found.index == distances.index(max(distances))
    assert [found.a, found.b] == pytest.approx(list(pairs[found.index]), rel=0, nan_ok=True)
    finite = [abs(x) for pair in pairs for x in pair if all(map(math.isfinite, pair))]
    assert found.scale == max(finite, default=0.0)


def test_the_worst_of_all_tensors_is_taken():
    change = {
        (1, "param", "w"): [2.0, -4.0, 8.0 + 1e-3],
        (1, "param", "b"): [0.5, 0.25 + 5e-4],  # less, but more of 0.5 than that is of 8
    }
    found = Pair(made(), made(change)).difference(1, "param")
    assert (found.tensor, found.index) == ("b", 1)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, -2.0, 4.0], 0.0),
        ([1.0, -2.0, 5.0], 0.2),
        ([0.0, 0.0, 0.0], 1.0),
        ([1.0, -2.0, math.nan], 0.0),
        ([1.0, -2.0, math.inf], 0.0),
    ],
)
def test_how_far_parameters_have_moved(values, expected):
    found = made({(1, "param", "w"): np.array(values)})
    assert movement(found, 1) == pytest.approx(expected)
    # From where a run that was taken up began.
    entries = [entry for entry in found.entries if entry.step]
    assert movement(trace.Trace(entries, found.values), 1) == 0


def test_the_first_step_that_is_not_finite():
    assert first_nonfinite(made()) == -1
    assert first_nonfinite(made({(3, "param", "b"): np.array([math.inf, 0.0])})) == 3
    assert first_nonfinite(made({(3, "state.sum", "w"): np.full(3, math.nan)})) == -1


# Sheets


def record(pair="pytorch--burn", verdict=OK, **changes):
    standard = {
        "case": "x",
        "suite": "options",
        "optimizer": "SGD",
        "set": "plain",
        "problem": "a1",
        "pair": pair,
        "verdict": verdict,
        "reason": "",
        "explanation": "",
        "because": [],
        "law": "float64",
        "needed": 0.5,
    }
    return {**standard, **changes}


@given(st.lists(st.tuples(st.sampled_from(PAIRS), st.sampled_from(report.VERDICTS))))
def test_totals_add_up(made_up):
    found = report.totals([record(*item) for item in made_up])
    assert sum(sum(counts.values()) for counts in found.values()) == len(made_up)
    for pair, counts in found.items():
        for verdict in report.VERDICTS:
            assert counts[verdict] == made_up.count((pair, verdict))


def test_totals_complain_of_a_verdict_that_is_none():
    with pytest.raises(AssertionError, match=r"pytorch--burn: .*'fine': 1.* do not add up to 2"):
        report.totals([record(), record(verdict="fine")])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"reason": "burn/x: boom"}, "early"),
        ({"reason": "burn/x: boom", "nonfinite": [2, 2]}, "early"),
        ({"nonfinite": [-1, 2]}, "not finite"),
        ({"nonfinite": [-1, 2], "verdict": MISMATCH}, ""),
        ({"reason": "no such option", "verdict": IMPOSSIBLE}, ""),
        ({"reason": "both: boom", "pair": "pytorch--burn"}, ""),
    ],
)
def test_how_a_run_ends_as_described(changes, expected):
    outcome = record(**{"pair": "burn--reference", "nonfinite": [-1, -1], **changes})
    assert report.ended(outcome) == expected
    (row,) = report.verdict_rows([outcome])
    assert row == {**outcome, "ended": expected}
    judged = report.Judged([outcome], [], [], pa.table({}))
    lines = report.summary(judged, {"totals": {}}, {}).splitlines()
    found = [line for line in lines if line.startswith("ended")]
    assert [line.rsplit(": ", 2)[1] for line in found] == [
        str(int(expected == kind)) for kind in (report.EARLY, report.NOT_FINITE)
    ]
    report.check_summary("\n".join(lines))


@pytest.mark.parametrize(
    "text", ["burn: 3: 2 OK, 2 error", "ok: 1: 1 OK\nburn ~ x: 3: 2 OK", "a: 1: ", "a: 1: one OK"]
)
def test_a_summary_that_does_not_add_up_is_refused(root, tmp_path, text):
    (tmp_path / "summary").write_text(text)
    (tmp_path / "complaints").write_text("")
    arguments = [f"--{name}={tmp_path / name}" for name in ("summary", "complaints", "out")]
    command = [sys.executable, root / "scripts/check_breadth.py", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: the summary does not add up: ")
    assert not (tmp_path / "out").exists()


BY_FORMULA = {"verdict": MISMATCH, "explanation": "formula", "because": ["decay", "epsilon"]}
BY_DEFAULT = {"verdict": MISMATCH, "explanation": "default", "because": ["eps"]}


@pytest.mark.parametrize(
    ("members", "relation", "because"),
    [
        ([{}, {}], report.SAME, ""),
        ([{}, BY_FORMULA], report.BY_FORMULA, "decay (1); epsilon (1)"),
        (
            [{**BY_FORMULA, "because": ["epsilon"]}, BY_FORMULA],
            report.BY_FORMULA,
            "epsilon (2); decay (1)",
        ),
        ([BY_DEFAULT, {}], report.BY_DEFAULT, "eps (1)"),
        ([BY_DEFAULT, BY_FORMULA], report.BY_FORMULA, None),
        ([{"verdict": ERROR, "explanation": UNEXPLAINED}], report.BY_FORMULA, ""),
        # What a module does, and the precision of hyper-parameters, is no option's doing.
        ([{**BY_FORMULA, "because": ["tied"]}], report.SAME, "tied (1)"),
        ([{**BY_FORMULA, "because": ["float32"]}], report.SAME, "float32 (1)"),
        ([{**BY_FORMULA, "because": ["tied", "decay"]}], report.BY_FORMULA, "tied (1); decay (1)"),
        (
            [{"verdict": IMPOSSIBLE, "reason": "cannot do maximize=True"}, BY_FORMULA],
            report.ONE_SIDED,
            None,
        ),
    ],
)
def test_how_an_option_set_relates(members, relation, because):
    others = [record("burn--reference", MISMATCH), record("pytorch--twin")]
    (found,) = report.relations([*others, *(record(**member) for member in members)])
    assert found["relation"] == relation
    if because is not None:
        assert found["because"] == because
    elif relation == report.ONE_SIDED:
        assert "cannot do maximize=True" in found["because"]
    counts = [found[verdict] for verdict in report.VERDICTS]
    assert sum(counts) == len(members)


@pytest.mark.parametrize(
    ("problems", "where"),
    [(["inf"], report.EXTREMES), (["inf", "scale-1e30"], report.EXTREMES), (["inf", "a1"], "")],
)
def test_a_difference_at_extremes_only_is_called_so(problems, where):
    apart = {"verdict": MISMATCH, "explanation": "formula", "because": ["interpolation"]}
    members = [record(problem=name, **apart) for name in problems]
    (found,) = report.relations([*members, record()])
    assert (found["relation"], found["where"]) == (report.BY_FORMULA, where)


def test_option_sets_are_apart_by_optimizer_suite_and_name():
    made_up = [record(), record(set="decay"), record(optimizer="Adam"), record(suite="clip")]
    assert len(list(report.relations([*made_up, *made_up]))) == 4


def test_the_floor_is_that_of_cases_that_both_libraries_follow():
    def row(name, pair, needed, **changes):
        standard = {"quantity": "param", "suite": "options", "verdict": OK}
        key = {"optimizer": "SGD", "dtype": "float32", "step": 10}
        return {"case": name, "pair": pair, "needed": needed, **key, **standard, **changes}

    both = {"a": (1.0, 3.0), "b": (2.0, 1.0), "c": (5.0, 5.0), "d": (0.5, 0.75)}
    rows = [
        row(name, f"{side}--reference", needed)
        for name, pair in both.items()
        for side, needed in zip(SIDES, pair, strict=True)
    ]
    rows += [
        row("e", "pytorch--reference", 9.0),
        row("f", "pytorch--reference", 9.0, verdict=MISMATCH),
        row("f", "burn--reference", 9.0),
        row("a", "pytorch--burn", 9.0),
        row("g", "pytorch--reference", 9.0, suite="defaults"),
        row("g", "burn--reference", 9.0, suite="defaults"),
        row("a", "pytorch--reference", 9.0, quantity="loss"),
        row("e", "burn--reference", 9.0, step=1),
    ]
    (found,) = report.floor(pa.Table.from_pylist(rows))
    assert found == {
        "optimizer": "SGD",
        "dtype": "float32",
        "step": 10,
        "cases": 4,
        "pytorch_median": 1.5,
        "burn_median": 2.0,
        "pytorch_largest": 5.0,
        "burn_largest": 5.0,
        "pytorch_closer": 2,
        "burn_closer": 1,
        "equal": 1,
    }


def kill(status, **changes):
    standard = {"optimizer": "SGD", "side": "burn", "kind": "choice", "mutant": "decay=none"}
    by = {"killed_by_float32": "", "killed_by_float64": "x" if status == "killed" else ""}
    return {**standard, "status": status, "tried": 3, **by, **changes}


def test_mutants_are_counted():
    found = report.kill_counts(
        [kill("killed"), kill("killed"), kill("survived"), kill("equivalent")]
    )
    (row,) = found
    counts = {key: row[key] for key in list(row)[3:]}
    assert counts == {
        "mutants": 4,
        "killed": 2,
        "in_float32": 0,
        "in_float64": 2,
        "equivalent": 1,
        "survived": 1,
    }
    apart = [kill("killed"), kill("killed", side="pytorch"), kill("killed", kind="option")]
    assert len(list(report.kill_counts(apart))) == 3


def test_every_law_has_a_row_with_what_was_needed():
    made_up = [record(needed=0.25), record(needed=0.75), record(verdict=MISMATCH, needed="inf")]
    rows = {row["law"]: row for row in report.law_rows(made_up)}
    assert list(rows) == [limit.name for limit in LAWS]
    found = rows["float64"]
    assert (found["applied"], found["held"], found["most_needed"]) == (3, 2, 0.75)
    assert (rows["bfloat16"]["applied"], rows["bfloat16"]["most_needed"]) == (0, 0.0)


def test_complaints_are_of_what_nothing_explains_and_what_nothing_noticed():
    outcomes = [
        record(),
        record(**BY_FORMULA),
        record("burn--reference", MISMATCH, explanation=UNEXPLAINED, needed=3.0),
        record("burn--reference", ERROR, explanation=UNEXPLAINED, reason="no w\nand more"),
    ]
    kills = [kill("killed"), kill("equivalent"), kill("survived", mutant="epsilon=inside")]
    found = report.complaints(report.Judged(outcomes, kills, [], pa.table({})))
    assert found == [
        "x: burn--reference is MISMATCH and nothing explains it (3 times the tolerance)",
        "x: burn--reference is error and nothing explains it (no w)",
        "SGD, burn: the mutant 'epsilon=inside' was not noticed on any of 3 cases",
    ]


def test_schedules_complain_where_a_library_leaves_its_description():
    def row(pair, verdict):
        return {"case": "step", "pair": pair, "verdict": verdict}

    schedules = {
        "rows": [
            row("burn ~ pytorch", MISMATCH),
            row("burn ~ reference", OK),
            row("burn ~ reference", MISMATCH),
            row("burn ~ reference", IMPOSSIBLE),
        ],
        "kills": [{"mutant": "late", "flagged": 0}, {"mutant": "early", "flagged": 2}],
    }
    assert report.schedule_complaints(schedules) == [
        "schedule step: burn ~ reference is MISMATCH",
        "schedules: the mutant 'late' was not noticed",
    ]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", SHEETS)
def test_a_sheet_has_a_title_a_note_and_a_line_for_each_record(name, language):
    columns = ["optimizer", "because", "needed"]
    rows = [
        {"optimizer": "SGD", "because": "a|b", "needed": 1.23456e-7},
        {"optimizer": "Adam", "because": "", "needed": 3},
    ]
    lines = sheets.markdown(name, rows, columns, language).splitlines()
    title, note = SHEETS[name]
    assert lines[:4] == [f"# {title[language]}", "", note[language], ""]
    assert lines[5:] == ["| --- | --- | --- |", "| SGD | a\\|b | 1.23e-07 |", "| Adam |  | 3 |"]
    assert lines[4].count("|") == 4
    assert sheets.markdown(name, [], [], language).splitlines() == lines[:3]


def test_both_languages_differ_in_words_and_not_in_figures(tmp_path):
    rows = [{"optimizer": "SGD", "because": 'a|b, "c"', "needed": 1 / 3}]
    sheets.write("options", rows, tmp_path)
    english, chinese = (tmp_path / f"options{suffix}.md" for suffix in LANGUAGES.values())
    assert english.read_text() != chinese.read_text()
    assert (tmp_path / "options.csv").read_text() == (
        'optimizer,because,needed\nSGD,"a|b, ""c""",0.3333333333333333\n'
    )
    sheets.write("floor", [], tmp_path)
    assert (tmp_path / "floor.csv").read_text() == "\n"


def test_long_lists_are_cut_and_others_are_text():
    rows = [
        {"cases": ["a", "b", "c", "d", "e"], "n": 5},
        {"cases": ["a"], "n": 1},
        {"cases": [], "n": 0},
    ]
    assert list(report.shown(rows)) == [
        {"cases": "a, b, c and 2 more", "n": 5},
        {"cases": "a", "n": 1},
        {"cases": "", "n": 0},
    ]


def test_what_is_not_finite_becomes_text_in_records():
    assert records.plain({"a": [math.inf, 1.0], "b": math.nan}) == {"a": ["inf", 1.0], "b": "nan"}
    outcome = Outcome(case(), "pytorch--burn", IMPOSSIBLE, reason="no")
    found = records.outcome_record(outcome, "", [])
    assert json.loads(json.dumps(found, allow_nan=False))["nonfinite"] == [-1, -1]
    assert {"needed": 0.0, "law": "float64", "reason": "no"}.items() <= found.items()


def script(root, name, *arguments):
    command = [sys.executable, root / f"scripts/{name}.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("count", [0, 1, 25])
def test_the_check_fails_with_a_sentence_where_there_are_complaints(root, tmp_path, count):
    complaints, summary, out = (tmp_path / name for name in ("complaints", "summary", "out"))
    complaints.write_text("".join(f"x{i}: nothing explains it\n" for i in range(count)))
    summary.write_text("pairs: 3\n")
    arguments = ("--complaints", complaints, "--summary", summary, "--out", out)
    ended = script(root, "check_breadth", *arguments)
    assert ended.stdout == "pairs: 3\n"
    if count == 0:
        assert (ended.returncode, ended.stderr) == (0, "")
        assert out.read_text() == "pairs: 3\n"
        return
    assert ended.returncode == 2
    assert not out.exists()
    first, *lines = ended.stderr.splitlines()
    assert first == f"error: {count} complaints, all in {complaints}:"
    assert len(lines) == min(count, 20)


def test_the_check_names_a_file_that_is_missing(root, tmp_path):
    arguments = ("--complaints", tmp_path / "no", "--summary", tmp_path / "no", "--out", "x")
    ended = script(root, "check_breadth", *arguments)
    assert (ended.returncode, ended.stderr) == (2, f"error: {tmp_path / 'no'} does not exist\n")


def test_a_folder_of_what_was_judged_that_is_not_whole(tmp_path):
    with pytest.raises(PitbError, match=r"outcomes\.json does not exist"):
        report.load([tmp_path])
    for name in ("outcomes", "kills", "papers"):
        write_json(tmp_path / f"{name}.json", [])
    with pytest.raises(PitbError, match=r"rows\.parquet does not exist"):
        report.load([tmp_path])


# Plans


@pytest.fixture(scope="module")
def whole_plan(planned):
    """Every option set on one problem."""
    return planned(c for c in cases() if c.problem in ("a1", "gradients") and c.dtype == "float32")


@pytest.mark.torch
def test_the_reason_of_what_is_impossible_names_the_option(whole_plan):
    reasons = dict.fromkeys(SIDES, 0)
    for entry in whole_plan["cases"].values():
        found = runs.case_of(entry)
        options = [*found.burn, *found.entry.defaults()]
        for side in SIDES:
            reason = entry[side].get(IMPOSSIBLE)
            if reason is not None:
                reasons[side] += 1
                assert any(name.lower() in reason.lower() for name in options), reason
                assert "\n" not in reason
    assert all(reasons.values())


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "side", "reason"),
    [
        ("sgd_maximize_a1_f32", "burn", "burn's Sgd cannot do maximize=True"),
        ("sgd_nesterov-dampening_a1_f32", "pytorch", "Nesterov momentum requires"),
        ("adamw_cautious_a1_f32", "pytorch", "PyTorch's AdamW has no cautious_weight_decay"),
        ("adafactor_own-eps_a1_f32", "burn", "burn's Adafactor cannot do eps[0]=None"),
        ("muon_spectral_a1_f32", "burn", "cannot do adjust_lr_fn='spectral_unclamped'"),
        ("lamb_grad-norm_a1_f32", "burn", "burn's Lamb cannot do max_grad_norm=0.1"),
    ],
)
def test_what_is_impossible_on_one_side_is_planned_on_the_other(whole_plan, name, side, reason):
    entry = whole_plan["cases"][name]
    (other,) = {*SIDES} - {side}
    assert reason in entry[side][IMPOSSIBLE]
    assert entry[other]["id"] == f"{other}/{name}"


@pytest.mark.torch
def test_a_plan_is_json_and_says_everything(whole_plan):
    assert json.loads(json.dumps(whole_plan, allow_nan=False)) == json.loads(json.dumps(whole_plan))
    for name, entry in whole_plan["cases"].items():
        assert runs.case_of(entry).name == name
        standard = by_pytorch_name(entry["case"]["optimizer"]).defaults()
        for side in SIDES:
            assert entry["options"][side].keys() == standard.keys() - {"lr"}
        if IMPOSSIBLE not in entry["burn"]:
            assert "impossible" not in entry["burn"]["options"]


@pytest.mark.torch
def test_a_case_comes_back_from_a_plan_as_it_was(planned):
    second = {"parameters": ["fc2.bias"], "optimizer": "SGD", "options": {}, "lr": 0.5}
    odd = case(left=("momentum",), frozen=("fc1.bias",), groups=(second,), clip={"scope": "value"})
    for found in (case(), odd, case(burn_clip={"Norm": 0.1}, clipping_by="late", observe=False)):
        (entry,) = json.loads(json.dumps(planned([found])))["cases"].values()
        assert runs.case_of(entry) == found


@pytest.mark.torch
def test_two_cases_of_one_name_are_refused(planned):
    with pytest.raises(AssertionError, match="two cases are called sgd_plain_a1_f64"):
        planned([case(), case(options={"momentum": 0.9})])


@pytest.mark.torch
def test_what_is_left_at_each_sides_default_is_not_said(planned):
    left = case(optimizer="Adam", set="own-eps", left=("eps",))
    entry = planned([left])["cases"][left.name]
    assert "epsilon" not in entry["burn"]["options"]
    assert (entry["options"]["pytorch"]["eps"], entry["options"]["burn"]["eps"]) == (1e-8, 1e-5)


@pytest.mark.torch
def test_a_run_that_is_taken_up_has_two_halves(planned, tmp_path):
    resumed = case(set="resumed-plain", resume_step=4)
    impossible = case(set="maximize", options={"maximize": True})
    found = planned([case(), resumed, impossible])
    for side in SIDES:
        first, second = phases(found, side, tmp_path)
        names = [spec["id"] for spec in first]
        alone = [f"{side}/{impossible.name}"] if side == "pytorch" else []
        assert names == [f"{side}/{case().name}", f"{side}/{resumed.name}_first", *alone]
        assert [spec["id"] for spec in second] == [f"{side}/{resumed.name}"]
        assert (first[1]["steps"], second[0]["steps"]) == (4, 10)
        assert first[1]["save"] == second[0]["resume"]
        assert "resume" not in first[1] and "save" not in second[0]
        assert second[0]["resume_step"] == 4
        assert first[0] == found["cases"][case().name][side]


# Control: the real programs, and what becomes of mistakes


def _wanted(found):
    if found.optimizer != "SGD" or found.steps != STEPS:
        return False
    options = ("plain", "momentum", "decay", "dampening-decay", "nesterov-decay")
    return (
        (found.set in options and found.problem == "gradients")
        or (found.set == "momentum" and found.problem in ("a1", "absent"))
        or (found.set in ("clip-norm", "clip-value") and found.problem in ("gradients", "zero"))
        or (found.set == "clip-norm" and found.problem == "scale-1e-30")
        or (found.set == "clip-norm-late" and found.problem == "a1")
        or (found.set in ("clip-global-2", "clip-each") and found.problem in ("a1", "scale-1e30"))
        or (found.set == "nesterov-dampening" and found.problem == "a1")
        or (found.set == "unobserved-momentum" and found.problem == "a1")
        or (found.set in ("resumed-momentum", "frozen", "accumulate-2") and found.problem == "a1")
        or (found.set == "schedule-step" and found.problem == "gradients")
    )


@pytest.fixture(scope="module")
def control(planned, root, programs, tmp_path_factory):
    """A plan, and a function that trains it on one side into a folder."""
    folder = tmp_path_factory.mktemp("breadth")
    path = folder / "plan.json"
    write_json(path, planned(filter(_wanted, cases())), indent=None)

    def trained(side, traces):
        program = ("--program", programs / "optdef") if side == "burn" else ()
        name = f"train_breadth_{side}"
        ended = script(root, name, "--plan", path, "--traces", traces, *program)
        assert ended.returncode == 0, ended.stderr
        return traces

    for side in SIDES:
        trained(side, folder / "traces")
    return path, folder / "traces", trained


def outcomes_of(path, traces):
    """Each outcome with its explanation; the judge too."""
    found = Judge(read_json(path), traces)
    pairs = [(e, o) for e in found.entries() for o in found.outcomes(e)]
    return found, [(o, *explain(found, e, o)) for e, o in pairs]


def different(outcomes):
    return {
        (o.case.name, o.pair): (o.verdict, kind, because)
        for o, kind, because in outcomes
        if o.verdict in (MISMATCH, ERROR)
    }


def bytes_of(path):
    """A trace's bytes, but for where a run that is taken up was saved: a folder of that training's
    own, which burn's side records.
    """
    if "_resumed-" not in path.stem:
        return path.read_bytes()
    found = trace.read(path)
    for key in ("save", "resume"):
        found.configuration.pop(key, None)
    return found.entries, found.values.tobytes(), found.metadata


@pytest.mark.pipeline
@pytest.mark.torch
@pytest.mark.parametrize("side", SIDES)
def test_the_same_plan_gives_the_same_bytes(control, tmp_path, side):
    _, traces, trained = control
    trained(side, tmp_path)
    first, again = (
        {path.stem: bytes_of(path) for path in (folder / side).glob("*.parquet")}
        for folder in (traces, tmp_path)
    )
    assert len(first) > 30
    assert first.keys() == again.keys()
    assert [name for name in first if first[name] != again[name]] == []


@pytest.mark.pipeline
@pytest.mark.torch
def test_both_libraries_follow_their_descriptions(control):
    path, traces, _ = control
    found, outcomes = outcomes_of(path, traces)
    assert {o.pair for o, *_ in outcomes} == {*PAIRS, "pytorch--twin", "burn--twin"}
    for o, kind, _ in outcomes:
        where = (o.case.name, o.pair, o.reason)
        assert kind != UNEXPLAINED, where
        if "reference" in o.pair:
            side = o.pair.partition("--")[0]
            impossible = (o.case.set, side) == ("nesterov-dampening", "pytorch")
            assert o.verdict == (IMPOSSIBLE if impossible else OK), where
            assert found.follows(o.case.name, side) != impossible
            assert not impossible or "Nesterov" in o.reason
    late = {key: rest for key, rest in different(outcomes).items() if "-late_" in key[0]}
    assert late == {
        (f"sgd_clip-norm-late_a1_{dtype}", "pytorch--burn"): (
            MISMATCH,
            "formula",
            ["late_clipping"],
        )
        for dtype in ("f32", "f64")
    }


@pytest.fixture
def altered(control, tmp_path):
    """Gives a folder of the control's traces with one of them rewritten."""
    traces = control[1]

    def folder(side, name, change):
        for source in traces.rglob("*.parquet"):
            copy = tmp_path / source.relative_to(traces)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.hardlink_to(source)
        mine = trace_path(tmp_path, side, name)
        found = trace.read(mine)
        mine.unlink()
        change(found)
        trace.write(found, mine)
        return tmp_path

    return folder


@pytest.mark.pipeline
@pytest.mark.torch
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("quantity", ["param", "state.momentum_buffer"])
def test_one_value_that_is_off_is_that_pairs_mismatch_and_unexplained(
    control, altered, side, quantity
):
    path, traces, _ = control
    name = "sgd_dampening-decay_gradients_f64"

    def change(found):
        entry = found.by_key()[10, quantity, "fc.weight"]
        scale = np.abs(found.of(entry)).max()
        found.values = found.values.copy()
        found.values[entry.first_row + 7] += 1e-10 * scale  # the law has 1e-12

    before = different(outcomes_of(path, traces)[1])
    after = outcomes_of(path, altered(side, name, change))[1]
    new = {key: value for key, value in different(after).items() if before.get(key) != value}
    # Where a library leaves its description, its difference from the other is unexplained, too.
    apart = (name, f"{side}--reference"), (name, "pytorch--burn")
    assert new == dict.fromkeys(apart, (MISMATCH, UNEXPLAINED, []))
    (outcome,) = [o for o, *_ in after if (o.case.name, o.pair) == apart[0]]
    (row,) = [row for row in outcome.rows if row.verdict == MISMATCH]
    assert (row.step, row.index) == (10, 7)
    assert "fc.weight" in row.tensor
    written = [records.outcome_record(o, kind, because) for o, kind, because in after]
    complaints = report.complaints(report.Judged(written, [], [], pa.table({})))
    for complaint, (_, pair) in zip(complaints, apart, strict=True):
        assert complaint.startswith(f"{name}: {pair} is MISMATCH and nothing explains it")


@pytest.mark.pipeline
@pytest.mark.torch
def test_a_run_that_ends_early_on_one_side_alone_is_an_error(control, altered):
    name = "sgd_momentum_a1_f32"
    folder = altered("burn", name, lambda found: found.metadata.update(error="no more"))
    found = different(outcomes_of(control[0], folder)[1])
    for pair in ("burn--reference", "pytorch--burn"):
        assert found[name, pair][:2] == (ERROR, UNEXPLAINED)
    twin = "sgd_unobserved-momentum_a1_f32", "burn--twin"
    assert found[twin][0] == ERROR


@pytest.mark.pipeline
@pytest.mark.torch
def test_a_twin_that_ends_one_bit_away_is_a_mismatch(control, altered):
    name = "sgd_unobserved-momentum_a1_f32"

    def change(found):
        found.values = found.values.copy()
        found.values[-1] = np.nextafter(np.float32(found.values[-1]), np.float32(9))

    found = different(outcomes_of(control[0], altered("burn", name, change))[1])
    assert found[name, "burn--twin"][:2] == (MISMATCH, UNEXPLAINED)


@pytest.mark.pipeline
@pytest.mark.torch
@pytest.mark.parametrize("side", SIDES)
def test_a_reference_without_decay_is_flagged_wherever_there_is_decay(control, side):
    path, traces, _ = control
    found = Judge(read_json(path), traces)
    tried = {}
    for entry in found.entries():
        c = runs.case_of(entry)
        if IMPOSSIBLE in entry[side] or c.suite != "options":
            continue
        broken = runs.equations_of(c, side).but(decay="none")
        reference = train(runs.reference_run(entry, side, broken))
        pair = f"{side}--reference"
        verdict = judge(c, pair, found.library(c.name, side), reference, law(c, pair), {}).verdict
        assert verdict == (MISMATCH if "decay" in c.set else OK)
        tried.setdefault(verdict, []).append(c.dtype)
    assert {*tried[OK]} == {*tried[MISMATCH]} == {*DTYPES}


@pytest.mark.pipeline
@pytest.mark.torch
def test_where_no_run_is_followed_no_mutant_is_hunted(control, altered):
    name = "sgd_decay_gradients_f64"
    folder = altered("burn", name, lambda found: found.metadata.update(error="no more"))
    plan = read_json(control[0])
    found = Judge({**plan, "cases": {name: plan["cases"][name]}}, folder)
    for entry in found.entries():
        assert MISMATCH not in {o.verdict for o in found.outcomes(entry)}
    kills = list(Hunt(found).kills("SGD"))
    assert {kill.side for kill in kills} == {"pytorch"}
    status = {kill.mutant: kill.status for kill in kills}
    assert status["decay=none"] == status["weight_decay ignored"] == "killed"


@pytest.fixture(scope="module")
def judged_folder(control, root, tmp_path_factory):
    path, traces, _ = control
    out = tmp_path_factory.mktemp("judged")
    ended = script(root, "judge_breadth", "sgd", "--plan", path, "--traces", traces, "--out", out)
    assert ended.returncode == 0, ended.stderr
    return out


@pytest.mark.pipeline
@pytest.mark.torch
def test_no_mutant_survives_that_these_cases_can_show(judged_folder):
    kills = report.load([judged_folder]).kills
    assert {kill["side"] for kill in kills} == set(SIDES)
    assert {kill["kind"] for kill in kills} == {"choice", "precision", "option"}
    survivors = [(k["side"], k["mutant"]) for k in kills if k["status"] == "survived"]
    assert survivors == []
    names = {kill["mutant"].partition("=")[0] for kill in kills}
    assert {"decay", "dampening", "nesterov", "clip_scope", "late_clipping", "frozen"} <= names
    for k in kills:
        assert (k["status"] == "killed") == bool(k["flagged"])
        assert k["status"] != "equivalent" or k["reason"]


@pytest.mark.pipeline
@pytest.mark.torch
def test_what_the_judge_writes_adds_up_and_has_no_complaint(control, judged_folder):
    path, traces, _ = control
    found = report.load([judged_folder])
    assert report.complaints(found) == []
    plan = read_json(path)["cases"]
    counts = report.totals(found.outcomes)
    observed = sum(entry["case"]["observe"] for entry in plan.values())
    for pair in PAIRS:
        assert sum(counts[pair].values()) == observed
    assert found.rows.schema.equals(records.row_schema())
    floors = list(report.floor(found.rows))
    assert {row["dtype"] for row in floors} == set(DTYPES)
    # In float64 both sides keep to the reference's last digits.
    for row in floors:
        if row["dtype"] == "float64":
            assert max(row["pytorch_largest"], row["burn_largest"]) < 1e-12
    names = {file.stem for file in (traces / "reference").glob("*.parquet")}
    assert len(names) > 60
    for file in (traces / "reference").glob("*_as-burn.parquet"):
        trace.read(file)
    relations = {row["set"]: row["relation"] for row in report.relations(found.outcomes)}
    assert relations["momentum"] == relations["decay"] == report.SAME
    assert relations["clip-norm-late"] == report.BY_FORMULA
    assert relations["nesterov-dampening"] == report.ONE_SIDED


def test_the_pair_of_the_libraries_is_one_of_the_three():
    assert laws.ACROSS == PAIRS[-1] == "--".join(SIDES)


def with_states(states, gradients=("w",)):
    """A trace of one update of one parameter; ``states`` maps (name, tensor) to values."""
    recorder = trace.Recorder()
    recorder.add(0, "param", [1.0, 2.0], "float64", "w")
    for tensor in gradients:
        recorder.add(1, "grad", [0.5, 0.5], "float64", tensor)
    recorder.add(1, "param", [0.9, 1.9], "float64", "w")
    for (name, tensor), values in states.items():
        recorder.add(1, f"state.{name}", values, "float64", tensor)
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": "x/y"})


@pytest.mark.parametrize(
    ("optimizer", "kept", "gradients", "said"),
    [
        ("SGD", {("momentum_buffer", "w"): [1.0, 2.0]}, ("w",), "no state.momentum_buffer of w"),
        ("RMSprop", {("step", "w"): [1.0]}, ("w",), ""),  # declared to be one side's alone
        ("RMSprop", {("square_avg", "w"): [1.0]}, ("w",), "has no state.square_avg of w"),
        ("SGD", {("momentum_buffer", "w"): [1.0]}, (), ""),  # burn is not called without a gradient
        ("LBFGS", {("n_iter", ""): 3.0}, ("w",), "has no state.n_iter"),
        ("LBFGS", {("old_dirs", "w"): [1.0, 2.0]}, ("w",), ""),  # its length says so
        ("LBFGS", {("d", ""): [1.0]}, ("w",), ""),  # burn's, which lacks a gradient
    ],
)  # fmt: skip
def test_a_state_that_one_side_alone_keeps(optimizer, kept, gradients, said):
    more, less = with_states(kept, gradients), with_states({}, gradients)
    for pair in ((more, less), (less, more)):
        found = judged(*pair, optimizer=optimizer, steps=1)
        assert found.verdict == (ERROR if said else OK)
        assert said in found.reason
    without = judge(case(optimizer=optimizer, steps=1), "pytorch--reference", more, less, LIMIT, {},
                    states=False)  # fmt: skip
    assert without.verdict == OK
