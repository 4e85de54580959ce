"""Malformed configurations, sweeps, traces, published figures, JSON: input, and what is said of it.

A table of those that the tests of each reader do not have yet. Each is one sentence that names the
file; of YAML and CSV the line too.
"""

import json

import pyarrow.parquet as pq
import pytest

from pitb import compare, config, ledger, parts, trace
from pitb.errors import PitbError
from pitb.sweeps import dataset, design, plan

GOOD = """tolerance: 1e-6
threads: 1
batch_size: 10
pages: []
comparisons: []
runs:
  pytorch:
    x: {optimizer: SGD, lr: 0.1, steps: 1}
  burn:
    x: {optimizer: Sgd, lr: 0.1, steps: 1}
"""
NUMBER = "must be of type"
CONFIGURATIONS = [
    *(
        (f"{key}: {old}", f"{key}: {new}", f"line {line}: {key}.*{said}")
        for key, old, line, changes in (
            (
                "tolerance",
                "1e-6",
                1,
                {"null": NUMBER, "[]": NUMBER, "yes": NUMBER, "1e400": "finite"},
            ),
            ("threads", "1", 2, {"-1": "minimum", "2000": "maximum", "a": NUMBER, "{}": NUMBER}),
            (
                "batch_size",
                "10",
                3,
                {"0": "minimum", "1e7": "maximum", "null": NUMBER, "~": NUMBER},
            ),
            ("pages", "[]", 4, {"{}": "a list", "x": "a list", "[1]": "allowed", "[~]": "allowed"}),
            ("comparisons", "[]", 5, {"{}": "a list", "[1]": "keys and", "[{}]": "lacks the key"}),
        )
        for new, said in changes.items()
    ),
    *(
        ("batch_size: 10", f"batch_size: 10\ntime_limit: {new}", f"line 4: time_limit.*{said}")
        for new, said in {"0": "minimum", "-1": "minimum", "no": NUMBER, "1e9": "maximum"}.items()
    ),
    *(
        ("optimizer: SGD, lr: 0.1", new, f"line 8: runs.pytorch.x.*{said}")
        for new, said in {
            "lr: 0.1": "lacks the key 'optimizer'",
            "optimizer: SGD": "lacks the key 'lr'",
            "optimizer: 3, lr: 0.1": "must be text",
            "optimizer: SGD, lr: '0.1'": NUMBER,
            "optimizer: SGD, lr: 0.1, options: 3": "keys and values",
            "optimizer: SGD, lr: 0.1, dtype: half": "allowed: float32",
            "optimizer: SGD, lr: 0.1, clip: {}": "lacks the key",
            "optimizer: SGD, lr: 0.1, clip: 0.1": "keys and values",
        }.items()
    ),
    ("    x: {optimizer: SGD", "    'a b': {optimizer: SGD", "line 8: .*lowercase letters"),
    ("    x: {optimizer: SGD", "    ../x: {optimizer: SGD", "line 8: .*lowercase letters"),
    (
        "    x: {optimizer: SGD",
        "    x: !!python/object {optimizer: SGD",
        "line 8: tags such as .* are not supported",
    ),
    ("lr: 0.1, steps", "lr: 0.1, step: 1, steps", "line 8: unknown key 'runs.pytorch.x.step'"),
    ("threads: 1", "threads: 1_0", "line 2 .key threads.: 1_0 could be read"),
    ("threads: 1", "threads: 0x1", "line 2 .key threads.: 0x1 could be read"),
    ("threads: 1", "threads: *a", "line 2: not valid YAML"),
    ("threads: 1", "threads 1", "line [23]: not valid YAML"),
    ("threads: 1", "threads: [1", "not valid YAML"),
    ("threads: 1", "threads: 1\n<<: {a: 1}", "line 3: .*unknown key '<<'"),
    (GOOD, "- a\n- b\n", "must hold keys and values"),
    (GOOD, "", "must hold keys and values"),
    (GOOD, "just text", "must hold keys and values"),
    (GOOD, "a: " + "[" * 60 + "]" * 60, "nested deeper than 50 levels"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), CONFIGURATIONS)
def test_a_configuration_is_refused(root, tmp_path, old, new, sentence):
    path = tmp_path / "bad.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    refused(lambda: config.load([path], root / "config/schema.json"), "bad.yaml", sentence)


def refused(call, name, sentence):
    with pytest.raises(PitbError, match=sentence) as caught:
        call()
    said = str(caught.value)
    assert name in said
    assert len(said.splitlines()) == 1


