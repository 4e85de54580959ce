"""Versions: how they are written, and which ones the registries have."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pitb.errors import PitbError

LIBRARIES = ("burn", "torch")
MINORS = 6
"""Of burn, how many lines of releases are asked for; cargo tells one version in a call."""
_VERSION = re.compile(r"\d{1,6}\.\d{1,6}\.\d{1,6}([.-]?[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?")

Say = Callable[[Sequence[str]], tuple[int, str]]
"""Runs a command; gives its exit code and what it printed."""


@dataclass(frozen=True)
class Wanted:
    """One version of one library."""

    library: str
    """``burn`` or ``torch``."""
    version: str

    @property
    def name(self) -> str:
        """``burn 0.21.0``."""
        return f"{self.library} {self.version}"

    @property
    def folder(self) -> str:
        """The name of its folder, ``burn-0.21.0``."""
        return f"{self.library}-{self.version}"


def wanted(library: str, version: str) -> Wanted:
    """A version that was asked for, once it is known to be written as one.

    Raises:
        PitbError: It is not.
    """
    if _VERSION.fullmatch(version) is None:
        example = "0.21.0 or 0.23.0-pre.1" if library == "burn" else "2.14.1"
        raise PitbError(f"{version!r} is no version of {library}; write it in full, as {example}")
    return Wanted(library, version)


def say(command: Sequence[str]) -> tuple[int, str]:
    """Run ``command``; its exit code and all that it printed.

    Raises:
        PitbError: There is no such program, or it says nothing for two minutes.
    """
    try:
        ended = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=120,
            check=False,
        )
    except FileNotFoundError:
        raise PitbError(f"{command[0]} is not installed or not on the PATH") from None
    except subprocess.TimeoutExpired:
        raise PitbError(f"{' '.join(command)} gives no answer; is there a network?") from None
    return ended.returncode, ended.stdout


def burn_versions(run: Say = say) -> list[str]:
    """The newest version of burn, and the newest of each of the last lines of releases.

    Asked of cargo, which tells one version in a call, and no list.

    Raises:
        PitbError: cargo does not reach the registry.
    """
    code, text = run(["cargo", "info", "--quiet", "burn"])
    newest = _info(text) if code == 0 else None
    if newest is None:
        raise PitbError(f"cargo knows no version of burn: {_last(text)}")
    found = {_latest(text) or newest: None, newest: None}
    major, minor = (int(part) for part in newest.split(".")[:2])
    for number in range(minor, max(minor - MINORS, -1), -1):
        code, text = run(["cargo", "info", "--quiet", f"burn@{major}.{number}"])
        version = _info(text) if code == 0 else None
        if version is not None:
            found[version] = None
    return list(found)


def burn_features(version: str, run: Say = say) -> set[str]:
    """The features that a version of burn has.

    Raises:
        PitbError: The registry has no such version, or is not reached.
    """
    code, text = run(["cargo", "info", "--verbose", f"burn@{version}"])
    if code != 0:
        raise PitbError(f"there is no burn {version} to be had: {_last(text)}")
    _, _, listed = text.partition("\nfeatures:")
    return set(re.findall(r"^ [ +]([\w-]+) += ", listed, re.MULTILINE))


def torch_versions(run: Say = say) -> list[str]:
    """The versions of torch that pip finds for this Python and system, newest first.

    Raises:
        PitbError: pip does not reach the index.
    """
    code, text = run([sys.executable, "-m", "pip", "index", "versions", "torch"])
    match = re.search(r"^Available versions: (.+)$", text, re.MULTILINE)
    if code != 0 or match is None:
        raise PitbError(f"pip knows no version of torch: {_last(text)}")
    return [part.strip() for part in match[1].split(",")]


def _info(text: str) -> str | None:
    match = re.search(r"^version: (\S+)", text, re.MULTILINE)
    return match[1] if match else None


def _latest(text: str) -> str | None:
    match = re.search(r"^version: \S+ \(latest ([^\s)]+)", text, re.MULTILINE)
    return match[1] if match else None


def _last(text: str) -> str:
    """What a program complained of, in a line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors: Iterable[str] = (line for line in lines if re.match(r"error|ERROR", line))
    said = next(iter(errors), lines[-1] if lines else "it says nothing")
    said = re.sub(r" in registry `\S+`", "", said)
    return re.sub(r"^(error|ERROR): ", "", said)
