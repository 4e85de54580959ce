"""What ``bundle.json`` and the crate say of the results in words: made of them, and made again."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pitb.bundle import contents
from pitb.config import Config
from pitb.files import read_text

NOT_OF_TRACES = ("snakemake",)
"""Versions that no trace names: of what made the results, and not the numbers in them."""
CONFIGURED = "configured"


def versions(config: Config, metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The versions that the traces name, but for pitb's; several of one thing in one text.

    Args:
        config: The configuration.
        metadata: Of each run's trace.
    """
    found: dict[str, set[str]] = {}
    for _, name, version in _named(config, metadata):
        if name not in ("target", "pitb"):
            found.setdefault(name, set()).add(version)
    return {name: ", ".join(sorted(those)) for name, those in sorted(found.items())}


def machine(config: Config, metadata: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What the traces say of the machine: a name and a value each."""
    found = {"threads of PyTorch": {str(config.threads)}}
    for side, name, version in _named(config, metadata):
        if name == "target":
            found.setdefault(f"target of {side}", set()).add(version)
    return [(name, ", ".join(sorted(those))) for name, those in sorted(found.items())]


def _named(
    config: Config, metadata: Mapping[str, Mapping[str, Any]]
) -> Sequence[tuple[str, str, str]]:
    """Side, name and version of everything that a trace names a version of."""
    found = []
    for run in config.runs:
        named = metadata[run.id].get("versions")
        for name, version in named.items() if isinstance(named, Mapping) else ():
            found.append((run.side, str(name), str(version)))
    return found


def result(results: Path, config: Config) -> str:
    """The run's outcome: the one-line summaries."""
    summaries = ("comparisons.summary", *(["ledger.summary"] if config.pages else []))
    return "; ".join(read_text(results / name).strip() for name in summaries)


def parts(config: Config, results: Path) -> dict[str, list[str]]:
    """The files of each part of a bundle, below the results."""
    return {CONFIGURED: contents.required(config), **contents.found_parts(results)}


def listed_parts(found: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The parts as ``bundle.json`` has them: name, meaning, and the number of files."""
    meanings = {
        CONFIGURED: "what the configuration asks for: traces, comparisons, tables, ledger, "
        "evidence",
        **{part.name: part.meaning for part in contents.PARTS},
    }
    return [
        {"name": name, "meaning": meanings[name], "files": len(names)}
        for name, names in found.items()
    ]
