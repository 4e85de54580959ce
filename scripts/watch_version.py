"""Build or install one other version, and find what it changes."""

from pathlib import Path

from pitb import arguments as command_line
from pitb.errors import PitbError, run_main
from pitb.watch import folders, versions, watching

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = """  python scripts/watch_version.py burn 0.21.0 --config config/config.yaml \\
    --results results --out results/watch"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("library", choices=versions.LIBRARIES)
    parser.add_argument("version", help="in full, such as 0.21.0 or 0.23.0-pre.1")
    parser.add_argument("--config", type=Path, nargs="+", required=True, help="YAML files")
    parser.add_argument("--results", type=Path, required=True, help="the project's results")
    parser.add_argument("--out", type=Path, required=True, help="folder of the versions")
    parser.add_argument("--jobs", type=command_line.count, default=0, help="processes of a build")
    arguments = parser.parse_args()
    wanted = versions.wanted(arguments.library, arguments.version)
    setup = watching.prepare(
        ROOT,
        arguments.results,
        arguments.out,
        arguments.config,
        arguments.jobs,
        folders.KEEP_GB,
    )
    failed = watching.watch_all(setup, [wanted])
    if failed:
        raise PitbError(failed[0])


if __name__ == "__main__":
    run_main(main)
