import os
import stat
import subprocess
import sys

import pytest

import install_browser


def made(folder, name):
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("name", ["chromium", "google-chrome", "microsoft-edge"])
def test_a_browser_on_the_path_is_found(name, monkeypatch, tmp_path):
    monkeypatch.delenv("CHROME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(install_browser, "APPLICATIONS", ())
    assert install_browser.find() is None
    path = made(tmp_path, name)
    assert install_browser.find() == str(path)


def test_the_one_that_is_named_counts(monkeypatch, tmp_path):
    named = made(tmp_path, "mine")
    monkeypatch.setenv("CHROME", str(named))
    assert install_browser.find() == str(named)
    monkeypatch.setenv("CHROME", str(tmp_path / "none"))
    assert install_browser.find() is None


def test_without_one_a_sentence_says_how_to_get_it(root, tmp_path):
    # A browser that is named is never replaced by an installed one.
    ended = subprocess.run(
        [sys.executable, root / "scripts/install_browser.py"],
        env={**os.environ, "CHROME": str(tmp_path / "none")},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert "no Chromium was found; install one" in ended.stderr
    assert ended.stdout == ""
