"""Calls of programs: how they ended, unless the machine and no version is what ended them."""

import errno
import os
import re
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitb.errors import PitbError

_SHORT = (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
_MACHINE = re.compile(
    "|".join(
        [
            *(re.escape(os.strerror(code)) for code in _SHORT),
            r"\bMemoryError\b",
            "can't allocate memory",
            r"\(signal: \d+",
            r"died with <Signals\.",
            "linker `.+` not found",
            "linking with `.+` failed",
            "failed to (download|fetch)",
        ]
    ),
    re.IGNORECASE,
)
"""What programs, Python and cargo say where the machine lacks disk, memory, files, a linker or a
network, or where a process of theirs was killed."""


@dataclass(frozen=True)
class Ended:
    """A program that came to an end of its own, or that took too long."""

    code: int
    printed: str
    complained: str
    """What it wrote to the standard error."""


def call(command: Sequence[Any], limit: float | None = None, name: str = "") -> Ended:
    """Call a program.

    What has nothing to do with the version is an error here, so that nothing is kept of it: the
    next call may find another machine.

    Args:
        command: The program and its arguments.
        limit: Seconds that it may take; one that takes longer is ended, with code 1.
        name: Of what is called, for people; by default that of the program.

    Raises:
        PitbError: It cannot be started, a signal ended it, or disk or memory did not suffice.
    """
    name = name or Path(command[0]).name
    try:
        ended = subprocess.run(
            [str(word) for word in command],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ended(1, "", f"{name} takes longer than {limit:g} s")
    except OSError as error:
        raise PitbError(f"{name} cannot be started: {error.strerror}; watch it again") from None
    if ended.returncode < 0:
        raise PitbError(f"{name} was ended by {_signal(-ended.returncode)}; watch it again")
    if ended.returncode != 0:
        check_machine(ended.stderr, name)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def check_machine(complaint: str, name: str) -> None:
    """See to it that a complaint is not one about the machine.

    Raises:
        PitbError: It is.
    """
    for line in complaint.splitlines():
        if _MACHINE.search(line):
            raise PitbError(f"{name} did not get through: {line.strip()[:200]}; watch it again")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
