"""Record what only the libraries' sources say: the types of burn's fields, PyTorch's refusals.

Of burn's configurations the fields with their Rust types and defaults, of its enums the variants,
and the path by which a user names each; of PyTorch's constructors the conditions that raise.
"""

import argparse
from pathlib import Path

from pitb import declarations
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """examples:
  python scripts/record_declared.py --root .
  python scripts/record_declared.py --root . --out scripts/pitb/declared.json"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, required=True, help="the project, whose burn is read")
    parser.add_argument("--out", type=Path, default=Path("/dev/stdout"), help="JSON file to write")
    arguments = parser.parse_args()
    write_json(arguments.out, declarations.read(arguments.root))


if __name__ == "__main__":
    run_main(main)
