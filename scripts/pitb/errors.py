"""Errors that are a user's to mend: one sentence, no traceback."""

import contextlib
import difflib
import io
import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib.machinery import ModuleSpec
from typing import Any

EXIT_ERROR = 2
ALSO = "PITB_ERRORS_ALSO"
"""The environment variable with the number of a file descriptor for what ``stderr`` cannot take: a
job's is its log, which is on the same disk as what did not fit."""


class PitbError(Exception):
    """Says in one sentence what is wrong, where, and what would be right.

    Further arguments are further lines. What files and users call things stands in sentences, so
    what would break a line, or move a terminal's cursor, is shown as Python writes it.
    """

    def __str__(self) -> str:
        """The sentence, and the further lines."""
        return "\n".join(_CONTROL.sub(_escaped, str(line)) for line in self.args)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def _escaped(found: "re.Match[str]") -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def nearest(name: str, candidates: Iterable[str]) -> str:
    """The candidate that ``name`` was most likely meant to be."""

    def likeness(candidate: str) -> float:
        return difflib.SequenceMatcher(None, name.lower(), candidate.lower()).ratio()

    return max(candidates, key=likeness, default="none")


class _WithoutPandas:
    """Keeps pandas out of our scripts, where none uses it.

    pyarrow imports it, where it is installed, before its first array: much of a short job's time.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name == "pandas" else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        raise ModuleNotFoundError("pandas is not imported by these scripts", name=spec.name)

    def exec_module(self, module: Any) -> None: ...


def say(text: str) -> None:
    """Print to ``stderr``, or where it takes nothing, as a log on a full disk, to `ALSO`."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = None  # what is left in it would fail again at the end, with another code
        number = os.environ.get(ALSO, "")
        if number.isdigit():
            with contextlib.suppress(OSError):
                os.write(int(number), f"{text}\n".encode("utf-8", "backslashreplace"))


def _empty(number: int) -> bool:
    """Whether a file descriptor is of a file without a byte."""
    try:
        found = os.fstat(number)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def run_main(main: Callable[[], int | None]) -> None:
    """Run a script's ``main`` and exit with its code; a `PitbError` is a sentence and code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.meta_path.insert(0, _WithoutPandas())
    try:
        code = main() or 0
        sys.stdout.flush()
        if code > 1 and os.environ.get(ALSO) and _empty(2):
            # A program that was called has said why, but not so that anything of it came to stay.
            say(f"error: this job failed with exit code {code} and an empty log; is the disk full?")
    except PitbError as error:
        say(f"error: {error}")
        code = EXIT_ERROR
    except ModuleNotFoundError as error:
        say(
            f"error: {error.name} is not installed here; enter the environment that make has made, "
            "with . .venv/bin/activate"
        )
        code = EXIT_ERROR
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); there is nothing left to tell it.
        sys.stderr.close()
        code = EXIT_ERROR
    except OSError as error:
        where = f" {error.filename}" if error.filename else ""
        say(f"error:{where} {error.strerror or error}")
        code = EXIT_ERROR
    except KeyboardInterrupt:
        code = 130
    except Exception:  # a fault of ours; Python's own exit code would read as a verdict
        say(traceback.format_exc().rstrip("\n"))
        code = EXIT_ERROR
    if code == EXIT_ERROR:
        # Whatever is left to write to a full or closed output would fail once more.
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.close()
    sys.exit(code)
