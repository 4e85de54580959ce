"""What of a cluster needs none: its lock, its profile, and what is said where Slurm is missing."""

import importlib.util
import os
import re
import subprocess
import sys

import pytest
import yaml

PLUGIN = "snakemake-executor-plugin-slurm"


@pytest.fixture
def cluster(root):
    spec = importlib.util.spec_from_file_location("cluster", root / "tests/slurm/cluster.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins(path):
    return set(re.findall(r"^[\w.-]+==.*(?= \\$)", path.read_text(), re.MULTILINE))


def test_both_locks_pin_the_same_and_the_plugin_is_in_one_alone(root):
    ours, slurm = pins(root / "requirements.lock"), pins(root / "requirements-slurm.lock")
    assert {pin.partition("==")[0] for pin in slurm - ours} == {PLUGIN, f"{PLUGIN}-jobstep"}
    assert not any(pin.startswith("snakemake-executor") for pin in ours)
    assert "://" not in (root / "requirements-slurm.lock").read_text()
    assert f"{PLUGIN}>=" in (root / "pyproject.toml").read_text()


def test_another_pin_would_be_seen(root, tmp_path):
    text = (root / "requirements-slurm.lock").read_text()
    other = tmp_path / "other.lock"
    other.write_text(re.sub(r"^pyyaml==[\d.]+", "pyyaml==1.0", text, flags=re.MULTILINE))
    assert pins(other) - pins(root / "requirements-slurm.lock") == {"pyyaml==1.0"}


def test_what_is_missing_is_one_sentence_and_how_to_get_it(root):
    code = "import cluster; cluster.PATH = ''; cluster.run_main(cluster.main)"
    path = os.pathsep.join([str(root / "scripts"), str(root / "tests/slurm")])
    ended = subprocess.run(
        [sys.executable, "-c", code, "--check"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    said = ended.stderr
    assert said.startswith("error: Slurm is needed, and munged, slurmctld, slurmd, sbatch, ")
    assert "apt install slurmctld slurmd slurm-client munge" in said
    assert said.count("\n") == 1


def test_one_missing_program_is_named_alone(cluster, monkeypatch, tmp_path):
    for name in {*cluster.DAEMONS, *cluster.COMMANDS} - {"squeue"}:
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(cluster, "PATH", str(tmp_path))
    with pytest.raises(cluster.PitbError, match="and squeue is missing"):
        cluster.check()
    (tmp_path / "squeue").touch(0o755)
    cluster.check()


def test_make_asks_for_slurm_before_it_sets_anything_up(root):
    text = (root / "Makefile").read_text()
    for target in ("test-slurm", "bench-slurm"):
        recipe = re.search(rf"^{target}: ##.*\n((?:\t.*\n)+)", text, re.MULTILINE).group(1)
        assert "cluster.py --check" in recipe.splitlines()[0]


@pytest.mark.pipeline
def test_without_the_plugin_the_profile_is_refused(root):
    profile = yaml.safe_load((root / "profiles/slurm/config.yaml").read_text())
    assert profile["retries"] >= 1
    command = [sys.executable, "-m", "snakemake", "--profile", "profiles/slurm", "--dry-run"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert ended.returncode != 0
    assert ended.stderr.splitlines()[-1].startswith("__main__.py: error: argument --executor")
