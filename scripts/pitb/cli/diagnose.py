"""Find out what the optimizer behind a trace really does: which it is, its equations, its values.

The trace's word on its configuration is not believed, nor read. Parameters, gradients and the rate
of each step are replayed by the reference, every step from the recorded parameters; what explains
all of them to within rounding is ranked, with the interval of each value that the data allow, and
what they cannot tell apart. Of two traces it is also said what would bring them together.

Exit code 0 where all is explained, 1 where nothing explains it, 2 where it could not be tried.
"""

import argparse
import json
import sys
from pathlib import Path

HELP = "find the optimizer, its equations and its hyper-parameters from a trace"
EXAMPLES = """  pitb diagnose run.parquet
  pitb diagnose results/traces/pytorch/rmsprop.parquet results/traces/burn/rmsprop.parquet
  pitb diagnose run.parquet --json > diagnosis.json
  pitb diagnose run.parquet --map dense1.weight=fc1.weight
  pitb diagnose run.parquet --map fc1.weight=fc1.weight.T"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("trace", type=Path, help="a trace")
    parser.add_argument("other", type=Path, nargs="?", help="another, to be brought together")
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="call a tensor otherwise; with NEW.T it is transposed: its gradients, or of a second "
        "trace all of it (may be given again)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="do not say what is being tried")


def run(arguments: argparse.Namespace) -> int:
    """Diagnose, and print what was found."""
    from pitb.diagnose import pair, report
    from pitb.diagnose.diagnosis import diagnose
    from pitb.diagnose.reading import parse_map
    from pitb.diagnose.recording import load

    def say(text: str) -> None:
        if not arguments.quiet and sys.stderr.isatty():
            print(text, file=sys.stderr)

    maps = [parse_map(text) for text in arguments.map]
    if arguments.other is None:
        found = [diagnose(load(arguments.trace, maps), say)]
    else:
        recordings = [load(arguments.trace), load(arguments.other, maps, whole=True)]
        found = [diagnose(recording, say) for recording in recordings]
    explained = all(diagnosis.explained for diagnosis in found)
    if arguments.json:
        result = [report.json(diagnosis) for diagnosis in found]
        whole: object = result[0]
        if len(found) == 2:
            together = {"change": pair.sentence(*found)}
            proposals = pair.proposals(*recordings)
            whole = {"diagnoses": result, **together, "proposals": proposals}
        print(json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False))
        return 0 if explained else 1
    for diagnosis in found:
        print(report.text(diagnosis))
    if len(found) == 2:
        for proposal in pair.proposals(*recordings):
            print(f"note: {proposal}")
        print(pair.sentence(*found))
    return 0 if explained else 1
