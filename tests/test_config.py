from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitb import batches, config
from pitb.errors import PitbError


@pytest.fixture(scope="session")
def files(root):
    return root / "config/config.yaml", root / "config/schema.json"


@pytest.fixture(scope="session")
def loaded(files):
    return config.load([files[0]], files[1])


# The names that results are found by.
RUNS = {
    "pytorch": "sgd sgdm adamw rmsprop adagrad clip-global clip-per-parameter",
    "burn": (
        "sgd sgd-f32-inputs sgdm adamw rmsprop adagrad sgdm-aligned adamw-aligned "
        "rmsprop-aligned adagrad-aligned adamw-only-eps adamw-only-wd rmsprop-only-eps "
        "rmsprop-only-mom clip-norm clip-global"
    ),
}


@pytest.mark.parametrize("side", RUNS)
def test_the_pages_runs_are_all_there(loaded, side):
    assert {run.name for run in loaded.runs if run.side == side} == set(RUNS[side].split())


def test_only_the_f32_inputs_are_exempt_from_the_preflight(loaded):
    exempt = [pair.b for pair in loaded.pairs if pair.initial_state_may_differ]
    assert exempt == ["burn/sgd-f32-inputs"]


CASES = [
    (
        "tolerance: 1e-6",
        "tolerence: 1e-6",
        "unknown key 'tolerence'; the nearest valid one is 'tolerance'",
    ),
    ("tolerance: 1e-6", "tolerance: no", 'tolerance is "no", but must be of type number'),
    ("tolerance: 1e-6", "tolerance: '1e-6'", 'tolerance is "1e-6", but must be of type number'),
    ("tolerance: 1e-6", "tolerance: -1", "tolerance: -1 is less than the minimum"),
    ("tolerance: 1e-6", "tolerance: .nan", r"\(key tolerance\): .nan is not a finite number"),
    ("tolerance: 1e-6", "", "the configuration lacks the key 'tolerance'"),
    ("threads: 1", "threads: 010", r"\(key threads\): 010 could be read as more than one number"),
    ("threads: 1", "threads: 1.5", "threads is 1.5, but must be of type integer"),
    ("threads: 1", "threads: 0", "threads: 0 is less than the minimum of 1"),
    ("threads: 1", "threads: true", "threads is true, but must be of type integer"),
    ("threads: 1", "threads: 1\nthreads: 2", "key 'threads' was given before"),
    ("steps: 10}", "step: 10}", "the nearest valid one is 'steps'"),
    (
        "steps: 10}",
        "steps: 10, frozen: [fc2.bias, fc1.wieght]}",
        "line .*: a1 has no tensor 'fc1.wieght'; the nearest is 'fc1.weight'",
    ),
    ("steps: 10}", "steps: 10, problem: tied, frozen: [fc1.wait]}", "tied has no tensor"),
    ("steps: 10}", "steps: 10, frozen: fc1.bias}", r'frozen is "fc1.bias", but must be a list'),
    ("steps: 10}", "steps: 10, frozen: [1]}", r"frozen\[0\] is 1, but must be text"),
    ("steps: 10}", "steps: ten}", 'steps is "ten", but must be of type integer'),
    ("lr: 0.1", "lr: 1e999", "lr is not a finite number"),
    ("program: clip", "program: clp", r"program is \"clp\"; allowed: .* \(nearest: clip\)"),
    ("scope: per-parameter", "scope: per-param", r"nearest: per-parameter"),
    ("max_norm: 0.1", "max_norm: 0", "less than or equal to the minimum of 0"),
    ("b: burn/clip-norm", "b: burn/clip-nrm", r"which is no run; the nearest is 'burn/clip-norm'"),
    ("b: burn/clip-norm", "b: brn/clip-norm", "is not a side and a name, such as"),
    ("    sgdm:", "    SGDM:", "line 23: runs.pytorch.SGDM: .SGDM. is not lowercase letters"),
    ("quantities: [param]", "quantities: [parm]", "is not loss, logits, grad, "),
    ("lr: 0.1", "lr: -0.1", "is less than the minimum of 0"),
    ("initial_state: float32", "initial_state: f32", "allowed: float32, float64"),
    ("quantities: [param]", "quantities: []", "quantities"),
    (
        "steps: 10}",
        "steps: 10, problem: wid}",
        "line [0-9]+: no problem 'wid' is .*nearest: 'wide'",
    ),
    ("steps: 10}", "steps: 10, dtype: f64}", 'dtype is "f64"; allowed: float32, float64'),
    (
        "{a: pytorch/adamw, b: burn/adamw-only-wd",
        "{a: pytorch/adamw, b: burn/adamw-only-eps",
        "as an earlier one does",
    ),
    (
        "pages: [one-step,",
        "pages: [one-stop,",
        "pages.0. is .one-stop.; allowed: .*nearest: one-step",
    ),
    (
        "    adamw-only-wd:",
        "    adamw-only:",
        "page 'optimizer-defaults' needs the run 'burn/adamw-only-wd'|is no run",
    ),
    (
        "  - {a: pytorch/sgd, b: burn/sgd,",
        "  - {a: pytorch/sgd, b: burn/sgdm,",
        "page 'one-step' needs 'pytorch/sgd' compared with 'burn/sgd'",
    ),
    ("runs:\n", "runs: 3\nx:\n", "unknown key 'x'|runs is 3"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), CASES, ids=[case[1][:30] for case in CASES])
