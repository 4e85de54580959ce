"""Port PyTorch's optimizers, schedulers and clips to burn, or burn's configurations to PyTorch.

Python is read, never run. What depends on a run becomes a parameter of the generated functions.
Exit code 0 where everything is carried over, 1 where something is not (it is named), 2 where the
input is no such call, or one that PyTorch would refuse.
"""

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import Any

from pitb.arguments import count
from pitb.errors import PitbError

HELP = "write PyTorch's optimizer calls as burn code, and burn's configurations as PyTorch calls"
EXAMPLES = """  pitb port 'torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)'
  pitb port train.py > src/optimizer.rs
  pitb port train.py --set args.lr=3e-4 --steps 10000 --verify
  pitb port - --json < train.py
  pitb port 'AdamConfig { beta_1: 0.9, beta_2: 0.999, epsilon: 1e-5, amsgrad: false, weight_decay: \
None, grad_clipping: None }'
  pitb port 'AdamWConfig::new().with_weight_decay(0.1)' --lr 1e-3
  pitb port --from-burn config.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "what", help="the text of a call, a Python file, a configuration of burn's, or - for stdin"
    )
    parser.add_argument(
        "--from-burn",
        action="store_true",
        help="the input is a configuration of burn's (default: where it looks like one)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--dtype",
        choices=("float32", "float64"),
        default="float32",
        help="of the parameters, which is what a None epsilon depends on (default: float32)",
    )
    parser.add_argument(
        "--steps", type=count, help="how many updates, for schedules that have no end"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="EXPRESSION=VALUE",
        help="the value of an expression that depends on the run, args.lr=3e-4",
    )
    parser.add_argument("--lr", type=float, help="with a configuration of burn's: the rate")
    parser.add_argument(
        "--verify",
        action="store_true",
        help="compile the result in the project's workspace, train both sides and compare",
    )
    parser.add_argument("--problems", nargs="+", help="with --verify: the problems to train on")


def run(arguments: argparse.Namespace) -> int:
    """Port, and print the result."""
    from pitb.port import reverse

    text, name = _input(arguments.what)
    if arguments.from_burn or reverse.is_burn(text):
        return _from_burn(arguments, text, name)
    return _from_python(arguments, text, name)


def _input(what: str) -> tuple[str, str]:
    """The text, and how messages call it."""
    from pitb.files import read_text

    if what == "-":
        data = sys.stdin.buffer.read()
        try:
            return data.decode("utf-8"), "<stdin>"
        except UnicodeDecodeError as error:
            raise PitbError(f"<stdin> is not UTF-8 text (byte {error.start})") from None
    if "(" in what or "{" in what or "\n" in what:
        return what, "<argument>"
    path = Path(what)
    if path.is_dir():
        raise PitbError(f"{path} is a folder; give a Python file, or the text of a call")
    if not path.exists() and path.suffix == "":
        raise PitbError(f"{what!r} is neither a file nor the text of a call, like AdamW(...)")
    return read_text(path), what


def _from_burn(arguments: argparse.Namespace, text: str, name: str) -> int:
    from pitb.port import report, reverse

    found = reverse.reverse(text, name)
    if arguments.verify:
        raise PitbError("--verify goes with PyTorch's calls; port what comes out once more")
    if arguments.json:
        print(json.dumps(report.reverse_json(found, arguments.lr), indent=2))
    else:
        print(reverse.python(found, arguments.lr), end="")
    return found.exit_code


def _from_python(arguments: argparse.Namespace, text: str, name: str) -> int:
    from pitb.port import emit, report
    from pitb.port.assemble import assemble
    from pitb.port.source import parse

    source = parse(text, name)
    known = _settings(arguments.set)
    port = assemble(source, arguments.dtype, arguments.steps, known)
    verdicts = None
    if arguments.verify:
        verdicts = _verify(arguments, text, name, known)
    if arguments.json:
        print(json.dumps(report.port_json(port, verdicts), indent=2))
    else:
        print(emit.rust_of(port), end="")
        for key, verdict in (verdicts or {}).items():
            print(f"// verified: {key}: {_said(verdict)}")
    failed = any(not verdict.passes for verdict in (verdicts or {}).values())
    return 1 if failed else port.exit_code


def _said(verdict: Any) -> str:
    if verdict.passes:
        apart = f"; in the others {', '.join(verdict.choices)} differ" if verdict.choices else ""
        why = f" ({verdict.reason})" if verdict.reason else ""
        return f"OK, {verdict.same} of {verdict.cases} runs have the same numbers{apart}{why}"
    return f"{verdict.status}: {verdict.reason}"


def _settings(given: list[str]) -> dict[str, Any]:
    """The values of ``--set``."""
    from pitb.port.source import parse
    from pitb.port.values import Evaluator, Placeholder

    found = {}
    for text in given:
        name, mark, value = text.partition("=")
        if not mark or not name.strip():
            raise PitbError(f"--set {text}: write it as EXPRESSION=VALUE, args.lr=3e-4")
        source = parse(value.strip(), f"--set {name.strip()}")
        statement = source.tree.body[0] if len(source.tree.body) == 1 else None
        expression = getattr(statement, "value", None)
        result = Evaluator(source).value(expression) if expression is not None else None
        if expression is None or isinstance(result, Placeholder):
            raise PitbError(f"--set {text}: {value!r} is no value")
        found[" ".join(name.split())] = result
    return found


def _verify(
    arguments: argparse.Namespace, text: str, name: str, known: dict[str, Any]
) -> dict[str, Any]:
    """Both sides trained, by the name of the optimizer."""
    from pitb.breadth import coverage
    from pitb.breadth.sources import ROOT
    from pitb.port import verify
    from pitb.port.assemble import assemble
    from pitb.port.source import parse
    from pitb.problems import problem

    if not (ROOT / "Cargo.toml").is_file():
        raise PitbError("--verify needs the project's workspace, which is not here")
    problems = arguments.problems or list(coverage.PROBLEMS)
    for item in problems:
        problem(item)
    steps = arguments.steps
    ports = {d: assemble(parse(text, name), d, steps, known) for d in ("float32", "float64")}
    tried = [
        verify.Tried(f"port-{i}", ports, i)
        for i, unit in enumerate(ports["float32"].units)
        if unit.ported is not None
    ]
    # In one place, so that what cargo leaves behind is replaced and not piled up.
    folder = ROOT / "target" / "verify" / "crate"
    with contextlib.redirect_stdout(sys.stderr):
        found = verify.verify(tried, folder, ROOT, ROOT / "target", problems)
    units = ports["float32"].units
    return {units[item.unit].name: verdict for item, verdict in zip(tried, found, strict=True)}
