import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pitb import trace
from pitb.errors import PitbError


def made(values=((1.0, 2.0), (3.0, 4.0))):
    recorder = trace.Recorder()
    recorder.add(0, "param", values, "float32", "w")
    recorder.add(1, "loss", 0.5, "float32")
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": "burn/x", "configuration": {}})


def bits(array):
    return np.asarray(array, dtype=np.float64).view(np.int64).tolist()


@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        elements=st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True),
    )
)
def test_what_is_written_is_read_back_to_the_bit(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("trace") / "t.parquet"
    written = made(values)
    trace.write(written, path)
    found = trace.read(path)
    assert found.entries == written.entries
    assert bits(found.values) == bits(written.values)
    assert found.find(0, "param", "w").shape == (values.size,)
    assert found.metadata == written.metadata


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 2.0**-149])
def test_values_that_formats_lose_are_kept(tmp_path, value):
    trace.write(made(value), tmp_path / "t.parquet")
    assert bits(trace.read(tmp_path / "t.parquet").find(0, "param", "w")) == bits([value])


def test_the_columns_are_those_of_the_contract(tmp_path):
    trace.write(made(), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    assert [(f.name, str(f.type), f.nullable) for f in table.schema] == [
        ("step", "int32", False),
        ("quantity", "string", False),
        ("tensor", "string", False),
        ("index", "int64", False),
        ("value", "double", False),
    ]
    assert table.to_pydict() == {
        "step": [0, 0, 0, 0, 1],
        "quantity": ["param"] * 4 + ["loss"],
        "tensor": ["w"] * 4 + [""],
        "index": [0, 1, 2, 3, 0],
        "value": [1.0, 2.0, 3.0, 4.0, 0.5],
    }


def test_the_same_trace_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        trace.write(made(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_nothing_is_left_where_writing_fails(tmp_path):
    target = tmp_path / "t.parquet"
    target.mkdir()
    with pytest.raises(PitbError, match=r"cannot write .* it is a folder"):
        trace.write(made(), target)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


def rewritten(path, *, columns=None, metadata=None):
    """A trace file with columns replaced, or with other metadata."""
    table = pq.read_table(path)
    raw = pq.ParquetFile(path).metadata.metadata[b"pitb"]
    for name, values in (columns or {}).items():
        position = table.schema.get_field_index(name)
        if values is None:
            table = table.remove_column(position)
        else:
            table = table.set_column(position, name, values)
    raw = raw if metadata is None else metadata(json.loads(raw))
    schema = table.schema.with_metadata({} if raw is None else {b"pitb": raw})
    pq.write_table(table.cast(schema), path)


def listing(**changes):
    def change(metadata):
        metadata["contents"][0].update(changes)
        return json.dumps(metadata)

    return change


def without(key):
    return lambda metadata: json.dumps({k: v for k, v in metadata.items() if k != key})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"metadata": lambda _: None}, "has no key 'pitb'"),
        ({"metadata": lambda _: "{"}, "metadata is malformed"),
        ({"metadata": lambda _: "[" * 100_000}, "metadata is malformed"),
        ({"metadata": lambda _: "[]"}, "metadata is malformed"),
        ({"metadata": without("contents")}, "metadata is malformed"),
        ({"metadata": without("schema")}, "has trace schema None"),
        ({"metadata": listing(shape=[3])}, "at a wrong row"),
        ({"metadata": listing(shape=[-2, -2])}, "metadata is malformed"),
        ({"metadata": listing(first_row=1)}, "at a wrong row"),
        ({"metadata": listing(extra=1)}, "metadata is malformed"),
        ({"metadata": listing(shape="ab")}, "metadata is malformed"),
        ({"metadata": listing(tensor="\ud800")}, "metadata is malformed"),
        ({"metadata": listing(quantity="x\udc80")}, "metadata is malformed"),
        ({"metadata": listing(step=1, quantity="loss", tensor="")}, "twice"),
        ({"metadata": listing(step=None)}, "metadata is malformed"),
        ({"metadata": listing(step=True)}, "metadata is malformed"),
        ({"metadata": listing(step=2**31)}, "metadata is malformed"),
        ({"metadata": listing(quantity=[])}, "metadata is malformed"),
        ({"metadata": listing(shape=[10**30])}, "metadata is malformed"),
        ({"metadata": listing(dtype="banana")}, "metadata is malformed"),
        ({"columns": {"quantity": pa.array(["banana"] * 5)}}, "column 'quantity' is not what"),
        ({"columns": {"quantity": pa.array([None] * 5, pa.string())}}, "column 'quantity'"),
        ({"columns": {"tensor": pa.array(["v"] * 4 + [""])}}, "column 'tensor' is not what"),
        ({"columns": {"step": pa.array([1, 0, 0, 0, 0], pa.int32())}}, "column 'step' is not"),
        ({"columns": {"index": pa.array([-5] * 5)}}, "column 'index' is not what"),
        ({"columns": {"value": None}}, "has no column 'value'"),
        ({"columns": {"value": pa.array([1, 2, 3, 4, 5])}}, "column 'value' is int64, not double"),
        ({"columns": {"index": pa.array(["0"] * 5)}}, "column 'index' is string"),
        ({"columns": {"value": pa.array([1.0, None, 3, 4, 5])}}, "column 'value' holds nulls"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path, change, sentence):
    path = tmp_path / "t.parquet"
    trace.write(made(), path)
    rewritten(path, **change)
    with pytest.raises(PitbError, match=sentence) as caught:
        trace.read(path)
    assert "t.parquet" in str(caught.value)


def test_no_product_is_taken_of_too_many_dimensions(monkeypatch):
    """That of a hundred thousand takes minutes."""

    def product(shape):
        assert len(shape) <= trace.MOST_DIMENSIONS
        return whole(shape)

    whole = trace.math.prod
    monkeypatch.setattr(trace.math, "prod", product)
    item = {"step": 1, "quantity": "param", "tensor": "w", "dtype": "float32", "first_row": 0}
    for shape in ([2**39] * 100_000, [1] * (trace.MOST_DIMENSIONS + 1)):
        with pytest.raises(ValueError, match=f"a shape of {len(shape)} dimensions is too large"):
            trace.parse_contents([{**item, "shape": shape}], Path("x"))
    (entry,) = trace.parse_contents([{**item, "shape": [1] * trace.MOST_DIMENSIONS}], Path("x"))
    assert entry.count == 1


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 10, b"not parquet at all"])
def test_what_is_no_parquet_is_refused(tmp_path, content):
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    with pytest.raises(PitbError, match="is not a readable Parquet file"):
        trace.read(path)
    with pytest.raises(PitbError, match="does not exist"):
        trace.read(tmp_path / "missing.parquet")


