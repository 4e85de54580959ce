"""Watching one version of burn: build it, then compare defaults, equations and figures."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from pitb import batches
from pitb.cargo import PROGRAMS
from pitb.errors import PitbError
from pitb.files import write_json
from pitb.registry import optimizers
from pitb.results import evidence_path, trace_path
from pitb.watch import defaults, equations, figures, folders, workspace
from pitb.watch.building import Built, build
from pitb.watch.calls import call
from pitb.watch.changes import NOT_COMPILED, NOT_RUN, PROGRAM, UNCHANGED, Facts, Item, Why
from pitb.watch.figures import COMPILED
from pitb.watch.planning import call_script, check_version, make_plan
from pitb.watch.setup import Setup, from_plain
from pitb.watch.training import Trainers
from pitb.watch.versions import Wanted, say
from pitb.watch.workspace import DIALECTS, Workspace, config_probes, config_program, train_program

LIMIT = 60
"""Seconds that a program may take to print a configuration."""


def watch(setup: Setup, version: Wanted) -> Facts:
    """Build a version, and find what it changes; what was made before is not made again.

    Raises:
        PitbError: The version cannot be had, or there is no room for it.
    """
    folder = setup.folder(version)
    setup.say(f"{version.name}: its workspace is {folder / 'workspace'}")
    made = workspace.make(setup.root, folder / "workspace", version.version)
    # What an earlier version of our own code kept had other fields, and other meanings.
    kept = [field.name for field in fields(Built)]
    key = folders.digest([], made.fingerprint, _compiler(), *kept)
    programs = _build(setup, version, made, "programs", _first_programs(), key)
    probes = Built()
    if not all(name in programs.made for name in PROGRAMS):
        probes = _build(setup, version, made, "probes", _train_programs(), key)
    printed, unprinted = print_defaults(made, programs)
    trainers = Trainers(made, programs, probes, printed, unprinted)
    write_json(folder / "defaults.json", printed)

    def judged() -> list[dict[str, str]]:
        found = [_program(trainers, name) for name in PROGRAMS]
        evidence = f"{version.folder}/defaults.json"
        found += defaults.burn_items(printed, unprinted, evidence)
        setup.say(f"{version.name}: training the cases that touch every equation")
        found += _equations(setup, version, trainers)
        setup.say(f"{version.name}: computing the published figures")
        found += _figures(setup, version, trainers)
        return [asdict(item) for item in found]

    outcomes = [json.dumps([it.made, it.errors], sort_keys=True) for it in (programs, probes)]
    items = folders.once(folder / "items.json", setup.judged_by(key, *outcomes), judged)
    seconds = programs.seconds + probes.seconds
    notes = list(made.lacking)
    if not trainers.has("optdef"):
        notes.append(
            "the programs do not compile; probes stand in for them, which record no states"
        )
    return Facts(
        "burn",
        version.version,
        f"burn {workspace.current(setup.root)}",
        tuple(from_plain(items)),
        tuple(notes),
        seconds,
        folders.size(folder) / 1e6,
    )


def _compiler() -> str:
    code, text = say(["rustc", "--version"])
    if code != 0:
        raise PitbError(f"rustc does not run: {text.strip()}")
    return text.strip()


def _first_programs() -> list[str]:
    return [*PROGRAMS, *(config_program(probe.config) for probe in config_probes())]


def _train_programs() -> list[str]:
    return [train_program(entry, how) for entry in optimizers() for how in DIALECTS]


def _build(
    setup: Setup, version: Wanted, made: Workspace, what: str, names: list[str], key: str
) -> Built:
    """Build programs unless that was done; a build that was killed goes on."""
    folder = setup.folder(version)
    path = folder / f"built-{what}.json"

    def work() -> dict[str, Any]:
        folders.check_room(folder, version, setup.keep_free)
        setup.say(f"{version.name}: building the {what} (minutes, where burn is not built yet)")
        found = build(made, names, setup.jobs, folder / "logs" / f"{what}.log")
        missing = len(set(names) - set(found.made))
        setup.say(f"{version.name}: {len(found.made)} built, {missing} not, {found.seconds:.0f} s")
        return asdict(found)

    found = Built(**folders.once(path, key, work))
    if any(not made.program(name).is_file() for name in found.made):
        path.unlink()  # --clean has taken them
        found = Built(**folders.once(path, key, work))
    return found


def _program(trainers: Trainers, name: str) -> Item:
    if trainers.has(name):
        return Item(PROGRAM, name, UNCHANGED, "compiles", "compiles")
    return Item(PROGRAM, name, NOT_COMPILED, "compiles", trainers.reason(name))


def print_defaults(made: Workspace, built: Built) -> tuple[dict[str, Any], dict[str, Why]]:
    """By configuration what its probe prints, or status and reason where it prints nothing.

    Raises:
        PitbError: A probe cannot be started, or the machine ended it.
    """
    found: dict[str, Any] = {}
    missing: dict[str, Why] = {}
    for probe in config_probes():
        name = config_program(probe.config)
        if name not in built.made:
            missing[probe.config] = (NOT_COMPILED, built.reason(name, ()))
            continue
        ended = call([made.program(name).resolve()], LIMIT)
        try:
            value = json.loads(ended.printed)
        except json.JSONDecodeError:
            value = None
        if ended.code == 0 and isinstance(value, dict):
            found[probe.config] = value
        else:
            lines = (ended.complained.strip() or ended.printed.strip() or "it says nothing").split(
                "\n"
            )
            said = f"{name} ended with code {ended.code}: {lines[-1].strip()[:200]}"
            missing[probe.config] = (NOT_RUN, said)
    return found, missing


# Equations


def _equations(setup: Setup, version: Wanted, trainers: Trainers) -> list[Item]:
    traces = folders.fresh(setup.folder(version) / "equations")
    wanted = make_plan("burn", trainers.defaults)
    missing = trainers.train_plan(wanted, traces)
    check_version(traces, version)
    return equations.items("burn", wanted, traces, missing, f"{version.folder}/equations")


# Figures


def _figures(setup: Setup, version: Wanted, trainers: Trainers) -> list[Item]:
    config = setup.config
    results = folders.fresh(setup.folder(version) / "results")
    figures.take_over(setup.base, results, figures.other_side(config, "burn"))
    missing: dict[str, Why] = {}
    for program in config.programs("burn"):
        for batch in batches.burn_batches(config, program).values():
            problems = batch.get("problems", {})
            lost = trainers.train(program, batch["runs"], problems, results / "traces")
            for run, why in lost.items():
                path = trace_path(run)
                (results / path).unlink(missing_ok=True)
                # What a probe does not know, the program that does not compile would have done.
                if not trainers.has(program) and why[0] != NOT_RUN:
                    why = (NOT_COMPILED, trainers.reason(program))
                missing[path] = why
    write_json(results / evidence_path("defaults/burn"), trainers.defaults)
    _evidence(setup, trainers, results, missing)
    return figures.compute(setup, version, results, missing)


def _evidence(setup: Setup, trainers: Trainers, results: Path, missing: dict[str, Why]) -> None:
    """What the pages show that is no trace."""
    scripts, made = setup.root / "scripts", trainers.workspace
    calls = {
        "moves": (
            ("moves/burn",),
            [scripts / "record_moves.py", "--program", made.program("moves"), "--out"],
        ),
        "discard": (
            COMPILED,
            [scripts / "probe_compiler.py", "--root", made.folder, "--target-dir", made.target],
        ),
    }
    for program, (names, command) in calls.items():
        paths = [evidence_path(name) for name in names]
        for path in paths:
            (results / path).unlink(missing_ok=True)
        if not trainers.has(program):
            missing |= {path: (NOT_COMPILED, trainers.reason(program)) for path in paths}
            continue
        if program == "moves":
            command = [*command, results / paths[0]]
        else:
            for name, path in zip(names, paths, strict=True):
                command = [*command, f"--{name}", results / path]
        said = call_script(command)
        if said:
            missing |= {path: (NOT_RUN, said) for path in paths if not (results / path).is_file()}
