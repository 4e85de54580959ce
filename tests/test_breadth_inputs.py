"""Odd files for the scripts of the breadth, each of which must be one sentence."""

import copy
import dataclasses
import json
import runpy
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pitb import schedulers, schema
from pitb.breadth import inputs, papers, phases
from pitb.breadth.cases import Case
from pitb.breadth.covered import Field, Row
from pitb.breadth.finding import Finding, plain
from pitb.breadth.mutants import Kill
from pitb.breadth.records import row_schema
from pitb.errors import PitbError
from pitb.registry import by_pytorch_name, optimizers

ADAM = by_pytorch_name("Adam")
SPEC = {"optimizer": "Adam", "options": {}, "steps": 2, "lr": 0.1}
CASE = json.loads(json.dumps(dataclasses.asdict(Case("Adam", "x", "a1", "float32", 0.1))))
ENTRY = {
    "case": CASE,
    "options": {
        side: {item.pytorch.partition("[")[0]: [0, 0] for item in ADAM.hyperparameters}
        for side in ("pytorch", "burn")
    },
    "groups": [],
    "rates": {"pytorch": [], "burn": []},
    "pytorch": {"id": "pytorch/x", **SPEC},
    "burn": {"id": "burn/x", **SPEC},
}
PROBLEM = {"model": "mlp", "parameters": []}
OUTCOME = {
    **dict.fromkeys(("case", "suite", "optimizer", "set", "problem", "dtype", "pair"), "x"),
    "verdict": "OK",
    "reason": "",
    "explanation": "",
    "because": [],
    "law": "float32",
    "steps": 2,
    "lr": 0.1,
    "needed": "inf",
    "nonfinite": [-1, -1],
}
KILL = dataclasses.asdict(Kill("Adam", "burn", "choice", "x", 1, 1, "a", "b", 1.0, "killed"))
PAPER = dataclasses.asdict(papers.Row("Lion", "p", "burn", "decay", "a", "b", "different"))
SCHEDULE = dataclasses.asdict(schedulers.Row("a", "b", "same", "OK", "", 0.0, 1, "", 0.0, 0.0))
VALID = {
    "plan": {"problems": {"a1": PROBLEM}, "defaults": {"Adam": {}}, "cases": {"x": ENTRY}},
    "defaults": {entry.burn_config: {"fields": {}} for entry in optimizers()},
    "outcomes": [OUTCOME],
    "kills": [KILL],
    "papers": [PAPER],
    "coverage": {
        "rows": [{**dataclasses.asdict(Row("a", "b", "c", "d", "", ())), "cases": []}],
        "fields": [{**dataclasses.asdict(Field("a", "b", "c", "d", "", ())), "cases": []}],
    },
    "schedules": {
        "rows": [SCHEDULE],
        "kills": [{"mutant": "x", "flagged": []}],
        "schedulers": [{"side": "burn", "name": "x"}],
        "totals": {"burn ~ reference": {"OK": 1}},
    },
    "findings": [
        json.loads(json.dumps(plain(Finding("a", "default", ("Adam",), "eps", "1", "2", ""))))
    ],
}
READ = {
    "plan": inputs.read_plan,
    "defaults": inputs.read_defaults,
    "outcomes": inputs.read_outcomes,
    "kills": inputs.read_kills,
    "papers": inputs.read_papers,
    "coverage": inputs.read_coverage,
    "schedules": inputs.read_schedules,
    "findings": inputs.read_findings,
}


