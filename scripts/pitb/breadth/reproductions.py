"""Reproductions of findings: programs made from the smallest run, built, run and checked.

A reproduction holds the numbers of that run and nothing else: the initial values, the gradients of
each update (as the reference has them, up to the update that shows the difference), the options as
code. It counts only where both programs do what the finding says: each prints what the reference
predicts for its library, and the two differ.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pitb import cargo
from pitb.breadth import programs, runs
from pitb.breadth.cases import Case
from pitb.breadth.code import burn_config, uses
from pitb.breadth.default_findings import default_code
from pitb.breadth.defaults import differences
from pitb.breadth.equation_findings import aligned_runs
from pitb.breadth.finding import EQUATION, SCHEDULE, Evidence, Finding
from pitb.breadth.laws import law
from pitb.breadth.programs import Array, Setup
from pitb.cargo import build_generated
from pitb.errors import PitbError
from pitb.files import read_json, write_json, write_text
from pitb.problems import Problem, is_linear, problem
from pitb.reference import lbfgs
from pitb.reference.descriptions import describe
from pitb.reference.training import train
from pitb.registry import by_pytorch_name
from pitb.schedulers import reference_rates
from pitb.schedulers.cases import CASES
from pitb.trace import Trace

SIDES = ("pytorch", "burn")
FILES = {"pytorch": "main.py", "burn": "main.rs"}
NETWORKS = ("tied", "flat_gradient")
"""Choices that take a model of layers to be seen, and not gradients alone."""
EXPECTED = "expected.json"
PACKAGE = "reproductions"
ALIGNED = "aligned-defaults"
"""The program that writes out every default as the findings say."""
LIMIT = 120
"""Seconds that a program may take."""


@dataclass(frozen=True)
class Special:
    """A run outside the breadth, for a choice that it shows better or in fewer words."""

    model: str
    start: tuple[float, ...]
    lr: float
    options: Mapping[str, Any]
    """By PyTorch's names."""
    counted: bool = False


_WOLFE = {"line_search_fn": "strong_wolfe"}
SPECIAL: Mapping[str, Special] = {
    "lbfgs.last_evaluation": Special(
        "rosenbrock", (-1.2, 1.0), 0.1, {"max_iter": 2, "max_eval": 9}, True
    ),
    # The step overflows the loss.
    "lbfgs.nan_in_min_max": Special("rosenbrock", (-1.2, 1.0), 1e60, {**_WOLFE, "max_eval": 200}),
    "lbfgs.negative_max_ls": Special("rosenbrock", (-1.2, 1.0), 1.0, {**_WOLFE, "max_eval": 0}),
    # A step to 6 is too far, and the cubic then leads into the gap.
    "lbfgs.nan_loss": Special("gap", (0.0,), 6.0, {**_WOLFE, "max_iter": 3, "max_eval": 9}),
}
"""By choice; L-BFGS in float64, one update."""

Prediction = dict[str, list[float]]
"""By ``1 fc.bias``: the values after an update."""


@dataclass(frozen=True)
class Expected:
    """What the two programs of a reproduction must print."""

    pytorch: Prediction
    burn: Prediction
    tolerance: dict[str, float]
    """By ``pytorch``, ``burn`` and ``apart``: relative to the largest magnitude of the tensor."""
    fails: str = ""
    """The side that must end with an error; empty for neither."""


@dataclass(frozen=True)
class Reproduction:
    """The programs of one finding."""

    id: str
    rust: str
    python: str
    expected: Expected


@dataclass(frozen=True)
class Ran:
    """What a program printed."""

    output: str
    code: int
    error: str = ""
    """The last words of a program that failed."""

    @property
    def shown(self) -> str:
        """As it is quoted."""
        if self.code == 0:
            return self.output
        return f"{self.output}exit code {self.code}: {self.error}\n"


# Making them


def write(found: Sequence[Finding], evidence: Evidence, folder: Path) -> None:
    """Write ``<id>/main.rs`` and ``main.py`` of every difference in an equation that a run shows,
    what they must print, and a program that has all defaults aligned.
    """
    if folder.exists():
        shutil.rmtree(folder)  # what a finding of another time has left there
    expected = {}
    for finding in found:
        made = make(finding, evidence)
        if made is None:
            continue
        write_text(folder / made.id / FILES["burn"], made.rust)
        write_text(folder / made.id / FILES["pytorch"], made.python)
        expected[made.id] = _plain(made.expected)
    write_text(folder / ALIGNED / FILES["burn"], aligned_defaults(evidence))
    write_json(folder / EXPECTED, expected, indent=None)


