"""Run the pages' pipeline on a Slurm of one node, and measure what its plugin costs a local call.

Writes bench/slurm.json, which the documents show. Needs what ``make test-slurm`` needs.
"""

import json
import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

from run import ROOT, timed_output

from pitb import arguments as command_line
from pitb.errors import run_main

OUT = ROOT / "bench/slurm.json"
PLUGIN = "snakemake-executor-plugin-slurm"
EXAMPLES = """  .venv-slurm/bin/python bench/slurm.py
  .venv-slurm/bin/python bench/slurm.py --repeats 5"""

sys.path.insert(0, str(ROOT / "tests/slurm"))

from cluster import Cluster, submitted  # noqa: E402


def call(
    venv: str, folder: Path, *arguments: str, environment: dict[str, str]
) -> tuple[float, str]:
    """A call of Snakemake by the Python of an environment: its seconds, and what it printed."""
    command = (ROOT / venv / "bin/python", "-m", "snakemake", "-s", ROOT / "Snakefile")
    return timed_output(*command, "--directory", folder, *arguments, env=environment)


def jobs(cluster: Cluster, printed: str) -> list[dict[str, str]]:
    """The jobs of a call, by their numbers: what they asked for, and how they ended."""
    recorded = cluster.jobs()
    found = []
    for job, rule in submitted(printed).items():
        asked = dict(part.split("=") for part in recorded[job]["Tres"].split(","))
        found.append(
            {
                "job": job,
                "rule": rule,
                "cpus": asked["cpu"],
                "memory": asked["mem"],
                "minutes": recorded[job]["TimeLimit"],
                "state": recorded[job]["JobState"],
            }
        )
    return sorted(found, key=lambda item: int(item["job"]))


def in_turn(folder: Path, repeats: int, environment: dict[str, str]) -> dict[str, float]:
    """Seconds of a call that has nothing to do, and what the plugin adds, pair by pair; medians."""
    pairs = [
        tuple(
            call(venv, folder, "--cores", "2", environment=environment)[0]
            for venv in (".venv", ".venv-slurm")
        )
        for _ in range(repeats)
    ]
    return {
        "without": round(statistics.median(a for a, _ in pairs), 2),
        "added": round(statistics.median(b - a for a, b in pairs), 2),
    }


def measure(folder: Path, repeats: int) -> dict[str, Any]:
    """All of it, in a new folder."""
    profile = ["--profile", str(ROOT / "profiles/slurm"), "--max-threads", str(os.cpu_count())]
    with Cluster() as cluster:
        seconds, printed = call(".venv-slurm", folder, *profile, environment=cluster.environment)
        ended = jobs(cluster, printed)
        version = cluster.ask("sinfo", "--version")
        answered = in_turn(folder, repeats, cluster.environment)
    alone = in_turn(folder, repeats, dict(os.environ))
    return {
        "date": date.today().isoformat(),
        "slurm": version.split()[-1],
        "plugin": metadata.version(PLUGIN),
        "snakemake": metadata.version("snakemake"),
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        # Of whatever else the machine did, too.
        "load": round(os.getloadavg()[1], 1),
        "seconds": round(seconds, 1),
        "summary": [
            line for line in printed.splitlines() if re.match("(comparisons|ledger):", line)
        ],
        "jobs": ended,
        "repeats": repeats,
        "call_s": answered,
        "call_without_controller_s": alone,
    }


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--repeats", type=command_line.count, default=9, help="of the local calls")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pitb-bench-"))
    try:
        found = measure(folder, arguments.repeats)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    OUT.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
