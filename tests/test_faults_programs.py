"""Programs that crash, hang or lie; a disk that is full; two pipelines at once."""

import os
import signal
import subprocess
import sys
import time

import pytest

from clones import copy_project, make, result_bytes, snakemake
from pitb import cargo, programs, running
from pitb.errors import PitbError
from standins import POSIX, script, stand_in


@POSIX
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("kill -SEGV $$", "prog was ended by signal 11, SIGSEGV"),
        ("exit 7", "prog failed with exit code 7"),
        ("exec sleep 60", "prog took longer than 0.5 s and was ended; time_limit in the conf"),
    ],
)
def test_a_program_that_fails_is_one_sentence(tmp_path, monkeypatch, body, sentence):
    monkeypatch.setenv(programs.LIMIT, "0.5")
    begun = time.monotonic()
    with pytest.raises(PitbError, match=sentence) as caught:
        programs.run([stand_in(tmp_path, "prog", body)])
    assert time.monotonic() - begun < 30
    assert "\n" not in str(caught.value)


def test_a_program_that_is_none_and_a_limit_that_is_none(tmp_path, monkeypatch):
    with pytest.raises(PitbError, match="none does not run: No such file"):
        programs.run([tmp_path / "none"])
    for text in ("x", "-1", "0", "nan", "1e99"):
        monkeypatch.setenv(programs.LIMIT, text)
        with pytest.raises(PitbError, match=f"must be a number of seconds, not '{text}'"):
            programs.limit()
    monkeypatch.setenv(programs.LIMIT, "")
    assert programs.limit() is None


def hung(root, code):
    begin = "import ctypes, time; from pitb import programs; programs.GRACE = 0.5"
    ended = subprocess.run(
        [sys.executable, "-c", f"{begin}; programs.limit_this_process('x'); {code}"],
        env={**os.environ, "PYTHONPATH": str(root / "scripts"), programs.LIMIT: "0.3"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    return ended.returncode, ended.stderr


def test_a_process_that_hangs_ends_itself(root):
    code, error = hung(root, "time.sleep(60)")
    assert code == 2
    assert error.startswith("error: x took longer than 0.3 s and was ended")


@POSIX
def test_a_process_that_hangs_and_holds_the_interpreter_is_ended(root):
    code, _ = hung(root, "ctypes.PyDLL(None).sleep(60)")
    assert code == -signal.SIGALRM


@POSIX
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("echo hello", "cargo printed a line that is not JSON: hello"),
        ("echo 3", "cargo printed a line that is not JSON: 3"),
        ("echo '{}'", "moves did not compile: cargo does not say why"),
        ("kill -9 $$", "cargo was ended by signal 9, SIGKILL"),
        ("exec sleep 60", "cargo took longer than 0.5 s"),
        ("exit 1", "moves did not compile"),
    ],
)
def test_a_compiler_that_fails_is_one_sentence(tmp_path, monkeypatch, body, sentence):
    stand_in(tmp_path, "cargo", body)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(programs.LIMIT, "0.5")
    with pytest.raises(PitbError, match=sentence):
        cargo.warnings(cargo.build(tmp_path, tmp_path / "target", "moves"), "moves")


@POSIX
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("kill -9 $$", "cargo was ended by signal 9, SIGKILL"),
        ("exec sleep 60", "cargo took longer than 0.5 s"),
        ("echo noise; echo 'error: no' >&2; exit 101", "it does not compile: error: no"),
        ("printf '\\377\\376' >&2; exit 1", "it does not compile: "),
    ],
)
def test_a_compiler_of_what_was_generated_fails_in_one_sentence(
    tmp_path, monkeypatch, body, sentence
):
    stand_in(tmp_path, "cargo", body)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(programs.LIMIT, "0.5")
    with pytest.raises(PitbError, match=sentence):
        cargo.build_generated(tmp_path, tmp_path / "target", "it")


CONFIG = """tolerance: 1e-6
threads: 1
batch_size: 10
time_limit: {limit}
pages: []
comparisons: []
runs:
  pytorch: {{x: {{optimizer: SGD, lr: 0.1, steps: 1}}}}
  burn: {{x: {{optimizer: Sgd, lr: 0.1, steps: 1}}}}
"""
TRACE = "results/traces/burn/x.parquet"


def train(root, folder, body, limit=60):
    """Train burn's run as the pipeline's job does, with a stand-in for the program."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(CONFIG.format(limit=limit))
    where = ("--config", "config.yaml", "--schema", root / "config/schema.json")
    where += ("--results", "results", "--program", body or root / "target/release/optdef")
    return script(root, folder, "train_burn.py", "burn-optdef-0", *where, limit=limit)


@POSIX
@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("kill -ABRT $$", "error: optdef was ended by signal 6, SIGABRT\n"),
        ("echo noise", f"error: optdef ended without writing {TRACE}\n"),
        (
            f"mkdir -p results/traces/burn; printf 'PAR1 and half' > {TRACE}",
            f"error: optdef left {TRACE} unfinished: it is no whole Parquet file\n",
        ),
        (f"mkdir -p results/traces/burn; : > {TRACE}", "it is no whole Parquet file\n"),
        ("exec sleep 60", "error: optdef took longer than 1 s and was ended"),
    ],
)
def test_a_burn_program_that_fails_is_one_sentence(root, tmp_path, body, sentence):
    program = stand_in(tmp_path / "bin", "optdef", body)
    code, error = train(root, tmp_path / "work", program, limit=1)
    assert code == 2
    assert sentence in error
    assert len(error.splitlines()) == 1


def mounted(folder, *options):
    """A small file system of its own, or a declared skip."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", folder]
    try:
        ended = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"there is no mount here: {error}")
    if ended.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {ended.stderr.strip()}")


