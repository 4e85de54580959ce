"""Train PyTorch's side of a plan: first all runs, then, in a new process, those taken up again."""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from pitb.errors import run_main
from pitb.files import read_json


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True, help="the plan, as JSON")
    parser.add_argument("--traces", type=Path, required=True, help="where the traces go")
    parser.add_argument("--taken-up", type=Path, help="the folder of what was saved")
    arguments = parser.parse_args()
    found = read_json(arguments.plan)

    # Takes seconds, so only once the arguments are known to be right.
    import torch

    from pitb import pytorch
    from pitb.breadth import phases

    torch.set_num_threads(1)
    if arguments.taken_up is not None:
        pytorch.train_all(phases.phases(found, "pytorch", arguments.taken_up)[1], arguments.traces)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        first, second = phases.phases(found, "pytorch", Path(folder))
        pytorch.train_all(first, arguments.traces)
        if not second:
            return 0
        command = [sys.executable, __file__, "--plan", arguments.plan]
        command += ["--traces", arguments.traces, "--taken-up", folder]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    run_main(main)
