"""What goes wrong while versions are watched: what the machine has done, and what a version has."""

import argparse
import json
import os
import tomllib
from pathlib import Path

import pytest

from pitb import batches, libraries
from pitb.cargo import PROGRAMS
from pitb.errors import PitbError
from pitb.registry import by_burn_name
from pitb.watch import (
    building,
    burn,
    calls,
    changes,
    defaults,
    equations,
    folders,
    planning,
    probe_runs,
    pytorch,
    training,
    watching,
    workspace,
)
from pitb.watch.building import Built
from pitb.watch.changes import NOT_COMPILED, NOT_RUN, NOT_TRIED, Facts
from pitb.watch.training import Trainers
from pitb.watch.versions import Wanted
from pitb.watch.workspace import Workspace
from watching import FEATURES, config_programs, executable, fake_cargo, project_programs

pytestmark = pytest.mark.pipeline

VERSION = Wanted("burn", "9.9.9")
BURN = libraries.recorded()["burn"]


@pytest.fixture
def setup(root, tmp_path):
    if not (root / "results/tables/one-step/figures.csv").exists():
        pytest.fail("the results are not made; run make first")
    return watching.prepare(root, root / "results", tmp_path / "watch", [], 0, 0.0)


def program(path, text):
    """A program in Python."""
    path.parent.mkdir(parents=True, exist_ok=True)
    executable(path, text)
    return path


# Builds


def error(target, message, code=None, place="", package="path+file:///w"):
    """cargo's message on an error of the compiler or of the linker."""
    spans = [{"file_name": place, "line_start": 3, "is_primary": True}] if place else []
    said = {"level": "error", "message": message, "spans": spans}
    said["code"] = {"code": code} if code else None
    target = {"name": target, "kind": ["bin"]}
    return {
        "reason": "compiler-message",
        "package_id": package,
        "target": target,
        "message": said,
    }


TRANSIENT = {
    "network": ([], "error: failed to download from the registry", "failed to download"),
    "killed": ([], "error: could not compile `optdef` (signal: 9, SIGKILL: kill)", "SIGKILL"),
    "linker": ([error("optdef", "linker `cc` not found")], "error: failed", "linker `cc`"),
    "disk": (
        [error("optdef", "failed to write x.rlib: No space left on device")],
        "error: failed",
        "No space left",
    ),
    "another crate": (
        [error("burn_core", "no", "E0599", "/r/lib.rs", "registry+https://r")],
        "error: failed",
        "E0599: no",
    ),
    "damaged crate": (
        [error("optdef", "found invalid metadata", "E0786", "crates/pitb-opt/src/bin/optdef.rs")],
        "error: failed",
        "E0786",
    ),
}


def build(setup, monkeypatch, folder, **plan):
    fake_cargo(folder / "bin", {"burn@9.9.9": FEATURES}, **plan)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    made = workspace.make(setup.root, setup.folder(VERSION) / "workspace", VERSION.version)
    return burn._build(setup, VERSION, made, "programs", ["optdef", "clip"], "key")


@pytest.mark.parametrize("what", TRANSIENT)
def test_a_build_that_fails_for_no_error_of_ours_is_not_kept(setup, monkeypatch, tmp_path, what):
    messages, broken, sentence = TRANSIENT[what]
    with pytest.raises(PitbError, match="cargo did not make optdef and 1 more") as caught:
        build(setup, monkeypatch, tmp_path, programs={}, messages=messages, broken=broken)
    assert sentence in str(caught.value)
    assert not list(setup.folder(VERSION).glob("built-*.json"))
    # Once the machine is mended, the same key is built.
    names = project_programs(setup.root)
    for name in ("optdef", "clip"):
        names[name] = program(tmp_path / name, "")
    made = {name: names[name] for name in ("optdef", "clip")}
    assert build(setup, monkeypatch, tmp_path, programs=made).made == ["optdef", "clip"]


def test_a_build_that_lost_one_program_without_a_word_is_not_kept_either(
    setup, monkeypatch, tmp_path
):
    made = {"clip": program(tmp_path / "clip", "")}
    with pytest.raises(PitbError, match="cargo did not make optdef, and no error"):
        build(setup, monkeypatch, tmp_path, programs=made)
    assert not list(setup.folder(VERSION).glob("built-*.json"))


