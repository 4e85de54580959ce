"""All is killed at some moment of a run; the documented command then ends with the same bytes.

`make test-faults` kills at 30 moments, seeded and spread over the whole run; CI at a part of them.
"""

import os
import shutil
import time

import pytest

from clones import check_whole, copy_project, fraction, killed_midway, make, result_bytes, snakemake

pytestmark = [
    pytest.mark.pipeline,
    pytest.mark.torch,
    pytest.mark.skipif(os.name != "posix", reason="there are no process groups to kill here"),
]

MOMENTS = 30
SEED = 20260
IN_CI = (4, 13, 21, 26)
ELSEWHERE = range(2, MOMENTS, 5)
"""Of these the run works in another folder than the Snakefile's, and asks the compiler too."""


def moment(number):
    """The moment, as a part of the whole duration: one in each thirtieth."""
    return fraction(number, MOMENTS, SEED)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, root, programs):
    """A clone without results to copy, the bytes that it comes to, and the seconds that takes."""
    base = tmp_path_factory.mktemp("kills 杀")
    fresh, whole = base / "fresh", base / "whole"
    assert (root / "results/evidence/noassign.json").is_file(), "run make first"
    copy_project(root, fresh, root)
    shutil.copytree(fresh, whole)
    begun = time.monotonic()
    code, printed = snakemake(whole)
    assert code == 0, printed
    return base, fresh, result_bytes(whole), time.monotonic() - begun


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, marks=[] if number in IN_CI else pytest.mark.faults)
        for number in range(MOMENTS)
    ],
)
def test_a_run_that_was_killed_ends_with_the_same_bytes(undisturbed, root, number):
    base, fresh, expected, duration = undisturbed
    folder = base / f"moment {number}"
    where = ("-s", root / "Snakefile", "--directory", folder) if number in ELSEWHERE else ()
    begin = folder.mkdir if where else lambda: shutil.copytree(fresh, folder)
    killed_midway(folder, begin, duration * moment(number), *where)
    check_whole(result_bytes(folder), expected)
    if where:
        code, printed = snakemake(folder, *where, "--unlock")
        assert code == 0, printed
        code, printed = snakemake(folder, *where, "--rerun-incomplete")
        assert code == 0, printed
    else:
        ended = make(folder, "resume")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert ended.stdout.endswith("258 agrees, 0 differs, 0 missing\n")
    found = result_bytes(folder)
    assert sorted(found) == sorted(expected)
    assert found == expected
    shutil.rmtree(folder)


def test_the_moments_are_spread_over_the_run_and_the_same_each_time():
    fractions = [moment(number) for number in range(MOMENTS)]
    assert fractions == sorted(fractions)
    assert fractions == [moment(number) for number in range(MOMENTS)]
    assert fractions[0] < 0.05
    assert fractions[-1] > 0.95