def make(finding: Finding, evidence: Evidence) -> Reproduction | None:
    """The reproduction of a finding; None where it is of another kind, or no run shows it.

    Raises:
        PitbError: There is no program for that run.
    """
    if finding.kind == EQUATION and finding.option in SPECIAL:
        return _special(finding, SPECIAL[finding.option], evidence)
    if finding.kind != EQUATION or not finding.case:
        return None
    if finding.optimizers == (SCHEDULE,):
        return _schedule(finding)
    entry = dict(evidence.entries[finding.case])
    case = runs.case_of(entry)
    _check_plain(case)
    burn_run, _ = aligned_runs(entry, finding.option)
    traces = {"burn": train(burn_run), "pytorch": train(runs.reference_run(entry, "pytorch"))}
    setup, expected = _setup(finding, entry, case, traces, evidence)
    return Reproduction(finding.id, programs.rust(setup), programs.python(setup), expected)


def _special(finding: Finding, of: Special, evidence: Evidence) -> Reproduction:
    optimizer = by_pytorch_name("LBFGS")
    options = optimizer.to_burn({**optimizer.resolved(dict(of.options)), "maximize": False})
    setup = Setup(
        about=f"{finding.id}: {finding.meaning}",
        dtype="float64",
        lr=of.lr,
        config=burn_config(optimizer, options, evidence.burn),
        optimizer="torch.optim.LBFGS",
        options=of.options,
        parameters=(Array("x", (len(of.start),), of.start),),
        steps=1,
        model=of.model,
        counted=of.counted,
    )
    predictions: dict[str, Prediction] = {}
    fails = ""
    for side in SIDES:
        try:
            predictions[side] = _minimized(of, describe(side, "LBFGS").lbfgs)
        except ValueError:
            fails = side
    if fails:
        predictions = {side: {} for side in SIDES}
    tolerance = dict.fromkeys((*SIDES, "apart"), 1e-9)
    expected = Expected(predictions["pytorch"], predictions["burn"], tolerance, fails)
    return Reproduction(finding.id, programs.rust(setup), programs.python(setup), expected)


def _minimized(of: Special, choices: lbfgs.Choices) -> Prediction:
    """Where the reference's first update leads, as `parse` reads it."""
    evaluations = 0

    def evaluate(x: Any) -> tuple[float, Any]:
        nonlocal evaluations
        evaluations += 1
        if of.model == "gap":
            a, b, c = (0, 0.25, -1) if x[0] > 5 else (math.nan,) * 3 if x[0] > 1.5 else (1, -2, 0)
            return a * x[0] ** 2 + b * x[0] + c, 2 * a * x + b
        valley, away = x[1:] - x[:-1] ** 2, 1 - x[:-1]
        gradient = np.zeros_like(x)
        gradient[1:] += 200 * valley
        gradient[:-1] += -400 * valley * x[:-1] - 2 * away
        return float((100 * valley**2 + away**2).sum()), gradient

    with np.errstate(all="ignore"):
        start = np.array(of.start)
        x = lbfgs.step(start, evaluate, {}, lr=of.lr, choices=choices, **of.options)
    found = {"1 x": [float(value) for value in x]}
    return {**found, "1 evaluations": [float(evaluations)]} if of.counted else found


def _check_plain(case: Case) -> None:
    beyond = {
        "groups": case.groups,
        "a schedule": case.schedule,
        "micro-batches": case.accumulate > 1,
    }
    found = [name for name, value in beyond.items() if value]
    if found:
        raise PitbError(f"{case.name} has {', '.join(found)}, which no reproduction is made of")


