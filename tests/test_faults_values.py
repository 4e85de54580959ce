"""Values that formats lose, files that others write, and runs that diverge."""

import json
import math

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pitb import compare, listing, parquet, trace
from pitb.compare import ERROR, MISMATCH, OK, NaNOnOneSide
from pitb.errors import PitbError
from pitb.plots import comparison as plots

NAN, INF, SMALL = math.nan, math.inf, 5e-324


def made(losses=(1.0, 0.5), params=((1.0, 2.0), (0.5, 1.5)), run="pytorch/x"):
    recorder = trace.Recorder()
    recorder.add(0, "input", [0.25], "float64", "x")
    recorder.add(0, "param", [1.0, 1.0], "float64", "w")
    for step, (loss, param) in enumerate(zip(losses, params, strict=True), start=1):
        recorder.add(step, "loss", loss, "float64")
        recorder.add(step, "param", param, "float64", "w")
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": run, "configuration": {}})


@pytest.mark.parametrize(
    ("a", "b", "verdict", "first"),
    [
        ((NAN, NAN), (NAN, NAN), MISMATCH, {"a": 1, "b": 1}),
        ((1.0, NAN), (1.0, NAN), MISMATCH, {"a": 2, "b": 2}),
        ((1.0, INF), (1.0, INF), MISMATCH, {"a": 2, "b": 2}),
        ((1.0, INF), (1.0, -INF), MISMATCH, {"a": 2, "b": 2}),
        ((1.0, INF), (1.0, 0.5), MISMATCH, {"a": 2}),
        ((1.0, 0.5), (-INF, 0.5), MISMATCH, {"b": 1}),
        ((1.0, NAN), (1.0, 0.5), ERROR, {"a": 2}),
        ((1.0, 0.5), (NAN, 0.5), ERROR, {"b": 1}),
        ((INF, NAN), (1.0, NAN), MISMATCH, {"a": 1, "b": 2}),
        ((NAN, 1.0), (INF, 1.0), ERROR, {"a": 1, "b": 1}),
        ((-0.0, 0.5), (0.0, 0.5), OK, {}),
        ((SMALL, 0.5), (0.0, 0.5), OK, {}),
        ((1.7976931348623157e308, 0.5), (-1.7976931348623157e308, 0.5), MISMATCH, {}),
    ],
)
def test_a_run_that_diverges_is_compared_to_the_end_and_never_ok(tmp_path, a, b, verdict, first):
    pair = made(a), made(b, run="burn/x")
    found = compare.attempt(*pair, 1e-6, ["loss", "param"])
    assert found.verdict == verdict
    assert {side: at["step"] for side, at in found.first_not_finite.items()} == first
    assert len(found.rows) == 4
    if verdict == ERROR:
        assert "is NaN on one side only" in found.error
        with pytest.raises(NaNOnOneSide, match="on one side only"):
            compare.compare(*pair, 1e-6, ["loss", "param"])
    compare.write(found, tmp_path / "c.parquet")
    read = compare.read(tmp_path / "c.parquet")
    assert (read.verdict, read.first_not_finite) == (verdict, found.first_not_finite)
    assert ("first_not_finite" in compare.summarised(found)) is bool(first)
    # What people read.
    text = listing.markdown([found])
    assert ("not_finite_a" in text) is bool(first)
    assert ("first not finite at step" in compare.report(found)) is bool(first)
    head, row = (line.split(",") for line in listing.csv_text([found]).splitlines())
    assert listing.was_compared(dict(zip(head, row, strict=False)))
    for draw, arguments in ((plots.losses, pair), (plots.differences, (found, None))):
        draw(tmp_path / "p.svg", *arguments)
        drawn = (tmp_path / "p.svg").read_text(encoding="utf-8")
        if draw is plots.differences:
            assert ("not finite from step" in drawn) is bool(first)
        elif first:
            assert "not finite" in drawn


def test_the_first_value_that_is_not_finite_is_found_in_each_side_of_one_tensor():
    a = made(params=((1.0, 2.0), (INF, 1.5)))
    b = made(params=((1.0, 2.0), (0.5, -INF)), run="burn/x")
    found = compare.compare(a, b, 1e-6, ["param"])
    at = {"step": 2, "quantity": "param", "tensor": "w"}
    assert found.first_not_finite == {
        "a": {**at, "index": 0, "value": "inf"},
        "b": {**at, "index": 1, "value": "-inf"},
    }
    assert "pytorch/x: first not finite at step 2 (param w[0] is inf)" in compare.report(found)


def test_an_error_that_is_no_divergence_is_no_answer():
    nothing = compare.Comparison("a", "b", 1.0, [], error="no")
    head, row = (line.split(",") for line in listing.csv_text([nothing]).splitlines())
    assert not listing.was_compared(dict(zip(head, row, strict=True)))


