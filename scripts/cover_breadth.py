"""Hold the breadth against PyTorch's own configurations and burn's and PyTorch's own fields."""

from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pitb import arguments as command_line
from pitb.breadth import inputs
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/cover_breadth.py --plans results/breadth-slice/plans/*.json \\
    --outcomes results/breadth-slice/judged/*/outcomes.json --program target/release/optdef \\
    --defaults results/evidence/defaults/burn.json --out results/breadth-slice/coverage.json"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--plans", type=Path, nargs="+", required=True, help="the plans")
    parser.add_argument("--outcomes", type=Path, nargs="+", required=True, help="what was judged")
    parser.add_argument("--defaults", type=Path, required=True, help="burn's defaults")
    parser.add_argument("--program", type=Path, required=True, help="the burn program")
    parser.add_argument("--out", type=Path, required=True, help="what is found, as JSON")
    arguments = parser.parse_args()
    plan: dict[str, Any] = {"cases": {}}
    for path in arguments.plans:
        plan["cases"] |= inputs.read_plan(path)["cases"]
    verdicts: dict[str, dict[str, str]] = defaultdict(dict)
    for path in arguments.outcomes:
        for outcome in inputs.read_outcomes(path):
            verdicts[outcome["case"]][outcome["pair"]] = outcome["verdict"]
    defaults = inputs.read_defaults(arguments.defaults)

    # Takes seconds, so only once the files are known to be right.
    from pitb.breadth import coverage

    rows = coverage.coverage(plan, verdicts, coverage.Refusals(arguments.program), defaults)
    entries = plan["cases"].values()
    fields = [
        *coverage.burn_fields(defaults, (entry["burn"] for entry in entries)),
        *coverage.pytorch_options(entry["pytorch"] for entry in entries),
    ]
    found = {"rows": [asdict(row) for row in rows], "fields": [asdict(item) for item in fields]}
    write_json(arguments.out, found)
    coverage.check(rows, fields)


if __name__ == "__main__":
    run_main(main)
