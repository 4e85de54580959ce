"""Train burn's side of a plan: first all runs, then, in a new process, those taken up again."""

import tempfile
from pathlib import Path

from pitb import arguments as command_line
from pitb import programs
from pitb.breadth import inputs, phases
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/train_breadth_burn.py --plan results/breadth-slice/plans/adam.json \\
    --program target/release/optdef --traces results/breadth-slice/traces/adam"""


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--plan", type=Path, required=True, help="the plan, as JSON")
    parser.add_argument("--program", type=Path, required=True, help="the burn program")
    parser.add_argument("--traces", type=Path, required=True, help="where the traces go")
    arguments = parser.parse_args()
    found = inputs.read_plan(arguments.plan)
    with tempfile.TemporaryDirectory() as folder:
        for number, runs in enumerate(phases.phases(found, "burn", Path(folder))):
            if not runs:
                continue
            batch = Path(folder) / f"{number}.json"
            write_json(batch, {"problems": found["problems"], "runs": runs}, indent=None)
            command = [arguments.program.resolve(), "--runs", batch, "--traces", arguments.traces]
            before = phases.stamps(runs, arguments.traces)
            code: int = programs.run(command, check=False).returncode
            if code != 0:
                return code
            phases.check_left(before, arguments.program)
    return 0


if __name__ == "__main__":
    run_main(main)
