"""What stands in for a program or for torch: it crashes, hangs, lies or writes half a file."""

import os
import subprocess
import sys

import pytest

from pitb import programs

POSIX = pytest.mark.skipif(os.name != "posix", reason="the stand-ins are shell scripts")
HALF = b"PAR1 and half"


def stand_in(folder, name, body):
    """A program that is a shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake_torch(folder, body):
    """A folder for PYTHONPATH, from which `import torch` runs some lines of Python."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "torch.py").write_text(f"import os, signal, sys, time\n{body}\n", encoding="utf-8")
    return folder


def script(root, cwd, name, *arguments, limit=60, path=None, limits=None):
    """Call a script as a job does, under a time limit: its exit code and its errors."""
    environment = {**os.environ, programs.LIMIT: str(limit)}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    ended = subprocess.run(
        [sys.executable, root / "scripts" / name, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=limits,
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr
