"""Columns of runs, decoded from what libraries write, and from what nobody should."""

import io
import itertools
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb.stream import layout, runs, thrift
from pitb.stream.thrift import Malformed, Reader

spans = st.lists(
    st.tuples(st.integers(0, 2**40) | st.integers(0, 40), st.integers(1, 300)), max_size=30
)


def pages(values, **options):
    """The kind, header and body of each page that pyarrow writes of a column."""
    file = io.BytesIO()
    schema = pa.schema([pa.field("x", values.type, nullable=False)])
    table = pa.Table.from_arrays([values], schema=schema)
    pq.write_table(table, file, compression="none", write_statistics=False, **options)
    data = file.getvalue()
    meta = pq.ParquetFile(pa.py_buffer(data)).metadata.row_group(0).column(0)
    begin = meta.dictionary_page_offset or meta.data_page_offset
    reader = Reader(data[begin : begin + meta.total_compressed_size])
    found = []
    while reader.position < len(reader.data):
        kind, header, size = layout._page(reader)
        found.append((kind, header, reader.take(size)))
    return found


def expanded(found):
    """The values that runs stand for."""
    return [
        value + i if found.step else value
        for value, count in zip(found.values, found.counts, strict=True)
        for i in range(count)
    ]


def through_differences(numbers, most):
    """The runs of numbers that pyarrow has written as differences."""
    decoded = runs.Runs(most, step=1)
    for _, header, body in pages(
        pa.array(numbers, pa.int64()),
        use_dictionary=False,
        column_encoding={"x": "DELTA_BINARY_PACKED"},
    ):
        runs.add_delta(body, header[1], decoded)
    return decoded


@settings(max_examples=200, deadline=None)
@given(spans)
def test_ascending_numbers_come_back_from_pyarrows_differences(found):
    wanted = [n for first, count in found for n in range(first, first + count)]
    decoded = through_differences(wanted, len(found) + 1)
    assert expanded(decoded) == wanted
    assert decoded.is_made_of(found)
    assert decoded.is_made_of((n, 1) for n in wanted)
    if wanted:
        assert not decoded.is_made_of((n, 1) for n in [*wanted[:-1], wanted[-1] + 1])
        assert not decoded.is_made_of((n, 1) for n in wanted[:-1])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-(2**60), 2**60) | st.integers(-3, 3), max_size=200))
def test_any_numbers_come_back_from_pyarrows_differences(numbers):
    decoded = through_differences(numbers, len(numbers) + 1)
    assert expanded(decoded) == numbers


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), min_size=1, max_size=60))
def test_texts_come_back_from_pyarrows_dictionaries(found):
    wanted = [f"t{name}" for name, count in found for _ in range(count)]
    decoded = runs.Runs(len(found) + 1)
    entries = None
    for kind, header, body in pages(pa.array(wanted), use_dictionary=True):
        if kind == 2:
            entries = runs.dictionary(body, header[1], False)
        else:
            runs.add_indices(body, header[1], entries, decoded)
    assert [text.decode() for text in expanded(decoded)] == wanted
    assert decoded.is_made_of((f"t{name}".encode(), count) for name, count in found)


