import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitb import ledger
from pitb.errors import PitbError
from pitb.ledger import AGREES, DIFFERS, MISSING, Published
from pitb.tables import Figure


def published(printed, kind, row="r", column="c"):
    return Published("page", "t", row, column, printed, kind)


def agrees(printed, kind, reproduced, **where):
    return ledger.verdict(published(printed, kind, **where), reproduced)[1]


@pytest.mark.parametrize(
    ("printed", "reproduced", "expected"),
    [
        ("1e-8", "1e-08", True),
        ("1e-4", "0.0001", True),
        ("0", "0.0", True),
        ("0.9", "0.9000001", False),
        ("False", "False", True),
        ("False", "false", False),
        ("true", "true", True),
        ("6, 8", "6, 8", True),
        ("6, 8", "6,8", False),
        ("[-0.0, 1.0]", "[-0.0, 1.0]", True),
        ("OK", "MISMATCH", False),
        ("12", None, False),
    ],
)
def test_exact_figures_are_equal(printed, reproduced, expected):
    assert agrees(printed, "exact", reproduced) is expected


@pytest.mark.parametrize(
    ("printed", "reproduced", "expected"),
    [
        ("4.00e-2", "0.04004", True),
        ("4.00e-2", "0.040051", False),
        ("4.00e-2", "0.03994", False),
        ("1.74e+00", "1.7449", True),
        ("1.74e+00", "1.7451", False),
        ("2.51e-5", "2.53e-05", True),  # the slack of 2.4e-7 is larger than the digit here
        ("2.51e-5", "2.55e-05", False),
        ("2.5e-5 to 6.4e-5", "2.44e-05 to 6.41e-05", True),
        ("2.5e-5 to 6.4e-5", "2.44e-05 to 6.5e-05", False),
        ("2.5e-5 to 6.4e-5", "2.44e-05", False),
        ("1.0", "nan", False),
        ("1.0", "text", False),
        ("1.0", None, False),
    ],
)
def test_sizes_agree_to_the_printed_digits(printed, reproduced, expected):
    assert agrees(printed, "size", reproduced) is expected


@pytest.mark.parametrize(
    ("printed", "reproduced", "where", "expected"),
    [
        # 4 ulp of f32 at 1.14 are 4.8e-7; half a printed unit is 5e-9.
        ("1.14005756", "1.1400573253631592", {}, True),
        ("1.14005756", "1.14005804", {}, True),
        ("1.14005756", "1.14005806", {}, False),
        # ... and times the step.
        ("1.14005756", "1.14006233", {"row": "step 10"}, True),
        ("1.14005756", "1.14006234", {"row": "step 10"}, False),
        ("1.14005756", "1.14006233", {"column": "step 10 loss"}, True),
        ("[0.1, -0.2]", "[0.10000002, -0.2]", {}, True),
        ("[0.1, -0.2]", "[0.1, -0.26]", {}, False),
        ("[0.1, -0.2]", "[0.1]", {}, False),
        # The largest difference may be smaller, or larger by 2.4e-7, and never above 1e-6.
        ("1.49e-08", "0.0", {"column": "max_abs_diff"}, True),
        ("1.49e-08", "2.5e-07", {"column": "max_abs_diff"}, True),
        ("1.49e-08", "2.6e-07", {"column": "max_abs_diff"}, False),
        ("8.34e-7", "9.9e-07", {"column": "worst over 10 steps (loss or parameter)"}, True),
        ("8.34e-7", "1.01e-06", {"column": "worst over 10 steps (loss or parameter)"}, False),
        ("1.19e-07", "-1e-9", {"column": "|dloss|"}, False),
        ("1.19e-07", "nan", {"column": "|dloss|"}, False),
        ("5.96e-08", "1e-07", {"column": "max|dparam|", "row": "x step 10"}, True),
    ],
)
def test_rounding_is_bounded(printed, reproduced, where, expected):
    assert agrees(printed, "rounding", reproduced, **where) is expected


@pytest.mark.parametrize(
    ("value", "ulp"),
    [(1.0, 2**-23), (1.99, 2**-23), (2.0, 2**-22), (0.0, 2**-149), (1e-45, 2**-149)],
)
def test_an_ulp_is_that_of_f32(value, ulp):
    assert ledger.f32_ulp(value) == ulp


