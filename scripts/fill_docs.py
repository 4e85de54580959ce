"""Write what is generated into the documents, or with --check say whether they are current."""

import json
import re
import subprocess
import sys
import textwrap
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

from pitb import arguments as command_line
from pitb import ledger, marks, problems
from pitb.breadth import laws
from pitb.breadth.equation_findings import meaning
from pitb.errors import PitbError, run_main
from pitb.files import read_json, read_text, write_text
from pitb.ledger import AGREES, Judged
from pitb.port import emit
from pitb.port.assemble import assemble
from pitb.port.source import parse
from pitb.reference import descriptions
from pitb.tables import SUMMARY, Table, markdown

ROOT = Path(__file__).resolve().parent.parent
FILES = {
    "README.md": "en",
    "README.zh.md": "zh",
    "docs/rules.md": "en",
    "docs/breadth.md": "en",
    "docs/porting.md": "en",
    "docs/recording.md": "en",
}

ROWS = {
    "build": {
        "en": "Cold build of the burn programs, against a crate that only depends on burn",
        "zh": "burn 程序的冷编译，对只依赖 burn 的 crate",
    },
    "pipeline": {
        "en": "Everything from built programs, against training and comparing by hand",
        "zh": "程序编译好之后的全部步骤，对手工训练加比较",
    },
    "margin_pytorch": {"en": "One more run, PyTorch's side", "zh": "多一次运行，PyTorch 侧"},
    "margin_burn": {"en": "One more run, burn's side", "zh": "多一次运行，burn 侧"},
    "breadth": {
        "en": "The whole field from built programs: time, most memory of all processes",
        "zh": "程序编译好之后的整个领域：时间，全部进程的最大内存",
    },
}
HEAD = {
    "en": ("what", "pipeline", "by hand", "ratio (least to most) or limit", "repeats"),
    "zh": ("项目", "流水线", "手工", "比值（最小到最大）或上限", "次数"),
}


UNMEASURED = {"en": "not measured yet", "zh": "尚未测量"}


def bench_table(found: dict[str, Any], language: str) -> str:
    """What `make bench` measured last."""
    lines = ["| " + " | ".join(HEAD[language]) + " |", "| --- | --- | --- | --- | --- |"]
    for name, text in ROWS.items():
        if name not in found:
            lines.append(f"| {text[language]} | {UNMEASURED[language]} | | | |")
            continue
        item = found[name]
        if "ms" in item:
            cells = [f"{item['ms']} ms", "", f"({item['ms_min']}–{item['ms_max']} ms)"]
        elif "minutes" in item:
            cells = [f"{item['minutes']} min, {item['gb']} GB", "", item["limit"]]
        else:
            spread = f"{item['ratio']} ({item['ratio_min']}–{item['ratio_max']})"
            cells = [f"{item['ours_s']} s", f"{item['other_s']} s", spread]
        cells.append(str(item["repeats"]))
        lines.append("| " + " | ".join([text[language], *cells]) + " |")
    item = found["pipeline"]
    where = f"{item['platform']}, {item['cores']} cores, rustc {item['rustc']}"
    where += f", Python {item['python']}"
    return "\n".join([*lines, "", where])


def published_table(rows: list[Judged], name: str, language: str) -> str:
    """A table of published figures as they are printed; one that was not reproduced says so.

    What was reproduced differs in its last bits from one processor to another, what is printed
    does not.
    """
    table = Table(name)
    for row in rows:
        if row.table == name and row.row != SUMMARY:
            failed = "" if row.status == AGREES else f" ({row.status}: {row.reproduced})"
            table.add(row.row, row.column, row.printed + failed, row.evidence)
    lines = markdown(table, language).splitlines()
    return "\n".join(line for line in lines if line.startswith("|"))


