"""What an archive asks for: complete here, and each thing that is missing is one sentence."""

import json
import shutil
import subprocess
import sys

import pytest

from pitb.bundle import publish

FILES = ("CITATION.cff", "LICENSE", "pyproject.toml", "Cargo.toml", "CHANGELOG.md")


@pytest.fixture
def project(root, tmp_path):
    for name in FILES:
        shutil.copy(root / name, tmp_path)
    return tmp_path


def test_it_is_all_there(root):
    assert publish.missing(root) == []


def edited(name, old, new):
    def change(project):
        text = (project / name).read_text(encoding="utf-8")
        assert old in text
        (project / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: (p / "CITATION.cff").unlink(), "CITATION.cff does not exist"),
        (lambda p: (p / "LICENSE").unlink(), "LICENSE does not exist"),
        (edited("CITATION.cff", "title:", "titel:"), "lacks the key 'title'"),
        (edited("CITATION.cff", "abstract:", "about:"), "lacks the key 'abstract'"),
        (edited("CITATION.cff", "  - name: the pitb authors", "  - alias: x"), "authors"),
        (edited("CITATION.cff", "keywords: [PyTorch", "keywords: [1"), "keywords"),
        (edited("CITATION.cff", "version: 0.1.0", "version: 0.2.0"), "has version 0.1.0, but"),
        (edited("Cargo.toml", 'version = "0.1.0"', 'version = "0.1.1"'), "Cargo.toml has version"),
        (edited("CHANGELOG.md", "## 0.1.0", "## 0.0.9"), "CHANGELOG.md has version 0.0.9"),
        (edited("CHANGELOG.md", "## 0.1.0", "## Next"), "CHANGELOG.md has version none"),
        (edited("LICENSE", "MIT License", "Licence"), "LICENSE does not begin with"),
        (edited("CITATION.cff", "license: MIT", "license: GPL-3.0"), "'GPL-3.0' is not one of"),
        (
            edited("pyproject.toml", 'license = "MIT"', 'license = "BSD"'),
            "project.license is 'BSD'",
        ),
        (edited("Cargo.toml", 'license = "MIT"', 'licence = "MIT"'), "has no workspace.package"),
        (edited("Cargo.toml", "[workspace]", "[workspace"), "is not valid TOML"),
    ],
)
def test_what_is_missing_is_a_sentence(project, change, said):
    change(project)
    found = publish.missing(project)
    assert any(said in sentence for sentence in found), found
    assert all("\n" not in sentence for sentence in found)


def test_the_metadata_of_a_deposit(root):
    found = publish.zenodo(publish.citation(root))["metadata"]
    assert found["creators"] == [{"name": "the pitb authors"}]
    assert found["license"] == "MIT"
    assert found["version"] == "0.1.0"
    assert "\n" not in found["description"]
    json.dumps(found)
    author = {"family-names": "Doe", "given-names": "J."}
    assert publish.creator(author) == "Doe, J."


def test_without_a_bundle_it_says_so(root, tmp_path):
    command = [sys.executable, root / "scripts/check_publish.py", "--root", root]
    command += ["--record", tmp_path / "none.json", "--out", tmp_path / "zenodo.json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "make one with make bundle" in done.stdout
    assert not (tmp_path / "zenodo.json").exists()
