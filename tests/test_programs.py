import json
import os
import re
import subprocess
import sys

import pytest

from pitb import a1, trace
from pitb.cargo import PROGRAMS


def run(*command):
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert "Traceback" not in ended.stderr
    assert "panicked" not in ended.stderr
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_burn_program_explains_itself(programs, name):
    code, printed, _ = run(programs / name, "--help")
    assert code == 0
    assert "Examples:" in printed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["optdef", "RmsProp", "--lr", "0.01", "--set", "eps=1e-8"], 'the nearest is "epsilon"'),
        (["optdef", "Rmsprop", "--lr", "0.01"], 'the nearest is "RmsProp"'),
        (["optdef", "RmsProp", "--lr", "0.01", "--set", "centered=no"], "not JSON"),
        (["optdef", "RmsProp", "--lr", "nan"], "not a finite number of 0 or more"),
        (["optdef", "RmsProp"], "--lr"),
        (["optdef", "RmsProp", "--lr", "0.1", "--steps", "0"], "must be 1 or more"),
        (["optdef", "RmsProp", "--lr", "0.1", "--set", "epsilon=1e-50"], "burn reads 0"),
        (["optdef", "RmsProp", "--runs", "a", "--traces", "b"], "cannot be used with"),
        (["optdef", "Muon", "--lr", "0.01"], "ended early"),
        (["optdef", "--runs", "missing.json", "--traces", "x"], "missing.json"),
        (["train-step", "--json", "/dev/null/x.json"], "cannot"),
        (["train-step", "--json", "/"], "it is a folder"),
        (["clip"], "HOW"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_2(programs, tmp_path, arguments, sentence):
    ended = subprocess.run(
        [programs / arguments[0], *arguments[1:]], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 2
    assert "panicked" not in ended.stderr
    assert sentence in ended.stderr


@pytest.mark.parametrize("name", ["moves", "optdef", "train-step", "discard"])
def test_an_output_that_closes_is_no_panic(programs, name):
    arguments = {"optdef": ["Sgd", "--lr", "0.1", "--steps", "3000"]}.get(name, [])
    reading, writing = os.pipe()
    os.close(reading)
    command = [programs / name, *arguments]
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: cannot write to the output")


@pytest.mark.parametrize(
    ("script", "arguments", "sentence"),
    [
        ("optdef", ["SGD", "--lr", "0.1", "--threads", "0"], "not from 1 to 1024"),
        ("optdef", ["SGD", "--lr", "0.1", "--set", "momentum=NaN"], "not JSON"),
        ("optdef", ["SGD", "--lr", "0.1", "--steps", "-1"], "must be finite and 1 up"),
        ("optdef", ["SGD", "--lr", "nan"], "must be finite"),
        ("clip", ["global", "--max-norm", "nan"], "not a finite number above 0"),
        ("train_step", ["--json", "/"], "it is a folder"),
        ("train_step", ["--runs", "a"], "must be given together"),
    ],
)
def test_a_mistake_in_a_script_is_exit_code_2(root, script, arguments, sentence):
    code, _, error = run(sys.executable, root / f"scripts/{script}.py", *arguments)
    assert code == 2
    assert sentence in error


def keys(value, path=""):
    """Paths and lengths of everything in a JSON value."""
    if isinstance(value, dict):
        return [key for name, inner in value.items() for key in keys(inner, f"{path}.{name}")]
    if isinstance(value, list):
        return [(path, len(value)), *keys(value[0], f"{path}[]")]
    return [path]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("script", "program"),
    [
        (["train_step"], ["train-step"]),
        (
            ["optdef", "SGD", "--lr", "0.1", "--steps", "2"],
            ["optdef", "Sgd", "--lr", "0.1", "--steps", "2"],
        ),
        (["clip", "global"], ["clip", "global"]),
    ],
)
def test_both_sides_write_json_of_one_structure(root, programs, tmp_path, script, program):
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    assert run(sys.executable, root / f"scripts/{script[0]}.py", *script[1:], "--json", a)[0] == 0
    assert run(programs / program[0], *program[1:], "--json", b)[0] == 0
    assert keys(json.loads(a.read_text())) == keys(json.loads(b.read_text()))
    code, printed, _ = run(sys.executable, root / "scripts/compare.py", a, b)
    assert code == 0
    assert printed.endswith("OK\n")


def test_inputs_computed_in_f32_fail_the_preflight(root, programs, tmp_path):
    once, throughout = tmp_path / "once.parquet", tmp_path / "throughout.parquet"
    run(programs / "train-step", "--trace", once)
    run(programs / "train-step", "--initial-state", "float32", "--trace", throughout)
    code, printed, error = run(sys.executable, root / "scripts/compare.py", once, throughout)
    assert code == 2
    assert printed == ""
    assert error == (
        "error: initial state differs: x[3] -0.20000000298023224 vs -0.19999998807907104\n"
    )


def test_moves_prints_the_page_from_what_it_records(programs, tmp_path):
    path = tmp_path / "moves.json"
    assert run(programs / "moves", "--json", path) == (0, "", "")
    found = json.loads(path.read_text())
    assert [key["name"] for key in found["step"]["keys"]] == list(a1.parameters())
    _, printed, _ = run(programs / "moves")
    # Random at each run, so the printed ids are not the recorded ones.
    assert not any(key["id"] in printed for key in found["step"]["keys"])
    step = found["step"]
    assert re.sub(r"id \w+", "id ID", printed).splitlines() == [
        "GradientsParams.len()    4",
        "  fc1.weight id ID  get::<2> is_some = true",
        "  fc2.weight id ID  get::<2> is_some = true",
        f"  fc2.bias   id ID  get::<1> = Some({step['fc2.bias.grad']})",
        f"fc2.bias before          {step['before']}",
        f"fc2.bias after step      {step['after']}",
        f"clone taken before step  {step['before']}",
        "fc2.bias ParamId unchanged: true",
        "param still require_grad: true",
        "from_grads(.., &other).len() = 0",
        "other fc2.bias changed by step: false",
    ]


def test_a_step_that_cannot_be_made_is_json_and_the_others_go_on(programs, tmp_path):
    runs = [
        {"id": f"burn/{name.lower()}", "optimizer": name, "lr": 0.1, "steps": 1}
        for name in ("Muon", "Sgd")
    ]
    (tmp_path / "runs.json").write_text(json.dumps({"runs": runs}))
    folders = ("--traces", tmp_path, "--jsons", tmp_path)
    assert run(programs / "train-step", "--runs", tmp_path / "runs.json", *folders)[0] == 0
    assert "2D" in json.loads((tmp_path / "burn/muon.json").read_text())["error"]
    assert json.loads((tmp_path / "burn/sgd.json").read_text())["loss"] > 1


def test_all_defaults_of_burn_are_printed(programs):
    _, printed, _ = run(programs / "optdef", "--defaults")
    found = json.loads(printed)
    assert len(found) == 12  # eleven optimizers, and momentum's own
    assert found["RmsPropConfig"]["debug"].startswith("RmsPropConfig { alpha: 0.99, momentum: 0.9")


def test_the_list_of_names_is_that_of_burn(programs):
    from pitb import defaults
    from pitb.registry import optimizers

    found = json.loads(run(programs / "optdef", "--defaults")[1])
    for optimizer in optimizers():
        for item in optimizer.hyperparameters:
            defaults.burn_default(found, optimizer, item)


MUON = """
tolerance: 1e-6
threads: 1
batch_size: 10
pages: []
runs:
  pytorch:
    muon: {optimizer: Muon, lr: 0.01, steps: 3, frozen: [fc1.bias, fc2.bias]}
  burn:
    muon: {optimizer: Muon, lr: 0.01, steps: 3, frozen: [fc1.bias, fc2.bias]}
comparisons: []
"""


@pytest.mark.torch
def test_muon_trains_a1_from_a_configuration_that_freezes_the_biases(root, programs, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(MUON)
    common = ("--config", path, "--schema", root / "config/schema.json", "--results", tmp_path)
    for script, batch, more in (
        ("train_pytorch", "pytorch-0", ()),
        ("train_burn", "burn-optdef-0", ("--program", programs / "optdef")),
    ):
        ended = run(sys.executable, root / f"scripts/{script}.py", batch, *common, *more)
        assert ended[0] == 0, ended
    for side in ("pytorch", "burn"):
        found = trace.read(tmp_path / f"traces/{side}/muon.parquet")
        assert found.error is None
        assert found.configuration["frozen"] == ["fc1.bias", "fc2.bias"]
        for entry in found.select(0, "param"):
            before, after = (found.find(step, "param", entry.tensor) for step in (0, 3))
            assert (before == after).all() == entry.tensor.endswith("bias"), entry.tensor


# One interpreter for all, since starting one for each is what would cost.
HELP = """
import contextlib, io, json, runpy, sys
found = {}
for path in sys.argv[1:]:
    printed, code = io.StringIO(), None
    sys.argv = [path, "--help"]
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(path, run_name="__main__")
    except SystemExit as error:
        code = error.code
    found[path] = [code, printed.getvalue()]
    heavy = sorted({"torch", "snakemake", "matplotlib"} & set(sys.modules))
    assert not heavy, (path, heavy)
print(json.dumps(found))
"""


def test_every_script_has_a_help_with_an_example_of_itself(root):
    paths = sorted((root / "scripts").glob("*.py"))
    path = str(root / "scripts")
    ended = subprocess.run(
        [sys.executable, "-c", HELP, *map(str, paths)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert len(found) == len(paths) > 20
    for name, (code, printed) in found.items():
        assert code == 0, name
        _, mark, examples = printed.partition("\nexamples:\n")
        assert mark, name
        assert f"scripts/{os.path.basename(name)}" in examples, name
