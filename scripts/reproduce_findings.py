"""Build, run and check the reproductions of the findings, and write the findings' page."""

import argparse
from pathlib import Path

from pitb.breadth import findings, findings_page, reproductions
from pitb.errors import run_main
from pitb.files import read_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--findings", type=Path, required=True, help="the folder of the findings")
    parser.add_argument("--root", type=Path, required=True, help="the project, whose burn is used")
    parser.add_argument("--target-dir", type=Path, required=True, help="where that burn is built")
    arguments = parser.parse_args()
    folder = arguments.findings
    found = [findings.from_plain(item) for item in read_json(folder / "findings.json")]
    outputs = reproductions.reproduce(
        folder / "reproductions", arguments.root, arguments.target_dir.absolute()
    )
    findings_page.write_pages(found, folder, outputs)
    print(f"{len(outputs)} reproductions show what their findings say")


if __name__ == "__main__":
    run_main(main)
