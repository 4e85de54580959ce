"""Record what the compiler says of a step that is not assigned, dropped, or marked must_use."""

import tempfile
from pathlib import Path

from pitb import arguments as command_line
from pitb import cargo, programs
from pitb.errors import run_main
from pitb.files import read_json, write_json

EXAMPLES = """  python scripts/probe_compiler.py --root . --target-dir target \\
    --noassign noassign.json --discard discard.json --must-use must-use.json"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--root", type=Path, required=True, help="folder of the Cargo workspace")
    parser.add_argument("--target-dir", type=Path, required=True)
    parser.add_argument("--noassign", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--discard", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--must-use", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    root, target_dir = arguments.root.resolve(), arguments.target_dir.resolve()

    built = cargo.build(root, target_dir, "noassign", ["train-one/noassign"])
    write_json(arguments.noassign, cargo.noassign(built))

    built = cargo.build(root, target_dir, "discard")
    warnings = [message["message"] for message in cargo.warnings(built, "discard")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "discard.json"
        programs.run([target_dir / "release" / "discard", "--json", path])
        losses = read_json(path)
    write_json(arguments.discard, {"warnings": len(warnings), "messages": warnings, **losses})

    built = cargo.build(root, target_dir, "must_use", ["train-one/must-use"])
    write_json(arguments.must_use, cargo.must_use(built))


if __name__ == "__main__":
    run_main(main)
