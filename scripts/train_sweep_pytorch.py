"""Train PyTorch's side of one batch of a sweep into one file."""

from pitb import programs
from pitb.errors import run_main
from pitb.sweeps import training

EXAMPLES = """  python scripts/train_sweep_pytorch.py 0of1 --plan results/sweeps/example/plan \\
    --out results/sweeps/example/traces/pytorch-0of1.parquet"""


def main() -> None:
    arguments = training.parser(__doc__, EXAMPLES).parse_args()
    batch = training.batch_of(arguments)
    programs.limit_this_process(f"training the batch {arguments.batch}")
    training.train_pytorch(batch, arguments.out)


if __name__ == "__main__":
    run_main(main)
