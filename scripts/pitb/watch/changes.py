"""What was found of each version, item by item, and the table of what changed."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from pitb import schema
from pitb.errors import PitbError
from pitb.files import write_json, write_text
from pitb.tables import line

UNCHANGED, CHANGED, NOT_TRIED = "unchanged", "changed", "not tried"
NOT_COMPILED, NOT_RUN = "does not compile", "does not run"
FAILURES = (NOT_COMPILED, NOT_RUN)
STATUSES = (UNCHANGED, CHANGED, *FAILURES, NOT_TRIED)
"""What became of an item."""
FAILED = "failed"
COUNTED = (UNCHANGED, CHANGED, FAILED, NOT_TRIED)
"""The same as the totals count it."""
WITHIN = "of which within rounding"
PROGRAM, DEFAULT, EQUATION, FIGURE = "program", "default", "equation", "figure"
KINDS = (PROGRAM, DEFAULT, EQUATION, FIGURE)
Why = tuple[str, str]
"""Status and reason of what there is not."""
SHOWN = 4
"""Items of one reason that a row names; of the rest it says how many they are."""
SUFFIXES = (".md", ".zh.md", ".csv", ".json")


@dataclass(frozen=True)
class Item:
    """One thing that is compared with what the project itself has."""

    kind: str
    item: str
    """What it is: ``AdamWConfig.epsilon``."""
    status: str
    before: str = ""
    then: str = ""
    """The value with that version, or why there is none."""
    evidence: str = ""
    """The file that it was read from, below the folder of the versions."""
    note: str = ""
    cause: str = ""
    """What several items have in common that changed together, for a reason that is not known."""


@dataclass(frozen=True)
class Facts:
    """All that was found of one version."""

    library: str
    version: str
    before: str
    """The version that it is compared with."""
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    """What that version does not have, and other sentences."""
    seconds: float = 0.0
    """That the last build or installation took."""
    megabytes: float = 0.0
    """That it takes on the disk."""

    @property
    def name(self) -> str:
        """``burn 0.21.0``."""
        return f"{self.library} {self.version}"


@dataclass(frozen=True)
class Row:
    """A row of the table: one change, or all that failed for one reason."""

    version: str
    kind: str
    item: str
    outcome: str
    before: str
    then: str
    evidence: str
    count: int
    """The items that it stands for."""


def counted(status: str) -> str:
    """What the totals count an item's status as."""
    return FAILED if status in FAILURES else status


def write_facts(found: Facts, path: Path) -> None:
    """Keep what was found of a version."""
    write_json(path, asdict(found))


def read_facts(path: Path) -> Facts:
    """What was found of a version.

    Raises:
        PitbError: The file is missing or is something else.
    """
    wanted = schema.fields_of(Facts)
    wanted["properties"]["items"] = schema.listed(schema.fields_of(Item))
    found = schema.read(path, wanted)
    items = tuple(Item(**item) for item in found["items"])
    for item in items:
        if item.status not in STATUSES or item.kind not in KINDS:
            raise PitbError(f"{path}: {item.item} is {item.kind!r}, {item.status!r}")
    return Facts(**{**found, "items": items, "notes": tuple(found["notes"])})


def totals(found: Facts) -> dict[str, dict[str, int]]:
    """By kind and `counted` status the number of items, and their sum; checked to add up.

    Of the unchanged ones, `WITHIN` are those that differ by no more than rounding.
    """
    counts = Counter((item.kind, counted(item.status)) for item in found.items)
    result: dict[str, dict[str, int]] = {}
    for kind in KINDS:
        of_kind = {status: counts[kind, status] for status in COUNTED}
        total = sum(item.kind == kind for item in found.items)
        if sum(of_kind.values()) != total:
            raise AssertionError(f"{of_kind} do not add up to {total}")
        within = sum(
            item.kind == kind and item.status == UNCHANGED and item.then != item.before
            for item in found.items
        )
        result[kind] = {"total": total, **of_kind, WITHIN: within}
    return result


def rows(found: Facts) -> list[Row]:
    """Every change, and a row for each reason for which things failed or were not tried.

    Changes of one cause that is not known are one row, too.
    """
    made = []
    for item in found.items:
        if item.status == CHANGED and not item.cause:
            made.append(_row(found, [item], item.item))
    grouped: dict[tuple[str, ...], list[Item]] = {}
    for item in found.items:
        if item.status in (*FAILURES, NOT_TRIED) or (item.status == CHANGED and item.cause):
            key = (item.kind, item.status, item.cause or item.then)
            grouped.setdefault(key, []).append(item)
    for items in grouped.values():
        names = ", ".join(item.item for item in items[:SHOWN])
        rest = len(items) - SHOWN
        made.append(_row(found, items, f"{names} and {rest} more" if rest > 0 else names))
    order = {kind: place for place, kind in enumerate(KINDS)}
    made.sort(key=lambda row: order[row.kind])  # which is stable
    standing = sum(item.status == UNCHANGED for item in found.items)
    if sum(row.count for row in made) + standing != len(found.items):
        raise AssertionError("the rows do not stand for every item once")
    return made