def test_a_mistake_is_refused_in_one_sentence(files, tmp_path, old, new, sentence):
    text = files[0].read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "changed.yaml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PitbError, match=sentence) as caught:
        config.load([path], files[1])
    assert "changed.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_line_of_a_mistake_is_named(files, tmp_path):
    lines = files[0].read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(lines) if line.startswith("    adagrad:"))
    lines[number] = lines[number].replace("steps: 10", "steps: -1")
    path = tmp_path / "changed.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(PitbError, match=f"line {number + 1}: runs.pytorch.adagrad.steps"):
        config.load([path], files[1])


def test_later_files_and_overrides_win(files, tmp_path):
    path = tmp_path / "more.yaml"
    path.write_text("threads: 2\nruns: {burn: {lion: {optimizer: Lion, lr: 0.1, steps: 2}}}\n")
    found = config.load([files[0], path], files[1], {"tolerance": "1e-3"})
    assert (found.threads, found.tolerance) == (2, 1e-3)
    assert "burn/lion" in [run.id for run in found.runs]
    with pytest.raises(PitbError, match="--config: unknown key 'tolerances'"):
        config.load([files[0]], files[1], {"tolerances": 1})
    with pytest.raises(PitbError, match="--config threads: 010"):
        config.load([files[0]], files[1], {"threads": "010"})


def test_comparisons_of_a_later_file_are_added(files, tmp_path):
    path = tmp_path / "more.yaml"
    pair = "{a: pytorch/sgd, b: burn/sgdm, quantities: [loss]}"
    path.write_text(f"comparisons:\n  - {pair}\n  - {pair}\n")
    with pytest.raises(PitbError, match=r"more\.yaml, line 3: .* as an earlier one does"):
        config.load([files[0], path], files[1])
    path.write_text("comparisons: 3\n")
    with pytest.raises(PitbError, match="comparisons is 3, but must be a list"):
        config.load([files[0], path, path], files[1])
    path.write_text(f"comparisons:\n  - {pair}\n")
    assert len(config.load([files[0], path], files[1]).pairs) == 18


def test_a_batch_knows_every_file_it_writes(loaded):
    outputs = [
        path
        for name, batch in batches.all_batches(loaded).items()
        if "runs" in batch
        for path in batches.outputs(batch, name.removeprefix("burn-").rsplit("-", 1)[0])
    ]
    assert len(outputs) == len(set(outputs)) == 23 + 3 + 2


@given(st.sets(st.text("abc", min_size=1, max_size=5), min_size=1, max_size=30), st.text("abc"))
def test_a_new_run_moves_no_other_to_another_batch(names, new):
    def assigned(names):
        runs = tuple(config.Run("burn", name, "optdef", {}, {}) for name in sorted(names))
        base = config.Config(1e-6, 1, 64, runs, (), ())
        return {run.name: n for n, batch in base.batches("burn").items() for run in batch}

    before, after = assigned(names), assigned(names | {new})
    assert all(after[name] == before[name] for name in names)


def test_moving_a_run_in_the_file_changes_no_digest(loaded):
    moved = replace(
        loaded, runs=tuple(replace(run, sources={"options": "elsewhere"}) for run in loaded.runs)
    )
    for before, after in zip(
        batches.pytorch_batches(loaded).values(),
        batches.pytorch_batches(moved).values(),
        strict=True,
    ):
        assert before != after
        assert batches.digest_of(before) == batches.digest_of(after)


def test_the_problems_that_runs_name_go_with_their_batch(files, tmp_path):
    added = tmp_path / "more.yaml"
    run = "{optimizer: Sgd, lr: 0.1, steps: 1, problem: wide, dtype: float64}"
    added.write_text(f"pages: []\nruns:\n  burn:\n    wide: {run}\n", encoding="utf-8")
    (batch,) = batches.burn_batches(config.load([files[0], added], files[1]), "optdef").values()
    assert list(batch["problems"]) == ["wide"]
    (batch,) = batches.burn_batches(config.load([files[0]], files[1]), "optdef").values()
    assert "problems" not in batch


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("{}", ()),
        ("{burn: [], torch: []}", ()),
        ("{burn: [0.21.0, 0.23.0-pre.1]}", (("burn", "0.21.0"), ("burn", "0.23.0-pre.1"))),
        ("{torch: [2.14.1], burn: [0.21.0]}", (("torch", "2.14.1"), ("burn", "0.21.0"))),
    ],
)
def test_watched_versions_are_read_in_order(files, tmp_path, given, found):
    more = tmp_path / "more.yaml"
    more.write_text(f"watch: {given}\n")
    merged = config.load([files[0], more], files[1])
    assert set(merged.watch) == set(found)
    assert [v for lib, v in merged.watch if lib == "burn"] == [
        v for lib, v in found if lib == "burn"
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("{burn: [0.21]}", r"watch\.burn\[0\]"),
        ("{burn: ['latest']}", "a version in full"),
        ("{burn: ['../x']}", "a version in full"),
        ("{burn: ['0.21.0', '0.21.0']}", r"watch\.burn"),
        ("{rust: []}", "unknown key 'watch.rust'"),
        ("[0.21.0]", "watch"),
    ],
)
def test_what_is_no_version_is_refused(files, tmp_path, given, sentence):
    more = tmp_path / "more.yaml"
    more.write_text(f"watch: {given}\n")
    with pytest.raises(PitbError, match=sentence):
        config.load([files[0], more], files[1])
