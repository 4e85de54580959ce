"""Find every difference in a default or an equation, and write programs that reproduce them."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import run_main
from pitb.files import write_json

EXAMPLES = """  python scripts/make_findings.py --scope results/breadth-slice \\
    --out results/breadth-slice --defaults results/evidence/defaults/burn.json \\
    --schedules results/evidence/schedules.json --program target/release/optdef"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--scope", type=Path, required=True, help="the folder of plans and judged")
    parser.add_argument("--defaults", type=Path, required=True, help="burn's defaults, as JSON")
    parser.add_argument("--schedules", type=Path, required=True, help="what the schedules gave")
    parser.add_argument("--program", type=Path, required=True, help="optdef, to quote what it says")
    parser.add_argument("--out", type=Path, required=True, help="the folder for what is found")
    arguments = parser.parse_args()

    # Takes seconds, so only once the arguments are known to be right.
    from pitb.breadth import findings, findings_page, inputs, reproductions
    from pitb.breadth.coverage import Refusals

    burn = inputs.read_defaults(arguments.defaults)
    evidence = findings.read(arguments.scope / "plans", arguments.scope / "judged", burn)
    rows = findings.schedule_rows(inputs.read_schedules(arguments.schedules))
    found = findings.find(evidence, rows, Refusals(arguments.program))
    findings_page.write_tables(found, arguments.out)
    reproductions.write(found, evidence, arguments.out / "reproductions")
    write_json(arguments.out / "findings.json", [findings.plain(finding) for finding in found])
    for kind in findings.KINDS:
        print(f"{kind}: {sum(finding.kind == kind for finding in found)}")


if __name__ == "__main__":
    run_main(main)
