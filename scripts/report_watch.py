"""Write the table of what other versions change."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import run_main
from pitb.watch import changes, watching

EXAMPLES = """  python scripts/report_watch.py results/watch/*/facts.json --out results/watch"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("facts", type=Path, nargs="+", help="what was found of each version")
    parser.add_argument("--out", type=Path, required=True, help="folder for the table")
    arguments = parser.parse_args()
    found = [changes.read_facts(path) for path in arguments.facts]
    changes.write(found, arguments.out)
    for facts in found:
        print(f"{facts.name}: {watching.summary(facts)}")


if __name__ == "__main__":
    run_main(main)
