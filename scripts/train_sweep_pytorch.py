"""Train PyTorch's side of one batch of a sweep into one file."""

from pathlib import Path

from pitb import arguments as command_line
from pitb import programs
from pitb.errors import run_main
from pitb.sweeps import plan, training

EXAMPLES = """  python scripts/train_sweep_pytorch.py 0of1 --plan results/sweeps/example/plan \\
    --out results/sweeps/example/traces/pytorch-0of1.parquet"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("batch", help="the batch, such as 0of1")
    parser.add_argument("--plan", type=Path, required=True, help="the folder of the plan")
    parser.add_argument("--digest", help="digest that the batch must have")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    arguments = parser.parse_args()
    batch = plan.read_batch(arguments.plan, arguments.batch, arguments.digest)
    programs.limit_this_process(f"training the batch {arguments.batch}")
    training.train_pytorch(batch, arguments.out)


if __name__ == "__main__":
    run_main(main)
