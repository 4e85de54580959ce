"""The Cargo workspace of one version of burn: the project's crates, and probes for what fails."""

import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from pitb import cargo, libraries
from pitb.cargo import PROGRAMS
from pitb.errors import PitbError
from pitb.files import read_text, write_text
from pitb.registry import Optimizer, optimizers
from pitb.watch.versions import Say, burn_features, say

PROBES = "probes"
"""The package of the probes."""
BACKENDS = {"flex": "Flex", "ndarray": "NdArray"}
"""Features with a processor's backend, the first that a version has counts, and its type."""
LIBRARIES = ("pitb-record", "pitb-core")
"""What the project's programs are built from, in this order; some need more."""
MORE_LIBRARIES = {"moves": ("train-one",), "discard": ("train-one",)}
DIALECTS = ("device", "backend")
"""How burn is written: its types know their device, or name a backend, as up to 0.21."""
_BURN = re.compile(r'^(burn[\w-]*) = \{ version = "=([^"]+)"(.*)\}$', re.MULTILINE)
_FEATURES = re.compile(r"features = \[([^\]]*)\]")


@dataclass(frozen=True)
class Workspace:
    """A workspace that was written."""

    folder: Path
    version: str
    lacking: tuple[str, ...]
    """What that version does not have, in words: features, and crates that go with it."""
    backend: str
    """The type of its backend, for the probes of the older dialect."""
    fingerprint: str
    """Changes when anything does that is built."""

    @property
    def target(self) -> Path:
        """Where it is built; no other version is built there."""
        return self.folder.parent / "target"

    def program(self, name: str) -> Path:
        """A built program."""
        return self.target / "release" / name


def current(root: Path) -> str:
    """The version of burn that the project itself is built with."""
    packages = tomllib.loads(read_text(root / "Cargo.lock"))["package"]
    return str(next(item["version"] for item in packages if item["name"] == "burn"))


def make(root: Path, folder: Path, version: str, run: Say = say) -> Workspace:
    """Write the workspace of a version into ``folder``; what is there already stays as it is.

    Raises:
        PitbError: The registry has no such version or is not reached, or it lacks a backend.
    """
    known = _registry(folder, version, run)
    features = set(known["features"])
    backend = next((name for name in BACKENDS if name in features), None)
    if backend is None:
        raise PitbError(f"burn {version} has none of the features {', '.join(BACKENDS)}")
    lacking: dict[str, None] = {}

    def replaced(match: re.Match[str]) -> str:
        name, _, rest = match.groups()
        if name != "burn" and not _has_crate(folder, name, version, run):
            lacking[f"there is no {name} {version}"] = None
            return f"# there is no {name} {version}"
        if name == "burn":
            rest = _FEATURES.sub(lambda found: _kept(found, features, backend, lacking), rest)
        return f'{name} = {{ version = "={version}"{rest}}}'

    digest = hashlib.sha256()
    for source, text in _texts(root):
        path = source.relative_to(root)
        if source.name == "Cargo.toml":
            text = _BURN.sub(replaced, text)
        if source == root / "Cargo.toml":
            # Quick to build: what they train is small.
            text += f"\n[profile.release.package.{PROBES}]\nopt-level = 0\n"
        digest.update(f"{path.as_posix()}\0{text}\0".encode())
        _write(folder / path, text)
    for name, text in probes(backend):
        digest.update(f"{name}\0{text}\0".encode())
        _write(folder / "crates" / PROBES / name, text)
    if not (folder / "Cargo.lock").exists():
        # All but burn stays at the project's versions.
        shutil.copyfile(root / "Cargo.lock", folder / "Cargo.lock")
    return Workspace(folder, version, tuple(lacking), BACKENDS[backend], digest.hexdigest()[:16])


def _kept(found: re.Match[str], features: set[str], backend: str, lacking: dict[str, None]) -> str:
    asked = re.findall(r'"([^"]+)"', found[1])
    for name in asked:
        if name not in features:
            lacking[f"burn has no feature {name}"] = None
    names = list(dict.fromkeys([*(name for name in asked if name in features), backend]))
    return f"features = {json.dumps(names)}"


def _registry(folder: Path, version: str, run: Say) -> dict[str, list[str]]:
    """What the registry says of a version, asked once."""
    path = folder / "registry.json"
    if not path.exists():
        found = {"features": sorted(burn_features(version, run)), "crates": []}
        write_text(path, json.dumps(found))
    known: dict[str, list[str]] = json.loads(read_text(path))
    return known


