"""Marks in documents: the grammar, the names, filling, comparing."""

import csv
import io
import os
import re
import stat
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from documents import LAST, results
from pitb import tables
from pitb.docs import document, fill, measured, source
from pitb.docs.content import Content, difference
from pitb.docs.document import Document
from pitb.docs.figures import Tables
from pitb.docs.grammar import CLOSE, marks
from pitb.docs.options import parse
from pitb.errors import PitbError
from pitb.files import write_json
from pitb.tables import Figure

FIGURE = f'<!-- pitb:optimizer-defaults/mismatch row=sgdm column="{LAST}" -->'
TABLE = "<!-- pitb:optimizer-defaults/mismatch -->"
PATH = Path("a.md")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return Tables(source.folder(results(tmp_path_factory.mktemp("results"))))


def filled(text, found, name="a.md"):
    return fill.fill(Document(Path(name), text), found)


def one(mark, found, name="a.md"):
    """What a mark within a line is filled with."""
    return filled(f"x {mark}{CLOSE} y\n", found, name).text.split("-->")[1].split("<!--")[0]


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        (f"a {FIGURE}old{CLOSE} b", "4.00e-2"),
        (f"a {FIGURE}{CLOSE}{FIGURE}{CLOSE} b", "4.00e-2"),
        (f"- a {FIGURE}old{CLOSE}", "4.00e-2"),
        (f"> a {FIGURE}old{CLOSE}", "4.00e-2"),
        (f"# a {FIGURE}old{CLOSE}", "4.00e-2"),
        (f"a\n{FIGURE}old\nolder{CLOSE} b", "4.00e-2"),
        (f"<td>{FIGURE}{CLOSE}</td>", "4.00e-2"),
        (f"**{FIGURE}{CLOSE}**", "4.00e-2"),
        (f"a `b` {FIGURE}old{CLOSE} `c`", "4.00e-2"),
        (f"a ` {FIGURE}old{CLOSE} b", "4.00e-2"),
        (f"a <!-- a comment --> {FIGURE}old{CLOSE} b", "4.00e-2"),
        (f"\\`a {FIGURE}old{CLOSE} b`", "4.00e-2"),
        (f"a <!--pitb:optimizer-defaults/mismatch row='sgdm' column='{LAST}'-->{CLOSE}", "4.00e-2"),
        (f"a <!-- pitb:optimizer-defaults/mismatch\n row=sgdm\n column='{LAST}' -->{CLOSE}", "4."),
    ],
)
def test_a_figure_within_a_line_is_filled(found, text, inner):
    assert inner in filled(text, found).text
    assert "old" not in filled(text, found).text


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{FIGURE}\n```\n",
        f"~~~ markdown\n{TABLE}\n{CLOSE}\n~~~\n",
        f"- a\n\n  ```\n  {TABLE}\n  ```\n",
        f"> ```\n> {TABLE}\n> ```\n",
        f"````\n```\n{TABLE}\n```\n````\n",
        f"a `{FIGURE}` b\n",
        f"a `` ` {FIGURE} `` b\n",
        f"| a |\n| - |\n| `{FIGURE}` |\n".replace("max|d", r"max\|d").replace('m|"', 'm\\|"'),
        f"    {TABLE}\n    {CLOSE}\n",
        f"a \\{FIGURE} b\n",
        f"<!-- a comment of its own {FIGURE}\n",
        "<!-- pitb is a name -->\n",
        f"```\n{FIGURE}",
        "",
    ],
)
def test_what_is_code_or_escaped_is_text(found, text):
    assert filled(text, found).text == text
    assert filled(text, found).marks == 0


def test_a_table_has_lines_of_its_own_with_the_documents_ends_and_indentation(found):
    got = filled(f"- a\r\n\r\n  {TABLE}\r\n  old\r\n  {CLOSE}\r\nend", found).text
    lines = got.split("\r\n")
    assert lines[3].startswith("  | item | step 1, largest parameter difference |")
    assert lines[5] == "  | sgdm | 1.49e-8 | 4.00e-2 | MISMATCH |"
    assert lines[-2:] == [f"  {CLOSE}", "end"]
    assert "\n" not in got.replace("\r\n", "")
    old_mac = filled(f"{TABLE}\r{CLOSE}\r", found).text
    assert "\n" not in old_mac
    assert old_mac.count("\r") == 6


