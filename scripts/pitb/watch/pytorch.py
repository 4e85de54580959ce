"""Watching one version of torch: an environment of its own, in which PyTorch's side is trained."""

import os
import subprocess
import sys
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from pitb import batches, libraries
from pitb.errors import PitbError
from pitb.files import read_json, write_json
from pitb.results import evidence_path, trace_path
from pitb.watch import defaults, equations, figures, folders
from pitb.watch.changes import NOT_RUN, PROGRAM, UNCHANGED, Facts, Item, Why
from pitb.watch.planning import call_script, check_version, make_plan
from pitb.watch.setup import Setup, from_plain
from pitb.watch.versions import Wanted

BESIDE = ("timm", "numpy", "pyarrow", "jsonschema", "ruamel.yaml")
"""What PyTorch's side needs besides torch, at the versions that are installed here."""
SCRIPTS = ("record_libraries.py", "train_pytorch.py", "train_watch_pytorch.py")


def watch(setup: Setup, version: Wanted) -> Facts:
    """Install a version, and find what it changes; what was made before is not made again.

    Raises:
        PitbError: The version cannot be had, or there is no room for it.
    """
    folder = setup.folder(version)
    key = folders.digest([], sys.version, *pins(version))

    def install() -> dict[str, float]:
        folders.check_room(folder, version, setup.keep_free)
        setup.say(f"{version.name}: installing it into {folder / 'environment'} (a minute or more)")
        return {"seconds": install_into(folder / "environment", version)}

    stamp = folder / "installed.json"
    if not python_of(folder / "environment").exists():
        stamp.unlink(missing_ok=True)  # --clean has taken it
    installed = folders.once(stamp, key, install)

    def judged() -> list[dict[str, str]]:
        return [asdict(item) for item in _items(setup, version)]

    items = folders.once(folder / "items.json", setup.judged_by(key), judged)
    return Facts(
        "torch",
        version.version,
        f"torch {libraries.recorded()['versions']['torch']}",
        tuple(from_plain(items)),
        (),
        installed["seconds"],
        folders.size(folder) / 1e6,
    )


def pins(version: Wanted) -> list[str]:
    """What is installed, as requirements."""
    found = [f"torch=={version.version}"]
    for name in BESIDE:
        try:
            found.append(f"{name}=={metadata.version(name)}")
        except metadata.PackageNotFoundError:
            raise PitbError(
                f"{name} is not installed here, so that its version is not known; run make setup"
            ) from None
    return found


def python_of(environment: Path) -> Path:
    """The interpreter of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def install_into(environment: Path, version: Wanted) -> float:
    """Make an environment with that version; gives the seconds it took.

    Raises:
        PitbError: uv is not there, or cannot install it.
    """
    started = time.monotonic()
    uv = Path(sys.executable).parent / ("uv.exe" if os.name == "nt" else "uv")
    program = str(uv) if uv.is_file() else "uv"
    make = [program, "venv", "--quiet", "--clear", "--python", sys.executable, str(environment)]
    install = [program, "pip", "install", "--python", str(python_of(environment)), *pins(version)]
    for command in (make, install):
        try:
            ended = subprocess.run(command, stderr=subprocess.PIPE, encoding="utf-8", check=False)
        except FileNotFoundError:
            raise PitbError("uv is not installed; run make setup, which brings it") from None
        if ended.returncode != 0:
            said = " ".join(ended.stderr.split())
            raise PitbError(f"uv cannot install {version.name}: {said[-300:]}")
    return time.monotonic() - started


def _items(setup: Setup, version: Wanted) -> list[Item]:
    folder, scripts = setup.folder(version), setup.root / "scripts"
    results = folders.fresh(folder / "results")
    traces = folders.fresh(folder / "equations")
    python = python_of(folder / "environment")
    recorded, plan, refused = (folder / f"{name}.json" for name in ("libraries", "plan", "refused"))
    recorded.unlink(missing_ok=True)
    refused.unlink(missing_ok=True)
    setup.say(f"{version.name}: training the runs of the pages and the cases of every equation")
    figures.take_over(setup.base, results, figures.other_side(setup.config, "pytorch"))
    write_json(plan, make_plan("pytorch", {}), indent=None)
    configuration = ["--config", *setup.config_files, "--schema", setup.root / "config/schema.json"]
    calls: dict[str, list[list[Any]]] = {
        "record_libraries.py": [
            ["--burn", setup.base / evidence_path("defaults/burn"), "--lock",
             setup.root / "Cargo.lock", "--out", recorded]
        ],
        "train_pytorch.py": [
            [name, *configuration, "--results", results]
            for name in batches.pytorch_batches(setup.config)
        ],
        "train_watch_pytorch.py": [
            ["--plan", plan, "--traces", traces, "--refused", refused]
        ],
    }  # fmt: skip
    said: dict[str, str] = {}
    for script, arguments in calls.items():
        each = (call_script([scripts / script, *given], python) for given in arguments)
        said[script] = "; ".join(filter(None, each))
    check_version(traces, version)
    items = [_program(script, said[script]) for script in SCRIPTS]
    items += _defaults(version, recorded, said["record_libraries.py"])
    items += _equations(version, folder, said["train_watch_pytorch.py"])
    missing: dict[str, Why] = {}
    runs = [trace_path(run.id) for run in setup.config.runs if run.side == "pytorch"]
    for path in (*runs, *figures.pytorch_evidence()):
        if not (results / path).is_file():
            missing[path] = (NOT_RUN, said["train_pytorch.py"] or f"{path} was not written")
    setup.say(f"{version.name}: computing the published figures")
    return [*items, *figures.compute(setup, version, results, missing)]


def _program(script: str, said: str) -> Item:
    if said:
        return Item(PROGRAM, script, NOT_RUN, "runs", said)
    return Item(PROGRAM, script, UNCHANGED, "runs", "runs")


def _defaults(version: Wanted, recorded: Path, said: str) -> list[Item]:
    evidence = f"{version.folder}/{recorded.name}"
    if said:
        return [
            Item(item.kind, item.item, NOT_RUN, item.before, said)
            for item in defaults.torch_items(libraries.recorded(), evidence)
        ]
    return defaults.torch_items(read_json(recorded), evidence)


def _equations(version: Wanted, folder: Path, said: str) -> list[Item]:
    plan = read_json(folder / "plan.json")
    evidence = f"{version.folder}/equations"
    refused: dict[str, str] = {}
    if (folder / "refused.json").is_file() and not said:
        refused = read_json(folder / "refused.json")
    missing = {name: (NOT_RUN, why) for name, why in refused.items()}
    if said:
        missing = dict.fromkeys(plan["cases"], (NOT_RUN, said))
    return equations.items("pytorch", plan, folder / "equations", missing, evidence)
