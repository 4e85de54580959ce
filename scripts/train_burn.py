"""Train a batch of runs on burn's side: write them as JSON, and have a burn program train them."""

import subprocess
from pathlib import Path

from pitb import batches
from pitb.errors import PitbError, run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/train_burn.py burn-optdef-0 --config config/config.yaml \\
    --schema config/schema.json --results results --program target/release/optdef"""


def main() -> int:
    parser = batches.parser(__doc__, EXAMPLES)
    parser.add_argument("--program", type=Path, required=True, help="the burn program")
    arguments = parser.parse_args()
    runs = arguments.results / "batches" / f"{arguments.batch}.json"
    write_json(runs, batches.read(arguments))
    command = [
        arguments.program.resolve(),
        "--runs",
        runs,
        "--traces",
        arguments.results / "traces",
    ]
    if arguments.program.name == batches.TRAIN_STEP:
        command += ["--jsons", arguments.results / "evidence" / batches.TRAIN_STEP]
    try:
        return subprocess.run(command, check=False).returncode
    except OSError as error:
        raise PitbError(f"{arguments.program} does not run: {error.strerror}") from None


if __name__ == "__main__":
    run_main(main)
