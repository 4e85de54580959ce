"""Other versions for real: built and installed once, into results/watch. Run by pytest -m slow."""

import subprocess
import sys

import pytest

from pitb.watch import changes, folders
from pitb.watch.changes import CHANGED, DEFAULT, EQUATION, FIGURE, NOT_COMPILED, PROGRAM
from pitb.watch.versions import Wanted

pytestmark = [pytest.mark.slow, pytest.mark.pipeline, pytest.mark.torch]


def watched(root, library, version):
    """What is found of a version; it is built where it was not."""
    command = [sys.executable, "-m", "pitb", "watch", f"--{library}", version, "--keep-free", "10"]
    ended = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    path = folders.of(root / "results/watch", Wanted(library, version)) / folders.FACTS
    return changes.read_facts(path)


def of(found, kind, status):
    """The items of a kind that are so, by name."""
    return {item.item: item for item in found.items if (item.kind, item.status) == (kind, status)}


def test_the_version_before_whose_types_name_a_backend(root):
    found = watched(root, "burn", "0.21.0")
    totals = changes.totals(found)
    assert totals[PROGRAM]["failed"] == 5
    gone = {name.partition(".")[0] for name in of(found, DEFAULT, NOT_COMPILED)}
    assert gone == {"AdafactorConfig", "LambConfig", "LionConfig"}
    assert not of(found, DEFAULT, CHANGED)
    assert totals[FIGURE]["unchanged"] > 200
    assert not of(found, FIGURE, CHANGED)
    assert totals[EQUATION]["unchanged"] > 90
    # Its L-BFGS rounds the products of vectors to f32, also where the tensors are f64.
    assert {item.cause for item in of(found, EQUATION, CHANGED).values()} == {"LBFGS"}


def test_the_version_after_in_which_lbfgs_leaves_no_gradient_out(root):
    found = watched(root, "burn", "0.23.0-pre.1")
    changed = [item for item in found.items if item.status != changes.UNCHANGED]
    (item,) = changed
    assert (item.item, item.before, item.then) == ("LBFGS flat_gradient", "left-out", "zeros")


def test_the_torch_before(root):
    found = watched(root, "torch", "2.14.1")
    assert all(item.status == changes.UNCHANGED for item in found.items)
    assert changes.totals(found)[FIGURE]["total"] == 258
