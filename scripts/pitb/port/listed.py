"""Every configuration of PyTorch's own list through the port: the table, the share that passes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitb.breadth import cases, coverage
from pitb.breadth.coverage import Configuration
from pitb.errors import PitbError
from pitb.port import verify
from pitb.port.assemble import Port, assemble
from pitb.port.source import parse
from pitb.port.verify import ABSENT, DIFFERS, EQUATION, REFUSED, SAME, UNTRIED, Tried, Verdict

STATUSES = (SAME, EQUATION, REFUSED, ABSENT, DIFFERS, UNTRIED)
WORDS = {
    "en": {
        SAME: "the same numbers",
        EQUATION: "the same but for equations that the libraries have differently",
        REFUSED: "named as impossible",
        ABSENT: "of optimizers that burn does not have",
        DIFFERS: "different",
        UNTRIED: "not tried",
    },
    "zh": {
        SAME: "数值相同",
        EQUATION: "除两库公式不同之处外相同",
        REFUSED: "指明无法移植",
        ABSENT: "burn 没有该优化器",
        DIFFERS: "不同",
        UNTRIED: "未试",
    },
}
HEAD = {
    "en": ("optimizer", "configuration", "call", "verdict", "cases", "same", "why"),
    "zh": ("优化器", "配置", "调用", "结论", "用例", "相同", "原因"),
}


@dataclass(frozen=True)
class Listed:
    """What became of one configuration."""

    optimizer: str
    desc: str
    call: str
    status: str
    reason: str
    cases: int
    same: int


def call_of(item: Configuration) -> str:
    """A configuration as the text of a call."""
    written = []
    for name, value in item.kwargs.items():
        text = repr(tuple(value)) if isinstance(value, list) else repr(value)
        if name in item.tensors:
            numbers = value if isinstance(value, list) else [value]
            made = [f"torch.tensor({number!r})" for number in numbers]
            text = f"({', '.join(made)})" if isinstance(value, list) else made[0]
        written.append(f", {name}={text}")
    return f"torch.optim.{item.optimizer}(model.parameters(){''.join(written)})"


def ports_of(call: str) -> dict[str, Port]:
    """A call's port in each dtype."""
    return {dtype: assemble(parse(call, "the call"), dtype) for dtype in cases.DTYPES}


def run(folder: Path, root: Path, target: Path, problems: Sequence[str]) -> list[Listed]:
    """Port, train and judge the whole list; see `verify.verify`."""
    found = coverage.configurations()
    calls = [call_of(item) for item in found]
    tried: dict[str, Tried] = {}
    rows: dict[str, tuple[str, str]] = {}
    for i, call in enumerate(calls):
        if call in rows or any(call == calls[j] for j in range(i)):
            continue
        try:
            ports = ports_of(call)
        except PitbError as error:
            rows[call] = REFUSED, str(error).partition(": ")[2]
            continue
        port = ports[cases.DTYPES[0]]
        if port.lost:
            rows[call] = ABSENT, port.lost[0].partition(": ")[2]
        elif port.all_lost:
            rows[call] = REFUSED, "; ".join(text.partition(": ")[2] for text in port.all_lost)
        else:
            tried[call] = Tried(f"{found[i].optimizer.lower()}_{i}", ports)
    verdicts = {
        item.key: item
        for item in verify.verify(list(tried.values()), folder, root, target, problems)
    }
    return [
        _listed(item, call, rows, verdicts.get(tried[call].key) if call in tried else None)
        for item, call in zip(found, calls, strict=True)
    ]


def _listed(
    item: Configuration,
    call: str,
    rows: Mapping[str, tuple[str, str]],
    verdict: Verdict | None,
) -> Listed:
    if verdict is None:
        status, reason = rows[call]
        return Listed(item.optimizer, item.desc, call, status, reason, 0, 0)
    reason = verdict.reason or ", ".join(verdict.choices)
    return Listed(
        item.optimizer, item.desc, call, verdict.status, reason, verdict.cases, verdict.same
    )


def summary(rows: Sequence[Listed] | Sequence[Mapping[str, Any]], language: str = "en") -> str:
    """The share of the configurations of burn's optimizers that pass, and how many have each
    verdict.
    """
    statuses = [row.status if isinstance(row, Listed) else str(row["status"]) for row in rows]
    counts = Counter(statuses)
    portable = len(rows) - counts[ABSENT] - counts[REFUSED]
    passing = counts[SAME] + counts[EQUATION]
    words = WORDS[language]
    each = [f"{counts[s]} {words[s]}" for s in STATUSES if counts[s] or s == DIFFERS]
    share = 100 * passing / portable if portable else 0.0
    if language == "zh":
        head = f"{len(rows)} 个配置中 {portable} 个可移植，通过 {passing} 个（{share:.0f}%）"
        return f"{head}：" + "、".join(each)
    head = f"{passing} of {portable} that burn can have pass ({share:.0f} %)"
    return f"{len(rows)} configurations, {head}: {', '.join(each)}"


def check(rows: Sequence[Listed]) -> None:
    """That every configuration is the same, or named.

    Raises:
        PitbError: One is not; says where the two sides part.
    """
    wrong = [row for row in rows if row.status in (DIFFERS, UNTRIED)]
    if wrong:
        said = " | ".join(f"{row.call}: {row.reason}" for row in wrong)
        raise PitbError(f"{len(wrong)} ports do not do what the call says: {said}")


def table(rows: Sequence[Listed], language: str) -> str:
    """The table as Markdown."""
    lines = [f"| {' | '.join(HEAD[language])} |", "| " + " | ".join(["---"] * 7) + " |"]
    for row in rows:
        cells = [row.optimizer, row.desc, f"`{row.call}`", WORDS[language][row.status]]
        cells += [str(row.cases or ""), str(row.same if row.cases else ""), row.reason]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"
