import csv
import io

import pytest

from pitb import labels, tables
from pitb.pages import PAGES
from pitb.pages.builders import BUILDERS
from pitb.tables import Table


def made():
    table = Table("train-step")
    table.add("a|b", "n", 3, "file")
    table.difference("a|b", "max_abs_diff", 1.25e-7, "file")
    table.add("c", "n", 4, "file")
    table.add("step 02", "n", 5, "file")
    table.add("alone", "total norm", 0.5, "file")
    table.add("summary", "verdict", "OK", "file")
    return table


def test_a_wide_table_has_a_line_for_each_row():
    assert tables.markdown(made(), "en").splitlines()[4:] == [
        "| item | n | max abs diff |",
        "| --- | --- | --- |",
        "| a\\|b | 3 | 1.25e-07 |",
        "| c | 4 |  |",
        "| step 02 | 5 |  |",
        "",
        "- alone, total norm: 0.5",
        "- verdict: OK",
    ]


def test_the_other_language_changes_headings_alone():
    english, chinese = (tables.markdown(made(), language) for language in labels.LANGUAGES)
    assert "| 项 | 个数 | 最大绝对差 |" in chinese
    assert "- 结论：OK" in chinese
    assert "| 第 02 步 | 5 |  |" in chinese
    assert english.count("|") == chinese.count("|")


def test_the_csv_keeps_values_in_full(tmp_path):
    tables.write([made()], tmp_path)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "train-step.csv").read_text())))
    assert rows[0]["max_abs_diff"] == "1.25e-07"
    assert rows[-1] == {
        "row": "summary",
        "n": "",
        "max_abs_diff": "",
        "total norm": "",
        "verdict": "OK",
    }
    assert tables.read_figures(tmp_path / "figures.csv") == made().figures


@pytest.mark.parametrize("page", PAGES)
def test_each_declared_table_can_be_made_and_is_titled_in_both_languages(page):
    assert tuple(BUILDERS[page]) == PAGES[page].tables
    for name in PAGES[page].tables:
        assert labels.TITLES[name].keys() == labels.LANGUAGES.keys()


def test_a_table_that_could_not_be_made_says_why(tmp_path):
    tables.write([Table("train-step", error="initial state differs: x[0] 1 vs 2")], tmp_path)
    text = (tmp_path / "train-step.md").read_text()
    assert text.endswith("no table: initial state differs: x[0] 1 vs 2\n")
    assert (tmp_path / "train-step.csv").read_text().splitlines() == [
        "error",
        "initial state differs: x[0] 1 vs 2",
    ]
    assert tables.read_figures(tmp_path / "figures.csv") == []


@pytest.mark.parametrize(
    ("name", "english", "chinese"),
    [
        ("step 10 |dloss|", "step 10, loss difference", "第 10 步：loss 之差"),
        ("step 07", "step 07", "第 07 步"),
        (
            "worst over 3 steps (loss or parameter)",
            "worst over 3 steps (loss or parameter)",
            "3 步之内 loss 与参数之差的最大值",
        ),
        ("fc1.weight", "fc1.weight", "fc1.weight"),
    ],
)
def test_names_that_hold_numbers_are_labelled_too(name, english, chinese):
    assert tables.label(name, "en") == english
    assert tables.label(name, "zh") == chinese


def test_every_label_is_in_both_languages():
    for text in (
        labels.COLONS,
        *labels.PATTERNS.values(),
        *labels.TITLES.values(),
        *labels.NOTES.values(),
        *labels.COLUMNS.values(),
    ):
        assert text.keys() == labels.LANGUAGES.keys()
        assert all(text.values())
    assert labels.NOTES.keys() <= labels.TITLES.keys()
