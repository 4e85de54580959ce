"""Compiled code compares as Python does, to the bit, or leaves it to Python."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fuzzing import by_compiled_code
from pitb import compare, trace
from pitb.errors import PitbError
from pitb.stream import compiled
from pitb.stream.statistics import CHUNK

FINITE = {
    "float32": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "float64": st.floats(allow_nan=False, allow_infinity=False, min_value=-1e150, max_value=1e150),
}
SETTINGS = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@pytest.fixture(autouse=True)
def built():
    if compiled.library() is None:
        pytest.fail("build it first: cargo build --release --locked --package pitb-compare")


def made(values, dtype="float32", run="a", start=(1.0, 2.0), **metadata):
    """A trace of one step more than there are lists of values."""
    recorder = trace.Recorder()
    recorder.add(0, "input", [0.5], "float64", "x")
    recorder.add(0, "param", [start], dtype, "w")
    for step, more in enumerate(values, start=1):
        recorder.add(step, "loss", 0.5, dtype)
        recorder.add(step, "param", more, dtype, "w")
        recorder.add(step, "param", np.empty((0, 3)), dtype, "none")
        recorder.add(step, "state.momentum", [step, step], dtype, "w 权")
    common = {"schema": trace.SCHEMA_VERSION, "run": run, "configuration": {}}
    return recorder.trace(common | metadata)


def written(folder, a, b):
    paths = folder / "a.parquet", folder / "b.parquet"
    for one, path in zip((a, b), paths, strict=True):
        trace.write(one, path)
    return paths


def by_python(a, b, tolerance, quantities):
    return compare.compare(compare.load(a), compare.load(b), tolerance, quantities)


def check_same(paths, tolerance=0.0):
    """Both answers, to the last bit: a text of a number tells 0 and -0, and equals itself."""
    found = by_compiled_code(*paths, tolerance)
    assert found is not None
    wanted = by_python(*paths, tolerance, found.quantities)
    assert repr(found) == repr(wanted)
    assert found.counts() == wanted.counts()
    assert list(found.not_compared) == list(wanted.not_compared)
    return found


@pytest.mark.parametrize("dtype", FINITE)
@settings(**SETTINGS)
@given(data=st.data())
def test_the_answers_are_the_same_to_the_bit(tmp_path, dtype, data):
    size = data.draw(st.integers(1, 300))
    values = arrays.arrays(np.float64, size, elements=FINITE[dtype])
    a, b = data.draw(values), data.draw(values)
    if data.draw(st.booleans()):
        b = np.where(data.draw(arrays.arrays(np.bool_, size)), a, b)
    check_same(written(tmp_path, made([a, b], dtype), made([b, b], dtype, "b")))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
@pytest.mark.parametrize(
    "size", [1, 7, 8, 9, 127, 128, 129, 1000, 8192, 8193, CHUNK - 1, CHUNK + 9]
)
def test_sums_are_added_in_the_same_order(tmp_path, dtype, size):
    random = np.random.default_rng(size)
    a, b = random.normal(size=(2, size)) * np.exp(random.normal(size=(2, size)) * 9)
    if dtype == "float32":
        a, b = (values.astype(np.float32).astype(np.float64) for values in (a, b))
    found = check_same(written(tmp_path, made([a, a], dtype), made([b, a], dtype, "b")), 1e-3)
    assert found.verdict == compare.MISMATCH
    row = found.at(1, "param", "w")[0]
    assert row.rmse == pytest.approx(np.sqrt(np.mean((a - b) ** 2)), rel=1e-12)
    assert (row.a, row.b) == (a[row.worst_index], b[row.worst_index])


def test_threads_and_row_groups_change_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "ROW_GROUP", 1 << 16)
    random = np.random.default_rng(0)
    a = random.normal(size=(5, 200_000)).astype(np.float32).astype(np.float64)
    b = a + random.normal(size=a.shape).astype(np.float32) * 1e-6
    paths = written(tmp_path, made(a, start=a[0]), made(b, run="b", start=a[0]))
    answers = {repr(check_same(paths)) for _ in range(5)}
    assert len(answers) == 1


def test_a_product_that_is_rounded_up_hides_nothing(tmp_path):
    # Of float32 by name alone: what differs most, relatively, does so between subnormal doubles.
    a, b = np.ones((2, 20_000))
    b[0] = 1.24
    a[10_001], b[10_001] = 5 * 5e-324, 4 * 5e-324
    found = check_same(written(tmp_path, made([a, a]), made([b, a], run="b")))
    assert found.at(1, "param", "w")[0].relative == 0.2


def test_what_holds_no_value_is_a_sentence(tmp_path):
    paths = written(tmp_path, made([[]] * 2), made([[]] * 2, run="b"))
    for answer in (by_compiled_code, by_python):
        with pytest.raises(PitbError, match="hold no value to compare"):
            answer(*paths, 0.0, ["param"])


def test_what_is_compared_is_chosen_alike(tmp_path):
    short = written(tmp_path, made([[1.0]]), made([[1.5]], run="b"))
    assert by_compiled_code(*short) is None  # of one step logits are compared too, and are missing
    found = by_compiled_code(*short, 1.0, ["param"])
    assert repr(found) == repr(by_python(*short, 1.0, ["param"]))
    assert found.verdict == compare.OK and found.not_compared["not asked for"] == 2
    long = written(tmp_path, made([[1.0]] * 2), made([[1.5]] * 2, run="b"))
    for nothing_said in (None, []):
        found = by_compiled_code(*long, 0.0, nothing_said)
        assert found.quantities == list(compare.LONG_QUANTITIES)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(made([[1.0, NAN]] * 2), id="NaN"),
        pytest.param(made([[1.0, INF]] * 2), id="infinity"),
        pytest.param(made([[1.0, 1e200]] * 2), id="a square that is none"),
        pytest.param(made([[1.0, 2.0]] * 2, start=(1.0, 3.0)), id="another start"),
        pytest.param(made([[1.0, 2.0]] * 2, "float64"), id="another dtype"),
        pytest.param(made([[1.0, 2.0]] * 3), id="another step"),
        pytest.param(made([[[1.0], [2.0]]] * 2), id="another shape"),
        pytest.param(made([[1.0, 2.0]] * 2, error="it broke"), id="ended early"),
        pytest.param(made([[1.0, 2.0]] * 2, unfinished="ended after 2 steps"), id="not ended"),
        pytest.param(made([[1.0, 2.0]] * 2, configuration={"every": 2}), id="a recording"),
        pytest.param(made([[1.0, 2.0]] * 2, run=""), id="no name"),
        pytest.param(made([[1.0, 2.0]] * 2, schema=2), id="another schema"),
    ],
)
def test_what_is_not_of_the_common_kind_is_left_to_python(tmp_path, other):
    same = made([[1.0, 2.0]] * 2)
    a, b = written(tmp_path, same, other)
    assert by_compiled_code(a, a) is not None
    assert by_compiled_code(a, b) is None
    assert by_compiled_code(b, a) is None


def test_other_files_are_left_to_python(tmp_path):
    a, b = written(tmp_path, made([[1.0]] * 2), made([[1.0]] * 2, run="b"))
    whole = b.read_bytes()
    assert by_compiled_code(a, b) is not None
    for size in (0, 7, 11, len(whole) // 2, len(whole) - 1):
        b.write_bytes(whole[:size])
        assert by_compiled_code(a, b) is None
    b.unlink()
    assert by_compiled_code(a, b) is None
    b.mkdir()
    assert by_compiled_code(a, b) is None
    assert by_compiled_code(a, tmp_path / "\udcff") is None


@pytest.mark.parametrize(("name", "value"), [("SCHEMA_VERSION", 2), ("DTYPES", ("bool",))])
def test_what_a_trace_may_be_is_told(tmp_path, monkeypatch, name, value):
    paths = written(tmp_path, made([[1.0]] * 2), made([[1.0]] * 2, run="b"))
    assert by_compiled_code(*paths) is not None
    monkeypatch.setattr(trace, name, value)
    assert by_compiled_code(*paths) is None


def test_a_start_of_another_sign_is_another(tmp_path):
    a, b = written(tmp_path, *(made([[1.0]] * 2, start=[zero, 2.0]) for zero in (0.0, -0.0)))
    assert by_compiled_code(a, a) is not None and by_compiled_code(b, b) is not None
    assert by_compiled_code(a, b) is None


@pytest.mark.parametrize("column", ["step", "quantity", "tensor", "index"])
@pytest.mark.parametrize("row", [0, 3, 90, 4000, 4999])
def test_a_column_that_lies_is_not_believed(tmp_path, monkeypatch, column, row):
    values = np.arange(2500.0)
    a, b = written(tmp_path, made([values] * 2), made([values] * 2, run="b"))
    plain = trace.encode_columns

    def lying(run):
        table = plain(run)
        cells = table.column(column).to_pylist()
        cells[row] = cells[row] + (1 if isinstance(cells[row], int) else "x")
        place = table.schema.get_field_index(column)
        field = table.schema.field(place)
        return table.set_column(place, field, pa.array(cells, field.type))

    assert by_compiled_code(a, b) is not None
    with monkeypatch.context() as patch:
        patch.setattr(trace, "encode_columns", lying)
        trace.write(made([values] * 2, run="b"), b)
    assert by_compiled_code(a, b) is None
    with pytest.raises(PitbError, match=f"column '{column}' is not what its metadata lists"):
        compare.compare_files(a, b, 0.0)


def test_a_library_of_other_sources_is_not_used(tmp_path, monkeypatch):
    assert compiled.library() is not None
    for path in compiled.SOURCES.glob("*.rs"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(compiled, "SOURCES", tmp_path)
    fresh = compiled._loaded.__wrapped__
    assert fresh(compiled.LIBRARY) is not None
    with (tmp_path / "lib.rs").open("a") as file:
        file.write("// edited\n")
    assert fresh(compiled.LIBRARY) is None


def test_without_the_library_python_answers(tmp_path, monkeypatch):
    paths = written(tmp_path, made([[1.0]] * 2), made([[1.5]] * 2, run="b"))
    expected = compare.compare_files(*paths, 0.1)
    fresh = compiled._loaded.__wrapped__
    for name, data in (("missing", None), ("text", b"no library")):
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        assert fresh(path) is None
    monkeypatch.setattr(compiled, "library", lambda: None)
    assert by_compiled_code(*paths) is None
    assert repr(compare.compare_files(*paths, 0.1)) == repr(expected)
