"""What may be compared: a trace, a run of the configuration, a file of one run, or a line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pitb import config, strict_yaml
from pitb.errors import PitbError, nearest
from pitb.explain.configurations import KEYS, SIDES, Configuration, configuration
from pitb.explain.members import Spec
from pitb.files import read_json
from pitb.results import trace_path
from pitb.stream.opening import open_trace
from pitb.trace import Trace

CONFIG = Path("config/config.yaml")
SCHEMA = "schema.json"
_RUN = re.compile(r"(pytorch|burn)/[a-z0-9]+(-[a-z0-9]+)*")
_INLINE = re.compile(r"([A-Za-z]+):([A-Za-z]\w*)(?=\s|$)")
_PAIR = re.compile(r"([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
VERSION = "version of "
KEPT = ("id", "observe", "save", "resume", "sources", "definition")
"""What a configuration says of how a run is kept, not of what it trains."""
_LOOP_KEYS = tuple(key for key in KEYS if key not in ("side", "optimizer", "options"))


@dataclass(frozen=True)
class Source:
    """One side of an explanation."""

    label: str
    spec: Spec
    """What it says of itself."""
    where: str
    """What a message about it begins with."""
    trace: Trace | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)
    """What a trace's configuration says beyond `KEYS`, and what it was trained with."""

    def configured(self, overrides: Mapping[str, Any]) -> Configuration:
        """Its configuration, with what the command line sets.

        Raises:
            PitbError: It says what is not known.
        """
        return configuration({**self.spec, **overrides}, self.label, self.where)


def read(text: str, configs: Sequence[Path] = (CONFIG,), results: Path = Path("results")) -> Source:
    """What ``text`` names.

    Args:
        text: A path, the id of a run, ``pytorch/rmsprop``, or a run in a line,
            ``pytorch:RMSprop lr=0.01 momentum=0.9``.
        configs: The configuration files in which a run's id is looked up.
        results: The folder in which the trace of such a run is looked for.

    Raises:
        PitbError: It is none of these, or cannot be read.
    """
    path = Path(text)
    inline = _INLINE.match(text)
    if inline is not None and not _exists(path):
        return _inline(text, inline)
    if path.suffix in (".json", ".yaml", ".yml") and not path.is_dir():
        return _file(path)
    if path.suffix == ".parquet" or _exists(path):
        return of_trace(open_trace(path))
    if _RUN.fullmatch(text):
        return _configured(text, configs, results)
    side = text.partition("/")[0].partition(":")[0]
    hint = f" (nearest side: {nearest(side, SIDES)})" if side not in SIDES else ""
    raise PitbError(
        f"{text!r} is no file, no run such as pytorch/rmsprop, and no run in a line such as "
        f"'pytorch:RMSprop lr=0.01'{hint}"
    )


def _exists(path: Path) -> bool:
    """Whether there is such a file; a line of many options may be longer than any name."""
    try:
        return path.exists()
    except OSError:
        return False


def of_trace(found: Trace) -> Source:
    """A trace as a source.

    Raises:
        PitbError: It carries no configuration.
    """
    where = found.path or found.run
    side = found.metadata.get("side") or found.run.partition("/")[0]
    if not isinstance(found.metadata.get("configuration"), Mapping):
        raise PitbError(f"{where} carries no configuration: its metadata lacks the key")
    if side not in SIDES:
        raise PitbError(
            f"{where} is of side {side!r}; only a library's trace can be explained: "
            f"{', '.join(SIDES)}"
        )
    spec = {key: value for key, value in found.configuration.items() if key in KEYS}
    spec["side"] = side
    spec["dtype"] = found.metadata.get("dtype") or "float32"
    model = found.metadata.get("model") or {}
    spec["problem"] = spec.get("problem") or model.get("name") or "unnamed"
    steps = [entry.step for entry in found.entries if entry.quantity == "param"]
    if not steps:
        raise PitbError(f"{where} records no parameter")
    spec.setdefault("steps", max(steps))
    rates = [
        float(found.of(entry)[0])
        for entry in found.entries
        if entry.quantity == "lr" and entry.step > 0 and entry.count == 1
    ]
    if rates and (spec.get("lr") is None or any(rate != spec["lr"] for rate in rates)):
        # A run that ended early has fewer; the last one holds.
        missing = max(int(spec["steps"]) - len(rates), 0)
        spec["rates"] = rates + rates[-1:] * missing
        if spec.get("lr") is None:
            spec["lr"] = rates[0]
    spec.pop("scheduler", None)
    rest = {k: v for k, v in found.configuration.items() if k not in (*KEYS, *KEPT)}
    versions = found.metadata.get("versions") or {}
    rest |= {f"{VERSION}{name}": version for name, version in versions.items()}
    rest |= {k: found.metadata[k] for k in ("threads", "device") if k in found.metadata}
    return Source(found.run, spec, where, found, rest)