HEAD = "table,row,column,printed,kind\n"
ROW = "t,r,c,1.0,exact\n"
PUBLISHED = [
    ("", "line 1: the columns must be|lists no figure"),
    (HEAD, "lists no figure"),
    ("\n" + HEAD + ROW, "the columns must be"),
    (HEAD.replace(",kind", "") + ROW, "line 1: the columns must be table, row"),
    (HEAD.replace("table", "Table") + ROW, "line 1: the columns must be"),
    (HEAD.replace("table,row", "row,table") + ROW, "line 1: the columns must be"),
    (HEAD.replace(",", ";") + ROW, "line 1: the columns must be"),
    ("\ufeff" + HEAD + ROW, "line 1: the columns must be"),
    (HEAD + "t,r,c,1.0\n", "line 2: not 5 fields"),
    (HEAD + "t,r,c,1.0,exact,more\n", "line 2: not 5 fields"),
    (HEAD + ROW + "t\n", "line 3: not 5 fields"),
    (HEAD + "t,r,c,1.0,Exact\n", "line 2: kind 'Exact' is not one of"),
    (HEAD + "t,r,c,1.0,\n", "line 2: kind '' is not one of"),
    (HEAD + "t,r,c,one,size\n", "line 2: 'one' is no number, so not size"),
    (HEAD + "t,r,c,,rounding\n", "line 2: '' is no number, so not rounding"),
    (HEAD + "t,r,c,nan,size\n", "line 2: 'nan' is no number"),
    (HEAD + "t,r,c,inf,size\n", "line 2: 'inf' is no number"),
    (HEAD + "t,r,c,1e999,size\n", "line 2: '1e999' is no number"),
    (HEAD + 't,r,c,"[1, x]",rounding\n', "line 2: .* is no number"),
    (HEAD + "t,r,c,1 to,size\n", "line 2: '1 to' is no number"),
    (HEAD + ROW + ROW, "line 3: the same figure stands in line 2"),
    (HEAD + 't,r,"c"x,1.0,exact\n', "line 2: not valid CSV"),
    (HEAD + 't,r,"c,1.0,exact\n', "line 2: not valid CSV"),
]


@pytest.mark.parametrize(("text", "sentence"), PUBLISHED)
def test_published_figures_are_refused(tmp_path, text, sentence):
    path = tmp_path / "page.csv"
    path.write_text(text, encoding="utf-8")
    refused(lambda: ledger.read_published(path), "page.csv", sentence)


def made():
    recorder = trace.Recorder()
    recorder.add(0, "param", [1.0, 2.0], "float32", "w")
    recorder.add(1, "param", [1.5, 2.5], "float32", "w")
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": "burn/x"})


def whole(**changes):
    return lambda metadata: metadata | changes


def first(**changes):
    def change(metadata):
        metadata["contents"][0] |= changes
        return metadata

    return change


TRACES = [
    (whole(schema=2), "has trace schema 2; this version reads 1"),
    (whole(schema="1"), "has trace schema '1'"),
    (whole(schema=True), "has trace schema True"),
    (whole(contents=None), "metadata is malformed"),
    (whole(contents={}), "holds 4"),
    (whole(contents=[]), "lists 0 values in its metadata but holds 4"),
    (whole(contents=[3]), "metadata is malformed"),
    (whole(contents=[[]]), "metadata is malformed"),
    (whole(contents="abc"), "metadata is malformed"),
    (whole(run=3), "run is not text"),
    (whole(run=["a"]), "run is not text"),
    (first(shape=None), "metadata is malformed"),
    (first(shape=[2.0]), "metadata is malformed"),
    (first(shape=["2"]), "metadata is malformed"),
    (first(shape=[2, 2]), "at a wrong row or with a wrong shape"),
    (first(shape=[]), "at a wrong row or with a wrong shape"),
    (first(shape=[1] * 65 + [2]), "metadata is malformed"),
    (first(tensor=None), "metadata is malformed"),
    (first(tensor="v"), "column 'tensor' is not what its metadata lists"),
    (first(quantity="grad"), "column 'quantity' is not what its metadata lists"),
    (first(step=1), "lists a tensor twice"),
    (first(step=-1), "metadata is malformed"),
    (first(step=0.5), "metadata is malformed"),
    (first(first_row="0"), "metadata is malformed"),
    (first(first_row=-1), "metadata is malformed"),
    (first(dtype=None), "metadata is malformed"),
    (first(dtype="Float32"), "metadata is malformed"),
    (first(dtype=["float32"]), "metadata is malformed"),
]


