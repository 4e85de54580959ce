"""What stands where below the folder of the versions, and what of it need not be made again."""

import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pitb.errors import PitbError
from pitb.files import read_json, write_json
from pitb.watch.versions import Wanted

FACTS = "facts.json"
NEEDED_GB = {"burn": 1.0, "torch": 6.5}
"""Of disk, that a version takes at its largest, measured once and rounded up."""
KEEP_GB = 5.0
"""Of disk, that is left free."""
HEAVY = {"burn": ("workspace", "target"), "torch": ("environment",)}
"""Folders of a version that are made again where they are missing, and that are large."""
KEPT = ("built-*.json", "installed.json", "items.json")
"""What says that those folders, and what was computed with them, need not be made again."""


def of(out: Path, version: Wanted) -> Path:
    """The folder of a version."""
    return out / version.folder


def size(folder: Path) -> int:
    """Bytes of the files below a folder, a file that has two names counted once."""
    seen: dict[tuple[int, int], int] = {}
    for path in folder.rglob("*"):
        try:
            found = path.lstat()
        except OSError:
            continue  # gone while it was looked at
        seen[found.st_dev, found.st_ino] = found.st_size
    return sum(seen.values())


def check_room(folder: Path, version: Wanted, keep: float) -> None:
    """See to it that there is room to make a version.

    Raises:
        PitbError: There is not; says what is needed and what is there.
    """
    place = folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free / 1e9
    needed = NEEDED_GB[version.library]
    if free < needed + keep:
        raise PitbError(
            f"{version.name} needs {needed:g} GB of disk, and {keep:g} GB are to stay free; "
            f"{place} has {free:.1f} GB (see --keep-free and --clean)"
        )


def clean(out: Path, versions: Iterable[Wanted]) -> int:
    """Delete what is large of versions, and what says that it need not be made again.

    What was found of them stays in their tables. Gives the bytes freed.
    """
    freed = 0
    for version in versions:
        for name in HEAVY[version.library]:
            folder = of(out, version) / name
            if folder.is_dir():
                freed += size(folder)
                shutil.rmtree(folder)
        for pattern in KEPT:
            for path in of(out, version).glob(pattern):
                path.unlink()
    return freed


def fresh(folder: Path) -> Path:
    """An empty folder: what an earlier version of our own code left there must not count."""
    if folder.is_dir():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def made(out: Path) -> list[Wanted]:
    """The versions that have a folder, in the order of their names."""
    found = []
    for path in sorted(out.glob("*")) if out.is_dir() else ():
        library, _, number = path.name.partition("-")
        if path.is_dir() and library in HEAVY and number:
            found.append(Wanted(library, number))
    return found


def digest(paths: Iterable[Path], *texts: str) -> str:
    """Changes when a file or a text does."""
    found = hashlib.sha256("\0".join(texts).encode())
    for path in sorted(paths):
        found.update(f"{path.name}\0".encode())
        found.update(path.read_bytes() if path.is_file() else b"")
    return found.hexdigest()[:16]


def once(path: Path, key: str, work: Callable[[], Any]) -> Any:
    """What ``work`` gives, kept in ``path``; made again where ``key`` is another than then."""
    try:
        kept = read_json(path)
        if isinstance(kept, dict) and kept.get("key") == key and "value" in kept:
            return kept["value"]
    except PitbError:
        pass  # not made yet, or by a killed call of another time
    value = work()
    write_json(path, {"key": key, "value": value})
    return value
