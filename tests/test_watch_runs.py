"""Other versions from end to end: with a cargo that builds nothing, and mistakes put in."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from pitb import cli, libraries, trace
from pitb.breadth import reproductions, runs
from pitb.breadth.phases import IMPOSSIBLE
from pitb.cargo import build_generated
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.reference.training import train
from pitb.registry import by_pytorch_name
from pitb.watch import (
    cases,
    changes,
    equations,
    figures,
    planning,
    probe_runs,
    pytorch,
    watching,
    workspace,
)
from pitb.watch.changes import CHANGED, NOT_COMPILED, NOT_TRIED, UNCHANGED
from pitb.watch.planning import make_plan
from pitb.watch.versions import Wanted
from watching import FEATURES, config_programs, fake_cargo, project_programs

pytestmark = [pytest.mark.pipeline, pytest.mark.torch]

FEW = {
    "SGD": None,
    "Adam": ("decay", "epsilon", "precision of eps"),
    "LBFGS": ("flat_gradient", "lbfgs.prev_loss"),
}
"""Optimizers and those of their choices that are tried; None for all."""
OWN = libraries.recorded()["versions"]["burn"]


@pytest.fixture(autouse=True, scope="module")
def few():
    """Only some of the cases, so that the tests stay short."""
    everything = cases.recorded()
    chosen = {
        side: {
            name: {c: of for c, of in optimizers[name].items() if wanted is None or c in wanted}
            for name, wanted in FEW.items()
        }
        for side, optimizers in everything.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        for module in (cases, equations):
            patch.setattr(module, "recorded", lambda: chosen)
        yield chosen


# Equations: mistakes put in


@pytest.fixture(scope="module")
def plan(few):
    return make_plan("burn", {})


def by_reference(plan, folder, change, spoil=None):
    """Traces of a 'library' that is the reference, its equations changed."""
    for name, entry in plan["cases"].items():
        if IMPOSSIBLE in entry["burn"]:
            continue
        case = runs.case_of(entry)
        eq = change(case.optimizer, runs.described(entry, "burn"))
        run = runs.reference_run(entry, "burn", eq)
        found = train(run)
        found.metadata["run"] = f"burn/{name}"
        if spoil is not None:
            spoil(case, found)
        trace.write(found, folder / "burn" / f"{name}.parquet")


def statuses(items, optimizer):
    mine = [item for item in items if item.item.startswith(f"{optimizer} ")]
    return {item.item.partition(" ")[2]: item for item in mine if item.status != UNCHANGED}


def test_the_reference_itself_is_unchanged(plan, tmp_path):
    by_reference(plan, tmp_path, lambda name, eq: eq)
    items = equations.items("burn", plan, tmp_path, {}, "e")
    assert {item.status for item in items} == {UNCHANGED}
    assert len(items) == sum(len(choices) for choices in cases.recorded()["burn"].values())


@pytest.mark.parametrize(
    ("optimizer", "choice", "value"),
    [
        ("SGD", "first_momentum", "dampened"),
        ("SGD", "nesterov", "ignored"),
        ("Adam", "epsilon", "inside"),
        ("Adam", "decay", "decoupled"),
        ("Adam", "precision of eps", "float64"),
        ("LBFGS", "flat_gradient", "zeros"),
    ],
)
def test_a_choice_that_a_version_makes_otherwise_is_named(plan, tmp_path, optimizer, choice, value):
    def change(name, eq):
        if name != optimizer:
            return eq
        if choice.startswith("precision"):
            return eq.but(float32=eq.float32 - {"eps"})
        return eq.with_value(choice, value)

    by_reference(plan, tmp_path, change)
    items = equations.items("burn", plan, tmp_path, {}, "e")
    found = statuses(items, optimizer)
    assert {name: (item.status, item.then) for name, item in found.items()} == {
        choice: (CHANGED, value)
    }
    assert found[choice].before == cases.value_of("burn", optimizer, choice) != value
    assert found[choice].evidence.startswith("e/burn/")
    assert all(not statuses(items, other) for other in FEW if other != optimizer)


def test_two_changes_at_once_are_both_found(plan, tmp_path):
    def change(name, eq):
        return eq.but(epsilon="inside", decay="decoupled") if name == "Adam" else eq

    by_reference(plan, tmp_path, change)
    found = statuses(equations.items("burn", plan, tmp_path, {}, "e"), "Adam")
    told = {name: item.then for name, item in found.items() if item.status == CHANGED}
    assert told == {"epsilon": "inside", "decay": "decoupled"}


def test_what_no_choice_explains_is_changed_and_says_so(plan, tmp_path):
    def spoil(case, found):
        if case.optimizer == "SGD":
            found.values[-1:] *= 1.001
            for entry in found.entries:
                if entry.quantity == "param" and entry.step > 0:
                    found.of(entry)[:] *= 1.001

    by_reference(plan, tmp_path, lambda name, eq: eq, spoil)
    items = equations.items("burn", plan, tmp_path, {}, "e")
    found = statuses(items, "SGD")
    assert {item.then for item in found.values()} == {equations.UNEXPLAINED}
    assert {item.cause for item in found.values()} == {"SGD"}
    assert len(found) == len(cases.recorded()["burn"]["SGD"])
    assert not statuses(items, "Adam")


def test_a_trace_that_cannot_tell_is_not_called_unchanged(plan, tmp_path):
    """What a library keeps and never reads is not seen where no states are recorded."""

    def cut(case, found):
        found.entries[:] = [e for e in found.entries if not e.quantity.startswith("state.")]
        kept = [found.of(entry) for entry in found.entries]
        starts = np.cumsum([0, *(len(values) for values in kept)]).tolist()
        found.entries[:] = [
            replace(e, first_row=row) for e, row in zip(found.entries, starts, strict=False)
        ]
        found.values = np.concatenate(kept)

    by_reference(plan, tmp_path, lambda name, eq: eq, cut)
    found = statuses(equations.items("burn", plan, tmp_path, {}, "e"), "LBFGS")
    assert {name: (item.status, item.then) for name, item in found.items()} == {
        "lbfgs.prev_loss": (NOT_TRIED, equations.UNTOLD)
    }


def test_what_was_not_trained_is_counted_with_its_reason(plan, tmp_path):
    names = [name for name in plan["cases"] if plan["cases"][name]["case"]["optimizer"] == "Adam"]
    by_reference(plan, tmp_path, lambda name, eq: eq)
    missing = dict.fromkeys(names, (NOT_COMPILED, "E0107: generics"))
    items = equations.items("burn", plan, tmp_path, missing, "e")
    found = statuses(items, "Adam")
    assert {(item.status, item.then) for item in found.values()} == {
        (NOT_COMPILED, "E0107: generics")
    }
    missing[names[0]] = (NOT_TRIED, "no probe")
    counts = Counter(i.status for i in equations.items("burn", plan, tmp_path, missing, "e"))
    assert sum(counts.values()) == len(items)


# Versions, from end to end


def pitb(*arguments):
    """A call of ``pitb watch`` in this process; its exit code."""
    parsed = cli.parser().parse_args(["watch", *map(str, arguments)])
    return parsed.run(parsed)


@pytest.fixture
def results(root):
    if not (root / "results/tables/one-step/figures.csv").exists():
        pytest.fail("the results are not made; run make first")
    return root / "results"


def on_path(monkeypatch, folder):
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("moved", [(), ("burn/rmsprop",), ("pytorch/adagrad", "burn/clip-norm")])
def test_figures_move_with_the_traces_they_come_from(root, results, tmp_path, moved):
    setup = watching.prepare(root, results, tmp_path, [], 0, 0.0)
    version = Wanted("burn", OWN)
    there = setup.folder(version) / "results"
    shutil.copytree(results / "traces", there / "traces")
    shutil.copytree(results / "evidence", there / "evidence")
    for run in moved:
        path = there / "traces" / f"{run}.parquet"
        found = trace.read(path)
        values = found.values.copy()
        for entry in found.entries:
            if entry.quantity == "param" and entry.step > 0:
                values[entry.first_row : entry.first_row + entry.count] *= 1.01
        found.values = values
        trace.write(found, path)
    items = figures.compute(setup, version, there, {})
    changed = {item.item.partition("/")[0] for item in items if item.status == CHANGED}
    assert {item.status for item in items} <= {CHANGED, UNCHANGED}
    assert len(items) == 258
    tables = {
        "burn/rmsprop": {"mismatch", "rmsprop-steps"},
        "pytorch/adagrad": {"mismatch", "aligned", "explanations"},
        "burn/clip-norm": {
            "clip-pytorch-global-burn-norm",
            "clip-pytorch-per-parameter-burn-norm",
        },
    }
    assert changed == set().union(*(tables[run] for run in moved))


def test_the_project_s_own_version_changes_nothing_and_is_built_once(
    root, results, programs, tmp_path, monkeypatch, capsys
):
    made = project_programs(root) | config_programs(tmp_path / "programs")
    crates = {f"burn@{OWN}": FEATURES, f"burn-pack@{OWN}": ()}
    log = fake_cargo(tmp_path / "bin", crates, made)
    on_path(monkeypatch, tmp_path / "bin")
    out = tmp_path / "wätch 观察"
    call = ("--burn", OWN, "--out", out, "--results", results, "--jobs", 1)
    assert pitb(*call, "--json") == 0
    printed = capsys.readouterr()
    (found,) = json.loads(printed.out)["versions"]
    assert found["rows"] == []
    assert found["totals"]["figure"]["unchanged"] == found["totals"]["figure"]["total"] == 258
    assert found["totals"]["program"]["unchanged"] == 5
    assert found["totals"]["equation"]["unchanged"] == found["totals"]["equation"]["total"] > 20
    assert found["totals"]["default"]["unchanged"] == found["totals"]["default"]["total"] > 60
    assert "building the programs" in printed.err
    builds = [line for line in log.read_text().splitlines() if "--keep-going" in line]
    assert len(builds) == 1
    assert "--jobs 1" in builds[0]

    # Again: nothing is built, trained or asked.
    before = log.read_text()
    assert pitb(*call) == 0
    assert log.read_text() == before
    assert "building" not in capsys.readouterr().err

    # After a kill between building and judging: built no more, judged again.
    (out / f"burn-{OWN}/items.json").unlink()
    assert pitb(*call) == 0
    text = capsys.readouterr().out
    assert "--keep-going" not in log.read_text()[len(before) :]
    assert "Nothing changed, and all was tried." in text

    # The table alone, and what was cleaned away comes back.
    assert pitb("--report", "--out", out, "--language", "zh") == 0
    assert "什么都没有变" in capsys.readouterr().out
    assert {path.name for path in out.glob("changes*")} == {
        f"changes{suffix}" for suffix in changes.SUFFIXES
    }
    assert pitb("--clean", "--out", out) == 0
    assert not (out / f"burn-{OWN}/target").exists()
    assert pitb("--report", "--out", out) == 0


def test_a_version_that_compiles_nothing_is_rows_and_not_a_crash(
    root, results, tmp_path, monkeypatch, capsys
):
    told = (root / "tests/data/rustc-backend-generic.jsonl").read_text().splitlines()
    printed = config_programs(tmp_path / "programs", {"AdamWConfig": {"epsilon": 1e-8}})
    made = {name: path for name, path in printed.items() if name != "config-lion"}
    fake_cargo(tmp_path / "bin", {"burn@9.9.9": FEATURES}, made, map(json.loads, told))
    on_path(monkeypatch, tmp_path / "bin")
    assert pitb("--burn", "9.9.9", "--out", tmp_path / "w", "--results", results, "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)["versions"]
    assert "there is no burn-pack 9.9.9" in found["notes"]
    totals = found["totals"]
    assert totals["program"]["failed"] == 5
    assert totals["default"]["changed"] == 1
    assert totals["equation"]["failed"] + totals["equation"]["not tried"] > 20
    by_kind = {row["kind"]: row for row in found["rows"] if row["outcome"] == "does not compile"}
    assert by_kind["program"]["then"].startswith("needs pitb-record: E0")
    assert by_kind["default"]["then"].startswith("E0432: unresolved import")
    assert by_kind["figure"]["count"] == totals["figure"]["failed"]
    # What is PyTorch's alone still comes out the same.
    assert totals["figure"]["total"] == 258 > totals["figure"]["failed"]
    (change,) = [
        row for row in found["rows"] if row["outcome"] == CHANGED and row["kind"] == "default"
    ]
    assert (change["before"], change["then"]) == ("1e-05", "1e-08")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "name a version"),
        (("--burn", "9.9.8"), r"there is no burn 9\.9\.8 to be had"),
        (("--burn", "latest"), "write it in full"),
        (("--burn", "9.9.9", "--keep-free", "1e9"), "of disk"),
        (("--burn", "9.9.9", "--keep-free", "-1"), "not a number of 0 or more"),
        (("--report", "--list"), "not allowed with"),
        (("--report",), "holds no version yet"),
        (("--burn", "9.9.9", "--results", "nowhere"), "comes by: make"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(root, results, tmp_path, arguments, sentence):
    fake_cargo(tmp_path / "bin", {"burn@9.9.9": FEATURES}, {})
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = str(root / "scripts")
    command = [sys.executable, "-m", "pitb", "watch", "--out", tmp_path / "w"]
    command += [] if "--results" in arguments else ["--results", results]
    ended = subprocess.run(
        [*map(str, command), *arguments], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 2, ended.stderr
    assert re.search(sentence, ended.stderr)
    assert "Traceback" not in ended.stderr


def test_another_torch_changes_nothing_where_it_is_this_one(
    root, results, tmp_path, monkeypatch, capsys
):
    def install(environment, version):
        python = pytorch.python_of(environment)
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)
        return 1.0

    monkeypatch.setattr(pytorch, "install_into", install)
    monkeypatch.setattr(pytorch.folders, "check_room", lambda *arguments: None)
    own = libraries.recorded()["versions"]["torch"]
    call = ("--torch", own, "--out", tmp_path / "w", "--results", results)
    assert pitb(*call, "--json") == 0, capsys.readouterr().out
    (found,) = json.loads(capsys.readouterr().out)["versions"]
    assert found["rows"] == []
    assert found["totals"]["figure"]["unchanged"] == 258
    assert found["totals"]["program"]["unchanged"] == 3

    # A script that fails there is a row.
    def broken(environment, version):
        python = pytorch.python_of(environment)
        python.write_text("#!/bin/sh\necho 'ImportError: no torch' >&2\nexit 1\n")
        return 1.0

    broken(tmp_path / "w" / f"torch-{own}" / "environment", own)
    (tmp_path / "w" / f"torch-{own}" / "items.json").unlink()
    assert pitb(*call, "--json") == 1
    (found,) = json.loads(capsys.readouterr().out)["versions"]
    assert found["totals"]["program"]["failed"] == 3
    assert {row["outcome"] for row in found["rows"]} == {"does not run"}
    assert any("ImportError: no torch" in row["then"] for row in found["rows"])


@pytest.mark.parametrize("library", ["burn", "torch"])
def test_traces_of_another_version_than_the_one_asked_for_are_refused(results, library):
    folder = results / "traces" / {"burn": "burn", "torch": "pytorch"}[library]
    own = libraries.recorded()["versions"][library]
    planning.check_version(folder, Wanted(library, own))
    with pytest.raises(PitbError, match=f"was made with {library} {own}, not {library} 0.0.1"):
        planning.check_version(folder, Wanted(library, "0.0.1"))


# The probes, built by the project's own burn


def test_the_probes_do_what_the_programs_do(root, programs, tmp_path):
    folder, wanted = tmp_path / "probes", ("SGD", "LBFGS")
    sources = dict(workspace.probes("flex"))
    names = [workspace.train_program(by_pytorch_name(name), "device") for name in wanted]
    names.append("config-rmsprop")
    for name in ("src/shared.rs", *(f"src/bin/{name}.rs" for name in names)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sources[name])
    text = reproductions.manifest(folder, root, [])
    for name in names:
        text += f'\n[[bin]]\nname = "watch-{name}"\npath = "src/bin/{name}.rs"\n'
    (folder / "Cargo.toml").write_text(text)
    (folder / "Cargo.lock").write_bytes((root / "Cargo.lock").read_bytes())
    build_generated(folder, root / "target", "the probes")

    def program(name):
        return root / "target/release" / f"watch-{name}"

    printed = json.loads(subprocess.check_output([program("config-rmsprop")]))
    assert printed["fields"] == libraries.burn_fields("RmsPropConfig")
    assert printed["debug"] == libraries.recorded()["burn"]["RmsPropConfig"]["debug"]

    specs = {
        "SGD": [
            {"problem": "a1", "options": {"momentum": {"momentum": 0.9}}},
            {"problem": "a1", "options": {"gradient_clipping": {"Norm": 0.1}}},
            {"problem": "a1", "options": {}, "frozen": ["fc1.weight", "fc2.bias"]},
            {"problem": "a1", "options": {}, "dtype": "float64"},
            {"problem": "gradients", "options": {"weight_decay": {"penalty": 0.1}}},
            {"problem": "absent", "options": {}, "dtype": "float64"},
            {"problem": "inf", "options": {}},
        ],
        "LBFGS": [
            {"problem": "a1", "options": {"max_iter": 3}},
            {"problem": "a1", "options": {"line_search_fn": "StrongWolfe"}, "dtype": "float64"},
            {"problem": "a1", "options": {}, "frozen": ["fc1.weight"]},
        ],
    }
    for optimizer, given in specs.items():
        entry = by_pytorch_name(optimizer)
        mine = [
            {"id": f"burn/{optimizer.lower()}{i}", "optimizer": entry.burn, "lr": 0.1, "steps": 3,
             **item}
            for i, item in enumerate(given)
        ]  # fmt: skip
        problems = {item["problem"]: problem(item["problem"]).json() for item in mine}
        (tmp_path / "runs.json").write_text(json.dumps({"problems": problems, "runs": mine}))
        subprocess.run(
            [
                programs / "optdef",
                "--runs",
                tmp_path / "runs.json",
                "--traces",
                tmp_path / "traces",
            ],
            check=True,
        )
        recorded = libraries.recorded()["burn"]
        asked = {s["id"]: probe_runs.options(recorded, s, entry.burn_config) for s in mine}
        requests = [probe_runs.request(s, asked[s["id"]]) for s in mine]
        name = workspace.train_program(entry, "device")
        answers = probe_runs.run(program(name), requests)
        for s in mine:
            theirs = trace.read(tmp_path / "traces" / f"{s['id']}.parquet")
            ours = probe_runs.as_trace(s, asked[s["id"]], answers[s["id"]], OWN)
            assert (ours.error is None) == (theirs.error is None), s
            keys = [key for key in ours.by_key() if key[1] != "grad" or not s.get("frozen")]
            assert len(keys) > 8 or ours.error
            for key in keys:
                a, b = ours.find(*key), theirs.find(*key)
                assert np.array_equal(a, b, equal_nan=True), (s, key)


# The pipeline


def dry_run(root, folder, *arguments):
    command = [sys.executable, "-m", "snakemake", "-s", root / "Snakefile", "--directory", folder]
    command += ["--cores", "1", "--dry-run", "watch", *arguments]
    ended = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert ended.returncode == 0, ended.stdout
    return set(re.findall(r"^(\w+) +\d+$", ended.stdout, re.MULTILINE))


def test_only_the_versions_that_are_listed_are_watched(root, tmp_path):
    assert not any("_burn_0" in name or "report" in name for name in dry_run(root, tmp_path))
    more = tmp_path / "more.yaml"
    more.write_text("watch: {burn: [0.21.0, 0.23.0-pre.1], torch: [2.14.1]}\n")
    rules = dry_run(root, tmp_path, "--configfile", more)
    wanted = {"watch_burn_0_21_0", "watch_burn_0_23_0_pre_1", "watch_torch_2_14_1", "report_watch"}
    assert wanted <= rules