@pytest.mark.parametrize("change", TRACES)
def test_a_trace_is_refused(tmp_path, change):
    path = tmp_path / "bad.parquet"
    trace.write(made(), path)
    raw = json.loads(pq.ParquetFile(path).metadata.metadata[b"pitb"])
    table = pq.read_table(path)
    alter, sentence = change
    pq.write_table(table.replace_schema_metadata({"pitb": json.dumps(alter(raw))}), path)
    refused(lambda: trace.read(path), "bad.parquet", sentence)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (None, "is a trace of its own, not a part of one"),
        ({"recording": 1, "number": 0, "finished": True}, "no usable 'part'"),
        ({"recording": "a", "number": "0", "finished": True}, "no usable 'part'"),
        ({"recording": "a", "number": 0, "finished": 1}, "no usable 'part'"),
        ({"recording": "a", "number": 7, "finished": True}, "is part 7 of its recording"),
    ],
)
def test_a_folder_of_parts_is_refused(tmp_path, told, sentence):
    found = made()
    found.metadata |= {} if told is None else {"part": told}
    trace.write(found, tmp_path / "part-000000.parquet")
    refused(lambda: parts.read(tmp_path), "part-000000.parquet", sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a": 1,}', "is not valid JSON: .* line 1, column [89]"),
        ('{"a": [1, "x"]}', "a holds something that is not a number"),
        ('{"a": {"b": null}}', "a.b holds something that is not a number"),
        ('{"a": [[1, 2], [3]]}', "a is a list whose rows differ in length"),
        ('{"a": 1e400, "a": 2}', "key 'a' is given twice"),
        ("\ufeff{}", "is not valid JSON"),
        ("NaN NaN", "is not valid JSON"),
    ],
)
def test_json_is_refused(tmp_path, text, sentence):
    path = tmp_path / "bad.json"
    path.write_text(text, encoding="utf-8")
    refused(lambda: compare.compare_files(path, path, 1e-6), "bad.json", sentence)


POINT = "design: [{list: [{optimizer: SGD, lr: 1}]}]"
WHOLE = "design: [{random: {n: 2, seed: 1, axes: {optimizer: SGD, lr: 1}}}]"
HUGE = "design: [{grid: {optimizer: [SGD], lr: [0%s], options: {momentum: [0%s]}}}]"
SWEEPS = [
    ("- a", "must be keys and values"),
    (f"name: null\n{POINT}", "line 1: name is null, but must be text"),
    (f"name: a b\n{POINT}", "line 1: name: .a b. is not a name of letters, digits"),
    (f"name: bad\nquantities: []\n{POINT}", "line 2: quantities is empty"),
    (f"name: bad\nquantities: [loss, loss]\n{POINT}", "line 2: quantities: .*non-unique"),
    (f"name: bad\ntolerance: -1\n{POINT}", "line 2: tolerance: -1 is less than the minimum"),
    (f"name: bad\ntolerance: 1e400\n{POINT}", "line 2: tolerance is not a finite number"),
    (f"name: bad\nbatches: 0\n{POINT}", "line 2: batches: 0 is less than the minimum of 1"),
    (f"name: bad\nbatches: 2.5\n{POINT}", "line 2: batches is 2.5, but must be of type integer"),
    (f"name: bad\n{POINT.replace('lr: 1', 'lr: 1e400')}", r"list\[0\].lr is not a finite number"),
    (f"name: bad\n{POINT.replace('lr: 1', 'lr: yes')}", r"list\[0\].lr is .yes., but must be"),
    (
        f"name: bad\n{POINT.replace('lr: 1', 'lr: 1, steps: 1.5')}",
        "1.5, but must be of type integer",
    ),
    (f"name: bad\n{POINT.replace('lr: 1', 'lr: 1, options: []')}", "must be keys and values"),
    (f"name: bad\n{POINT.replace('lr: 1', 'lr: 1, clip: {}')}", "scope is 'None'; allowed: global"),
    (f"name: bad\n{WHOLE.replace('n: 2', 'n: 0')}", "random.n: 0 is less than the minimum of 1"),
    (f"name: bad\n{WHOLE.replace('n: 2', 'n: 1e7')}", "10,000,000 points; .* 1,000,000 at most"),
    (f"name: bad\n{WHOLE.replace('seed: 1', 'seed: a')}", "random.seed is .a., but must be"),
    (
        f"name: bad\n{WHOLE.replace('lr: 1', 'lr: {integers: [1, 2.5]}')}",
        "integers is .1, 2.5., but must be two whole numbers",
    ),
    (
        f"name: bad\n{WHOLE.replace('lr: 1', 'lr: {uniform: [-2, -1]}')}",
        "axes.lr: .* is less than the minimum of 0",
    ),
    (
        f"name: bad\n{WHOLE.replace('lr: 1', 'lr: 1, options: {momentum: {choice: [a]}}')}",
        "momentum of SGD is .a., but must be a number",
    ),
    (f"name: bad\n{HUGE % (', 1' * 999, ', 1' * 1000)}", "1,001,000 points; .* 1,000,000 at most"),
    (f"name: bad\n{POINT.replace('SGD', '&a SGD')}", "anchors and aliases are not supported"),
]


