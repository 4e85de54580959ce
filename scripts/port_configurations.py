"""Port every configuration of PyTorch's own list, build all of it, train both sides, and judge."""

import csv
from dataclasses import asdict, fields
from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import run_main
from pitb.files import replacing, write_json, write_text

EXAMPLES = """  python scripts/port_configurations.py --root . --target-dir target \\
      --out results/port
  python scripts/port_configurations.py --root . --target-dir target --out /tmp/port \\
      --problems a1 conv"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--root", type=Path, required=True, help="the project, whose burn is used")
    parser.add_argument("--target-dir", type=Path, required=True, help="where that burn is built")
    parser.add_argument("--out", type=Path, required=True, help="the folder for what is found")
    parser.add_argument("--problems", nargs="+", help="what is trained (default: as the coverage)")
    arguments = parser.parse_args()

    # Takes seconds, so only once the arguments are known to be right.
    from pitb.breadth import coverage
    from pitb.port import listed

    out = arguments.out
    tried = arguments.problems or list(coverage.PROBLEMS)
    rows = listed.run(out / "crate", arguments.root, arguments.target_dir.absolute(), tried)
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
