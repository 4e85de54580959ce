"""Words of ours that stand as values: each has its Chinese, in one place."""

import csv
import re
from dataclasses import replace

import pytest

from pitb import schedulers, words
from pitb.breadth import inputs, laws, report, sheets
from pitb.breadth.finding import Finding
from pitb.breadth.findings_page import ANSWERS, markdown
from pitb.breadth.mutants import EQUIVALENT
from pitb.reference.equations import Equations
from pitb.schedulers.judge import LOADED, OWN, RELATIONS, law
from pitb.words import worded

CHINESE = re.compile("[\u4e00-\u9fff]")
SAME_IN_BOTH = ("OK", "MISMATCH")


def vocabulary():
    """Every value that the code can put into a column of words."""
    yield from (report.SAME, report.BY_DEFAULT, report.BY_FORMULA, report.ONE_SIDED)
    yield from (report.EXTREMES, report.BESIDE)
    yield from inputs.VERDICTS
    yield from ANSWERS
    yield from RELATIONS
    for item in laws.LAWS:
        yield from (item.json()["growth"], item.reason)
    for case in schedulers.CASES:
        yield case.note
        if case.burn is not None:
            found = law(case)
            yield found.reason
            yield str(found)
    yield from (OWN.reason, LOADED.reason)
    choices = set(vars(Equations()))
    for name, text in EQUIVALENT.items():
        # Where it is no choice, it excuses a mutant, and stands in the CSV alone.
        if name in choices or name.startswith("lbfgs."):
            yield text
    yield from ("impossible on one side", "no run shows it beyond rounding")
    yield from ("other differences show in this run, too", "shows in state.step fc.bias alone")


@pytest.mark.parametrize("text", sorted({text for text in vocabulary() if text}))
def test_each_has_its_chinese(text):
    found = worded(text, "zh")
    assert found is not None, text
    assert text in SAME_IN_BOTH or CHINESE.search(found)
    assert worded(text, "en") == text


@pytest.mark.torch
def test_each_kind_and_status_has_its_chinese():
    from pitb.breadth import coverage

    for text in (*coverage.STATUSES, "choice", "precision", "option"):
        assert CHINESE.search(worded(text, "zh") or ""), text


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("1 + 0.5 step, or 60 times the response to a nudge", "1 + 0.5 步，或扰动响应的 60 倍"),
        ("a, b, c and 12 more", "a, b, c 等，另有 12 个"),
        ("burn has none: burn's step() is told no metric", "burn 没有：burn 的 step() 不接收指标"),
        (
            'burn refuses x=true: unknown field "x"; the nearest is "y"; '
            "lr is given as the number that the tensor holds",
            'burn 拒绝 x=true：unknown field "x"; the nearest is "y"；lr 以张量所含的数给出',
        ),
        ("ends after 2 updates: ValueError\nno", "2 次更新后终止：ValueError\nno"),
        ("burn refuses it: a; PyTorch refuses it: b", "burn 拒绝：a；PyTorch 拒绝：b"),
        ("burn's Adam cannot do maximize=True", "burn 的 Adam 做不到 maximize=True"),
        ("", ""),
    ],
)
def test_names_numbers_and_messages_stay(text, chinese):
    assert worded(text, "zh") == chinese


@pytest.mark.parametrize("text", ["a word", "PyTorch has none: a word", "same; a word", "a <b>"])
def test_what_has_no_chinese_is_noticed(text):
    assert worded(text, "zh") is None


@pytest.mark.parametrize("text", [*words.VALUES.values(), *words.PATTERNS.values()])
def test_both_languages_are_given(text):
    assert set(text) == {"en", "zh"}
    assert all(text.values())


def test_sheets_speak_their_language():
    row = {"optimizer": "SGD", "relation": report.SAME, "because": "tied (2)", "where": ""}
    columns = list(row)
    zh, en = (sheets.markdown("options", [row], columns, lang) for lang in ("zh", "en"))
    assert "| SGD | 相同 | tied (2) |  |" in zh
    assert "| SGD | same | tied (2) |  |" in en


def test_findings_speak_their_language():
    found = Finding("a", "default", ("Adam",), "x", "1", "no such option", "", note="impossible on")
    for note, chinese in (("impossible on one side", "一边做不到"), ("of a library", None)):
        page = markdown([replace(found, note=note)], "zh", {})
        assert f"({chinese or note})" in page
        assert "| `1` | 没有这个选项 |" in page
    assert "| `1` | `no such option` |" in markdown([found], "en", {})


@pytest.mark.pipeline
@pytest.mark.parametrize("name", sheets.WORDED)
def test_every_value_of_the_slice_has_its_chinese(root, name):
    with (root / f"results/breadth-slice/{name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        for column in sheets.WORDED[name]:
            assert worded(row[column], "zh") is not None, row[column]
        if row.get("relation") == report.ONE_SIDED and "because" in row:
            assert worded(row["because"], "zh") is not None, row["because"]
