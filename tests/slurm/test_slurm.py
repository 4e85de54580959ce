"""The pipeline on a real Slurm: batches as jobs, faults of jobs, the same bytes as without it."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import cluster as slurm
import pytest

from clones import copy_project, files_below, result_bytes

pytestmark = [pytest.mark.slurm, pytest.mark.pipeline, pytest.mark.torch]

HOOKS = Path(__file__).parent / "hooks"
# Polled sooner than the profile says: jobs of a test take seconds.
PROFILE = ("--profile", "profiles/slurm", "--slurm-init-seconds-before-status-checks", "2")
PROFILE += ("--max-threads", str(min(8, os.cpu_count() or 1)))


def memory_mb(job):
    """What Slurm says that a job asked for."""
    number, unit = re.search(r"mem=([0-9.]+)([MG])", job["Tres"]).groups()
    return round(float(number) * {"M": 1, "G": 1024}[unit])


SWEEP = """name: small
batches: 4
design:
  - grid:
      optimizer: [SGD, Adam, AdamW, RMSprop, Adagrad]
      lr: [0.001, 0.01, 0.1, 1e30]
      burn: [aligned, defaults]
      steps: [3]
"""
SWEPT = "results/sweeps/small/summary.md"


@pytest.fixture(scope="module")
def cluster():
    with slurm.Cluster() as found:
        yield found


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return tmp_path_factory.mktemp("clüster 集群")


@pytest.fixture(scope="module")
def local(base, root, programs):
    """All of it on this machine, without Slurm."""
    folder = base / "local"
    folder.mkdir()
    call(root, "-s", root / "Snakefile", "--directory", folder, "--cores", "2").ends_with(0)
    return folder


@pytest.fixture(scope="module")
def project(base, root, programs, local):
    """A copy of what git tracks, with the programs that are built already.

    What the compiler says is copied too: asking it again would build the workspace again.
    """
    folder = base / "pröject $HOME 项目"
    copy_project(root, folder, local)
    return folder


class Call:
    """A call of Snakemake that goes on, and what it has printed so far."""

    def __init__(self, folder, arguments, environment):
        self.log = tempfile.NamedTemporaryFile(prefix="pitb-", suffix=".log")  # noqa: SIM115
        command = [sys.executable, "-m", "snakemake", *map(str, arguments)]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=self.log, stderr=subprocess.STDOUT
        )

    @property
    def printed(self):
        return Path(self.log.name).read_text(encoding="utf-8")

    def ends_with(self, code):
        try:
            ended = self.process.wait(400)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"it hangs:\n{self.printed}") from None
        assert ended == code, self.printed
        return self.printed


def call(folder, *arguments, environment=None):
    return Call(folder, arguments, environment or dict(os.environ))


@pytest.fixture
def on_slurm(cluster, project, tmp_path):
    """Calls Snakemake with the profile; `fail` and `hang` name a script that does so once."""

    def start(*arguments, fail="", hang=""):
        environment = {
            **cluster.environment,
            "PYTHONPATH": str(HOOKS),
            "PITB_MARKS": str(tmp_path),
            "PITB_FAIL": fail,
            "PITB_HANG": hang,
        }
        return call(project, *PROFILE, *arguments, environment=environment)

    return start


def job_of(cluster, running, mark, rule):
    """The job of a rule once it runs: what was marked says that it does."""
    ends = time.monotonic() + 200
    while not mark.exists():
        assert running.process.poll() is None and time.monotonic() < ends, running.printed
        time.sleep(0.2)
    lines = cluster.ask("squeue", "-h", "--states=RUNNING", "-o", "%i %k").splitlines()
    (job,) = [line.split()[0] for line in lines if line.split()[1] == f"rule_{rule}"]
    return job


def cancel(cluster, running, mark, rule):
    job = job_of(cluster, running, mark, rule)
    assert subprocess.run(["scancel", job], env=cluster.environment).returncode == 0
    return job


def test_a_cancelled_job_is_said_and_nothing_of_it_stays(cluster, project, on_slurm, tmp_path):
    target = "results/traces/burn/rmsprop.parquet"
    running = on_slurm("--retries", "0", target, hang="train_burn.py")
    job = cancel(cluster, running, tmp_path / "HANG-train_burn.py", "train_burn_optdef_0")
    printed = running.ends_with(1)
    assert f"SLURM-job '{job}' failed, SLURM status is: 'CANCELLED'" in printed
    assert cluster.jobs()[job]["JobState"] == "CANCELLED"
    assert not (project / target).exists()
    # The call holds the folder, and not its jobs.
    assert (project / ".snakemake/running.pid").read_text() == str(running.process.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_call_that_is_interrupted_or_killed_goes_on(cluster, project, on_slurm, tmp_path, number):
    target = "results/traces/burn/clip-norm.parquet"
    running = on_slurm(target, hang="train_burn.py")
    job = job_of(cluster, running, tmp_path / "HANG-train_burn.py", "train_burn_clip_0")
    running.process.send_signal(number)
    running.process.wait(60)
    if number == signal.SIGKILL:
        assert cluster.ask("squeue", "-h", "-o", "%i") == job
        assert subprocess.run(["scancel", job], env=cluster.environment).returncode == 0
        on_slurm("--unlock").ends_with(0)
    ends = time.monotonic() + 30
    while cluster.ask("squeue", "-h") and time.monotonic() < ends:
        time.sleep(0.2)
    assert cluster.jobs()[job]["JobState"] == "CANCELLED"
    assert not (project / target).exists()
    on_slurm("--rerun-incomplete", target).ends_with(0)
    assert (project / target).exists()
    shutil.rmtree(project / "results/traces")


def test_all_of_it_with_one_job_that_fails_and_one_that_is_cancelled(
    cluster, project, on_slurm, tmp_path
):
    running = on_slurm(fail="compare_traces.py", hang="make_ledger.py")
    cancelled = cancel(cluster, running, tmp_path / "HANG-make_ledger.py", "make_ledger")
    printed = running.ends_with(0)
    assert "comparisons: 17: 8 OK, 9 MISMATCH, 0 error" in printed
    assert "ledger: 258 published figures: 258 agrees, 0 differs, 0 missing" in printed
    assert printed.count("ledger: 258 published") == 1  # jobs do not say it too
    jobs = slurm.submitted(printed)
    found = sorted((rule, cluster.jobs()[job]["JobState"]) for job, rule in jobs.items())
    print("\n", *(f"{rule}: {state}\n" for rule, state in found))
    assert found == sorted(
        [
            ("train_pytorch_0", "COMPLETED"),
            ("train_burn_optdef_0", "COMPLETED"),
            ("train_burn_clip_0", "COMPLETED"),
            ("train_burn_train_step_0", "COMPLETED"),
            ("record_burn_defaults", "COMPLETED"),
            ("record_moves", "COMPLETED"),
            ("compare_traces_0", "FAILED"),
            ("compare_traces_0", "COMPLETED"),
            ("summarise_comparisons", "COMPLETED"),
            ("make_tables_one_step", "COMPLETED"),
            ("make_tables_optimizer_defaults", "COMPLETED"),
            ("make_ledger", "CANCELLED"),
            ("make_ledger", "COMPLETED"),
            ("check_results", "COMPLETED"),
        ]
    )
    assert jobs[cancelled] == "make_ledger"
    first, second = (cluster.jobs()[job] for job, rule in jobs.items() if rule == "make_ledger")
    assert int(second["TimeLimit"]) == 2 * int(first["TimeLimit"])
    assert memory_mb(second) == 2 * memory_mb(first)
    assert cluster.ask("squeue", "-h") == ""
    # The call holds the folder, and not its jobs.
    assert (project / ".snakemake/running.pid").read_text() == str(running.process.pid)


def test_the_bytes_are_those_of_a_local_run(project, local):
    here, there = result_bytes(project), result_bytes(local)
    assert len(there) > 100
    assert here == there


def test_a_second_call_has_nothing_to_do(on_slurm):
    printed = on_slurm().ends_with(0)
    assert "Nothing to be done" in printed
    assert not slurm.submitted(printed)


def test_what_config_sets_reaches_the_jobs(base, root, project, on_slurm):
    target = "results/comparisons/pytorch.rmsprop--burn.rmsprop.parquet"
    before = (project / target).read_bytes()
    change = ("--config", "tolerance=1e-5", "threads=1")
    printed = on_slurm(target, *change).ends_with(0)
    assert set(slurm.submitted(printed).values()) == {"compare_traces_0"}
    folder = base / "local, changed"
    folder.mkdir()
    call(
        root, target, "-s", root / "Snakefile", "--directory", folder, "--cores", "2", *change
    ).ends_with(0)
    assert (project / target).read_bytes() == (folder / target).read_bytes() != before


def test_a_job_that_takes_more_memory_than_it_states_is_killed(cluster, project, on_slurm):
    """The control of all the others: what rules state is what Slurm allows."""
    little = ("--set-resources", "train_pytorch_0:mem_mb=300", "--retries", "0")
    target = "results/traces/pytorch/adamw.parquet"
    printed = on_slurm(target, "--forcerun", "train_pytorch_0", *little).ends_with(1)
    ((job, rule),) = slurm.submitted(printed).items()
    assert rule == "train_pytorch_0"
    assert cluster.jobs()[job]["JobState"] == "FAILED"
    (log,) = (project / ".snakemake/slurm_logs").rglob(f"{job}.log")
    assert "Exceeded job memory limit" in log.read_text(encoding="utf-8")
    assert not (project / target).exists()


def test_a_sweep_is_as_many_jobs_as_it_has_batches_and_the_same_bytes(
    base, cluster, root, project, on_slurm
):
    folders = [project, base / "local sweep 扫描"]
    for folder in folders:
        path = folder / "config/sweeps/small.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SWEEP, encoding="utf-8")
    running = on_slurm(SWEPT, fail="train_sweep_burn.py")
    printed = running.ends_with(0)
    states = {name: job["JobState"] for name, job in cluster.jobs().items()}
    found = Counter((rule, states[job]) for job, rule in slurm.submitted(printed).items())
    print("\n", *(f"{rule}: {count} {state}\n" for (rule, state), count in found.items()))
    assert found == {
        ("train_sweep_pytorch", "COMPLETED"): 4,
        ("train_sweep_burn", "FAILED"): 1,
        ("train_sweep_burn", "COMPLETED"): 4,
        ("compare_sweep", "COMPLETED"): 4,
        ("summarise_sweep", "COMPLETED"): 1,
    }
    where = ("-s", root / "Snakefile", "--directory", folders[1], "--cores", "2")
    call(root, SWEPT, *where).ends_with(0)
    here, there = (files_below(folder / "results", "sweeps") for folder in folders)
    assert len(there) == 4 * 5 + 2 + 6
    assert here == there
    assert b"40 runs:" in here["sweeps/small/summary.md"]
    printed = on_slurm(SWEPT).ends_with(0)
    assert "Nothing to be done" in printed


CARGO = """#!/bin/sh
# Says who builds, and gives what was built before.
case "$1" in
    build) echo "${{SLURM_JOB_ID:-the call}}" >> {seen}; cp -R {built}/. {release} ;;
    *) exec {cargo} "$@" ;;
