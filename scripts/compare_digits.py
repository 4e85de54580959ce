"""Compare the recorded trainings of the worked example, and write what came out as a table.

Fails where the one with burn's defaults matches, or the one with PyTorch's does not.
"""

from pathlib import Path

from pitb import arguments as command_line
from pitb import compare, trace
from pitb.breadth import laws
from pitb.compare import MISMATCH, OK
from pitb.errors import PitbError, run_main
from pitb.files import write_text

TOLERANCE = 1e-5
EXPECTED = {"naive": MISMATCH, "fixed": OK}

EXAMPLES = """  python scripts/compare_digits.py results/digits/traces/pytorch \\
      results/digits/traces/burn-naive results/digits/traces/burn-fixed \\
      --out results/digits/summary.md"""


def needed(comparison: compare.Comparison, run: trace.Trace, law: laws.Law) -> float:
    """The most of a law's tolerance that a comparison needs; above 1 it does not hold."""
    largest: dict[tuple[str, str], float] = {}
    for entry in run.entries:
        key = (entry.quantity, entry.tensor)
        largest[key] = max(largest.get(key, 0.0), float(abs(run.of(entry)).max(initial=0)))
    return max(
        row.max_abs / (law.tolerance(row.step) * largest[(row.quantity, row.tensor)])
        for row in comparison.rows
    )


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("pytorch", type=Path)
    parser.add_argument("naive", type=Path)
    parser.add_argument("fixed", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    law = next(law for law in laws.LAWS if law.name == "float32")
    reference = trace.read(arguments.pytorch)
    lines = [
        "| burn's side | recorded updates | largest difference | verdict | float32 law |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, verdict in EXPECTED.items():
        path = getattr(arguments, name)
        found = compare.compare_files(arguments.pytorch, path, TOLERANCE)
        print(compare.report(found), flush=True)
        share = needed(found, reference, law)
        if found.verdict != verdict or (share <= 1) != (verdict == OK):
            raise PitbError(
                f"{path} should give {verdict}, and gives {found.verdict} ({share:.2g} of the law)"
            )
        updates = len({entry.step for entry in reference.entries if entry.quantity == "lr"})
        # The last digits of what roundings leave differ from one processor to another.
        size = f"{found.worst:.1e}" if verdict == MISMATCH else f"below {TOLERANCE:g}"
        held = "holds" if verdict == OK else "does not hold"
        lines.append(f"| {name} | {updates} | {size} | {found.verdict} | {held} |")
    write_text(arguments.out, "\n".join(lines) + "\n")


if __name__ == "__main__":
    run_main(main)
