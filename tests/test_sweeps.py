"""Sweeps without training: expansion, names, batches, and every mistake in a file as a sentence."""

import importlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb.docs import measured
from pitb.errors import PitbError
from pitb.sweeps import design, plan, random_axes
from pitb.sweeps.points import Point


def sweep_of(folder: Path, *blocks: str, head: str = "") -> design.Sweep:
    path = folder / "s.yaml"
    path.write_text(f"name: s\n{head}design:\n" + "".join(f"  - {b}\n" for b in blocks))
    return design.read(path)


@pytest.mark.parametrize(
    ("block", "count"),
    [
        ("grid: {optimizer: [SGD], lr: [0.1, 0.2]}", 2),
        ("grid: {optimizer: [SGD, Adam], lr: [0.1, 0.2], burn: [aligned, defaults]}", 8),
        ("grid: {optimizer: [SGD], lr: [0.1], options: {momentum: [0, 0.9, 0.5]}}", 3),
        ("grid: {optimizer: [SGD], lr: [0.1], options: {momentum: [0, 0.0]}}", 1),
        ("grid: {optimizer: [Adam], lr: [0.1], options: {'betas[0]': [0.8, 0.9]}}", 2),
        ("list: [{optimizer: SGD, lr: 1}, {optimizer: SGD, lr: 1.0}]", 1),
        ("list: [{optimizer: Adam, lr: 1}, {optimizer: Adam, lr: 1, options: {eps: 1e-8}}]", 1),
        ("list: [{optimizer: LBFGS, lr: 1, options: {max_iter: 4}}, "
         "{optimizer: LBFGS, lr: 1, options: {max_iter: 4, max_eval: 5}}]", 1),
        ("random: {n: 7, seed: 1, axes: {optimizer: SGD, lr: {uniform: [0, 1]}}}", 7),
        ("random: {n: 9, seed: 1, axes: {optimizer: {choice: [SGD]}, lr: 0.1, "
         "steps: {integers: [2, 3]}}}", 2),
    ],
)  # fmt: skip
def test_expansion(tmp_path: Path, block: str, count: int) -> None:
    assert len(sweep_of(tmp_path, block).points) == count


@pytest.mark.parametrize("page", ["sweeps.md", "sweeps.zh.md"])
def test_the_file_that_the_page_shows_is_a_sweep(tmp_path: Path, root: Path, page: str) -> None:
    text = (root / "docs" / page).read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    path = tmp_path / "example.yaml"
    path.write_text(shown, encoding="utf-8")
    found = design.read(path)
    assert (found.written, found.batch_size) == (16 + 100 + 1, design.BATCH_SIZE)
    # Every axis that the table beside it explains is one, and none is left out.
    axes = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    assert set(axes) == set(design.read_schema()["$defs"]["point"]["properties"])


def test_one_configuration_reached_by_two_ways_is_one_run(tmp_path: Path) -> None:
    found = sweep_of(
        tmp_path,
        "grid: {optimizer: [Adam], lr: [0.1], options: {'betas[0]': [0.8, 0.9]}}",
        "list: [{optimizer: Adam, lr: 0.1, options: {betas: [0.8, 0.999]}}]",
    )
    assert found.written == 3
    assert len(found.points) == 2


def test_with_burns_defaults_an_option_that_is_given_is_another_run() -> None:
    given = Point("Adam", 0.1, burn="defaults", options={"eps": 1e-8})
    left = Point("Adam", 0.1, burn="defaults")
    assert given.digest != left.digest
    assert "eps" in left.left
    assert "eps" not in given.left
    assert "epsilon" not in left.burn_spec()["options"]


def test_an_implementation_of_pytorchs_is_another_run() -> None:
    assert Point("Adam", 0.1, options={"foreach": True}).digest != Point("Adam", 0.1).digest