esac
"""


def test_changed_sources_are_built_once_by_the_call_and_by_no_job(
    cluster, project, on_slurm, tmp_path, monkeypatch
):
    seen, folder, built = (tmp_path / name for name in ("seen", "bin", "built"))
    folder.mkdir()
    release = project / "target/release"
    shutil.copytree(release, built)
    paths = {"seen": seen, "built": built, "release": release, "cargo": shutil.which("cargo")}
    told = {name: shlex.quote(str(path)) for name, path in paths.items()}
    (folder / "cargo").write_text(CARGO.format(**told), encoding="utf-8")
    (folder / "cargo").chmod(0o755)
    path = os.pathsep.join([str(folder), cluster.environment["PATH"]])
    monkeypatch.setitem(cluster.environment, "PATH", path)
    source = project / "crates/train-step/src/main.rs"
    source.write_text(source.read_text(encoding="utf-8") + "// changed\n", encoding="utf-8")
    traces = [f"results/traces/burn/{name}.parquet" for name in ("sgd", "rmsprop")]
    printed = on_slurm(*traces).ends_with(0)
    assert seen.read_text(encoding="utf-8").splitlines() == ["the call"]
    jobs = set(slurm.submitted(printed).values())
    assert {"train_burn_train_step_0", "train_burn_optdef_0"} <= jobs
    assert "build_programs" not in jobs