@pytest.mark.parametrize("count", [3, 64, 65, 500, 8192, 8193, 20001])
def test_few_and_many_packed_indices_are_read_alike(count):
    width = 5
    indices = [(i * i) % 7 for i in range(count)]
    bits = sum(index << width * i for i, index in enumerate(indices))
    groups = -(-count // 8)
    head = bytes([width]) + varint(groups << 1 | 1)
    body = head + bits.to_bytes(groups * width, "little")
    entries = [bytes([65 + i]) for i in range(7)]
    decoded = runs.Runs(count)
    runs.add_indices(body, count, entries, decoded)
    assert expanded(decoded) == [entries[i] for i in indices]
    with pytest.raises(Malformed, match="none of the dictionary's"):
        runs.add_indices(body, count, entries[:3], runs.Runs(count))
    with pytest.raises(Malformed, match="more runs"):
        runs.add_indices(body, count, entries, runs.Runs(1))


def varint(number):
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def delta(first, least, widths, packed, count, block=128):
    """A page of one block of differences."""
    head = varint(block) + varint(len(widths)) + varint(count)
    return head + varint(first << 1) + varint(least << 1) + bytes(widths) + packed


def packed(numbers, width):
    """Numbers of ``width`` bits each, the lowest bit first."""
    bits = sum(number << width * i for i, number in enumerate(numbers))
    return bits.to_bytes(len(numbers) * width // 8, "little")


def written(numbers, size, parts, wider):
    """A page of differences, as a writer may lay it out that has blocks of ``parts`` parts of
    ``size`` numbers; ``wider`` says by how many bits more than it needs each part is wide.
    """
    differences = [then - now for now, then in itertools.pairwise(numbers)]
    body = varint(size * parts) + varint(parts) + varint(len(numbers)) + zigzag(numbers[0])
    for start in range(0, len(differences), size * parts):
        block = differences[start : start + size * parts]
        least = min(block)
        above = [difference - least for difference in block]
        cut = [above[i : i + size] for i in range(0, size * parts, size)]
        widths = [max(map(int.bit_length, part)) + next(wider) if part else 0 for part in cut]
        body += zigzag(least) + bytes(widths)
        for part, width in zip(cut, widths, strict=True):
            body += packed([*part, *[0] * (size - len(part))], width) if part else b""
    return body


def zigzag(number):
    return varint(2 * number if number >= 0 else -2 * number - 1)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2**30), st.integers(1, 600)), min_size=1, max_size=8),
    st.sampled_from([8, 32, 64, 256]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.lists(st.integers(0, 2), min_size=1, max_size=9),
)
def test_differences_come_back_from_blocks_of_any_kind(found, size, parts, wider):
    numbers = [n for first, count in found for n in range(first, first + count)]
    decoded = runs.Runs(len(found), step=1)
    body = written(numbers, size, parts, itertools.cycle(wider))
    runs.add_delta(body, len(numbers), decoded)
    assert expanded(decoded) == numbers
    with pytest.raises(Malformed, match="longer"):
        runs.add_delta(body + b"\0", len(numbers), runs.Runs(len(found), step=1))


@given(st.binary(min_size=1, max_size=32), st.integers(1, 32))
def test_parts_of_one_width_are_taken_together_up_to_a_limit(widths, most):
    found = list(runs._alike(widths, most))
    assert b"".join(bytes([width]) * count for width, count in found) == widths
    assert all(0 < count <= most for _, count in found)
    if most == 32:
        assert all(one[0] != then[0] for one, then in itertools.pairwise(found))


@pytest.mark.parametrize("parts", [1, 4, 32])
@pytest.mark.parametrize("blocks", [0, 1, 2, 63, 64, 65, 127, 128, 129, 300, 40000])
@pytest.mark.parametrize("behind", [b"", b"\x02", b"\x04", b"\x00", b"\x02\x00", b"\x02\x01\x00"])
def test_leading_runs_are_counted(parts, blocks, behind):
    run = b"\x02" + bytes(parts)
    if behind == b"\x02\x00" and parts == 1:
        behind = b""  # which would be one more
    for most in {0, 1, blocks - 1, blocks, blocks + 1, 2 * blocks}:
        if most < 0:
            continue
        reader = Reader(b"??" + run * blocks + behind, 2)
        assert runs._leading(reader, run, most) == min(blocks, most)
        assert reader.position == 2 + len(run) * min(blocks, most)


@pytest.mark.parametrize(
    "body, count, message",
    [
        (delta(0, 1, [0] * 4, b"", 129), 128, "malformed"),
        (delta(0, 1, [0] * 3, b"", 129), 129, "malformed"),
        (delta(0, 1, [0] * 64, b"", 5, block=1 << 12), 5, "malformed"),
        (delta(0, 1, [0] * 4, b"", 5, block=1 << 13), 5, "malformed"),
        (delta(0, 1, [0] * 4, b"\0", 129), 129, "longer"),
        (delta(0, 1, [0] * 4, b"", 130), 130, "too early"),
        (delta(0, 1, [65, 0, 0, 0], bytes(260), 129), 129, "64 bits"),
        (delta(0, 1, [9, 0, 0, 0], bytes(20), 129), 129, "too early"),
        (delta(0, 2, [0] * 4, b"", 129), 129, "more runs"),
    ],
)
def test_pages_of_differences_that_nobody_should_write(body, count, message):
    with pytest.raises(Malformed, match=message):
        runs.add_delta(body, count, runs.Runs(8, step=1))


