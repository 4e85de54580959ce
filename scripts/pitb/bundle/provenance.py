"""What ran: from Snakemake's own records of every output, its benchmarks and its logs."""

import base64
import binascii
import csv
import json
import os
import platform
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pitb.errors import PitbError
from pitb.files import read_text

RECORDS = Path(".snakemake/metadata")
"""Below the folder that Snakemake ran in; a JSON file for each output."""


@dataclass(frozen=True)
class Job:
    """One call of a rule."""

    rule: str
    command: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    logs: tuple[str, ...]
    started: float
    """Seconds since 1970, as Snakemake noted it."""
    ended: float

    @property
    def name(self) -> str:
        """The rule, and the first of what it made, which no other call made."""
        return f"{self.rule} {self.outputs[0]}"


@dataclass
class _Found:
    inputs: tuple[str, ...]
    logs: tuple[str, ...]
    started: float
    ended: float
    outputs: list[str] = field(default_factory=list)


def jobs(folder: Path, outputs: Iterable[str], root: Path) -> list[Job]:
    """The jobs that made these files, in order of rule and output.

    Args:
        folder: Where Snakemake ran.
        outputs: Paths as Snakemake knows them, below that folder.
        root: The project, whose files are named as it names them wherever Snakemake ran.

    Raises:
        PitbError: Of none of them is there a record, or a record is malformed.
    """
    wanted = set(outputs)
    places = [f"{path.resolve()}/" for path in (root, folder)]

    def tidy(text: str) -> str:
        for place in places:
            text = text.replace(place, "")
        return text

    found: dict[tuple[str, str], _Found] = {}
    for path, record in _records(folder / RECORDS):
        made = path in wanted or any(output.startswith(f"{path}/") for output in wanted)
        if not made or record["incomplete"]:
            continue
        key = (record["rule"], tidy(record["shellcmd"] or ""))
        job = found.setdefault(
            key,
            _Found(
                tuple(tidy(name) for name in record["input"]),
                tuple(record["log"]),
                record["starttime"],
                record["endtime"],
            ),
        )
        job.outputs.append(path)
    if not found:
        raise PitbError(
            f"{folder / RECORDS} has no record of what made the results; run make first"
        )
    return sorted(
        (
            Job(rule, command, job.inputs, tuple(sorted(job.outputs)), job.logs, *times)
            for (rule, command), job in found.items()
            for times in [(job.started, job.ended)]
        ),
        key=lambda job: (job.rule, job.outputs),
    )


def _records(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        # Long names are split into folders, of which all but the last begin with @.
        encoded = "".join(part.lstrip("@") for part in path.relative_to(folder).parts)
        try:
            name = base64.urlsafe_b64decode(encoded).decode()
            record = json.loads(read_text(path))
            known = ("rule", "shellcmd", "input", "log", "starttime", "endtime", "incomplete")
            yield name, {key: record[key] for key in known}
        except (binascii.Error, UnicodeDecodeError, ValueError, KeyError, TypeError):
            raise PitbError(f"{path} is no record of Snakemake 9's; run make again") from None


def unrecorded(jobs_: Iterable[Job], outputs: Iterable[str]) -> list[str]:
    """Those of the outputs that no job made, or made without saying so."""
    made = {output for job in jobs_ for output in job.outputs}
    folders = tuple(f"{output}/" for output in made)
    return sorted(name for name in outputs if name not in made and not name.startswith(folders))


OWN = ("make_bundle", "check_crate", "verify_bundle")
"""The rules that make and check a bundle: what they leave behind is of no result, and would make
each bundle differ from the one before."""


def tool(job: Job) -> str:
    """What a job called: the script or program that its command names first."""
    words = [word.strip("'\"();") for word in job.command.split()]
    for word in words:
        if word.endswith(".py") and "scripts/" in word:
            return f"scripts/{word.rpartition('scripts/')[2]}"
        if word.endswith(".py") and "examples/" in word:
            return f"examples/{word.rpartition('examples/')[2]}"
        if "target/release/" in word:
            return f"target/release/{word.rpartition('target/release/')[2]}"
    return next((word for word in words if word), job.rule)


def measured(
    jobs_: Iterable[Job], results: Path, root: Path, folder: Path | None = None
) -> dict[str, Any]:
    """All that varies from run to run: the machine, times, what Snakemake measured, and the logs.

    It is read from what the run left behind, not from the clock: the same results give the same.
    """
    listed = list(jobs_)
    places = {str(path.resolve()): "." for path in (root, folder or Path())}
    return {
        "machine": machine(),
        "jobs": [
            {
                "rule": job.rule,
                "output": job.outputs[0],
                "outputs": len(job.outputs),
                "started": job.started,
                "ended": job.ended,
            }
            for job in listed
        ],
        "benchmarks": {
            path.stem: _benchmark(path)
            for path in sorted((results / "benchmarks").glob("*.tsv"))
            if path.stem not in OWN
        },
        "logs": {
            path.stem: _log(path, places)
            for path in sorted((results / "logs").glob("*.log"))
            if path.stem not in OWN
        },
    }


def machine() -> dict[str, Any]:
    """This machine, without its name: that tells no reader anything, and may tell too much."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "libc": " ".join(platform.libc_ver()).strip(),
    }


def _processor() -> str:
    """The processor's model, as the system has it, or what Python knows."""
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _benchmark(path: Path) -> dict[str, str]:
    rows = list(csv.DictReader(read_text(path).splitlines(), delimiter="\t"))
    return {str(key): str(value) for key, value in rows[-1].items()} if rows else {}


def _log(path: Path, places: dict[str, str]) -> str:
    text = path.read_text(encoding="utf-8", errors="replace")
    for place, short in places.items():
        text = text.replace(place, short)
    return text
