"""Compare a batch of pairs of traces, each after a preflight on what its runs start from."""

from pathlib import Path
from typing import Any

from pitb import batches, compare, programs
from pitb.errors import run_main
from pitb.files import write_json
from pitb.pairs import compare_pair
from pitb.results import comparison_path, pair_name

EXAMPLES = """  python scripts/compare_traces.py compare-0 --config config/config.yaml \\
    --schema config/schema.json --results results \\
    --preflight results/evidence/preflight/compare-0.json"""


def main() -> None:
    parser = batches.parser(__doc__, EXAMPLES)
    parser.add_argument("--preflight", type=Path, required=True, help="JSON file to write")
    arguments = parser.parse_args()
    programs.limit_this_process(f"comparing the batch {arguments.batch}")
    preflight: dict[str, Any] = {}
    for pair in batches.read(arguments)["pairs"]:
        comparison = compare_pair(pair, arguments.results)
        compare.write(comparison, arguments.results / comparison_path(pair["a"], pair["b"]))
        print(f"{pair_name(pair['a'], pair['b'])}: {comparison.error or comparison.verdict}")
        preflight[pair_name(pair["a"], pair["b"])] = comparison.initial_state
    write_json(arguments.preflight, preflight)


if __name__ == "__main__":
    run_main(main)
