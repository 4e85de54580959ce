"""Record the SHA-256 of what figures are judged by, so that `pitb verify` can tell another's.

That is the published figures and the schema of the configuration, as this version has them.
"""

from pathlib import Path

from pitb import arguments as command_line
from pitb.bundle import stated
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = "  python scripts/record_published.py --root . --out scripts/pitb/published.json"


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--root", type=Path, required=True, help="the project")
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    given = parser.parse_args()
    write_json(given.out, stated.digests(given.root))


if __name__ == "__main__":
    run_main(main)
