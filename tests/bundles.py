"""Bundles for the tests: a small one of the real results, and ways to spoil it."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pitb.bundle import contents, crate, making, packing
from pitb.config import load


def made(root: Path, folder: Path, parts: tuple[str, ...] = ()) -> Path:
    """A bundle of the results, as make bundle writes it.

    It has what the configuration asks for, and of the parts those that begin with one of these.
    """
    config = [root / "config/config.yaml"]
    schema = root / "config/schema.json"
    results = folder / "results"
    names = contents.required(load(config, schema))
    for found in contents.found_parts(root / "results").values() if parts else ():
        names += [name for name in found if name.startswith(parts)]
    for name in names:
        target = results / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / "results" / name, target)
    for name in ("logs", "benchmarks"):
        shutil.copytree(root / "results" / name, results / name)
    before = Path.cwd()
    os.chdir(root)  # where Snakemake ran
    try:
        return making.make(Path("."), results, config, schema, folder, allow_dirty=True).path
    finally:
        os.chdir(before)


def files_of(bundle: Path) -> dict[str, bytes]:
    """The content of every file."""
    with zipfile.ZipFile(bundle) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mended(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with crate and manifest made to fit: what a forger would do."""
    found = json.loads(files[contents.CRATE])
    graph = []
    listed = set()
    for item in found["@graph"]:
        kinds = item["@type"] if isinstance(item["@type"], list) else [item["@type"]]
        if "File" in kinds:
            name = item["name"] if item["@id"] != crate.WORKFLOW else crate.WORKFLOW
            if name not in files:
                continue
            listed.add(name)
            if "sha256" in item:
                item["sha256"] = hashlib.sha256(files[name]).hexdigest()
                item["contentSize"] = str(len(files[name]))
        graph.append(item)
    for name in files:
        if name not in listed and name not in (contents.CRATE, contents.MANIFEST):
            described = {"@id": name, "@type": "File", "name": name}
            described["sha256"] = hashlib.sha256(files[name]).hexdigest()
            graph.append({**described, "contentSize": str(len(files[name]))})
    there = {item["@id"] for item in graph}

    def kept(value: object) -> object:
        if isinstance(value, list):
            return [item for item in map(kept, value) if item is not None]
        if isinstance(value, dict) and set(value) == {"@id"}:
            known = value["@id"] in there or value["@id"].startswith("http")
            return value if known else None
        return value

    graph = [{k: v for k, v in ((k, kept(v)) for k, v in i.items()) if v is not None}
             for i in graph]  # fmt: skip
    whole = {**files, contents.CRATE: packing.json_bytes({**found, "@graph": graph})}
    whole.pop(contents.MANIFEST)
    whole[contents.MANIFEST] = packing.manifest(whole)
    return whole


def packed(files: dict[str, bytes], folder: Path, name: str | None = None) -> Path:
    """A zip of the files, named by the hash of their manifest unless told."""
    own = f"pitb-0.1.0-{packing.name_hash(files[contents.MANIFEST])}.zip"
    path = folder / (name or own)
    packing.write(files, path)
    return path


@dataclass(frozen=True)
class Ended:
    """What became of a command."""

    code: int
    out: str
    err: str
    seconds: float
    megabytes: float
    """The most memory of it and of the processes that it waited for."""


MEASURED = """
import json, resource, subprocess, sys
ended = subprocess.run(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
with open(sys.argv[1], "w") as file:
    json.dump({"code": ended.returncode, "used": used}, file)
"""
"""Calls a command and notes its memory: from a process that is small, since Linux counts to a
process what the one that started it holds."""


def pitb(*words: object, cwd: Path | None = None) -> Ended:
    """Call pitb as its users do, and measure it."""
    package = Path(__file__).parent.parent / "scripts"
    others = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "measured.json"
        command = [sys.executable, "-m", "pitb", *map(str, words)]
        ended = subprocess.run(
            [sys.executable, "-S", "-c", MEASURED, str(note), *command],
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package), *others])},
            capture_output=True,
            text=True,
        )
        seconds = time.monotonic() - began
        found = json.loads(note.read_text())
    unit = 1 if sys.platform == "darwin" else 1024
    return Ended(found["code"], ended.stdout, ended.stderr, seconds, found["used"] * unit / 1e6)
