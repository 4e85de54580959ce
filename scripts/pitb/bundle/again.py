"""All that a bundle claims, computed again from what it holds: what follows from what, in order."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pitb import parquet, parts
from pitb.bundle import configured, contents, recompute, rescoped, retrained, stated
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


def check(
    folder: Path, names: list[str], told: Mapping[str, Any], findings: bool, report: Report
) -> None:
    """Compute again what the bundle in ``folder`` claims, and add what differs to the report.

    Args:
        folder: The unpacked bundle.
        names: Its files.
        told: Its ``bundle.json``.
        findings: Whether the runs of the findings are trained again.
        report: What is wrong is added to it.

    Raises:
        PitbError: A file that is needed cannot be read.
    """
    config = _config(folder, told)
    stated.check_configuration(folder, told, report)
    stated.check_pages(names, config, report)
    missing = [name for name in contents.required(config) if f"{RESULTS}/{name}" not in names]
    for name in missing:
        report.fault(f"{RESULTS}/{name}", "it is missing: the configuration asks for it")
    traces = recompute.read_traces(folder, config, report)
    configured.check(folder, config, told["versions"], traces, report)
    retrained.check(config, told["versions"], traces, report)
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
    stated.check(folder, config, traces, told, report)
    read = {f"{RESULTS}/{name}" for name in contents.required(config)}
    read |= rescoped.check(folder, names, findings, report)
    for below, why in OBSERVED:
        found = [name for name in names if is_below(name, f"{RESULTS}/{below}")]
        if found:
            report.taken(f"{RESULTS}/{below}", why)
            read |= {*found}
    for name in unread(names, read):
        report.taken(name, "nothing here computes it again")


def is_below(name: str, path: str) -> bool:
    """Whether a name is that path, or stands in the folder of that path."""
    return name == path or name.startswith(f"{path}/")


def unread(names: Iterable[str], read: Collection[str]) -> list[str]:
    """The files of the results that no check has looked at; whole folders where all are such."""
    looked_into = {RESULTS, *(folder for name in read for folder in _folders(name))}
    found = set()
    for name in names:
        if name.startswith(f"{RESULTS}/") and name not in read:
            untouched = (path for path in _folders(name) if path not in looked_into)
            found.add(next(untouched, name))
    return sorted(found)


def _folders(name: str) -> list[str]:
    """The folders that a file stands in, from the outermost."""
    steps = name.split("/")
    return ["/".join(steps[:end]) for end in range(1, len(steps))]


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


def _check_other_traces(folder: Path, names: list[str], config: Config, report: Report) -> None:
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