def _setup(
    finding: Finding,
    entry: Mapping[str, Any],
    case: Case,
    traces: Mapping[str, Trace],
    evidence: Evidence,
) -> tuple[Setup, Expected]:
    of = problem(case.problem)
    optimizer = by_pytorch_name(case.optimizer)
    network = finding.option in NETWORKS or case.optimizer == "LBFGS"
    options = dict(entry["burn"]["options"])
    clips = [name for name in optimizer.burn_only if name.endswith("clipping")]
    if case.clipping_by == "late":
        options = {key: value for key, value in options.items() if key not in clips}
    resume = min(case.resume_step, 1) if finding.option == "resumed_dtype" else 0
    steps = finding.step or (resume + 1)
    setup = Setup(
        about=f"{finding.id}: {finding.meaning}",
        dtype=case.dtype,
        lr=case.lr,
        config=burn_config(optimizer, options, evidence.burn),
        optimizer=f"{optimizer.module}.{case.optimizer}",
        options=dict(entry["pytorch"]["options"]),
        parameters=(),
        steps=steps,
        own_clip=case.burn_clip,
        late=case.clipping_by == "late",
        resume_after=resume,
    )
    names = _names(finding, case, of, traces, steps)
    if network:
        setup = _network(setup, case, of, names)
    else:
        setup = replace(setup, **_given(case, of, names, traces["burn"], steps, finding))
    return setup, _expected(finding, case, traces, names, steps)


def _given(
    case: Case, of: Problem, names: Sequence[str], trace: Trace, steps: int, finding: Finding
) -> dict[str, Any]:
    """Parameters and gradients, as the trace has them."""
    clip = case.clip or {}
    if clip and (clip["scope"] == "value" or clip.get("norm_type", 2.0) != 2.0):
        raise PitbError(f"{case.name} clips in a way that no reproduction is made of")
    shows_clip = finding.option == "clip_denominator"
    found = trace.by_key()
    kind = "clipped_grad" if clip and not shows_clip else "grad"
    gradients: dict[str, list[list[float] | None]] = {}
    for name in names:
        entries = [found.get((step, kind, name)) for step in range(1, steps + 1)]
        gradients[name] = [None if e is None else _short(trace.of(e), case.dtype) for e in entries]
    state = ("", "")
    if finding.quantity != "param":
        named = finding.quantity.partition(" ")[0].removeprefix("state.")
        state = named, by_pytorch_name(case.optimizer).state.get(named, "")
    return {
        "parameters": tuple(_array(of, name, case) for name in names),
        "gradients": gradients,
        "loop_clip": clip["max_norm"] if shows_clip else None,
        "whole_norm": clip.get("scope") == "global",
        "state": state,
    }


def _short(values: Iterable[float], dtype: str) -> list[float]:
    """The shortest decimals that are these numbers in the run's dtype."""
    if dtype == "float64":
        return list(values)
    return [float(str(np.float32(x))) for x in values]


def _array(of: Problem, name: str, case: Case, turn: bool = False) -> Array:
    value = of.parameters[name]
    # What an optimizer does depends on how a matrix is stored for Muon alone.
    turned = value.ndim == 2 and is_linear(name) and (turn or case.optimizer == "Muon")
    values = _short(value.reshape(-1), case.dtype)
    return Array(name, value.shape, values, turned, trained=name not in case.frozen)


def _network(setup: Setup, case: Case, of: Problem, names: Sequence[str]) -> Setup:
    if of.model not in ("mlp", "tied", "quadratic", "rosenbrock"):
        raise PitbError(f"no reproduction is made of the model of {case.name}")
    if case.clip or case.burn_clip:
        raise PitbError(f"{case.name} clips, which no reproduction of a model does")
    inputs = tuple(
        Array(name, value.shape, _short(value.reshape(-1), case.dtype))
        for name, value in of.inputs.items()
        if value.dtype != np.int64
    )
    return replace(
        setup,
        model=of.model,
        parameters=tuple(_array(of, name, case, turn=True) for name in of.parameters),
        inputs=inputs,
        labels=of.inputs["y"].tolist() if "y" in of.inputs else (),
        printed=tuple(names),
    )