def test_what_the_compiler_refuses_of_our_code_is_kept(setup, monkeypatch, tmp_path):
    said = error("pitb_core", "no method", "E0599", "crates/pitb-core/src/run.rs")
    found = build(setup, monkeypatch, tmp_path, programs={}, messages=[said])
    assert found.made == []
    assert found.errors == {"pitb-core": "E0599: no method (pitb-core/src/run.rs:3)"}
    kept = list(setup.folder(VERSION).glob("built-*.json"))
    assert len(kept) == 1
    # What is cleaned away takes with it what says how its build ended.
    folders.clean(setup.out, [VERSION])
    assert not list(setup.folder(VERSION).glob("built-*.json"))


def test_an_error_of_a_library_excuses_only_the_programs_that_need_it(tmp_path):
    said = error("train_one", "no", "E0599", "crates/train-one/src/lib.rs")
    found = building.read_messages([said])
    building._check(found, ["moves", "discard"], "", tmp_path)
    with pytest.raises(PitbError, match="did not make optdef,"):
        building._check(found, ["moves", "optdef"], "", tmp_path)


@pytest.mark.parametrize("library", ["burn", "torch"])
def test_cleaning_leaves_nothing_that_says_that_it_is_made(tmp_path, library):
    version = Wanted(library, "1.0.0")
    folder = folders.of(tmp_path, version)
    folder.mkdir()
    for name in ("built-programs.json", "built-probes.json", "installed.json", "items.json"):
        folders.once(folder / name, "key", dict)
    (folder / folders.FACTS).write_text("{}")
    folders.clean(tmp_path, [version])
    assert [path.name for path in folder.iterdir()] == [folders.FACTS]


# Calls

