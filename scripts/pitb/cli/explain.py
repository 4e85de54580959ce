"""Say which difference between two trainings costs what, and where they first part.

A and B are each a trace, the id of a run of the configuration, a JSON or YAML file of one run, or a
run in a line: side:Optimizer key=value ... The keys are lr, steps, problem, dtype, clip, frozen,
accumulate, or an option by the side's own name; dots reach within, and lists stand in brackets.

Every item that differs is tried on an exact reference: aligned alone, broken alone, and its share
of the whole (its Shapley value). Neither torch nor cargo is needed.

Exit code 0 where nothing differs, 1 where something does, 2 where it could not be done.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from pitb.arguments import count

HELP = "say which difference between two trainings costs what"
EXAMPLES = """  pitb explain pytorch/rmsprop burn/rmsprop
  pitb explain 'pytorch:AdamW lr=0.01' 'burn:AdamW lr=0.01'
  pitb explain 'pytorch:Adam lr=0.01 weight_decay=0.1' 'pytorch:AdamW lr=0.01 weight_decay=0.1'
  pitb explain 'pytorch:SGD lr=0.1 clip.scope=global clip.max_norm=0.1' \\
      'burn:Sgd lr=0.1 momentum.momentum=0.9 gradient_clipping={Norm: 0.1}' --problem conv
  pitb explain mine.parquet theirs.parquet --plot difference.svg --json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("a", metavar="A", help="what things are aligned to")
    parser.add_argument("b", metavar="B", help="what differs from it")
    parser.add_argument("--problem", help="what both train (default: what they say, or a1)")
    parser.add_argument("--steps", type=count, help="updates (default: what they say, or 10)")
    parser.add_argument("--dtype", help="float32 or float64 (default: what they say, or float32)")
    parser.add_argument(
        "--config",
        type=Path,
        nargs="+",
        default=[Path("config/config.yaml")],
        metavar="FILE",
        help="where ids of runs are looked up (default: config/config.yaml)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        help="where the traces of such runs are looked for (default: results)",
    )
    parser.add_argument(
        "--orders",
        type=count,
        metavar="N",
        help="pairs of orders that are drawn where more than 8 items differ (default: 24); the "
        "standard error falls with its root, the time grows with it",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: 0)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture, .svg or .png")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--language", choices=("en", "zh"), default="en", help="of the text (default: en)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Explain, and print it."""
    from pitb.errors import PitbError
    from pitb.explain import explanation, game, machine, plot, report, sources

    if arguments.plot is not None:
        plot.check_path(arguments.plot)
    orders = arguments.orders or game.PERMUTATIONS
    if orders < 2:
        raise PitbError("--orders is 1, which leaves no error to estimate; take 2 or more")
    if arguments.seed < 0:
        raise PitbError(f"--seed is {arguments.seed}, but must be 0 or more")
    overrides: dict[str, Any] = {
        "problem": arguments.problem,
        "steps": arguments.steps,
        "dtype": arguments.dtype,
    }
    a, b = (
        sources.read(text, arguments.config, arguments.results)
        for text in (arguments.a, arguments.b)
    )
    found = explanation.explain(a, b, overrides, orders, arguments.seed)
    if arguments.plot is not None:
        plot.plot(found, arguments.plot)
    if arguments.json:
        print(json.dumps(machine.as_json(found), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print(report.markdown(found, arguments.language), end="")
    return int(found.differs)
