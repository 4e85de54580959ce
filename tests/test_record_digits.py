import json
import os
import signal
import subprocess
import sys
import time

import pytest

from pitb import compare, parts, trace

pytestmark = [pytest.mark.pipeline, pytest.mark.torch]


@pytest.fixture(scope="module")
def program(root):
    found = root / "target/release/examples/digits"
    if not found.exists():
        pytest.fail("the worked example is not built; run make digits first")
    return found


@pytest.fixture(scope="module")
def data(root, tmp_path_factory):
    path = tmp_path_factory.mktemp("digits") / "data.json"
    python(root, "data", path)
    return path


def python(root, *arguments):
    command = [sys.executable, root / "examples/digits/digits.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(root / "scripts")}
    subprocess.run(list(map(str, command)), env=environment, check=True)


@pytest.fixture(scope="module")
def traces(root, program, data):
    folder = data.parent
    python(root, "train", data, "--trace", folder / "pytorch")
    subprocess.run([program, data, folder / "naive"], check=True)
    subprocess.run([program, data, folder / "fixed", "--fixed"], check=True)
    return folder


def judge(root, traces, naive, fixed):
    command = [sys.executable, root / "scripts/compare_digits.py", traces / "pytorch"]
    command += [traces / naive, traces / fixed, "--out", traces / "summary.md"]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True)


def test_the_naive_port_differs_and_the_fixed_one_does_not(root, traces):
    assert judge(root, traces, "naive", "fixed").returncode == 0
    summary = (traces / "summary.md").read_text()
    assert "MISMATCH" in summary and "holds" in summary


def test_the_judgement_fails_where_the_two_are_mixed_up(root, traces):
    found = judge(root, traces, "fixed", "naive")
    assert found.returncode == 2
    assert "should give MISMATCH, and gives OK" in found.stderr


def diagnose(root, traces, naive, fixed):
    command = [sys.executable, root / "scripts/diagnose_digits.py", traces / "pytorch"]
    command += [traces / naive, traces / fixed, "--script", root / "examples/digits/digits.py"]
    command += ["--out", traces / "diagnosis.md"]
    environment = {**os.environ, "PYTHONPATH": str(root / "scripts")}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)


def test_the_diagnosis_names_the_fix_that_the_port_writes(root, traces):
    ended = diagnose(root, traces, "naive", "fixed")
    assert ended.returncode == 0, ended.stderr
    text = (traces / "diagnosis.md").read_text()
    assert "set eps to 1e-5 and weight_decay to 0.0001 in the first, or eps to 1e-8 and" in text
    assert ".with_epsilon(1e-8)" in text and ".with_weight_decay(0.01)" in text
    assert "nothing needs to change" in text


def test_the_diagnosis_fails_where_the_two_are_mixed_up(root, traces):
    ended = diagnose(root, traces, "fixed", "naive")
    assert ended.returncode == 2
    assert "should need a change, and none was found" in ended.stderr


def test_both_sides_record_the_same(traces):
    pytorch, burn = trace.read(traces / "pytorch"), trace.read(traces / "fixed")
    listed = [[(*entry.key, entry.shape) for entry in run.entries] for run in (pytorch, burn)]
    assert listed[0] == listed[1]
    assert pytorch.metadata["model"] == burn.metadata["model"]
    assert pytorch.configuration["steps"] == burn.configuration["steps"] == 200


def test_states_stand_under_the_same_names(traces):
    found = compare.compare_files(
        traces / "pytorch", traces / "fixed", 1e-5, ["state.exp_avg", "state.exp_avg_sq", "grad"]
    )
    assert found.verdict == compare.OK


def test_a_killed_burn_training_leaves_a_trace(program, data, tmp_path):
    command = [program, data, tmp_path / "killed", "--every", "1", "--repeat", "1000000"]
    training = subprocess.Popen(command)
    deadline = time.monotonic() + 50
    while not parts.part_path(tmp_path / "killed", 3).exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    training.send_signal(signal.SIGKILL)
    training.wait()
    killed = trace.read(tmp_path / "killed")
    last = killed.entries[-1].step
    assert killed.unfinished.startswith(f"recorded to step {last} and not ended")
    repeat = str(last // len(json.loads(data.read_text())["batches"]) + 1)
    whole = [program, data, tmp_path / "whole", "--every", "1", "--repeat", repeat]
    subprocess.run(whole, check=True)
    found = compare.compare_files(tmp_path / "killed", tmp_path / "whole", 0.0)
    assert all(row.verdict == compare.OK for row in found.rows)
    assert found.partial.startswith(f"only steps up to {last} are compared: burn/killed was")
