"""Other versions: how they are named, written, built, and what is said of them."""

import csv
import io
import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clones import stamps
from pitb import cargo, libraries
from pitb.errors import PitbError
from pitb.ledger import Published
from pitb.registry import by_burn_name, by_pytorch_name, optimizers
from pitb.tables import Figure
from pitb.watch import (
    building,
    changes,
    defaults,
    figures,
    folders,
    probe_runs,
    versions,
    workspace,
)
from pitb.watch.building import Built
from pitb.watch.changes import (
    CHANGED,
    COUNTED,
    FAILURES,
    KINDS,
    NOT_COMPILED,
    NOT_RUN,
    NOT_TRIED,
    STATUSES,
    UNCHANGED,
    Facts,
    Item,
)
from pitb.watch.training import Trainers
from pitb.watch.versions import Wanted
from pitb.watch.workspace import Workspace
from watching import FEATURES

DATA = Path(__file__).parent / "data"

# Versions


@pytest.mark.parametrize("version", ["0.21.0", "0.23.0-pre.1", "2.14.1", "2.16.0rc1", "2.0.0.dev3"])
def test_a_version_in_full_is_taken(version):
    assert versions.wanted("burn", version).folder == f"burn-{version}"


@pytest.mark.parametrize(
    "version",
    ["", "0.21", "latest", "0.21.0; rm x", "../0.21.0", "0.21.0/..", "^0.21.0", "0.2１.0x/"],
)
def test_anything_else_is_refused_with_an_example(version):
    with pytest.raises(PitbError, match=r"write it in full, as 0\.21\.0"):
        versions.wanted("burn", version)


def said(answers):
    """A `Say` of canned answers by the command's last word."""

    def say(command):
        return answers.get(command[-1], (101, f"error: could not find `{command[-1]}`"))

    return say


def test_the_newest_of_each_line_of_releases_is_listed():
    answers = {
        "burn": (0, "burn #tags\nversion: 0.22.1 (latest 0.23.0-pre.1)\nlicense: MIT\n"),
        "burn@0.22": (0, "version: 0.22.1\n"),
        "burn@0.20": (0, "version: 0.20.1 (latest 0.23.0-pre.1)\n"),
    }
    assert versions.burn_versions(said(answers)) == ["0.23.0-pre.1", "0.22.1", "0.20.1"]


@pytest.mark.parametrize(
    "ask",
    [versions.burn_versions, versions.torch_versions, lambda s: versions.burn_features("1", s)],
)
def test_without_a_network_there_is_a_sentence(ask):
    with pytest.raises(PitbError, match=r": no network$") as caught:
        ask(lambda command: (1, "    Updating index\nerror: no network\nCaused by:\n  that\n"))
    assert "\n" not in str(caught.value)


def test_pip_s_list_is_read():
    text = "WARNING: x\ntorch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1\n  INSTALLED: 2.15.0\n"
    assert versions.torch_versions(lambda command: (0, text)) == ["2.15.0", "2.14.1"]


def test_features_are_read_enabled_or_not():
    text = "version: 1\nfeatures:\n +default = [std]\n  std     = []\n  no-std-x = [dep:y]\n"
    found = versions.burn_features("0.21.0", lambda command: (0, text))
    assert found == {"default", "std", "no-std-x"}


# Workspaces


def registry(features=FEATURES, crates=("burn-pack",)):
    listed = "".join(f"  {name} = []\n" for name in features)
    answers = {"burn@9.9.9": (0, f"version: 9.9.9\nfeatures:\n{listed}")}
    return said(answers | {f"{name}@9.9.9": (0, "version: 9.9.9") for name in crates})


def test_a_workspace_has_the_project_s_sources_and_the_other_version(root, tmp_path):
    made = workspace.make(root, tmp_path / "w", "9.9.9", registry())
    assert made.lacking == ()
    manifest = (made.folder / "Cargo.toml").read_text()
    assert re.search(r'^burn = \{ version = "=9\.9\.9", .*"flex".*\}$', manifest, re.MULTILINE)
    record = (made.folder / "crates/pitb-record/Cargo.toml").read_text()
    assert 'burn-pack = { version = "=9.9.9"' in record
    for member in cargo.members(root):
        for path in member.glob("src/**/*.rs"):
            copied = made.folder / path.relative_to(root)
            assert copied.read_bytes() == path.read_bytes(), path
    assert (made.folder / "Cargo.lock").read_bytes() == (root / "Cargo.lock").read_bytes()
    assert made.target == tmp_path / "target"


