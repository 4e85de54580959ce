"""Watching several versions, and the table of all that were watched."""

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pitb import batches, libraries
from pitb.config import load
from pitb.errors import PitbError
from pitb.watch import changes, folders, versions
from pitb.watch.changes import UNCHANGED, Facts
from pitb.watch.setup import Setup
from pitb.watch.versions import Wanted

Watch = Callable[[Setup, Wanted], Facts]


def progress(text: str) -> None:
    """Tell people how far things are, without disturbing what is printed as the result."""
    print(text, file=sys.stderr, flush=True)


def prepare(
    root: Path, base: Path, out: Path, config_files: Sequence[Path], jobs: int, keep_free: float
) -> Setup:
    """What versions are watched with; Snakemake's --config holds, as in the scripts that train.

    Raises:
        PitbError: The project is not here, its configuration is wrong, or it has made nothing yet.
    """
    if not (root / "Cargo.toml").is_file():
        raise PitbError("pitb watch needs the project's workspace, which is not here")
    files = tuple(config_files) or (root / "config" / "config.yaml",)
    overrides = batches.overrides()
    config = load(files, root / "config" / "schema.json", overrides)
    if not config.pages:
        raise PitbError(f"{files[-1]} lists no pages, so that there are no figures to compare")
    from pitb.watch import figures

    figures.base_figures(base, config.pages)
    files = tuple(path.absolute() for path in files)
    return Setup(root, base, out, config, files, progress, jobs, keep_free, overrides)


def watch_all(setup: Setup, wanted: Iterable[Wanted]) -> list[str]:
    """Watch versions, one after the other; gives a sentence for each that could not be."""
    from pitb.watch import burn, pytorch

    watchers: dict[str, Watch] = {"burn": burn.watch, "torch": pytorch.watch}
    failed = []
    for version in wanted:
        try:
            found = watchers[version.library](setup, version)
        except PitbError as error:
            failed.append(f"{version.name}: {error}")
            continue
        changes.write_facts(found, setup.folder(version) / folders.FACTS)
        setup.say(f"{version.name}: {summary(found)}")
    return failed


def summary(found: Facts) -> str:
    """In a line what became of a version's items, and what it takes on the disk."""
    counts = dict.fromkeys(changes.COUNTED, 0)
    for item in found.items:
        counts[changes.counted(item.status)] += 1
    words = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{len(found.items)} compared: {words}; {found.megabytes:.0f} MB of disk"


def collect(out: Path) -> tuple[list[Facts], list[str]]:
    """All that was found so far, by version; and a sentence for each that cannot be read.

    Raises:
        PitbError: There is nothing.
    """
    found, failed = [], []
    for version in folders.made(out):
        path = folders.of(out, version) / folders.FACTS
        if path.is_file():
            try:
                found.append(changes.read_facts(path))
            except PitbError as error:
                failed.append(f"{error}; watch {version.name} again")
    if not found and not failed:
        raise PitbError(f"{out} holds no version yet; pitb watch --list names some")
    return found, failed


def anything_changed(found: Iterable[Facts]) -> bool:
    """Whether any item is not as it is in the project."""
    return any(item.status != UNCHANGED for facts in found for item in facts.items)


def known(out: Path, run: versions.Say = versions.say) -> tuple[list[dict[str, Any]], list[str]]:
    """The versions that the registries have, and a sentence for each registry that is not reached.

    Of each: ``library``, ``version``, whether it is the project's ``own``, whether it was
    ``watched``.
    """
    own = libraries.recorded()["versions"]
    found, failed = [], []
    for library, ask in (("burn", versions.burn_versions), ("torch", versions.torch_versions)):
        try:
            listed = ask(run)
        except PitbError as error:
            failed.append(str(error))
            continue
        for version in listed:
            facts = folders.of(out, Wanted(library, version)) / folders.FACTS
            entry = {"library": library, "version": version}
            found.append({**entry, "own": version == own[library], "watched": facts.is_file()})
    return found, failed
