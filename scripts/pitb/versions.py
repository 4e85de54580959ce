"""Which versions made the results, and on which machine.

What trained the runs is read from their traces, which is the one place where it is recorded; the
rest is asked of the machine on which this runs.
"""

import os
import platform
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from pitb.errors import PitbError
from pitb.labels import Text, both
from pitb.trace import Trace

OF_TRACES: dict[str, Text] = {
    "pitb": both("pitb", "pitb"),
    "torch": both("PyTorch", "PyTorch"),
    "burn": both("burn", "burn"),
    "rustc": both("rustc (built burn's programs)", "rustc（编译 burn 侧的程序）"),
    "python": both("Python (trained PyTorch's runs)", "Python（训练 PyTorch 侧）"),
    "target": both("platform of the runs", "运行的平台"),
}
"""The versions that traces carry, and what they are called."""
THREADS: Text = both("threads of PyTorch", "PyTorch 的线程数")
PACKAGES = ("snakemake", "numpy", "pyarrow", "matplotlib")
"""What compared, drew and tied it together."""
TITLE: Text = both("Versions and machine", "版本与机器")
NOTE: Text = both(
    "What trained the runs is read from their traces, the rest from the machine that made this "
    "table.",
    "训练各次运行的版本读自它们的轨迹，其余的取自生成本表的机器。",
)
HEAD: dict[str, tuple[str, str]] = {"en": ("item", "version or value"), "zh": ("项", "版本或值")}


def rows(traces: Iterable[Trace]) -> list[tuple[Text, str]]:
    """What made the results, each with its name in both languages.

    Where traces differ, all their values are listed.
    """
    found: dict[str, dict[str, None]] = {name: {} for name in OF_TRACES}
    threads: dict[str, None] = {}
    for run in traces:
        for name, value in (run.metadata.get("versions") or {}).items():
            found.setdefault(name, {})[str(value)] = None
        if "threads" in run.metadata:
            threads[str(run.metadata["threads"])] = None
    said = [
        (OF_TRACES.get(name, both(name, name)), ", ".join(values))
        for name, values in found.items()
        if values
    ]
    if threads:
        said.append((THREADS, ", ".join(threads)))
    said += [(both(name, name), _version(name)) for name in PACKAGES]
    return [*said, *machine()]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise PitbError(f"{package} is not installed here; enter .venv, which make fills") from None


def machine() -> list[tuple[Text, str]]:
    """The operating system and the processor; no name of the machine."""
    system = f"{platform.system()} {platform.release()}"
    return [
        (both("operating system", "操作系统"), system),
        (both("architecture", "架构"), platform.machine()),
        (both("processor", "处理器"), processor()),
        (both("cores", "核数"), str(os.cpu_count())),
    ]


def processor() -> str:
    """The processor's model, as far as the system tells."""
    try:
        if platform.system() == "Linux":
            lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
            if names:
                return names[0]
        if platform.system() == "Darwin":
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass  # another way to ask follows
    return platform.processor() or platform.machine()
