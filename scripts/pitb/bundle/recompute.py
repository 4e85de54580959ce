"""Computing again what a bundle claims: from its traces and evidence to tables and ledger.

What is exact is compared exactly, and texts to the byte. Sums may be added in another order on
another processor: a root mean square or a total norm may differ by 1e-12 of itself
(`SUM_RELATIVE`), and a figure that does so is then taken as the bundle has it, so that no text
differs for that alone.
"""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from pitb import batches, compare, ledger, listing, page_json, parquet, tables
from pitb.bundle.contents import RESULTS
from pitb.bundle.inside import Unreadable, first_difference, read_json, read_text
from pitb.bundle.report import Report
from pitb.compare import Comparison, NotComparable, Row
from pitb.config import Config
from pitb.errors import PitbError
from pitb.pages import PAGES
from pitb.pages.builders import build
from pitb.pages.sources import Sources
from pitb.results import comparison_path, evidence_path, pair_name, step_json_path, trace_path
from pitb.tables import Figure, Table
from pitb.trace import Trace

SUM_RELATIVE = 1e-12
"""How far sums in f64 may be apart: their order is the processor's own."""
SUMS = {"rmse"}
"""The columns of a comparison that are sums."""


@dataclass(frozen=True)
class Recomputed(Sources):
    """What tables are made of: traces of the bundle, and comparisons that were made again."""

    traces: Mapping[str, Trace] = field(default_factory=dict)
    comparisons: Mapping[tuple[str, str], Comparison] = field(default_factory=dict)

    def trace(self, run: str) -> Trace:
        """The trace of a run."""
        if run not in self.traces:
            raise PitbError(f"the trace of {run} is missing or could not be read")
        return self.traces[run]

    def comparison(self, pair: tuple[str, str]) -> tuple[Comparison, str]:
        """The comparison of two runs, and where it stands."""
        path = comparison_path(*pair)
        if pair not in self.comparisons:
            raise PitbError(f"{path} could not be made again")
        found = self.comparisons[pair]
        if found.error is not None:
            raise NotComparable(f"{self.results / path}: {found.error}")
        return found, path

    def evidence(self, name: str) -> tuple[Any, str]:
        """A piece of evidence, and where it stands."""
        path = evidence_path(name)
        return read_json(self.results.parent, f"{RESULTS}/{path}"), path


def check_comparisons(
    folder: Path, config: Config, traces: Mapping[str, Trace], report: Report
) -> dict[tuple[str, str], Comparison]:
    """Make every comparison again, and hold it against the one in the bundle."""
    made: dict[tuple[str, str], Comparison] = {}
    for pair in config.pairs:
        name = f"{RESULTS}/{comparison_path(pair.a, pair.b)}"
        if pair.a not in traces or pair.b not in traces:
            report.taken(name, "a trace of it is missing or could not be read")
            continue
        found = made[pair.a, pair.b] = compare.attempt(
            traces[pair.a],
            traces[pair.b],
            pair.tolerance,
            list(pair.quantities),
            pair.initial_state_may_differ,
        )
        rows, metadata = parquet.read_records(folder / name, compare.ROW_COLUMNS)
        stored = parquet.metadata_json(metadata, Path(name))
        report.checked["comparisons"] += 1
        wanted = compare.summarised(found)
        for key in sorted({*wanted, *stored}):
            if stored.get(key) != wanted.get(key):
                report.fault(
                    name,
                    f"its {key} is {_short(stored.get(key))}, but the traces give "
                    f"{_short(wanted.get(key))}",
                )
        _check_rows(name, rows, found.rows, report)
    for batch, members in config.pair_batches().items():
        name = f"{RESULTS}/evidence/preflight/compare-{batch}.json"
        if all((pair.a, pair.b) in made for pair in members):
            expected = {
                pair_name(pair.a, pair.b): made[pair.a, pair.b].initial_state for pair in members
            }
            if read_json(folder, name) != expected:
                report.fault(name, "it is not what the traces give")
            report.checked["evidence files"] += 1
    return made


def _check_rows(
    name: str, stored: Sequence[Mapping[str, Any]], made: Sequence[Row], report: Report
) -> None:
    if len(stored) != len(made):
        report.fault(name, f"it has {len(stored)} rows, but the traces give {len(made)}")
        return
    for number, (have, row) in enumerate(zip(stored, made, strict=True), start=1):
        for column, value in asdict(row).items():
            if not _same(have[column], value, column in SUMS):
                where = f"{row.quantity} {row.tensor}".strip()
                report.fault(
                    f"{name}, row {number}",
                    f"{column} of {where} at step {row.step} is {have[column]!r}, but the traces "
                    f"give {value!r}",
                )


