"""Train PyTorch's side of a plan: first all runs, then, in a new process, those taken up again."""

import argparse
import sys
import tempfile
from pathlib import Path

from pitb import arguments as command_line
from pitb import programs
from pitb.breadth import inputs, phases
from pitb.errors import run_main

PHASES = ("first", "second")

EXAMPLES = """  python scripts/train_breadth_pytorch.py \\
    --plan results/breadth-slice/plans/adam.json --traces results/breadth-slice/traces/adam"""


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--plan", type=Path, required=True, help="the plan, as JSON")
    parser.add_argument("--traces", type=Path, required=True, help="where the traces go")
    parser.add_argument("--saved", type=Path, help="the folder of what is saved in between")
    parser.add_argument("--phase", choices=PHASES, help="train this one alone, in this process")
    arguments = parser.parse_args()
    if arguments.phase is not None:
        return train(arguments)
    with tempfile.TemporaryDirectory() as folder:
        for phase in PHASES:
            command = [sys.executable, __file__, "--phase", phase, "--saved", folder]
            command += ["--plan", str(arguments.plan), "--traces", str(arguments.traces)]
            code: int = programs.run(command, check=False, name="PyTorch's side").returncode
            if code != 0:
                return code
    return 0


def train(arguments: argparse.Namespace) -> int:
    """Train one phase in this process."""
    found = phases.phases(inputs.read_plan(arguments.plan), "pytorch", arguments.saved)
    specs = found[PHASES.index(arguments.phase)]
    if not specs:
        return 0

    # Takes seconds, so only once there is something to train.
    import torch

    from pitb import pytorch

    torch.set_num_threads(1)
    before = phases.stamps(specs, arguments.traces)
    pytorch.train_all(specs, arguments.traces)
    phases.check_left(before, "PyTorch's side")
    return 0


if __name__ == "__main__":
    run_main(main)
