"""The search for reference cycles is put off, and on again after."""

import gc

import pytest

from pitb import compare, trace
from pitb.collection import put_off
from pitb.stream import compiled, opening, statistics


@pytest.fixture(autouse=True)
def on_again():
    yield
    gc.enable()


@pytest.mark.parametrize("was_on", [True, False])
def test_it_is_as_it_was_after(was_on):
    (gc.enable if was_on else gc.disable)()
    with put_off(), put_off():
        assert not gc.isenabled()
    assert gc.isenabled() == was_on
    with pytest.raises(ZeroDivisionError), put_off():
        1 / 0  # noqa: B018
    assert gc.isenabled() == was_on


def test_it_is_put_off_while_a_trace_of_ours_is_opened_and_compared(tmp_path, monkeypatch):
    seen = []

    def spy(module, name):
        whole = getattr(module, name)

        def call(*arguments):
            seen.append((name, gc.isenabled()))
            return whole(*arguments)

        monkeypatch.setattr(module, name, call)

    paths = []
    for run in "ab":
        recorder = trace.Recorder()
        for step in (0, 1):
            recorder.add(step, "param", [1.0, 2.0], "float32", "w")
        paths.append(tmp_path / f"{run}.parquet")
        metadata = {"schema": trace.SCHEMA_VERSION, "run": run}
        trace.write(recorder.trace(metadata), paths[-1])
    monkeypatch.setattr(compiled, "library", lambda: None)
    spy(opening, "_checked")
    spy(compare, "statistics")
    spy(statistics, "_of_task")
    found = compare.compare_files(*paths, 0.0, ["param"])
    assert found.verdict == "OK"
    assert seen == [
        ("_checked", False),
        ("_checked", False),
        ("statistics", False),
        ("_of_task", False),
    ]
    assert gc.isenabled()