def test_where_all_differ_that_is_told_before_long():
    numbers = pa.array(np.random.default_rng(0).integers(0, 2**40, 1 << 16))
    ((_, header, body),) = pages(
        numbers,
        use_dictionary=False,
        column_encoding={"x": "DELTA_BINARY_PACKED"},
        max_rows_per_page=1 << 20,
        data_page_size=1 << 30,
    )
    decoded = runs.Runs(50, step=1)
    with pytest.raises(Malformed, match="more runs"):
        runs.add_delta(body, header[1], decoded)
    assert len(decoded.values) == 50


@pytest.mark.parametrize("count", [1, 8, 1 << 20, (1 << 45) - 3])
def test_packed_indices_of_no_bits_are_as_many_as_they_say(count):
    body = b"\0" + varint((count + 7) // 8 << 1 | 1)
    decoded = runs.Runs(1)
    runs.add_indices(body, count, [b"a"], decoded)
    assert (decoded.values, decoded.counts) == ([b"a"], [count])
    with pytest.raises(Malformed, match="none of the dictionary's"):
        runs.add_indices(body, count, [], decoded)


def peak(code):
    """The bytes that are held more at most while something is decoded."""
    tracemalloc.start()
    try:
        code()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("width", [1, 7, 32])
def test_a_long_page_of_packed_indices_takes_little_memory(width):
    count = (1 << 21) // width // 8 * 8
    body = bytes([width]) + varint(count // 8 << 1 | 1) + bytes(count * width // 8)
    decoded = runs.Runs(1)
    assert peak(lambda: runs.add_indices(body, count, [b"a"], decoded)) < 2e6
    assert decoded.counts == [count]


def dictionary_page(count):
    """A page of ``count`` int32 with its header."""
    kind, size = varint(2 << 1), varint(4 * count << 1)
    about = b"\x15" + varint(count << 1) + b"\x15\x00\x00"
    return b"\x15" + kind + (b"\x15" + size) * 2 + b"\x4c" + about + b"\x00" + bytes(4 * count)


@pytest.mark.parametrize(("count", "fits"), [(8, True), (9, False), (1 << 20, False)])
def test_a_dictionary_has_no_more_entries_than_a_trace_has_tensors(count, fits):
    message = "too short" if fits else "more entries"
    chunk = layout._Chunk(1, 4, 0)

    def read():
        with pytest.raises(layout.Otherwise, match=message):
            layout._read_column(page, chunk, 1, runs.Runs(8))

    page = dictionary_page(count)
    assert peak(read) < 2 * len(page) + 1e5


def test_parts_of_many_differences_are_left_to_a_library():
    body = delta(0, 0, [64], bytes(8 * 512), 513, block=512)
    with pytest.raises(Malformed, match="malformed"):
        runs.add_delta(body, 513, runs.Runs(1000, step=1))
    runs.add_delta(delta(0, 1, [0], b"", 257, block=256), 257, decoded := runs.Runs(1, step=1))
    assert decoded.counts == [257]


def test_pages_of_few_differences_build_no_large_patterns():
    def decode():
        for parts in range(1, 33):
            body = delta(2 * parts, 1, [0] * parts, b"", 2, block=8 * parts)
            runs.add_delta(body, 2, decoded)

    decoded = runs.Runs(1, step=1)
    runs._repeated.cache_clear()
    assert peak(decode) < 1e5
    assert decoded.counts == [64]


@pytest.mark.parametrize("kind", [3, 8, 9, 12])
def test_a_structure_of_too_many_values_is_malformed(monkeypatch, kind):
    """Lists of numbers, texts, lists and structures, all of them empty; and fields."""
    monkeypatch.setattr(thrift, "MOST_VALUES", 1000)

    def listed(count):
        return bytes([0x19, 0xF0 | kind]) + varint(count) + bytes(count + 1)

    reader = Reader(listed(999) + listed(999) + listed(1000))
    for _ in range(2):  # one after the other is counted anew
        assert len(reader.struct()[1]) == 999
    with pytest.raises(Malformed, match="too large"):
        reader.struct()
    fields = bytes([0x1C, 0])  # each a structure
    assert len(Reader(fields * 1000 + b"\0").struct()) == 1000
    with pytest.raises(Malformed, match="too large"):
        Reader(fields * 1001 + b"\0").struct()