def places(value, path=()):
    """The paths of all keys and items of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


@pytest.mark.parametrize("kind", VALID)
def test_what_is_right_is_read_as_it_is(tmp_path, kind):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(VALID[kind]))
    assert READ[kind](path) == VALID[kind]


@pytest.mark.parametrize("kind", VALID)
def test_every_key_is_missed_and_every_wrong_type_is_noticed(tmp_path, kind):
    """Of each key that is there, but those that only one reader of an optional part needs."""
    path = tmp_path / "a.json"
    free = {"clip", "burn_clip", "frozen", "problem", "options"}
    for place in places(VALID[kind]):
        # What an option's value may be, its optimizer says.
        beneath = "options" in place[:-2]
        for wrong in ("drop",) if beneath else ("drop", "retype"):
            value = copy.deepcopy(VALID[kind])
            *outer, key = place
            inner = value
            for part in outer:
                inner = inner[part]
            if wrong == "retype":
                inner[key] = True if isinstance(inner[key], (dict, list)) else {"a": []}
            elif isinstance(key, int) or key in free or place[-2:] == ("cases", "x"):
                continue
            else:
                del inner[key]
            if key in free and wrong == "retype" and isinstance(inner[key], dict):
                continue
            path.write_text(json.dumps(value))
            with pytest.raises(PitbError, match=r"^[^\n]*a\.json: [^\n]+$") as error:
                READ[kind](path)
            assert str(key) in str(error.value) or "empty" in str(error.value), (place, wrong)


ODD = {
    "missing": (None, "does not exist"),
    "empty": ("", "is not valid JSON"),
    "cut off": ('{"cases": {"a": ', "is not valid JSON"),
    "list": ("[1]", "must be keys and values"),
    "object": ('{"a": 1}', ": "),
    "null": ("null", "it is null, but must be"),
    "number": ("3", "it is 3, but must be"),
    "bytes": (b"\xff\xfe", "is not UTF-8"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", READ)
def test_another_file_is_one_sentence_with_its_name(tmp_path, kind, odd):
    content, expected = ODD[odd]
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(PitbError) as error:
        READ[kind](path)
    sentence = str(error.value)
    assert str(path) in sentence
    assert expected in sentence
    assert "\n" not in sentence


def test_a_plan_of_an_optimizer_that_is_none_is_refused(tmp_path):
    value = copy.deepcopy(VALID["plan"])
    value["cases"]["x"]["case"]["optimizer"] = "Adan2"
    path = tmp_path / "a.json"
    path.write_text(json.dumps(value))
    with pytest.raises(PitbError, match=r"a\.json: cases\.x\.case\.optimizer: no .*'Adan2'"):
        inputs.read_plan(path)


def test_a_table_of_rows_is_checked_too(tmp_path):
    path = tmp_path / "rows.parquet"
    table = pa.Table.from_pylist([], schema=row_schema())
    pq.write_table(table, path)
    assert inputs.read_rows(path).schema.equals(row_schema())
    whole = path.read_bytes()
    for content, expected in (
        (whole[: len(whole) // 2], "is not a readable Parquet file"),
        (b"", "is not a readable Parquet file"),
        (b"PAR1", "is not a readable Parquet file"),
    ):
        path.write_bytes(content)
        with pytest.raises(PitbError, match=expected):
            inputs.read_rows(path)
    pq.write_table(table.drop_columns(["pair"]), path)
    with pytest.raises(PitbError, match="lacks the column 'pair'"):
        inputs.read_rows(path)
    place = table.schema.get_field_index("step")
    pq.write_table(table.set_column(place, "step", pa.array([], pa.string())), path)
    with pytest.raises(PitbError, match="column 'step' is string, not int64"):
        inputs.read_rows(path)
    with pytest.raises(PitbError, match="does not exist"):
        inputs.read_rows(tmp_path / "none.parquet")
    with pytest.raises(PitbError, match="is not a file"):
        inputs.read_rows(tmp_path)


def test_a_schema_follows_the_dataclass():
    found = schema.fields_of(Case)
    assert found["required"] == [field.name for field in dataclasses.fields(Case)]
    assert found["properties"]["clip"] == {"type": ["object", "null"]}
    assert found["properties"]["frozen"] == {"type": "array", "items": {"type": "string"}}


@dataclasses.dataclass
class Unknown:
    values: bytes


def test_a_field_without_a_counterpart_in_json_is_refused():
    with pytest.raises(TypeError, match="bytes"):
        schema.fields_of(Unknown)


# Options that name the odd file, and what else each script wants; {valid} is a good file's folder.
SCRIPTS = {
    "plan_breadth": ("defaults", "--defaults {odd} --out {out}"),
    "train_breadth_burn": ("plan", "--plan {odd} --program /bin/true --traces {out}"),
    "train_breadth_pytorch": (
        "plan",
        "--plan {odd} --traces {out} --phase first --saved {out}",
    ),
    "judge_breadth": ("plan", "adam --plan {odd} --traces {out} --out {out}"),
    "cover_breadth": (
        "plan",
        "--plans {odd} --outcomes {valid}/outcomes.json --defaults {valid}/defaults.json"
        " --program /bin/true --out {out}/c.json",
    ),
    "make_findings": (
        "defaults",
        "--scope {valid} --defaults {odd} --schedules {valid}/schedules.json"
        " --program /bin/true --out {out}",
    ),
    "reproduce_findings": ("findings", "--findings {folder} --root . --target-dir {out}"),
    "summarise_breadth": (
        "coverage",
        "--judged {valid}/judged --coverage {odd} --schedules {valid}/schedules.json --out {out}",
    ),
}


@pytest.fixture
def valid(tmp_path):
    folder = tmp_path / "valid"
    (folder / "judged").mkdir(parents=True)
    for kind, value in VALID.items():
        (folder / f"{kind}.json").write_text(json.dumps(value))
    for kind in ("outcomes", "kills", "papers"):
        (folder / "judged" / f"{kind}.json").write_text(json.dumps(VALID[kind]))
    pq.write_table(pa.Table.from_pylist([], schema=row_schema()), folder / "judged/rows.parquet")
    return folder


def main_of(root, monkeypatch, script, arguments):
    """Run a script in this process; its errors are raised."""
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *arguments])
    return runpy.run_path(str(root / f"scripts/{script}.py"))["main"]()


@pytest.mark.torch
@pytest.mark.parametrize("odd", ["missing", "empty", "list", "object", "null"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_no_script_takes_another_file(root, monkeypatch, tmp_path, valid, script, odd):
    kind, words = SCRIPTS[script]
    path = tmp_path / f"{kind}.json"
    if ODD[odd][0] is not None:
        path.write_text(ODD[odd][0])
    names = {"odd": path, "out": tmp_path / "out", "valid": valid, "folder": tmp_path}
    arguments = [word.format(**names) for word in words.split()]
    with pytest.raises(PitbError) as error:
        main_of(root, monkeypatch, script, arguments)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_summary_without_totals_is_no_summary(root, monkeypatch, tmp_path):
    for name in ("summary", "complaints"):
        (tmp_path / name).write_text("")
    arguments = [f"--{name}={tmp_path / name}" for name in ("summary", "complaints", "out")]
    with pytest.raises(PitbError, match="summary is empty: it holds no totals"):
        main_of(root, monkeypatch, "check_breadth", arguments)
    (tmp_path / "summary").write_text("1 OK\n")
    main_of(root, monkeypatch, "check_breadth", arguments)
    assert (tmp_path / "out").read_text() == "1 OK\n"


def test_a_program_that_leaves_no_traces_is_noticed(root, monkeypatch, tmp_path, valid):
    true = next(path for path in map(Path, ("/bin/true", "/usr/bin/true")) if path.exists())
    arguments = ["--plan", valid / "plan.json", "--program", true, "--traces", tmp_path / "out"]
    arguments = list(map(str, arguments))
    with pytest.raises(PitbError, match="has left no trace of burn/x"):
        main_of(root, monkeypatch, "train_breadth_burn", arguments)
    # Nor does a trace help that was there before.
    stale = tmp_path / "out/burn/x.parquet"
    stale.parent.mkdir(parents=True)
    stale.write_text("stale")
    with pytest.raises(PitbError, match="has left no trace of burn/x"):
        main_of(root, monkeypatch, "train_breadth_burn", arguments)


def test_a_trace_that_is_written_again_is_left(tmp_path):
    path = tmp_path / "burn/x.parquet"
    path.parent.mkdir()
    for _ in range(2):
        before = phases.stamps([{"id": "burn/x"}], tmp_path)
        fresh = tmp_path / "fresh"
        fresh.write_bytes(b"PAR1\0\0\0\0PAR1")  # the same
        fresh.replace(path)
        phases.check_left(before, "it")
    before = phases.stamps([{"id": "burn/x"}], tmp_path)
    path.write_bytes(b"PAR1 and half")
    with pytest.raises(PitbError, match=r"it left .*x\.parquet unfinished"):
        phases.check_left(before, "it")
