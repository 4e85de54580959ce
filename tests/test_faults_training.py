"""A side's training that is killed, hangs, lies or writes half a file, wherever it is called."""

import json
import os

import pytest

from clones import copy_project, snakemake
from pitb.sweeps import plan
from standins import HALF, POSIX, fake_torch, script, stand_in
from test_breadth_inputs import VALID

pytestmark = POSIX

CONFIG = """tolerance: 1e-6
threads: 1
batch_size: 10
time_limit: 60
pages: []
comparisons: []
runs:
  pytorch: {x: {optimizer: SGD, lr: 0.1, steps: 1}}
  burn: {x: {optimizer: Sgd, lr: 0.1, steps: 1}}
"""
SWEEP = """name: small
batches: 1
design:
  - list: [{optimizer: SGD, lr: 0.1, steps: 1}]
"""
LIMIT = 0.3
"""Seconds of one program; what ends at once takes less."""
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
ASLEEP = "time.sleep(60)"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a configuration, the plan of a sweep and that of an optimizer's breadth."""
    folder = tmp_path_factory.mktemp("training 训练")
    (folder / "config/sweeps").mkdir(parents=True)
    (folder / "config/config.yaml").write_text(CONFIG)
    (folder / "config/sweeps/small.yaml").write_text(SWEEP)
    plan.write(folder / "config/sweeps/small.yaml", folder / "results/sweeps/small")
    (folder / "plan.json").write_text(json.dumps(VALID["plan"]))
    return folder


def words(root, work, name, out, program):
    """How a script is called, and what it must not leave behind."""
    if name.startswith("train_sweep"):
        found = ["0of1", "--plan", work / "results/sweeps/small/plan", "--out", out]
    elif name.startswith("train_breadth"):
        found = ["--plan", work / "plan.json", "--traces", out]
    else:
        found = ["pytorch-0", "--config", work / "config/config.yaml"]
        found += ["--schema", root / "config/schema.json", "--results", out]
    return [*found, "--program", program] if program else found


PYTORCH = ("train_pytorch.py", "train_sweep_pytorch.py", "train_breadth_pytorch.py")


@pytest.mark.parametrize("name", PYTORCH)
def test_pytorchs_side_that_hangs_is_one_sentence(root, work, tmp_path, name):
    arguments = words(root, work, name, tmp_path / "out", None)
    torch = fake_torch(tmp_path / "torch", ASLEEP)
    code, error = script(root, work, name, *arguments, limit=LIMIT, path=torch)
    assert code == 2
    assert " took longer than 0.3 s and was ended; time_limit in the configuration says" in error
    assert len(error.splitlines()) == 1
    assert not list(tmp_path.glob("out/**/*"))


def test_pytorchs_side_of_the_breadth_that_is_killed_is_one_sentence(root, work, tmp_path):
    arguments = words(root, work, PYTORCH[2], tmp_path / "out", None)
    torch = fake_torch(tmp_path / "torch", KILLED)
    code, error = script(root, work, PYTORCH[2], *arguments, path=torch)
    assert (code, error) == (2, "error: PyTorch's side was ended by signal 9, SIGKILL\n")
    assert not list(tmp_path.glob("out/**/*"))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("kill -SEGV $$", "optdef was ended by signal 11, SIGSEGV"),
        ("exit 7", "optdef failed with exit code 7"),
        ("echo noise", "optdef ended without writing "),
        ("exec sleep 60", "optdef took longer than 0.3 s and was ended"),
        (f"printf '{HALF.decode()}' > \"$4\"", "unfinished: it is no whole Parquet file"),
        ("printf 'PAR1\\0\\0\\0\\0PAR1' > \"$4\"", "is not a readable Parquet file"),
    ],
)
def test_burns_side_of_a_sweep_that_fails_is_one_sentence(root, work, tmp_path, body, sentence):
    program = stand_in(tmp_path / "bin", "optdef", body)
    name, out = "train_sweep_burn.py", tmp_path / "traces/out.parquet"
    code, error = script(root, work, name, *words(root, work, name, out, program), limit=LIMIT)
    assert code == 2
    assert error.startswith("error: ") and sentence in error
    assert len(error.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("body", "code", "sentence"),
    [
        ("kill -SEGV $$", 2, "error: optdef was ended by signal 11, SIGSEGV\n"),
        ("echo 'error: no' >&2; exit 7", 7, "error: no\n"),
        ("exec sleep 60", 2, "error: optdef took longer than 0.3 s and was ended; "),
        ('mkdir -p "$4/burn"; printf half > "$4/burn/x.parquet"', 2, "x.parquet unfinished: it"),
    ],
)
def test_burns_side_of_the_breadth_that_fails_is_one_sentence(
    root, work, tmp_path, body, code, sentence
):
    program = stand_in(tmp_path / "bin", "optdef", body)
    name = "train_breadth_burn.py"
    arguments = words(root, work, name, tmp_path / "out", program)
    found, error = script(root, work, name, *arguments, limit=LIMIT)
    assert found == code
    assert sentence in error
    assert len(error.splitlines()) == 1


HALVES = f"""path = 'results/{{}}'
os.makedirs(os.path.dirname(path), exist_ok=True)
open(path, 'wb').write({HALF!r})
{KILLED}"""


@pytest.mark.pipeline
@pytest.mark.parametrize(
    "trace", ["traces/pytorch/x.parquet", "sweeps/small/traces/pytorch-0of1.parquet"]
)
def test_a_process_of_a_job_that_is_killed_is_said_and_nothing_stays(
    root, programs, work, tmp_path, monkeypatch, trace
):
    torch = fake_torch(tmp_path / "torch", HALVES.format(trace))
    monkeypatch.setenv("PYTHONPATH", str(torch))
    where = ("-s", root / "Snakefile", "--directory", work)
    code, printed = snakemake(work, *where, f"results/{trace}")
    assert code == 1
    said = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert said == [
        "error: a process of this job was ended by signal KILL; nothing that it left is kept"
    ]
    assert not (work / "results" / trace).exists()


@pytest.mark.pipeline
def test_what_fails_before_a_pipe_fails_the_job(root, programs, tmp_path, monkeypatch):
    """The build's output goes through a pipe, whose other end does not fail."""
    said = "echo 'error: no such edition' >&2; exit 101"
    stand_in(tmp_path / "bin", "cargo", f'test "$1" != --version || exec echo cargo 9.9.9\n{said}')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    copy_project(root, tmp_path / "work")
    target = ("target/release/optdef", "--forcerun", "build_programs")
    code, printed = snakemake(tmp_path / "work", *target)
    assert code == 1
    assert "error: no such edition" in printed
    assert "(command exited with non-zero exit code)" in printed
    assert "MissingOutputException" not in printed