@pytest.mark.parametrize(("text", "sentence"), SWEEPS)
def test_a_sweep_is_refused(tmp_path, text, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    refused(lambda: design.read(path), "bad.yaml", sentence)


def of_run(**changes):
    def change(metadata):
        metadata["runs"][1] |= changes
        return metadata

    return change


def of_layout(**changes):
    def change(metadata):
        metadata["layouts"][0][1] |= changes
        return metadata

    return change


BATCHES = [
    (whole(schema=2), "malformed metadata .schema 2"),
    (whole(side=3), "malformed metadata .schema 1 of the side 3"),
    (whole(side="pytorch"), "column 'side' is not what its metadata lists"),
    (whole(runs=[]), "lists 0 values in its metadata but holds 8"),
    (whole(runs=[{"run": "a", "refused": None}]), "malformed metadata .a was refused for no"),
    (whole(layouts={}), "lists the run 'a' at a wrong row or with other contents"),
    (whole(common=None), "malformed metadata"),
    (of_run(run="a"), "lists the run 'a' twice"),
    (of_run(run="c"), "column 'run' is not what its metadata lists"),
    (of_run(first_row=0), "lists the run 'b' at a wrong row"),
    (of_run(layout=-1), "lists the run 'b' at a wrong row or with other contents"),
    (of_run(own=3), "malformed metadata"),
    (of_run(refused="no"), "lists 4 values in its metadata but holds 8"),
    (of_layout(tensor="v"), "column 'tensor' is not what its metadata lists"),
    (of_layout(quantity="grad"), "column 'quantity' is not what its metadata lists"),
    (of_layout(step=2), "column 'step' is not what its metadata lists"),
    (of_layout(step=0), "lists a tensor twice"),
    (of_layout(shape=[1]), "lists 6 values|at a wrong row"),
]


@pytest.mark.parametrize(("change", "sentence"), BATCHES)
def test_a_batch_of_traces_is_refused(tmp_path, change, sentence):
    path = tmp_path / "bad.parquet"
    found = made()
    found.metadata["configuration"] = {"options": {}}
    with dataset.writing(path, "burn") as writer:
        for name in ("a", "b"):
            writer.add(name, found)
    assert list(dataset.read(path).runs) == ["a", "b"]
    raw = json.loads(pq.ParquetFile(path).metadata.metadata[b"pitb"])
    table = pq.ParquetFile(path, read_dictionary=["run", "side", "quantity", "tensor"]).read()
    with pq.ParquetWriter(path, dataset.schema(), store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"pitb": json.dumps(change(raw))})
    refused(lambda: dataset.read(path), "bad.parquet", sentence)


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        ("0of1.json", '"lr": 1', '"lr": 2', "does not hold the runs that its digest"),
        ("0of1.json", '"momentum"', '"momentun"', "does not hold the runs that its digest"),
        ("0of1.json", '"name": "sgd', '"name": "sgb', "does not hold the runs that its digest"),
        ("0of1.json", '"tolerance": 1e-06', '"tolerance": 1', "does not hold the runs that its"),
        ("0of1.json", '"loss"', '"lots"', "quantities.0. is .lots.; allowed: loss"),
        ("0of1.json", '"batch": "0of1"', '"batch": "1of1"', "does not hold the runs that its"),
        ("0of1.json", '"steps": 10', '"steps": "10"', "steps is .10., but must be of type"),
        ("sweep.json", '"0of1"', '"0of2"', "sweep.json: the digests are not those of the batches"),
        ("places.json", '"count": 1', '"count": 0', "places.json: count: 0 is less than"),
        ("places.json", ": 0}", ": 7}", "places.json: 'sgd.*' is in batch 7, and there are 1"),
    ],
)
def test_a_plan_is_refused(tmp_path, name, old, new, sentence):
    path = tmp_path / "s.yaml"
    text = POINT.replace("lr: 1", "lr: 1, options: {momentum: 0.9}")
    path.write_text(f"name: s\n{text}\n", encoding="utf-8")
    sweep = plan.write(path, tmp_path)
    changed = tmp_path / "plan" / name
    content = changed.read_text(encoding="utf-8")
    assert old in content
    changed.write_text(content.replace(old, new, 1), encoding="utf-8")

    def read():
        plan.read_batch(tmp_path / "plan", "0of1")
        plan.read_places(sweep, tmp_path)

    refused(read, "plan", sentence)


def test_the_table_is_as_long_as_it_must_be():
    assert len(CONFIGURATIONS) + len(PUBLISHED) + len(TRACES) >= 80
    assert len(SWEEPS) + len(BATCHES) >= 40