def test_cargo_finds_every_crate_of_a_workspace(root, tmp_path):
    made = workspace.make(root, tmp_path / "w", "9.9.9", registry())
    command = ["cargo", "metadata", "--no-deps", "--format-version=1"]
    ended = subprocess.run(command, cwd=made.folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    names = {item["name"] for item in json.loads(ended.stdout)["packages"]}
    assert names == {path.name for path in cargo.members(root)} | {workspace.PROBES}
    assert {"pitb-core", "pitb-compare"} < names


def test_what_a_version_lacks_is_left_out_and_named(root, tmp_path):
    run = registry(("std", "ndarray", "autodiff"), ())
    made = workspace.make(root, tmp_path / "w", "9.9.9", run)
    wanted = {
        "burn has no feature optim",
        "burn has no feature flex",
        "there is no burn-pack 9.9.9",
    }
    assert set(made.lacking) == wanted
    assert made.backend == "NdArray"
    manifest = (made.folder / "Cargo.toml").read_text()
    assert 'features = ["std", "autodiff", "ndarray"]' in manifest
    record = (made.folder / "crates/pitb-record/Cargo.toml").read_text()
    assert "\nburn-pack" not in record


def test_a_version_without_any_known_backend_is_refused(root, tmp_path):
    with pytest.raises(PitbError, match="none of the features flex, ndarray"):
        workspace.make(root, tmp_path / "w", "9.9.9", registry(("std",)))


def test_what_is_written_already_is_not_touched_and_nothing_is_asked_again(root, tmp_path):
    folder = tmp_path / "w"
    first = workspace.make(root, folder, "9.9.9", registry())
    before = stamps(folder)

    def silent(command):
        raise AssertionError(f"asked again: {command}")

    assert workspace.make(root, folder, "9.9.9", silent) == first
    assert before == stamps(folder)


def test_the_fingerprint_tells_versions_and_sources_apart(root, tmp_path):
    found = {workspace.make(root, tmp_path / "a", "9.9.9", registry()).fingerprint}
    found.add(workspace.make(root, tmp_path / "b", "9.9.9", registry(crates=())).fingerprint)
    found.add(workspace.make(root, tmp_path / "c", "9.9.9", registry((*FEATURES, "x"))).fingerprint)
    assert len(found) == 2  # a feature that nothing asks for changes nothing


@pytest.mark.parametrize("dialect", workspace.DIALECTS)
@pytest.mark.parametrize("key", [item.key for item in optimizers()])
def test_no_place_of_a_probe_is_left_open(key, dialect):
    optimizer = next(item for item in optimizers() if item.key == key)
    text = workspace.train_probe(optimizer, dialect, "Flex")
    assert "@" not in text
    assert optimizer.burn_config in text
    assert text.count("{") == text.count("}")
    assert ("closure" in text or "|model: Model" in text) == (optimizer.pytorch == "LBFGS")


# Builds


def messages(name):
    return [json.loads(line) for line in (DATA / name).read_text().splitlines()]


def test_the_compiler_s_own_words_become_a_line():
    built = building.read_messages(messages("rustc-backend-generic.jsonl"))
    assert built.made == ["config-adam"]
    reason = built.reason("optdef", ("pitb-record", "pitb-core"))
    assert reason.startswith("needs pitb-record: E0")
    assert "pitb-record/src/" in reason
    assert "\n" not in reason
    assert built.reason("config-lion", ()).startswith("E0432: unresolved import")
    assert built.reason("config-adam", ()) == ""


def test_a_program_s_own_error_comes_before_its_library_s():
    built = Built(errors={"optdef": "E1: mine", "pitb-core": "E2: its"})
    assert built.reason("optdef", ("pitb-core",)) == "E1: mine"
    assert built.reason("clip", ("pitb-core",)) == "needs pitb-core: E2: its"
    assert built.reason("x", ()) == ""


def test_a_long_error_is_shortened_and_keeps_its_place():
    said = {
        "code": {"code": "E0107"},
        "message": "x" * 1000,
        "spans": [{"is_primary": True, "file_name": "/tmp/w/crates/a/src/b.rs", "line_start": 7}],
    }
    found = building.compiler_error(said)
    assert len(found) < building.LONGEST + 40
    assert found.endswith("… (a/src/b.rs:7)")


def test_cargo_s_error_before_anything_is_compiled():
    text = "    Updating index\nerror: failed to select a version\n  for `burn`\n\nmore\n"
    assert building.cargo_error(text) == "failed to select a version for `burn`"


# Defaults


def test_the_same_defaults_are_unchanged():
    recorded = libraries.recorded()
    items = defaults.burn_items(recorded["burn"], {}, "x") + defaults.torch_items(recorded, "x")
    assert {item.status for item in items} == {UNCHANGED}
    names = [item.item for item in items]
    assert len(names) == len(set(names)) > 300
    assert "AdamWConfig.epsilon" in names
    assert "lr_scheduler.StepLR(gamma)" in names
    assert "clip: clip_grad_norm_(norm_type)" in names


def test_changed_new_gone_and_missing_defaults():
    found = json.loads(json.dumps(libraries.recorded()["burn"]))
    found["AdamWConfig"]["fields"]["epsilon"] = 1e-8
    found["AdamWConfig"]["fields"]["fused"] = False
    del found["AdamConfig"]["fields"]["amsgrad"]
    del found["LionConfig"]
    items = defaults.burn_items(found, {"LionConfig": (NOT_COMPILED, "E0432: no LionConfig")}, "x")
    told = {item.item: (item.status, item.before, item.then) for item in items}
    assert told["AdamWConfig.epsilon"] == (CHANGED, "1e-05", "1e-08")
    assert told["AdamWConfig.fused"] == (CHANGED, "not there", "false")
    assert told["AdamConfig.amsgrad"] == (CHANGED, "false", "not there")
    assert told["LionConfig.beta_1"] == (NOT_COMPILED, "0.9", "E0432: no LionConfig")
    assert sum(item.status == CHANGED for item in items) == 3


def test_a_parameter_that_became_keyword_only_is_a_change():
    found = json.loads(json.dumps(libraries.recorded()))
    parameter = found["pytorch"]["AdamW"]["parameters"][2]
    parameter["keyword_only"] = True
    items = [item for item in defaults.torch_items(found, "x") if item.status == CHANGED]
    assert [item.item for item in items] == [f"AdamW({parameter['name']})"]
    assert items[0].then.endswith(", keyword only")


# Figures


def published(printed, kind, column="loss"):
    return Published("p", "t", "r", column, printed, kind)


@pytest.mark.parametrize(
    ("item", "before", "then", "same"),
    [
        (published("0.1", "exact"), "0.1", "0.10", True),
        (published("0.1", "exact"), "0.1", "0.2", False),
        (published("3", "exact"), "4", "4", True),
        (published("3", "exact"), "4", "3", False),  # the project itself did not reproduce it
        (published("1.00e-2", "size"), "0.0100001", "0.0100002", True),
        (published("1.00e-2", "size"), "0.0100001", "0.0200001", False),
        (published("1.49e-8", "rounding", "worst"), "1.49e-8", "2.0e-8", True),
        (published("1.49e-8", "rounding", "worst"), "1.49e-8", "nan", False),
    ],
)
def test_a_figure_moves_where_the_ledger_would_not_allow_it(item, before, then, same):
    assert figures.same(item, before, then) is same


def test_a_figure_whose_table_cannot_be_made_says_why():
    item = Published("one-step", "moves", "r", "c", "1", "exact")
    base = [Figure("moves", "r", "c", "1", "1", "x")]
    failed = {"moves": "w/results/evidence/moves/burn.json does not exist"}
    missing = {
        "evidence/moves/burn.json": (NOT_COMPILED, "needs pitb-core: E0107"),
        "traces/burn/x.parquet": (NOT_TRIED, "other"),
    }
    (found,) = figures.items([item], base, {}, failed, missing, "w")
    assert (found.status, found.then) == (NOT_COMPILED, "needs pitb-core: E0107")
    (found,) = figures.items([item], base, {}, {}, missing, "w")
    assert (found.status, found.then) == (CHANGED, "not in the table any more")


# The table

TEXT = st.text("ab|é\n", max_size=4)
ITEMS = st.builds(
    Item,
    kind=st.sampled_from(KINDS),
    item=TEXT,
    status=st.sampled_from(STATUSES),
    before=TEXT,
    then=TEXT,
    evidence=TEXT,
    note=TEXT,
)


@given(st.lists(ITEMS, max_size=30), st.sampled_from(versions.LIBRARIES))
def test_every_item_is_counted_once_and_none_is_hidden(items, library):
    found = Facts(library, "1.2.3", f"{library} 1.2.2", tuple(items))
    rows = changes.rows(found)
    totals = changes.totals(found)
    standing = sum(counts[UNCHANGED] for counts in totals.values())
    assert sum(row.count for row in rows) + standing == len(items)
    assert sum(counts["total"] for counts in totals.values()) == len(items)
    for counts in totals.values():
        assert counts["total"] == sum(counts[status] for status in COUNTED)
    changed = sum(row.count for row in rows if row.outcome == CHANGED)
    assert changed == sum(item.status == CHANGED for item in items)
    alone = [item for item in items if item.status == CHANGED and not item.cause]
    assert sum(row.outcome == CHANGED for row in rows) >= len(alone)
    read = list(csv.DictReader(io.StringIO(changes.as_csv([found]))))
    assert [int(row["count"]) for row in read] == [row.count for row in rows]
    for language in ("en", "zh"):
        lines = changes.markdown([found], language).splitlines()
        table = [line for line in lines if line.startswith(f"| {found.name}")]
        assert len(table) == len(rows) + sum(counts["total"] > 0 for counts in totals.values())


@pytest.mark.parametrize("library", versions.LIBRARIES)
@pytest.mark.parametrize("status", FAILURES)
def test_what_failed_is_named_for_what_happened_whatever_the_library(library, status):
    found = Facts(library, "1.0.0", "", (Item("program", "x", status),))
    (row,) = changes.rows(found)
    assert row.outcome == status
    assert changes.totals(found)["program"]["failed"] == 1


def test_what_changed_for_one_unknown_cause_is_one_row():
    items = [Item("equation", f"SGD c{i}", CHANGED, "a", "?", cause="SGD") for i in range(6)]
    items.append(Item("equation", "Adam c", CHANGED, "a", "?", cause="Adam"))
    items.append(Item("default", "d", CHANGED, "a", "b"))
    rows = changes.rows(Facts("burn", "1.0.0", "", tuple(items)))
    assert [row.count for row in rows] == [1, 6, 1]


def test_what_fails_for_one_reason_is_one_row():
    items = [Item("figure", f"f{i}", NOT_RUN, "1", "E1") for i in range(6)]
    (row,) = changes.rows(Facts("burn", "1.0.0", "", tuple(items)))
    assert (row.count, row.item, row.then) == (6, "f0, f1, f2, f3 and 2 more", "E1")


def test_facts_are_read_as_they_were_written(tmp_path):
    item = Item("default", "AdamConfig.epsilon", CHANGED, "1", "2", "e", "n")
    found = Facts("burn", "0.21.0", "burn 0.22.1", (item,), ("a note",), 1.5, 2.5)
    changes.write_facts(found, tmp_path / "facts.json")
    assert changes.read_facts(tmp_path / "facts.json") == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "lacks the key"),
        ("[]", "must be keys and values"),
        ("{", "not valid JSON"),
    ],
)
def test_other_files_are_no_facts(tmp_path, text, sentence):
    (tmp_path / "facts.json").write_text(text)
    with pytest.raises(PitbError, match=sentence):
        changes.read_facts(tmp_path / "facts.json")


