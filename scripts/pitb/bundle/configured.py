"""Whether each trace is of the run that the configuration says, and starts where it must."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pitb import a1, compare, libraries
from pitb.bundle.contents import DESCRIPTION, RESULTS
from pitb.bundle.inside import read_json
from pitb.bundle.report import Report
from pitb.config import Config, Run
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.registry import by_burn_name, published_optimizers
from pitb.results import trace_path
from pitb.trace import Entry, Trace

Array = NDArray[np.float64]

DEFAULTS: Mapping[str, Any] = {
    "lr": None,
    "steps": None,
    "clip": None,
    "initial_state": "float64",
    "frozen": [],
    "groups": [],
    "accumulate": 1,
    "scheduler": None,
    "rates": [],
    "clipping_by": None,
    "resume_step": 0,
}
"""What a run can say beside its optimizer and its options, and what it means where it does not. Its
trace repeats it, or leaves out what is the default."""
MOST_ULPS = 1
"""Between initial values: a sine may be rounded otherwise by another system's library."""
MOST_F32 = 1e-6
"""Between initial values that were computed in float32 throughout and the problem's, absolutely."""
FOLLOWING = ("max_eval", "max_lr_snapshot")
"""Options that libraries take from another one where they are not set."""
OWN_VERSIONS = ("pitb", "target")
"""What a trace's versions name that is no library."""


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
    defaults: dict[str, dict[str, Any]] = {}
    for side, library in LIBRARIES.items():
        name = f"{RESULTS}/evidence/defaults/{side}.json"
        found = _defaults(folder, name, side, report)
        if is_known(side, versions):
            if (folder / name).is_file():
                _check_defaults(name, side, found, report)
            # Of what the pages do not name, nothing is recorded with the results.
            found = {**_recorded(side), **found}
        else:
            report.taken(name, f"this pitb knows no defaults of {library} {versions.get(library)}")
        defaults[side] = found
    for run in config.runs:
        if run.id in traces:
            name = f"{RESULTS}/{trace_path(run.id)}"
            found_faults = faults(run, traces[run.id], defaults, config.threads)
            for sentence in [*found_faults, *_version_faults(run, traces[run.id], versions)]:
                report.fault(name, sentence)
            report.checked["configurations"] += 1


LIBRARIES = {"pytorch": "torch", "burn": "burn"}
"""What each side runs."""


def is_known(side: str, versions: Mapping[str, str]) -> bool:
    """Whether this package has recorded the version of a side's library that a bundle names."""
    library = LIBRARIES[side]
    return bool(versions.get(library) == libraries.recorded()["versions"][library])


def _recorded(side: str) -> dict[str, Any]:
    """The defaults that this package has recorded, in the form that the evidence has."""
    found = libraries.recorded()[side]
    return {key: value["defaults"] if side == "pytorch" else value for key, value in found.items()}


def _defaults(folder: Path, name: str, side: str, report: Report) -> dict[str, Any]:
    if not (folder / name).is_file():
        report.taken("defaults that a run leaves alone", f"{name} is not in the bundle")
        return {}
    found: dict[str, Any] = read_json(folder, name)
    for key, value in list(found.items()):
        fields = value.get("fields") if side == "burn" and isinstance(value, dict) else value
        if not isinstance(fields, dict):
            report.fault(name, f"{key} has no defaults by name")
            del found[key]
    return found


def _check_defaults(name: str, side: str, found: Mapping[str, Any], report: Report) -> None:
    """The defaults are those that this package has recorded of the version, and all."""
    recorded = _recorded(side)
    report.checked["evidence files"] += 1
    published = [entry.pytorch for entry in published_optimizers()]
    for key in sorted({*found, *(published if side == "pytorch" else recorded)}):
        if key not in found:
            report.fault(name, f"it lacks the defaults of {key}")
        elif key not in recorded:
            report.fault(name, f"its library is not known to have a {key}")
        elif found[key] != recorded[key]:
            report.fault(name, f"{key} has not the defaults that are known of its library")