@pytest.mark.parametrize(
    ("mark", "shown"),
    [
        ('mismatch row=sgdm column="step 1 max|dparam|"', "1.49e-8"),
        ('mismatch row=sgdm column="step 1, largest parameter difference"', "1.49e-8"),
        ("mismatch row=sgdm column='第 1 步：参数之差的最大值'", "1.49e-8"),
        ('mismatch row=sgdm column="step 1 max|dparam|" value=reproduced', "7.45e-09"),
        ('mismatch row=sgdm column="step 1 max|dparam|" value=reproduced format=full', "7.45e-09"),
        ('mismatch row=sgdm column="step 10 max\\|dparam\\|" format=.1f', "0.0"),
        ('mismatch row=sgdm column="step 10 max|dparam|" format=.1%', "4.0%"),
        ('mismatch row=sgdm column="step 10 max|dparam|" value=reproduced format=full', "0.04003"),
        ('mismatch row=rmsprop column="step 10 max|dparam|"', "1.74e+00"),
        ("mismatch row=summary column=exit_code", "1"),
        ('explanations row="a \\"quoted\\" row" column="a|b"', "x | y"),
        ("explanations row='a \"quoted\" row' column=a|b", "x | y"),
        ('explanations row="带 空格" column=范围', "2.50e-03 to 6.40e-03"),
        ('explanations row="带 空格" column=范围 format=.1e', "2.5e-03 to 6.4e-03"),
        ("explanations row=list column=values format=.1f", "[0.1, -2.5]"),
        ("explanations row=whole column=count format=,d", "1,234,567"),
        ("explanations row=text column=words", "borrow of `model`"),
        ('explanations row=arrow column="a--\\>b"', "1"),
    ],
)
def test_every_way_to_name_a_figure(found, mark, shown):
    assert one(f"<!-- pitb:optimizer-defaults/{mark} -->", found) == shown


@pytest.mark.parametrize(
    ("mark", "shown"),
    [
        ('comparisons row="burn/x pytorch/y" column=verdict', "MISMATCH"),
        ('comparisons row="burn/x pytorch/x" column=worst', "1.19e-07"),
        ('breadth-slice/floor row="SGD float32 1" column=burn_median', "3.92e-08"),
        ('breadth-slice/floor row="SGD float32 1" column="burn, median" format=full',
         "3.917650894946186e-08"),
        ('breadth-slice/floor row="Adam float64 1" column=burn_median', "0.9999"),
        ('breadth-slice/floor row="SGD float32 10" column=cases', "214"),
    ],
)  # fmt: skip
def test_sheets_are_tables_too(found, mark, shown):
    assert one(f"<!-- pitb:{mark} -->", found) == shown
    name = mark.split()[0]
    assert name in found.names()
    text = filled(f"<!-- pitb:{name} -->\n{CLOSE}\n", found).text
    assert "| burn/x pytorch/x | OK |" in text or "| SGD float32 1 | 212 | 3.92e-08 |" in text


def test_a_broken_sheet_is_a_sentence(tmp_path):
    folder = results(tmp_path)
    (folder / "comparisons.csv").write_text("a,b\n1\n")
    with pytest.raises(PitbError, match=r"comparisons\.csv: row 2 has 1 fields, not 2"):
        Tables(source.folder(folder)).table("comparisons")


def test_chinese_documents_get_chinese_headings_and_ranges(found):
    text = f"{TABLE}\n{CLOSE}\n"
    assert "| 项 | 第 1 步：参数之差的最大值 |" in filled(text, found, "a.zh.md").text
    assert "| item |" in filled(text.replace(" -->", " language=en -->", 1), found, "a.zh.md").text
    mark = '<!-- pitb:optimizer-defaults/explanations row="带 空格" column=范围 -->'
    assert one(mark, found, "a.zh.md") == "2.50e-03 到 6.40e-03"


def test_a_pipe_in_a_cell_is_written_escaped(found):
    mark = "<!-- pitb:optimizer-defaults/explanations row='a \"quoted\" row' column=a\\|b -->"
    text = filled(f"| a |\n| - |\n| {mark}{CLOSE} |\n", found).text
    assert f"{mark}x \\| y{CLOSE} |" in text
    unescaped = text.replace("a\\|b", "a|b")
    with pytest.raises(PitbError, match=r"a\.md, line 3: in a row of a table, a \| within"):
        filled(unescaped, found)


