"""Training burn's side with another version: by the project's programs, or by the probes."""

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from pitb.watch.calls import call
from pitb.watch.changes import NOT_COMPILED, NOT_RUN, NOT_TRIED, Why
from pitb.watch.probe_runs import Refused
from pitb.watch.workspace import DIALECTS, Workspace, config_program, libraries_of, train_program

Spec = dict[str, Any]
Missing = dict[str, Why]
"""By the id of a run, why it was not trained."""
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
    unprinted: Mapping[str, Why] = field(default_factory=dict)
    """By configuration why there are none, of those that no probe prints."""

    def has(self, program: str) -> bool:
        """Whether one of the project's programs was made."""
        return program in self.programs.made

    def reason(self, program: str) -> str:
        """Why it was not."""
        return self.programs.reason(program, libraries_of(program))

    def probe(self, optimizer: str) -> Path:
        """The probe that trains with an optimizer, by burn's name.

        Raises:
            PitbError: None was made; says what the compiler said.
        """
        entry = by_burn_name(optimizer)
        if entry.burn_config in self.unprinted:
            raise PitbError(self.unprinted[entry.burn_config][1])
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
        config = by_burn_name(optimizer).burn_config
        try:
            program = self.probe(optimizer)
        except PitbError as error:
            status, _ = self.unprinted.get(config, (NOT_COMPILED, ""))
            return {spec["id"]: (status, str(error)) for spec in specs}
        missing: Missing = {}
        asked, requests = {}, []
        for spec in specs:
            try:
                asked[spec["id"]] = probe_runs.options(self.defaults, spec, config)
                requests.append(probe_runs.request(spec, asked[spec["id"]]))
            except Refused as error:
                missing[spec["id"]] = (NOT_RUN, str(error))
            except PitbError as error:
                missing[spec["id"]] = (NOT_TRIED, str(error))
        answers, failed = _answers(program, requests)
        missing |= failed
        for spec in specs:
            name = spec["id"]
            if name in missing:
                continue
            try:
                version = self.workspace.version
                found = probe_runs.as_trace(spec, asked[name], answers[name], version)
            except Refused as error:
                missing[name] = (NOT_RUN, str(error))
            else:
                trace.write(found, traces / f"{name}.parquet")
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


def _answers(program: Path, requests: Sequence[Spec]) -> tuple[dict[str, Spec], Missing]:
    """What a probe answers to runs, one by one where it fails at them together; and what not."""
    if not requests:
        return {}, {}
    try:
        return probe_runs.run(program, requests), {}
    except Refused as error:
        if len(requests) == 1:
            return {}, {requests[0]["id"]: (NOT_RUN, str(error))}
    answers: dict[str, Spec] = {}
    missing: Missing = {}
    for item in requests:
        answer, failed = _answers(program, [item])
        answers |= answer
        missing |= failed
    return answers, missing


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
            missing[spec["id"]] = (NOT_RUN, said)
    return missing


def _call(program: Path, specs: Sequence[Spec], problems: Mapping[str, Any], traces: Path) -> str:
    """Call a program; what it complains of, empty where it does not."""
    for spec in specs:
        (traces / f"{spec['id']}.parquet").unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs.json"
        write_json(runs, {"problems": problems, "runs": list(specs)}, indent=None)
        ended = call([program.resolve(), "--runs", runs, "--traces", traces], LIMIT)
    if ended.code == 0:
        return ""
    lines = ended.complained.strip().splitlines()
    return (
        lines[-1].removeprefix("error: ")
        if lines
        else f"{program.name} ended with code {ended.code}"
    )
