"""Builds of a version's workspace: each program is made, or the compiler's reason is kept."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pitb.errors import PitbError
from pitb.watch.workspace import Workspace, libraries_of

STATE = ("E0460", "E0461", "E0462", "E0463", "E0464", "E0514", "E0786")
"""Errors that stand in our code and are about crates that are damaged or missing on the disk."""
LONGEST = 200
"""Characters of a compiler's error that are kept."""
SHOW_EVERY = 20.0
"""Seconds, at least, between two words on how far a build is."""


@dataclass
class Built:
    """What one call of cargo made."""

    made: list[str] = field(default_factory=list)
    """Programs."""
    errors: dict[str, str] = field(default_factory=dict)
    """By target, a program or a library of ours: the compiler's first error in its code."""
    seconds: float = 0.0

    def reason(self, program: str, libraries: Iterable[str]) -> str:
        """Why there is no such program; empty where there is one, or where nothing says why.

        Args:
            program: Its name.
            libraries: Those it needs, in the order in which they are built.
        """
        if program in self.made:
            return ""
        if program in self.errors:
            return self.errors[program]
        for name in libraries:
            if name in self.errors:
                return f"needs {name}: {self.errors[name]}"
        return ""


def build(workspace: Workspace, programs: Sequence[str], jobs: int, log: Path) -> Built:
    """Build programs of a workspace, going on where one fails.

    All calls choose among the programs of the whole workspace: cargo would otherwise turn on fewer
    features of what they share, and build burn once more.

    Args:
        workspace: Where.
        programs: Their names.
        jobs: How many processes cargo may use; 0 leaves it to cargo.
        log: Where cargo's own words go.

    Raises:
        PitbError: cargo is not there, or did not make a program for another reason than an error
            in our own code: no network, a full disk, no linker, a compiler that was killed.
    """
    command = ["cargo", "build", "--release", "--workspace", "--keep-going"]
    command += ["--message-format=json", "--manifest-path", str(workspace.folder / "Cargo.toml")]
    command += ["--target-dir", str(workspace.target), *(f"--bin={name}" for name in programs)]
    if jobs:
        command += ["--jobs", str(jobs)]
    started = time.monotonic()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as words:
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=words, encoding="utf-8", errors="replace"
            )
        except FileNotFoundError:
            raise PitbError("cargo is not installed or not on the PATH") from None
        assert process.stdout is not None
        try:
            messages = list(_followed(process.stdout, f"burn {workspace.version}", started))
            process.wait()
        except BaseException:
            process.terminate()  # what it has made stays, and is not made again
            process.wait()
            raise
    found = read_messages(messages)
    found.seconds = time.monotonic() - started
    foreign = (m["message"] for m in messages if _is_error(m) and not _ours(m))
    said = next(map(compiler_error, foreign), "") or cargo_error(log.read_text(encoding="utf-8"))
    _check(found, programs, said, log)
    return found


def _check(found: Built, programs: Iterable[str], said: str, log: Path) -> None:
    """See to it that the code is why a program is not there; only this holds the next time, too."""
    lost = [
        name
        for name in programs
        if name not in found.made and not found.reason(name, libraries_of(name))
    ]
    if lost:
        raise PitbError(
            f"cargo did not make {lost[0]}{f' and {len(lost) - 1} more' if lost[1:] else ''}, and"
            f" no error in the project's code is the reason: {said}; see {log}, and watch it again"
        )


def _followed(lines: Iterable[str], what: str, started: float) -> Iterable[dict[str, Any]]:
    """cargo's messages as they come, with a word on how far it is."""
    crates, shown = 0, started
    for line in lines:
        try:
            message = json.loads(line)
        except json.JSONDecodeError:
            continue  # what a build script prints
        if message.get("reason") == "compiler-artifact":
            crates += 1
            now = time.monotonic()
            if now - shown >= SHOW_EVERY:
                shown, last = now, message["target"]["name"]
                words = f"{what}: {crates} crates built, {now - started:.0f} s, last {last}"
                print(words, file=sys.stderr, flush=True)
        yield message


def read_messages(messages: Iterable[Mapping[str, Any]]) -> Built:
    """What cargo's JSON messages say of our own packages."""
    found = Built()
    for message in messages:
        target = message.get("target") or {}
        name = str(target.get("name", "")).replace("_", "-")
        if message.get("reason") == "compiler-artifact" and "bin" in target.get("kind", ()):
            found.made.append(str(target["name"]))
        elif name not in found.errors and _ours(message):
            found.errors[name] = compiler_error(message["message"])
    return found


def _is_error(message: Mapping[str, Any]) -> bool:
    said = message.get("message") or {}
    return message.get("reason") == "compiler-message" and said.get("level") == "error"


def _ours(message: Mapping[str, Any]) -> bool:
    """Whether a message is an error at a place in our own code; one of the linker has no place."""
    said = message.get("message") or {}
    return (
        _is_error(message)
        and "path+file:" in message.get("package_id", "path+file:")
        and (said.get("code") or {}).get("code") not in STATE
        and any(span.get("is_primary") for span in said.get("spans", ()))
    )


def compiler_error(said: Mapping[str, Any]) -> str:
    """An error of the compiler in a line: its code, what it says, and where."""
    code = (said.get("code") or {}).get("code")
    text = " ".join(str(said.get("message", "")).split())
    spans = [span for span in said.get("spans", ()) if span.get("is_primary")]
    where = ""
    if spans:
        path = str(spans[0]["file_name"]).replace("\\", "/")
        where = f" ({path.partition('crates/')[2] or path}:{spans[0]['line_start']})"
    whole = f"{code}: {text}" if code else text
    if len(whole) > LONGEST:
        whole = whole[: LONGEST - 1].rstrip() + "…"
    return whole + where


def cargo_error(text: str) -> str:
    """The error of cargo itself in a line."""
    match = re.search(r"^error: (.*(?:\n(?!\s*$).*)*)", text, re.MULTILINE)
    said = " ".join((match[1] if match else text.strip() or "cargo failed").split())
    return said if len(said) <= LONGEST else said[: LONGEST - 1].rstrip() + "…"
