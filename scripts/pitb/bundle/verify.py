"""Checking a bundle that someone has sent: nothing is run, and nothing needed but its files.

See `pitb.bundle.limits` for the process that this runs in.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pitb
from pitb import parts, parquet
from pitb.bundle import (
    configured,
    contents,
    described,
    recompute,
    rescoped,
    retrained,
    unpacking,
)
from pitb.bundle.contents import RESULTS
from pitb.bundle.inside import read_json
from pitb.bundle.report import Report
from pitb.config import Config, load
from pitb.errors import PitbError
from pitb.results import comparison_path

OBSERVED = (
    ("evidence/moves", "what two programs observed of themselves"),
    ("evidence/noassign.json", "what the compiler said"),
    ("evidence/discard.json", "what the compiler and a program said"),
    ("evidence/must-use.json", "what the compiler said"),
    ("evidence/schedules.json", "what the libraries' schedulers gave; sheets are held against it"),
    ("explain", "it is computed by pitb explain, from the same traces"),
    ("port", "it needs cargo and torch"),
    ("digits", "its traces are read, what is said of them is not computed again"),
)
"""Below the results: what stands for itself."""


def verify(path: Path, work: Path) -> dict[str, Any]:
    """Check a bundle; the report as JSON.

    Args:
        path: The zip.
        work: An empty folder, for the unpacked files.

    Raises:
        PitbError: It could not be read: what is wrong, in a sentence.
    """
    folder = work / "bundle"
    folder.mkdir()
    try:
        return _verify(path, folder)
    except PitbError as error:
        sentence = str(error).replace(f"{folder}/", "")
        where = "" if sentence.startswith(str(path)) else f"{path}: "
        raise PitbError(f"{where}{sentence}") from None


def _verify(path: Path, folder: Path) -> dict[str, Any]:
    report = Report(str(path))
    with unpacking.opened(path) as archive:
        names = [entry.filename for entry in archive.entries]
        archive.unpack(folder)
    listed = described.check_manifest(folder, names, report)
    described.check_name(path, folder, report)
    altered = bool(report.faults)
    try:
        described.check_measured(folder, names, report)
        told = described.description(folder)
        described.check_crate(folder, names, told, listed, report)
        if told["pitb"] != pitb.__version__:
            report.notes.append(f"made by pitb {told['pitb']}, checked by pitb {pitb.__version__}")
        if told["differs_from_commit"]:
            changed = ", ".join(told["differs_from_commit"][:3])
            report.notes.append(f"its sources differ from commit {told['commit']}: {changed}")
        _recompute(folder, names, told, report)
    except PitbError as error:
        # What is broken where a checksum is wrong was told already.
        if not altered:
            raise
        sentence = str(error).replace(f"{folder}/", "")
        report.taken("what follows from the altered files", sentence)
    report.notes.append(
        "traces that differ from the true ones by no more than roundings, with all that follows "
        "from them made again, cannot be told from within; who vouches for the hash vouches for "
        "them, and for what is listed as not recomputed"
    )
    return report.json()


def _recompute(
    folder: Path, names: list[str], told: Mapping[str, Any], report: Report
) -> None:
    config = _config(folder, told)
    missing = [
        name for name in contents.required(config) if f"{RESULTS}/{name}" not in names
    ]
    for name in missing:
        report.fault(f"{RESULTS}/{name}", "it is missing: the configuration asks for it")
    traces = recompute.read_traces(folder, config, report)
    configured.check(folder, config, told["versions"], traces, report)
    retrained.check(config, traces, report)
    _check_other_traces(folder, names, config, report)
    if missing:
        report.taken("comparisons, tables and ledger", f"{RESULTS}/{missing[0]} is missing")
        return
    made = recompute.check_comparisons(folder, config, traces, report)
    recompute.check_steps(folder, config, traces, report)
    recompute.check_batches(folder, config, report)
    in_order = [
        made[pair.a, pair.b]
        for pair in sorted(config.pairs, key=lambda pair: comparison_path(pair.a, pair.b))
        if (pair.a, pair.b) in made
    ]
    if len(in_order) == len(config.pairs):
        recompute.check_lists(folder, in_order, report)
        sources = recompute.Recomputed(folder / RESULTS, traces, made)
        figures = recompute.check_tables(folder, config, sources, report)
        rows = recompute.check_ledger(folder, config, figures, report)
        recompute.check_verdict(folder, in_order, rows, report)
    else:
        report.taken("tables and ledger", "not every pair could be compared again")
    rescoped.check(folder, names, report)
    for below, why in OBSERVED:
        if any(name.startswith(f"{RESULTS}/{below}") for name in names):
            report.taken(f"{RESULTS}/{below}", why)


def _config(folder: Path, told: Mapping[str, Any]) -> Config:
    """The configuration that the bundle was made with."""
    name = "config/schema.json"
    _check_references(read_json(folder, name), name)
    paths = [folder / name for name in told["configuration"]["files"]]
    if not paths:
        raise PitbError("bundle.json names no file of the configuration")
    for path in paths:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise PitbError("bundle.json names a configuration that is not in the bundle")
    return load(paths, folder / name, told["configuration"]["overrides"])


def _check_references(value: Any, name: str) -> None:
    """A schema refers to itself alone: a validator would fetch what it refers to elsewhere."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, list):
            waiting += found
        elif isinstance(found, dict):
            for key, item in found.items():
                inner = isinstance(item, str) and item.startswith("#")
                if key in ("$ref", "$dynamicRef", "$recursiveRef") and not inner:
                    raise PitbError(f"{name} refers to {str(item)[:80]!r}, which is not in it")
                waiting.append(item)


def _check_other_traces(
    folder: Path, names: list[str], config: Config, report: Report
) -> None:
    """Traces that the configuration does not name: every one must be a trace of this schema."""
    own = {f"{RESULTS}/traces/{run.id}.parquet" for run in config.runs}
    others = [
        name
        for name in names
        if name.endswith(".parquet") and "/traces/" in name and name not in own
    ]
    for name in sorted(others):
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            continue
        try:
            parquet.read_trace(folder / name)
        except PitbError as error:
            sentence = str(error).replace(f"{folder}/", "")
            if any(fault.where == name for fault in report.faults):
                continue
            raise PitbError(sentence) from None
        report.checked["traces"] += 1
    for parent in sorted({Path(name).parent for name in others}):
        if (folder / parent / parts.NAME.format(0)).is_file():
            parts.read(folder / parent, parquet.read_trace)


