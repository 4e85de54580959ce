"""Compare every learning-rate schedule: both libraries, the reference, and reloaded states."""

from dataclasses import asdict
from pathlib import Path

from pitb import arguments as command_line
from pitb import schedulers
from pitb.breadth.records import plain
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/judge_schedules.py --program target/release/optdef \\
    --out results/evidence/schedules.json"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--program", type=Path, required=True, help="the burn program")
    parser.add_argument("--out", type=Path, required=True, help="what is found, as JSON")
    arguments = parser.parse_args()
    cases = schedulers.CASES
    measured, resumed = (
        {
            "burn": schedulers.burn_rates(cases, arguments.program, resume),
            "pytorch": {case.name: schedulers.pytorch_rates(case, resume) for case in cases},
        }
        for resume in (False, True)
    )
    rows = schedulers.judge(cases, measured, resumed)
    variants = schedulers.burn_variants(arguments.program)
    listed = schedulers.coverage(variants, schedulers.pytorch_classes())
    found = {
        "rows": [asdict(row) for row in rows],
        "kills": schedulers.kills(cases, measured),
        "schedulers": listed,
        "totals": schedulers.totals(rows),
    }
    write_json(arguments.out, plain(found))


if __name__ == "__main__":
    run_main(main)