@pytest.mark.parametrize(
    ("point", "begins"),
    [
        (Point("AdamW", 0.01), "adamw-lr0.01-"),
        (Point("AdamW", 0.01, options={"betas": [0.9, 0.99]}), "adamw-lr0.01-bet0.9-0.99-"),
        (Point("SGD", 1e-5, options={"nesterov": True, "momentum": 0.9}), "sgd-lr1e-5-mom0.9-nes-"),
        (Point("SGD", 1, problem="conv", dtype="float64", steps=3), "sgd-lr1-conv-f64-3steps-"),
        (Point("SGD", 1, burn="defaults"), "sgd-lr1-burn-"),
        (Point("SGD", 1, clip={"scope": "global", "max_norm": 0.1}), "sgd-lr1-clip0.1-"),
    ],
)
def test_names_are_readable(point: Point, begins: str) -> None:
    assert point.name.startswith(begins)
    assert len(point.name) == len(begins) + 8


def test_a_name_and_a_digest_stay_as_they_are() -> None:
    # Results of a sweep are found by these; a change of them is a change of plan.VERSION.
    point = Point("AdamW", 0.01, options={"weight_decay": 0.1})
    assert point.name == "adamw-lr0.01-wd0.1-27f20002"


RATES = st.floats(1e-8, 10).map(lambda x: float(f"{x:.4g}"))
POINTS = st.builds(
    Point,
    optimizer=st.sampled_from(["SGD", "RMSprop"]),
    lr=RATES,
    steps=st.integers(1, 20),
    dtype=st.sampled_from(["float32", "float64"]),
    burn=st.sampled_from(["aligned", "defaults"]),
    options=st.dictionaries(st.sampled_from(["momentum", "weight_decay"]), RATES),
)


