"""Train a batch of runs on burn's side: write them as JSON, and have a burn program train them."""

from pathlib import Path

from pitb import batches, programs
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/train_burn.py burn-optdef-0 --config config/config.yaml \\
    --schema config/schema.json --results results --program target/release/optdef"""


def main() -> int:
    parser = batches.parser(__doc__, EXAMPLES)
    parser.add_argument("--program", type=Path, required=True, help="the burn program")
    arguments = parser.parse_args()
    runs = arguments.results / "batches" / f"{arguments.batch}.json"
    batch = batches.read(arguments)
    write_json(runs, batch)
    command = [
        arguments.program.resolve(),
        "--runs",
        runs,
        "--traces",
        arguments.results / "traces",
    ]
    if arguments.program.name == batches.TRAIN_STEP:
        command += ["--jsons", arguments.results / "evidence" / batches.TRAIN_STEP]
    name = arguments.program.name
    code: int = programs.run(command, check=False).returncode
    if code == 0:
        written = (arguments.results / path for path in batches.outputs(batch, name))
        programs.check_whole(written, name)
    return code


if __name__ == "__main__":
    run_main(main)