ENDS = {
    "killed": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "full": ("import sys; sys.exit('error: x: No space left on device')", "No space left"),
    "memory": ("raise MemoryError", "MemoryError"),
    "child": (
        "import subprocess, sys\n"
        "kill = 'import os; os.kill(os.getpid(), 9)'\n"
        "subprocess.run([sys.executable, '-c', kill], check=True)",
        "died with <Signals.SIGKILL: 9>",
    ),
    "linker": (
        "import sys; sys.exit('error: must_use did not compile: linking with `cc` failed: 1')",
        "linking with `cc` failed",
    ),
    "not there": (None, "cannot be started: No such file"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("caller", ["program", "probe", "script", "configuration"])
def test_what_the_machine_ends_is_an_error_and_no_outcome(tmp_path, end, caller):
    text, sentence = ENDS[end]
    place = Workspace(tmp_path / "w", "9.9.9", (), "Flex", "f")
    path = place.program(workspace.config_program("SgdConfig"))
    if text is not None:
        program(path, text)
    one = [{"id": "burn/x"}]
    call = {
        "program": lambda: training.by_program(path, one, {}, tmp_path),
        "probe": lambda: training._answers(path, one),
        "script": lambda: planning.call_script(["script.py"], path),
        "configuration": lambda: burn.print_defaults(place, Built([path.name])),
    }
    with pytest.raises(PitbError, match="watch it again") as caught:
        call[caller]()
    assert sentence in str(caught.value)
    assert not isinstance(caught.value, probe_runs.Refused)


def test_a_program_that_ends_itself_is_an_outcome(tmp_path):
    path = program(tmp_path / "p", "import sys; print('out'); sys.exit('no such option')")
    assert calls.call([path]) == calls.Ended(1, "out\n", "no such option\n")
    slow = program(tmp_path / "slow", "import time; time.sleep(30)")
    assert calls.call([slow], 0.2).complained == "slow takes longer than 0.2 s"


@pytest.mark.parametrize("end", ["killed", "not executable"])
def test_a_torch_whose_script_is_ended_is_not_judged(setup, monkeypatch, tmp_path, end):
    version = Wanted("torch", "9.9.9")

    def install(environment, version):
        python = program(pytorch.python_of(environment), ENDS["killed"][0])
        python.chmod(0o755 if end == "killed" else 0o644)
        return 1.0

    monkeypatch.setattr(pytorch, "install_into", install)
    monkeypatch.setattr(pytorch.folders, "check_room", lambda *arguments: None)
    monkeypatch.setattr(pytorch, "make_plan", lambda *arguments: {"cases": {}})
    failed = watching.watch_all(setup, [version])
    assert len(failed) == 1
    assert {"killed": "SIGKILL", "not executable": "cannot be started"}[end] in failed[0]
    assert not (setup.folder(version) / "items.json").exists()
    assert not (setup.folder(version) / folders.FACTS).exists()


# --config


def test_the_configuration_is_the_one_that_the_scripts_read(root, setup, monkeypatch, tmp_path):
    monkeypatch.setenv(batches.OVERRIDES, '{"threads": 7}')
    other = watching.prepare(root, setup.base, setup.out, [], 0, 0.0)
    assert (setup.config.threads, other.config.threads) == (1, 7)
    arguments = argparse.Namespace(
        batch="pytorch-0",
        config=other.config_files,
        schema=root / "config/schema.json",
        digest=batches.digest_of(batches.pytorch_batches(other.config)["pytorch-0"]),
    )
    assert batches.read(arguments)["threads"] == 7
    assert other.judged_by("key") != setup.judged_by("key")


def test_the_list_of_versions_alone_makes_nothing_be_judged_again(root, setup, monkeypatch):
    monkeypatch.setenv(batches.OVERRIDES, '{"watch": {"burn": ["0.21.0"]}}')
    other = watching.prepare(root, setup.base, setup.out, [], 0, 0.0)
    assert other.config.watch != setup.config.watch
    assert other.judged_by("key") == setup.judged_by("key")


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_overrides_that_are_none_are_a_sentence(monkeypatch, text):
    monkeypatch.setenv(batches.OVERRIDES, text)
    with pytest.raises(PitbError, match="PITB_CONFIG_OVERRIDES must be keys and values"):
        batches.overrides()


# What was tried and failed

SAYS_NO = """
import json, sys
path = sys.argv[2] if sys.argv[1] == "--runs" else sys.argv[1]
runs = json.load(open(path))["runs"]
if any(run["id"] in {refused!r} for run in runs):
    sys.exit("thread 'main' panicked\\nrejected")
answers = [{{"id": run["id"], **{answer!r}}} for run in runs]
if sys.argv[1] != "--runs":
    json.dump({{"runs": answers}}, open(sys.argv[2], "w"))
"""


def spec(name, **more):
    return {"id": name, "optimizer": "Sgd", "options": {}, "lr": 0.1, "steps": 2} | more


def answer():
    """What a probe answers that leaves A1's parameters where they are."""
    request = probe_runs.request(spec("x"), {})
    layers = [[layer["weight"], layer["bias"]] for layer in request["layers"]]
    seen = {"logits": [0.0] * 12, "loss": [1.5], "grads": layers, "params": layers}
    options = probe_runs.options(BURN, spec("x"), "SgdConfig")
    return {"error": None, "steps": [options, seen, seen], "last": [1.5]}


@pytest.mark.parametrize("by", ["program", "probe"])
def test_a_run_that_is_refused_does_not_run_and_the_others_do(tmp_path, by):
    place = Workspace(tmp_path / "w", "9.9.9", (), "Flex", "f")
    probe = workspace.train_program(by_burn_name("Sgd"), "device")
    made = {"program": Built(["optdef"]), "probe": Built()}[by]
    trainers = Trainers(place, made, Built([probe]), BURN)
    name = "optdef" if by == "program" else probe
    text = SAYS_NO.format(refused=["burn/b", "burn/d"], answer=answer())
    program(place.program(name), text)
    specs = [spec(f"burn/{letter}") for letter in "abcd"]
    missing = trainers.train("optdef", specs, {}, tmp_path / "traces")
    assert {run: status for run, (status, _) in missing.items()} == dict.fromkeys(
        ("burn/b", "burn/d"), NOT_RUN
    )
    assert all("rejected" in reason for _, reason in missing.values())
    if by == "probe":
        there = {path.name for path in tmp_path.glob("traces/burn/*")}
        assert there == {"a.parquet", "c.parquet"}


def test_what_no_probe_knows_is_not_tried_and_what_the_version_lacks_does_not_run(tmp_path):
    place = Workspace(tmp_path / "w", "9.9.9", (), "Flex", "f")
    probe = workspace.train_program(by_burn_name("Sgd"), "device")
    dropped = {**answer(), "steps": [{"momentum": 1}]}
    program(place.program(probe), SAYS_NO.format(refused=[], answer=dropped))
    specs = [
        spec("burn/unknown", problem="tied"),
        spec("burn/lacking", options={"no_such": 1}),
        spec("burn/dropped"),
    ]
    trainers = Trainers(place, Built(), Built([probe]), BURN)
    missing = trainers.train("optdef", specs, {}, tmp_path / "traces")
    assert {run.partition("/")[2]: status for run, (status, _) in missing.items()} == {
        "unknown": NOT_TRIED,
        "lacking": NOT_RUN,
        "dropped": NOT_RUN,
    }


def test_a_probe_that_compiles_and_prints_nothing_does_not_run(tmp_path):
    place = Workspace(tmp_path / "w", "9.9.9", (), "Flex", "f")
    good = config_programs(tmp_path / "good")
    for name, path in good.items():
        program(place.program(name), path.with_name(f"{path.name}.py").read_text())
    program(place.program("config-sgd"), "import sys; sys.exit('thread panicked: no backend')")
    program(place.program("config-adam"), "print('no JSON')")
    built = Built([name for name in good if name != "config-lion"], {"config-lion": "E0432: gone"})
    printed, unprinted = burn.print_defaults(place, built)
    assert {config: status for config, (status, _) in unprinted.items()} == {
        "SgdConfig": NOT_RUN,
        "AdamConfig": NOT_RUN,
        "LionConfig": NOT_COMPILED,
    }
    found = Facts("burn", "9.9.9", "", tuple(defaults.burn_items(printed, unprinted, "x")))
    told = {row.item.partition(".")[0]: (row.outcome, row.then) for row in changes.rows(found)}
    assert told["SgdConfig"][0] == told["AdamConfig"][0] == "does not run"
    assert told["SgdConfig"][1].endswith("thread panicked: no backend")
    assert told["LionConfig"] == ("does not compile", "E0432: gone")
    # The same is the reason for runs with that optimizer.
    trainers = Trainers(place, built, Built(), printed, unprinted)
    missing = trainers.train("optdef", [spec("burn/x")], {}, tmp_path)
    assert missing == {"burn/x": unprinted["SgdConfig"]}


def test_evidence_whose_script_fails_does_not_run(setup, monkeypatch, tmp_path):
    monkeypatch.setattr(burn, "call_script", lambda command: "x.py: it panicked")
    place = Workspace(tmp_path / "w", "9.9.9", (), "Flex", "f")
    missing = {}
    burn._evidence(setup, Trainers(place, Built(list(PROGRAMS)), Built(), BURN), tmp_path, missing)
    assert len(missing) == 4
    assert set(missing.values()) == {(NOT_RUN, "x.py: it panicked")}


def test_a_case_that_torch_refuses_does_not_run(monkeypatch, tmp_path):
    """And one that the project's own version cannot do, either, has nothing to compare."""
    chosen = {"pytorch": {"SGD": {"rate": ["a"], "decay": ["b"], "tied": ["b", "a"]}}}
    monkeypatch.setattr(equations, "recorded", lambda: chosen)
    cases = {"a": {"pytorch": {}}, "b": {"pytorch": {equations.IMPOSSIBLE: "PyTorch has none"}}}
    (tmp_path / "plan.json").write_text(json.dumps({"cases": cases}))
    (tmp_path / "refused.json").write_text('{"a": "no such option"}')
    monkeypatch.setattr(equations, "value_of", lambda *arguments: "v")
    items = pytorch._equations(Wanted("torch", "9.9.9"), tmp_path, "")
    assert {item.item: (item.status, item.then) for item in items} == {
        "SGD rate": (NOT_RUN, "no such option"),
        "SGD decay": (NOT_TRIED, "PyTorch has none"),
        "SGD tied": (NOT_RUN, "no such option"),
    }
    items = pytorch._equations(Wanted("torch", "9.9.9"), tmp_path, "x.py: it failed")
    assert items[0].status == NOT_RUN


# One list


def test_the_programs_are_listed_once_and_as_the_manifests_have_them(root):
    folders_ = [root / "scripts", root / "rules", root / "tests"]
    texts = [path for folder in folders_ for path in folder.rglob("*.py")]
    texts += [root / "Snakefile", *(root / "rules").glob("*.smk")]
    lists = [p for p in texts if '"train-step", "optdef"' in p.read_text(encoding="utf-8")]
    assert {path.relative_to(root).as_posix() for path in lists} <= {
        "scripts/pitb/cargo.py",
        Path(__file__).relative_to(root).as_posix(),
    }
    needs, of = {}, {}
    for path in sorted(root.glob("crates/*/Cargo.toml")):
        manifest = tomllib.loads(path.read_text(encoding="utf-8"))
        name = manifest["package"]["name"]
        own = [name] if (path.parent / "src/lib.rs").is_file() else []
        needs[name] = own, [item for item in manifest["dependencies"] if item.startswith("pitb-")]
        of |= {it["name"]: name for it in manifest.get("bin", ()) if "required-features" not in it}
    assert set(of) == set(PROGRAMS)

    def libraries_of(package):
        own, rest = needs[package]
        return {*own, *(name for item in rest for name in libraries_of(item))}

    for name, package in of.items():
        assert set(workspace.libraries_of(name)) == libraries_of(package), name
