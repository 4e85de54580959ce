"""The breadth of a bundle: its sheets and findings, made again from what was judged.

The traces of the breadth are too large for a bundle, so what was judged of them is taken as it is;
of the findings the sizes are, which the reference gives, and what the libraries' sources say.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pitb import parquet
from pitb.breadth import findings_page, inputs, report, summarise
from pitb.breadth.finding import from_plain
from pitb.breadth.records import ROW_COLUMNS
from pitb.bundle import resized
from pitb.bundle.contents import RESULTS
from pitb.bundle.inside import first_difference, read_text
from pitb.bundle.report import Report
from pitb.errors import PitbError
from pitb.labels import LANGUAGES
from pitb.registry import optimizers
from pitb.results import FINDINGS, SCOPES

JUDGED = ("outcomes.json", "kills.json", "papers.json", "rows.parquet")
_SECTION = re.compile(r"### (\S+)")
_PROGRAM = re.compile(r".*\[(main\.py|main\.rs)\]\(")
WRITTEN = tuple(f"findings{suffix}" for suffix in FINDINGS)


TAKEN = {
    "judged": "the traces that it was judged by are not in the bundle",
    "plans": "they are what was asked for, and taken as they are",
    "reproductions": "they are programs, and nothing is run",
}
"""The folders of a scope, and why nothing makes them again."""


def check(folder: Path, names: Sequence[str], findings: bool, told: Report) -> set[str]:
    """Check every scope of the breadth that is in the bundle, and the findings beside them.

    Returns:
        The files that were looked at, or of which it is said that they are taken as they are.
    """
    there = set(names)
    read: set[str] = set()
    for scope in SCOPES:
        below = f"{RESULTS}/{scope}"
        own = [name.removeprefix(f"{below}/") for name in names if name.startswith(f"{below}/")]
        if not own:
            continue
        judged = [f"{below}/judged/{item.key}/{name}" for item in optimizers() for name in JUDGED]
        judged += [f"{below}/coverage.json", f"{RESULTS}/evidence/schedules.json"]
        lacking = [name for name in judged if name not in there]
        if lacking:
            what = f"{lacking[0]} is not in the bundle ({len(lacking)} files in all)"
            made = [name for name in own if name.partition("/")[0] not in ("coverage.json", *TAKEN)]
            if made:
                told.fault(below, f"it has {made[0]}, but {what}")
            else:
                told.taken(below, what)
                read |= {f"{below}/{name}" for name in own}
            continue
        cases, sheets = _check_sheets(folder, below, told)
        read |= {*judged, *sheets, f"{below}/rows.parquet"}
        if f"{below}/findings.json" in there:
            _check_findings(folder, below, cases, told)
            read |= {f"{below}/{name}" for name in ("findings.json", *WRITTEN)}
            if findings:
                resized.check(folder, below, told)
            else:
                told.taken(f"{below}/findings.json, sizes", "pitb verify --findings trains them")
            told.taken(f"{below}/findings.json", "the places in the libraries' sources are theirs")
        for name, why in TAKEN.items():
            found = [f"{below}/{path}" for path in own if path.startswith(f"{name}/")]
            if found:
                told.taken(f"{below}/{name}", why)
                read |= {*found}
    for name in WRITTEN:
        published, source = f"{RESULTS}/{name}", f"{RESULTS}/breadth/{name}"
        if published in there and source in there:
            told.checked["findings"] += 1
            if (folder / published).read_bytes() != (folder / source).read_bytes():
                told.fault(published, f"it is not {source}, of which it is a copy")
        elif published in there:
            told.taken(published, f"{source} is not in the bundle")
        read.add(published)
    return read


def _check_sheets(folder: Path, below: str, told: Report) -> tuple[set[str], list[str]]:
    """Make every sheet again; all cases that were judged, schedules among them, and the sheets."""
    outcomes: list[report.Record] = []
    kills: list[report.Record] = []
    about_papers: list[report.Record] = []
    floor: list[report.Record] = []
    for optimizer in optimizers():
        judged = folder / below / "judged" / optimizer.key
        outcomes += inputs.read_outcomes(judged / "outcomes.json")
        kills += inputs.read_kills(judged / "kills.json")
        about_papers += inputs.read_papers(judged / "papers.json")
    for batch in _judged_rows(folder, below):
        floor += _floor_rows(batch)
    found = report.Judged(outcomes, kills, about_papers, None)
    coverage = inputs.read_coverage(folder / below / "coverage.json")
    schedules = inputs.read_schedules(folder / RESULTS / "evidence/schedules.json")
    again = folder.parent / "again" / Path(below).name
    sheets = []
    summarise.write(found, report.floor_of(floor), coverage, schedules, again)
    for path in sorted(again.iterdir()):
        told.checked["sheets"] += 1
        sheets.append(f"{below}/{path.name}")
        stored, made = read_text(folder, f"{below}/{path.name}"), path.read_text(encoding="utf-8")
        if stored != made:
            told.fault(f"{below}/{path.name}", first_difference(stored, made))
    _check_rows(folder, below, told)
    return {str(row["case"]) for row in (*outcomes, *schedules["rows"])}, sheets


def _floor_rows(batch: parquet.Batch) -> list[report.Record]:
    """The rows that the sheet of the rounding floor is made of."""
    wanted = (batch["quantity"] == "param") & np.isin(batch["pair"].astype(str), report.FLOOR_PAIRS)
    lists = [batch[name][wanted].tolist() for name in report.FLOOR_COLUMNS]
    return [
        dict(zip(report.FLOOR_COLUMNS, values, strict=True)) for values in zip(*lists, strict=True)
    ]


def _judged_rows(folder: Path, below: str) -> Iterator[parquet.Batch]:
    """The rows of all optimizers, one after another."""
    for optimizer in optimizers():
        path = folder / below / "judged" / optimizer.key / "rows.parquet"
        yield from parquet.open_file(path, ROW_COLUMNS).batches


def _check_rows(folder: Path, below: str, told: Report) -> None:
    """``rows.parquet`` is the rows of all optimizers; both are read side by side."""
    name = f"{below}/rows.parquet"
    told.checked["sheets"] += 1
    done = 0
    whole = parquet.open_file(folder / name, ROW_COLUMNS).batches
    for stored, judged in side_by_side(whole, _judged_rows(folder, below)):
        count = len(judged["step"])
        if len(stored["step"]) != count:
            told.fault(name, f"it has not as many rows as were judged; they part at {done + 1}")
            return
        for key, values in judged.items():
            floats = values.dtype.kind == "f"
            same = (
                np.array_equal(values, stored[key], equal_nan=True)
                if floats
                else np.array_equal(values, stored[key])
            )
            if not same:
                told.fault(f"{name}, rows {done + 1} on", f"column {key} is not what was judged")
                return
        done += count


def side_by_side(
    a: Iterator[parquet.Batch], b: Iterator[parquet.Batch]
) -> Iterator[tuple[parquet.Batch, parquet.Batch]]:
    """Two streams of rows in pieces of one length; where one ends first, its last is empty."""
    empty: parquet.Batch = {name: np.empty(0) for name in ROW_COLUMNS}
    left: list[parquet.Batch] = [empty, empty]
    streams = (a, b)
    while True:
        for side, stream in enumerate(streams):
            while not len(left[side]["step"]):
                following = next(stream, None)
                if following is None:
                    break
                left[side] = following
        lengths = [len(batch["step"]) for batch in left]
        if not any(lengths):
            return
        if not all(lengths):
            yield left[0], left[1]
            return
        count = min(lengths)
        pieces = [{key: values[:count] for key, values in batch.items()} for batch in left]
        left = [{key: values[count:] for key, values in batch.items()} for batch in left]
        yield pieces[0], pieces[1]


def _check_findings(folder: Path, below: str, cases: set[str], told: Report) -> None:
    """CSV, Parquet and both pages say what ``findings.json`` says."""
    found = [from_plain(item) for item in inputs.read_findings(folder / below / "findings.json")]
    texts = {"findings.csv": findings_page.csv_text(found)}
    for language, suffix in LANGUAGES.items():
        name = f"findings{suffix}.md"
        outputs = quoted(read_text(folder, f"{below}/{name}"))
        texts[name] = findings_page.markdown(found, language, outputs)
    for name, text in texts.items():
        told.checked["findings"] += 1
        stored = read_text(folder, f"{below}/{name}")
        if stored != text:
            told.fault(f"{below}/{name}", first_difference(stored, text))
    name = f"{below}/findings.parquet"
    rows, _ = parquet.read_records(folder / name, findings_page.COLUMNS, nullable=True)
    told.checked["findings"] += 1
    if rows != findings_page.records(found):
        told.fault(name, "it is not what findings.json says")
    for finding in found:
        for case in (finding.case, finding.align.case):
            if case and case not in cases:
                told.fault(
                    f"{below}/findings.json", f"{finding.id} names {case}, which was not run"
                )


def quoted(page: str) -> dict[str, dict[str, str]]:
    """What a page of findings quotes of its programs' output, by finding and side."""
    found: dict[str, dict[str, str]] = {}
    finding, side = "", ""
    block: list[str] | None = None
    for line in page.splitlines():
        section, program = _SECTION.fullmatch(line), _PROGRAM.match(line)
        if block is not None:
            if line == "```":
                found.setdefault(finding, {})[side] = "\n".join(block)
                block = None
            else:
                block.append(line)
        elif section is not None:
            finding = section[1]
        elif program is not None:
            side = "pytorch" if program[1] == "main.py" else "burn"
        elif line == "```text":
            block = []
    if block is not None:
        raise PitbError("a page of findings has a block that does not end")
    return found
