"""What the pages' own PyTorch programs have in common on the command line."""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitb import arguments as command_line
from pitb import schema
from pitb.errors import PitbError
from pitb.files import write_json

if TYPE_CHECKING:
    from pitb.trace import Trace

Spec = dict[str, Any]


def parser(doc: str | None, examples: str) -> argparse.ArgumentParser:
    """A parser with examples, and with the options that train many runs in one process."""
    made = command_line.parser(doc, examples)
    made.add_argument("--runs", type=Path, help='train all runs of this JSON file, {"runs": [...]}')
    made.add_argument("--traces", type=Path, help="folder for their traces")
    made.add_argument("--json", type=Path, help="write the result as JSON here")
    made.add_argument("--trace", type=Path, help="write the trace here")
    made.add_argument("--threads", type=threads, default=1, help="PyTorch's threads (default: 1)")
    return made


def threads(text: str) -> int:
    """A number of threads from the command line."""
    number = int(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError(f"{text} is not from 1 to 1024")
    return number


def positive(text: str) -> float:
    """A finite number above 0 from the command line."""
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a finite number above 0")
    return number


def options(pairs: list[str]) -> dict[str, Any]:
    """Options from ``key=value`` texts; values are JSON.

    Raises:
        PitbError: A pair has no ``=``, its value is not JSON, or its key was given before.
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator:
            raise PitbError(f"--set {pair}: not of the form key=value")
        if key in found:
            raise PitbError(f"--set {pair}: {key} was set before")
        try:
            found[key] = json.loads(text, parse_constant=_no_number)
        except ValueError:
            raise PitbError(f"--set {pair}: the value is not JSON, such as 0.9 or false") from None
    return found


def _no_number(text: str) -> None:
    """JSON has no NaN and no Infinity, though Python reads them."""
    raise ValueError(text)


def train(
    arguments: argparse.Namespace,
    spec: Callable[[], Spec],
    to_json: Callable[["Trace"], Any],
    show: Callable[["Trace"], None] | None = None,
) -> None:
    """Train what the command line asks for: many runs, or one run that ``spec`` describes.

    The one run's JSON, made by ``to_json``, goes to ``--json``; ``show`` prints it instead of it.

    Raises:
        PitbError: ``--runs`` and ``--traces`` are not given together, or the run ended early.
    """
    if (arguments.runs is None) != (arguments.traces is None):
        raise PitbError("--runs and --traces must be given together")
    if arguments.runs and (arguments.json or arguments.trace):
        raise PitbError("--json and --trace are for one run; --runs writes to the folder --traces")
    specs = read_specs(arguments.runs) if arguments.runs else [spec()]

    # Takes seconds, so only once the arguments are known to be right.
    import torch

    from pitb import pytorch, trace

    torch.set_num_threads(arguments.threads)
    if arguments.runs:
        pytorch.train_all(specs, arguments.traces)
        return
    recorded = pytorch.train(specs[0])
    if arguments.trace:
        trace.write(recorded, arguments.trace)
    if recorded.error is not None:
        raise PitbError(f"run {recorded.run} ended early: {recorded.error}")
    if show is not None:
        show(recorded)
    if arguments.json:
        write_json(arguments.json, to_json(recorded))
    elif show is None:
        print(json.dumps(to_json(recorded), indent=2))


def read_specs(path: Path) -> list[Spec]:
    """The runs of a JSON file.

    Raises:
        PitbError: The file does not list runs with an id, an optimizer, lr and steps.
    """
    found: list[Spec] = schema.read(path, schema.having(runs=schema.listed(schema.SPEC)))["runs"]
    return found