def test_rows_and_columns_of_a_table_are_chosen_and_ordered(found):
    options = f'row=rmsprop row=sgdm column=verdict column="{LAST}"'
    text = filled(f"{TABLE[:-3]}{options} -->\n{CLOSE}\n", found).text
    assert text.splitlines()[1:5] == [
        "| item | verdict | step 10, largest parameter difference |",
        "| --- | --- | --- |",
        "| rmsprop | MISMATCH | 1.74e+00 |",
        "| sgdm | MISMATCH | 4.00e-2 |",
    ]
    below = filled(f"{TABLE[:-3]}below=yes -->\n{CLOSE}\n", found).text
    assert "\n\n- exit code: 1\n" in below
    published = filled(f"{TABLE[:-3]}only=published -->\n{CLOSE}\n", found)
    assert "| sgdm | 1.49e-8 | 4.00e-2 |\n" in published.text
    assert "verdict" not in published.text


def test_what_the_ledger_does_not_agree_with_is_said(found):
    result = filled(f"a {FIGURE.replace('sgdm', 'rmsprop')}{CLOSE}\n\n{TABLE}\n{CLOSE}\n", found)
    assert result.text.count("1.74e+00") == 2
    assert len(result.notes) == 2
    assert re.search(r"a\.md, line 1: .*rmsprop / .* is 1\.74e\+00, as reproduced: the ledger says "
                     r"that it differs from the published 1\.84e\+00", result.notes[0])  # fmt: skip
    only = filled(f"{TABLE[:-3]}only=published -->\n{CLOSE}\n", found)
    assert any("adamw" in note and "is missing" in note for note in only.notes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"a\n\nb {FIGURE}", r"a\.md, line 3: the mark is not closed by"),
        (f"{TABLE}\n\ntext\n", r"a\.md, line 1: the mark is not closed"),
        (f"a {CLOSE} b", r"a\.md, line 1: .* closes nothing"),
        (f"{TABLE}\n{TABLE}\n{CLOSE}\n{CLOSE}\n", r"line 2: a mark opens within that of line 1"),
        (f"a {FIGURE}{FIGURE}{CLOSE}{CLOSE}", r"line 1: a mark opens within"),
        (f"a {FIGURE} b\n\nc {CLOSE}", r"line 1: the mark is not closed .* same paragraph"),
        (f"{TABLE}\n\na {CLOSE} b\n", r"line 1: the mark is not closed .* alone on another"),
        (f"> {TABLE}\n> {CLOSE}\n", r"line 1: .*"),
        ("<!-- pitb:optimizer-defaults/mismtch -->\n<!-- /pitb -->",
         r"line 1: nothing is called 'optimizer-defaults/mismtch'; the nearest is "
         r"'optimizer-defaults/mismatch'"),
        (f"\n{TABLE[:-3]}row=smdg -->\n{CLOSE}", r"line 2: .* no row 'smdg'; the nearest is 'sgd"),
        (f"a {FIGURE.replace('10', '11')}{CLOSE}", r"no column 'step 11 max.*nearest is 'step 1"),
        (f"a {TABLE}{CLOSE}", r"line 1: a mark within a line is one figure"),
        (f"a {FIGURE[:-3]}row=rmsprop -->{CLOSE}", r"line 1: a mark within a line is one figure"),
        (f"a {FIGURE[:-3]}colum=x -->{CLOSE}", r"no option is called 'colum'.*nearest is 'column'"),
        (f"a {FIGURE[:-3]}format=.2x -->{CLOSE}", r"format '\.2x' is none such as"),
        (f"a {FIGURE[:-3]}format=.2e format=.3e -->{CLOSE}", r"option format is given twice"),
        (f"a {FIGURE[:-3]}language=de -->{CLOSE}", r"language is en or zh, not 'de'"),
        (f"a {FIGURE[:-3]}row=\"a -->{CLOSE}", r"is no option"),
        (f"a {FIGURE[:-3]}word -->{CLOSE}", r"'word' is no option"),
        (f"a <!-- pitb: -->{CLOSE}", r"a mark names something"),
        ("a <!-- pitb:optimizer-defaults/explanations row=text column=words format=.2e -->"
         f"{CLOSE}", r"is 'borrow of `model`', no number"),
        (f"a {FIGURE[:-3]}format=d -->{CLOSE}", r"no whole number"),
        (f"a {FIGURE}<!-- /pitb x -->{CLOSE}", r"is closed by .* and not by"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_file_and_line(found, text, sentence):
    with pytest.raises(PitbError, match=sentence) as caught:
        filled(text, found)
    assert str(caught.value).startswith("a.md, line ")


@pytest.mark.parametrize(
    ("before", "line"),
    [("a\u2028b\x0cc\x0bd\x85e\n\n", 3), ("a\r\nb\rc\nd\n\n", 6), ("\ufeff\n\n", 3)],
)
def test_lines_are_counted_as_markdown_does(found, before, line):
    with pytest.raises(PitbError, match=rf"a\.md, line {line}: the mark is not closed"):
        filled(f"{before}{TABLE}\n", found)


def test_a_table_that_could_not_be_made_says_why(tmp_path):
    folder = results(tmp_path)
    (folder / "tables/optimizer-defaults/aligned.csv").write_text("error\nthe runs start apart\n")
    with pytest.raises(
        PitbError, match="no table optimizer-defaults/aligned: the runs start apart"
    ):
        Tables(source.folder(folder)).table("optimizer-defaults/aligned")


def test_only_spaces_leave_a_mark_alone_on_its_line(found):
    for blank in ("\f", "\u2028", "\xa0", "\u3000"):
        with pytest.raises(PitbError, match="line 1: "):
            filled(f"{blank}{TABLE}\n{CLOSE}\n", found)


@pytest.mark.parametrize("piece", ["` `` ", "<!-- ", "\\`", "| ` ", "> ", "[", "*a "])
def test_a_large_document_takes_no_long_time(found, piece):
    start = time.process_time()
    filled(piece * 20_000, found)
    assert time.process_time() - start < 5


def test_a_mark_that_begins_a_line_is_said(found):
    assert "ends the paragraph" in filled(f"a\n{FIGURE}{CLOSE} b", found).notes[0]
    assert filled(f"a {FIGURE}{CLOSE} b", found).notes == []
    assert filled(f"<td>{FIGURE}{CLOSE}</td>", found).notes == []


# What is printed and what is current.


@pytest.mark.parametrize(
    "printed",
    [
        "| a | b |\n| --- | --- |\n| x \\| y | 2 |",
        "\n\n| a   | b |\n|:----|--:|\n| x \\| y | 2   |\n\n",
        "  | a | b |\n  | - | - |\n  | x \\| y | 2 |",
        "| a | b\n| --- | ---\n| x \\| y | 2",
    ],
)
def test_a_formatters_table_is_current(printed):
    assert difference(printed, Content("| a | b |\n| --- | --- |\n| x \\| y | 2 |")) is None


@pytest.mark.parametrize(
    ("printed", "place", "old", "new"),
    [
        ("| a | b |\n| - | - |\n| x | 3 |", "row x, column b", "3", "2"),
        ("| a | c |\n| - | - |\n| x | 2 |", "row a, column b", "c", "b"),
        ("| a | b |\n| - | - |", "row x", "nothing", "x | 2"),
        ("| a | b |\n| - | - |\n| x | 2 |\n| y | 3 |", "row y", "y | 3", "nothing"),
        ("| a |\n| - |\n| x |", "row a", "a", "a | b"),
        ("", "row a", "nothing", "a | b"),
    ],
)
def test_the_first_cell_that_differs_is_named(printed, place, old, new):
    got = difference(printed, Content("| a | b |\n| --- | --- |\n| x | 2 |"))
    assert (got.place, got.printed, got.current) == (place, old, new)


@pytest.mark.parametrize(
    ("printed", "current", "same"),
    [
        ("x=1.49e-08 OK", "x=2.98e-08 OK", True),
        ("x=1.49e-08 OK", "x=2.98e-08 MISMATCH", False),
        ("x=1.23e-02", "x=1.24e-02", True),
        ("x=1.23e-02", "x=1.25e-02", False),
        ("n= 12  x=1.0", "n=13  x=1.0", False),
        ("0.51148975", "0.51148990", True),
        ("0.51148975", "0.51149975", False),
        ("1.5e+999", "2.5e+999", False),
        ("fc1.weight 0.0", "fc2.weight 0.0", False),
        ("1.0.0", "1.0.1", False),
    ],
)
def test_roundings_are_let_pass_where_a_content_has_them(printed, current, same):
    assert (difference(printed, Content(current, roundings=2.4e-7)) is None) == same
    assert difference(printed, Content(current)) is not None


def test_code_is_compared_with_its_indentation():
    content = Content("```python\nif a:\n    b\n```")
    assert difference(content.text, content) is None
    assert difference("```python\nif a:\nb\n```", content) is not None


def test_what_a_formatter_did_to_a_current_place_stays(found):
    before = filled(f"a {FIGURE}{CLOSE} b\n\n{TABLE}\n{CLOSE}\n", found).text
    padded = re.sub(r"\| (\w)", r"|   \1", before).replace(f"4.00e-2{CLOSE}", f"4.00e\\-2{CLOSE}")
    padded = padded.replace(f"{TABLE}\n", f"{TABLE}\n\n")
    assert padded != before
    assert filled(padded, found).text == padded
    assert filled(padded, found).stale == []


# Properties.

_PIECES = st.sampled_from(
    [
        FIGURE, TABLE, CLOSE, "\n", "\r\n", "\r", "\n\n", "```", "~~~", "`", "``", " ", "    ",
        "a", "|", "| a |", "| - |", "> ", "- ", "1. ", "<!--", "-->", "\\", "\u2028", "\f",
        "\ufeff", "  ", "<div>", "中", "\0", "# ", "---", "[a]: b", "=",
    ]
)  # fmt: skip
_TEXTS = st.one_of(st.text(st.characters(exclude_categories=["Cs"])),
                   st.lists(_PIECES, max_size=25).map("".join))  # fmt: skip


def outside(text):
    """What a document says outside its marks."""
    pieces, position = [], 0
    for mark in marks(Document(PATH, text)):
        pieces.append(text[position : mark.start])
        position = mark.end
    return [*pieces, text[position:]]


@settings(deadline=None)  # a busy machine is no fault
@given(_TEXTS)
def test_filling_is_idempotent_and_leaves_the_rest(found, text):
    try:
        first = filled(text, found)
    except PitbError as error:
        assert re.match(r"a\.md, line \d+: ", str(error))
        return
    again = filled(first.text, found)
    assert again.text == first.text
    assert again.stale == []
    assert outside(first.text) == outside(text)


class _Memory:
    """Results with one figure, of any value; a source that is no folder."""

    where = "memory"

    def __init__(self, row, column, value):
        figure = Figure("t", row, column, value, value, "e")
        rows = [tables.FIELDS, [str(each) for each in vars(figure).values()]]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        self.figures = text.getvalue()

    def pages(self):
        return ["p"]

    def has(self, name):
        return name == "tables/p/figures.csv"

    def text(self, name):
        return self.figures


_VALUES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1)