def _names(
    finding: Finding, case: Case, of: Problem, traces: Mapping[str, Trace], steps: int
) -> list[str]:
    """The parameters that are needed to see it, and printed: the smallest that shows it."""
    if finding.option == "tied":
        return [name for pair in of.tied for name in reversed(pair)]
    if finding.quantity != "param":
        return [finding.quantity.partition(" ")[2]]
    trained = [name for name in of.parameters if name not in case.frozen]
    by_size = sorted(trained, key=lambda name: of.parameters[name].size)
    if finding.step == 0:
        found = traces["burn"].by_key()
        return [name for name in by_size if (1, "grad", name) in found][:1]
    apart = {name: _apart(traces, finding.step, name) for name in by_size}
    most = max(apart.values())
    # The smallest tensor that shows much of the difference.
    return [next(name for name in by_size if apart[name] >= most / 20 or most == 0)]


def _apart(traces: Mapping[str, Trace], step: int, name: str) -> float:
    a, b = (_values(trace, step, name) for trace in traces.values())
    if a is None or b is None:
        return 0.0
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        distance = np.where(same, 0.0, np.abs(a - b))
    distance = np.where(np.isnan(distance), np.inf, distance)
    finite = [np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (a, b)]
    largest = float(distance.max(initial=0.0))
    return largest / max(*finite, 1e-300) if math.isfinite(largest) else 1e300


def _values(trace: Trace, step: int, name: str, quantity: str = "param") -> Any:
    entry = trace.by_key().get((step, quantity, name))
    return None if entry is None else np.array(trace.of(entry))


def _expected(
    finding: Finding,
    case: Case,
    traces: Mapping[str, Trace],
    names: Sequence[str],
    steps: int,
) -> Expected:
    predictions: dict[str, Prediction] = {}
    for side, trace in traces.items():
        found: Prediction = {}
        for step in range(1, steps + 1):
            for name in names:
                value = _values(trace, step, name)
                if value is not None:
                    found[f"{step} {name}"] = value.tolist()
                if finding.quantity != "param":
                    kind = finding.quantity.partition(" ")[0]
                    state = _values(trace, step, name, kind)
                    if state is not None:
                        found[f"{step} {kind.removeprefix('state.')}"] = state.tolist()
        predictions[side] = found
    tolerance = {side: law(case, f"{side}--reference").tolerance(steps) for side in SIDES}
    fails = ""
    if finding.option == "resumed_dtype":
        fails = "burn"
        # The programs go through the record earlier than the run does.
        predictions = {side: {} for side in SIDES}
    elif finding.step == 0:
        fails = next(side for side, trace in traces.items() if trace.error is not None)
        predictions = {side: {} for side in SIDES}
    apart = min(tolerance.values())
    return Expected(
        predictions["pytorch"], predictions["burn"], {**tolerance, "apart": apart}, fails
    )


def _schedule(finding: Finding) -> Reproduction:
    case = next(case for case in CASES if case.name == finding.case)
    assert case.burn is not None
    assert case.pytorch is not None
    predictions = {}
    for side in SIDES:
        outcome = reference_rates(case, side)
        assert outcome is not None
        rates = outcome.rates[: finding.step]
        predictions[side] = {f"{step} rate": [rate] for step, rate in enumerate(rates, 1)}
    about = f"{finding.id}: {finding.meaning}"
    return Reproduction(
        finding.id,
        programs.rust_schedule(about, case.burn, finding.step),
        programs.python_schedule(about, case.pytorch, case.base[case.group], finding.step),
        Expected(
            predictions["pytorch"],
            predictions["burn"],
            dict.fromkeys((*SIDES, "apart"), 1e-12),
        ),
    )


def aligned_defaults(evidence: Evidence) -> str:
    """A Rust program that prints every configuration with one default aligned."""
    written = []
    for item in differences(evidence.burn):
        if not item.absent:
            written.append(default_code(by_pytorch_name(item.optimizer), item, evidence.burn))
    body = "\n".join(f'    println!("{{:?}}", {code});' for code in written)
    about = "//! Every default that differs, as PyTorch has it, in burn's words."
    return f"{about}\n\n" + "\n".join(uses(body)) + f"\n\nfn main() {{\n{body}\n}}\n"


def _plain(expected: Expected) -> dict[str, Any]:
    def texts(values: Iterable[float]) -> list[Any]:
        return [x if math.isfinite(x) else str(x) for x in values]

    found = {side: {k: texts(v) for k, v in getattr(expected, side).items()} for side in SIDES}
    return {**found, "tolerance": expected.tolerance, "fails": expected.fails}


