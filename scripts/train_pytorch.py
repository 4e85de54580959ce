"""Train a batch of runs on PyTorch's side and record the evidence that the batch asks for."""

from typing import Any

from pitb import batches, page_json, programs
from pitb.errors import run_main
from pitb.files import write_json
from pitb.results import evidence_path, step_json_path

EXAMPLES = """  python scripts/train_pytorch.py pytorch-0 --config config/config.yaml \\
    --schema config/schema.json --results results"""


def main() -> None:
    arguments = batches.parser(__doc__, EXAMPLES).parse_args()
    batch = batches.read(arguments)
    programs.limit_this_process(f"training the batch {arguments.batch}")

    # Takes seconds, so only once the arguments are known to be right.
    import torch

    from pitb import moves, pytorch, trace

    torch.set_num_threads(batch["threads"])
    evidence = {"defaults/pytorch": pytorch.defaults, "moves/pytorch": moves.moves}

    def write_step(spec: dict[str, Any], recorded: trace.Trace) -> None:
        if spec["program"] == batches.TRAIN_STEP:
            path = arguments.results / step_json_path(spec["id"])
            write_json(path, page_json.step_json(recorded))

    pytorch.train_all(batch["runs"], arguments.results / "traces", write_step)
    for name in batch["evidence"]:
        write_json(arguments.results / evidence_path(name), evidence[name]())


if __name__ == "__main__":
    run_main(main)
