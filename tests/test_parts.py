import json
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb import compare, part_writer, parts, trace
from pitb.errors import PitbError
from pitb.part_writer import Item, PartWriter


def made(steps=4, run="pytorch/x"):
    recorder = trace.Recorder()
    for step in range(steps):
        if step:
            recorder.add(step, "loss", 0.5 / step, "float32")
        recorder.add(step, "param", [[step, np.nan], [-0.0, np.inf]], "float32", "w")
        recorder.add(step, "param", np.empty(0), "float32", "none")
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": run, "configuration": {}})


def same(a, b):
    assert a.entries == b.entries
    assert a.values.view(np.int64).tolist() == b.values.view(np.int64).tolist()
    assert a.metadata == b.metadata


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 11)).map(sorted))
def test_any_split_reads_back_as_the_same_trace(tmp_path_factory, splits):
    folder = tmp_path_factory.mktemp("trace")
    whole = made()
    parts.write(whole, folder, splits)
    same(trace.read(folder), whole)
    assert len(list(folder.iterdir())) == len(splits) + 1


def part(folder, number):
    return parts.part_path(folder, number)


def retold(path, **changes):
    """A part that says something else of itself."""
    with pq.ParquetFile(path) as file:
        metadata = json.loads(file.metadata.metadata[b"pitb"])
        table = file.read()
    if "part" in changes:
        metadata["part"] = changes["part"]
    else:
        metadata["part"].update(changes)
    table = table.replace_schema_metadata({b"pitb": json.dumps(metadata).encode()})
    pq.write_table(table.cast(trace.schema().with_metadata(table.schema.metadata)), path)


def other_run(folder):
    other = folder.parent / "other"
    parts.write(made(), other, (3, 6))
    shutil.copy(part(other, 1), part(folder, 1))


def twice(folder):
    shutil.copy(part(folder, 1), part(folder, 2))


def moved_up(folder):
    """The same steps again, under the number that is due."""
    shutil.copy(part(folder, 0), part(folder, 2))
    retold(part(folder, 2), number=2)


def after_the_end(folder):
    shutil.copy(part(folder, 2), part(folder, 3))
    retold(part(folder, 3), number=3)


def doubled(folder):
    shutil.rmtree(folder)
    parts.write(made(), folder, (3, 8))
    shutil.copy(part(folder, 2), part(folder, 3))
    retold(part(folder, 2), finished=False)
    retold(part(folder, 3), number=3)


def whole_trace(folder):
    trace.write(made(), part(folder, 1))


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (lambda folder: part(folder, 1).unlink(), "has part-000002.parquet but not part-000001"),
        (lambda folder: part(folder, 0).unlink(), "has part-000001.parquet but not part-000000"),
        (lambda folder: [path.unlink() for path in folder.iterdir()], "holds no part of a trace"),
        (other_run, "part-000001.parquet is of another recording than part-000000.parquet"),
        (twice, "part-000002.parquet is part 1 of its recording under another name"),
        (moved_up, "part-000002.parquet holds param of w at step 0, and an earlier part step"),
        (after_the_end, "part-000003.parquet comes after part-000002.parquet, which is the last"),
        (doubled, "part-000003.parquet holds .* as an earlier part does"),
        (whole_trace, "part-000001.parquet is a trace of its own, not a part"),
        (lambda folder: retold(part(folder, 1), part=None), "not a part of one"),
        (lambda folder: retold(part(folder, 1), number=True), "not a part of one"),
        (lambda folder: retold(part(folder, 1), recording=7), "not a part of one"),
        (lambda folder: trace.write(made(), folder / "mine.parquet"), "mine.parquet is not named"),
        (lambda folder: trace.write(made(), folder / "part-1.parquet"), "part-1.parquet is not"),
        (lambda folder: part(folder, 1).write_bytes(b"PAR1"), "000001.parquet is not a readable"),
    ],
)
def test_what_is_no_whole_recording_is_refused(tmp_path, break_it, sentence):
    folder = tmp_path / "mine"
    parts.write(made(), folder, (3, 6))
    trace.read(folder)
    break_it(folder)
    with pytest.raises(PitbError, match=sentence) as caught:
        trace.read(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", [".part-000003.parquet.part", ".part-000003.parquet", ".DS_Store", "notes.txt"]
)
def test_other_files_are_left_alone(tmp_path, name):
    parts.write(made(), tmp_path, (3, 6))
    (tmp_path / name).write_text("x")
    same(trace.read(tmp_path), made())


def killed(folder, splits=(5, 8), steps=4):
    parts.write(made(steps), folder, splits)
    part(folder, len(splits)).unlink()


def test_a_recording_without_its_end_says_how_far_it_went(tmp_path):
    killed(tmp_path)
    found = trace.read(tmp_path)
    assert found.unfinished == (
        "recorded to step 2 and not ended: it was killed, or is still going on"
    )
    assert found.error is None
    assert trace.read(part(tmp_path, 0)).metadata["part"]["number"] == 0


