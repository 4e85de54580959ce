"""Hold a bundle's crate against the official validator; exit code 1 where it complains."""

from collections import Counter
from pathlib import Path

from pitb import arguments as command_line
from pitb.bundle import validate
from pitb.errors import PitbError, run_main
from pitb.files import read_json, write_text

EXAMPLES = """  python scripts/check_crate.py results/bundles/latest.json \\
    --out results/bundles/crate.txt"""


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("record", type=Path, help="the JSON file that names the bundle")
    parser.add_argument("--out", type=Path, required=True, help="what the validator says")
    arguments = parser.parse_args()
    bundle = Path(read_json(arguments.record)["path"])
    if not bundle.is_file():
        raise PitbError(f"{bundle} does not exist; make it again with make bundle")
    found = validate.issues(bundle)
    complaints = validate.complaints(found)
    for sentence in complaints:
        print(sentence)
    if complaints:
        return 1
    counts = Counter(issue.check for issue in found)
    lines = ["no complaint at REQUIRED"]
    for item in validate.EXCEPTIONS:
        lines.append(f"excepted at RECOMMENDED: {item.check}: {counts[item.check]}: {item.why}")
    write_text(arguments.out, "\n".join(lines) + "\n")
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    run_main(main)