def test_a_status_that_there_is_not_is_refused(tmp_path):
    found = Facts("burn", "0.21.0", "x", (Item("default", "i", "fine"),))
    changes.write_facts(found, tmp_path / "facts.json")
    with pytest.raises(PitbError, match="'fine'"):
        changes.read_facts(tmp_path / "facts.json")


# Folders


def test_what_was_made_is_not_made_again_unless_its_key_changes(tmp_path):
    calls = []

    def work():
        calls.append(1)
        return {"n": len(calls)}

    path = tmp_path / "kept.json"
    assert folders.once(path, "a", work) == {"n": 1}
    assert folders.once(path, "a", work) == {"n": 1}
    assert folders.once(path, "b", work) == {"n": 2}
    path.write_text('{"key": "b", "val')  # what a kill in the middle of other software leaves
    assert folders.once(path, "b", work) == {"n": 3}


def test_work_that_is_interrupted_leaves_nothing(tmp_path):
    def work():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        folders.once(tmp_path / "kept.json", "a", work)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_said_before_anything_is_made(tmp_path):
    with pytest.raises(PitbError, match=r"burn 1\.0\.0 needs 1 GB of disk, and 1e\+09 GB"):
        folders.check_room(tmp_path / "not" / "yet", Wanted("burn", "1.0.0"), 1e9)
    folders.check_room(tmp_path, Wanted("burn", "1.0.0"), -1e9)


