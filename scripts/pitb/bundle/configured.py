"""Whether each trace is of the run that the configuration says, and starts where it must."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pitb import a1, compare, libraries
from pitb.bundle.contents import RESULTS
from pitb.bundle.inside import read_json
from pitb.bundle.report import Report
from pitb.config import Config, Run
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.registry import by_burn_name
from pitb.results import trace_path
from pitb.trace import Trace

ADDED = ("frozen", "groups", "accumulate", "scheduler", "resume_step")
"""What a run can say beside its optimizer, and its trace repeats as it is."""
MOST_ULPS = 1
"""Between initial values: a sine may be rounded otherwise by another system's library."""


def check(
    folder: Path,
    config: Config,
    versions: Mapping[str, str],
    traces: Mapping[str, Trace],
    report: Report,
) -> None:
    """Hold each trace's metadata against the configuration and both sides' recorded defaults.

    Args:
        folder: The unpacked bundle.
        config: Its configuration.
        versions: Of the libraries, as the bundle says.
        traces: By run.
        report: What is wrong is added to it.
    """
    defaults = {}
    for side, library in (("pytorch", "torch"), ("burn", "burn")):
        name = f"{RESULTS}/evidence/defaults/{side}.json"
        defaults[side] = _defaults(folder, name, report)
        if versions.get(library) == libraries.recorded()["versions"][library]:
            _check_defaults(name, side, defaults[side], report)
        else:
            report.taken(name, f"this pitb knows no defaults of {library} {versions.get(library)}")
    for run in config.runs:
        if run.id in traces:
            name = f"{RESULTS}/{trace_path(run.id)}"
            for sentence in faults(run, traces[run.id], defaults, config.threads):
                report.fault(name, sentence)
            report.checked["configurations"] += 1


def _defaults(folder: Path, name: str, report: Report) -> dict[str, Any]:
    if not (folder / name).is_file():
        report.taken("defaults that a run leaves alone", f"{name} is not in the bundle")
        return {}
    found: dict[str, Any] = read_json(folder, name)
    return found


def _check_defaults(name: str, side: str, found: Mapping[str, Any], report: Report) -> None:
    """The defaults are those that this package has recorded of the same version."""
    recorded = libraries.recorded()[side]
    report.checked["evidence files"] += 1
    for key, value in found.items():
        known = recorded.get(key)
        expected = known["defaults"] if side == "pytorch" and known is not None else known
        if value != expected:
            report.fault(name, f"{key} has not the defaults that are known of its library")


def faults(
    run: Run, found: Trace, defaults: Mapping[str, Mapping[str, Any]], threads: int
) -> list[str]:
    """What of a trace is not as its run says, in a sentence each."""
    metadata = found.metadata
    configuration = metadata.get("configuration")
    model = metadata.get("model")
    if not isinstance(configuration, dict) or not isinstance(model, dict):
        return ["its metadata has no configuration or no model"]
    spec = run.spec
    expected = {
        "run": run.id,
        "side": run.side,
        "dtype": spec.get("dtype", "float32"),
        **({"threads": threads} if run.side == "pytorch" else {}),
    }
    sentences = [
        f"its metadata says {key} {metadata.get(key)!r}, but the configuration {value!r}"
        for key, value in expected.items()
        if metadata.get(key) != value
    ]
    wanted = {
        "optimizer": spec["optimizer"],
        **({"lr": spec["lr"]} if "lr" in spec else {}),
        "steps": spec["steps"],
        "clip": spec.get("clip"),
        "initial_state": spec.get("initial_state", "float64"),
        **{key: spec[key] for key in ADDED if spec.get(key)},
    }
    for key, value in wanted.items():
        if not _same(configuration.get(key), value):
            sentences.append(
                f"its metadata says {key} {configuration.get(key)!r}, but the configuration "
                f"{value!r}"
            )
    if model.get("name") != spec.get("problem", a1.NAME):
        sentences.append(f"its metadata says problem {model.get('name')!r}")
    sentences += _option_faults(run, configuration.get("options"), defaults)
    if found.error is None:
        last = max((entry.step for entry in found.entries if entry.quantity == "param"), default=0)
        if last != spec["steps"]:
            sentences.append(f"it holds {last} updates, but the configuration asks {spec['steps']}")
    return sentences + _start_faults(run, found)


def _option_faults(run: Run, options: Any, defaults: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not isinstance(options, dict):
        return ["its metadata has no options"]
    expected = _expected(run, defaults.get(run.side, {}))
    sentences = []
    for key, value in expected.items():
        if key not in options:
            sentences.append(f"its metadata has no option {key}")
        elif not _same(options[key], value):
            sentences.append(
                f"its metadata says {key} {options[key]!r}, but the configuration gives {value!r}"
            )
    return sentences


def _expected(run: Run, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Every option with the value that the run has it at, as far as the defaults are recorded."""
    given = run.spec["options"]
    if run.side == "pytorch":
        found = dict(defaults.get(run.spec["optimizer"], {}))
        found.pop("lr", None)
        return {**found, **given}
    try:
        name = by_burn_name(run.spec["optimizer"]).burn_config
    except PitbError:
        name = ""
    found = dict(defaults.get(name, {}).get("fields", {}))
    for key, value in given.items():
        own = found.get(key)
        if key == "momentum" and isinstance(value, dict):
            own = own or defaults.get("MomentumConfig", {}).get("fields", {})
        found[key] = (
            {**own, **value} if isinstance(own, dict) and isinstance(value, dict) else value
        )
    return found


def _same(a: Any, b: Any) -> bool:
    """Whether two values of options are one: numbers as float32, as most of burn's fields are."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        with np.errstate(over="ignore"):
            return bool(a == b or np.float32(a) == np.float32(b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    return type(a) is type(b) and bool(a == b)


def _start_faults(run: Run, found: Trace) -> list[str]:
    """Whether a trace starts from its problem's values, which are computed by formula."""
    if run.spec.get("initial_state", "float64") != "float64" or run.spec.get("resume"):
        return []
    try:
        given = problem(run.spec.get("problem", a1.NAME))
    except PitbError as error:
        return [str(error)]
    sentences = []
    for quantity, values in (("input", given.inputs), ("param", given.parameters)):
        for entry in found.select(0, quantity):
            if entry.tensor not in values:
                continue
            expected = np.asarray(values[entry.tensor], dtype=np.float64).reshape(-1)
            if len(expected) != entry.count:
                sentences.append(f"it starts from {entry.where} of another size")
                continue
            apart = compare.ulps(found.of(entry), expected, "float32")
            if len(apart) and apart.max() > MOST_ULPS:
                i = int(apart.argmax())
                sentences.append(
                    f"it starts from {entry.tensor}[{i}] {float(found.of(entry)[i])!r}, but the "
                    f"problem from {float(expected[i])!r}"
                )
    return sentences
