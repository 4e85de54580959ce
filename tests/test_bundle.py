"""A bundle and its verification: what was altered is found, also where every checksum is mended."""

import base64
import csv
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bundles
from pitb import compare, trace
from pitb.bundle import (
    contents,
    crate,
    described,
    inside,
    packing,
    provenance,
    report,
    stated,
    unpacking,
    verify,
)
from pitb.errors import PitbError
from pitb.pages import optimizer_defaults

pytestmark = pytest.mark.pipeline

TRACE = "results/traces/burn/rmsprop.parquet"
OTHER = "results/traces/burn/rmsprop-aligned.parquet"
PYTORCH = "results/traces/pytorch/rmsprop.parquet"
COMPARISON = "results/comparisons/pytorch.rmsprop--burn.rmsprop.parquet"


@pytest.fixture(scope="module")
def bundle(root, tmp_path_factory):
    return bundles.made(root, tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def good(bundle):
    return bundles.files_of(bundle)


def checked(path, folder):
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return verify.verify(path, work)


def faults(path, folder):
    return [(item["where"], item["what"]) for item in checked(path, folder)["faults"]]


def test_a_good_bundle_is_fine(bundle, tmp_path):
    found = checked(bundle, tmp_path)
    assert found["faults"] == []
    assert found["checked"]["traces"] == found["checked"]["traces trained again"] == 23
    assert found["checked"]["comparisons"] == 17
    assert found["checked"]["ledger rows"] == 258
    assert contents.hash_in_name(bundle.name) == found["hash"]
    assert "OK" in report.text(found).splitlines()[-1]


def test_what_was_not_computed_again_is_said(bundle, tmp_path):
    said = {item["where"] for item in checked(bundle, tmp_path)["not_recomputed"]}
    assert "results/evidence/noassign.json" in said
    assert "results/traces/burn/clip-norm.parquet" in said


def test_what_nothing_checks_is_said_to_be_so(good, tmp_path):
    files = {**good, "results/plots/loss.svg": b"<svg/>"}
    found = checked(bundles.packed(bundles.mended(files), tmp_path), tmp_path)
    assert found["faults"] == []
    assert {"where": "results/plots", "what": "nothing here computes it again"} in (
        found["not_recomputed"]
    )


def test_what_was_overridden_is_said(good, tmp_path):
    files = dict(good)
    overridden = {"files": ["config/config.yaml"], "overrides": {"tolerance": 1e9}}
    described_as("configuration", overridden)(files)
    found = checked(bundles.packed(bundles.mended(files), tmp_path), tmp_path)
    assert "its configuration was overridden: tolerance is 1000000000.0" in found["notes"]
    taken = {item["where"]: item["what"] for item in found["not_recomputed"]}
    assert taken["sources and configuration"] == "held by the hash alone"
    assert contents.DESCRIPTION in taken
    assert contents.CRATE in taken


def test_files_that_no_check_reads_are_listed_by_their_names(good, tmp_path):
    more = ["results/portfolio.csv", "results/findings.md.md", "results/evidence/noassign.json.md",
            "results/explainer.md", "results/comparisons/claim.md",
            "results/more/a/b.md"]  # fmt: skip
    files = {**good, **dict.fromkeys(more, b"all is well\n")}
    found = checked(bundles.packed(bundles.mended(files), tmp_path), tmp_path)
    assert found["faults"] == []
    said = {item["where"] for item in found["not_recomputed"]
            if item["what"] == "nothing here computes it again"}  # fmt: skip
    assert said == {*more[:-1], "results/more"}


def test_of_another_version_it_is_said_what_is_not_known(good, tmp_path):
    files = dict(good)
    agreed(pitb="0.9.9")(files)
    in_crate("./", "version", "0.9.9")(files)
    found = checked(bundles.packed(bundles.mended(files), tmp_path), tmp_path)
    assert found["faults"] == []
    taken = {item["where"]: item["what"] for item in found["not_recomputed"]}
    assert taken["config/published"] == "this pitb knows no published figures of pitb 0.9.9"


def test_the_hashes_of_published_figures_are_current(root):
    """Make ``make libraries`` after a change of config/published or of the schema."""
    assert stated.published() == stated.digests(root)
    assert "config/published/one-step.csv" in stated.published()


# -- what a forger changes, and mends what depends on it ----------------------------------------


def rewritten(content, change, metadata=None):
    """A Parquet trace with another value or metadata, written as the project does."""
    found = read(content)
    if change is not None:
        change(found)
    for path, value in (metadata or {}).items():
        into = found.metadata
        *outer, last = path.split(".")
        for key in outer:
            into = into[key]
        into[last] = value
    return written(found)


def written(found):
    """A trace as the project writes it, with its contents listed anew."""
    sink = io.BytesIO()
    listed = {**found.metadata, "contents": [entry.listed() for entry in found.entries]}
    with trace.parquet_writer(sink) as writer:
        writer.write_table(trace.encode_columns(found))
        writer.add_key_value_metadata({trace.METADATA_KEY: json.dumps(listed).encode()})
    return sink.getvalue()


def entries(run, change):
    """Entries of a trace left out, repeated or of another size: what ``change`` gives for each.

    It takes an entry and its values, and gives pairs of step and values, none to leave it out.
    """
    name = trace_of(run)

    def edit(files):
        found = read(files[name])
        recorder = trace.Recorder()
        for entry in found.entries:
            for step, values in change(entry, found.of(entry)):
                shape = entry.shape if len(values) == entry.count else (len(values),)
                recorder.add(step, entry.quantity, values.reshape(shape), entry.dtype, entry.tensor)
        files[name] = written(recorder.trace(found.metadata))

    return edit


def read(content):
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        told = json.loads(file.metadata.metadata[trace.METADATA_KEY])
        values = file.read()["value"].to_numpy().copy()
    listed = [trace.Entry(**{**item, "shape": tuple(item["shape"])}) for item in told["contents"]]
    return trace.Trace(listed, values, {k: v for k, v in told.items() if k != "contents"})


def lacking(run, quantity, step=None):
    """A trace without a quantity, at one step or at all."""
    return entries(
        run,
        lambda entry, values: (
            [] if entry.quantity == quantity and step in (None, entry.step)
            else [(entry.step, values)]
        ),
    )  # fmt: skip


def trace_of(run):
    return f"results/traces/{run}.parquet"


def one_value(run, step, quantity, tensor, change):
    name = trace_of(run)

    def edit(found):
        entry = found.by_key()[(step, quantity, tensor)]
        found.values[entry.first_row] = change(found.values[entry.first_row])

    return lambda files: files.update({name: rewritten(files[name], edit)})


def told(run, **metadata):
    name = trace_of(run)
    named = {key.replace("__", "."): value for key, value in metadata.items()}
    return lambda files: files.update({name: rewritten(files[name], None, named)})


def swapped(files):
    files[TRACE], files[OTHER] = files[OTHER], files[TRACE]


def swapped_and_renamed(files):
    files[TRACE], files[OTHER] = (
        rewritten(files[OTHER], None, {"run": "burn/rmsprop"}),
        rewritten(files[TRACE], None, {"run": "burn/rmsprop-aligned"}),
    )


def text(name, old, new, count=1):
    def change(files):
        before = files[name].decode()
        assert old in before
        files[name] = before.replace(old, new, count).encode()

    return change


def key_removed(name, *keys):
    """A JSON file without some of its keys."""

    def change(files):
        found = json.loads(files[name])
        for key in keys:
            del found[key]
        files[name] = json.dumps(found).encode()

    return change


def all_rates(run, lr):
    """Another rate in every row, as if the run had been given it."""
    return entries(
        run,
        lambda entry, values: [
            (entry.step, np.full_like(values, lr) if entry.quantity == "lr" else values)
        ],
    )


def removed(name):
    return lambda files: files.pop(name)


def flipped(files):
    """A comparison that says OK where the traces say MISMATCH."""
    with pq.ParquetFile(pa.BufferReader(files[COMPARISON])) as file:
        table = file.read()
        told = json.loads(file.metadata.metadata[trace.METADATA_KEY])
    told["verdict"] = "OK"
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({trace.METADATA_KEY: json.dumps(told).encode()})
    files[COMPARISON] = sink.getvalue()


def smaller(files):
    """A row of a comparison with a smaller difference."""
    with pq.ParquetFile(pa.BufferReader(files[COMPARISON])) as file:
        rows = file.read().to_pylist()
        raw = file.metadata.metadata[trace.METADATA_KEY]
    rows[7]["max_abs"] /= 2
    sink = io.BytesIO()
    schema = compare._row_schema()
    with pq.ParquetWriter(sink, schema, store_schema=False) as writer:
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        writer.add_key_value_metadata({trace.METADATA_KEY: raw})
    files[COMPARISON] = sink.getvalue()


def claims_more(files):
    """A figure that was not reproduced, called reproduced in all three ledgers."""
    name = "config/published/one-step.csv"
    rows = list(csv.reader(io.StringIO(files[name].decode())))
    assert rows[1][4] == "exact"
    before = rows[1][3]
    rows[1][3] = "77"
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    files[name] = buffer.getvalue().encode()
    ledger = list(csv.DictReader(io.StringIO(files["results/ledger.csv"].decode())))
    assert ledger[0]["printed"] == before
    ledger[0]["printed"] = "77"
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(ledger[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(ledger)
    files["results/ledger.csv"] = buffer.getvalue().encode()


def start_of_both(files):
    """Both sides start from another number, so that no comparison shows it."""

    def edit(found):
        entry = found.by_key()[(0, "param", "fc1.bias")]
        found.values[entry.first_row + 3] += 0.25

    for name in (TRACE, PYTORCH):
        files[name] = rewritten(files[name], edit)


def measured(files):
    found = json.loads(files[contents.MEASURED])
    found["measured"]["machine"]["cores"] = 4096
    files[contents.MEASURED] = packing.json_bytes(found)


def described_as(key, value):
    def change(files):
        found = json.loads(files[contents.DESCRIPTION])
        found[key] = value
        files[contents.DESCRIPTION] = packing.json_bytes(found)

    return change


def together(*changes):
    def change(files):
        for each in changes:
            each(files)

    return change


def agreed(**changed):
    """What bundle.json says, with the crate made to agree."""

    def change(files):
        found = json.loads(files[contents.DESCRIPTION])
        before = found["result"]
        for key, value in changed.items():
            found[key] = {**found[key], **value} if isinstance(value, dict) else value
        files[contents.DESCRIPTION] = packing.json_bytes(found)
        whole = json.loads(files[contents.CRATE])
        entities = {item["@id"]: item for item in whole["@graph"]}
        for name, version in found["versions"].items():
            entities["#" + name]["softwareVersion"] = version
        entities["#run"]["description"] = found["result"]
        described = entities["./"]["description"].removesuffix(before)
        entities["./"]["description"] = described + found["result"]
        files[contents.CRATE] = packing.json_bytes(whole)

    return change


def in_crate(identifier, key, value):
    def change(files):
        whole = json.loads(files[contents.CRATE])
        (item,) = [item for item in whole["@graph"] if item["@id"] == identifier]
        item[key] = value
        files[contents.CRATE] = packing.json_bytes(whole)

    return change


def fewer(files):
    """Parts of which each has another number of files than are there."""
    parts = json.loads(files[contents.DESCRIPTION])["parts"]
    parts[0]["files"] += 1
    agreed(parts=parts)(files)


def against(run, other=None):
    """The comparison of burn's run with PyTorch's."""
    plain = (other or run).partition("-")[0]
    return f"results/comparisons/pytorch.{plain}--burn.{run}.parquet"


ADAGRAD, ADAMW, SGDM = (trace_of(f"burn/{name}") for name in ("adagrad", "adamw", "sgdm"))
DEFAULTS = "results/evidence/defaults/burn.json"
TABLES = "results/tables/optimizer-defaults"
ALTERATIONS = {
    "numbers": {
        "a parameter": (
            one_value("burn/rmsprop", 10, "param", "fc1.weight", lambda value: value + 10),
            [(f"{COMPARISON}, row", "max_abs of param fc1.weight at step 10"),
             (TRACE, "trained again"), ("results/ledger.csv", "but the traces give")],
        ),
        "a parameter by little": (
            one_value("burn/adamw", 4, "param", "fc2.bias",
                      lambda value: np.nextafter(np.float32(value), np.float32(9))),
            [(f"{against('adamw')}, row", "of param fc2.bias at step 4")],
        ),
        "a loss": (
            one_value("burn/adagrad", 3, "loss", "", lambda value: value * 1.01),
            [(f"{against('adagrad')}, row", "loss at step 3"), (ADAGRAD, "loss at step 3[0]")],
        ),
        "a gradient": (
            one_value("burn/sgdm", 2, "grad", "fc1.weight", lambda value: value + 1e-3),
            [(SGDM, "grad of fc1.weight at step 2[0]: it is")],
        ),
        "a state": (
            one_value("burn/rmsprop-aligned", 5, "state.square_avg", "fc1.bias",
                      lambda value: value * 2 + 1e-3),
            [(OTHER, "state.square_avg of fc1.bias at step 5[0]: it is")],
        ),
        "a rate": (
            one_value("burn/sgdm-aligned", 5, "lr", "", lambda value: value * 2),
            [(trace_of("burn/sgdm-aligned"), "trained again")],
        ),
        "a number that is none": (
            one_value("burn/adagrad-aligned", 5, "param", "fc1.bias", lambda value: float("nan")),
            [(against("adagrad-aligned"), "its error is")],
        ),
    },
    "traces": {
        "two traces": (swapped, [(TRACE, "its metadata says run 'burn/rmsprop-aligned'")]),
        "another rate told": (
            told("burn/adagrad", configuration__lr=0.5), [(ADAGRAD, "its metadata says lr 0.5")]
        ),
        "another option told": (
            told("burn/adamw", configuration__options__epsilon=1e-3),
            [(ADAMW, "its metadata says epsilon 0.001, but the configuration gives 1e-05")],
        ),
        "another problem told": (
            told("burn/sgdm", model__name="conv"), [(SGDM, "says problem 'conv'")]
        ),
        "threads told": (
            told("pytorch/sgd", threads=8), [(trace_of("pytorch/sgd"), "says threads 8")]
        ),
    },
    "traces and their names": {
        "two traces": (
            swapped_and_renamed,
            [(TRACE, "its metadata says momentum 0.0"), (OTHER, "its metadata says momentum 0.9")],
        ),
    },
    "what a trace says of itself": {
        "an unknown option": (
            told("burn/adagrad", configuration__options__magic=1),
            [(ADAGRAD, "has the option 'magic', which AdaGrad has not")],
        ),
        "an unknown key": (
            told("burn/adamw", configuration__magic=1),
            [(ADAMW, "its configuration has the key 'magic'")],
        ),
        "frozen": (
            told("burn/sgdm", configuration__frozen=["fc1.bias"]),
            [(SGDM, "says frozen ['fc1.bias'], but the configuration []")],
        ),
        "accumulated": (
            told("burn/sgdm-aligned", configuration__accumulate=4),
            [(trace_of("burn/sgdm-aligned"), "says accumulate 4, but the configuration 1")],
        ),
        "taken up again": (
            told("burn/adamw-aligned", configuration__resume_step=4),
            [(trace_of("burn/adamw-aligned"), "says resume_step 4, but the configuration 0")],
        ),
        "clipping": (
            told("burn/adagrad-aligned", configuration__clipping_by="late",
                 configuration__rates=[0.1] * 10, configuration__groups=[{"lr": 1}]),
            [(trace_of("burn/adagrad-aligned"), f"says {key} ")
             for key in ("clipping_by", "rates", "groups")],
        ),
        "rates": (
            all_rates("burn/rmsprop", 0.02),
            [(TRACE, "lr at step 1 is 0.02, but the configuration gives 0.01")],
        ),
        "versions": (
            told("pytorch/rmsprop", versions__torch="2.99.0"),
            [(PYTORCH, "says torch '2.99.0', but bundle.json '2.15.0'")],
        ),
        "no version": (
            told("pytorch/adamw", versions={"pitb": "0.1.0"}),
            [(trace_of("pytorch/adamw"), "does not say the version of torch")],
        ),
        "defaults that are left out": (
            key_removed("results/evidence/defaults/pytorch.json", "Adam"),
            [("results/evidence/defaults/pytorch.json", "it lacks the defaults of Adam")],
        ),
        "burn's defaults that are left out": (
            key_removed(DEFAULTS, "LionConfig"), [(DEFAULTS, "it lacks the defaults of LionConfig")]
        ),
    },
    "what a trace lacks": {
        "its start": (
            lacking("burn/rmsprop", "param", step=0),
            [(TRACE, "it lacks the param fc1.weight of step 0"),
             (TRACE, "the reference trains its configuration, but not it")],
        ),
        "its inputs": (
            lacking("burn/rmsprop-aligned", "input"), [(OTHER, "it lacks the input x of step 0")]
        ),
        "gradients": (
            lacking("burn/adamw", "grad"),
            [(f"{ADAMW}, its contents", "it lacks grad of fc1.weight at step 1 (40 of its grad")],
        ),
        "gradients of a step": (
            lacking("burn/adagrad", "grad", step=7),
            [(f"{ADAGRAD}, its contents", "at step 7 (4 of its grad in all)")],
        ),
        "a state": (
            lacking("burn/sgdm", "state.momentum_buffer", step=3),
            [(f"{SGDM}, its contents", "state.momentum_buffer")],
        ),
        "logits": (
            lacking("burn/sgdm-aligned", "logits"),
            [(trace_of("burn/sgdm-aligned"), "it lacks logits")],
        ),
        "rates": (
            lacking("pytorch/rmsprop", "lr"), [(PYTORCH, "it lacks lr at step 1 (10 of its lr")]
        ),
        "norms": (
            lacking("pytorch/clip-global", "grad_norm"),
            [(trace_of("pytorch/clip-global"), "it lacks grad_norm")],
        ),
        "clipped gradients": (
            lacking("burn/clip-global", "clipped_grad"),
            [(trace_of("burn/clip-global"), "it lacks clipped_grad")],
        ),
        "some numbers": (
            entries("burn/adagrad-aligned", lambda entry, values: [
                (entry.step, values[:1] if entry.key == (2, "grad", "fc1.bias") else values)]),
            [(trace_of("burn/adagrad-aligned"), "it has 1 numbers, but trained again 8")],
        ),
        "nothing, but has one more": (
            entries("burn/adamw-aligned", lambda entry, values: [
                (step, values) for step in (
                    (10, 11) if entry.key == (10, "grad", "fc1.bias") else (entry.step,))]),
            [(trace_of("burn/adamw-aligned"), "the reference, trained again, has none")],
        ),
    },
    "another start": {
        "of both sides": (start_of_both, [(TRACE, "it starts from fc1.bias[3]")]),
    },
    "what follows": {
        "a verdict": (
            flipped, [(COMPARISON, "its verdict is 'OK', but the traces give 'MISMATCH'")]
        ),
        "the list of comparisons": (
            text("results/comparisons.md", "MISMATCH", "OK"),
            [("results/comparisons.md", "computed again")],
        ),
        "the summary": (
            text("results/comparisons.summary", "9 MISMATCH", "0 MISMATCH"),
            [("results/comparisons.summary", "computed again")],
        ),
        "a table": (
            text(f"{TABLES}/mismatch.md", "1.74e+00", "1.74e-09"),
            [(f"{TABLES}/mismatch.md", "1.74e-09")],
        ),
        "a Chinese table": (
            text(f"{TABLES}/mismatch.zh.md", "1.74e+00", "1.74e-09"),
            [(f"{TABLES}/mismatch.zh.md", "line")],
        ),
        "a figure": (
            text("results/tables/one-step/figures.csv", "True", "False"),
            [("results/tables/one-step/figures.csv", "but computed again")],
        ),
        "the ledger": (
            text("results/ledger.csv", ",agrees,", ",differs,"),
            [("results/ledger.csv", "it says 'differs', but the traces give")],
        ),
        "the ledger for people": (
            text("results/ledger.md", "258 agrees", "259 agrees"),
            [("results/ledger.md", "computed again")],
        ),
        "the JSON of a step": (
            text("results/evidence/train-step/burn/sgd.json", "1.140057", "1.150057"),
            [("results/evidence/train-step/burn/sgd.json", "the numbers of the trace of burn/sgd")],
        ),
        "a preflight": (
            text("results/evidence/preflight/compare-0.json", "identical", "different"),
            [("results/evidence/preflight/compare-0.json", "not what the traces give")],
        ),
        "what burn was given": (
            text("results/batches/burn-optdef-0.json", '"lr": 0.01', '"lr": 0.02'),
            [("results/batches/burn-optdef-0.json", "not what the configuration gives")],
        ),
    },
    "what it follows from": {
        "a row of a comparison": (smaller, [(f"{COMPARISON}, row 8", "max_abs of")]),
        "a ledger that claims more": (
            claims_more,
            [("config/published/one-step.csv", "it is not what pitb 0.1.0 judges by"),
             ("results/ledger.csv", "it says 'agrees', but the traces give"),
             ("results/checked.txt", "it says that all is well, but")],
        ),
        "evidence of a table": (
            text("results/evidence/discard.json", '"warnings": 0', '"warnings": 7'),
            [("results/tables/one-step/discard.md", "computed again")],
        ),
        "defaults": (
            text(DEFAULTS, '"alpha": 0.99', '"alpha": 0.5'),
            [(DEFAULTS, "RmsPropConfig has not the defaults"),
             (TRACE, "its metadata says alpha 0.99")],
        ),
        "the tolerance": (
            text("config/config.yaml", "tolerance: 1e-6", "tolerance: 1.0"),
            [(COMPARISON, "its tolerance is 1e-06, but the traces give 1.0")],
        ),
        "what varies": (measured, [(contents.MEASURED, "has not the SHA-256 that it says")]),
        "the description": (
            described_as("result", "ledger: 999 agrees"), [(contents.CRATE, "#run has description")]
        ),
    },
    "what it says of itself": {
        "a result": (
            agreed(result="ledger: 999 agrees"),
            [(contents.DESCRIPTION, "its result is 'ledger: 999 agrees', but must be")],
        ),
        "a version": (
            agreed(versions={"torch": "9.9"}),
            [(contents.DESCRIPTION, "its versions is"),
             (PYTORCH, "says torch '2.15.0', but bundle.json '9.9'")],
        ),
        "its parts": (fewer, [(contents.DESCRIPTION, "its parts is")]),
        "what it leaves out": (agreed(left_out=[]), [(contents.DESCRIPTION, "its left_out is []")]),
        "the machine": (
            in_crate("#target-of-burn", "value", "riscv64"),
            [(contents.CRATE, "#target-of-burn is 'riscv64', but the traces say")],
        ),
        "its description": (
            in_crate("./", "description", "All was reproduced."),
            [(contents.CRATE, "./ has a description that does not end with the run's result")],
        ),
        "the schema": (
            text("config/schema.json", '"enum": ["float32", "float64"]', '"type": "string"'),
            [("config/schema.json", "it is not what pitb 0.1.0 judges by")],
        ),
    },
    "what is no optimizer's": {
        "an optimizer that burn has not": (
            together(
                text("config/config.yaml", "adagrad: {optimizer: AdaGrad,",
                     "adagrad: {optimizer: Magic,"),
                told("burn/adagrad", configuration__optimizer="Magic"),
            ),
            [(ADAGRAD, "the reference cannot train what the configuration says")],
        ),
        "an option that it has not": (
            together(
                text("config/config.yaml", "adamw: {optimizer: AdamW,",
                     "adamw: {optimizer: AdamW, options: {magic: 1},"),
                told("pytorch/adamw", configuration__options__magic=1),
            ),
            [(trace_of("pytorch/adamw"), "has no option 'magic'")],
        ),
        "defaults that are none": (
            lambda files: files.update({DEFAULTS: b'{"AdaGradConfig": 3}'}),
            [(DEFAULTS, "AdaGradConfig has no defaults by name")],
        ),
    },
    "no page": {
        "the ledger, switched off": (
            described_as("configuration", {"files": ["config/config.yaml"],
                                           "overrides": {"pages": [], "tolerance": 1e9}}),
            [("results/ledger.csv", "the configuration has no page that it judges"),
             (f"{TABLES}/mismatch.md", "the configuration does not name its page")],
        ),
    },
    "less": {
        "a version": (
            described_as("versions", {"torch": "1.0"}),
            [(contents.CRATE, "#torch has softwareVersion")],
        ),
        "a trace": (removed(TRACE), [(TRACE, "it is missing: the configuration asks for it")]),
        "a table": (
            removed("results/tables/one-step/moves.md"),
            [("results/tables/one-step/moves.md", "the configuration asks for it")],
        ),
        "what varies, by a blank": (
            text(contents.MEASURED, '"machine": ', '"machine":  '),
            [(contents.MEASURED, "it was edited")],
        ),
    },
}  # fmt: skip


@pytest.mark.parametrize("kind", ALTERATIONS)
def test_an_alteration_is_found_though_all_checksums_are_mended(good, tmp_path, kind):
    files = dict(good)
    for name, (change, _) in ALTERATIONS[kind].items():
        before = dict(files)
        change(files)
        assert files != before, name
    told = faults(bundles.packed(bundles.mended(files), tmp_path), tmp_path)
    found = [f"{where}: {what}" for where, what in told]
    for name, (_, expected) in ALTERATIONS[kind].items():
        for where, what in expected:
            assert any(line.startswith(where) and what in line for line in found), (name, found)


@pytest.mark.parametrize(("factor", "found"), [(1 + 1e-13, False), (1 + 1e-9, True)])
def test_sums_may_be_added_in_another_order(bundle, tmp_path, monkeypatch, factor, found):
    """As on another processor: a norm and a root mean square that are rounded otherwise."""
    norm, row = optimizer_defaults._total_norm, compare._row
    monkeypatch.setattr(optimizer_defaults, "_total_norm", lambda run: norm(run) * factor)

    def other(*arguments):
        made = row(*arguments)
        return replace(made, rmse=made.rmse * factor)

    monkeypatch.setattr(compare, "_row", other)
    said = faults(bundle, tmp_path)
    assert bool(said) is found
    if found:
        assert any("rmse of" in what for _, what in said)
        assert any("total norm" in what for _, what in said)


# -- what nobody mended -------------------------------------------------------------------------


def unmended(files, tmp_path, name):
    return faults(bundles.packed(files, tmp_path, name), tmp_path)


def test_a_changed_byte_is_found(good, bundle, tmp_path):
    files = dict(good)
    data = bytearray(files[TRACE])
    data[5000] ^= 1
    files[TRACE] = bytes(data)
    found = unmended(files, tmp_path, bundle.name)
    assert any(where == TRACE and "its SHA-256 is" in what for where, what in found)


def test_files_more_or_less_or_others_are_found(good, bundle, tmp_path):
    files = dict(good)
    del files["README.md"], files["results/traces/burn/sgd.parquet"]
    files["results/traces/burn/more.parquet"] = b"x"
    files["scripts/pitb/__main__.py"] = b"import os\n"
    found = dict(unmended(files, tmp_path, bundle.name))
    assert "it is missing: the manifest lists it" in found["README.md"]
    assert "it is missing" in found["results/traces/burn/sgd.parquet"]
    assert "it was added" in found["results/traces/burn/more.parquet"]
    assert "its SHA-256 is" in found["scripts/pitb/__main__.py"]


def test_a_bundle_without_its_own_files_is_found(good, bundle, tmp_path):
    files = {name: content for name, content in good.items()
             if name not in (contents.CRATE, contents.MEASURED)}  # fmt: skip
    found = dict(unmended(files, tmp_path, bundle.name))
    assert "it is missing" in found[contents.CRATE]
    assert "it is missing" in found[contents.MEASURED]


def test_another_name_is_found_and_no_hash_in_it_is_said(good, bundle, tmp_path):
    wrong = bundle.name.replace("-0.1.0-", "-0.1.0-0").replace(".zip", "")[:-1] + ".zip"
    (fault,) = unmended(good, tmp_path, wrong)
    assert "its name says hash" in fault[1]
    other = tmp_path / "other"
    other.mkdir()
    found = checked(bundles.packed(good, other, "mine.zip"), other)
    assert found["faults"] == []
    assert any("carries no hash" in note for note in found["notes"])


def test_a_whole_bundle_under_another_bundles_name_is_found(good, bundle, tmp_path):
    files = dict(good)
    files["README.md"] += b"\n"
    path = bundles.packed(bundles.mended(files), tmp_path, bundle.name)
    (fault,) = faults(path, tmp_path)
    assert "what is inside is not what was given that name" in fault[1]


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_changed_byte_of_any_file_is_found(good, tmp_path_factory, data):
    name = data.draw(st.sampled_from([n for n in sorted(good) if good[n]]))
    at = data.draw(st.integers(0, len(good[name]) - 1))
    bit = data.draw(st.integers(0, 7))
    changed = bytearray(good[name])
    changed[at] ^= 1 << bit
    folder = tmp_path_factory.mktemp("byte")
    small = {name: bytes(changed)}
    for other in (contents.MANIFEST, contents.DESCRIPTION, contents.MEASURED):
        small.setdefault(other, good[other])
    for other, content in small.items():
        path = folder / other
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    found = report.Report("x")
    try:
        described.check_manifest(folder, list(small), found)
        described.check_name(folder / f"pitb-0-{packing.name_hash(good[contents.MANIFEST])}.zip",
                             folder, found)  # fmt: skip
        described.check_measured(folder, list(small), found)
    except PitbError:
        return
    # The rest of the manifest is missing here, so what counts is a fault of this very file.
    own = [f for f in found.faults if "missing" not in f.what]
    assert own, (name, at)


# -- making it ------------------------------------------------------------------------------------


def test_two_bundles_of_the_same_results_are_the_same_bytes(root, bundle, tmp_path):
    again = bundles.made(root, tmp_path)
    assert again.name == bundle.name
    assert again.read_bytes() == bundle.read_bytes()


def test_what_varies_is_not_in_the_hash_and_nothing_else_is_left_out_of_it(good):
    changed = {**good, contents.MEASURED: packing.sealed({"other": "machine"})}
    assert (
        packing.manifest({k: v for k, v in changed.items() if k != contents.MANIFEST})
        == (good[contents.MANIFEST])
    )
    listed = [line.split("  ", 1)[1] for line in good[contents.MANIFEST].decode().splitlines()]
    assert sorted(listed) == sorted(set(good) - {contents.MANIFEST, contents.MEASURED})


def test_it_holds_what_it_must_and_says_what_it_does_not(good, root):
    for name in ("requirements.lock", "Cargo.lock", "config/config.yaml", "README.md", "Snakefile",
                 "config/published/one-step.csv", TRACE, "results/ledger.parquet"):  # fmt: skip
        assert name in good, name
    found = json.loads(good[contents.DESCRIPTION])
    left_out = {item["path"]: item["why"] for item in found["left_out"]}
    assert "make slice" in left_out["results/breadth-slice/traces"]
    varying = json.loads(good[contents.MEASURED])["measured"]
    assert varying["logs"]["make_ledger"].startswith("ledger:")
    assert float(varying["benchmarks"]["make_ledger"]["s"]) > 0
    assert {job["rule"] for job in varying["jobs"]} >= {"train_pytorch_0", "make_ledger"}
    assert str(root) not in good[contents.MEASURED].decode()


def test_entries_are_in_order_and_without_times(bundle):
    with zipfile.ZipFile(bundle) as archive:
        entries = archive.infolist()
    assert [entry.filename for entry in entries] == sorted(entry.filename for entry in entries)
    assert {entry.date_time for entry in entries} == {packing.TIME}
    assert {entry.external_attr for entry in entries} == {packing.MODE << 16}


def test_the_crate_says_what_ran(good):
    graph = {item["@id"]: item for item in json.loads(good[contents.CRATE])["@graph"]}
    jobs = [item for item in graph.values() if item["@id"].startswith("#job-")]
    (trained,) = [item for item in jobs if item["name"].startswith("train_pytorch_0 ")]
    assert {"@id": PYTORCH} in trained["result"]
    assert {"@id": "config/config.yaml"} in trained["object"]
    assert trained["instrument"] == {"@id": "scripts/train_pytorch.py"}
    assert graph["#torch"]["softwareVersion"] == "2.15.0"
    assert graph["#burn"]["softwareVersion"] == "0.22.1"
    assert {"#rustc", "#python", "#snakemake"} <= set(graph)
    assert "258 agrees" in graph["#run"]["description"]
    made = {part["@id"] for job in jobs for part in _listed(job["result"])}
    there = {name for name in good if name.startswith("results/")}
    assert there <= made


def _listed(value):
    return value if isinstance(value, list) else [value]


def test_the_sources_must_be_a_commits(tmp_path, root):
    from pitb.bundle import making

    with pytest.raises(PitbError, match="git cannot list the sources"):
        making.sources(tmp_path, False)
    for words in (["init", "-q"], ["add", "."]):
        making._git(tmp_path, *words)
    with pytest.raises(PitbError, match="git cannot list the sources"):
        making.sources(tmp_path, False)
    (tmp_path / "Snakefile").write_text("x")
    (tmp_path / "文 档.md").write_text("x")
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    making._git(tmp_path, "add", ".")
    making._git(tmp_path, *identity, "commit", "-qm", "x")
    found = making.sources(tmp_path, False)
    assert found.files == ("Snakefile", "文 档.md")
    assert found.changed == ()
    (tmp_path / "Snakefile").write_text("y")
    (tmp_path / "new").write_text("y")
    with pytest.raises(PitbError, match=r"differ from the last commit \(Snakefile, new\)"):
        making.sources(tmp_path, False)
    assert making.sources(tmp_path, True).changed == ("Snakefile", "new")


def record(folder, output, **changed):
    """What Snakemake leaves behind of an output; long names stand in folders."""
    encoded = base64.urlsafe_b64encode(output.encode()).decode()
    parts = [encoded[i : i + 254] for i in range(0, len(encoded), 254)]
    path = folder.joinpath(".snakemake/metadata", *(f"@{part}" for part in parts[:-1]), parts[-1])
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {
        "rule": "train",
        "shellcmd": f"python {folder}/scripts/train.py --out {folder}/results",
        "input": [f"{folder}/scripts/train.py", "results/x"],
        "log": ["results/logs/train.log"],
        "starttime": 1.0,
        "endtime": 2.0,
        "incomplete": False,
    }
    path.write_text(json.dumps({**found, **changed}), encoding="utf-8")


def test_jobs_are_what_snakemake_has_recorded(tmp_path):
    long = f"results/{'长' * 90}.parquet"
    record(tmp_path, "results/a.parquet")
    record(tmp_path, long)
    record(tmp_path, "results/half", incomplete=True)
    record(tmp_path, "results/other", rule="unasked")
    record(tmp_path, "results/folder", rule="copy", shellcmd="cp a b")
    wanted = ["results/a.parquet", long, "results/half", "results/folder/x", "results/none"]
    copied, trained = provenance.jobs(tmp_path, wanted, tmp_path)
    assert trained.outputs == tuple(sorted(["results/a.parquet", long]))
    assert trained.inputs == ("scripts/train.py", "results/x")
    assert trained.command == "python scripts/train.py --out results"
    assert provenance.tool(trained) == "scripts/train.py"
    assert provenance.tool(copied) == "cp"
    assert provenance.unrecorded([copied, trained], wanted) == ["results/half", "results/none"]
    with pytest.raises(PitbError, match="has no record of what made the results"):
        provenance.jobs(tmp_path, ["results/none"], tmp_path)
    (tmp_path / ".snakemake/metadata/x").write_text("{}")
    with pytest.raises(PitbError, match="is no record of Snakemake 9's"):
        provenance.jobs(tmp_path, wanted, tmp_path)


# -- small things -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pitb-0.1.0-" + "a" * 32 + ".zip", "a" * 32),
        ("pitb-0.1.0-" + "a" * 32 + " (1).zip", "a" * 32),
        ("mine.zip", None),
        ("pitb-0.1.0-" + "a" * 31 + ".zip", None),
        ("pitb-0.1.0-" + "a" * 33 + ".zip", None),
        ("a" * 32 + "-" + "b" * 32, None),
    ],
)
def test_the_hash_in_a_name(name, found):
    assert contents.hash_in_name(name) == found


def test_the_first_difference_of_two_texts():
    assert inside.first_difference("a\nb", "a\nc") == "line 2 is 'b', but computed again 'c'"
    assert inside.first_difference("a\nb\nc", "a\nb") == "it has 3 lines, but computed again 2"
    assert "line ends" in inside.first_difference("a\r\n", "a\n")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a/b.parquet", "application/vnd.apache.parquet"), ("LICENSE", "text/plain"),
     ("a.b/c", "text/plain"), ("x.zh.md", "text/markdown"), ("x.svg", "image/svg+xml")],
)  # fmt: skip
def test_media_types(name, kind):
    assert crate.encoding(name) == kind


def test_what_is_unpacked_is_what_was_packed(good, bundle, tmp_path):
    with unpacking.opened(bundle) as archive:
        archive.unpack(tmp_path)
    found = {path.relative_to(tmp_path).as_posix(): path.read_bytes()
             for path in tmp_path.rglob("*") if path.is_file()}  # fmt: skip
    assert found == good
