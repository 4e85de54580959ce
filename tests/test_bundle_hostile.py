"""Bundles from strangers: each gets one sentence and exit code 2, in little time and memory.

What an archive, a Parquet file or JSON can do to its reader is done here, for real, to the command.
"""

import io
import json
import stat
import struct
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bundles
from pitb import trace
from pitb.bundle import contents, names, unpacking
from pitb.errors import PitbError

pytestmark = [pytest.mark.pipeline, pytest.mark.filterwarnings("ignore:Duplicate name")]

MOST_SECONDS = 30
MOST_MEGABYTES = 1000
TRACE = "results/traces/burn/rmsprop.parquet"


@pytest.fixture(scope="module")
def good(root, tmp_path_factory):
    """The files of a bundle in which nothing is wrong."""
    return bundles.files_of(bundles.made(root, tmp_path_factory.mktemp("good")))


def zipped(entries):
    """A zip of (name or ZipInfo, content), as zipfile writes it without asking."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return buffer.getvalue()


def named(*found):
    return zipped([(name, b"x") for name in found])


def link(target):
    entry = zipfile.ZipInfo("results/link")
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return zipped([(entry, target)])


def patched(data, marker, offset, value):
    """The bytes with some of them replaced, so many after each record of a kind."""
    found = bytearray(data)
    at = found.find(marker)
    while at >= 0:
        found[at + offset : at + offset + len(value)] = value
        at = found.find(marker, at + 4)
    return bytes(found)


def bomb():
    """Three hundred megabytes of zeros in one; the header says so."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("results/zeros", "w") as file,
    ):
        for _ in range(300):
            file.write(bytes(1 << 20))
    return buffer.getvalue()


def many_bombs():
    """Each file is within what one may have, and all together are not."""
    content = bytes(60 << 20)
    return zipped([(f"results/{number}", content) for number in range(5)])


def lying_bomb():
    """The same, of which the tables say that it is 10 bytes."""
    ten = struct.pack("<L", 10)
    data = patched(bomb(), b"PK\1\2", 24, ten)
    return patched(data, b"PK\3\4", 22, ten)


def overlapping():
    """Two names for one place in the file."""
    first = zipped([("a", b"x" * 1000)])
    end = first.rindex(b"PK\5\6")
    table = first.index(b"PK\1\2")
    entry = bytearray(first[table:end])
    other = bytes(entry).replace(b"a", b"b") if entry.endswith(b"a") else bytes(entry)
    tables = bytes(entry) + other
    record = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2, 2, len(tables), table, 0)
    return first[:table] + tables + record


def encrypted():
    data = named("a")
    data = patched(data, b"PK\1\2", 8, b"\1\0")
    return patched(data, b"PK\3\4", 6, b"\1\0")


def other_method():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a", b"x" * 100)
    return buffer.getvalue()


def zero_byte():
    return named("aXb").replace(b"aXb", b"a\0b")


def many_files():
    return zipped([(f"f{number}", b"") for number in range(unpacking.MOST_ENTRIES + 1)])


def broken_content():
    data = bytearray(zipped([("a", bytes(range(256)) * 40)]))
    data[40] ^= 255
    return bytes(data)


ARCHIVES = {
    "no zip": (lambda: b"this is no zip at all, but text that goes on for a while", "zip"),
    "nothing": (lambda: b"", "zip"),
    "cut off": (lambda: named("a", "b")[:-30], "zip"),
    "absolute": (lambda: named("/etc/cron.d/x"), "is absolute"),
    "drive": (lambda: named("C:/x"), "is absolute"),
    "up": (lambda: named("results/../../x"), "'..'"),
    "up only": (lambda: named(".."), "'..'"),
    "backslash": (lambda: named("..\\x"), "not every system allows"),
    "link": (lambda: link("/etc/passwd"), "is a link"),
    "folder": (lambda: named("results/"), "as one of its folders"),
    "twice": (lambda: named("a", "a"), "is there twice"),
    "case": (lambda: named("a", "A"), "one name to some systems"),
    "case of a folder": (lambda: named("a/x", "A/y"), "one folder to some systems"),
    "accents": (lambda: named("\u00e9", "e\u0301"), "one name to some systems"),
    "file and folder": (lambda: named("a", "a/b"), "both a file and a folder"),
    "control character": (lambda: named("a\nb"), "control character"),
    "direction": (lambda: named("a\u202egnp.exe"), "control character"),
    "reserved": (lambda: named("results/NUL.txt"), "Windows reserves"),
    "ends with a point": (lambda: named("results./x"), "ends with a point"),
    "zero byte": (zero_byte, "zero byte"),
    "long in bytes": (lambda: named("长" * 100), "255 bytes"),
    "long": (lambda: named("a/" * 150 + "b"), "characters"),
    "bomb": (bomb, "unpacks to more than"),
    "many bombs": (many_bombs, "unpacks to more than"),
    "lying bomb": (lying_bomb, "results/zeros"),
    "overlapping": (overlapping, "overlap"),
    "encrypted": (encrypted, "is encrypted"),
    "another method": (other_method, "method 14"),
    "many files": (many_files, "at most"),
    "broken content": (broken_content, "cannot be unpacked"),
    "no bundle": (lambda: named("a"), "is no bundle"),
}


