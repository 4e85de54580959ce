"""Port every configuration of PyTorch's own list, build all of it, train both sides, and judge."""

import argparse
import csv
from dataclasses import asdict, fields
from pathlib import Path

from pitb.breadth import coverage
from pitb.errors import run_main
from pitb.files import replacing, write_json, write_text
from pitb.port import listed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, required=True, help="the project, whose burn is used")
    parser.add_argument("--target-dir", type=Path, required=True, help="where that burn is built")
    parser.add_argument("--out", type=Path, required=True, help="the folder for what is found")
    parser.add_argument("--problems", nargs="+", default=list(coverage.PROBLEMS))
    arguments = parser.parse_args()
    out = arguments.out
    crate = out / "crate"
    rows = listed.run(crate, arguments.root, arguments.target_dir.absolute(), arguments.problems)
    write_json(out / "port.json", {"rows": [asdict(row) for row in rows]})
    write_text(out / "port.md", listed.table(rows, "en"))
    write_text(out / "port.zh.md", listed.table(rows, "zh"))
    with (
        replacing(out / "port.csv") as path,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, [item.name for item in fields(listed.Listed)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    said = listed.summary(rows)
    write_text(out / "summary.txt", f"port: {said}\n")
    print(said)
    listed.check(rows)


if __name__ == "__main__":
    run_main(main)
