"""The project's own pages: both languages, no typed results, code that runs."""

import re

import numpy as np
import pytest

from pitb import problems, trace
from pitb.docs import chinese, document, own, transcripts
from pitb.docs.content import difference
from pitb.docs.grammar import marks
from pitb.errors import PitbError
from pitb.reference import descriptions

NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.])[-+]?(\d+\.\d+[eE][-+]?\d+|\d+[eE][-+]\d+|\d+\.\d{3,}|\d+(\.\d+)?\s?%)(?![A-Za-z0-9_%]|\.\d)"
)
"""What looks like a result: 1.23e-4, 0.99993, 98 %."""
CODE = re.compile(r"^\s*(```|~~~).*?^\s*\1\s*$|`(?:[^`\n]|\n(?!\n))+`", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"\]\([^)]*\)")


def pages(root):
    return sorted((root / "docs").glob("*.md"))


def prose(text):
    """What of a document is neither a mark's, nor code, nor where a link goes."""
    found = document.Document(path=None, text=text)
    pieces, position = [], 0
    for mark in marks(found):
        pieces.append(text[position : mark.start])
        position = mark.end
    rest = "".join([*pieces, text[position:]])
    return LINK.sub("]", COMMENT.sub("", CODE.sub("", rest)))


def test_no_result_is_typed_into_the_prose(root):
    typed = {
        str(path.relative_to(root)): found
        for path in [*pages(root), *root.glob("README*.md")]
        if (found := [match[0] for match in NUMBER.finditer(prose(path.read_text("utf-8")))])
    }
    assert typed == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("off by 1.23e-4 here", True),
        ("off by 1e-05 here", True),
        ("a cosine of 0.99993.", True),
        ("it explains 98 % of it", True),
        ("差 1.74e+00。", True),
        ("burn 0.22.1 and PyTorch 2.15.0, float32, 10 steps, 2.4", False),
        ("`lr=3e-4`", False),
        ("```\n1.23e-4\n```\n", False),
        ("a <!-- pitb:x -->1.23e-4<!-- /pitb --> b", False),
        ("a [b](c-1.23e-4)", False),
    ],
)
def test_the_search_for_typed_results_finds_them(text, found):
    assert bool(NUMBER.search(prose(text))) == found


def test_every_page_stands_in_both_languages_and_names_the_other(root):
    names = {path.name for path in pages(root)}
    english = {name for name in names if not name.endswith(".zh.md")}
    assert len(english) >= 15
    assert names == english | {name.replace(".md", ".zh.md") for name in english}
    for name in english:
        other = name.replace(".md", ".zh.md")
        assert f"[中文]({other})" in (root / "docs" / name).read_text("utf-8")
        assert f"[English]({name})" in (root / "docs" / other).read_text("utf-8")


def test_both_languages_have_the_same_marks_headings_and_code(root):
    for path in pages(root):
        if path.name.endswith(".zh.md"):
            continue
        other = path.with_name(path.name.replace(".md", ".zh.md"))
        texts = [each.read_text("utf-8") for each in (path, other)]
        for pattern in (r"^(#+) ", r"^```(\w+)", r"<!-- picture: (\S+)"):
            found = [re.findall(pattern, text, re.MULTILINE) for text in texts]
            assert found[0] == found[1], (path.name, pattern)
        names = [
            sorted(mark.named.name for mark in marks(document.Document(path, text)))
            for text in texts
        ]
        assert names[0] == names[1], path.name


def test_every_own_name_is_used_and_every_page_uses_some(root):
    used = {
        mark.named.name
        for path in [*pages(root), *root.glob("README*.md")]
        for mark in marks(document.read(path))
    }
    assert set(own.makers(root)) <= used


def test_chinese_texts_cover_all_problems_and_choices():
    choices = set(descriptions.shared_differences())
    for name in descriptions.DESCRIPTIONS["burn"]:
        choices |= set(descriptions.differences(name))
    assert set(chinese.PROBLEMS) == set(problems.names())
    assert choices <= set(chinese.CHOICES)
    with pytest.raises(PitbError, match="no Chinese text"):
        chinese.choice("nothing")


def moved(root, folder, run, by):
    """The results' folder with every number that a run computed moved, by some of ``by`` of it."""
    found = trace.read(root / f"results/traces/{run}.parquet")
    noise = np.random.default_rng(0).uniform(-by, by, found.values.size)
    start = sum(entry.count for entry in found.entries if entry.step == 0)
    noise[:start] = 0.0  # what both sides start from stays the same
    found.values = (found.values * (1 + noise)).astype(np.float32).astype(np.float64)
    trace.write(found, folder / f"results/traces/{run}.parquet")


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("by", "same"), [(0.0, True), (1.2e-7, True), (1e-4, False), (1e-2, False)]
)
def test_another_processors_roundings_leave_a_transcript_current(root, tmp_path, by, same):
    for run in ("pytorch/rmsprop", "burn/rmsprop"):
        moved(root, tmp_path, run, by)
    make = transcripts.CONTENTS["compare-rmsprop"]
    printed, current = (make(folder, "en") for folder in (root, tmp_path))
    assert (difference(printed.text, current) is None) == same


@pytest.mark.pipeline
@pytest.mark.parametrize("page", ["trace-format", "findings"])
def test_the_pages_python_runs(root, page, monkeypatch, capsys):
    monkeypatch.chdir(root)
    text = (root / f"docs/{page}.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        found = {}
        exec(block, found)
        assert len(found.get("losses", found.get("equations", ["run"]))) > 0


@pytest.mark.pipeline
def test_the_losses_that_the_page_reads_are_those_of_both_sides(root, monkeypatch):
    monkeypatch.chdir(root)
    text = (root / "docs/trace-format.md").read_text("utf-8")
    found = {}
    exec(re.search(r"^```python\n(import json.*?)^```", text, re.MULTILINE | re.DOTALL)[1], found)
    assert found["losses"].num_rows == 2 * 11
    assert found["metadata"]["run"] == "burn/rmsprop"
