"""Programs that are called: their time is limited, and what they leave must be whole."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pitb.errors import EXIT_ERROR, PitbError, say
from pitb.files import read_json

LIMIT = "PITB_TIME_LIMIT"
"""The environment variable that holds ``time_limit`` of the configuration, in seconds."""
GRACE = 5.0
"""Seconds after its limit in which a process may end itself with a sentence."""
_MAGIC = b"PAR1"


def limit() -> float | None:
    """Seconds that one call may take; None where no limit is set, as by hand.

    Raises:
        PitbError: The environment holds something else.
    """
    text = os.environ.get(LIMIT, "")
    if not text:
        return None
    with contextlib.suppress(ValueError):
        if 0 < float(text) <= threading.TIMEOUT_MAX:
            return float(text)
    raise PitbError(f"the environment variable {LIMIT} must be a number of seconds, not {text!r}")


def run(command: Sequence[Any], check: bool = True, name: str | None = None, **options: Any) -> Any:
    """Run a program to its end, as ``subprocess.Popen`` does, which has the ``options``.

    Args:
        command: The program and its arguments.
        check: Whether an exit code other than 0 is an error.
        name: What the sentences call it; by default the program's own name.
        options: Further options.

    Raises:
        PitbError: It does not start, was ended by a signal, took longer than `limit`, or, with
            ``check``, ended with an exit code other than 0.
    """
    name = name or Path(command[0]).name
    seconds, expired = limit(), threading.Event()
    sys.stdout.flush()
    try:
        # No session of its own: whoever ends the pipeline's process group ends it too.
        with subprocess.Popen(command, **options) as process:

            def end() -> None:
                expired.set()
                process.kill()

            # A wait with a time limit looks every 50 ms, which short programs would all pay for.
            timer = threading.Timer(seconds or 0, end)
            timer.daemon = True
            if seconds is not None:
                timer.start()
            try:
                out, err = process.communicate()
            except BaseException:
                process.kill()
                raise
            finally:
                timer.cancel()
    except OSError as error:
        raise PitbError(f"{command[0]} does not run: {error.strerror or error}") from None
    if seconds is not None and expired.is_set() and process.returncode != 0:
        raise PitbError(
            f"{name} took longer than {seconds:g} s and was ended; time_limit in the configuration"
            " says how long it may take"
        )
    if process.returncode < 0:
        with contextlib.suppress(ValueError):
            number = -process.returncode
            raise PitbError(f"{name} was ended by signal {number}, {signal.Signals(number).name}")
    if check and process.returncode != 0:
        raise PitbError(f"{name} failed with exit code {process.returncode}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def captured(command: Sequence[Any], name: str | None = None) -> "subprocess.CompletedProcess[str]":
    """The same, with what it prints as text; an exit code other than 0 is no error."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ended: subprocess.CompletedProcess[str] = run(
        command, check=False, name=name, **pipes, encoding="utf-8", errors="replace"
    )
    return ended


def limit_this_process(what: str) -> None:
    """End this process with a sentence once it has taken longer than `limit`.

    Where it cannot even say that, SIGALRM ends it `GRACE` later.

    Args:
        what: What it does, as the sentence begins.
    """
    seconds = limit()
    if seconds is None:
        return

    def end() -> None:
        say(
            f"error: {what} took longer than {seconds:g} s and was ended; time_limit in the"
            " configuration says how long it may take"
        )
        os._exit(EXIT_ERROR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    # A thread says nothing while other code holds the interpreter; the system then ends it all.
    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + GRACE)


def check_whole(paths: Iterable[Path], program: str) -> None:
    """Check that a program has left what it had to: JSON that is JSON, Parquet with its footer.

    Raises:
        PitbError: Names the first file that is missing or is not whole.
    """
    for path in paths:
        if not path.is_file():
            raise PitbError(f"{program} ended without writing {path}")
        if path.suffix == ".json":
            read_json(path)
        elif not _has_footer(path):
            raise PitbError(f"{program} left {path} unfinished: it is no whole Parquet file")


def _has_footer(path: Path) -> bool:
    """Whether a file begins and ends as Parquet does: what was cut off has no end."""
    size = path.stat().st_size
    if size < 12:
        return False
    with path.open("rb") as file:
        first = file.read(4)
        file.seek(size - 8)
        length, last = int.from_bytes(file.read(4), "little"), file.read(4)
    return first == last == _MAGIC and length <= size - 12


def parse_lines(text: str, program: str) -> list[Any]:
    """The values of what a program prints as JSON, one a line.

    Raises:
        PitbError: A line is no JSON object.
    """
    found = []
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise PitbError(f"{program} printed a line that is not JSON: {line[:80]}")
        found.append(value)
    return found