def _configured(text: str, configs: Sequence[Path], results: Path) -> Source:
    schema = configs[0].parent / SCHEMA
    if not schema.is_file():
        schema = Path(__file__).resolve().parents[3] / "config" / SCHEMA
    found = config.load(list(configs), schema)
    known = {run.id: run for run in found.runs}
    if text not in known:
        where = ", ".join(map(str, configs))
        raise PitbError(f"{where} has no run {text!r}; nearest: {nearest(text, known)!r}")
    run = known[text]
    spec = {key: value for key, value in run.spec.items() if key != "id"}
    source = Source(text, {"side": run.side, **spec}, run.sources.get("options", text))
    path = results / trace_path(text)
    if not path.is_file():
        return source
    recorded = of_trace(open_trace(path))
    if not _same_run(source.configured({}), recorded.configured({})):
        return source  # which was trained of another configuration
    return Source(source.label, source.spec, source.where, recorded.trace, recorded.rest)


def _same_run(a: Configuration, b: Configuration) -> bool:
    """Whether two configurations are one, whatever they are called."""
    mine, other = ({**vars(side), "label": "", "member": None} for side in (a, b))
    members = [{**vars(side.member), "how": None} for side in (a, b)]
    return mine == other and members[0] == members[1]


def _file(path: Path) -> Source:
    if path.suffix == ".json":
        value, where = read_json(path), str(path)
    else:
        value = strict_yaml.load(path).value
        where = str(path)
    if not isinstance(value, Mapping):
        raise PitbError(f"{where}: not a run: it must hold keys and values")
    if "runs" in value:
        raise PitbError(
            f"{where} is a configuration of many runs; name one of them, and give the file with "
            "--config"
        )
    spec = dict(value)
    label = str(spec.pop("id", None) or spec.pop("name", None) or path.stem)
    if "side" not in spec and "/" in label:
        spec["side"] = label.partition("/")[0]
    return Source(label, spec, where)


def _inline(text: str, match: re.Match[str]) -> Source:
    """``side:Optimizer key=value ...``; a key of the run, or else an option; dots reach within."""
    side, optimizer = match[1], match[2]
    if side not in SIDES:
        raise PitbError(f"{text!r}: side {side!r} is not known; nearest: {nearest(side, SIDES)!r}")
    spec: dict[str, Any] = {"side": side, "optimizer": optimizer, "options": {}}
    for part in _parts(text[match.end() :]):
        pair = _PAIR.fullmatch(part)
        if pair is None:
            raise PitbError(f"{text!r}: {part!r} is not of the form key=value")
        *outer, last = pair[1].split(".")
        top = outer[0] if outer else last
        into = spec if top in _LOOP_KEYS else spec["options"]
        for name in outer:
            into = into.setdefault(name, {})
            if not isinstance(into, dict):
                raise PitbError(f"{text!r}: {name} is set to a value and to a table")
        if last in into:
            raise PitbError(f"{text!r}: {pair[1]} is given twice")
        into[last] = _value(pair[2], text, pair[1])
    return Source(text, spec, repr(text))


def _parts(text: str) -> list[str]:
    """The words of a line, split at blanks that stand in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        if character.isspace() and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part]


def _value(text: str, line: str, key: str) -> Any:
    # In YAML a bracketed {Norm: 0.1} needs the blank that {Norm:0.1} lacks.
    spaced = re.sub(r":(?=\S)", ": ", text) if text.startswith("{") else text
    try:
        return strict_yaml.parse(spaced).value if text[:1] in "[{\"'" else strict_yaml.scalar(text)
    except ValueError as error:
        raise PitbError(f"{line!r}: {key}: {error}") from None
    except PitbError:
        raise PitbError(f"{line!r}: {key} is {text!r}, which is no value") from None
