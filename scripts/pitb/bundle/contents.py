"""What a bundle holds: the list of its parts, and what of them can be computed again.

A bundle is the project's folder as git tracks it, with ``results/`` beside it, and four files more:

=========================  =====================================================================
``bundle.json``            what this bundle is: versions, commit, parts, and what was left out
``ro-crate-metadata.json`` what ran with which inputs and results, as a Provenance Run Crate
``measured.json``          all that varies between runs: times, host, memory, logs
``manifest-sha256.txt``    the SHA-256 of every other file but ``measured.json``
=========================  =====================================================================

The SHA-256 of the manifest names the bundle, so `measured.json` alone stands outside it; that file
holds its own checksum.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pitb import batches
from pitb.config import Config
from pitb.ledger import SUFFIXES
from pitb.pages import PAGES
from pitb.results import FINDINGS, SCOPES, comparison_path

FORMAT = 1
"""Of bundles; a change that older versions cannot read raises it."""
DESCRIPTION = "bundle.json"
CRATE = "ro-crate-metadata.json"
MEASURED = "measured.json"
MANIFEST = "manifest-sha256.txt"
ADDED = (DESCRIPTION, CRATE, MEASURED, MANIFEST)
"""The files that a bundle has beside the project's and the results."""
RESULTS = "results"
SUFFIXES_OF_TABLES = (".md", ".zh.md", ".csv")
HASH_DIGITS = 32
_NAME = re.compile(rf"(?<![0-9a-f])([0-9a-f]{{{HASH_DIGITS}}})(?![0-9a-f])")


@dataclass(frozen=True)
class Part:
    """Files below the results that go in where they are there, beside what `required` lists."""

    name: str
    patterns: tuple[str, ...]
    """Globs below the results."""
    meaning: str


PARTS = (
    Part(
        "findings",
        tuple(f"findings{suffix}" for suffix in FINDINGS),
        "every difference in a default or an equation",
    ),
    Part(
        "breadth",
        tuple(
            f"{scope}/{pattern}"
            for scope in SCOPES
            for pattern in (
                "*.md",
                "*.csv",
                "*.json",
                "*.txt",
                "*.parquet",
                "plans/*.json",
                "judged/*/*",
                "reproductions/**/*",
            )
        ),
        "what the breadth judged, its sheets, and the programs that reproduce its findings",
    ),
    Part(
        "schedules",
        ("evidence/schedules.json",),
        "what the schedules gave, which the breadth reads",
    ),
    Part("explanations", ("explain/*",), "which difference costs what"),
    Part("port", ("port/*.md", "port/*.json", "port/summary.txt"), "ported configurations"),
    Part(
        "digits",
        ("digits/*.md", "digits/data.json", "digits/traces/**/*.parquet"),
        "the worked example of recording",
    ),
)
"""To put more in, add it here: nothing else lists what goes in."""


@dataclass(frozen=True)
class LeftOut:
    """What is not in a bundle, and why; ``bundle.json`` repeats it."""

    pattern: str
    why: str


LEFT_OUT = (
    *(
        LeftOut(
            f"{scope}/traces",
            "hundreds of megabytes; what was judged of them is here, and make "
            f"{'slice' if scope.endswith('slice') else 'breadth'} makes them again",
        )
        for scope in SCOPES
    ),
    LeftOut("*/reproductions/target", "built programs"),
    LeftOut("logs", f"their texts stand in {MEASURED}, since they hold times"),
    LeftOut("benchmarks", f"their numbers stand in {MEASURED}"),
    LeftOut("bundles", "other bundles"),
)
"""Below the results. What neither this nor the parts name is told of when a bundle is made."""


def required(config: Config) -> list[str]:
    """What the configuration makes, below the results: what ``rule all`` asks for.

    A bundle that lacks one of these is not whole, whatever its manifest says.
    """
    found = {*_runs(config)}
    found |= {comparison_path(pair.a, pair.b) for pair in config.pairs}
    found |= {f"evidence/preflight/{name}.json" for name in batches.pair_batches(config)}
    found |= {path for page in config.pages for path in PAGES[page].needs()}
    found |= {path for page in config.pages for path in tables(page)}
    found |= {"comparisons.csv", "comparisons.md", "comparisons.summary", "checked.txt"}
    if config.pages:
        found |= {*ledgers()}
    return sorted(found)


def ledgers() -> list[str]:
    """The files of the ledger, below the results."""
    return [f"ledger{suffix}" for suffix in (*SUFFIXES, ".summary")]


def _runs(config: Config) -> Iterator[str]:
    for batch in batches.pytorch_batches(config).values():
        yield from batches.outputs(batch)
    for program in config.programs("burn"):
        for name, batch in batches.burn_batches(config, program).items():
            yield from batches.outputs(batch, program)
            yield f"batches/{name}.json"


def tables(page: str) -> list[str]:
    """The files of a page's tables, below the results."""
    names = [f"{table}{suffix}" for table in PAGES[page].tables for suffix in SUFFIXES_OF_TABLES]
    return [f"tables/{page}/{name}" for name in (*names, "figures.csv")]


def found_parts(results: Path) -> dict[str, list[str]]:
    """The files of each of `PARTS` that are there, below the results, sorted."""
    left_out = {path for item in LEFT_OUT for path in results.glob(item.pattern)}

    def wanted(path: Path) -> bool:
        hidden = any(part.startswith(".") for part in path.relative_to(results).parts)
        return path.is_file() and not hidden and left_out.isdisjoint(path.parents)

    return {
        part.name: sorted(
            {
                path.relative_to(results).as_posix()
                for pattern in part.patterns
                for path in results.glob(pattern)
                if wanted(path)
            }
        )
        for part in PARTS
    }


def left_out() -> list[dict[str, str]]:
    """What does not go in and why, as ``bundle.json`` has it."""
    return [{"path": f"{RESULTS}/{item.pattern}", "why": item.why} for item in LEFT_OUT]


def not_asked_for(results: Path, taken: Iterable[str]) -> list[str]:
    """Files below the results that are neither taken nor left out for a reason, sorted."""
    known = set(taken)
    named = {path for item in LEFT_OUT for path in results.glob(item.pattern)}
    return sorted(
        path.relative_to(results).as_posix()
        for path in results.rglob("*")
        if path.is_file()
        and path.relative_to(results).as_posix() not in known
        and named.isdisjoint(path.parents)
    )


def hash_in_name(name: str) -> str | None:
    """The hash that a bundle's file name carries; None where it carries none, or several."""
    found = _NAME.findall(name)
    return found[0] if len(found) == 1 else None