def test_an_empty_folder_is_no_trace(tmp_path):
    with pytest.raises(PitbError, match="holds no part of a trace"):
        trace.read(tmp_path)


def test_a_truncated_trace_is_refused(tmp_path):
    path = tmp_path / "t.parquet"
    trace.write(made(), path)
    whole = path.read_bytes()
    for end in range(0, len(whole), 37):
        path.write_bytes(whole[:end])
        with pytest.raises(PitbError):
            trace.read(path)


def test_a_row_group_that_says_another_number_of_rows_is_one_sentence(tmp_path):
    path = tmp_path / "x.parquet"
    recorder = trace.Recorder()
    recorder.add(0, "param", [1.0] * 21, "float32", "w")
    trace.write(recorder.trace({"schema": trace.SCHEMA_VERSION}), path)
    good = path.read_bytes()
    tried = 0
    for place in range(len(good)):
        if good[place] != 2 * 21:  # in zigzag
            continue
        path.write_bytes(good[:place] + bytes([2 * 5]) + good[place + 1 :])
        try:
            found = pq.read_metadata(path)
        except pa.ArrowException:
            continue
        if (found.num_rows, found.row_group(0).num_rows) == (21, 5):
            tried += 1
            with pytest.raises(PitbError, match="lists 21 values in its metadata but holds 5"):
                trace.read(path)
    assert tried == 1