def _from_plain(value: Mapping[str, Any]) -> Expected:
    found = {side: {k: [float(x) for x in v] for k, v in value[side].items()} for side in SIDES}
    return Expected(found["pytorch"], found["burn"], value["tolerance"], value["fails"])


# Building and running them


def manifest(folder: Path, root: Path, ids: Sequence[str]) -> str:
    """The manifest of one package with a program for each reproduction.

    It has the dependencies of the project's workspace, all of them, and its profile: with others,
    cargo would choose other features for what they share, and build burn once more.
    """
    ours = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    workspace = ours["workspace"]
    dependencies = {k: v for k, v in workspace["dependencies"].items() if not _is_path(v)}
    for member in cargo.members(root):
        text = (member / "Cargo.toml").read_text(encoding="utf-8")
        own = tomllib.loads(text).get("dependencies", {})
        dependencies |= {
            k: v
            for k, v in own.items()
            if not _is_path(v) and not (isinstance(v, dict) and v.get("workspace"))
        }
    edition = workspace["package"]["edition"]
    lines = ["[package]", f'name = "{PACKAGE}"', 'version = "0.1.0"', f'edition = "{edition}"']
    lines += ["publish = false", "autobins = false", "", "[workspace]", "", "[dependencies]"]
    lines += [f"{name} = {_toml(value)}" for name, value in sorted(dependencies.items())]
    lines += ["", "[profile.release]"]
    lines += [f"{name} = {_toml(value)}" for name, value in ours["profile"]["release"].items()]
    # Quick to build; burn itself is as the project has it.
    lines += ["", f"[profile.release.package.{PACKAGE}]", "opt-level = 0", "debug = false"]
    for name in ids:
        lines += [
            "",
            "[[bin]]",
            f'name = "{program_name(folder, name)}"',
            f'path = "{name}/main.rs"',
        ]
    return "\n".join(lines) + "\n"


def program_name(folder: Path, name: str) -> str:
    """Of the program of a finding. Nothing else in the project's folder of programs has it: it says
    which scope it is of.
    """
    return f"{folder.absolute().parent.name}-{name}"


def _is_path(value: Any) -> bool:
    return isinstance(value, dict) and "path" in value


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def build(folder: Path, root: Path, target: Path, ids: Sequence[str]) -> None:
    """Build all Rust programs of ``folder`` by one call of cargo, with the project's own burn.

    Raises:
        PitbError: One does not compile, or cargo is not there.
    """
    write_text(folder / "Cargo.toml", manifest(folder, root, ids))
    write_text(folder / "Cargo.lock", (root / "Cargo.lock").read_text(encoding="utf-8"))
    build_generated(folder, target, "a reproduction")


