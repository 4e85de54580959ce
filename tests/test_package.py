"""The package as it is installed: without extras, and without this project around it."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bundles

MOST_MB = 200
CALL = "torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)"
HEAVY = (
    *("torch", "timm", "snakemake", "matplotlib", "scipy", "sklearn", "pandas"),
    *("pyarrow", "rocrate", "rocrate_validator"),
)


@pytest.fixture(scope="module")
def installed(root, tmp_path_factory):
    """The folder of an environment that has the package and what it needs, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", ".*")
    shutil.copytree(root / "scripts", source / "scripts", ignore=ignored)
    uv = [str(Path(sys.executable).parent / "uv")]
    constraints = folder / "constraints.txt"
    pins = [line.split()[0] for line in (root / "requirements.lock").read_text().splitlines()
            if line[:1].isalnum() and "==" in line and ";" not in line]  # fmt: skip
    constraints.write_text("\n".join(pins))
    environment = folder / "environment"
    for command in (
        ["venv", "--quiet", "--python", sys.executable, environment],
        ["pip", "install", "--quiet", "--python", environment / "bin/python", "--constraints",
         constraints, source],
    ):  # fmt: skip
        done = subprocess.run([*uv, *map(str, command)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return environment


@pytest.fixture(scope="module")
def bundle(root, tmp_path_factory):
    return bundles.made(root, tmp_path_factory.mktemp("bundle"))


def packages(environment):
    return next(environment.glob("lib/*/site-packages"))


@pytest.mark.pipeline
def test_it_is_small_and_brings_nothing_heavy(installed):
    files = [path for path in packages(installed).rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 1e6
    assert 50 < size < MOST_MB
    for name in HEAVY:
        assert not (packages(installed) / name).exists(), name


@pytest.mark.pipeline
def test_the_files_that_modules_read_come_along(root, installed):
    for pattern in ("*.json", "*.html", "*.rs"):
        data = {path.name for path in (root / "scripts/pitb").rglob(pattern)}
        found = {path.name for path in (packages(installed) / "pitb").rglob(pattern)}
        assert found == data != set()


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["port", CALL], 0, "with_weight_decay(0.1)"),
        (["port", "--json", CALL], 0, '"'),
        (["lint", "FOLDER/x.rs"], 1, ".with_epsilon(1e-8)"),
        (["compare", "PYTORCH/rmsprop.parquet", "BURN/rmsprop.parquet"], 1, "MISMATCH"),
        (["explain", "PYTORCH/rmsprop.parquet", "BURN/rmsprop.parquet"], 1, "momentum"),
        (["explain", "pytorch:AdamW lr=0.01", "burn:AdamW lr=0.01"], 1, "weight_decay"),
        (["diagnose", "BURN/rmsprop.parquet"], 0, "RMSprop"),
        (["docs", "FOLDER/x.md", "--results", "RESULTS"], 0, "1 mark, 1 filled anew"),
        (["verify", "BUNDLE"], 0, "258 ledger rows"),
        (["verify", "BUNDLE", "--json"], 0, '"verdict": "OK"'),
        (["diff", "BUNDLE", "BUNDLE"], 0, "0 rounding, 0 real"),
        (["--version"], 0, "pitb"),
        (["port", "torch.optim.AdamW(model.parameters(), lrr=1)"], 2, "nearest: 'lr'"),
    ],
)  # fmt: skip
def test_every_command_works_without_the_libraries(
    root, installed, bundle, tmp_path, words, code, said
):
    (tmp_path / "x.rs").write_text("fn f() { let a = AdamConfig::new().init(); }\n"
                                   "use burn::optim::AdamConfig;\n")  # fmt: skip
    (tmp_path / "x.md").write_text("a <!-- pitb:optimizer-defaults/a1 row=model "
                                   "column=parameters --><!-- /pitb -->")  # fmt: skip
    sides = {side.upper(): str(root / "results/traces" / side) for side in ("pytorch", "burn")}
    places = {**sides, "FOLDER": str(tmp_path), "RESULTS": str(root / "results")}
    places["BUNDLE"] = str(bundle)
    for place, folder in places.items():
        words = [word.replace(place, folder) for word in words]
    done = subprocess.run(
        [installed / "bin/pitb", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if "--json" in words:
        json.loads(done.stdout)
