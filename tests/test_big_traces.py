"""Large traces: read in place or decoded, checked, compared; the same answers by every way."""

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pitb import compare, parts, trace
from pitb.diagnose.recording import load
from pitb.errors import PitbError
from pitb.explain.divergence import divergence
from pitb.explain.factorial import distance
from pitb.stream import initial, layout, opening, statistics, writing
from pitb.stream.layout import Otherwise
from pitb.stream.stored import Stored
from pitb.trace import Entry

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("big_trace", ROOT / "bench/big_trace.py")
big_trace = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(big_trace)
ODD = [0.0, -0.0, 1.0, -1.0, 1.5, np.nan, np.inf, -np.inf, 5e-324, -5e-324, 1e-310, 1e308, -1e308,
       np.float32(0.1), np.float32(1e-45), -np.float32(1e-45), 3.4028234663852886e38]  # fmt: skip
numbers = st.lists(st.sampled_from(ODD) | st.floats(width=32), min_size=1, max_size=40)


def made(values, dtype="float32", run="a"):
    recorder = trace.Recorder()
    recorder.add(0, "param", [1.0, 2.0], dtype, "w")
    recorder.add(1, "loss", 0.5, dtype)
    recorder.add(1, "param", np.empty(0), dtype, "none")
    recorder.add(1, "param", values, dtype, "w")
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": run, "configuration": {}})


def hold(monkeypatch, count):
    """Let traces of more values stay on disk."""
    monkeypatch.setattr(opening, "HELD", count)
    monkeypatch.setattr(opening, "DECODED", count)


def plainly(a, b, dtype):
    """The statistics of two tensors as NumPy and Python's whole numbers give them."""
    with np.errstate(all="ignore"):
        difference = np.abs(a - b)
        difference = np.where(np.isfinite(a) & np.isfinite(b), difference, np.inf)
        scale = np.maximum(np.abs(a), np.abs(b))
        relative = np.where(difference == 0, 0.0, difference / scale)
        relative = np.where(np.isnan(relative), np.inf, relative)
        rmse = float(np.sqrt(np.mean(np.square(difference))))
        kind, bits = ("f4", "i4") if dtype == "float32" else ("f8", "i8")
        sides = [x.astype(kind).view(bits).tolist() for x in (a, b)]
    least = 1 << (31 if dtype == "float32" else 63)
    ordered = [[n if n >= 0 else -(n + least) for n in side] for side in sides]
    apart = [abs(x - y) for x, y in zip(*ordered, strict=True)]
    nan = np.isnan(a) | np.isnan(b)
    ulp = max(np.inf if is_nan else float(n) for n, is_nan in zip(apart, nan, strict=True))
    i = int(np.argmax(difference))
    return i, float(difference[i]), ulp, float(relative.max()), rmse


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(numbers, numbers, st.sampled_from(["float32", "float64", "int64"]), st.sampled_from([0, 99]))
def test_statistics_are_those_of_whole_columns(monkeypatch, x, y, dtype, small):
    monkeypatch.setattr(statistics, "SMALL", small)  # alone, or together with the loss
    count = min(len(x), len(y))
    a, b = np.array(x[:count], dtype=np.float64), np.array(y[:count], dtype=np.float64)
    if (np.isnan(a) != np.isnan(b)).any():
        b = np.where(np.isnan(a) | np.isnan(b), 0.0, b)
        a = np.where(np.isnan(a), 0.0, a)
    row = compare.compare(made(a, dtype), made(b, dtype, "b"), 0.0, ["param"]).at(1, "param", "w")
    found = row[0].worst_index, row[0].max_abs, row[0].max_ulp, row[0].relative, row[0].rmse
    assert found == plainly(a, b, dtype)