def _row(found: Facts, items: Sequence[Item], name: str) -> Row:
    first = items[0]
    alone = first.status == CHANGED
    then = f"{first.then} ({first.note})" if alone and first.note else first.then
    before = first.before if len(items) == 1 else ""
    return Row(found.name, first.kind, name, first.status, before, then, first.evidence, len(items))


ZH: Mapping[str, str] = {
    "version": "版本",
    "kind": "类别",
    "item": "项目",
    "outcome": "结果",
    "before": "之前的值",
    "then": "该版本的值",
    "evidence": "证据",
    "count": "个数",
    "compared with": "对照",
    "total": "总数",
    "unchanged": "未变",
    "changed": "变了",
    "failed": "编译或运行失败",
    "not tried": "没有试",
    "does not compile": "编译不过",
    "does not run": "运行不了",
    "program": "程序",
    "default": "默认值",
    "equation": "公式",
    "figure": "印出的数字",
    "What other versions change": "换了版本，什么变了",
    "Totals": "合计",
    "Changes": "变化",
    "Nothing changed, and all was tried.": "什么都没有变，全部试过。",
    "Each version": "各个版本",
    "for the last build or installation": "（最近一次编译或安装）",
    "on the disk": "磁盘",
    "of which within rounding": "其中只差舍入",
}


def said(text: str, language: str) -> str:
    """A heading or a word of the table."""
    return ZH.get(text, text) if language == "zh" else text


def markdown(found: Sequence[Facts], language: str) -> str:
    """The table for people, its headings in ``language``, ``en`` or ``zh``."""
    title = f"# {said('What other versions change', language)}"
    return "\n".join([title, "", *sections(as_json(found), language), ""])


def sections(found: Mapping[str, Any], language: str, level: int = 2) -> list[str]:
    """The lines of Markdown below the title.

    Args:
        found: What `as_json` gives.
        language: Of the headings, ``en`` or ``zh``.
        level: Of the headings.
    """

    def of(text: str) -> str:
        return said(text, language)

    def heading(text: str) -> list[str]:
        return [f"{'#' * level} {of(text)}", ""]

    lines = heading("Totals")
    head = ["version", "compared with", "kind", "total", *COUNTED, WITHIN]
    lines += [line(map(of, head)), line(["---"] * len(head))]
    for version in found["versions"]:
        for kind, counts in version["totals"].items():
            if counts["total"]:
                numbers = [str(counts[name]) for name in ("total", *COUNTED, WITHIN)]
                lines.append(line([_name(version), version["before"], of(kind), *numbers]))
    lines += ["", *heading("Changes")]
    listed = [row for version in found["versions"] for row in version["rows"]]
    if listed:
        names = [field.name for field in fields(Row)]
        lines += [line(map(of, names)), line(["---"] * len(names))]
        for row in listed:
            cells = {**row, "kind": of(row["kind"]), "outcome": of(row["outcome"])}
            lines.append(line(str(cells[name]) for name in names))
    else:
        lines.append(of("Nothing changed, and all was tried."))
    lines += ["", *heading("Each version")]
    for version in found["versions"]:
        took = f"{version['seconds']:.0f} s {of('for the last build or installation')}"
        lines.append(
            f"- {_name(version)}: {took}, {version['megabytes']:.0f} MB {of('on the disk')}"
        )
        lines += [f"  - {note}" for note in version["notes"]]
    return lines


def _name(version: Mapping[str, Any]) -> str:
    return f"{version['library']} {version['version']}"


def as_csv(found: Iterable[Facts]) -> str:
    """The rows as CSV."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    for facts in found:
        writer.writerows(asdict(row) for row in rows(facts))
    return buffer.getvalue()


def as_json(found: Iterable[Facts]) -> dict[str, Any]:
    """The table for programs: of each version its totals and its rows."""
    return {
        "versions": [
            {
                "library": facts.library,
                "version": facts.version,
                "before": facts.before,
                "seconds": round(facts.seconds, 1),
                "megabytes": round(facts.megabytes, 1),
                "notes": list(facts.notes),
                "totals": totals(facts),
                "rows": [asdict(row) for row in rows(facts)],
            }
            for facts in found
        ]
    }


def write(found: Sequence[Facts], folder: Path) -> None:
    """Write ``changes`` into ``folder``: Markdown in both languages, CSV, JSON."""
    write_text(folder / "changes.md", markdown(found, "en"))
    write_text(folder / "changes.zh.md", markdown(found, "zh"))
    write_text(folder / "changes.csv", as_csv(found))
    write_json(folder / "changes.json", as_json(found))
