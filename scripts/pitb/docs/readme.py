"""What the READMEs, and pages like them, can name: of the project, its results and measurements."""

import re
import subprocess
import sys
from collections import Counter
from functools import cache, partial
from pathlib import Path
from typing import Any

from pitb import ledger
from pitb.docs import measured
from pitb.errors import PitbError
from pitb.files import read_json, read_text
from pitb.port import emit
from pitb.port.assemble import assemble
from pitb.port.source import parse

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
        "zh": "程序编译好之后的全部优化器：时间，全部进程的最大内存",
    },
}
HEAD = {
    "en": ("what", "pipeline", "by hand", "ratio (least to most) or limit", "repeats"),
    "zh": ("项目", "流水线", "手工", "比值（最小到最大）或上限", "次数"),
}


UNMEASURED = {"en": "not measured yet", "zh": "尚未测量"}


def _bench(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_json(root / "bench/bench.json")
    return found


def bench_table(root: Path, language: str) -> str:
    """What `make bench` measured last."""
    found = _bench(root)
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


TARGETS_ZH = {
    "all": "编译、训练、比较，核对每个印出的数字",
    "resume": "运行被杀掉之后接着跑",
    "breadth": "每个优化器、选项、裁剪、调度和问题，对照精确的参考实现",
    "slice": "其中的一部分：全部优化器和选项，较少的问题",
    "explain": "对要求解释的比较，说出哪个默认值或公式代价多大",
    "port": "把 PyTorch 清单里的每个配置移植到 burn，编译，两侧训练",
    "digits": "docs/recording.md 里的完整例子：两次记录下来的训练，加以比较",
    "diagnose": "仅凭数值找回各次运行的配置；大约 20 分钟",
    "report": "一个 HTML 文件，看全部结果：台账、表格、图，以及其余已经做出的",
    "watch": "换成配置里 watch 列出的其他版本，说出什么变了",
    "test": "测试一切：先是 cargo 的测试，再用 pytest 测包和整条流水线",
    "test-faults": "到处杀进程、占满磁盘、喂坏数据；大约十分钟，其中一部分也在 make test 里",
    "test-slurm": "在真的 Slurm 上跑流水线，一个节点，为此启动",
    "bench-slurm": "重新写出 docs/clusters.md 所示的 bench/slurm.json",
    "check": "格式、代码检查和类型",
    "format": "整理全部格式",
    "lock": "把 requirements.in 里要的东西连同哈希固定下来",
    "libraries": "换了版本之后，重新记录两个库的调用、默认值和声明",
    "bench": "和最朴素的做法对比，测量流水线",
    "docs": "把生成的内容写进文档",
    "docs-check": "说出文档里哪些数字、表和输出过时了",
    "site": "把页面做成网站，results/site/index.html",
    "sweep": "训练并比较 config/sweeps 里的运行，或用 NAME=... 指定其中一个文件",
    "bundle": "结果、源码和运行记录合成一个 zip，别人可用 pitb verify 检查",
    "publish-check": "Zenodo 之类的存档所要的是否齐全；不上传任何东西",
    "setup-slurm": "为 Slurm 集群建立 .venv-slurm，见 docs/clusters.md",
    "help": "列出这些目标",
}


def targets(root: Path, language: str) -> str:
    """The Makefile's own list of targets."""
    text = read_text(root / "Makefile")
    found = dict(re.findall(r"^([a-z-]+):.*## (.*)$", text, re.MULTILINE))
    if found.keys() != TARGETS_ZH.keys():
        raise PitbError(f"the Makefile's targets are {', '.join(found)}; TARGETS_ZH has others")
    said = found if language == "en" else {name: TARGETS_ZH[name] for name in found}
    separator = ": " if language == "en" else "："
    lines = [f"- `make {name}`{separator}{what}" for name, what in said.items()]
    return "\n".join(lines).replace("make all", "make")


@cache
def rules(root: Path, target: str) -> str:
    """The graph of the rules that lead to a target, as Mermaid draws it."""
    command = [sys.executable, "-m", "snakemake", target, "--rulegraph", "mermaid-js"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
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


def coverage_line(root: Path, language: str) -> str:
    """How PyTorch's own configurations are covered."""
    rows = read_json(root / "results/breadth-slice/coverage.json")["rows"]
    counts = Counter(row["status"] for row in rows)
    words = COVERED[language]
    each = [f"{counts[status]} {word}" for status, word in words.items()]
    if sum(counts[status] for status in words) != len(rows):
        raise PitbError(f"the statuses of {len(rows)} configurations are {dict(counts)}")
    return f"{len(rows)}: " + ("、" if language == "zh" else ", ").join(each)


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


def port_example() -> str:
    """What the port makes of a call."""
    source = parse(PORTED, "the call")
    return f"```rust\n{emit.unit_code(assemble(source).units[0]).strip()}\n```"


PORTED = "torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)"


def recording_cost(root: Path, language: str) -> str:
    """What ``make bench`` measured of recording."""
    found = {name: item for name, item in _bench(root).items() if name.startswith("record_")}
    if not found:
        raise PitbError("bench/bench.json holds nothing on recording; run make bench")
    lines = ["| " + " | ".join(COST[language]) + " |", "|" + " --- |" * len(COST[language])]
    for item in found.values():
        spread = f"{item['ratio']} ({item['ratio_min']}–{item['ratio_max']})"
        memory = f"{item['memory_first_mb']:.0f}, {item['memory_last_mb']:.0f} MB"
        tensors = item["tensors"]
        chosen = ALL[language] if not tensors else ", ".join(f"`{name}`" for name in tensors)
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


COST = {
    "en": ("training", "parameters", "step", "recorded",
           "time, recorded to not (least to most)", "memory, first and last turn"),
    "zh": ("训练", "参数个数", "每步", "记录什么", "记录与不记录的时间比（最小到最大）",
           "内存，第一轮和最后一轮"),
}  # fmt: skip
ALL = {"en": "all tensors", "zh": "全部张量"}


def sweeps_bench(root: Path, language: str) -> str:
    """What was measured of sweeps."""
    every = [item for name, item in _bench(root).items() if name.startswith("sweep_")]
    found = sorted(every, key=lambda item: int(item["runs"]))
    if not found:
        raise PitbError("bench/bench.json holds nothing on sweeps; run bench/run.py sweep_5000")
    lines = ["| " + " | ".join(SWEPT[language]) + " |", "|" + " --- |" * len(SWEPT[language])]
    for item in found:
        cells = (
            f"{item['runs']:,}",
            f"{item['batch_size']:,}",
            f"{item['dag_s']} s",
            f"{item['seconds'] / 60:.1f} min",
            f"{item['peak_gb']} GB",
            f"{item['disk_gb']} GB",
        )
        lines.append("| " + " | ".join(cells) + " |")
    where, last = found[0], found[-1]
    thousands = (last["runs"] - where["runs"]) / 1000
    if thousands > 0:
        seconds = (last["seconds"] - where["seconds"]) / thousands
        memory = 1000 * (last["peak_gb"] - where["peak_gb"]) / thousands
        slope = SLOPE[language].format(seconds=f"{seconds:.1f}", memory=f"{memory:.1f}")
        lines += ["", slope]
    lines += ["", f"{where['platform']}, {where['cores']} cores, Python {where['python']}"]
    return "\n".join(lines)


SWEPT = {
    "en": ("runs", "most in a batch", "snakemake -n", "all of it", "most memory", "results"),
    "zh": ("运行数", "每批最多", "snakemake -n", "全部用时", "最多内存", "结果大小"),
}


SLOPE = {
    "en": "From the first row to the last, 1,000 runs more take {seconds} s and {memory} MB.",
    "zh": "从第一行到最后一行，每多 1,000 次运行，多用 {seconds} s 和 {memory} MB 内存。",
}


def ledger_line(root: Path, language: str) -> str:
    """The last line of ``make``."""
    return f"```\n{ledger.summary(ledger.read(root / 'results/ledger.csv'))}\n```"


def port_line(root: Path, language: str) -> str:
    """What became of PyTorch's own list of configurations."""
    from pitb.port import listed  # which needs PyTorch

    return listed.summary(read_json(root / "results/port/port.json")["rows"], language)


def digits(root: Path, language: str) -> str:
    """Both digits trainings compared."""
    text = read_text(root / "results/digits/summary.md")
    if language == "en":
        return text
    for english, chinese in DIGITS_ZH.items():
        if english not in text:
            raise PitbError(f"results/digits/summary.md does not say {english!r}")
        text = text.replace(english, chinese)
    return text


DIGITS_ZH = {
    "burn's side": "burn 侧",
    "recorded updates": "记录的更新数",
    "largest difference": "最大差",
    "verdict": "结论",
    "float32 law": "float32 规律",
    "does not hold": "不成立",
    "| holds": "| 成立",
    "below ": "小于 ",
    "| naive": "| 照搬",
    "| fixed": "| 改正",
}


def digits_diagnosis(root: Path, language: str) -> str:
    """What the diagnosis of the digits prints."""
    return read_text(root / "results/digits/diagnosis.md").strip()


def exceptions_table(root: Path, language: str) -> str:
    """The recommendations of RO-Crate that a bundle does not follow."""
    from pitb.bundle import validate

    head = {"en": "| check | why |", "zh": "| 检查 | 原因 |"}[language]
    rows = [f"| {item.check} | {item.why} |" for item in validate.EXCEPTIONS]
    return "\n".join([head, "| --- | --- |", *rows])


CONTENTS = {
    "ledger": ledger_line,
    "bench": bench_table,
    "targets": targets,
    "rules": lambda root, language: rules(root, "all"),
    "breadth-rules": lambda root, language: rules(root, "breadth_slice"),
    "coverage": coverage_line,
    "port": port_line,
    "port-example": lambda root, language: port_example(),
    "digits": digits,
    "digits-diagnosis": digits_diagnosis,
    "recording-cost": recording_cost,
    "sweeps-bench": sweeps_bench,
    "sweeps-batches": measured.batch_sizes,
    "big-traces": measured.big_traces,
    "big-traces-steps": partial(measured.flatness, axis="steps"),
    "big-traces-parameters": partial(measured.flatness, axis="parameters"),
    "big-traces-explained": measured.explained,
    "big-traces-groups": measured.row_groups,
    "crate-exceptions": exceptions_table,
}