def test_cleaning_takes_what_is_large_and_leaves_what_was_found(tmp_path):
    versions_ = [Wanted("burn", "1.0.0"), Wanted("torch", "2.0.0")]
    for version in versions_:
        for name in ("workspace", "target", "environment", "results"):
            path = folders.of(tmp_path, version) / name / "file"
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x" * 1000)
        (folders.of(tmp_path, version) / folders.FACTS).write_text("{}")
    os.link(tmp_path / "burn-1.0.0/target/file", tmp_path / "burn-1.0.0/target/again")
    (tmp_path / "changes.md").write_text("")
    assert folders.made(tmp_path) == versions_
    assert folders.clean(tmp_path, folders.made(tmp_path)) == 3000
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert "burn-1.0.0/facts.json" in left
    assert "burn-1.0.0/results/file" in left
    assert "torch-2.0.0/target/file" in left  # which is not torch's, so not ours to delete
    assert not any("burn-1.0.0/target" in path or "torch-2.0.0/env" in path for path in left)


# Runs by probes

BURN = libraries.recorded()["burn"]


def spec(optimizer="Sgd", **more):
    return {"id": "burn/x", "optimizer": optimizer, "options": {}, "lr": 0.1, "steps": 2} | more


@pytest.mark.parametrize(
    ("optimizer", "given", "path", "value"),
    [
        ("AdamW", {"weight_decay": 0.5}, ("weight_decay",), 0.5),
        ("Sgd", {"momentum": {"dampening": 0.0}}, ("momentum", "momentum"), 0.9),
        ("Sgd", {"weight_decay": {"penalty": 0.1}}, ("weight_decay", "penalty"), 0.1),
        ("Muon", {"momentum": {"momentum": 0.5}}, ("momentum", "nesterov"), True),
    ],
)
def test_options_are_merged_into_the_version_s_own_defaults(optimizer, given, path, value):
    config = by_burn_name(optimizer).burn_config
    found = probe_runs.options(BURN, spec(optimizer, options=given), config)
    for name in path:
        found = found[name]
    assert found == value


