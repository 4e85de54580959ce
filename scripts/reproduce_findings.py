"""Build, run and check the reproductions of the findings, and write the findings' page."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.breadth import findings, findings_page, inputs, reproductions
from pitb.errors import run_main

EXAMPLES = """  python scripts/reproduce_findings.py --findings results/breadth-slice \\
    --root . --target-dir target"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--findings", type=Path, required=True, help="the folder of the findings")
    parser.add_argument("--root", type=Path, required=True, help="the project, whose burn is used")
    parser.add_argument("--target-dir", type=Path, required=True, help="where that burn is built")
    arguments = parser.parse_args()
    folder = arguments.findings
    found = [findings.from_plain(item) for item in inputs.read_findings(folder / "findings.json")]
    outputs = reproductions.reproduce(
        folder / "reproductions", arguments.root, arguments.target_dir.absolute()
    )
    findings_page.write_pages(found, folder, outputs)
    print(f"{len(outputs)} reproductions show what their findings say")


if __name__ == "__main__":
    run_main(main)
