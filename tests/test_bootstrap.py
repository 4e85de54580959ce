import importlib.util
import os
import shutil
import stat
import subprocess
import sys

import pytest


@pytest.fixture
def bootstrap(root):
    spec = importlib.util.spec_from_file_location("bootstrap", root / "scripts/bootstrap.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_cargo(folder, prints, code=0):
    path = folder / "cargo"
    path.write_text(f"#!/bin/sh\necho '{prints}'\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize(
    ("prints", "code", "sentence"),
    [
        ("cargo 1.94.1 (abc 2026-01-01)", 0, "cargo 1.95 or newer is needed, and .* update"),
        ("cargo 0.99.0", 0, "cargo 1.95 or newer is needed"),
        ("something else", 0, "cargo 1.95 or newer is needed"),
        ("", 1, "does not run"),
        (None, 0, "none is on the PATH; install Rust"),
    ],
)
def test_a_missing_or_old_cargo_is_said_before_anything_else(
    bootstrap, monkeypatch, tmp_path, prints, code, sentence
):
    if prints is not None:
        fake_cargo(tmp_path, prints, code)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(bootstrap.SetupError, match=sentence):
        bootstrap.check_cargo()


@pytest.mark.parametrize(
    "prints", ["cargo 1.95.0 (f2d3ce0bd 2026-03-21)", "cargo 1.100.0", "cargo 2.0.0"]
)
def test_a_new_cargo_is_fine(bootstrap, monkeypatch, tmp_path, prints):
    fake_cargo(tmp_path, prints)
    monkeypatch.setenv("PATH", str(tmp_path))
    bootstrap.check_cargo()


@pytest.mark.parametrize("version", [(2, 7, 18), (3, 8, 1), (3, 10, 99)])
def test_an_old_python_is_said(bootstrap, monkeypatch, version):
    monkeypatch.setattr(bootstrap.sys, "version_info", version)
    with pytest.raises(bootstrap.SetupError, match=r"Python 3\.11 or newer .* make PYTHON="):
        bootstrap.check_python()


def test_the_set_up_parses_on_old_versions_of_python(root):
    import ast

    text = (root / "scripts/bootstrap.py").read_text()
    ast.parse(text, feature_version=(3, 7))


def test_the_sentence_comes_alone_and_downloads_nothing(root, tmp_path):
    environment = {**os.environ, "PATH": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, root / "scripts/bootstrap.py", "--check", "cargo"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: cargo 1.95 or newer is needed")
    assert ended.stderr.count("\n") == 1


def test_the_lock_pins_what_installs_it(bootstrap):
    text = bootstrap.uv_requirement()
    assert text.startswith("uv==")
    assert "--hash=sha256:" in text
    assert text.count("==") == 1


def test_the_lock_holds_hashes_and_no_addresses(root):
    text = (root / "requirements.lock").read_text()
    assert "torch==2.15.0" in text
    assert "://" not in text
    pinned = [line for line in text.splitlines() if "==" in line and not line.startswith(" ")]
    assert all(line.endswith("\\") for line in pinned)  # hashes follow
    linux_only = [line for line in pinned if line.startswith(("nvidia", "triton", "cuda"))]
    assert linux_only
    assert all("sys_platform == 'linux'" in line for line in linux_only)


@pytest.mark.parametrize("character", [*" \t\"'$`\\&;|<>()*?[]{}#~!"])
def test_jobs_of_slurm_start_no_python_whose_path_wants_quotes(bootstrap, character):
    sentence = "jobs of Slurm cannot start a Python in .*move this folder"
    with pytest.raises(bootstrap.SetupError, match=sentence):
        bootstrap.check_path(f"/home/a{character}b/.venv-slurm")
    bootstrap.check_path("/home/ä/项目/a-b_c.d+e,f@g=h:i/.venv-slurm")


def test_slurm_is_not_set_up_where_its_jobs_could_not_run(tmp_path, root):
    folder = tmp_path / "a b"
    (folder / "scripts").mkdir(parents=True)
    for name in ("scripts/bootstrap.py", "requirements.lock", "requirements-slurm.lock"):
        shutil.copyfile(root / name, folder / name)
    command = [sys.executable, folder / "scripts/bootstrap.py", "--slurm"]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: jobs of Slurm cannot start a Python in ")
    assert len(ended.stderr.splitlines()) == 1
    assert not (folder / ".venv-slurm").exists()
