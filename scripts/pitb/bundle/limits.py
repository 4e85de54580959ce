"""Work on what strangers send, in a process of its own that may take so much time and memory.

Where the system allows it (Linux) the process cannot have more memory than that; elsewhere it is
watched. It may hang, crash or be ended: the caller gets one sentence. It ends with its caller, also
where that is told to end; were the caller killed outright, its processor time is limited as well.
"""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from pitb.bundle.report import printable
from pitb.errors import PitbError

SECONDS = 28
"""With starting and ending it, less than 30."""
MEGABYTES = 1000
_RESERVED = 150
"""Megabytes of the limit that are the interpreter's and its libraries' own."""
_LEAST = 300
_POLL = 0.02
_SLOW_POLL = 0.25
"""Seconds between two looks at a process, and at its memory where that takes a process itself."""
THREADS = 2
REFUSED = 2
"""The exit code of a worker that says in a sentence what it could not do."""


def run(task: str, paths: Sequence[Path], seconds: float, megabytes: int, **options: bool) -> Any:
    """What a task of `pitb.bundle.worker` gives for these paths, as JSON.

    Args:
        task: Its name.
        paths: The bundles.
        seconds: How long it may take.
        megabytes: How much memory it may have.
        options: The task's own.

    Raises:
        PitbError: The task's own sentence, or that it took too long, too much, or crashed.
    """
    with _ending(), tempfile.TemporaryDirectory(prefix="pitb-") as scratch:
        folder = Path(scratch)
        answer, said = folder / "answer.json", folder / "said.txt"
        work = folder / "work"
        work.mkdir()
        command = [sys.executable, "-P", "-m", "pitb.bundle.worker", task, json.dumps(options)]
        command += [
            str(megabytes),
            str(seconds),
            str(answer),
            str(work),
            *(str(path.absolute()) for path in paths),
        ]
        package = str(Path(__file__).resolve().parents[2])
        others = os.environ.get("PYTHONPATH")
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([package, others] if others else [package]),
            # Threads of linear algebra each reserve memory, and nothing here is large.
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "MALLOC_ARENA_MAX": "2",
        }
        with said.open("wb") as sink:
            process = subprocess.Popen(
                command, env=environment, cwd=work, stdin=subprocess.DEVNULL, stdout=sink,
                stderr=sink,
            )  # fmt: skip
            try:
                why = _wait(process, seconds, megabytes)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        names = " and ".join(str(path) for path in paths)
        if why is not None:
            raise PitbError(printable(f"{names} could not be read: it takes more than {why}"))
        text = said.read_bytes()[-20_000:].decode(errors="replace")
        if process.returncode == REFUSED and answer.is_file():
            sentence = json.loads(answer.read_text(encoding="utf-8"))["error"]
            for path in paths:
                sentence = sentence.replace(str(path.absolute()), str(path))
            raise PitbError(printable(sentence))
        if process.returncode != 0:
            what = _crash(process.returncode, text, _last_read(work), seconds)
            raise PitbError(printable(f"{names} could not be read: {what}"))
        return json.loads(answer.read_text(encoding="utf-8"))


@contextmanager
def _ending() -> Iterator[None]:
    """Have a signal to end raise here, so that what was begun is ended and cleared away."""

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield  # no other thread may set what a signal does
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    kinds = [signal.Signals[name] for name in names]
    # One that is ignored (nohup) stays so.
    before = {kind: signal.getsignal(kind) for kind in kinds}
    heeded = [kind for kind in kinds if before[kind] == signal.SIG_DFL]
    for kind in heeded:
        signal.signal(kind, end)
    try:
        yield
    finally:
        for kind in heeded:
            signal.signal(kind, before[kind])


def _wait(process: "subprocess.Popen[bytes]", seconds: float, megabytes: int) -> str | None:
    """Wait for the end; what there was too much of, where there was."""
    began = looked = time.monotonic()
    cheap = Path("/proc/self/statm").is_file()
    while process.poll() is None:
        now = time.monotonic()
        if now > began + seconds:
            return f"{seconds:g} s (--seconds)"
        if cheap or now > looked + _SLOW_POLL:
            looked = now
            if _resident(process.pid, cheap) > megabytes << 20:
                return f"{megabytes} MB of memory (--memory)"
        time.sleep(_POLL)
    return None


def _resident(pid: int, cheap: bool) -> int:
    """The memory that a process has, in bytes; 0 where the system does not say so."""
    try:
        if cheap:
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            return pages * os.sysconf("SC_PAGE_SIZE")
        words = ["ps", "-o", "rss=", "-p", str(pid)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return int(done.stdout) << 10
    except (OSError, ValueError, IndexError):
        return 0


def reading(work: Path) -> Path:
    """The file in which a worker leaves word of what it reads."""
    return work / "reading.txt"


def _last_read(work: Path) -> str:
    try:
        path = Path(reading(work).read_text(encoding="utf-8"))
    except OSError:
        return ""
    parts = path.relative_to(work).parts[1:] if path.is_relative_to(work) else path.parts
    return "/".join(parts)


def _crash(code: int, text: str, last: str, seconds: float) -> str:
    lowered = text.lower()
    if code == -getattr(signal, "SIGXCPU", 0) and code:
        return f"it takes more than {seconds:g} s (--seconds)"
    if "memory allocation" in lowered or "memoryerror" in lowered or code == -9:
        return "it takes more memory than is allowed (--memory)"
    if last and code < 0:
        return f"{last} is not a readable Parquet file: it makes the reader crash"
    line = (text.strip().splitlines() or [""])[-1][:200]
    return f"reading it crashed ({line or f'code {code}'})"


def limit_time(seconds: float) -> None:
    """Have the system end this process, where it can, should nobody else.

    Readers of Parquet use several threads, so it may have `THREADS` times as much of processors.
    """
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        most = math.ceil(THREADS * seconds)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_CPU, (most, hard))
    except (ImportError, OSError, ValueError):  # Windows, or refused
        return


def limit_memory(megabytes: int) -> None:
    """Take from this process what is beyond so much memory, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    # With less than that nothing can be imported; that it takes more is seen from outside.
    most = max(megabytes - _RESERVED, _LEAST) << 20
    kinds = [resource.RLIMIT_DATA] if sys.platform.startswith("linux") else [resource.RLIMIT_AS]
    for kind in kinds:
        try:
            hard = resource.getrlimit(kind)[1]
            most = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (most, hard))
        except (OSError, ValueError):  # macOS refuses some
            continue
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (OSError, ValueError):
        return
