"""Traces read without pyarrow are the traces that it reads, and are refused for the same faults."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb import parquet, trace
from pitb.errors import PitbError

VALUES = st.floats(allow_nan=True, allow_infinity=True)


@settings(max_examples=30, deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 4), max_size=3), min_size=1, max_size=6),
    data=st.data(),
)
def test_it_reads_what_pyarrow_reads(tmp_path_factory, shapes, data):
    recorder = trace.Recorder()
    for step, shape in enumerate(shapes):
        count = int(np.prod(shape, dtype=int))
        values = data.draw(st.lists(VALUES, min_size=count, max_size=count))
        recorder.add(step, "param", np.array(values).reshape(shape), "float64", f"层.{step}")
    found = recorder.trace({"schema": 1, "run": "pytorch/x"})
    path = tmp_path_factory.mktemp("trace") / "x.parquet"
    trace.write(found, path)
    a, b = trace.read(path), parquet.read_trace(path)
    assert a.entries == b.entries
    assert a.metadata == b.metadata
    assert a.values.tobytes() == b.values.tobytes()


def rewritten(path, change):
    table = pq.read_table(path)
    raw = pq.ParquetFile(path).metadata.metadata[trace.METADATA_KEY]
    with pq.ParquetWriter(path, change(table).schema, store_schema=False) as writer:
        writer.write_table(change(table))
        writer.add_key_value_metadata({trace.METADATA_KEY: raw})


def column(name, values):
    def change(table):
        position = table.schema.get_field_index(name)
        return table.set_column(position, table.schema.field(position).with_type(values.type),
                                values)  # fmt: skip

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.drop_columns("index"), "no column 'index'"),
        (column("step", pa.array([1, 1, 1], pa.int64())), "column 'step'"),
        (column("step", pa.array([1, 2, 1], pa.int32())), "column 'step' is not what"),
        (column("quantity", pa.array(["param", "x", "param"])), "column 'quantity' is not what"),
        (column("tensor", pa.array(["w", "w", "v"])), "column 'tensor' is not what"),
        (column("index", pa.array([0, 1, 1], pa.int64())), "column 'index' is not what"),
        (lambda t: t.slice(0, 2), "lists 3 values in its metadata but holds 2"),
        (lambda t: pa.concat_tables([t, t]), "lists 3 values in its metadata but holds more"),
    ],
)
def test_another_table_is_refused(tmp_path, change, said):
    recorder = trace.Recorder()
    recorder.add(1, "param", [1.0, 2.0, 3.0], "float32", "w")
    path = tmp_path / "x.parquet"
    trace.write(recorder.trace({"schema": 1, "run": "x"}), path)
    rewritten(path, change)
    with pytest.raises(PitbError, match=said):
        parquet.read_trace(path)


def test_nulls_more_columns_and_what_is_no_file_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    with pytest.raises(PitbError, match="does not exist"):
        parquet.read_trace(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(PitbError, match="is not a readable Parquet file"):
        parquet.read_trace(path)
    pq.write_table(pa.table({"a": pa.array([1, None], pa.int64())}), path)
    with pytest.raises(PitbError, match="column 'a' holds nulls"):
        parquet.read_records(path, {"a": "int64"})
    assert parquet.read_records(path, {"a": "int64"}, nullable=True)[0] == [{"a": 1}, {"a": None}]
    with pytest.raises(PitbError, match="more than 1 rows"):
        parquet.read_records(path, {"a": "int64"}, nullable=True, most=1)
    pq.write_table(pa.table({"a": [1], "b": [2]}), path)
    with pytest.raises(PitbError, match="has other columns than a"):
        parquet.read_records(path, {"a": "int64"})


def test_without_pyarrow_traces_are_still_read(tmp_path, monkeypatch):
    recorder = trace.Recorder()
    recorder.add(1, "param", [1.0, 2.0, 3.0], "float32", "w")
    path = tmp_path / "x.parquet"
    trace.write(recorder.trace({"schema": 1, "run": "x"}), path)
    monkeypatch.setattr(parquet, "has_pyarrow", lambda: False)
    assert trace.read(path).find(1, "param", "w").tolist() == [1.0, 2.0, 3.0]
    from pitb.diagnose import reading

    _, values, _ = reading.read(path)
    assert values[1, "param", "w"].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("shape", [[2**39, 2**39], [1] * 65, [2**40]])
def test_a_shape_beyond_all_is_refused(shape):
    raw = {"step": 1, "quantity": "param", "tensor": "w", "shape": shape, "dtype": "float32"}
    text = str({"schema": 1, "contents": [{**raw, "first_row": 0}]}).replace("'", '"')
    with pytest.raises(PitbError, match="malformed"):
        trace.parse_metadata(text.encode(), "x")
