"""Plan the breadth: what both sides train for each case, and what is impossible."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/plan_breadth.py --slice --out results/breadth-slice/plans \\
    --defaults results/evidence/defaults/burn.json
  python scripts/plan_breadth.py --out results/breadth/plans \\
    --defaults results/evidence/defaults/burn.json"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--defaults", type=Path, required=True, help="burn's defaults, as JSON")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the plans")
    parser.add_argument("--slice", action="store_true", help="only what touches everything once")
    arguments = parser.parse_args()

    # Takes seconds, so only once the arguments are known to be right.
    from pitb.breadth import inputs, plan, scope

    burn = inputs.read_defaults(arguments.defaults)
    for key, cases in scope.by_optimizer(burn, arguments.slice).items():
        write_json(arguments.out / f"{key}.json", plan.plan(cases, burn), indent=None)


if __name__ == "__main__":
    run_main(main)