@pytest.mark.pipeline
@pytest.mark.parametrize("size", ["4k", "8k"])
def test_a_full_disk_is_a_sentence_and_leaves_no_half_trace(root, programs, tmp_path, size):
    folder = tmp_path / "work"
    mounted(folder / "results", f"size={size}")
    try:
        code, error = train(root, folder, None)
        left = [path.name for path in (folder / "results/traces").rglob("*.parquet")]
    finally:
        subprocess.run(["umount", folder / "results"], check=True)
    assert code == 2
    assert "No space left on device" in error
    assert left == []


@pytest.mark.pipeline
@pytest.mark.parametrize("size", ["4k", "8k", "64k"])
def test_a_full_disk_is_a_sentence_though_the_log_is_on_it(root, programs, tmp_path, size):
    """What a job says goes to its log, which takes nothing either."""
    folder = tmp_path / "work"
    (folder / "config").mkdir(parents=True)
    (folder / "config/config.yaml").write_text(CONFIG.format(limit=60))
    mounted(folder / "results", f"size={size}")
    where = ("-s", root / "Snakefile", "--directory", folder)
    try:
        code, printed = snakemake(folder, *where, "results/traces/burn/x.parquet")
        left = [path.name for path in (folder / "results/traces").rglob("*.parquet")]
    finally:
        subprocess.run(["umount", folder / "results"], check=True)
    if size == "64k":  # the control: there it fits
        assert (code, left) == (0, ["x.parquet"]), printed
        return
    assert code != 0
    said = [line for line in printed.splitlines() if line.startswith("error: ")]
    assert len(said) == 1, printed
    assert "No space left on device" in said[0] or "is the disk full?" in said[0]
    assert left == []


@pytest.mark.pipeline
def test_a_folder_that_cannot_be_written_is_one_sentence(root, programs, tmp_path):
    folder = tmp_path / "work"
    (folder / "config").mkdir(parents=True)
    (folder / "config/config.yaml").write_text(CONFIG.format(limit=60))
    where = ("-s", root / "Snakefile", "--directory", folder)
    # A file where the folder of logs would be, to root too.
    (folder / "results").mkdir()
    (folder / "results/logs").write_text("")
    code, printed = snakemake(folder, *where)
    assert code == 2
    assert printed.splitlines()[-1] == "error: cannot write in results/logs: File exists"
    (folder / "results/logs").unlink()
    (folder / "results").rmdir()
    mounted(folder / "results", "ro")
    try:
        code, printed = snakemake(folder, *where)
    finally:
        subprocess.run(["umount", folder / "results"], check=True)
    assert code == 2
    assert printed.splitlines()[-1] == "error: cannot write in results: Read-only file system"


# -- two at once ---------------------------------------------------------------------------------


def test_a_folder_is_held_by_one_and_free_when_that_ends(root, tmp_path):
    code = "import os, sys; from pathlib import Path; from pitb import running\n"
    code += (
        "held = running.hold(Path('.'), os.getpid()); print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root / "scripts")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(PitbError, match=rf"a run is going on in .* \(process {holder.pid}\)"):
        running.hold(tmp_path, 1)
    holder.kill()
    holder.communicate()
    running.hold(tmp_path, 1).release()


@pytest.mark.pipeline
@pytest.mark.torch
def test_the_second_of_two_says_so_and_two_clones_both_work(root, programs, tmp_path):
    clones = [tmp_path / "one", tmp_path / "two 二"]
    for folder in clones:
        copy_project(root, folder, root)
    command = [sys.executable, "-m", "snakemake", "--cores", "1"]
    both = [
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for folder in clones
    ]
    note = clones[0] / ".snakemake/running.pid"
    while not note.exists():
        assert both[0].poll() is None
        time.sleep(0.05)
    for call in (lambda: snakemake(clones[0]), lambda: said(make(clones[0], "resume"))):
        code, printed = call()
        assert code == 2
        (line,) = [line for line in printed.splitlines() if line.startswith("error:")]
        assert f"a run is going on in {clones[0]} (process {both[0].pid})" in line
    # To look is allowed; without the flag Snakemake ends with 1 where a job is at its files now.
    code, printed = snakemake(clones[0], "--dry-run", "--rerun-incomplete")
    assert code == 0, printed
    for process in both:
        printed, _ = process.communicate()
        assert process.returncode == 0, printed.decode()
    assert result_bytes(clones[0]) == result_bytes(clones[1])


def said(ended):
    return ended.returncode, ended.stdout + ended.stderr
