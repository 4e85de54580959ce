"""The published figures, computed with another version on one side."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from pitb import compare, ledger, tables
from pitb.config import Config
from pitb.errors import PitbError
from pitb.ledger import Published
from pitb.pages import PAGES
from pitb.pages.builders import BUILDERS
from pitb.pages.sources import Sources, forget
from pitb.pairs import compare_pair
from pitb.results import comparison_path, evidence_path, trace_path
from pitb.tables import Figure, Table
from pitb.watch.changes import CHANGED, FAILURES, FIGURE, NOT_RUN, NOT_TRIED, UNCHANGED, Item, Why
from pitb.watch.setup import Setup
from pitb.watch.versions import Wanted

COMPILED = ("noassign", "discard", "must-use")
"""Evidence that comes from asking the compiler, and needs what ``discard`` needs."""
Missing = Mapping[str, Why]
"""By a path below the results: status and reason of what that version has not made."""


def published(root: Path, pages: Iterable[str]) -> list[Published]:
    """Every figure that the pages print."""
    return [
        figure
        for page in pages
        for figure in ledger.read_published(root / "config" / "published" / f"{page}.csv")
    ]


def base_figures(results: Path, pages: Iterable[str]) -> list[Figure]:
    """The figures as the project itself has reproduced them.

    Raises:
        PitbError: It has not, so far.
    """
    found = []
    for page in pages:
        path = results / "tables" / page / "figures.csv"
        if not path.is_file():
            raise PitbError(
                f"{path} does not exist; what versions are compared with comes by: make"
            )
        found += tables.read_figures(path)
    return found


def take_over(base: Path, results: Path, paths: Iterable[str]) -> None:
    """Copy what the other side has, which the version does not touch.

    Raises:
        PitbError: The project itself has not made it.
    """
    for path in paths:
        if not (base / path).is_file():
            raise PitbError(f"{base / path} does not exist; it comes by: make")
        (results / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(base / path, results / path)


def other_side(config: Config, side: str) -> list[str]:
    """What of the results the side opposite to ``side`` has made, and the tables need."""
    other = "pytorch" if side == "burn" else "burn"
    needed = {path for page in config.pages for path in PAGES[page].needs()}
    runs = [trace_path(run.id) for run in config.runs if run.side == other]
    evidence = [path for path in needed if path.startswith("evidence/")]
    mine = burn_evidence() if side == "burn" else pytorch_evidence()
    return [*runs, *sorted(set(evidence) - set(mine))]


def burn_evidence() -> list[str]:
    """Evidence that programs of burn's side make."""
    names = ("defaults/burn", "moves/burn", *COMPILED)
    return [evidence_path(name) for name in names]


def pytorch_evidence() -> list[str]:
    """Evidence that PyTorch's side makes."""
    return [evidence_path(name) for name in ("defaults/pytorch", "moves/pytorch")]


def compute(setup: Setup, version: Wanted, results: Path, missing: Missing) -> list[Item]:
    """Compare all pairs, make the tables, and compare every published figure with the project's.

    Args:
        setup: The project.
        version: The version.
        results: Its results: traces and evidence of both sides.
        missing: What of them is not there, and why.
    """
    pages = setup.config.pages
    base = base_figures(setup.base, pages)
    missing = {**missing, **compare_pairs(setup.config, results, missing)}
    then, failed = build_tables(pages, results)
    place = f"{version.folder}/{results.name}"
    return items(published(setup.root, pages), base, then, failed, missing, place)


def compare_pairs(config: Config, results: Path, missing: Missing) -> dict[str, Why]:
    """Compare every pair both of whose traces are there; of the others why they are not."""
    lost = {}
    for pair in config.pairs:
        name = comparison_path(pair.a, pair.b)
        (results / name).unlink(missing_ok=True)
        reasons = [
            missing[trace_path(run)] for run in (pair.a, pair.b) if trace_path(run) in missing
        ]
        if reasons:
            lost[name] = reasons[0]
        else:
            compare.write(compare_pair(asdict(pair), results), results / name)
    return lost


def build_tables(pages: Iterable[str], results: Path) -> tuple[dict[str, Figure], dict[str, str]]:
    """Every figure of the tables that can be made, and by table why it cannot.

    Figures by ``<table>/<row>/<column>``. They are also written, as the project's own are.
    """
    forget()
    found = Sources(results)
    figures: dict[str, Figure] = {}
    failed: dict[str, str] = {}
    for page in pages:
        made = []
        for name in PAGES[page].tables:
            try:
                made.append(BUILDERS[page][name](found))
            except PitbError as error:
                failed[name] = " ".join(str(error).split())
                made.append(Table(name, error=failed[name]))
        tables.write(made, results / "tables" / page)
        for table in made:
            figures |= {key_of(figure): figure for figure in table.figures}
    return figures, failed


def key_of(figure: Figure | Published) -> str:
    """What tells one figure from another."""
    return f"{figure.table}/{figure.row}/{figure.column}"


def items(
    printed: Iterable[Published],
    base: Iterable[Figure],
    then: Mapping[str, Figure],
    failed: Mapping[str, str],
    missing: Missing,
    folder: str,
) -> list[Item]:
    """Every published figure: the same as before, or moved beyond what its ledger allows.

    Args:
        printed: The figures that the pages print.
        base: Those that the project itself reproduces.
        then: By `key_of` those of the version.
        failed: By table why it could not be made.
        missing: What the version has not made, and why.
        folder: That of the version's results, below that of all versions.
    """
    before = {key_of(figure): figure for figure in base}
    found = []
    for item in printed:
        key = key_of(item)
        ours, theirs = before.get(key), then.get(key)
        value = ours.value if ours else "missing"
        if theirs is None:
            status, reason = _why(item, failed, missing)
            found.append(Item(FIGURE, key, status, value, reason, "", f"printed {item.printed}"))
            continue
        status = UNCHANGED if same(item, value, theirs.value) else CHANGED
        evidence = "; ".join(f"{folder}/{path}" for path in theirs.evidence.split("; "))
        note = f"printed {item.printed}"
        found.append(Item(FIGURE, key, status, value, theirs.value, evidence, note))
    return found


def same(item: Published, before: str, then: str) -> bool:
    """Whether a figure is what it was: equal, or within what the ledger allows of the printed."""
    if before == then:
        return True
    agreed, agrees = (ledger.verdict(item, value)[1] for value in (before, then))
    # Where even the project's own differs from what is printed, equal is all that can be said.
    return agreed and agrees


def _why(item: Published, failed: Mapping[str, str], missing: Missing) -> Why:
    """Status and reason of a figure that the version's tables do not hold."""
    for page in PAGES.values():
        if item.table not in page.tables:
            continue
        if item.table not in failed:
            return CHANGED, "not in the table any more"
        reasons = [reason for path, reason in missing.items() if path in failed[item.table]]
        # What does not compile says more than what nobody tried.
        for status in (*FAILURES, NOT_TRIED):
            for kind, reason in reasons:
                if kind == status:
                    return status, reason
        return NOT_RUN, failed[item.table]
    return NOT_TRIED, f"no page has a table {item.table}"
