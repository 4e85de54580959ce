"""Pick the cases that touch every choice of equation, from the mistakes that the slice noticed."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.breadth import inputs
from pitb.errors import PitbError, run_main
from pitb.files import write_json
from pitb.watch import cases

EXAMPLES = """  python scripts/record_watch_cases.py
  python scripts/record_watch_cases.py --judged results/breadth-slice/judged --out cases.json"""
JUDGED = Path("results/breadth-slice/judged")


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--judged", type=Path, default=JUDGED, help=f"folder (default: {JUDGED})")
    place = Path(cases.__file__).parent / cases.FILE
    parser.add_argument("--out", type=Path, default=place, help="JSON file to write")
    arguments = parser.parse_args()
    paths = sorted(arguments.judged.glob("*/kills.json"))
    if not paths:
        raise PitbError(f"{arguments.judged} holds no kills; run make slice")
    picked = cases.pick(kill for path in paths for kill in inputs.read_kills(path))
    about = "Written by scripts/record_watch_cases.py, after make slice; not to be edited."
    write_json(arguments.out, {"comment": about, "cases": picked})
    counts = {
        side: sum(len(choices) for choices in optimizers.values())
        for side, optimizers in picked.items()
    }
    print(", ".join(f"{side}: {count} choices" for side, count in counts.items()))


if __name__ == "__main__":
    run_main(main)