def _same(a: Any, b: Any, is_sum: bool) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or (is_sum and math.isclose(a, b, rel_tol=SUM_RELATIVE, abs_tol=0.0))
    return type(a) is type(b) and bool(a == b)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:197]}..."


def check_steps(folder: Path, config: Config, traces: Mapping[str, Trace], report: Report) -> None:
    """The JSON of the one-step runs holds the numbers of their traces, as float32."""
    for run in config.runs:
        if run.program != batches.TRAIN_STEP or run.id not in traces:
            continue
        name = f"{RESULTS}/{step_json_path(run.id)}"
        report.checked["evidence files"] += 1
        if not _equal_json(read_json(folder, name), page_json.step_json(traces[run.id])):
            report.fault(name, f"it does not hold the numbers of the trace of {run.id}")


def _equal_json(a: Any, b: Any) -> bool:
    """Whether two values of JSON are the same, numbers as float32."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal_json(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal_json, a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        with np.errstate(over="ignore"):
            return bool(np.float32(a) == np.float32(b))
    return type(a) is type(b) and bool(a == b)


def check_batches(folder: Path, config: Config, report: Report) -> None:
    """What the burn programs were given is what the configuration says."""
    for program in config.programs("burn"):
        for batch, made in batches.burn_batches(config, program).items():
            name = f"{RESULTS}/batches/{batch}.json"
            report.checked["evidence files"] += 1
            # The lines that an option came from are named with the folder they are read from here.
            text = json.dumps(made, ensure_ascii=False).replace(f"{folder}/", "")
            if read_json(folder, name) != json.loads(text):
                report.fault(name, "it is not what the configuration gives")


def check_lists(folder: Path, made: Sequence[Comparison], report: Report) -> None:
    """The list of comparisons, in its three forms; ``made`` in the order of their files' names."""
    expected = {
        "comparisons.csv": listing.csv_text(made),
        "comparisons.md": listing.markdown(made),
        "comparisons.summary": compare.summary(made) + "\n",
    }
    check_texts(folder, RESULTS, expected, report, "lists")


def check_texts(
    folder: Path, below: str, expected: Mapping[str, str], report: Report, kind: str
) -> None:
    """Each text is in the bundle as it was made again, to the byte."""
    for name, text in expected.items():
        report.checked[kind] += 1
        stored = read_text(folder, f"{below}/{name}")
        if stored != text:
            report.fault(f"{below}/{name}", first_difference(stored, text))