def test_an_option_that_a_version_lacks_is_refused():
    older = {"AdamWConfig": {"fields": {"epsilon": 1e-5}}}
    with pytest.raises(PitbError, match="this version's AdamWConfig has no field amsgrad"):
        probe_runs.options(older, spec("AdamW", options={"amsgrad": True}), "AdamWConfig")


@pytest.mark.parametrize(
    ("asked", "read", "kept"),
    [
        (0.9, 0.8999999761581421, True),
        (0.9, 0.8, False),
        (1e-50, 0.0, False),  # f32 has no such number
        (0.0, 0.0, True),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {}, False),
        ([0.9, 0.1], [0.8999999761581421, 0.10000000149011612], True),
        ([1], [1, 2], False),
        (None, None, True),
        (None, 0, False),
        (True, 1, True),
        ("Original", "Original", True),
    ],
)
def test_what_burn_drops_of_the_options_is_noticed(asked, read, kept):
    assert probe_runs.kept(asked, read) is kept


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"clip": {"scope": "global"}}, "clipping by the training loop"),
        ({"groups": [{}]}, "groups"),
        ({"scheduler": {"linear": 1}}, "a schedule"),
        ({"resume": "x"}, "taken up again"),
        ({"clipping_by": "late"}, "clips as the configuration does"),
        ({"accumulate": 2}, "accumulates"),
        ({"observe": False}, "unobserved"),
        ({"problem": "tied"}, "model of the problem tied"),
        ({"problem": "conv"}, "model of the problem conv"),
        ({"problem": "rosenbrock"}, "model of the problem rosenbrock"),
    ],
)
def test_what_no_probe_knows_is_refused_in_words(more, sentence):
    with pytest.raises(PitbError, match=sentence):
        probe_runs.request(spec(**more), {})