# -- a comparison that contradicts itself --------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"max_abs": 1e30}, "row 1 is called OK at a difference of 1e[+]30"),
        ({"max_abs": NAN}, "row 1 is called OK at a difference of nan"),
        ({"verdict": "FINE"}, "row 1 is called FINE"),
        ({"verdict": "MISMATCH"}, "row 1 is called MISMATCH"),
        ({"tolerance": 1e30}, "row 1 has another tolerance than 1e-06"),
        ({"tensor": None}, "row 1: tensor is null|null"),
        ({"rows": 1}, "which is not what its rows amount to|do not add up"),
    ],
)
def test_a_comparison_that_contradicts_itself_is_none(tmp_path, change, sentence):
    path = tmp_path / "c.parquet"
    compare.write(compare.compare(made(), made(run="burn/x"), 1e-6, ["loss", "param"]), path)
    raw = pq.ParquetFile(path).metadata.metadata[b"pitb"]
    rows = pq.read_table(path).to_pylist()
    if "rows" in change:
        rows = rows[:1]
    else:
        rows[0] |= change
    kinds = {"int64": pa.int64(), "double": pa.float64(), "string": pa.string()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in compare.ROW_COLUMNS.items()])
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table.replace_schema_metadata({b"pitb": raw}), path)
    with pytest.raises(PitbError, match=sentence):
        compare.read(path)


# -- files that others write ---------------------------------------------------------------------

ALL = made((1.0, NAN), ((INF, -0.0), (SMALL, 2.0**-149)))


def rewritten(path, columns=None, **options):
    """The trace as pyarrow writes it with other options, its metadata kept."""
    trace.write(ALL, path)
    raw = pq.ParquetFile(path).metadata.metadata[b"pitb"]
    table = pq.read_table(path).select(columns or list(trace.COLUMNS))
    pq.write_table(table.replace_schema_metadata({b"pitb": raw}), path, **options)


def metadata_of(path):
    trace.write(ALL, path)
    return pq.ParquetFile(path).metadata.metadata[b"pitb"].decode()


def with_encoding(value, index="PLAIN"):
    return {"use_dictionary": False, "column_encoding": {"value": value, "index": index}}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"compression": "zstd"}, id="zstd"),
        pytest.param({"compression": "snappy"}, id="snappy"),
        pytest.param({"compression": "gzip"}, id="gzip"),
        pytest.param({"compression": "lz4"}, id="lz4"),
        pytest.param({"compression": "brotli"}, id="brotli"),
        pytest.param({"use_dictionary": True}, id="dictionary"),
        pytest.param(with_encoding("BYTE_STREAM_SPLIT"), id="byte stream split"),
        pytest.param(with_encoding("PLAIN", "DELTA_BINARY_PACKED"), id="delta"),
        pytest.param({"data_page_version": "2.0"}, id="pages of version 2"),
        pytest.param({"write_page_checksum": True}, id="checksums"),
        pytest.param({"row_group_size": 1}, id="a row group for each row"),
        pytest.param({"data_page_size": 1, "write_batch_size": 1}, id="a page for each value"),
        pytest.param({"columns": list(trace.COLUMNS)[::-1]}, id="columns in another order"),
    ],
)
@pytest.mark.parametrize("reader", [trace.read, parquet.read_trace])
def test_other_encodings_and_orders_are_read_to_the_bit(tmp_path, options, reader):
    path = tmp_path / "x.parquet"
    rewritten(path, **options)
    found = reader(path)
    assert found.entries == ALL.entries
    assert found.values.tobytes() == ALL.values.tobytes()


def test_an_empty_tensor_is_compared_and_alone_is_nothing(tmp_path):
    recorder = trace.Recorder()
    recorder.add(0, "param", np.empty((0, 3)), "float32", "w")
    recorder.add(1, "param", np.empty((0, 3)), "float32", "w")
    empty = recorder.trace({"schema": 1, "run": "x"})
    trace.write(empty, tmp_path / "x.parquet")
    found = trace.read(tmp_path / "x.parquet")
    with pytest.raises(PitbError, match="hold no value to compare"):
        compare.compare(found, found, 1e-6, ["param"])


def test_files_of_polars_are_read_where_they_keep_the_metadata(tmp_path):
    path = tmp_path / "x.parquet"
    raw = metadata_of(path)
    frame = polars.read_parquet(path)
    frame.write_parquet(path, metadata={"pitb": raw})
    for reader in (trace.read, parquet.read_trace):
        assert reader(path).values.tobytes() == ALL.values.tobytes()
    frame.write_parquet(path)
    with pytest.raises(PitbError, match="its metadata has no key 'pitb'"):
        trace.read(path)


def test_files_of_duckdb_are_read_where_they_keep_the_metadata(tmp_path):
    source, path = tmp_path / "a.parquet", tmp_path / "b.parquet"
    raw = metadata_of(source).replace("'", "''")
    select = f"COPY (SELECT * FROM '{source}') TO '{path}'"
    duckdb.sql(f"{select} (FORMAT parquet, KV_METADATA {{pitb: '{raw}'}})")
    for reader in (trace.read, parquet.read_trace):
        assert reader(path).values.tobytes() == ALL.values.tobytes()
    duckdb.sql(f"{select} (FORMAT parquet)")
    with pytest.raises(PitbError, match="its metadata has no key 'pitb'"):
        trace.read(path)


def test_a_null_is_refused_with_its_column(tmp_path):
    path = tmp_path / "x.parquet"
    raw = metadata_of(path)
    table = pq.read_table(path)
    values = table["value"].to_pylist()
    nulls = pa.array([None, *values[1:]], pa.float64())
    table = table.set_column(4, pa.field("value", pa.float64()), nulls)
    pq.write_table(table.replace_schema_metadata({"pitb": json.dumps(json.loads(raw))}), path)
    for reader in (trace.read, parquet.read_trace):
        with pytest.raises(PitbError, match="column 'value' holds nulls"):
            reader(path)
