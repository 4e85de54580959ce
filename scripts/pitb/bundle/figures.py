"""The figures of a bundle, for holding two bundles against each other."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from pitb import compare, ledger, parquet
from pitb.bundle import contents, described, recompute, unpacking
from pitb.bundle.contents import RESULTS
from pitb.bundle.inside import read_json, read_text
from pitb.bundle.report import Report
from pitb.errors import PitbError


def of(path: Path, work: Path) -> dict[str, Any]:
    """What a bundle says in numbers: ledger, tables, comparisons, versions; as JSON has it.

    Raises:
        PitbError: It cannot be read, or a checksum is wrong.
    """
    work.mkdir()
    report = Report(str(path))
    with unpacking.opened(path) as archive:
        names = [entry.filename for entry in archive.entries]
        archive.unpack(work)
    try:
        described.check_manifest(work, names, report)
        described.check_name(path, work, report)
        described.check_measured(work, names, report)
        if report.faults:
            fault = report.faults[0]
            raise PitbError(f"it was altered, see pitb verify: {fault.where}: {fault.what}")
        told = described.description(work)
        return {
            "bundle": str(path),
            "hash": report.hash,
            "pitb": told["pitb"],
            "versions": told["versions"],
            "machine": read_json(work, contents.MEASURED)["measured"]["machine"],
            "ledger": _ledger(work),
            "figures": _figures(work, names),
            "comparisons": _comparisons(work, names),
        }
    except PitbError as error:
        sentence = str(error).replace(f"{work}/", "")
        where = "" if sentence.startswith(str(path)) else f"{path}: "
        raise PitbError(f"{where}{sentence}") from None


def _ledger(work: Path) -> list[dict[str, str]]:
    path = work / RESULTS / "ledger.csv"
    if not path.is_file():
        return []
    read_text(work, f"{RESULTS}/ledger.csv")
    return [asdict(row) for row in ledger.read(path)]


def _figures(work: Path, names: list[str]) -> list[dict[str, str]]:
    found = []
    for name in sorted(names):
        if name.startswith(f"{RESULTS}/tables/") and name.endswith("/figures.csv"):
            page = name.split("/")[2]
            for figure in recompute.read_figures(work, name):
                found.append({"page": page, **asdict(figure)})
    return found


def _comparisons(work: Path, names: list[str]) -> list[dict[str, Any]]:
    found = []
    for name in sorted(names):
        if name.startswith(f"{RESULTS}/comparisons/") and name.endswith(".parquet"):
            rows, metadata = parquet.read_records(work / name, compare.ROW_COLUMNS)
            stored = parquet.metadata_json(metadata, Path(name))
            kept = ("step", "quantity", "tensor", "n", "verdict")
            found.append(
                {
                    "name": name.rpartition("/")[2].removesuffix(".parquet"),
                    "verdict": str(stored.get("verdict")),
                    "rows": [
                        {
                            **{key: row[key] for key in kept},
                            "tolerance": _number(row["tolerance"]),
                            "max_abs": _number(row["max_abs"]),
                            "magnitude": _number(max(abs(row["a"]), abs(row["b"]))),
                        }
                        for row in rows
                    ],
                }
            )
    return found


def _number(value: float) -> float | str:
    """As JSON has it: what is not finite as text."""
    return value if abs(value) < float("inf") else str(value)
