"""Make a bundle of the results that others can check, and note its name."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.bundle import contents, making
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/make_bundle.py --root . --results results \\
    --config config/config.yaml --schema config/schema.json --out results/bundles \\
    --record results/bundles/latest.json"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--root", type=Path, required=True, help="the project, which git tracks")
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    parser.add_argument("--config", type=Path, nargs="+", required=True, help="YAML files")
    parser.add_argument("--schema", type=Path, required=True, help="JSON schema of these")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the bundle")
    parser.add_argument("--record", type=Path, required=True, help="JSON file for its name")
    parser.add_argument(
        "--allow-dirty", action="store_true", help="also of sources that differ from the commit"
    )
    given = parser.parse_args()
    made = making.make(
        given.root, given.results, given.config, given.schema, given.out, given.allow_dirty
    )
    if made.changed:
        print(f"the sources differ from the commit: {', '.join(made.changed)}")
    if made.unrecorded:
        print(f"{len(made.unrecorded)} files are there of which Snakemake has no record:")
        print("\n".join(f"  {name}" for name in made.unrecorded))
    if made.not_asked_for:
        print(f"{len(made.not_asked_for)} files of the results are not part of a bundle:")
        print("\n".join(f"  {name}" for name in made.not_asked_for))
    found = {
        "path": made.path.as_posix(),
        "hash": contents.hash_in_name(made.path.name),
        "files": made.files,
        "bytes": made.path.stat().st_size,
    }
    write_json(given.record, found)
    print(f"{made.path}: {made.files} files, {found['bytes']} bytes")


if __name__ == "__main__":
    run_main(main)