def answer(steps):
    """What a probe answers that leaves A1's parameters where they are."""
    request = probe_runs.request(spec(), {})
    layers = [[layer["weight"], layer["bias"]] for layer in request["layers"]]
    seen = {"logits": [0.0] * 12, "loss": [1.5], "grads": layers, "params": layers}
    return {"id": "burn/x", "error": None, "steps": [{}, *[seen] * steps], "last": ["NaN"]}


def test_a_probe_s_answer_is_a_trace_in_pytorch_s_layout():
    found = probe_runs.as_trace(spec(), {}, answer(2), "9.9.9")
    for name in ("fc1.weight", "fc2.bias"):
        before, after = (found.find(step, "param", name) for step in (0, 2))
        assert before.tobytes() == after.tobytes()
    assert found.metadata["versions"]["burn"] == "9.9.9"
    assert [entry.quantity for entry in found.entries if entry.step == 1][:3] == [
        "logits", "loss", "grad"
    ]  # fmt: skip
    assert found.find(3, "loss")[0] != found.find(3, "loss")[0]


def test_an_answer_to_other_options_is_no_trace():
    with pytest.raises(PitbError, match=r"burn 9\.9\.9 reads \{\}"):
        probe_runs.as_trace(spec(), {"momentum": None}, answer(2), "9.9.9")


def test_inputs_computed_in_f32_differ_in_seven_places():
    once = probe_runs.of(spec())
    throughout = probe_runs.of(spec(initial_state="float32"))
    assert (once.inputs["x"] != throughout.inputs["x"]).sum() == 7
    assert once.parameters["fc1.weight"] is throughout.parameters["fc1.weight"]


# What stands in for a program that does not compile


def trainers(made=(), probes=(), printed=None):
    where = Workspace(Path("w"), "9.9.9", (), "Flex", "f")
    errors = {"pitb-core": "E0107: generics", "config-lion": "E0432: no LionConfig"}
    printed = BURN if printed is None else printed
    return Trainers(where, Built(list(made), errors), Built(list(probes)), printed)


def test_the_dialect_that_compiles_is_taken():
    found = trainers(probes=["train-sgd-backend"]).probe("Sgd")
    assert found.name == "train-sgd-backend"


def test_an_optimizer_that_is_not_there_is_said_to_be_so():
    printed = {name: entry for name, entry in BURN.items() if name != "LionConfig"}
    with pytest.raises(PitbError, match=r"^E0432: no LionConfig$"):
        trainers(printed=printed).probe("Lion")


def test_where_no_dialect_compiles_both_reasons_are_given():
    with pytest.raises(PitbError, match=r"device: .*; backend: "):
        trainers().probe("Adam")


def test_no_run_is_lost_where_nothing_compiles(tmp_path):
    specs = [spec(id="burn/a"), spec("Adam", id="burn/b")]
    missing = trainers().train("optdef", specs, {}, tmp_path)
    assert missing.keys() == {"burn/a", "burn/b"}
    assert {status for status, _ in missing.values()} == {NOT_COMPILED}


def test_every_optimizer_and_configuration_has_probes():
    names = {name for name, _ in workspace.probes("flex")}
    for optimizer in optimizers():
        for dialect in workspace.DIALECTS:
            assert f"src/bin/{workspace.train_program(optimizer, dialect)}.rs" in names
    for config in BURN:
        assert f"src/bin/{workspace.config_program(config)}.rs" in names
    assert by_pytorch_name("SGD").burn_config in BURN
