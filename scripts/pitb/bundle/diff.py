"""Holding the figures of two bundles against each other: which differ by rounding, which really.

The rules are:

- A figure of the ledger differs by rounding where the ledger's own rule of it, by its kind, lets
  both values agree with the printed one; an ``exact`` one never does. Both are judged here: what
  the ledgers say of them is theirs.
- Another number differs by rounding where both are within `ledger.SLACK` of each other, or within
  `ledger.VALUE_ULPS` f32 ulp of their magnitude times the step that their row or column names; of
  lists and ranges, every number, of as many.
- A comparison's largest difference differs by rounding where both are within the tolerance, or
  within as many ulp of the values compared; its verdict and its tolerance never do.
- Text differs or not. What one bundle alone has really differs.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pitb import ledger
from pitb.bundle.report import printable
from pitb.tables import SUMMARY

ROUNDING, REAL = "rounding", "real"
ABSENT = "(not there)"
SHOWN = 40


@dataclass(frozen=True)
class Difference:
    """A figure that two bundles have differently."""

    kind: str
    """`ROUNDING` or `REAL`."""
    where: str
    a: str
    b: str


@dataclass(frozen=True)
class Compared:
    """All differences, the real ones first, and how many figures there are."""

    differences: tuple[Difference, ...]
    figures: int
    versions: tuple[Difference, ...]
    """Versions and what the machines are; context, and no figures."""

    @property
    def real(self) -> int:
        """The number of real differences."""
        return sum(item.kind == REAL for item in self.differences)


def diff(a: Mapping[str, Any], b: Mapping[str, Any]) -> Compared:
    """The differences of two bundles' figures, as `pitb.bundle.figures` reads them."""
    found: list[Difference] = []
    total = 0
    for pairs in (_ledger(a, b), _figures(a, b), _comparisons(a, b)):
        for item in pairs:
            total += 1
            if item is not None:
                found.append(item)
    found.sort(key=lambda item: item.kind != REAL)
    return Compared(tuple(found), total, tuple(_versions(a, b)))


