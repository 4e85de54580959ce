"""Keep what pitb watch found, as the example that the documents print of it."""

import datetime
import platform
import subprocess
from pathlib import Path

from pitb import arguments as command_line
from pitb import libraries
from pitb.errors import run_main
from pitb.files import read_json, write_json

EXAMPLES = """  pitb watch --burn 0.21.0 --burn 0.23.0-pre.1 --torch 2.14.1
  python scripts/record_watched.py"""
FOUND = Path("results/watch/changes.json")
KEPT = Path("bench/watched.json")


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("--found", type=Path, default=FOUND, help=f"(default: {FOUND})")
    parser.add_argument("--out", type=Path, default=KEPT, help=f"JSON to write (default: {KEPT})")
    arguments = parser.parse_args()
    found = read_json(arguments.found)
    versions = [f"{item['library']} {item['version']}" for item in found["versions"]]
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    own = libraries.recorded()["versions"]
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}",
        "rustc": rustc.stdout.split()[1],
        "python": platform.python_version(),
        "own": {library: own[library] for library in ("burn", "torch")},
        **found,
    }
    write_json(arguments.out, record)
    print(f"{arguments.out}: {', '.join(versions)}")


if __name__ == "__main__":
    run_main(main)
