"""One pipeline at a time in a folder, which must be one that can be written.

The lock is the system's own, on an open file: it ends with the process that holds it, however that
ends. So a run that goes on is told from one that was killed, which Snakemake's own locks are not.
"""

import tempfile
from contextlib import suppress
from pathlib import Path

import filelock

from pitb.errors import PitbError

STATE = Path(".snakemake")
WRITTEN = (STATE, Path("results"), Path("results/logs"), Path("results/benchmarks"))
"""The folders, below the working folder, without which no job can be begun."""
_LOCK, _PROCESS = "pitb.lock", "running.pid"


def hold(folder: Path, process: int) -> filelock.BaseFileLock:
    """Hold a folder for this process, for as long as it lives or holds the lock that is returned.

    Args:
        folder: The working folder.
        process: The id of this process, by which a second one names it.

    Raises:
        PitbError: Another process holds it, or a folder cannot be written.
    """
    for name in WRITTEN:
        check_writable(folder / name)
    lock = filelock.FileLock(folder / STATE / _LOCK, blocking=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise PitbError(
            f"a run is going on in {folder.resolve()}{_holder(folder)}; wait until it has ended, or"
            " work in another clone"
        ) from None
    except (NotImplementedError, OSError):
        return lock  # a file system without locks; Snakemake's own is all there is
    (folder / STATE / _PROCESS).write_text(str(process), encoding="utf-8")
    return lock


def _holder(folder: Path) -> str:
    with suppress(OSError):
        text = (folder / STATE / _PROCESS).read_text(encoding="utf-8")
        if text.isdigit():
            return f" (process {text})"
    return ""


def check_writable(folder: Path) -> None:
    """Make a folder where it is missing, and a file in it, which is gone again.

    Raises:
        PitbError: That cannot be done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        raise PitbError(f"cannot write in {folder}: {error.strerror or error}") from None
