"""What a bundle says of itself as a whole, made again: versions, machine, result, parts.

That the crate repeats it is `pitb.bundle.described`'s to see; here it must be so.
"""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import pitb
from pitb.bundle import contents, facts
from pitb.bundle.contents import CRATE, DESCRIPTION, MEASURED, RESULTS
from pitb.bundle.inside import read_json
from pitb.bundle.packing import digest
from pitb.bundle.report import Report
from pitb.config import Config
from pitb.trace import Trace

CONFIGURATION = ["config/config.yaml"]
"""The files of the configuration where nobody names others."""


def published() -> dict[str, str]:
    """SHA-256 of what this version of the package judges by, by name in the project."""
    text = resources.files("pitb").joinpath("published.json").read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(text)
    return found


def digests(root: Path) -> dict[str, str]:
    """The same of a project's folder, for `published` to give."""
    paths = [root / "config/schema.json", *(root / "config/published").glob("*.csv")]
    return {path.relative_to(root).as_posix(): digest(path) for path in sorted(paths)}


def check_configuration(folder: Path, told: Mapping[str, Any], report: Report) -> None:
    """What the results are judged by is this version's own; what was set beside it is said."""
    report.taken("sources and configuration", "held by the hash alone")
    configuration = told["configuration"]
    if configuration["files"] != CONFIGURATION:
        report.notes.append(f"its configuration is {', '.join(configuration['files'])}")
    for key, value in configuration["overrides"].items():
        shown = json.dumps(value, ensure_ascii=False)
        report.notes.append(f"its configuration was overridden: {key} is {shown}")
    if told["pitb"] != pitb.__version__:
        report.taken(
            "config/published",
            f"this pitb knows no published figures of pitb {told['pitb']}",
        )
        return
    for name, expected in published().items():
        report.checked["files of published figures"] += 1
        if not (folder / name).is_file():
            report.fault(name, "it is missing")
        elif digest(folder / name) != expected:
            report.fault(name, f"it is not what pitb {told['pitb']} judges by")


def check_pages(names: Sequence[str], config: Config, report: Report) -> None:
    """No ledger and no table stands there of which the configuration says nothing."""
    ledgers = tuple(f"{RESULTS}/{name}" for name in contents.ledgers())
    for name in names:
        if name in ledgers and not config.pages:
            report.fault(name, "it is there, but the configuration has no page that it judges")
        if name.startswith(f"{RESULTS}/tables/") and name.split("/")[2] not in config.pages:
            report.fault(name, "it is there, but the configuration does not name its page")


def check(
    folder: Path,
    config: Config,
    traces: Mapping[str, Trace],
    told: Mapping[str, Any],
    report: Report,
) -> None:
    """Make again what ``bundle.json`` and the crate say, and compare."""
    expected: dict[str, Any] = {"varies": MEASURED}
    expected["result"] = facts.result(folder / RESULTS, config)
    if told["pitb"] == pitb.__version__:
        expected["parts"] = facts.listed_parts(facts.parts(config, folder / RESULTS))
        expected["left_out"] = contents.left_out()
    else:
        report.taken(f"{DESCRIPTION}, parts", "they are those of another version of pitb")
    metadata = {run: found.metadata for run, found in traces.items()}
    machine: list[tuple[str, str]] = []
    if all(run.id in metadata for run in config.runs):
        kept = {key: told["versions"].get(key) for key in facts.NOT_OF_TRACES}
        expected["versions"] = {**facts.versions(config, metadata), **kept}
        machine = facts.machine(config, metadata)
    else:
        report.taken(f"{DESCRIPTION}, versions", "a trace is missing or could not be read")
    for key, value in expected.items():
        report.checked["statements"] += 1
        if told[key] != value:
            report.fault(DESCRIPTION, f"its {key} is {_short(told[key])}, but must be "
                         f"{_short(value)}")  # fmt: skip
    _check_crate(folder, machine, expected["result"], report)
    report.taken(DESCRIPTION, "the commit, its date, and the versions of pitb and Snakemake")
    report.taken(CRATE, "what ran: the jobs, their commands, and what they read and made")
    report.taken(MEASURED, "times, memory, logs and the machine are as they were measured")


def _check_crate(
    folder: Path, machine: Sequence[tuple[str, str]], result: str, report: Report
) -> None:
    if not (folder / CRATE).is_file():
        return
    entities = {item["@id"]: item for item in read_json(folder, CRATE)["@graph"]}
    for name, value in machine:
        identifier = f"#{name.replace(' ', '-')}"
        found = entities.get(identifier, {}).get("value")
        if found != value:
            what = f"{identifier} is {_short(found)}, but the traces say {value!r}"
            report.fault(CRATE, what)
    if not str(entities.get("./", {}).get("description")).endswith(f" This run: {result}"):
        report.fault(CRATE, "./ has a description that does not end with the run's result")


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:197]}..."