values_of_bits = (
    st.integers(0, 2**64 - 1)
    .map(lambda bits: float(np.array(bits, dtype=np.uint64).view(np.float64)))
    .filter(np.isfinite)
)
MOVES = [0, 1, -1, 2, 3, 5, 8, 1 << 29, 3 << 29, -(5 << 29), 1 << 52]
"""By how many doubles; 1 << 29 is a float32."""


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(values_of_bits | numbers.map(lambda found: found[0]), min_size=1, max_size=60),
    st.lists(st.sampled_from(MOVES), min_size=60),
    st.sampled_from(["float32", "float64", "int64"]),
    st.sampled_from([1, 2, 7, 60]),
)
def test_what_is_not_looked_at_exceeds_nothing(monkeypatch, x, moved, dtype, chunk):
    # Chunk by chunk only what may exceed the most so far is looked at: of values that are near each
    # other, a few bits or binades apart, subnormal, or not of the dtype that the trace claims.
    a = np.array([n if np.isfinite(n) else 1.0 for n in x], dtype=np.float64)
    b = (a.view(np.int64) + np.array(moved[: len(a)])).view(np.float64)
    b = np.where(np.isfinite(b), b, a)
    monkeypatch.setattr(statistics, "CHUNK", chunk)
    monkeypatch.setattr(statistics, "_FEW", 1)
    monkeypatch.setattr(statistics, "_EACH", 2)
    row = compare.compare(made(a, dtype), made(b, dtype, "b"), 0.0, ["param"]).at(1, "param", "w")
    found = row[0].max_abs, row[0].max_ulp, row[0].relative
    assert found == plainly(a, b, dtype)[1:4]


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(numbers, st.sampled_from(["float32", "float64", "int64"])), max_size=12),
    st.lists(st.sampled_from([*MOVES, *ODD]), min_size=40, max_size=40),
    st.sampled_from([1, 40, 64, 1 << 14]),
    st.randoms(use_true_random=False),
)
def test_many_small_tensors_together_are_as_each_alone(monkeypatch, tensors, moved, room, order):
    sides = []
    names = list(range(len(tensors)))
    for side in "ab":
        recorder = trace.Recorder()
        for name in names:
            x, dtype = tensors[name]
            values = np.array(x, dtype=np.float64)
            if side == "b":
                with np.errstate(all="ignore"):
                    values = values * (1 + np.array(moved[: len(x)], dtype=np.float64) * 1e-7)
            recorder.add(1, "param", values, dtype, f"t{name}")
        sides.append(recorder.trace({"run": side}))
        order.shuffle(names)  # so that B's do not follow each other as A's do
    others = sides[1].by_key()
    pairs = [(entry, others[entry.key]) for entry in sides[0].entries]
    monkeypatch.setattr(statistics, "TOGETHER", room)
    monkeypatch.setattr(statistics, "SMALL", 0)
    alone = statistics.statistics(*sides, pairs)
    monkeypatch.setattr(statistics, "SMALL", 1 << 10)
    # By their text, as a NaN is not equal to itself.
    assert repr(statistics.statistics(*sides, pairs)) == repr(alone)


def test_what_a_thread_found_is_not_lost_where_another_lowers_the_floor(monkeypatch):
    class Lowered(statistics._Floor):
        def __setattr__(self, name, value):
            # As where another thread writes what it has computed from an older floor.
            super().__setattr__(name, 0.0 if name in ("max_ulp", "relative") else value)

    a = np.linspace(1, 2, 300).astype(np.float32).astype(np.float64)
    b = (a * (1 + 1e-6)).astype(np.float32).astype(np.float64)
    monkeypatch.setattr(statistics, "CHUNK", 100)
    whole = compare.compare(made(a), made(b, run="b"), 0.0, ["param"]).rows
    monkeypatch.setattr(statistics, "_Floor", Lowered)
    lowered = compare.compare(made(a), made(b, run="b"), 0.0, ["param"]).rows
    assert lowered == whole
    assert lowered[-1].max_ulp > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("most", [1, 3, 40, 2.0**22, 2.0**24])
def test_the_most_of_many_chunks_is_that_of_all(monkeypatch, dtype, most):
    kind, bits = ("f4", "i4") if dtype == "float32" else ("f8", "i8")
    rng = np.random.default_rng(int(most))
    for _ in range(40):
        a = (rng.normal(size=400) * 2.0 ** rng.integers(-3, 4, size=400)).astype(kind)
        moved = (most * rng.random(400) ** 2).round().astype(bits)
        b = (a.view(bits) + moved).view(kind)
        sides = [x.astype(np.float64) for x in (a, b)]
        monkeypatch.setattr(statistics, "CHUNK", 5)
        monkeypatch.setattr(statistics, "_FEW", 2)
        monkeypatch.setattr(statistics, "_EACH", 2)
        cut = compare.compare(made(sides[0], dtype), made(sides[1], dtype, "b"), 0.0, ["param"])
        row = cut.at(1, "param", "w")[0]
        assert (row.max_abs, row.max_ulp, row.relative) == plainly(*sides, dtype)[1:4]