def refused(path, cwd, said):
    """The command refuses it as it must; gives what it took."""
    before = sorted(cwd.parent.rglob("*"))
    ended = bundles.pitb("verify", path, cwd=cwd)
    assert ended.code == 2, ended.out + ended.err
    assert said in ended.err
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1
    assert ended.out == ""
    assert ended.seconds < MOST_SECONDS
    assert ended.megabytes < MOST_MEGABYTES
    assert sorted(cwd.parent.rglob("*")) == before
    return ended


@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_that_is_none_to_open_is_refused(tmp_path, kind):
    make, said = ARCHIVES[kind]
    path = tmp_path / "bundle.zip"
    path.write_bytes(make())
    cwd = tmp_path / "here"
    cwd.mkdir()
    refused(path, cwd, said)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_changed_archive_is_read_or_refused_in_words(tmp_path_factory, data):
    whole = zipped([(f"d/f{number}.txt", bytes(range(200))) for number in range(4)])
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.sampled_from([0, whole.index(b"PK\1\2"), len(whole) - 22]))
        changed[data.draw(st.integers(start, len(whole) - 1))] = data.draw(st.integers(0, 255))
    folder = tmp_path_factory.mktemp("changed")
    path, out = folder / "x.zip", folder / "out"
    path.write_bytes(changed[: data.draw(st.sampled_from([len(whole), len(whole) // 2]))])
    out.mkdir()
    try:
        with unpacking.opened(path) as archive:
            archive.unpack(out)
    except PitbError as error:
        assert "\n" not in str(error)
    assert sorted(folder.iterdir()) == [out, path]


# -- a bundle whose archive is in order, and its manifest, too ----------------------------------


def deep_json(depth=100_000):
    return b"[" * depth + b"]" * depth


def deep_object():
    return b'{"format": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}"


def parquet_with(change):
    """Of a trace: its bytes changed by ``change``."""

    def changed(files):
        return change(bytearray(files[TRACE]))

    return changed


def longer_footer(data):
    data[-8:-4] = struct.pack("<L", 0x7FFFFFFF)
    return bytes(data)


def no_magic(data):
    data[-4:] = b"XXXX"
    return bytes(data)


def cut(data):
    return bytes(data[: len(data) // 2]) + bytes(data[-2000:])


def huge_numbers(data):
    """Every varint of the footer that could be a size made as large as it gets."""
    length = struct.unpack("<L", data[-8:-4])[0]
    start = len(data) - 8 - length
    for at in range(start, len(data) - 8):
        if data[at] & 0x80:
            data[at] |= 0x7F
    return bytes(data)


def pages_too_long(data):
    """Sizes in the headers of pages: those that stand before the footer, at the file's start."""
    for at in range(4, 40):
        data[at] = 0xFF
    return bytes(data)


COMPARISON = "results/comparisons/pytorch.rmsprop--burn.rmsprop.parquet"


def crashing(files):
    """A negative length in the footer, at which the reader's own process ends."""
    data = bytearray(files[COMPARISON])
    for at in range(len(data) - 8 - struct.unpack("<L", data[-8:-4])[0], len(data) - 8):
        if data[at] == 166:
            data[at] = 255
    return bytes(data)


def claims(rows, metadata):
    """A Parquet file in little space that unpacks to many rows, and says so."""
    schema = trace.schema()
    names = ["step", "quantity", "tensor", "index", "value"]
    chunk = 1 << 20
    columns = [
        pa.array(np.ones(chunk, dtype=np.int32)),
        pa.DictionaryArray.from_arrays(np.zeros(chunk, dtype=np.int32), ["param"]).cast("string"),
        pa.DictionaryArray.from_arrays(np.zeros(chunk, dtype=np.int32), ["w"]).cast("string"),
        pa.array(np.arange(chunk, dtype=np.int64)),
        pa.array(np.zeros(chunk)),
    ]
    table = pa.Table.from_arrays(columns, names=names).cast(schema)
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, schema, compression="zstd", store_schema=False) as writer:
        for _ in range(rows // chunk):
            writer.write_table(table)
        writer.add_key_value_metadata({trace.METADATA_KEY: json.dumps(metadata).encode()})
    return buffer.getvalue()


def many_rows(_):
    """As many as nobody has, in the metadata: what would be allocated for them is not."""
    shape = [64 << 20]
    entry = {"step": 1, "quantity": "param", "tensor": "w", "shape": shape, "dtype": "float32"}
    return claims(1 << 20, {"schema": 1, "contents": [{**entry, "first_row": 0}]})


def more_rows_than_listed(_):
    entry = {"step": 1, "quantity": "param", "tensor": "w", "shape": [1], "dtype": "float32"}
    return claims(2 << 20, {"schema": 1, "contents": [{**entry, "first_row": 0}]})


def endless_shape(_):
    entry = {"step": 1, "quantity": "param", "tensor": "w", "dtype": "float32", "first_row": 0}
    shape = [2**39] * 3
    return claims(1 << 20, {"schema": 1, "contents": [{**entry, "shape": shape}]})


def nested(_):
    schema = trace.schema()
    buffer = io.BytesIO()
    with pq.ParquetWriter(buffer, schema, store_schema=False) as writer:
        writer.add_key_value_metadata({trace.METADATA_KEY: deep_json()})
    return buffer.getvalue()


def remote_schema(_):
    return json.dumps({"$ref": "http://127.0.0.1:9/schema.json"}).encode()


def aliases(_):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 30):
        lines.append(f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]")
    return "\n".join(lines).encode()


CONTENTS = {
    "nested description": (contents.DESCRIPTION, lambda _: deep_json(), "nested too deeply"),
    "nested objects": (contents.DESCRIPTION, lambda _: deep_object(), "nested too deeply"),
    "nested crate": (contents.CRATE, lambda _: deep_json(), "nested too deeply"),
    "nested evidence": (
        "results/evidence/moves/burn.json",
        lambda _: deep_json(),
        "nested too deeply",
    ),
    "no JSON": (contents.DESCRIPTION, lambda _: b"{", "is not valid JSON"),
    "no text": ("results/comparisons.csv", lambda _: b"\xff\xfe", "is not UTF-8"),
    "a long number": (contents.DESCRIPTION, lambda _: b"9" * 100_000, "is not valid JSON"),
    "another format": (contents.DESCRIPTION, lambda _: b'{"format": 99}', "format 99"),
    "remote schema": ("config/schema.json", remote_schema, "refers to"),
    "aliases": ("config/config.yaml", aliases, "config/config.yaml"),
    "footer too long": (TRACE, parquet_with(longer_footer), "is not a readable Parquet file"),
    "no Parquet": (TRACE, parquet_with(no_magic), "is not a readable Parquet file"),
    "cut Parquet": (TRACE, parquet_with(cut), TRACE),
    "huge numbers": (TRACE, parquet_with(huge_numbers), TRACE),
    "pages too long": (TRACE, parquet_with(pages_too_long), TRACE),
    "negative lengths": (COMPARISON, crashing, COMPARISON),
    "many rows": (TRACE, many_rows, "at most"),
    "more rows than listed": (TRACE, more_rows_than_listed, "but holds more"),
    "endless shape": (TRACE, endless_shape, "is not a trace"),
    "nested metadata": (TRACE, nested, "is malformed"),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_file_that_is_none_to_read_is_refused(good, tmp_path, kind):
    name, make, said = CONTENTS[kind]
    files = dict(good)
    files[name] = make(files)
    path = bundles.packed(bundles.mended(files) if name != contents.CRATE else remanifested(files),
                          tmp_path)  # fmt: skip
    cwd = tmp_path / "here"
    cwd.mkdir()
    refused(path, cwd, said)


@pytest.mark.parametrize("kind", ["bomb", "link", "cut off"])
def test_diff_refuses_what_verify_refuses(good, tmp_path, kind):
    path = tmp_path / "bundle.zip"
    path.write_bytes(ARCHIVES[kind][0]())
    ended = bundles.pitb("diff", bundles.packed(good, tmp_path), path)
    assert ended.code == 2
    assert ARCHIVES[kind][1] in ended.err
    assert len(ended.err.splitlines()) == 1
    assert ended.megabytes < MOST_MEGABYTES


def test_what_never_ends_is_ended(good, tmp_path):
    """A schema whose pattern takes forever on a name of the configuration."""
    files = dict(good)
    slow = {"properties": {"pages": {"items": {"pattern": "^(a+)+c$"}}}}
    files["config/schema.json"] = json.dumps(slow).encode()
    pages = f"pages: [{'a' * 60}]"
    text = files["config/config.yaml"].decode()
    files["config/config.yaml"] = text.replace(
        "pages: [one-step, optimizer-defaults]", pages
    ).encode()
    path = bundles.packed(bundles.mended(files), tmp_path)
    ended = bundles.pitb("verify", path, "--seconds", 3)
    assert ended.code == 2
    assert "takes more than 3 s" in ended.err
    assert ended.seconds < 8


def remanifested(files):
    from pitb.bundle import packing

    rest = {name: content for name, content in files.items() if name != contents.MANIFEST}
    return {**rest, contents.MANIFEST: packing.manifest(rest)}


def test_the_good_one_is_fine(good, tmp_path):
    path = bundles.packed(good, tmp_path)
    ended = bundles.pitb("verify", path, cwd=tmp_path)
    assert ended.code == 0, ended.out + ended.err
    assert ended.seconds < MOST_SECONDS
    assert ended.megabytes < MOST_MEGABYTES
    again = bundles.pitb("verify", path, "--seconds", 1, "--memory", 60, cwd=tmp_path)
    assert again.code == 2
    assert "takes more" in again.err
    assert len(again.err.splitlines()) == 1


@pytest.mark.parametrize(
    "name",
    ["a", "results/traces/burn/x.parquet", "文档/说明 一.md", "Ünï.txt", "a.b-c_d", "nul-x", "com"],
)
def test_a_plain_name_is_fine(name):
    assert names.fault(name) is None
