"""Explaining traces that are too large to be trained again: a part stands for the whole."""

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explaining import explained, layout
from pitb import trace
from pitb.errors import PitbError
from pitb.explain import report, sampled, sources
from pitb.stream import opening
from pitb.stream.opening import open_trace

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("big_trace", ROOT / "bench/big_trace.py")
big_trace = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(big_trace)
SHAPES = {"fc1.weight": (40, 30), "fc1.bias": (40,), "conv.weight": (2, 3, 3, 3)}
STEPS = 10


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two trainings of 20,000 parameters."""
    folder = tmp_path_factory.mktemp("pair")
    found = []
    for name, dampening in (("a", 0.0), ("b", 0.1)):
        big_trace.write_trained(folder / f"{name}.parquet", 20_000, STEPS, dampening)
        found.append(open_trace(folder / f"{name}.parquet"))
    return found


def made_smaller(monkeypatch):
    monkeypatch.setattr(sampled, "LARGE", 1000)
    monkeypatch.setattr(sampled, "SAMPLE", 500)


def configured(found, **changed):
    """A trace that says that it is of another configuration."""
    configuration = {**found.configuration, **changed}
    metadata = {**found.metadata, "configuration": configuration}
    return sources.of_trace(replace(found, metadata=metadata))


def parts(found):
    return [values for name, values in found.notes if name == "part"]


def test_a_part_says_what_the_whole_says(monkeypatch, pair):
    whole = explained(*map(sources.of_trace, pair))
    made_smaller(monkeypatch)
    part = explained(*map(sources.of_trace, pair))
    assert parts(whole) == []
    (told,) = parts(part)
    assert told["of"] == "20,000"
    assert 500 <= int(told["count"].replace(",", "")) <= 700
    assert [item.name for item in part.layout.items] == ["dampening"]
    # What was recorded is the same to the bit, since the largest differences are in the part.
    np.testing.assert_array_equal(
        part.recorded.distance.values[:, 0], whole.recorded.distance.values[:, 0]
    )
    np.testing.assert_array_equal(part.factorial.total[:, 0], whole.factorial.total[:, 0])
    np.testing.assert_allclose(part.recorded.explained, whole.recorded.explained, rtol=1e-3)
    assert part.divergence == whole.divergence
    np.testing.assert_array_equal(part.tensors[1], whole.tensors[1])
    assert all(item.holds for item in part.recorded.follows)
    for language, said in (("en", "of 20,000 parameters were trained again"), ("zh", "20,000")):
        assert said in report.markdown(part, language)


def test_the_same_part_is_taken_each_time(monkeypatch, pair):
    made_smaller(monkeypatch)
    first, then = (sampled.sample(list(pair)) for _ in range(2))
    for one, other in zip(first.traces, then.traces, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
    # Each value is one of the whole tensor's.
    for entry in first.traces[1].entries:
        whole = pair[1].of(pair[1].by_key()[entry.key])
        assert np.isin(first.traces[1].of(entry), whole).all()
        assert entry.count < len(whole)


def test_a_wrong_configuration_is_seen_in_a_part(monkeypatch, pair):
    made_smaller(monkeypatch)
    lying = configured(pair[1], options={"momentum": 0.9, "dampening": 0.2})
    found = explained(sources.of_trace(pair[0]), lying)
    assert parts(found)
    assert [item.holds for item in found.recorded.follows] == [True, False]
    strays = found.recorded.follows[1]
    assert strays.step == 2
    # It is the index in the whole tensor that is told.
    name, _, index = strays.where.rstrip("]").partition("[")
    indices = sampled.sample(list(pair)).indices[name]
    assert int(index) in indices
    assert int(index) > len(indices)


def test_the_index_of_an_element_is_that_in_the_whole_tensor(monkeypatch, pair):
    line = "pytorch:SGD lr=0.1 momentum=0.9 dampening=0.1"
    whole = explained(sources.of_trace(pair[0]), line).factorial
    made_smaller(monkeypatch)
    found = explained(sources.of_trace(pair[0]), line)
    assert parts(found)
    for one in (found.divergence.first, found.divergence.first_bit):
        key = (one.step, one.quantity, one.tensor)
        assert whole.a.find(*key)[one.index] == one.a
        assert whole.b.find(*key)[one.index] == one.b


def changed(found, change):
    """A copy of a trace in memory whose values are what ``change`` makes of each tensor."""
    values = np.concatenate(
        [np.asarray(change(entry, found.of(entry).copy())) for entry in found.entries]
    )
    return replace(found, values=values)


@pytest.mark.parametrize("place", [0, 4321, 7999])
@pytest.mark.parametrize("optimizer", ["SGD", "Lamb"])
def test_what_both_have_as_nan_hides_no_difference(monkeypatch, pair, place, optimizer):
    def gone(entry, values):
        if entry.tensor == "fc1.weight" and entry.step >= 4:
            values[place] = np.nan
        return values

    both = [configured(changed(found, gone), optimizer=optimizer, options={}) for found in pair]
    whole = explained(*both)
    made_smaller(monkeypatch)
    monkeypatch.setattr(sampled, "HELD", 1000)
    found = explained(*both)
    assert {"part", "seen"} & dict(found.notes).keys()
    np.testing.assert_array_equal(
        found.recorded.distance.values[:, 0], whole.recorded.distance.values[:, 0]
    )
    assert np.isfinite(found.recorded.distance.values[:, 0]).all()
    assert found.factorial.diverging == whole.factorial.diverging
    assert found.factorial.diverging[0].step == 4
    # One trace is gone through as two are.
    alone = explained(both[0], f"pytorch:{optimizer} lr=0.1 weight_decay=0.5")
    assert {item.step for item in alone.factorial.diverging} == {4}


def test_tensors_of_other_shapes_are_not_taken_for_each_other(monkeypatch, pair):
    def turned(found, *quantities):
        return replace(
            found,
            entries=[
                replace(entry, shape=(entry.count // 20, 20))
                if entry.tensor == "fc2.weight" and entry.quantity in quantities
                else entry
                for entry in found.entries
            ],
        )

    other = sources.of_trace(turned(pair[1], "param", "grad"))
    for message, both in (
        ("do not have the same parameters", (sources.of_trace(pair[0]), other)),
        ("fits no parameter", (sources.of_trace(turned(pair[0], "grad")), other)),
    ):
        with pytest.raises(PitbError, match=message):
            explained(*both)
        with monkeypatch.context() as smaller:
            made_smaller(smaller)
            with pytest.raises(PitbError, match=message):
                explained(*both)


@pytest.mark.parametrize("made", [lambda _: None, made_smaller])
@pytest.mark.parametrize("shape", [(0,), (0, 5)])
def test_a_tensor_without_elements_is_no_hindrance(monkeypatch, pair, made, shape):
    made(monkeypatch)

    def with_none(found):
        entries = []
        for entry in found.entries:
            entries.append(entry)
            if entry.tensor == "fc3.weight":
                entries.append(replace(entry, tensor="none", shape=shape))
        rows = np.cumsum([0] + [entry.count for entry in entries])
        entries = [
            replace(entry, first_row=int(row)) for entry, row in zip(entries, rows, strict=False)
        ]
        return sources.of_trace(replace(found, entries=entries))

    found = explained(*map(with_none, pair))
    assert [item.name for item in found.layout.items] == ["dampening"]
    assert all(item.holds for item in found.recorded.follows)


def test_one_trace_is_enough(monkeypatch, pair):
    made_smaller(monkeypatch)
    line = "pytorch:SGD lr=0.1 momentum=0.9 dampening=0.1"
    found = explained(sources.of_trace(pair[0]), line)
    whole = explained(*map(sources.of_trace, pair)).factorial.total[-1, 0]
    assert parts(found)
    assert 0.9 < found.factorial.total[-1, 0] / whole <= 1


def by_norm(scope, p=2.0):
    return {"clip": {"scope": scope, "max_norm": 0.5, "norm_type": p}}


def by_optimizer(found):
    configuration = {**found.configuration, "optimizer": "Sgd"}
    options = {"momentum": {"momentum": 0.9, "dampening": 0.0}, "gradient_clipping": {"Norm": 0.5}}
    metadata = {**found.metadata, "side": "burn", "configuration": configuration}
    configuration["options"] = options
    return sources.of_trace(replace(found, metadata=metadata))


@pytest.mark.parametrize(
    "change",
    [
        lambda found: configured(found, **by_norm("global")),
        lambda found: configured(found, **by_norm("global", 1.0)),
        lambda found: configured(found, **by_norm("global", 3.0)),
        lambda found: configured(found, **by_norm("per-parameter")),
        by_optimizer,
    ],
)
def test_norms_are_those_of_the_whole(monkeypatch, pair, change):
    # Of the clips only one side's is known, so that what it costs is seen.
    both = [change(pair[0]), sources.of_trace(pair[1])]
    whole = explained(*both)
    made_smaller(monkeypatch)
    found = explained(*both)
    assert parts(found)
    assert not parts(whole)
    # Elements that are taken need not have the largest difference where that was not recorded.
    total, of = found.factorial.total[-1, 0], whole.factorial.total[-1, 0]
    assert of > 0.01
    assert 0.9 * of < total <= of * (1 + 1e-12)
    clipped = found.factorial.a
    for entry in clipped.entries:
        if entry.quantity == "grad_norm":
            norm = whole.factorial.a.of(whole.factorial.a.by_key()[entry.key])
            np.testing.assert_allclose(clipped.of(entry), norm, rtol=1e-12)


def matrices(found):
    """The trace without the biases, and with its weights as matrices."""
    weights = [entry for entry in found.entries if entry.tensor.endswith("weight")]
    return replace(
        found, entries=[replace(entry, shape=(entry.count // 20, 20)) for entry in weights]
    )


@pytest.mark.parametrize(
    "optimizer, other",
    [
        ("Adafactor", "weight_decay=0.5"),
        ("Adafactor", "eps=[null,0.1]"),
        ("Lamb", "weight_decay=0.5"),
        ("Muon", "weight_decay=0.5"),
        ("Muon", "ns_steps=1"),
    ],
)
def test_what_takes_whole_tensors_is_trained_whole(monkeypatch, pair, optimizer, other):
    found = configured(matrices(pair[0]), optimizer=optimizer, options={})
    other = f"pytorch:{optimizer} lr=0.1 {other}"
    whole = explained(found, other)
    made_smaller(monkeypatch)
    small = explained(found, other)
    assert small.notes == whole.notes
    np.testing.assert_array_equal(small.factorial.total, whole.factorial.total)
    monkeypatch.setattr(sampled, "HELD", 1000)
    seen = explained(found, other)
    assert [name for name, _ in seen.notes if name != "fan"] == ["seen"]
    told = dict(seen.notes)["seen"]
    assert told["of"] == "19,960"
    assert 400 <= int(told["count"].replace(",", "")) <= 700
    assert [item.name for item in seen.layout.items] == [item.name for item in whole.layout.items]
    # No second trace was recorded, so that what differs most need not be among what is compared.
    assert np.isfinite(whole.factorial.total[:, 0]).all()
    ratio = seen.factorial.total[:, 0] / whole.factorial.total[:, 0]
    assert (ratio > 0.7).all()
    assert (ratio <= 1).all()
    # What is recorded of a run is what the whole run has there, to the bit.
    indices = sampled.sample([found.trace, None]).indices
    for entry in seen.factorial.b.entries:
        in_whole = whole.factorial.b.of(whole.factorial.b.by_key()[entry.key])
        if entry.tensor and len(in_whole) != entry.count:
            in_whole = in_whole[indices[entry.tensor]]
        np.testing.assert_array_equal(seen.factorial.b.of(entry), in_whole)
    for language, said in (("en", "all 19,960 parameters were trained again"), ("zh", "19,960")):
        assert said in report.markdown(seen, language)
    monkeypatch.setattr(sampled, "MOST", 1000)
    with pytest.raises(PitbError, match="are of 19960 parameters, of which no part stands for all"):
        explained(found, other)


def test_two_traces_of_whole_tensors_are_held_against_the_reference(monkeypatch, pair, tmp_path):
    """Recorded from the reference itself, so that all of the difference is explained."""
    made = []
    start = configured(matrices(pair[0]), optimizer="Adafactor", options={})
    for decay in (0.0, 0.5):
        found = explained(start, f"pytorch:Adafactor lr=0.1 weight_decay={decay}")
        run = found.factorial.b
        metadata = {**start.trace.metadata, "dtype": "float64"}
        options = {"weight_decay": decay}
        metadata["configuration"] = {**metadata["configuration"], "optimizer": "Adafactor"}
        metadata["configuration"]["options"] = options
        trace.write(replace(run, metadata=metadata), tmp_path / f"{decay}.parquet")
        made.append(sources.read(str(tmp_path / f"{decay}.parquet")))
    whole = explained(*made)
    made_smaller(monkeypatch)
    monkeypatch.setattr(sampled, "HELD", 1000)
    monkeypatch.setattr(opening, "HELD", 1000)
    seen = explained(*(sources.read(str(tmp_path / f"{decay}.parquet")) for decay in (0.0, 0.5)))
    assert "seen" in dict(seen.notes)
    assert [item.name for item in seen.layout.items] == ["weight_decay"]
    np.testing.assert_array_equal(
        seen.recorded.distance.values[:, 0], whole.recorded.distance.values[:, 0]
    )
    np.testing.assert_array_equal(seen.factorial.total[:, 0], whole.factorial.total[:, 0])
    assert (seen.recorded.explained[:, 0] > 0.999).all()
    assert all(item.holds for item in seen.recorded.follows)
    assert seen.divergence == whole.divergence


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("SGD lr=0.1", True),
        ("SGD lr=0.1 momentum=0.9 nesterov=true weight_decay=0.1", True),
        ("Adam lr=0.1 amsgrad=true", True),
        ("AdamW lr=0.1", True),
        ("Lion lr=0.1", True),
        ("Adan lr=0.1", True),
        ("Lamb lr=0.1", False),
        ("RMSprop lr=0.1 centered=true momentum=0.5", True),
        ("Adagrad lr=0.1", True),
        ("SGD lr=0.1 clip.scope=value clip.clip_value=0.1", True),
        ("SGD lr=0.1 clip.scope=global clip.max_norm=0.1", True),
        ("SGD lr=0.1 clip.scope=per-parameter clip.max_norm=0.1", True),
        ("Adafactor lr=0.1", False),
        ("Muon lr=0.1", False),
    ],
)
def test_it_is_tried_whether_each_number_is_updated_by_itself(line, expected):
    text = f"pytorch:{line}"
    assert sampled.stands_for_all(layout(text, text), SHAPES) is expected


def test_a_norm_of_what_another_clip_left_is_not_recorded():
    b = "burn:Sgd lr=0.1 gradient_clipping={Norm: 0.1}"
    both = f"{b} clip.scope=value clip.clip_value=0.1"
    assert not sampled.stands_for_all(layout(b, both), SHAPES)
    assert sampled.stands_for_all(layout(b, b), SHAPES)


@pytest.mark.parametrize("parameters", [150_000, pytest.param(5_000_000, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_traces(tmp_path, parameters):
    for name, dampening in (("a", 0.0), ("b", 0.1)):
        big_trace.write_trained(tmp_path / f"{name}.parquet", parameters, STEPS, dampening)
    code = f"""
import psutil, sys, threading, time
sys.path.insert(0, {str(ROOT / "scripts")!r})
from pitb.explain import explanation, sources
most, done = [0], threading.Event()
def watch():
    while not done.is_set():
        most[0] = max(most[0], psutil.Process().memory_info().rss)
        time.sleep(0.005)
thread = threading.Thread(target=watch)
thread.start()
found = explanation.explain(*(sources.read(f"{{name}}.parquet") for name in "ab"))
done.set()
thread.join()
print(found.notes[0][1]["of"], most[0])
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    of, peak = ended.stdout.split()
    assert of == f"{parameters:,}"
    assert int(peak) < 150e6