@given(st.lists(POINTS, max_size=30), POINTS, st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_one_more_run_changes_one_batch(points: list[Point], more: Point, size: int) -> None:
    """With the number of batches written down; names of the others stay too."""

    def cut(found: list[Point]) -> dict[str, str]:
        made = design.Sweep("s", {p.name: p for p in found}, batches=size)
        return {
            batch: plan.digest_of(made.points[name] for name in names)
            for batch, names in plan.batches(made).items()
        }

    before, after = cut(points), cut([*points, more])
    changed = [batch for batch in after if before.get(batch) != after[batch]]
    assert len(changed) <= 1
    assert set(before) <= set(after)


@given(
    st.lists(POINTS, min_size=1, max_size=30, unique_by=lambda p: p.digest),
    POINTS,
    st.integers(0, 29),
    st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_one_edited_run_changes_one_batch(
    points: list[Point], other: Point, which: int, size: int
) -> None:
    edited = [*points]
    edited[which % len(points)] = other
    one, two = (
        design.Sweep("s", {p.name: p for p in found}, batches=size) for found in (points, edited)
    )
    before = plan.places(one)
    after = plan.places(two, before)
    assert after == plan.places(two, after)
    cut_one, cut_two = plan.batches(one), plan.batches(two, before)
    changed = [b for b in {*cut_one, *cut_two} if cut_one.get(b) != cut_two.get(b)]
    assert len(changed) <= 1


@given(st.lists(POINTS, min_size=1, max_size=60, unique_by=lambda p: p.digest), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_twice_as_many_batches_split_each(points: list[Point], size: int) -> None:
    for point in points:
        place = plan.place_of(point.digest, size)
        assert plan.place_of(point.digest, 2 * size) in (2 * place, 2 * place + 1)
        assert 0 <= place < size
    made = design.Sweep("s", {p.name: p for p in points}, batch_size=size)
    count = plan.count_batches(made)
    assert count & (count - 1) == 0
    assert len(points) <= count * size < max(2 * len(points), size + 1)
    assert sorted(n for names in plan.batches(made).values() for n in names) == sorted(made.points)


@given(st.integers(0, 99), st.integers(0, 500))
def test_draws_depend_on_seed_axis_and_number_alone(seed: int, number: int) -> None:
    uniform = {"log_uniform": [1e-4, 1]}
    value = random_axes.draw(uniform, seed, "lr", number)
    assert value == random_axes.draw(uniform, seed, "lr", number)
    assert 1e-4 <= value <= 1
    assert 2 <= random_axes.draw({"integers": [2, 4]}, seed, "steps", number) <= 4


def test_another_axis_or_more_points_leave_what_was_drawn(tmp_path: Path) -> None:
    axes = "optimizer: SGD, lr: {log_uniform: [1e-4, 1]}"
    few = sweep_of(tmp_path, f"random: {{n: 5, seed: 2, axes: {{{axes}}}}}")
    many = sweep_of(tmp_path, f"random: {{n: 9, seed: 2, axes: {{{axes}}}}}")
    wide = sweep_of(
        tmp_path,
        f"random: {{n: 5, seed: 2, axes: {{{axes}, steps: {{choice: [3, 4]}}}}}}",
    )
    assert list(many.points)[:5] == list(few.points)
    assert [p.lr for p in wide.points.values()] == [p.lr for p in few.points.values()]
    other = sweep_of(tmp_path, f"random: {{n: 5, seed: 3, axes: {{{axes}}}}}")
    assert not set(other.points) & set(few.points)


WRONG = st.sampled_from([-1, 2.5, math.inf, "x", "", None, True, [], [1], {}, {"scope": "value"}])
NUMBERS = st.one_of(st.integers(0, 3), st.floats(0, 2))
SPOILED = 25
"""One value in so many is of any kind."""


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(1, SPOILED).flatmap(lambda drawn: WRONG if drawn == 7 else usual)


AXES: dict[str, st.SearchStrategy[Any]] = {
    "lr": NUMBERS,
    "steps": st.sampled_from([1, 2, 10, 3.0]),
    "problem": st.sampled_from(["a1", "nan", "conv"]),
    "dtype": st.sampled_from(["float32", "float64"]),
    "burn": st.sampled_from(["aligned", "defaults"]),
    "clip": st.sampled_from([None, {"scope": "global", "max_norm": 1}]),
}
OPTIONS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "SGD": {"momentum": NUMBERS, "weight_decay": NUMBERS, "nesterov": st.booleans()},
    "Adam": {"betas[0]": NUMBERS, "betas": st.lists(NUMBERS, min_size=2, max_size=2)},
    "LBFGS": {"max_iter": st.integers(1, 3), "line_search_fn": st.just("strong_wolfe")},
    "Muon": {},
}
DRAWN = st.builds(
    lambda kind, ends: {kind: ends if kind == "choice" else sorted(ends)[:2]},
    st.sampled_from(["choice", "uniform", "log_uniform", "integers"]),
    st.lists(st.integers(1, 4), min_size=2, max_size=3),
)


def point_of(wrap: Callable[[st.SearchStrategy[Any]], Any]) -> st.SearchStrategy[Any]:
    """A point, a grid or the axes of a random design, as ``wrap`` makes values into axes."""
    axes = {name: wrap(mostly(values)) for name, values in AXES.items()}

    def of(optimizer: str) -> st.SearchStrategy[Any]:
        options = {name: wrap(mostly(values)) for name, values in OPTIONS[optimizer].items()}
        rest = {name: axis for name, axis in axes.items() if name != "lr"}
        rest["options"] = st.fixed_dictionaries({}, optional=options)
        must = {"optimizer": wrap(mostly(st.just(optimizer))), "lr": axes["lr"]}
        return st.fixed_dictionaries(must, optional=rest)

    return st.sampled_from(list(OPTIONS)).flatmap(of)


DESIGNS = st.lists(
    st.one_of(
        point_of(lambda values: st.lists(values, min_size=1, max_size=2)).map(
            lambda grid: {"grid": grid}
        ),
        st.lists(point_of(lambda values: values), min_size=1, max_size=3).map(
            lambda points: {"list": points}
        ),
        st.builds(
            lambda n, seed, axes: {"random": {"n": n, "seed": seed, "axes": axes}},
            *(mostly(st.sampled_from([1, 5, 3.0])), mostly(st.integers(0, 9))),
            point_of(lambda values: st.one_of(values, values, values, DRAWN)),
        ),
    ),
    min_size=1,
    max_size=2,
)


def described(design_: list[dict[str, Any]]) -> int:
    """How many points a design says that it has."""
    found = 0
    for block in design_:
        ((kind, value),) = block.items()
        nested = {**value, **value.get("options", {})} if kind == "grid" else {}
        lengths = [len(items) for name, items in nested.items() if name != "options"]
        found += {"grid": math.prod(lengths), "list": len(value)}.get(kind, 0)
        found += int(value["n"]) if kind == "random" else 0
    return found


def test_any_design_is_expanded_or_refused_in_one_sentence(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    path = tmp_path / "any.yaml"

    def read(blocks: list[dict[str, Any]]) -> design.Sweep:
        text = json.dumps({"name": "any", "design": blocks}).replace("Infinity", "1e400")
        path.write_text(text, encoding="utf-8")
        return design.read(path)

    @given(DESIGNS, st.randoms(use_true_random=False))
    @settings(max_examples=120, deadline=None)
    def check(drawn: list[dict[str, Any]], chance: Random) -> None:
        try:
            found = read(drawn)
        except PitbError as error:
            seen["refused"] += 1
            assert str(error).startswith(str(path))
            assert len(str(error).splitlines()) == 1
            return
        seen["expanded"] += 1
        assert found.written == described(drawn)
        assert len(found.points) <= found.written
        assert len({point.digest for point in found.points.values()}) == len(found.points)
        assert all(name == point.name for name, point in found.points.items())
        # Names depend neither on what stands beside a run nor on the order.
        alone = [set(read([block]).points) for block in drawn]
        assert set.union(*alone) == set(found.points)
        assert set(read(chance.sample(drawn, len(drawn))).points) == set(found.points)
        # What is planned is read back as it was.
        plan.write(path, tmp_path)
        batches = [plan.read_batch(tmp_path / "plan", batch) for batch in plan.batches(found)]
        assert sorted(n for batch in batches for n in batch["points"]) == sorted(found.points)

    check()
    assert min(seen["refused"], seen["expanded"]) > 5, seen


GRID = "design: [{grid: {optimizer: [SGD], lr: [0.1]}}]"
MISTAKES = [
    ("", "the file is null, but must be keys and values"),
    ("name: s", "line 1: the file lacks the key 'design'"),
    (f"{GRID}", "the file lacks the key 'name'"),
    (f"name: t\n{GRID}", "line 1: name is 't', but must be that of the file, 's'"),
    (f"name: s\nnmae: s\n{GRID}", "line 2: unknown key 'nmae'; the nearest valid one is 'name'"),
    (f"name: s\nname: s\n{GRID}", "line 2: key 'name' was given before, in line 1"),
    ("name: s\ndesign: []", "line 2: design is empty"),
    ("name: s\ndesign: {}", "line 2: design is {}, but must be a list"),
    ("name: s\ndesign:\n- {}", "line 3: design[0] is empty"),
    ("name: s\ndesign:\n- {grdi: 1}", "unknown key 'design[0].grdi'; the nearest valid one is"),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [1]}\n  list: [{optimizer: SGD, lr: 1}]",
        "line 3: design[0] must be one of grid, list, random, and is grid and list",
    ),
    ("name: s\ndesign:\n- grid: {lr: [1]}", "design[0].grid lacks the key 'optimizer'"),
    ("name: s\ndesign:\n- grid: {optimizer: [SGD]}", "design[0].grid lacks the key 'lr'"),
    (
        "name: s\ndesign:\n- grid: {optimizer: SGD, lr: [1]}",
        'design[0].grid.optimizer is "SGD", but must be a list',
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SDG], lr: [1]}",
        "design[0].grid.optimizer[0]: no optimizer 'SDG' is known; nearest: 'SGD'",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [fast]}",
        'design[0].grid.lr[0] is "fast", but must be of type number',
    ),
    (
        "name: s\ndesign:\n- grid:\n    optimizer: [SGD]\n    lr: [-1]",
        "line 5: design[0].grid.lr[0]: -1 is less than the minimum of 0",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [1], steps: [0]}",
        "design[0].grid.steps[0]: 0 is less than the minimum of 1",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [1], dtype: [float16]}",
        'design[0].grid.dtype[0] is "float16"; allowed: float32, float64',
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [1], problem: [a2]}",
        "design[0].grid.problem[0]: no problem 'a2' is known; nearest: 'a1'",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [1], burn: [default]}",
        'design[0].grid.burn[0] is "default"; allowed: aligned, defaults',
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [1], options: {momentun: [1]}}",
        "design[0].grid.options.momentun[0]: SGD has no option 'momentun'; nearest: 'momentum'",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [SGD], lr: [1], options: {nesterov: [1]}}",
        "nesterov of SGD is 1, but must be true or false",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [Adam], lr: [1], options: {betas: [0.9]}}",
        "betas of Adam is 0.9, but must be a list of 2",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [Adam], lr: [1], options: {'betas[2]': [0.9]}}",
        "betas of Adam has no element [2]",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [Adam], lr: [1], options: {eps: []}}",
        "design[0].grid.options.eps is empty",
    ),
    (
        "name: s\ndesign:\n- grid: {optimizer: [Adam], lr: [1], burn_options: {epsilom: [1]}}",
        "burn's AdamConfig has no 'epsilom'; nearest: 'epsilon'",
    ),
    (
        "name: s\ndesign:\n- list: [{optimizer: SGD, lr: 1, clip: {scope: all}}]",
        "design[0].list[0].clip: scope is 'all'; allowed: global, per-parameter, value",
    ),
    (
        "name: s\ndesign:\n- list: [{optimizer: SGD, lr: 1, clip: {scope: value, max_norm: 1}}]",
        "clip of scope value has no key 'max_norm'; nearest: 'clip_value'",
    ),
    (
        "name: s\ndesign:\n- list: [{optimizer: SGD, lr: 1, clip: {scope: global, max_norm: 0}}]",
        "max_norm is 0, not a number above 0",
    ),
    (
        "name: s\ndesign:\n- list: [{optimizer: SGD, lr: 1, clip: {scope: global}}]",
        "clip of scope global lacks the key 'max_norm'",
    ),
    ("name: s\ndesign:\n- list: [{optimizer: SGD}]", "design[0].list[0] lacks the key 'lr'"),
    (
        "name: s\ndesign:\n- list: [{optimizer: SGD, lr: 1, option: {}}]",
        "unknown key 'design[0].list[0].option'; the nearest valid one is 'options'",
    ),
    (
        "name: s\ndesign:\n- random: {n: 2, axes: {optimizer: SGD, lr: 1}}",
        "design[0].random lacks the key 'seed'",
    ),
    (
        "name: s\ndesign:\n- random: {n: 2, seed: 1, axes: {lr: {uniform: [2, 1]}, optimizer: S}}",
        "uniform is [2, 1], but must be two numbers, the least and the most",
    ),
    (
        "name: s\ndesign:\n"
        "- random: {n: 2, seed: 1, axes: {optimizer: SGD, lr: {log_uniform: [0, 1]}}}",
        "log_uniform is [0, 1], but must be two numbers above 0",
    ),
    (
        "name: s\ndesign:\n- random: {n: 2, seed: 1, axes: {optimizer: SGD, lr: {normal: [0, 1]}}}",
        "design[0].random.axes.lr: lr is {\"normal\": [0, 1]}, but must be of type number",
    ),
    (
        "name: s\ndesign:\n- random: {n: 2, seed: 1, axes: {optimizer: {choice: []}, lr: 1}}",
        "choice is [], but must be a list of values",
    ),
    (f"name: s\nbatch_size: 0\n{GRID}", "line 2: batch_size: 0 is less than the minimum of 1"),
    (f"name: s\ntolerance: small\n{GRID}", 'tolerance is "small", but must be of type number'),
    (f"name: s\nquantities: [los]\n{GRID}", 'quantities[0] is "los"; allowed: loss, param'),
    (f"name: s\nbatch_size: 010\n{GRID}", "010 could be read as more than one number"),
    ("name: [", "not valid YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PitbError) as found:
        design.read(path)
    assert sentence in str(found.value)
    assert str(found.value).startswith(str(path))
    assert "\n" not in str(found.value)


def test_the_sizes_of_batches_that_were_measured_are_a_table(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(root / "bench"))
    bench = importlib.import_module("sweeps")
    verdicts = itertools.repeat("5 OK")
    seconds = itertools.cycle([9.0, 8.0, 9.0, 10.0])  # two turns of two sizes

    def measure(runs: int, size: int) -> dict[str, Any]:
        found = {"batches": runs // size, "processor_s": 8.0, "peak_gb": 1.25}
        return {**found, "seconds": next(seconds), "said": next(verdicts)}

    monkeypatch.setattr(bench, "measure", measure)
    found = {"repeats": 2, **bench.measure_sizes(1024, [64, 512], 2)}
    content = {"batch_sizes": found, "sweep_5000": None}
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/bench.json").write_text(json.dumps(content))
    lines = measured.batch_sizes(tmp_path, "en").splitlines()
    assert lines[2:] == [
        "| 64 | 16 | 9.0 s | 8.0 s | 1.25 GB |",  # as long in both turns
        "| 512 (default) | 2 | 9.0 s (8.0–10.0) | 8.0 s | 1.25 GB |",
    ]
    assert "512（默认）" in measured.batch_sizes(tmp_path, "zh")
    verdicts = itertools.cycle(["5 OK", "4 OK"])
    with pytest.raises(SystemExit, match="differ in their verdicts"):
        bench.measure_sizes(1024, [64, 512], 1)


def test_the_plan_removes_what_another_left(tmp_path: Path, root: Path) -> None:
    for name in ("traces/burn-3of8.parquet", "outcomes/3of8.parquet", "runs.parquet"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"")
    kept = tmp_path / "traces/burn-0of1.parquet"
    kept.write_bytes(b"")
    plan.write(root / "config/sweeps/example.yaml", tmp_path)
    left = sorted(path.name for path in tmp_path.rglob("*.parquet"))
    assert left == ["burn-0of1.parquet"]


def test_what_the_plan_cannot_remove_is_named(tmp_path: Path, root: Path) -> None:
    (tmp_path / "traces/mine").mkdir(parents=True)
    with pytest.raises(PitbError, match=r"cannot remove .*traces/mine: "):
        plan.write(root / "config/sweeps/example.yaml", tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("0of1.json", None), ("sweep.json", None), ("sweep.json", "{"), ("sweep.json", "{}")],
)
def test_a_plan_that_lacks_something_is_written_anew(
    tmp_path: Path, root: Path, name: str, content: str | None
) -> None:
    file = root / "config/sweeps/example.yaml"
    plan.write(file, tmp_path)
    changed = tmp_path / "plan" / name
    whole = changed.read_text(encoding="utf-8")
    changed.unlink()
    if content is not None:
        changed.write_text(content, encoding="utf-8")
    plan.write(file, tmp_path)
    assert changed.read_text(encoding="utf-8") == whole


def test_a_batch_of_another_plan_is_refused(tmp_path: Path, root: Path) -> None:
    plan.write(root / "config/sweeps/example.yaml", tmp_path)
    found = json.loads((tmp_path / "plan/0of1.json").read_text())
    assert len(plan.read_batch(tmp_path / "plan", "0of1", found["digest"])["points"]) == 52
    with pytest.raises(PitbError, match="was edited during the run"):
        plan.read_batch(tmp_path / "plan", "0of1", "another")


def test_a_plan_that_is_the_same_removes_nothing_and_another_tolerance_is_another(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s.yaml"
    text = "name: s\ndesign:\n- list: [{optimizer: SGD, lr: 1}]\n"
    path.write_text(text)
    plan.write(path, tmp_path)
    table = tmp_path / "runs.parquet"
    table.write_bytes(b"")
    plan.write(path, tmp_path)
    assert table.exists()
    path.write_text(f"tolerance: 1e-3\n{text}")
    plan.write(path, tmp_path)
    assert not table.exists()
    assert plan.read_batch(tmp_path / "plan", "0of1")["tolerance"] == 1e-3
