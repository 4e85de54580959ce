"""Explain pairs of recorded runs: what differs, and what each difference costs."""

from pathlib import Path

from pitb import arguments as command_line
from pitb import trace
from pitb.errors import run_main
from pitb.explain import explanation, machine, plot, report, sources
from pitb.files import write_json, write_text
from pitb.labels import LANGUAGES
from pitb.results import explanation_path, pair_name, trace_path

EXAMPLES = (
    """  python scripts/explain_pairs.py --pair pytorch/adamw burn/adamw 1e-6 --results results"""
)


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument(
        "--pair",
        nargs=3,
        action="append",
        required=True,
        metavar=("A", "B", "TOLERANCE"),
        help="ids of two runs, and the tolerance of their comparison; once for each pair",
    )
    parser.add_argument("--results", type=Path, required=True, help="folder of results")
    arguments = parser.parse_args()
    for a, b, tolerance in arguments.pair:
        pair = [sources.of_trace(trace.read(arguments.results / trace_path(run))) for run in (a, b)]
        found = explanation.explain(pair[0], pair[1], tolerance=float(tolerance))
        for language, suffix in LANGUAGES.items():
            path = arguments.results / explanation_path(a, b, f"{suffix}.md")
            write_text(path, report.markdown(found, language))
        write_json(arguments.results / explanation_path(a, b, ".json"), machine.as_json(found))
        plot.plot(found, arguments.results / explanation_path(a, b, ".svg"))
        print(f"{pair_name(a, b)}: {len(found.layout.items)} items")


if __name__ == "__main__":
    run_main(main)
