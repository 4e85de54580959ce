"""Train PyTorch's side of a plan, each run alone; one that this torch refuses is noted."""

import tempfile
from pathlib import Path

from pitb import arguments as command_line
from pitb import trace
from pitb.breadth import phases
from pitb.errors import PitbError, run_main
from pitb.files import read_json, write_json

EXAMPLES = """  results/watch/torch-2.14.1/environment/bin/python scripts/train_watch_pytorch.py \\
    --plan results/watch/torch-2.14.1/plan.json --traces results/watch/torch-2.14.1/equations \\
    --refused results/watch/torch-2.14.1/refused.json"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--plan", type=Path, required=True, help="the plan, as JSON")
    parser.add_argument("--traces", type=Path, required=True, help="where the traces go")
    parser.add_argument("--refused", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    plan = read_json(arguments.plan)

    # Takes seconds, so only once the arguments are known to be right.
    import torch

    from pitb import pytorch

    torch.set_num_threads(1)
    refused: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        first, second = phases.phases(plan, "pytorch", Path(folder))
        for spec in (*first, *second):
            path = arguments.traces / f"{spec['id']}.parquet"
            path.unlink(missing_ok=True)
            try:
                recorded = pytorch.train(spec)
            except PitbError as error:
                name = str(spec["id"]).partition("/")[2].removesuffix("_first")
                refused.setdefault(name, str(error))
            else:
                trace.write(recorded, path)  # what goes wrong here is not torch's
    write_json(arguments.refused, refused)
    print(f"{len(first) + len(second)} runs, {len(refused)} refused")


if __name__ == "__main__":
    run_main(main)
