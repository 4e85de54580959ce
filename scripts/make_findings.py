"""Find every difference in a default or an equation, and write programs that reproduce them."""

import argparse
from pathlib import Path

from pitb.errors import run_main
from pitb.files import read_json, write_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scope", type=Path, required=True, help="the folder of plans and judged")
    parser.add_argument("--defaults", type=Path, required=True, help="burn's defaults, as JSON")
    parser.add_argument("--schedules", type=Path, required=True, help="what the schedules gave")
    parser.add_argument("--program", type=Path, required=True, help="optdef, to quote what it says")
    parser.add_argument("--out", type=Path, required=True, help="the folder for what is found")
    arguments = parser.parse_args()

    # Takes seconds, so only once the arguments are known to be right.
    from pitb.breadth import findings, findings_page, reproductions
    from pitb.breadth.coverage import Refusals

    burn = read_json(arguments.defaults)
    evidence = findings.read(arguments.scope / "plans", arguments.scope / "judged", burn)
    rows = findings.schedule_rows(read_json(arguments.schedules))
    found = findings.find(evidence, rows, Refusals(arguments.program))
    findings_page.write_tables(found, arguments.out)
    reproductions.write(found, evidence, arguments.out / "reproductions")
    write_json(arguments.out / "findings.json", [findings.plain(finding) for finding in found])
    for kind in findings.KINDS:
        print(f"{kind}: {sum(finding.kind == kind for finding in found)}")


if __name__ == "__main__":
    run_main(main)