def _version_faults(run: Run, found: Trace, versions: Mapping[str, str]) -> list[str]:
    """Whether a trace's versions are the bundle's; the library is one of them."""
    own = found.metadata.get("versions")
    if not isinstance(own, dict) or LIBRARIES[run.side] not in own:
        return [f"its metadata does not say the version of {LIBRARIES[run.side]}"]
    return [
        f"its metadata says {name} {value!r}, but {DESCRIPTION} {versions.get(name)!r}"
        for name, value in own.items()
        if name not in OWN_VERSIONS and value not in versions.get(name, "").split(", ")
    ]


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
    if configuration.get("optimizer") != spec["optimizer"]:
        sentences.append(
            f"its metadata says optimizer {configuration.get('optimizer')!r}, but the "
            f"configuration {spec['optimizer']!r}"
        )
    for key, default in DEFAULTS.items():
        have, wanted = (from_.get(key) or default for from_ in (configuration, spec))
        if not _same(have, wanted):
            sentences.append(
                f"its metadata says {key} {configuration.get(key)!r}, but the configuration "
                f"{wanted!r}"
            )
    sentences += [
        f"its configuration has the key {key!r}, which no run has"
        for key in configuration
        if key not in ("optimizer", "options", *DEFAULTS)
    ]
    if model.get("name") != spec.get("problem", a1.NAME):
        sentences.append(f"its metadata says problem {model.get('name')!r}")
    sentences += _option_faults(run, configuration.get("options"), defaults)
    if found.error is None:
        last = max((entry.step for entry in found.entries if entry.quantity == "param"), default=0)
        if last != spec["steps"]:
            sentences.append(f"it holds {last} updates, but the configuration asks {spec['steps']}")
    return sentences + _rate_faults(run, found) + _start_faults(run, found)


def _rate_faults(run: Run, found: Trace) -> list[str]:
    """Without a schedule, and without groups of rates of their own, every rate is the run's."""
    if run.spec.get("scheduler") or run.spec.get("groups") or run.spec.get("rates"):
        return []
    lr = run.spec.get("lr")
    for entry in found.entries:
        if entry.quantity != "lr":
            continue
        for value in found.of(entry):
            if not _same(float(value), lr):
                return [f"{entry.where} is {float(value)!r}, but the configuration gives {lr!r}"]
    return []


def _option_faults(run: Run, options: Any, defaults: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not isinstance(options, dict):
        return ["its metadata has no options"]
    expected, is_whole = _expected(run, defaults.get(run.side, {}))
    sentences = [
        f"its metadata has the option {key!r}, which {run.spec['optimizer']} has not"
        for key in options
        if is_whole and key not in expected
    ]
    for key, value in expected.items():
        if key in FOLLOWING and key not in run.spec["options"]:
            continue
        if key not in options:
            sentences.append(f"its metadata has no option {key}")
        elif not _same(options[key], value):
            sentences.append(
                f"its metadata says {key} {options[key]!r}, but the configuration gives {value!r}"
            )
    return sentences


def _expected(run: Run, defaults: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The options with the values that the run has them at, and whether they are all that it has.

    They are where the optimizer's defaults are recorded.
    """
    given = run.spec["options"]
    if run.side == "pytorch":
        found = dict(defaults.get(run.spec["optimizer"], {}))
        is_whole = bool(found)
        found.pop("lr", None)
        return {**found, **given}, is_whole
    try:
        name = by_burn_name(run.spec["optimizer"]).burn_config
    except PitbError:
        name = ""
    found = dict(defaults.get(name, {}).get("fields", {}))
    is_whole = bool(found)
    for key, value in given.items():
        own = found.get(key)
        if key == "momentum" and isinstance(value, dict):
            own = own or defaults.get("MomentumConfig", {}).get("fields", {})
        found[key] = (
            {**own, **value} if isinstance(own, dict) and isinstance(value, dict) else value
        )
    return found, is_whole


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
    if run.spec.get("resume"):
        return []
    try:
        given = problem(run.spec.get("problem", a1.NAME))
    except PitbError as error:
        return [str(error)]
    seconds = [second for second, _ in given.tied]
    is_exact = run.spec.get("initial_state", "float64") == "float64"
    sentences = []
    for quantity, values in (("input", given.inputs), ("param", given.parameters)):
        entries = {entry.tensor: entry for entry in found.select(0, quantity)}
        for tensor in sorted({*values, *entries}):
            if tensor not in entries:
                sentences.append(f"it lacks the {quantity} {tensor} of step 0")
            elif tensor in values:
                expected = np.asarray(values[tensor], dtype=np.float64).reshape(-1)
                sentences += _apart(found, entries[tensor], expected, is_exact)
            elif quantity == "input" or tensor not in seconds:
                sentences.append(f"it starts from {tensor}, which {given.name} has not")
    return sentences


def _apart(found: Trace, entry: Entry, expected: Array, is_exact: bool) -> list[str]:
    """Where an initial value is not the problem's, but for its rounding."""
    values = found.of(entry)
    if len(expected) != entry.count:
        return [f"it starts from {entry.where} of another size"]
    apart = compare.ulps(values, expected, "float32") if is_exact else np.abs(values - expected)
    within = (apart <= (MOST_ULPS if is_exact else MOST_F32)) | (values == expected)
    within |= np.isnan(values) & np.isnan(expected)
    if within.all():
        return []
    i = int(np.argmin(within))
    return [
        f"it starts from {entry.tensor}[{i}] {float(values[i])!r}, but the problem from "
        f"{float(expected[i])!r}"
    ]