TARGETS_ZH = {
    "all": "编译、训练、比较，核对每个印出的数字",
    "resume": "运行被杀掉之后接着跑",
    "breadth": "每个优化器、选项、裁剪、调度和问题，对照精确的参考实现",
    "explain": "对要求解释的比较，说出哪个默认值或公式代价多大",
    "port": "把 PyTorch 清单里的每个配置移植到 burn，编译，两侧训练",
    "slice": "其中的一部分：全部优化器和选项，较少的问题",
    "digits": "docs/recording.md 里的完整例子：两次记录下来的训练，加以比较",
    "diagnose": "仅凭数值找回各次运行的配置；大约 20 分钟",
    "watch": "换成配置里 watch 列出的其他版本，说出什么变了",
    "test": "测试一切：先是 cargo 的测试，再用 pytest 测包和整条流水线",
    "check": "格式、代码检查和类型",
    "format": "整理全部格式",
    "lock": "把 requirements.in 里要的东西连同哈希固定下来",
    "libraries": "换了版本之后，重新记录两个库的调用、默认值和声明",
    "bench": "和最朴素的做法对比，测量流水线",
    "docs": "把生成的内容写进文档",
    "docs-check": "说出哪些文档过时了",
    "help": "列出这些目标",
}


def targets(language: str) -> str:
    """The Makefile's own list of targets."""
    text = read_text(ROOT / "Makefile")
    found = dict(re.findall(r"^([a-z-]+):.*## (.*)$", text, re.MULTILINE))
    if found.keys() != TARGETS_ZH.keys():
        raise PitbError(f"the Makefile's targets are {', '.join(found)}; TARGETS_ZH has others")
    said = found if language == "en" else TARGETS_ZH
    separator = ": " if language == "en" else "："
    lines = [f"- `make {name}`{separator}{what}" for name, what in said.items()]
    return "\n".join(lines).replace("make all", "make")