def check_tables(folder: Path, config: Config, sources: Recomputed, report: Report) -> list[Figure]:
    """Make every page's tables again; the figures, of all pages."""
    figures: list[Figure] = []
    for page in config.pages:
        below = f"{RESULTS}/tables/{page}"
        try:
            made = build(page, sources)
        except Unreadable:
            raise
        except (PitbError, KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
            report.fault(below, f"its tables cannot be made of what is here: {error}")
            continue
        stored = read_figures(folder, f"{below}/figures.csv")
        for table in made:
            table.error = _as_stored(table.error, sources)
            table.figures = _accepted(table, stored)
        report.checked["tables"] += len(made)
        check_texts(folder, below, tables.texts(made), report, "files of tables")
        figures += [figure for table in made for figure in table.figures]
    return figures


def _as_stored(error: str | None, sources: Recomputed) -> str | None:
    """Where a table could not be made: the sentence with the path that the pipeline has."""
    return error if error is None else error.replace(str(sources.results), RESULTS)


def read_figures(folder: Path, name: str) -> list[Figure]:
    """The figures of a page's tables.

    Raises:
        PitbError: The file is no such list.
    """
    reader = csv.DictReader(read_text(folder, name).splitlines(), strict=True)
    try:
        if list(reader.fieldnames or ()) != list(tables.FIELDS):
            raise PitbError(f"{name}: its columns are not {', '.join(tables.FIELDS)}")
        rows = list(reader)
        if any(None in row or None in row.values() for row in rows):
            raise PitbError(f"{name}: a row has not {len(tables.FIELDS)} fields")
        return [Figure(**row) for row in rows]
    except csv.Error as error:
        raise PitbError(f"{name}, line {reader.line_num}: not valid CSV: {error}") from None


def _accepted(table: Table, stored: Sequence[Figure]) -> list[Figure]:
    """The figures made again; one that differs from the bundle's within rounding as it has it."""
    there = {(f.row, f.column): f for f in stored if f.table == table.name}
    found = []
    for figure in table.figures:
        other = there.get((figure.row, figure.column))
        if other is not None and other.value != figure.value:
            a, b = _float(other.value), _float(figure.value)
            within = a is not None and b is not None
            if within and math.isclose(a or 0, b or 0, rel_tol=SUM_RELATIVE, abs_tol=0.0):
                figure = replace(figure, value=other.value, shown=_shown(other, figure))
        found.append(figure)
    return found


def _shown(stored: Figure, made: Figure) -> str:
    """What people read of a figure that was rounded otherwise: the text of its own value."""
    if made.shown == made.value:
        return stored.value
    value = _float(stored.value)
    return f"{value:.2e}" if value is not None and made.shown.count("e") == 1 else made.shown


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def check_ledger(
    folder: Path, config: Config, figures: Sequence[Figure], report: Report
) -> list[ledger.Judged]:
    """Judge every published figure again; the bundle's ledger must say the same, in all forms."""
    if not config.pages:
        return []
    by_page = {
        page: [figure for figure in figures if figure.table in PAGES[page].tables]
        for page in config.pages
    }
    rows: list[ledger.Judged] = []
    for page, found in by_page.items():
        published = ledger.read_published(folder / f"config/published/{page}.csv")
        rows += ledger.judge(published, found)
    expected = {
        "ledger.csv": ledger.csv_text(rows),
        "ledger.md": ledger.markdown(rows),
        "ledger.summary": ledger.summary(rows) + "\n",
    }
    report.checked["ledger rows"] += len(rows)
    _check_claims(folder, rows, report)
    check_texts(folder, RESULTS, expected, report, "ledgers")
    name = f"{RESULTS}/ledger.parquet"
    stored, _ = parquet.read_records(folder / name, dict.fromkeys(ledger.FIELDS, "string"))
    report.checked["ledgers"] += 1
    made = [asdict(row) for row in rows]
    if stored != made:
        which = next((i for i, (a, b) in enumerate(zip(stored, made, strict=False)) if a != b), 0)
        report.fault(f"{name}, row {which + 1}", "it is not what the traces give")
    return rows


def _check_claims(folder: Path, rows: Sequence[ledger.Judged], report: Report) -> None:
    """Where the ledger's status of a figure is not what the traces give, in a sentence each."""
    name = f"{RESULTS}/ledger.csv"
    read_text(folder, name)
    try:
        stored = ledger.read(folder / name)
    except PitbError as error:
        report.fault(name, str(error).replace(str(folder / name), "it"))
        return
    claimed = {(row.page, row.table, row.row, row.column): row.status for row in stored}
    for row in rows:
        status = claimed.get((row.page, row.table, row.row, row.column))
        if status not in (None, row.status):
            report.fault(
                name,
                f"{row.page} {row.table} / {row.row} / {row.column}: it says {status!r}, but the "
                f"traces give {row.reproduced or 'nothing'}, which is {row.status!r}",
            )


def check_verdict(
    folder: Path,
    made: Sequence[Comparison],
    rows: Sequence[ledger.Judged],
    report: Report,
) -> None:
    """``checked.txt`` says that every pair was compared and every figure reproduced: so it is."""
    name = f"{RESULTS}/checked.txt"
    stored = read_text(folder, name)
    report.checked["lists"] += 1
    if stored != listing.CHECKED:
        report.fault(name, first_difference(stored, listing.CHECKED))
    failed = [f"{c.a} and {c.b} were not compared" for c in made if c.error is not None]
    failed += [f"{row.table} / {row.row} / {row.column} {row.status}" for row in rows
               if row.status != ledger.AGREES]  # fmt: skip
    if failed:
        report.fault(name, f"it says that all is well, but {failed[0]} ({len(failed)} in all)")


def read_traces(folder: Path, config: Config, report: Report) -> dict[str, Trace]:
    """Every trace of the configuration that is there, by its run.

    Raises:
        PitbError: One is no trace, though its checksum is right.
    """
    found = {}
    for run in config.runs:
        name = f"{RESULTS}/{trace_path(run.id)}"
        if not (folder / name).is_file():
            continue
        try:
            found[run.id] = parquet.read_trace(folder / name)
        except PitbError as error:
            sentence = str(error).replace(str(folder / name), name)
            if not any(fault.where == name for fault in report.faults):
                raise PitbError(sentence) from None
            report.taken(name, sentence)
            continue
        report.checked["traces"] += 1
    return found
