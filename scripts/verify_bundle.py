"""Verify the bundle that was made last, as `pitb verify` does; exit code 1 where it is altered."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.bundle import limits, report
from pitb.errors import run_main
from pitb.files import read_json, write_text

OWN_SECONDS = 300
"""More than strangers get: it is our own bundle, and this machine may be busy."""

EXAMPLES = """  python scripts/verify_bundle.py results/bundles/latest.json \\
    --out results/bundles/verified.txt"""


def main() -> int:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("record", type=Path, help="the JSON file that names the bundle")
    parser.add_argument("--out", type=Path, required=True, help="what the check says")
    arguments = parser.parse_args()
    bundle = Path(read_json(arguments.record)["path"])
    found = limits.run("verify", [bundle], OWN_SECONDS, limits.MEGABYTES, findings=True)
    found["bundle"] = str(bundle)
    text = report.text(found)
    print(text)
    if found["faults"]:
        return 1
    write_text(arguments.out, text + "\n")
    return 0


if __name__ == "__main__":
    run_main(main)
