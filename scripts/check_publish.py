"""Say whether all is there that an archive such as Zenodo asks for; nothing is uploaded."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.bundle import contents, limits, publish
from pitb.errors import PitbError, run_main
from pitb.files import read_json, write_json

OWN_SECONDS = 300
"""More than strangers get: it is our own bundle, and this machine may be busy."""

EXAMPLES = """  python scripts/check_publish.py --root . --record results/bundles/latest.json \\
    --out results/bundles/zenodo.json"""


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--root", type=Path, required=True, help="the project")
    parser.add_argument("--record", type=Path, required=True, help="JSON that names the bundle")
    parser.add_argument("--out", type=Path, required=True, help="the deposit's metadata, as JSON")
    arguments = parser.parse_args()
    found = [*publish.missing(arguments.root), *bundle_faults(arguments.record)]
    for sentence in found:
        print(sentence)
    if found:
        return 1
    metadata = publish.zenodo(publish.citation(arguments.root))
    write_json(arguments.out, metadata)
    print(f"all is there: {arguments.out} is the metadata; nothing was uploaded")
    return 0


def bundle_faults(record: Path) -> list[str]:
    """What is wrong with the bundle that was made last, a sentence each."""
    if not record.is_file():
        return [f"{record} does not exist, so there is no bundle; make one with make bundle"]
    path = Path(str(read_json(record)["path"]))
    if not path.is_file():
        return [f"{path} does not exist; make it again with make bundle"]
    try:
        found = limits.run("verify", [path], OWN_SECONDS, limits.MEGABYTES)
    except PitbError as error:
        return [str(error)]
    faults = [f"{path}: {item['where']}: {item['what']}" for item in found["faults"]]
    if contents.hash_in_name(path.name) != found["hash"]:
        faults.append(f"{path} is not named by its hash, {found['hash']}")
    return faults


if __name__ == "__main__":
    run_main(main)