@given(st.floats(1e-6, 1e6), st.sampled_from(["size", "rounding"]))
def test_what_is_printed_agrees_with_itself(value, kind):
    assert agrees(f"{value:.2e}", kind, repr(value))


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_text_breaks_the_judge(printed, reproduced):
    ledger.verdict(published(printed, "exact"), reproduced)
    ledger.verdict(published("1.0", "rounding"), reproduced)
    ledger.verdict(published("1.0", "size", column="max_abs_diff"), reproduced)


def test_every_published_figure_gets_one_row():
    items = [published("1", "exact", row=row) for row in "abc"]
    figures = [Figure("t", "a", "c", "1", "1", "file"), Figure("t", "b", "c", "2", "2", "file")]
    rows = ledger.judge(items, figures)
    assert [row.status for row in rows] == [AGREES, DIFFERS, MISSING]
    assert ledger.summary(rows) == "ledger: 3 published figures: 1 agrees, 1 differs, 1 missing"
    assert [row.row for row in ledger.failures(rows)] == ["b", "c"]


def test_the_ledger_is_read_back_and_names_what_failed(tmp_path):
    rows = ledger.judge([published("|x|", "exact")], [Figure("t", "r", "c", "a, b", "", "f")])
    paths = [tmp_path / f"ledger{suffix}" for suffix in ledger.SUFFIXES]
    ledger.write(rows, *paths)
    assert ledger.read(paths[0]) == rows
    text = paths[1].read_text(encoding="utf-8")
    assert "## Not reproduced" in text
    assert "\\|x\\|" in text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("garbage\n", "is no ledger"),
        ("", "is no ledger"),
        (",".join(ledger.FIELDS) + "\na,b\n", "line 2: not a row of a ledger"),
        (",".join(ledger.FIELDS) + "\np,t,r,c,1,exact,1,equal,fine,f\n", "line 2: not a row"),
    ],
)
def test_what_is_no_ledger_is_refused(tmp_path, text, sentence):
    path = tmp_path / "ledger.csv"
    path.write_text(text)
    with pytest.raises(PitbError, match=sentence):
        ledger.read(path)


def test_a_ledger_that_lacks_a_figure_is_refused():
    items = [published("1", "exact", row=row) for row in "ab"]
    rows = ledger.judge(items, [])
    ledger.check_complete(rows, items)
    for wrong in (rows[:1], [*rows, rows[0]], []):
        with pytest.raises(PitbError, match=r"the ledger holds page / t / [ab] / c [02] times"):
            ledger.check_complete(wrong, items)


def test_all_figures_of_both_pages_are_published(root):
    counts = [
        len(ledger.read_published(root / f"config/published/{page}.csv"))
        for page in ("one-step", "optimizer-defaults")
    ]
    assert counts == [66, 192]


HEAD = "table,row,column,printed,kind\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: the columns must be"),
        ("table,row,column,printed\n", "line 1: the columns must be"),
        (HEAD, "lists no figure"),
        (HEAD + "a,b,c\n", "line 2: not 5 fields"),
        (HEAD + "a,b,c,1,exact,x\n", "line 2: not 5 fields"),
        (HEAD + "a,b,c,1,about\n", "line 2: kind 'about' is not one of"),
        (HEAD + "a,b,c,x,size\n", "line 2: 'x' is no number"),
        (HEAD + "a,b,c,1e999999999999999999,size\n", "line 2: .* is no number"),
        (HEAD + "a,b,c,nan,rounding\n", "line 2: 'nan' is no number"),
        (HEAD + "a,b,c,1,exact\na,b,c,2,exact\n", "line 3: the same figure stands in line 2"),
        (HEAD + 'a,b,c,"1,exact\n', "not valid CSV"),
    ],
)
def test_malformed_published_figures_are_refused(tmp_path, text, sentence):
    path = tmp_path / "page.csv"
    path.write_text(text)
    with pytest.raises(PitbError, match=sentence) as caught:
        ledger.read_published(path)
    assert "page.csv" in str(caught.value)


def test_published_figures_in_another_encoding_are_refused(tmp_path):
    path = tmp_path / "page.csv"
    path.write_bytes((HEAD + "a,b,c,é,exact\n").encode("latin-1"))
    with pytest.raises(PitbError, match="not UTF-8"):
        ledger.read_published(path)
