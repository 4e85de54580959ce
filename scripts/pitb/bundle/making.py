"""Making a bundle of a folder of results: gather, describe, pack."""

import importlib.metadata
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pitb
from pitb import batches, strict_yaml, trace
from pitb.bundle import contents, crate, facts, packing, provenance
from pitb.config import Config, load
from pitb.errors import PitbError
from pitb.results import trace_path

SHOWN = 3
"""Names in a sentence about several."""


@dataclass(frozen=True)
class Sources:
    """What git tracks."""

    files: tuple[str, ...]
    commit: str
    date: str
    """Of the commit, a day."""
    changed: tuple[str, ...]
    """What differs from the commit, and what git does not know."""


@dataclass(frozen=True)
class Made:
    """A bundle that was written."""

    path: Path
    files: int
    changed: tuple[str, ...]
    not_asked_for: tuple[str, ...]
    """Files of the results that are no part of a bundle."""
    unrecorded: tuple[str, ...]
    """Files of the bundle of which Snakemake does not say what made them."""


def sources(root: Path, allow_dirty: bool) -> Sources:
    """The files that git tracks below ``root``.

    Raises:
        PitbError: There is no git, no repository or no commit, or files differ from the commit and
            ``allow_dirty`` is not set.
    """
    files = tuple(sorted(filter(None, _git(root, "ls-files", "-z").split("\0"))))
    commit = _git(root, "rev-parse", "HEAD").strip()
    date = _git(root, "show", "-s", "--format=%cs", "HEAD").strip()
    if "Snakefile" not in files:
        raise PitbError(
            f"git tracks no Snakefile in {root}, so it is not this project's repository"
        )
    status = _git(root, "status", "--porcelain", "-z", "--no-renames")
    changed = tuple(sorted(line[3:] for line in status.split("\0") if line))
    if changed and not allow_dirty:
        raise PitbError(
            f"the sources differ from the last commit ({_some(changed)}), so none tells what made "
            "the results; commit them, or say --allow-dirty (make bundle ALLOW_DIRTY=1)"
        )
    return Sources(tuple(name for name in files if (root / name).is_file()), commit, date, changed)


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, check=False)
    except OSError as error:
        raise PitbError(
            f"git is needed to list the sources, and does not run: {error.strerror}"
        ) from None
    if done.returncode != 0:
        first = (done.stderr.decode(errors="replace").splitlines() or ["it failed"])[0]
        raise PitbError(f"git cannot list the sources in {root}: {first}")
    return done.stdout.decode(errors="surrogateescape")


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def make(
    root: Path, results: Path, config: Sequence[Path], schema: Path, out: Path, allow_dirty: bool
) -> Made:
    """Write the bundle of ``results`` into the folder ``out``.

    Raises:
        PitbError: The sources are not those of a commit, the configuration is not among them, or a
            result that the configuration asks for is missing.
    """
    tracked = sources(root, allow_dirty)
    files: dict[str, packing.Content] = {name: root / name for name in tracked.files}
    used = [_within(path, root, files) for path in config]
    overrides = json.loads(os.environ.get(batches.OVERRIDES, "{}"))
    loaded = load(config, schema, overrides)
    parts = facts.parts(loaded, results)
    taken = sorted({name for names in parts.values() for name in names})
    for name in taken:
        path = results / name
        if not path.is_file():
            raise PitbError(f"{path} does not exist; run make first")
        files[f"{contents.RESULTS}/{name}"] = path
    for name in contents.ADDED:
        if name in files:
            raise PitbError(f"git tracks {name}, which is the name of a file of the bundle itself")
    made = [name for name in files if name.startswith(f"{contents.RESULTS}/")]
    jobs = provenance.jobs(Path(), made, root)
    said = _facts(root, results, loaded, tracked)
    description = {
        "format": contents.FORMAT,
        "pitb": pitb.__version__,
        "commit": tracked.commit,
        "date": tracked.date,
        "differs_from_commit": list(tracked.changed),
        "configuration": {"files": used, "overrides": overrides},
        "parts": facts.listed_parts(parts),
        "left_out": contents.left_out(),
        "varies": contents.MEASURED,
        "versions": dict(said.versions),
        "result": said.result,
    }
    files[contents.DESCRIPTION] = packing.json_bytes(description)
    files[contents.MEASURED] = packing.sealed(provenance.measured(jobs, results, root))
    named = {name: content for name, content in files.items() if name != contents.MEASURED}
    files[contents.CRATE] = crate.metadata({**named, contents.MEASURED: b""}, jobs, said)
    path = packing.pack(files, out, pitb.__version__)
    rest = contents.not_asked_for(results, taken)
    unrecorded = provenance.unrecorded(jobs, made)
    return Made(path, len(files) + 1, tracked.changed, tuple(rest), tuple(unrecorded))


def _within(path: Path, root: Path, files: dict[str, packing.Content]) -> str:
    """The name of a file of the configuration among the sources."""
    try:
        name = path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        name = ""
    if name not in files:
        raise PitbError(
            f"the configuration {path} is not tracked by git in {root}, so add it there"
        )
    return name


def _facts(root: Path, results: Path, config: Config, tracked: Sources) -> crate.Facts:
    citation = strict_yaml.load(root / "CITATION.cff").value
    metadata = {run.id: trace.read(results / trace_path(run.id)).metadata for run in config.runs}
    versions = facts.versions(config, metadata)
    versions["snakemake"] = importlib.metadata.version("snakemake")
    return crate.Facts(
        version=pitb.__version__,
        title=str(citation["title"]),
        abstract=" ".join(str(citation["abstract"]).split()),
        authors=tuple(_author(item) for item in citation["authors"]),
        license=str(citation["license"]),
        url=citation.get("repository-code") or citation.get("url"),
        date=tracked.date,
        versions=dict(sorted(versions.items())),
        machine=facts.machine(config, metadata),
        result=facts.result(results, config),
    )


def _author(item: dict[str, Any]) -> str:
    given = [str(item[key]) for key in ("given-names", "family-names") if key in item]
    return str(item.get("name") or " ".join(given))