def _has_crate(folder: Path, name: str, version: str, run: Say) -> bool:
    path = folder / "registry.json"
    known = json.loads(read_text(path))
    if f"{name}:yes" not in known["crates"] and f"{name}:no" not in known["crates"]:
        code, text = run(["cargo", "info", "--quiet", f"{name}@{version}"])
        if code != 0 and "could not find" not in text:
            raise PitbError(f"cargo cannot say whether there is a {name} {version}: {text.strip()}")
        known["crates"].append(f"{name}:{'yes' if code == 0 else 'no'}")
        write_text(path, json.dumps(known))
    return f"{name}:yes" in known["crates"]


def _texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Every source that a build of the programs reads, sorted."""
    wanted = [root / "Cargo.toml", root / "scripts/pitb/optimizers.json"]
    for member in cargo.members(root):
        for pattern in ("Cargo.toml", "build.rs", "src/**/*.rs"):
            wanted += member.glob(pattern)
    for path in sorted(wanted):
        yield path, read_text(path)


def _write(path: Path, text: str) -> None:
    # cargo goes by the time of a file.
    if not path.is_file() or read_text(path) != text:
        write_text(path, text)


# The probes


@dataclass(frozen=True)
class Probe:
    """A configuration that a probe prints."""

    key: str
    config: str
    path: str
    """Below ``burn::optim``."""


def libraries_of(program: str) -> tuple[str, ...]:
    """The libraries of ours that a program needs, in the order in which they are built."""
    if program not in PROGRAMS:
        return ()  # a probe
    return (*LIBRARIES, *MORE_LIBRARIES.get(program, ()))


@cache
def config_probes() -> tuple[Probe, ...]:
    """One for every configuration whose defaults are recorded."""
    paths = {"MomentumConfig": "momentum::MomentumConfig"}
    names = libraries.recorded()["burn"]
    return tuple(Probe(_key(name), name, paths.get(name, name)) for name in names)


def _key(config: str) -> str:
    return config.removesuffix("Config").lower()


def config_program(config: str) -> str:
    """The name of the probe that prints a configuration."""
    return f"config-{_key(config)}"


def train_program(optimizer: Optimizer, dialect: str) -> str:
    """The name of the probe that trains with an optimizer."""
    return f"train-{optimizer.key}-{dialect}"


def probes(backend: str) -> Iterator[tuple[str, str]]:
    """The files of the package of the probes: each its name and its text."""
    yield "Cargo.toml", _MANIFEST
    yield "src/lib.rs", "//! Nothing: each probe is a program.\n"
    yield "src/shared.rs", _template("probe-shared.rs")
    for probe in config_probes():
        text = _template("probe-config.rs")
        text = text.replace("@PATH@", probe.path).replace("@CONFIG@", probe.config)
        yield f"src/bin/{config_program(probe.config)}.rs", text
    for optimizer in optimizers():
        for dialect in DIALECTS:
            name = train_program(optimizer, dialect)
            yield f"src/bin/{name}.rs", train_probe(optimizer, dialect, BACKENDS[backend])


def train_probe(optimizer: Optimizer, dialect: str, backend: str) -> str:
    """The program that trains with an optimizer."""
    whole = optimizer.pytorch == "LBFGS"
    device = ", &device" if dialect == "device" else ""
    model = "Model" if dialect == "device" else "Model<Own>"
    words = {
        "CONFIG": optimizer.burn_config,
        "BACKEND": backend,
        "TYPES": "::<Own>" if whole else "::<Own, Model<Own>>",
        "STEP": (_CLOSURE if whole else _STEP).format(device=device, model=model).strip(),
    }
    text = _template("probe-device.rs" if dialect == "device" else "probe-backend.rs")
    return re.sub(r"@([A-Z]+)@", lambda match: words[match[1]], text)


_STEP = """
        let (grads, told) = gradients(run, step, &model{device});
        seen.clone_from(&told);
        model = optimizer.step(lr, model, grads);
"""
_CLOSURE = """
        let mut first = None;
        let (next, _) = optimizer.step(lr, model, |model: {model}| {{
            let (grads, told) = gradients(run, step, &model{device});
            let loss = numbers(&told["loss"])[0];
            // One step evaluates often; the first is what it starts from.
            first.get_or_insert(told);
            (loss, grads)
        }});
        seen = first.unwrap_or_else(|| json!({{}}));
        model = next;
"""
_MANIFEST = """[package]
name = "probes"
version.workspace = true
edition.workspace = true
license.workspace = true
publish.workspace = true

[dependencies]
burn.workspace = true
serde.workspace = true
serde_json.workspace = true
"""


@cache
def _template(name: str) -> str:
    return resources.files("pitb.watch").joinpath(name).read_text(encoding="utf-8")


def as_json(workspace: Workspace) -> dict[str, object]:
    """What of a workspace is worth keeping."""
    found = asdict(workspace)
    return {name: found[name] for name in ("version", "lacking", "backend", "fingerprint")}
