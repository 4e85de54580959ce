"""Many traces diagnosed with their configuration withheld: how many are recovered."""

import random
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitb.breadth import sheets
from pitb.breadth.phases import IMPOSSIBLE
from pitb.diagnose import recover, words
from pitb.diagnose.diagnosis import diagnose
from pitb.diagnose.recording import load
from pitb.errors import PitbError
from pitb.files import read_json, write_text
from pitb.labels import LANGUAGES
from pitb.tables import line
from pitb.trace import read

SIDES = ("pytorch", "burn")
RECOVERED, MISSED, LACKING = "recovered", "missed", "not identifiable"


@dataclass(frozen=True)
class Item:
    """A trace, and where its configuration is known from."""

    source: str
    """pages, or the scope of the breadth."""
    optimizer: str
    side: str
    name: str
    path: Path
    entry: dict[str, Any] | None = None
    """Its entry of the plan; the pages' traces name their own."""


def pages(folder: Path) -> list[Item]:
    """The pages' runs in a folder of traces: ``<side>/<name>.parquet``."""
    return [
        Item("pages", path.stem.partition("-")[0], side, path.stem, path)
        for side in SIDES
        for path in sorted((folder / side).glob("*.parquet"))
    ]


def breadth(folder: Path, sample: int = 0) -> list[Item]:
    """The runs of the breadth below ``folder``; of each optimizer and side ``sample``, or all."""
    found = []
    for plan in sorted((folder / "plans").glob("*.json")):
        cases = read_json(plan)["cases"]
        for side in SIDES:
            names = [name for name, entry in cases.items() if IMPOSSIBLE not in entry[side]]
            if sample and len(names) > sample:
                names = sorted(random.Random(f"{plan.stem} {side}").sample(names, sample))
            for name in names:
                path = folder / "traces" / plan.stem / side / f"{name}.parquet"
                if path.exists():
                    found.append(Item(folder.name, plan.stem, side, name, path, cases[name]))
    return found


def survey(items: Iterable[Item]) -> Iterator[dict[str, Any]]:
    """A record for each trace."""
    for item in items:
        yield record(item)


def record(item: Item) -> dict[str, Any]:
    """What became of one trace."""
    start = time.perf_counter()
    outcome, said, reason, residual = _outcome(item)
    return {
        "source": item.source,
        "optimizer": item.optimizer,
        "side": item.side,
        "run": item.name,
        "outcome": outcome,
        "found": said,
        "residual_ulp": residual,
        "seconds": round(time.perf_counter() - start, 2),
        "reason": reason,
    }


def _outcome(item: Item) -> tuple[str, str, str, float]:
    try:
        recording = load(item.path)
    except PitbError as error:
        return LACKING, "", str(error).replace(f"{item.path}", "the trace"), 0.0
    if item.entry is None:
        truths = recover.of_configuration(read(item.path).configuration, item.side)
    else:
        truths = recover.of_plan(item.entry, item.side)
    if not recover.evaluates_once(truths):
        reason = "it evaluates the loss several times in an update, and one gradient is recorded"
        return LACKING, "", reason, 0.0
    diagnosis = diagnose(recording)
    missed = recover.failure(diagnosis, truths)
    said, residual = "", 0.0
    if diagnosis.explained:
        said = "; ".join(words.summary(group.explanations[0]) for group in diagnosis.groups)
        residual = max(group.explanations[0].judged.ulp for group in diagnosis.groups)
    if missed is None:
        return RECOVERED, said, "", residual
    if not recover.is_identifiable(recording, truths):
        return LACKING, said, "its own configuration does not explain what is recorded", residual
    return MISSED, said, missed, residual


def counts(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By source and optimizer: how many runs, how many recovered of those that can be."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record_ in records:
        key = (record_["source"], record_["optimizer"])
        row = found.setdefault(
            key,
            {"source": key[0], "optimizer": key[1], "runs": 0}
            | dict.fromkeys((RECOVERED, MISSED, LACKING), 0)
            | {"seconds, median": 0.0, "seconds, most": 0.0},
        )
        row["runs"] += 1
        row[record_["outcome"]] += 1
    for key, row in found.items():
        times = sorted(r["seconds"] for r in records if (r["source"], r["optimizer"]) == key)
        row["seconds, median"], row["seconds, most"] = times[len(times) // 2], times[-1]
    return [*found.values()]


def summary(records: list[dict[str, Any]]) -> str:
    """The share recovered, in one line."""
    by = {name: sum(r["outcome"] == name for r in records) for name in (RECOVERED, MISSED, LACKING)}
    able = by[RECOVERED] + by[MISSED]
    share = f"{100 * by[RECOVERED] / able:.1f}%" if able else "none"
    return (
        f"diagnose: {by[RECOVERED]} of {able} identifiable runs recovered ({share}); "
        f"{by[LACKING]} of {len(records)} runs hold too little"
    )


TITLE = {"en": "Recovered configurations", "zh": "找回的配置"}
NOTE = {
    "en": "Each trace was diagnosed without its configuration. Recovered: the true optimizer is "
    "among the explanations, each of its choices, flags and numbers the same, within the "
    "interval, or reported as making no difference. Not identifiable: what is recorded does "
    "not hold what the "
    "updates came of.",
    "zh": "每份轨迹都在不给出配置的情况下诊断。“找回”：真正的优化器在解释之中，"
    "它的每项选择、开关和数值要么相同、"
    "要么在区间之内、要么已说明没有影响。“无法识别”：记录里没有更新所依据的全部内容。",
}
HEADINGS = {
    "source": {"en": "source", "zh": "来源"},
    "optimizer": {"en": "optimizer", "zh": "优化器"},
    "runs": {"en": "runs", "zh": "运行数"},
    RECOVERED: {"en": RECOVERED, "zh": "找回"},
    MISSED: {"en": MISSED, "zh": "未找回"},
    LACKING: {"en": LACKING, "zh": "无法识别"},
    "seconds, median": {"en": "seconds, median", "zh": "秒数，中位"},
    "seconds, most": {"en": "seconds, most", "zh": "秒数，最多"},
}


def markdown(rows: list[dict[str, Any]], language: str) -> str:
    """The counts with their title, note and headings in ``language``."""
    lines = [f"# {TITLE[language]}", "", NOTE[language], ""]
    lines += [line(item[language] for item in HEADINGS.values()), line("---" for _ in HEADINGS)]
    lines += [line(str(row[name]) for name in HEADINGS) for row in rows]
    return "\n".join([*lines, ""])


def write(records: list[dict[str, Any]], folder: Path) -> None:
    """Write ``recovered.csv`` with a row for each run, its counts as Markdown in both languages,
    and ``summary.txt``."""
    sheets.write_csv("recovered", records, folder)
    for language, suffix in LANGUAGES.items():
        write_text(folder / f"recovered{suffix}.md", markdown(counts(records), language))
    write_text(folder / "summary.txt", summary(records) + "\n")
