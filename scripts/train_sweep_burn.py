"""Train burn's side of one batch of a sweep into one file."""

from pathlib import Path

from pitb.errors import run_main
from pitb.sweeps import training

EXAMPLES = """  python scripts/train_sweep_burn.py 0of1 --plan results/sweeps/example/plan \\
    --program target/release/optdef --out results/sweeps/example/traces/burn-0of1.parquet"""


def main() -> None:
    parser = training.parser(__doc__, EXAMPLES)
    parser.add_argument("--program", type=Path, required=True, help="the burn program optdef")
    arguments = parser.parse_args()
    training.train_burn(training.batch_of(arguments), arguments.program, arguments.out)


if __name__ == "__main__":
    run_main(main)
