"""Training burn's side with another version: by the project's programs, or by the probes."""

import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitb import trace
from pitb.breadth import phases
from pitb.breadth.phases import IMPOSSIBLE
from pitb.errors import PitbError
from pitb.files import write_json
from pitb.registry import by_burn_name
from pitb.watch import probe_runs
from pitb.watch.building import Built
from pitb.watch.changes import FAILED, NOT_TRIED
from pitb.watch.workspace import DIALECTS, Workspace, config_program, train_program

Spec = dict[str, Any]
Missing = dict[str, tuple[str, str]]
"""By the id of a run, status and reason of what was not trained."""
LIBRARIES = ("pitb-record", "pitb-core", "train-one")
"""What the programs are built from, in this order."""
LIMIT = 600
"""Seconds that a program may take for a batch."""


@dataclass(frozen=True)
class Trainers:
    """What a version can be trained with."""

    workspace: Workspace
    programs: Built
    """The project's programs and the probes of configurations."""
    probes: Built
    """The probes that train; built only where a program is missing."""
    defaults: Mapping[str, Any]
    """By configuration ``debug`` and ``fields``."""

    def has(self, program: str) -> bool:
        """Whether one of the project's programs was made."""
        return program in self.programs.made

    def reason(self, program: str) -> str:
        """Why it was not."""
        return self.programs.reason(program, LIBRARIES)

    def probe(self, optimizer: str) -> Path:
        """The probe that trains with an optimizer, by burn's name.

        Raises:
            PitbError: None was made; says what the compiler said.
        """
        entry = by_burn_name(optimizer)
        if entry.burn_config not in self.defaults:
            raise PitbError(self.programs.reason(config_program(entry.burn_config), ()))
        names = [train_program(entry, dialect) for dialect in DIALECTS]
        for name in names:
            if name in self.probes.made:
                return self.workspace.program(name)
        each = zip(DIALECTS, names, strict=True)
        raise PitbError("; ".join(f"{how}: {self.probes.reason(name, ())}" for how, name in each))

    def train(
        self, program: str, specs: Sequence[Spec], problems: Mapping[str, Any], traces: Path
    ) -> Missing:
        """Train runs into ``traces``: by ``program`` where it was made, else by the probes."""
        if self.has(program):
            return by_program(self.workspace.program(program), specs, problems, traces)
        missing: Missing = {}
        for optimizer in dict.fromkeys(str(spec["optimizer"]) for spec in specs):
            mine = [spec for spec in specs if spec["optimizer"] == optimizer]
            missing |= self._by_probe(optimizer, mine, traces)
        return missing

    def _by_probe(self, optimizer: str, specs: Sequence[Spec], traces: Path) -> Missing:
        try:
            program = self.probe(optimizer)
        except PitbError as error:
            return {spec["id"]: (FAILED, str(error)) for spec in specs}
        config = by_burn_name(optimizer).burn_config
        missing: Missing = {}
        asked, requests = {}, []
        for spec in specs:
            try:
                asked[spec["id"]] = probe_runs.options(self.defaults, spec, config)
                requests.append(probe_runs.request(spec, asked[spec["id"]]))
            except PitbError as error:
                missing[spec["id"]] = (NOT_TRIED, str(error))
        try:
            answers = probe_runs.run(program, requests) if requests else {}
        except PitbError as error:
            return missing | {item["id"]: (FAILED, str(error)) for item in requests}
        for spec in specs:
            name = spec["id"]
            if name in missing:
                continue
            try:
                version = self.workspace.version
                found = probe_runs.as_trace(spec, asked[name], answers[name], version)
                trace.write(found, traces / f"{name}.parquet")
            except PitbError as error:
                missing[name] = (NOT_TRIED, str(error))
        return missing

    def train_plan(self, plan: Mapping[str, Any], traces: Path) -> Missing:
        """Train burn's side of a plan, optimizer by optimizer; gives by case what was not."""
        missing: Missing = {}
        with tempfile.TemporaryDirectory() as folder:
            for optimizer, part in _parts(plan).items():
                batches = phases.phases(part, "burn", Path(folder) / optimizer)
                for specs in batches if self.has("optdef") else [_whole(part)]:
                    missing |= self.train("optdef", specs, part["problems"], traces)
        found: Missing = {}
        for name, why in missing.items():
            found[name.partition("/")[2].removesuffix("_first")] = why
        return found


def _parts(plan: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """A plan by optimizer."""
    found: dict[str, dict[str, Any]] = {}
    for name, entry in plan["cases"].items():
        part = found.setdefault(entry["case"]["optimizer"], {**plan, "cases": {}})
        part["cases"][name] = entry
    return found


def _whole(part: Mapping[str, Any]) -> list[Spec]:
    """The runs of a plan as no probe can do them in two processes: with a word that it cannot."""
    specs = []
    for entry in part["cases"].values():
        if IMPOSSIBLE not in entry["burn"]:
            resumed = {"resume": "yes"} if entry["case"]["resume_step"] else {}
            specs.append({**entry["burn"], **resumed})
    return specs


def by_program(
    program: Path, specs: Iterable[Spec], problems: Mapping[str, Any], traces: Path
) -> Missing:
    """Train runs by one of the project's programs; alone, where it refuses them together."""
    specs = list(specs)
    if not specs or _call(program, specs, problems, traces) == "":
        return {}
    missing: Missing = {}
    for spec in specs:
        said = _call(program, [spec], problems, traces)
        if said:
            missing[spec["id"]] = (NOT_TRIED, said)
    return missing


def _call(program: Path, specs: Sequence[Spec], problems: Mapping[str, Any], traces: Path) -> str:
    """Call a program; what it complains of, empty where it does not."""
    for spec in specs:
        (traces / f"{spec['id']}.parquet").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs.json"
        write_json(runs, {"problems": problems, "runs": list(specs)}, indent=None)
        command: list[Path | str] = [program.resolve(), "--runs", runs, "--traces", traces]
        try:
            ended = subprocess.run(
                command, capture_output=True, encoding="utf-8", timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{program.name} takes longer than {LIMIT} s"
        except OSError as error:
            raise PitbError(f"{program} does not run: {error.strerror}") from None
    if ended.returncode == 0:
        return ""
    lines = ended.stderr.strip().splitlines()
    return lines[-1] if lines else f"{program.name} ended with code {ended.returncode}"