def run(command: Sequence[str]) -> Ran:
    """Run a program."""
    try:
        ended = subprocess.run(
            list(command),
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=LIMIT,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
    except subprocess.TimeoutExpired:
        return Ran("", 1, f"takes longer than {LIMIT} s")
    lines = [text for text in ended.stderr.splitlines() if text.strip()]
    return Ran(ended.stdout, ended.returncode, _last_words(lines))


def _last_words(lines: Sequence[str]) -> str:
    """What a panic or an exception says."""
    panics = [i for i, text in enumerate(lines) if "panicked at" in text]
    if panics:
        words = " ".join(lines[panics[0] + 1 :]).partition("note: run with")[0]
        return " ".join(words.split())[:300]
    return lines[-1] if lines else ""


def run_all(folder: Path, target: Path, ids: Sequence[str]) -> dict[str, dict[str, Ran]]:
    """Run both programs of every reproduction, and quote them in ``<id>/output.txt``."""
    scripts = run_scripts([folder / name / FILES["pytorch"] for name in ids])
    results = {}
    for name, script in zip(ids, scripts, strict=True):
        program = run([str(target / "release" / program_name(folder, name))])
        results[name] = {"pytorch": script, "burn": program}
        quoted = "\n".join(f"{FILES[side]}\n{ran.shown}" for side, ran in results[name].items())
        write_text(folder / name / "output.txt", quoted)
    return results


_RUN_SCRIPTS = """
import contextlib, io, json, runpy, sys
for path in sys.argv[1:]:
    output, error = io.StringIO(), ""
    with contextlib.redirect_stdout(output):
        try:
            runpy.run_path(path, run_name="__main__")
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
    print(json.dumps([output.getvalue(), error]), flush=True)
"""


def run_scripts(paths: Sequence[Path]) -> list[Ran]:
    """Run Python scripts, each as a main module, in one process: importing PyTorch takes seconds.

    Raises:
        PitbError: The process ended before all of them did.
    """
    ended = run([sys.executable, "-c", _RUN_SCRIPTS, *map(str, paths)])
    found = [json.loads(text) for text in ended.output.splitlines()]
    if ended.code or len(found) != len(paths):
        raise PitbError(f"the scripts of the reproductions end early: {ended.error}")
    return [Ran(output, int(bool(error)), error) for output, error in found]


def reproduce(folder: Path, root: Path, target: Path) -> dict[str, dict[str, str]]:
    """Build, run and check everything that `write` wrote.

    Returns:
        By finding and side what is printed.

    Raises:
        PitbError: A program does not compile or run, or does not show what its finding says.
    """
    expected = {k: _from_plain(v) for k, v in read_json(folder / EXPECTED).items()}
    build(folder, root, target, [*expected, ALIGNED])
    aligned = run([str(target / "release" / program_name(folder, ALIGNED))])
    if aligned.code:
        raise PitbError(f"the aligned defaults cannot be had: {aligned.error}")
    results = run_all(folder, target, list(expected))
    wrong = [
        f"{name}: {text}" for name in expected for text in check(expected[name], results[name])
    ]
    if wrong:
        raise PitbError(f"{len(wrong)} reproductions do not show it: {' | '.join(wrong)}")
    return {name: {side: ran.shown for side, ran in by.items()} for name, by in results.items()}


# Checking them


def parse(output: str) -> Prediction:
    """The lines ``step 1 fc.bias: 0.5 nan`` of a program."""
    found = {}
    for text in output.splitlines():
        match = re.fullmatch(r"step (\d+ \S+): (.*)", text)
        if match:
            found[match[1]] = [float(x) for x in match[2].split()]
    return found


OWN_FAULT = re.compile(r"(ModuleNotFound|Import|Syntax|Indentation|Name)Error")
"""What is no failure of a library's."""


def check(expected: Expected, ran: Mapping[str, Ran]) -> list[str]:
    """What is wrong with what two programs printed; nothing where they show their finding."""
    wrong = []
    for side in SIDES:
        should_fail = expected.fails == side
        if should_fail != (ran[side].code != 0):
            said = ran[side].error or "nothing"
            wrong.append(f"{FILES[side]} {'must fail' if should_fail else f'fails: {said}'}")
        elif should_fail and OWN_FAULT.search(ran[side].error or ""):
            wrong.append(f"{FILES[side]} fails by its own fault: {ran[side].error}")
    if expected.fails or wrong:
        return wrong
    printed = {side: parse(ran[side].output) for side in SIDES}
    for side in SIDES:
        predicted = getattr(expected, side)
        if predicted.keys() != printed[side].keys():
            wrong.append(f"{FILES[side]} prints other tensors or steps than it should")
            continue
        for key, values in predicted.items():
            off = distance(values, printed[side][key])
            if not off <= expected.tolerance[side]:
                wrong.append(f"{FILES[side]} is {off:.1e} from what is predicted of {key}")
    if not wrong and not apart(printed["pytorch"], printed["burn"], expected.tolerance["apart"]):
        wrong.append("both programs agree")
    return wrong


def apart(a: Prediction, b: Prediction, tolerance: float) -> bool:
    """Whether two programs' numbers differ beyond rounding."""
    return any(distance(a[key], b[key]) > tolerance for key in a.keys() & b.keys())


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """The largest difference, over the largest finite magnitude; infinite where only one of two
    numbers is finite.
    """
    x, y = np.array(a), np.array(b)
    if x.shape != y.shape:
        return math.inf
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(all="ignore"):
        off = np.where(same, 0.0, np.abs(x - y))
    off = np.where(np.isfinite(off), off, np.inf)
    finite = np.concatenate([x[np.isfinite(x)], y[np.isfinite(y)]])
    scale = float(np.abs(finite).max(initial=0.0))
    largest = float(off.max(initial=0.0))
    if largest == 0:
        return 0.0
    return largest / scale if scale else math.inf
