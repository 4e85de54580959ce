"""Take one run out of a sweep, or say what a sweep's file would train.

``extract`` writes the run's traces of both sides, which compare, explain and diagnose read.
``plan`` expands a file and trains nothing.

Exit code 0, or 2 where it could not be done.
"""

import argparse
from pathlib import Path

HELP = "take one run out of a sweep, or say what it would train"
EXAMPLES = """  pitb sweep plan config/sweeps/example.yaml
  pitb sweep extract results/sweeps/example rmsprop-lr0.1-burn-17a89fc2
  pitb sweep extract results/sweeps/example rmsprop-lr0.1-burn-17a89fc2 --out mine"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    commands = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    extract = commands.add_parser("extract", help="write both traces of one run")
    extract.add_argument("folder", type=Path, help="results of a sweep, results/sweeps/<name>")
    extract.add_argument("name", metavar="RUN", help="the run's name, as runs.parquet has it")
    extract.add_argument("--out", type=Path, help="folder (default: <folder>/extracted)")
    planned = commands.add_parser("plan", help="list what a sweep's file would train")
    planned.add_argument("file", type=Path, help="config/sweeps/<name>.yaml")


def run(arguments: argparse.Namespace) -> int:
    """Do it, and print the files or the runs."""
    if arguments.action == "plan":
        from pitb.sweeps import design, plan

        sweep = design.read(arguments.file)
        for batch, names in plan.batches(sweep).items():
            for name in names:
                print(f"{batch}  {name}")
        print(f"{sweep.written} points, {len(sweep.points)} runs")
        return 0
    from pitb.sweeps.extract import extract

    out = arguments.out or arguments.folder / "extracted"
    for path in extract(arguments.folder, arguments.name, out):
        print(path)
    return 0