@pytest.mark.parametrize("place", [0, 99, 100, 250, 299])
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_and_threads_change_no_answer(monkeypatch, place, threads):
    rng = np.random.default_rng(place)
    a = rng.normal(size=300).astype(np.float32).astype(np.float64)
    b = (a * (1 + 1e-6 * rng.normal(size=300))).astype(np.float32).astype(np.float64)
    b[place] = -a[place] - 9
    whole = compare.compare(made(a), made(b, run="b"), 0.0, ["param", "loss"]).rows
    monkeypatch.setattr(statistics, "CHUNK", 100)
    monkeypatch.setattr(statistics, "TASK", 100)
    monkeypatch.setattr(statistics, "THREADS", threads)
    monkeypatch.setattr(statistics, "WORTH", 1)
    monkeypatch.setattr(statistics, "LARGE", 1)
    started = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, count):
            started.append(count)
            super().__init__(count)

    monkeypatch.setattr(statistics, "ThreadPoolExecutor", Pool)
    cut = compare.compare(made(a), made(b, run="b"), 0.0, ["param", "loss"]).rows
    assert started == [2] * (threads == 2)
    near = [replace(x, rmse=y.rmse) for x, y in zip(cut, whole, strict=True)]
    assert near == whole
    assert [row.rmse for row in cut] == pytest.approx([row.rmse for row in whole], rel=1e-14)
    b[place] = np.nan
    with pytest.raises(compare.NotComparable, match=rf"\[{place}\] is NaN on one side only"):
        compare.compare(made(a), made(b, run="b"), 0.0, ["param"])