def _key(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return row["page"], row["table"], row["row"], row["column"]


def _ledger(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference | None]:
    rows_a, rows_b = ({_key(row): row for row in side["ledger"]} for side in (a, b))
    for key in {**rows_a, **rows_b}:
        one, other = rows_a.get(key), rows_b.get(key)
        where = f"ledger: {' / '.join(key)}"
        values = [row["reproduced"] if row else ABSENT for row in (one, other)]
        if one is None or other is None:
            yield Difference(REAL, where, *values)
        elif one["printed"] != other["printed"] or one["kind"] != other["kind"]:
            yield Difference(REAL, f"{where}, as printed", one["printed"], other["printed"])
        elif one["status"] != other["status"] and values[0] == values[1]:
            # The same figure by the same rule: one of the ledgers says what is not so.
            yield Difference(REAL, f"{where}, status", one["status"], other["status"])
        elif values[0] == values[1]:
            yield None
        else:
            agree = all(map(_agrees, (one, other)))
            rounding = agree and (one["kind"] != "exact" or _same_number(*values))
            yield Difference(ROUNDING if rounding else REAL, where, *values)


def _agrees(row: Mapping[str, Any]) -> bool:
    """Whether a row's figure agrees with the printed one, whatever its status says."""
    names = (field.name for field in fields(ledger.Published))
    item = ledger.Published(**{name: row[name] for name in names})
    if item.kind not in ledger.KINDS:
        return False
    if item.kind != "exact" and ledger.numbers(item.printed) is None:
        return False
    return ledger.verdict(item, row["reproduced"])[1]


def _figures(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference | None]:
    """The figures of tables that the ledger does not judge."""
    judged = {_key(row) for side in (a, b) for row in side["ledger"]}
    rows_a, rows_b = (
        {_key(row): row["value"] for row in side["figures"] if _key(row) not in judged}
        for side in (a, b)
    )
    for key in {**rows_a, **rows_b}:
        one, other = rows_a.get(key, ABSENT), rows_b.get(key, ABSENT)
        if one == other:
            yield None
            continue
        rounding = _rounding(one, other, _step(key[2], key[3]))
        yield Difference(ROUNDING if rounding else REAL, f"table: {' / '.join(key)}", one, other)


def _step(row: str, column: str) -> int:
    """The step that a row or a column names, else 1."""
    return ledger.Published("", "", "" if row == SUMMARY else row, column, "", "").step


def _rounding(a: str, b: str, step: int) -> bool:
    """Whether two numbers, or two lists or ranges of as many, are apart by roundings alone."""
    found = [ledger.numbers(text) for text in (a, b)]
    if found[0] is None or found[1] is None or len(found[0]) != len(found[1]):
        return False
    pairs = [(float(one), float(other)) for one, other in zip(*found, strict=True)]
    return all(_close(one, other, max(abs(one), abs(other)), step) for one, other in pairs)


def _close(a: float, b: float, magnitude: float, step: int) -> bool:
    if not all(map(math.isfinite, (a, b, magnitude))):
        return False
    allowed = max(ledger.SLACK, ledger.VALUE_ULPS * step * ledger.f32_ulp(magnitude))
    return abs(a - b) <= allowed


def _same_number(a: str, b: str) -> bool:
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def _comparisons(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference | None]:
    by_name_a, by_name_b = ({item["name"]: item for item in side["comparisons"]} for side in (a, b))
    for name in {**by_name_a, **by_name_b}:
        one, other = by_name_a.get(name), by_name_b.get(name)
        where = f"comparison: {name}"
        if one is None or other is None:
            values = [item["verdict"] if item else ABSENT for item in (one, other)]
            yield Difference(REAL, where, *values)
            continue
        verdicts = [str(item["verdict"]) for item in (one, other)]
        same = verdicts[0] == verdicts[1]
        yield None if same else Difference(REAL, f"{where}, verdict", *verdicts)
        yield from _rows(where, one["rows"], other["rows"])


def _rows(
    where: str, a: list[Mapping[str, Any]], b: list[Mapping[str, Any]]
) -> Iterator[Difference | None]:
    rows_a, rows_b = (
        {(row["step"], row["quantity"], row["tensor"]): row for row in side} for side in (a, b)
    )
    for key in {**rows_a, **rows_b}:
        one, other = rows_a.get(key), rows_b.get(key)
        place = f"{where}, {key[1]} {key[2]}".rstrip() + f" at step {key[0]}"
        if one is None or other is None:
            values = [str(row["max_abs"]) if row else ABSENT for row in (one, other)]
            yield Difference(REAL, place, *values)
            continue
        values = [str(row["max_abs"]) for row in (one, other)]
        tolerances = [str(row["tolerance"]) for row in (one, other)]
        if tolerances[0] != tolerances[1]:
            yield Difference(REAL, f"{place}, tolerance", *tolerances)
            continue
        if values[0] == values[1] and one["verdict"] == other["verdict"]:
            yield None
            continue
        magnitude = max(float(row["magnitude"]) for row in (one, other))
        # Judged here, whatever their verdicts say; a NaN is within nothing.
        within = [float(row["max_abs"]) <= float(row["tolerance"]) for row in (one, other)]
        close = _close(float(values[0]), float(values[1]), magnitude, max(int(key[0]), 1))
        agree = one["verdict"] == other["verdict"] and within[0] == within[1]
        rounding = agree and (all(within) or close)
        yield Difference(ROUNDING if rounding else REAL, f"{place}, max abs", *values)


def _versions(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    said = [{"pitb": side["pitb"], **side["versions"]} for side in (a, b)]
    machines = [{f"machine, {key}": value for key, value in s["machine"].items()} for s in (a, b)]
    for one, other in (said, machines):
        for key in {**one, **other}:
            values = [str(item.get(key, ABSENT)) for item in (one, other)]
            if values[0] != values[1]:
                yield Difference("version", key, *values)


def as_json(a: Mapping[str, Any], b: Mapping[str, Any], found: Compared) -> dict[str, Any]:
    """As JSON has it."""
    return {
        "a": {"bundle": a["bundle"], "hash": a["hash"]},
        "b": {"bundle": b["bundle"], "hash": b["hash"]},
        "figures": found.figures,
        "real": found.real,
        "rounding": len(found.differences) - found.real,
        "differences": [asdict(item) for item in found.differences],
        "versions": [asdict(item) for item in found.versions],
    }


def text(a: Mapping[str, Any], b: Mapping[str, Any], found: Compared, everything: bool) -> str:
    """For people: what differs really, then what by rounding, then the counts."""
    lines = [f"a: {a['bundle']} ({a['hash']})", f"b: {b['bundle']} ({b['hash']})"]
    lines += [f"version: {item.where}: {item.a} | {item.b}" for item in found.versions]
    shown = found.differences if everything else found.differences[:SHOWN]
    lines += [f"{item.kind}: {item.where}: {item.a} | {item.b}" for item in shown]
    if len(shown) < len(found.differences):
        lines.append(f"... and {len(found.differences) - len(shown)} more; --all shows them")
    rounding = len(found.differences) - found.real
    same = found.figures - len(found.differences)
    lines.append(f"figures: {found.figures}: {same} same, {rounding} rounding, {found.real} real")
    return "\n".join(map(printable, lines))
