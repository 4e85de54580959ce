import json
import subprocess
import sys

import pytest

from pitb import a1

BURN = ["train-step", "optdef", "clip", "moves", "discard"]
SCRIPTS = ["train_step", "optdef", "clip", "one_moves", "compare"]


def run(*command):
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert "Traceback" not in ended.stderr
    assert "panicked" not in ended.stderr
    return ended.returncode, ended.stdout, ended.stderr


@pytest.mark.parametrize("name", BURN)
def test_every_burn_program_explains_itself(programs, name):
    code, printed, _ = run(programs / name, "--help")
    assert code == 0
    assert "Examples:" in printed


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_explains_itself(root, name):
    code, printed, _ = run(sys.executable, root / f"scripts/{name}.py", "--help")
    assert code == 0
    assert "examples:" in printed


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["optdef", "RmsProp", "--lr", "0.01", "--set", "eps=1e-8"], 'the nearest is "epsilon"'),
        (["optdef", "Rmsprop", "--lr", "0.01"], 'the nearest is "RmsProp"'),
        (["optdef", "RmsProp", "--lr", "0.01", "--set", "centered=no"], "not JSON"),
        (["optdef", "RmsProp", "--lr", "nan"], "not a finite number"),
        (["optdef", "RmsProp"], "--lr"),
        (["optdef", "Muon", "--lr", "0.01"], "ended early"),
        (["optdef", "--runs", "missing.json", "--traces", "x"], "missing.json"),
        (["train-step", "--json", "/dev/null/x.json"], "cannot"),
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


def test_moves_prints_what_it_records(programs, tmp_path):
    path = tmp_path / "moves.json"
    assert run(programs / "moves", "--json", path) == (0, "", "")
    found = json.loads(path.read_text())
    _, printed, _ = run(programs / "moves")
    assert f"fc2.bias after step      {found['step']['after']}\n" in printed
    # Random at each run, so the printed ids are not the recorded ones.
    assert [key["name"] for key in found["step"]["keys"]] == list(a1.parameters())
    assert not any(key["id"] in printed for key in found["step"]["keys"])


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