def test_a_killed_recording_is_compared_as_far_as_it_goes(tmp_path):
    killed(tmp_path / "a")
    parts.write(made(), tmp_path / "b")
    finite = ["loss"]
    found = compare.compare_files(tmp_path / "a", tmp_path / "b", 0.0, finite)
    assert [row.step for row in found.rows] == [1, 2]
    assert found.partial == (
        "only steps up to 2 are compared: pytorch/x was recorded to step 2 and not ended: it was "
        "killed, or is still going on; 3 tensors of later steps are not"
    )
    # What is equal so far may differ later: that is no OK.
    assert (found.verdict, found.exit_code) == (compare.ERROR, 2)
    assert found.partial in compare.report(found)


def test_a_difference_in_a_killed_recording_is_a_mismatch(tmp_path):
    killed(tmp_path / "a")
    other = made()
    other.values = other.values.copy()
    entry = other.by_key()[(1, "loss", "")]
    other.values[entry.first_row] += 1
    parts.write(other, tmp_path / "b")
    found = compare.compare_files(tmp_path / "a", tmp_path / "b", 0.1, ["loss"])
    assert (found.verdict, found.exit_code) == (compare.MISMATCH, 1)


def test_a_step_that_a_killed_recording_should_have_is_missed(tmp_path):
    killed(tmp_path / "a")
    recorder = trace.Recorder()
    recorder.add(0, "param", [[0, np.nan], [-0.0, np.inf]], "float32", "w")
    recorder.add(0, "param", np.empty(0), "float32", "none")
    recorder.add(1, "loss", 0.5, "float32")
    parts.write(recorder.trace(dict(made().metadata)), tmp_path / "b")
    with pytest.raises(compare.NotComparable, match="has no loss at step 2"):
        compare.compare_files(tmp_path / "a", tmp_path / "b", 0.0, ["loss"])


# -- the writer --------------------------------------------------------------------------------


def block(step, size=300_000, dtype=np.float32, seed=0):
    values = np.random.default_rng([seed, step]).standard_normal((2, size // 2)).astype(dtype)
    name = np.dtype(dtype).name
    return [
        Item(step - 1, "param", "a.weight", values.shape, name, values),
        Item(step, "loss", "", (), "float64", np.asarray(float(step))),
        Item(step, "param", "a.weight", values.shape, name, -values),
    ]


def written(folder, blocks, end=()):
    writer = PartWriter(folder, {"schema": trace.SCHEMA_VERSION, "run": "pytorch/x"})
    for item in blocks:
        writer.put(item)
    writer.end(list(end), finished=True)
    return trace.read(folder)


def expected(blocks):
    recorder = trace.Recorder()
    for item in (item for found in blocks for item in found):
        recorder.add(item.step, item.quantity, item.values, item.dtype, item.tensor)
    return recorder.trace({"schema": trace.SCHEMA_VERSION, "run": "pytorch/x"})


@pytest.mark.parametrize("size", [10, 300_000, 2_400_000])
def test_what_is_put_is_read_back(tmp_path, size):
    # Small blocks are gathered, large ones fill in what pyarrow encoded; over several row groups.
    blocks = [block(step, size) for step in (10, 20, 1_000_000_000)]
    same(written(tmp_path, blocks), expected(blocks))
    assert not list(tmp_path.glob(".*"))


def test_another_shape_or_dtype_is_encoded_anew(tmp_path):
    blocks = [block(2), block(4, 400_000), block(6, dtype=np.float64), block(8, dtype=np.float16)]
    same(written(tmp_path, blocks), expected(blocks))


def test_bfloat16_is_exact(tmp_path):
    bits = np.arange(1 << 16, dtype=np.uint16)
    item = Item(1, "param", "w", bits.shape, "bfloat16", bits)
    found = written(tmp_path, [[item]]).find(1, "param", "w")
    with np.errstate(invalid="ignore"):
        wanted = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    np.testing.assert_array_equal(found, wanted)


def test_an_encoding_that_is_not_known_is_written_plainly(tmp_path, monkeypatch):
    def refuse(*_):
        raise part_writer._UnknownEncoding

    monkeypatch.setattr(part_writer, "_segments", refuse)
    blocks = [block(step) for step in (10, 20)]
    same(written(tmp_path, blocks), expected(blocks))


def test_a_large_part_has_the_columns_of_every_trace(tmp_path):
    written(tmp_path, [block(10), block(20)])
    trace.write(expected([block(20)]), tmp_path / "plain")
    filled, plain = (pq.read_table(path) for path in (part(tmp_path, 1), tmp_path / "plain"))
    assert filled.equals(plain)


def test_a_folder_that_vanishes_is_told_at_the_next_step(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    writer = PartWriter(folder, {"schema": trace.SCHEMA_VERSION})
    folder.rmdir()
    folder.write_text("in the way")
    writer.put(block(2))
    with pytest.raises(PitbError, match="mine"):
        writer.put(block(4))
        writer.put(block(6))
    writer.end([], finished=False)
