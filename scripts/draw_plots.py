"""Draw what was compared: losses, differences by step and tensor, and what remains when aligned."""

from pathlib import Path

from pitb import arguments as command_line
from pitb import compare, trace
from pitb.errors import PitbError, run_main
from pitb.explain import explanation, sources
from pitb.plots import bars, comparison
from pitb.plots.comparison import Array
from pitb.results import comparison_path, pair_name, plot_path, remaining_path, trace_path
from pitb.trace import Trace

EXAMPLES = """  python scripts/draw_plots.py --pair pytorch/adamw burn/adamw --results results"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument(
        "--pair",
        nargs=2,
        action="append",
        default=[],
        metavar=("A", "B"),
        help="ids of two runs that were compared; once for each pair",
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    arguments = parser.parse_args()
    found: dict[str, list[compare.Comparison]] = {}
    for a, b in arguments.pair:
        one = compare.read(arguments.results / comparison_path(a, b))
        found.setdefault(a, []).append(one)
        runs = [trace.read(arguments.results / trace_path(run)) for run in (a, b)]
        paths = [arguments.results / plot_path(a, b, kind) for kind in ("loss", "steps", "tensors")]
        comparison.losses(paths[0], *runs)
        comparison.differences(paths[1], one, floor(*runs))
        comparison.tensors(paths[2], one)
        print(f"{pair_name(a, b)}: {one.error or one.verdict}")
    for run, several in found.items():
        if len(several) > 1:
            bars.remaining(arguments.results / remaining_path(run), run, several)


def floor(a: Trace, b: Trace) -> Array | None:
    """What roundings alone can do to the parameters, where the reference can train these runs."""
    try:
        return explanation.rounding_floor(sources.of_trace(a), sources.of_trace(b))[:, 0]
    except PitbError as error:
        print(f"{pair_name(a.run, b.run)}: no rounding floor: {error}")
        return None


if __name__ == "__main__":
    run_main(main)
