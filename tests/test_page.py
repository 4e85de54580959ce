"""Markdown as a page of the report."""

import html.parser

import pytest

from pitb import reported
from pitb.page import page

TABLE = "# Title\n\n| a | b |\n| --- | --- |\n| 1 | `x\\|y` |\n"


class Reader(html.parser.HTMLParser):
    """Tags with their attributes, and the texts between them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.texts.append(data)


def read(text):
    return Reader(text)


def test_a_page_needs_nothing_else():
    text = page("Title", {"en": TABLE, "zh": TABLE})
    found = read(text)
    assert not [attributes for _, attributes in found.tags if {"src", "href"} & attributes.keys()]
    assert "url(" not in text
    assert "@import" not in text
    assert not [tag for tag, _ in found.tags if tag == "script"]


def test_both_languages_are_there_and_a_reader_chooses():
    found = read(page("Title", {"en": "# Loss\n", "zh": "# 损失\n"}))
    assert [a["lang"] for tag, a in found.tags if tag == "main"] == ["en", "zh-CN"]
    buttons = [a for tag, a in found.tags if tag == "input"]
    assert [a["id"] for a in buttons] == ["en", "zh"]
    assert ["checked" in a for a in buttons] == [True, False]
    assert [a["for"] for tag, a in found.tags if tag == "label"] == ["en", "zh"]
    assert {"English", "中文", "Loss", "损失"} <= set(found.texts)


def test_one_language_has_no_choice():
    assert not [tag for tag, _ in read(page("Title", {"en": "# Loss\n"})).tags if tag == "input"]


def classes(markdown):
    found = read(page("Title", {"en": markdown}))
    return [a.get("class") for tag, a in found.tags if tag == "table"]


def table(columns, cell):
    head = "".join(f"| c{number} " for number in range(columns))
    return f"{head}|\n" + "| --- " * columns + "|\n" + f"| {cell} " * columns + "|\n"


def test_cells_know_their_column():
    found = read(page("Title", {"en": TABLE + "\n" + table(3, "1")}))
    assert [a["data-label"] for tag, a in found.tags if tag == "td"] == ["a", "b", "c0", "c1", "c2"]


@pytest.mark.parametrize(
    ("columns", "cell", "expected"),
    [
        (2, "1", None),
        (3, "1.19e-07", None),
        (4, "1.14005733", "wide w26"),
        (3, "[0.11327312886714935, 0.03841985762119293]", "wide w40"),
        (2, "several words that may go on in a new line", None),
        (12, "1.14005733", "wide w75"),
        (40, "1.14005733", "wide w90"),
    ],
)
def test_a_table_that_needs_room_is_a_wide_one(columns, cell, expected):
    assert classes(table(columns, cell)) == [expected]


@pytest.mark.parametrize(
    "text", ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><b>', "$body ${x} $"]
)
def test_html_in_markdown_is_text(text):
    found = read(page(text, {"en": f"# {text}\n\n| a |\n| --- |\n| {text} |\n"}))
    assert not {tag for tag, _ in found.tags} & {"script", "img", "b"}
    assert "".join(found.texts).count(text) == 3


def test_headings_of_english_alone_become_chinese():
    text = "# Ledger\n\n2\n\n## Not reproduced\n\n| table | row |\n| --- | --- |\n| row | x |\n"
    expected = "# 台账\n\n2\n\n## 没有重现的\n\n| 表 | 行 |\n| --- | --- |\n| row | x |\n"
    assert reported.in_chinese(text) == expected