@settings(deadline=None)  # a busy machine is no fault
@given(_VALUES, _VALUES, _VALUES)
@example("0", "0", "\\")  # which would escape the mark behind it
@example("0", "0", "a ` b")
@example("0", "0", "a \\| b")
@example("{0}", "-->", "x")
def test_any_row_column_and_value_can_be_filled_in_again_and_again(row, column, value):
    one = Tables(_Memory(row, column, value))
    options = " ".join(
        f'{key}="{re.sub(r"([^0-9A-Za-z])", lambda m: chr(92) + m[1], text)}"'
        for key, text in (("row", row), ("column", column))
    )
    figure = f"<!-- pitb:p/t {options} -->{CLOSE}"
    text = f"a `b` {figure} `c`\n\n| a | b |\n| - | - |\n| {figure} | `c` |\n\n"
    text += f"<!-- pitb:p/t -->\n{CLOSE}"
    try:
        first = filled(text, one)
    except PitbError as error:
        assert "holds a comment" in str(error) or "\n" in row + column or "<!--" in value
        return
    assert first.marks == 3
    again = filled(first.text, one)
    assert again.text == first.text
    assert again.stale == []
    assert outside(first.text) == outside(text)


@settings(deadline=None)  # a busy machine is no fault
@given(_TEXTS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_table_after_any_text_without_marks_is_filled(found, text, end):
    before = re.sub(r"[`~<]", "", text).rstrip()
    whole = f"{before}{end}{end}para{end}{end}{TABLE}{end}{CLOSE}{end}"
    result = filled(whole, found)
    assert result.marks in (0, 1)  # 0 within what indentation makes code
    if result.marks:
        assert result.text.startswith(whole[: -len(f"{CLOSE}{end}")])
        assert result.text.endswith(f"{CLOSE}{end}")


@settings(deadline=None)  # a busy machine is no fault
@given(st.text(min_size=1).filter(lambda text: "-->" not in text.replace("--\\>", "")))
def test_any_value_can_be_quoted(text):
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("|", "\\|")
    assert parse(f'x row="{quoted}"', "a").options.row == (text,)


# Files.


@pytest.mark.parametrize(
    "raw",
    [
        b"\xef\xbb\xbf# a\n",
        b"a\r\nb\rc\nd",
        b"a\x0cb\x0c\n",
        "a\u2028b\u2029\x85c".encode(),
        b"",
        b"\n\n\n",
        b"a\0b",
    ],
)
def test_a_document_keeps_its_bytes(tmp_path, found, raw):
    path = tmp_path / "中 文.md"
    path.write_bytes(raw)
    read = document.read(path)
    assert read.raw == raw
    assert fill.fill(read, found).text == read.text


def test_a_byte_order_mark_does_not_hide_a_fence(tmp_path, found):
    path = tmp_path / "a.md"
    path.write_bytes(b"\xef\xbb\xbf```\n" + TABLE.encode() + b"\n```\n")
    assert fill.fill(document.read(path), found).marks == 0


@pytest.mark.parametrize(
    ("raw", "line", "byte"),
    [(b"a\nb\xff", 2, "0xff"), (b"a\r\nb\rc\n\xe4\xb8", 4, "0xe4"), (b"\xff\xfea\0", 1, "0xff")],
)
def test_what_is_not_utf8_is_refused_with_its_line(tmp_path, raw, line, byte):
    path = tmp_path / "a.md"
    path.write_bytes(raw)
    with pytest.raises(PitbError, match=rf"a\.md, line {line}: byte {byte} is not part of UTF-8"):
        document.read(path)


def test_a_file_is_replaced_with_its_mode_and_through_links(tmp_path, found):
    path, link = tmp_path / "a.md", tmp_path / "link.md"
    path.write_text(f"{TABLE}\n{CLOSE}\n")
    path.chmod(0o640)
    link.symlink_to("a.md")
    result = fill.fill_all([link, path, link, tmp_path / "." / "a.md"], lambda _: found)
    assert len(result) == 1
    fill.write(result)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert "4.00e-2" in path.read_text()
    assert sorted(os.listdir(tmp_path)) == ["a.md", "link.md"]


@pytest.mark.parametrize("kind", ["folder", "fifo", "missing", "broken link"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    path = tmp_path / "a.md"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "broken link":
        path.symlink_to("nowhere")
    with pytest.raises(PitbError, match=r"folder|regular|not exist"):
        document.read(path)


def test_one_fault_leaves_every_file_of_the_call(tmp_path, found):
    good, bad, worse = (tmp_path / f"{name}.md" for name in ("good", "bad", "worse"))
    good.write_text(f"{TABLE}\n{CLOSE}\n")
    bad.write_text(f"{TABLE}\n")
    worse.write_text(f"{CLOSE}\n")
    with pytest.raises(PitbError) as caught:
        fill.fill_all([good, bad, worse], lambda _: found)
    assert "bad.md, line 1" in str(caught.value)
    assert "worse.md, line 1" in str(caught.value)
    assert good.read_text() == f"{TABLE}\n{CLOSE}\n"


def test_results_are_found_beside_the_document_or_above_it(tmp_path, monkeypatch):
    made = results(tmp_path / "project/results")
    deep = tmp_path / "project/docs/deep"
    deep.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert source.nearest_folder(deep / "a.md").path == made
    with pytest.raises(PitbError, match="name one with --results"):
        source.nearest_folder(tmp_path / "elsewhere/a.md")
    monkeypatch.chdir(deep)
    assert source.nearest_folder(tmp_path / "elsewhere/a.md").path == made
    with pytest.raises(PitbError, match="holds no results"):
        source.folder(tmp_path)


def test_what_a_further_value_costs_is_that_of_the_values_a_trace_has_more(tmp_path):
    def item(values, seconds):
        times = {"s": seconds, "ns": 1e9 * seconds / values, "ns_min": 1.0, "ns_max": 2.0}
        rest = {"processor_ns": 1.0, "peak_mb": 1, "whole_column_times": 1.0, "python_times": 1.0}
        return {"parameters": 1, "steps": 1, "values": values, **times, **rest}

    # 5 ms, and 10 ns for each value; then 20 ns for each more.
    items = [item(100_000, 0.006), item(1_000_000, 0.015), item(2_000_000, 0.035)]
    (tmp_path / "bench").mkdir()
    write_json(tmp_path / "bench/bench.json", {"big_traces": {"flatness": {"steps": items}}})
    head, _, *rows = measured.flatness(tmp_path, "en", "steps").splitlines()
    place = head.split(" | ").index("for each further value")
    assert [row.split(" | ")[place] for row in rows] == ["–", "10.0 ns", "20.0 ns"]
