"""Other versions for real: built and installed once, into results/watch. Run by pytest -m slow."""

import subprocess
import sys

import pytest

from pitb.watch import changes, folders
from pitb.watch.changes import CHANGED, DEFAULT, EQUATION, FAILED, FIGURE, PROGRAM, UNCHANGED
from pitb.watch.versions import Wanted

pytestmark = [pytest.mark.slow, pytest.mark.pipeline, pytest.mark.torch]


def watched(root, library, version):
    """What is found of a version; it is built where it was not."""
    command = [sys.executable, "-m", "pitb", "watch", f"--{library}", version, "--keep-free", "10"]
    ended = subprocess.run(command, cwd=root, stderr=subprocess.PIPE, text=True)
    assert ended.returncode in (0, 1), ended.stderr
    path = folders.of(root / "results/watch", Wanted(library, version)) / folders.FACTS
    found = changes.read_facts(path)
    changes.rows(found)
    return found


def of(found, kind, status):
    return {item.item: item for item in found.items if (item.kind, item.status) == (kind, status)}