@cache
def rules(target: str) -> str:
    """The graph of the rules that lead to a target, as Mermaid draws it."""
    command = [sys.executable, "-m", "snakemake", target, "--rulegraph", "mermaid-js"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise PitbError(f"snakemake draws no graph of the rules: {ended.stderr.strip()}")
    graph = ended.stdout[ended.stdout.index("flowchart") :]
    head, *lines = [line for line in graph.splitlines() if not line.strip().startswith("style ")]
    # Snakemake prints the arrows in an order of chance.
    nodes = [line for line in lines if "-->" not in line]
    arrows = sorted((line for line in lines if "-->" in line), key=_numbers)
    return "\n".join(["```mermaid", head, *nodes, *arrows, "```"])


def _numbers(line: str) -> list[int]:
    return [int(number) for number in re.findall(r"id(\d+)", line)]


def contents(language: str) -> dict[str, str]:
    """Everything that a README can mark, by name."""
    from pitb.port import listed  # which needs PyTorch

    rows = ledger.read(ROOT / "results/ledger.csv")
    bench = json.loads(read_text(ROOT / "bench/bench.json"))
    return {
        "ledger": f"```\n{ledger.summary(rows)}\n```",
        "bench": bench_table(bench, language),
        "targets": targets(language),
        "rules": rules("all"),
        "breadth-rules": rules("breadth_slice"),
        "mismatch": published_table(rows, "mismatch", language),
        "coverage": coverage_line(language),
        "port": listed.summary(read_json(ROOT / "results/port/port.json")["rows"], language),
        "port-example": port_example(),
        "problems": problems_table(),
        "choices": choices_table(),
        "laws": laws_table(),
        "digits": read_text(ROOT / "results/digits/summary.md"),
        "digits-diagnosis": read_text(ROOT / "results/digits/diagnosis.md").strip(),
        "digits-loop": excerpt(
            "examples/digits/digits.py", "    optimizer = ", "        with torch"
        ),
        "digits-burn-loop": excerpt(
            "crates/pitb-record/examples/digits.rs", "    let recording = ", "    let rows = "
        ),
        "digits-fix": excerpt(
            "crates/pitb-record/examples/digits.rs", "    let config = ", "    let cross_entropy"
        ),
        "recording-cost": recording_cost(bench),
    }


def excerpt(name: str, start: str, end: str) -> str:
    """The lines of a file from the first that starts with ``start`` up to one with ``end``."""
    lines = read_text(ROOT / name).splitlines()
    places = [
        next((i for i, line in enumerate(lines) if line.startswith(s)), None) for s in (start, end)
    ]
    first, last = places
    if first is None or last is None or last <= first:
        raise PitbError(f"{name} has no lines from {start!r} to {end!r}")
    language = {"py": "python", "rs": "rust"}[name.rpartition(".")[2]]
    text = textwrap.dedent("\n".join(lines[first:last])).rstrip()
    return f"```{language}\n{text}\n```"


def recording_cost(bench: dict[str, Any]) -> str:
    """What ``make bench`` measured of recording."""
    found = {name: item for name, item in bench.items() if name.startswith("record_")}
    if not found:
        raise PitbError("bench/bench.json holds nothing on recording; run make bench")
    lines = [
        "| training | parameters | step | recorded | time, recorded to not (least to most) "
        "| memory, first and last turn |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for item in found.values():
        spread = f"{item['ratio']} ({item['ratio_min']}–{item['ratio_max']})"
        memory = f"{item['memory_first_mb']:.0f}, {item['memory_last_mb']:.0f} MB"
        tensors = item["tensors"]
        chosen = "all tensors" if not tensors else ", ".join(f"`{name}`" for name in tensors)
        cells = (
            f"{item['side']}, {item['model']}, batch {item['batch']}",
            f"{item['parameters']:,}",
            f"{item['step_ms']} ms",
            chosen,
            spread,
            memory,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def coverage_line(language: str) -> str:
    """How PyTorch's own configurations are covered."""
    rows = read_json(ROOT / "results/breadth-slice/coverage.json")["rows"]
    counts = Counter(row["status"] for row in rows)
    words = COVERED[language]
    each = [f"{counts[status]} {word}" for status, word in words.items()]
    if sum(counts[status] for status in words) != len(rows):
        raise PitbError(f"the statuses of {len(rows)} configurations are {dict(counts)}")
    return f"{len(rows)}: " + ("、" if language == "zh" else ", ").join(each)


def port_example() -> str:
    """What the port makes of a call."""
    source = parse(PORTED, "the call")
    return f"```rust\n{emit.unit_code(assemble(source).units[0]).strip()}\n```"


PORTED = "torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)"

COVERED = {
    "en": {
        "covered": "covered",
        "impossible": "impossible in burn, shown by trying",
        "no-counterpart": "of optimizers that burn does not have",
        "missing": "missing",
    },
    "zh": {
        "covered": "项覆盖",
        "impossible": "项 burn 做不到（试过）",
        "no-counterpart": "项属于 burn 没有的优化器",
        "missing": "项缺失",
    },
}


def problems_table() -> str:
    """Every problem and what it is for."""
    lines = ["| problem | numbers | what it is |", "| --- | --- | --- |"]
    for name in problems.names():
        found = problems.problem(name)
        count = sum(value.size for value in found.parameters.values())
        lines.append(f"| `{name}` | {count} | {found.about} |")
    return "\n".join(lines)


def choices_table() -> str:
    """The choices of equation in which the libraries' descriptions differ."""
    lines = ["| optimizer | choice | PyTorch | burn |", "| --- | --- | --- | --- |"]
    used: dict[str, None] = {}
    shared = descriptions.shared_differences()
    own = {name: descriptions.differences(name) for name in descriptions.DESCRIPTIONS["burn"]}
    for optimizer, found in {"all": shared, **own}.items():
        for name, values in found.items():
            if optimizer == "all" or name not in shared:
                cells = (f"`{name}`", *(_value(value) for value in values))
                lines.append(f"| {optimizer} | " + " | ".join(cells) + " |")
                used[name] = None
    lines += ["", *(f"- `{name}`: {meaning(name)}" for name in used)]
    return "\n".join(lines)


def _value(value: object) -> str:
    return ", ".join(sorted(value)) or "none" if isinstance(value, frozenset) else str(value)


def laws_table() -> str:
    """Every law of tolerance."""
    lines = ["| law | base | growth | reason |", "| --- | --- | --- | --- |"]
    for law in laws.LAWS:
        item = law.json()
        cells = (item["law"], f"{item['base']:.2g}", item["growth"], item["reason"])
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


EXAMPLES = """  python scripts/fill_docs.py
  python scripts/fill_docs.py --check"""


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if stale")
    arguments = parser.parse_args()
    stale = []
    for name, language in FILES.items():
        path = ROOT / name
        text = read_text(path)
        filled = marks.fill(text, contents(language), Path(name))
        if filled != text:
            stale.append(name)
            if not arguments.check:
                write_text(path, filled)
    for name in stale:
        print(f"{name} {'is stale; run make docs' if arguments.check else 'was filled anew'}")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    run_main(main)
