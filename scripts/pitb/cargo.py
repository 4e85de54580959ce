"""Calls of cargo, and what it and rustc say."""

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitb import programs
from pitb.errors import PitbError

PROGRAMS = ("train-step", "optdef", "clip", "moves", "discard")
"""The burn programs of this project."""
BUILD = ("cargo", "build", "--release", "--locked", "--workspace")
"""The one build of this project; the probes repeat it, so that nothing is built twice."""


@dataclass(frozen=True)
class Build:
    """One call of cargo."""

    success: bool
    diagnostics: list[dict[str, Any]]
    """rustc's messages about the binary that was asked for."""
    finished: bool
    """Whether cargo reported that binary as made."""


def build(root: Path, target_dir: Path, binary: str, features: Sequence[str] = ()) -> Build:
    """Build one binary of the workspace at ``root`` and read what is said of it.

    cargo repeats the warnings of what it does not need to build again, so an up-to-date binary
    gives the same messages as a fresh one.

    Raises:
        PitbError: cargo is not there or printed something that is not JSON.
    """
    command = [*BUILD, "--bin", binary, "--message-format=json", f"--target-dir={target_dir}"]
    if features:
        command += ["--features", ",".join(features)]
    if shutil.which("cargo") is None:
        raise PitbError("cargo is not installed or not on the PATH")
    ended = programs.run(
        command, check=False, cwd=root, stdout=subprocess.PIPE, encoding="utf-8", errors="replace"
    )
    messages = programs.parse_lines(ended.stdout, "cargo")
    ours = [m for m in messages if (m.get("target") or {}).get("name") == binary]
    return Build(
        success=ended.returncode == 0,
        diagnostics=[m["message"] for m in ours if m.get("reason") == "compiler-message"],
        finished=any(m.get("reason") == "compiler-artifact" for m in ours),
    )


def members(root: Path) -> list[Path]:
    """The folders of the crates of the workspace at ``root`` itself, as its manifest names them."""
    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    found = [path for pattern in manifest["workspace"]["members"] for path in root.glob(pattern)]
    return sorted(path for path in found if (path / "Cargo.toml").is_file())


def crates(root: Path) -> dict[str, tuple[Path, str]]:
    """The crates that the workspace at ``root`` is built of here: folder and version, by name.

    Those of other platforms are left out, as a build does not fetch them. Of a crate that is there
    in several versions this is the last.

    Raises:
        PitbError: cargo is not there, or does not have them all.
    """
    command = ["cargo", "metadata", "--offline", "--locked", "--format-version=1"]
    command += ["--manifest-path", str(root / "Cargo.toml"), "--filter-platform", _platform()]
    ended = programs.captured(command)
    if ended.returncode:
        raise PitbError(f"cargo does not list the crates: {' '.join(ended.stderr.split())}")
    packages = json.loads(ended.stdout)["packages"]
    return {
        item["name"]: (Path(item["manifest_path"]).parent, item["version"]) for item in packages
    }


def _platform() -> str:
    """What cargo builds for."""
    if shutil.which("cargo") is None:
        raise PitbError("cargo is not installed or not on the PATH")
    said = programs.captured(["cargo", "-vV"]).stdout
    found = re.search(r"^host: (\S+)$", said, re.MULTILINE)
    if found is None:
        raise PitbError(f"cargo -vV does not say its host: {' '.join(said.split())}")
    return found[1]


def build_generated(folder: Path, target: Path, what: str) -> str:
    """Build the package that was written into ``folder``, by the project's own burn.

    Args:
        folder: Its manifest, which has the dependencies of the project's workspace.
        target: Where that burn is built.
        what: What it is, for the sentence on one that does not compile.

    Returns:
        What cargo and rustc say.

    Raises:
        PitbError: It does not compile, or cargo is not there.
    """
    command = ["cargo", "build", "--release", "--offline"]
    command += ["--manifest-path", str(folder / "Cargo.toml"), "--target-dir", str(target)]
    if shutil.which("cargo") is None:
        raise PitbError("cargo is not installed or not on the PATH")
    ended = programs.captured(command)
    compiled = re.findall(r"^ +Compiling ([\w-]+) v", ended.stderr, re.MULTILINE)
    print(f"compiled: {', '.join(dict.fromkeys(compiled)) or 'nothing'}", flush=True)
    if ended.returncode:
        errors = re.findall(r"^error.*(?:\n.*){0,6}", ended.stderr, re.MULTILINE)
        said = " ".join((errors or [ended.stderr])[0].split())
        raise PitbError(f"{what} does not compile: {said}")
    again = [name for name in compiled if name.startswith("burn")]
    if again:
        print(f"note: burn was built again ({', '.join(again)}); the features differ")
    return ended.stderr


def noassign(built: Build) -> dict[str, Any]:
    """The error of the program that must not compile.

    Raises:
        PitbError: It compiled, or failed otherwise than with one error.
    """
    errors = [m for m in built.diagnostics if m["level"] == "error" and m.get("code")]
    if built.success or len(errors) != 1:
        raise PitbError(f"noassign must fail to compile with one error, not {len(errors)}")
    (error,) = errors
    spans = sorted(error["spans"], key=lambda span: (span["line_start"], span["column_start"]))
    suggestions = [
        (child["message"], span)
        for child in error["children"]
        for span in child["spans"]
        if span.get("suggested_replacement") is not None
    ]
    if len(suggestions) != 1:
        raise PitbError(f"noassign's error carries {len(suggestions)} suggestions, not one")
    ((help_, insertion),) = suggestions
    return {
        "code": error["code"]["code"],
        "message": error["message"],
        "labels": [
            {
                "line": span["line_start"],
                "source": " ".join(text["text"].strip() for text in span["text"]),
                "text": span["label"],
            }
            for span in spans
            if span["label"]
        ],
        "help": help_,
        "insertion": insertion["suggested_replacement"],
        "rendered": error["rendered"],
    }


def warnings(built: Build, binary: str) -> list[dict[str, Any]]:
    """The warnings about a binary that was made.

    Raises:
        PitbError: It was not made, so that no warning means nothing.
    """
    if not built.success or not built.finished:
        raise PitbError(f"{binary} did not compile: {_first(built)}")
    return [message for message in built.diagnostics if message["level"] == "warning"]


def must_use(built: Build) -> dict[str, Any]:
    """Which of the marked lines of the probe warn that a result is unused.

    Raises:
        PitbError: The probe did not compile or holds a warning of another kind.
    """
    found = {"probe": False, "control": False}
    for warning in warnings(built, "must_use"):
        lines = [t["text"] for span in warning["spans"] if span["is_primary"] for t in span["text"]]
        marks = [mark for mark in found if any(f"// {mark}" in line for line in lines)]
        code = (warning.get("code") or {}).get("code")
        if code == "unused_must_use" and len(marks) == 1:
            found[marks[0]] = True
        elif code is not None:
            raise PitbError(f"the probe must_use has another warning: {warning['message']}")
    if not found["control"]:
        raise PitbError(
            "the control of the probe must_use does not warn, so the probe says nothing"
        )
    return {"probe_warns": found["probe"], "control_warns": found["control"]}


def _first(built: Build) -> str:
    errors = [m["message"] for m in built.diagnostics if m["level"] == "error"]
    return errors[0] if errors else "cargo does not say why; see its output"
