"""Run burn's `moves` twice: ids must be new each time, all else the same. Write what it found.

The ids themselves are left out, so that the same result gives the same bytes.
"""

import tempfile
from pathlib import Path
from typing import Any

from pitb import arguments as command_line
from pitb import programs
from pitb.errors import PitbError, run_main
from pitb.files import read_json, write_json

EXAMPLES = """  python scripts/record_moves.py --program target/release/moves --out moves.json"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--program", type=Path, required=True, help="the program moves")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    runs = [run(arguments.program.resolve()) for _ in range(2)]
    ids = [take_ids(found) for found in runs]
    if runs[0] != runs[1]:
        raise PitbError("two runs of moves differ in more than their ids")
    if not ids[0]:
        raise PitbError("moves names no parameter id")
    differ = all(a != b for a, b in zip(*ids, strict=True))
    write_json(arguments.out, {**runs[0], "ids_differ_between_runs": differ})


def run(program: Path) -> dict[str, Any]:
    """The data of one run of the program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "moves.json"
        programs.run([program, "--json", path])
        found: dict[str, Any] = read_json(path)
        return found


def take_ids(value: Any) -> list[str]:
    """Take the ids out of the data of a run, in order."""
    if isinstance(value, dict):
        taken = [value.pop("id")] if "id" in value else []
        return taken + [i for inner in value.values() for i in take_ids(inner)]
    if isinstance(value, list):
        return [i for inner in value for i in take_ids(inner)]
    return []


if __name__ == "__main__":
    run_main(main)
