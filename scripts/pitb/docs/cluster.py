"""What the pages on clusters can name: what ``bench/slurm.py`` kept of a run on a Slurm."""

from pathlib import Path
from typing import Any

from pitb.files import read_json
from pitb.labels import both
from pitb.tables import line

HEAD = {
    "job": both("Slurm's job", "Slurm 作业号"),
    "rule": both("rule", "规则"),
    "cpus": both("processors", "处理器"),
    "memory": both("memory", "内存"),
    "minutes": both("minutes at most", "最多分钟"),
    "state": both("ended as", "结束状态"),
}
WHERE = both(
    "Slurm {slurm} without accounting on one node of {cores} processors ({machine}), Snakemake"
    " {snakemake}, its plugin {plugin}, {date}: {seconds:g} seconds in all, at a load of {load:g}.",
    "Slurm {slurm}，无记账，一个 {cores} 处理器的节点（{machine}），Snakemake {snakemake}，插件"
    " {plugin}，{date}：一共 {seconds:g} 秒，负载 {load:g}。",
)


def _kept(root: Path) -> Any:
    return read_json(root / "bench/slurm.json")


def jobs(root: Path, language: str) -> str:
    """The jobs of one run: what each asked for, and how it ended."""
    found = _kept(root)
    lines = [line(text[language] for text in HEAD.values()), line("---" for _ in HEAD)]
    lines += [line(f"`{job[key]}`" if key == "rule" else job[key] for key in HEAD)
              for job in found["jobs"]]  # fmt: skip
    return "\n".join([*lines, "", WHERE[language].format(**found)])


def summary(root: Path, language: str) -> str:
    """What that run printed at its end."""
    return "\n".join(["```text", *_kept(root)["summary"], "```"])


def call_seconds(root: Path, name: str, key: str = "call_s") -> str:
    """Seconds of a local call that has nothing to do, or what the plugin adds to them."""
    return f"{_kept(root)[key][name] + 0.0:g}"  # which makes 0 of -0


ALONE = "call_without_controller_s"
CONTENTS = {
    "slurm-jobs": jobs,
    "slurm-summary": summary,
    "slurm-call": lambda root, language: call_seconds(root, "without"),
    "slurm-call-added": lambda root, language: call_seconds(root, "added"),
    "slurm-call-added-alone": lambda root, language: call_seconds(root, "added", ALONE),
}
