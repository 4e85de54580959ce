"""Changed bytes for every reader: no traceback, no hang, no dead process, and no wrong OK.

`make test-faults` feeds 20,000 inputs, CI some 2,000; each is found again by reader and number.
"""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import fuzzing
from pitb import compare, trace

SEED = "1"
TOTAL = 20_000
IN_CI = 2_000
ABORTING = ("trace-arro3",)
"""arro3 may end its process, so `pitb verify` reads in one of its own and names the file."""
EACH = -(-TOTAL // len(fuzzing.READERS))


def fuzzed(reader, count, folder):
    command = [sys.executable, Path(fuzzing.__file__), reader, str(count), SEED, folder]
    begin, aborted = 0, 0
    while True:
        for old in folder.glob("parts/*"):
            old.unlink()
        ended = subprocess.run([*command, str(begin)], capture_output=True, text=True, timeout=900)
        at = (folder / "at").read_text() if (folder / "at").exists() else "none"
        if ended.returncode == 0 or reader not in ABORTING or not at.isdigit():
            break
        begin, aborted = int(at) + 1, aborted + 1
    print(f"{reader}: {aborted} inputs ended the process")
    assert ended.returncode == 0, f"{reader}: input {at} ended the process: {ended.stderr[-2000:]}"
    found = json.loads(ended.stdout)
    # Also of processes that were ended later on.
    wrong = (folder / "wrong").read_text(encoding="utf-8") if (folder / "wrong").exists() else ""
    assert wrong == "" and found["wrong"] == []
    assert aborted or found["read"] + found["refused"] == count
    return found


@pytest.mark.parametrize("reader", fuzzing.READERS)
def test_changed_bytes_are_read_or_refused_in_one_sentence(tmp_path, reader):
    found = fuzzed(reader, IN_CI // len(fuzzing.READERS), tmp_path)
    if reader != "registry":
        assert found["refused"] > 0


@pytest.mark.faults
@pytest.mark.parametrize("reader", fuzzing.READERS)
def test_many_changed_bytes_are_read_or_refused_in_one_sentence(tmp_path, reader):
    fuzzed(reader, EACH, tmp_path)


def test_a_changed_byte_of_a_value_is_a_mismatch(tmp_path):
    path = tmp_path / "x.parquet"
    trace.write(fuzzing.made(), path)
    data = path.read_bytes()
    value = struct.pack("<d", -7.5)  # of the parameter at step 3
    assert value in data
    path.write_bytes(data.replace(value, struct.pack("<d", -7.75)))
    found = compare.compare(fuzzing.made(), trace.read(path), 1e-6, ["loss", "param"])
    assert found.verdict == compare.MISMATCH


def test_what_went_wrong_before_an_input_ends_the_process_is_not_lost(tmp_path, monkeypatch):
    script = tmp_path / "ends.py"
    script.write_text(
        "import os, sys; sys.path.insert(0, sys.argv.pop(1)); import fuzzing\n"
        "def read(path):\n"
        "    number = int((path.parent / 'at').read_text())\n"
        "    if number == 1: raise IndexError('not a sentence')\n"
        "    if number == 3: os.abort()\n"
        "    raise fuzzing.PitbError('refused')\n"
        "fuzzing.READERS['trace-arro3'] = (read, lambda _: b'some bytes')\n"
        "fuzzing.main()\n"
    )
    (tmp_path / "x").mkdir()
    plain = subprocess.run

    def run(command, **options):
        return plain([command[0], script, Path(fuzzing.__file__).parent, *command[2:]], **options)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(AssertionError, match="1: IndexError: not a sentence"):
        fuzzed("trace-arro3", 6, tmp_path / "x")


def test_the_fuzzer_sees_a_reader_that_breaks(tmp_path, monkeypatch):
    def breaks(path):
        raise IndexError("not a sentence")

    monkeypatch.setitem(fuzzing.READERS, "json", (breaks, fuzzing.READERS["json"][1]))
    assert len(fuzzing.fuzz("json", 3, SEED, tmp_path)["wrong"]) == 3

    def believes(path):
        fuzzing.hold_against(fuzzing.made(), fuzzing.made(), path)

    monkeypatch.setitem(fuzzing.READERS, "trace", (believes, fuzzing.READERS["trace"][1]))
    assert any("WrongOK" in wrong for wrong in fuzzing.fuzz("trace", 300, SEED, tmp_path)["wrong"])