@pytest.mark.parametrize(
    "sizes, threads",
    [
        ([statistics.WORTH * statistics.TASK], 2),
        ([statistics.WORTH * statistics.TASK - 1], 1),
        ([statistics.LARGE] * (statistics.WORTH * statistics.TASK // statistics.LARGE), 2),
        ([statistics.LARGE - 1] * 200, 1),  # each would wait for the other after each call
        ([10] * 1000 + [statistics.WORTH * statistics.TASK], 2),
        ([], 1),
    ],
)
def test_threads_are_started_for_large_tensors_alone(monkeypatch, sizes, threads):
    monkeypatch.setattr(statistics, "THREADS", 2)
    entries = [trace.Entry(1, "param", f"t{i}", (n,), "float32", 0) for i, n in enumerate(sizes)]
    tasks = list(statistics._tasks([(entry, entry) for entry in entries]))
    assert statistics._threads(tasks) == threads


# -- every way to write a file gives the same answers -------------------------------------------


def rewritten(path, out, **options):
    """The same rows as another program may write them."""
    with pq.ParquetFile(path) as file:
        table, raw = file.read(), file.metadata.metadata[b"pitb"]
    pq.write_table(table.replace_schema_metadata({b"pitb": raw}), out, **options)
    return out


def nullable(path, out):
    with pq.ParquetFile(path) as file:
        table, raw = file.read(), file.metadata.metadata[b"pitb"]
    schema = pa.schema([field.with_nullable(True) for field in table.schema], {b"pitb": raw})
    pq.write_table(pa.Table.from_arrays(table.columns, schema=schema), out)
    return out


WAYS = {
    "as written": lambda path, _: path,
    "pages of 1000": lambda path, out: rewritten(
        path, out, compression="none", use_dictionary=["step", "quantity", "tensor"],
        column_encoding={"index": "DELTA_BINARY_PACKED", "value": "PLAIN"},
        write_batch_size=100, data_page_size=1000, row_group_size=3000),
    "snappy": lambda path, out: rewritten(path, out, compression="snappy"),
    "zstd, no dictionary": lambda path, out: rewritten(
        path, out, compression="zstd", use_dictionary=False),
    "all dictionaries": lambda path, out: rewritten(path, out, compression="none"),
    "pages of version 2": lambda path, out: rewritten(
        path, out, compression="none", data_page_version="2.0"),
    "texts by their lengths": lambda path, out: rewritten(
        path, out, use_dictionary=False,
        column_encoding={"quantity": "DELTA_LENGTH_BYTE_ARRAY", "tensor": "DELTA_BYTE_ARRAY"}),
    "nullable": nullable,
    "byte stream split": lambda path, out: rewritten(
        path, out, use_dictionary=False, column_encoding={"value": "BYTE_STREAM_SPLIT"}),
}  # fmt: skip


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("大 traces")
    paths = [folder / "a.parquet", folder / "b.parquet"]
    for path, apart in zip(paths, (0.0, 1e-4), strict=True):
        big_trace.write(path, 2003, 5, apart, rows=4096)
    return paths


def test_a_row_group_whose_columns_have_no_name_is_no_hindrance(pair, tmp_path, monkeypatch):
    hold(monkeypatch, 0)
    path = rewritten(
        pair[0], tmp_path / "x.parquet", use_dictionary=["step", "quantity", "tensor"],
        column_encoding={"index": "DELTA_BINARY_PACKED", "value": "PLAIN"})  # fmt: skip
    schema, first, rest = path.read_bytes().partition(b"index")
    path.write_bytes(schema + first + rest.replace(b"index", b"\xf8ndex"))
    try:
        found = np.asarray(opening.open_trace(path).values)
    except PitbError as error:
        assert str(path) in str(error)
    else:
        np.testing.assert_array_equal(found, trace.read(pair[0]).values)


def test_a_text_that_is_told_to_be_another_type_is_left_to_the_library(pair, tmp_path):
    path = tmp_path / "x.parquet"
    good = pair[0].read_bytes()
    string, other = (
        b"\x4c\x1c\0\0",
        b"\x4c\x2c\0\0",
    )  # of the new way to tell it, which is a map now
    assert good.count(string) == 2
    path.write_bytes(good.replace(string, other))
    with pytest.raises(Otherwise, match="another logical type"):
        layout.lay_out(path)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_a_file_gives_the_same_answers(pair, tmp_path, monkeypatch, way):
    hold(monkeypatch, 100)  # so that what is small here is large
    expected = compare.compare(*map(trace.read, pair), 1e-7, ["loss", "param"])
    written = [WAYS[way](path, tmp_path / path.name) for path in pair]
    opened = [compare.load(path) for path in written]
    assert all(isinstance(one.values, Stored) for one in opened)
    found = compare.compare(*opened, 1e-7, ["loss", "param"])
    assert found == expected
    assert found.rows and found.verdict == compare.MISMATCH
    for one, path in zip(opened, pair, strict=True):
        assert np.asarray(one.values).tobytes() == trace.read(path).values.tobytes()


def test_parts_are_read_in_place(pair, tmp_path, monkeypatch):
    whole = trace.read(pair[0])
    parts.write(whole, tmp_path / "parts", (3, 7, 8))
    hold(monkeypatch, 100)
    found = opening.open_trace(tmp_path / "parts")
    assert isinstance(found.values, Stored)
    assert found.entries == whole.entries
    for entry in whole.entries:
        assert found.of(entry).tobytes() == whole.of(entry).tobytes()


def test_the_first_divergence_is_the_same_from_disk(pair, monkeypatch):
    expected = divergence(*map(trace.read, pair))
    far = distance(*map(trace.read, pair), 4)
    hold(monkeypatch, 100)
    monkeypatch.setattr(initial, "CHUNK", 64)
    opened = [opening.open_trace(path) for path in pair]
    assert divergence(*opened) == expected
    assert expected.first is not None
    np.testing.assert_array_equal(distance(*opened, 4).values, far.values)
    assert compare.preflight(*opened) == compare.preflight(*map(trace.read, pair))


# -- what is wrong is not taken for right --------------------------------------------------------


def altered(path, out, column, row, value):
    with pq.ParquetFile(path) as file:
        table, raw = file.read(), file.metadata.metadata[b"pitb"]
    values = table.column(column).to_pylist()
    values[row] = value
    place = table.schema.get_field_index(column)
    changed = pa.array(values, table.schema.field(column).type)
    table = table.set_column(place, table.schema.field(column), changed)
    with trace.parquet_writer(out, **writing.page_options(4096)) as writer:
        writer.write_table(table.cast(trace.schema()), row_group_size=4096)
        writer.add_key_value_metadata({b"pitb": raw})
    return out


@pytest.mark.parametrize("held", [100, 1 << 20])
@pytest.mark.parametrize("row", [0, 1, 2500, 10018])
@pytest.mark.parametrize(
    ("column", "value"), [("step", 9), ("quantity", "lr"), ("tensor", "other"), ("index", 7777)]
)
def test_a_column_that_lies_is_named(pair, tmp_path, monkeypatch, column, value, row, held):
    hold(monkeypatch, held)
    path = altered(pair[0], tmp_path / "x.parquet", column, row, value)
    with pytest.raises(PitbError, match=f"column '{column}' is not what its metadata lists"):
        opening.open_trace(path)
    right = altered(pair[0], tmp_path / "y.parquet", "value", row, 0.25)  # the control
    layout.lay_out(right)
    assert opening.open_trace(right).values[row : row + 1] == [0.25]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_flipped_byte_is_found_or_is_a_value(pair, tmp_path_factory, data):
    """Nothing but the values themselves can change without being noticed."""
    good = pair[0].read_bytes()
    segments = layout.lay_out(pair[0]).segments
    # Most bytes are values'; what else there is stands before them and at the end.
    near = st.sampled_from([*(s.offset for s in segments), len(good)]).flatmap(
        lambda end: st.integers(max(0, end - 400), end - 1)
    )
    place = data.draw(near | st.integers(0, len(good) - 1))
    bad = bytearray(good)
    bad[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.getbasetemp() / "flipped.parquet"
    path.write_bytes(bad)
    whole = trace.read(pair[0])
    try:
        opened = opening._checked(layout.lay_out(path), path, 0)
    except (Otherwise, PitbError):
        return
    assert opened.entries == whole.entries
    differs = np.flatnonzero(
        np.asarray(opened.values).view(np.int64) != whole.values.view(np.int64)
    ).tolist()
    inside = [
        s.first_row + (place - s.offset) // 8
        for s in segments
        if s.offset <= place < s.offset + 8 * s.count
    ]
    assert differs == inside


@pytest.mark.parametrize("size", [-1, -(1 << 40), layout.MOST_ENCODED + 1])
def test_a_column_of_no_possible_size_is_not_read(pair, size):
    with (
        open(pair[0], "rb", buffering=0) as file,
        pytest.raises(Otherwise, match="too large, or ends beyond the file"),
    ):
        layout._encoded(file, layout._Chunk(1, 4, size), 1 << 30)


def test_a_file_that_shrinks_is_said_to(pair, tmp_path, monkeypatch):
    hold(monkeypatch, 100)
    path = tmp_path / "x.parquet"
    path.write_bytes(pair[0].read_bytes())
    opened = opening.open_trace(path)
    os.truncate(path, 5000)
    with pytest.raises(PitbError, match="became shorter while it was read"):
        opened.values[:]


def test_entries_beyond_a_row_group_are_cut_and_read_back(tmp_path):
    entries = [Entry(0, "param", "w", (10,), "float32", 0), Entry(1, "param", "w", (10,), "f", 10)]
    entries[1] = replace(entries[1], dtype="float32")

    def fill(entry, start, out):
        out[:] = entry.first_row + start + np.arange(len(out))

    path = tmp_path / "x.parquet"
    writing.write(path, entries, {"schema": trace.SCHEMA_VERSION}, fill, rows=7)
    assert pq.read_metadata(path).num_row_groups == 3
    assert trace.read(path).values.tolist() == list(range(20))
    assert opening.open_trace(path).values.tolist() == list(range(20))


# -- memory --------------------------------------------------------------------------------------

PEAK = """
import sys, psutil, threading, time
sys.path.insert(0, {scripts!r})
from pathlib import Path
from pitb import compare
from pitb.stream import compiled
if {alone}:
    compiled.library = lambda: None
process, most, done = psutil.Process(), [0], threading.Event()
def watch():
    while not done.is_set():
        most[0] = max(most[0], process.memory_info().rss)
        time.sleep(0.005)
thread = threading.Thread(target=watch)
thread.start()
before = process.memory_info().rss
found = compare.compare_files(Path({a!r}), Path({b!r}), 1e-6)
done.set()
thread.join()
print(found.verdict, sum(row.n for row in found.rows), most[0], before)
"""


@pytest.mark.parametrize("alone", [False, True], ids=["compiled", "Python alone"])
@pytest.mark.parametrize(
    ("parameters", "limit"),
    [(100_000, 120e6), pytest.param(10_000_000, 300e6, marks=pytest.mark.slow)],
)
def test_memory_does_not_grow_with_the_traces(tmp_path, parameters, limit, alone):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, apart in zip(paths, (0.0, 1e-6), strict=True):
        big_trace.write(path, parameters, 10, apart)
    a, b = map(str, paths)
    code = PEAK.format(scripts=str(ROOT / "scripts"), a=a, b=b, alone=alone)
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    verdict, count, most, _ = ended.stdout.split()
    assert (verdict, int(count)) == ("MISMATCH", 9 * (parameters + 1))
    assert int(most) < limit


@pytest.mark.parametrize("word", [b"param", b"quantity", b"tensor"])
@pytest.mark.parametrize("read", [trace.read, opening.open_trace, load])
def test_text_that_is_no_utf8_is_a_sentence(pair, tmp_path, monkeypatch, read, word):
    hold(monkeypatch, 100)
    path = rewritten(pair[0], tmp_path / "a.parquet", compression="none", store_schema=True)
    data = path.read_bytes()
    assert word in data
    path.write_bytes(data.replace(word, b"\xff\xfe" + word[2:]))
    with pytest.raises(PitbError, match=path.name):
        read(path)
