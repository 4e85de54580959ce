"""A sweep is killed at some moment; the documented command then ends with the same bytes.

CI kills one at one moment, in test_sweeps_pipeline.py.
"""

import os
import shutil

import pytest

import sweeping
from clones import check_whole

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.torch,
    pytest.mark.faults,
    pytest.mark.skipif(os.name != "posix", reason="there are no process groups to kill here"),
]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, root, programs):
    """A folder with a sweep that nothing disturbed, its bytes, and the seconds that takes."""
    folder = sweeping.put(tmp_path_factory.mktemp("kills 杀") / "whole")
    return folder, *sweeping.train(root, folder)


@pytest.fixture(scope="module")
def edited(undisturbed, root):
    """The same of that sweep after one edit: one of two batches is trained anew."""
    whole, _, _ = undisturbed
    folder = whole.parent / "edited"
    shutil.copytree(whole, folder)
    sweeping.put(folder, sweeping.EDITED)
    return sweeping.train(root, folder)


@pytest.mark.parametrize("number", range(sweeping.MOMENTS))
def test_a_sweep_that_was_killed_ends_with_the_same_bytes(undisturbed, root, tmp_path, number):
    _, expected, duration = undisturbed
    seconds = duration * sweeping.moment(number)
    sweeping.kill_and_go_on(root, tmp_path / f"moment {number}", seconds, expected)


@pytest.mark.parametrize("number", range(0, sweeping.MOMENTS, 2))
def test_an_edited_sweep_that_was_killed_ends_with_the_same_bytes(
    undisturbed, edited, root, tmp_path, number
):
    whole, before, _ = undisturbed
    expected, duration = edited
    assert before != expected
    folder = tmp_path / f"moment {number}"

    def begin():
        shutil.copytree(whole, folder)
        sweeping.put(folder, sweeping.EDITED)

    seconds = duration * sweeping.moment(number)
    sweeping.kill_and_go_on(root, folder, seconds, expected, begin, before)


def test_the_moments_are_spread_over_the_run():
    found = [sweeping.moment(number) for number in range(sweeping.MOMENTS)]
    assert found == sorted(found)
    assert found[0] < 1 / 8
    assert found[-1] > 7 / 8


def test_a_file_that_is_half_written_under_its_name_is_seen():
    check_whole({"a": b"whole", "b": b"old", ".c.part": b"ha"}, {"a": b"whole"}, {"b": b"old"})
    for left in ({"a": b"who"}, {"unknown": b""}):
        with pytest.raises(AssertionError):
            check_whole(left, {"a": b"whole"}, {})
