"""The command ``pitb docs``: what it prints, its exit codes, what it writes."""

import json
import subprocess
import sys

import pytest

from documents import LAST, results

MARK = f'<!-- pitb:optimizer-defaults/mismatch row=sgdm column="{LAST}" -->'
TABLE = "<!-- pitb:optimizer-defaults/mismatch -->"
CLOSE = "<!-- /pitb -->"


@pytest.fixture
def here(tmp_path):
    results(tmp_path / "results")
    text = f"# a\r\n\r\nb {MARK}4.10e-2{CLOSE} c\r\n\r\n{TABLE}\r\n{CLOSE}\r\n"
    (tmp_path / "paper 论文.md").write_bytes(text.encode())
    return tmp_path


def docs(folder, *words):
    command = [sys.executable, "-m", "pitb", "docs", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")


def test_check_names_what_is_stale_and_writes_nothing(here):
    path = here / "paper 论文.md"
    before = path.read_bytes()
    done = docs(here, "--check", path.name)
    assert done.returncode == 1
    first, second, last = done.stdout.splitlines()
    assert first == (
        "paper 论文.md, line 3: optimizer-defaults/mismatch sgdm / step 10 max|dparam|: "
        "printed 4.10e-2, current 4.00e-2"
    )
    assert second.startswith("paper 论文.md, line 5: optimizer-defaults/mismatch, row item: ")
    assert last == "paper 论文.md: 2 marks, 2 stale"
    assert path.read_bytes() == before
    assert done.stderr.startswith("note: paper 论文.md, line 5: ")


def test_filling_makes_the_check_clean_and_is_done_once(here):
    path = here / "paper 论文.md"
    assert docs(here, path.name).returncode == 0
    after = path.read_bytes()
    assert after.startswith(f"# a\r\n\r\nb {MARK}4.00e-2{CLOSE} c\r\n".encode())
    assert b"\r\n| sgdm | 1.49e-8 | 4.00e-2 | MISMATCH |\r\n" in after
    assert docs(here, "--check", path.name).returncode == 0
    done = docs(here, path.name)
    assert "2 marks, 0 filled anew" in done.stdout
    assert path.read_bytes() == after
    # One digit of a cell is changed: the cell is named.
    path.write_bytes(after.replace(b"| 1.49e-8 |", b"| 1.48e-8 |"))
    done = docs(here, "--check", path.name, "--json")
    assert done.returncode == 1
    (stale,) = json.loads(done.stdout)["files"][0]["stale"]
    assert stale == {
        "file": "paper 论文.md",
        "line": 5,
        "mark": "optimizer-defaults/mismatch",
        "place": "row sgdm, column step 1, largest parameter difference",
        "printed": "1.48e-8",
        "current": "1.49e-8",
    }


def test_the_list_names_what_marks_can_use(here):
    done = docs(here, "--list")
    assert done.returncode == 0
    assert '  columns  "step 1 max|dparam|", "step 10 max|dparam|", verdict' in done.stdout
    assert '"a \\"quoted\\" row"' in done.stdout
    found = json.loads(docs(here, "--list", "--json", "--results", "results").stdout)["tables"]
    # Each name that is listed can be used.
    lines = [
        f'x <!-- pitb:{table["name"]} row="{quoted(row)}" column="{quoted(column)}" -->{CLOSE}'
        for table in found
        for row, columns in table["rows"].items()
        for column in columns
    ]
    (here / "all.md").write_text("\n\n".join(lines), encoding="utf-8")
    assert len(lines) == 25
    done = docs(here, "all.md")
    assert done.returncode == 0, done.stderr
    assert "25 marks, 25 filled anew" in done.stdout


def quoted(name):
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("-->", "--\\>")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no file is named"),
        (("--list", "a.md"), "--list takes no file"),
        (("nothing.md",), "nothing.md does not exist"),
        (("results",), "results is a folder"),
        (("paper 论文.md", "--results", "nowhere"), "nowhere holds no results"),
        (("paper 论文.md", "bad.md"), "bad.md, line 1: the mark is not closed"),
        (("paper 论文.md", "latin.md"), "latin.md, line 2: byte 0xe9 is not part of UTF-8"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_writes_nothing(here, words, sentence):
    (here / "bad.md").write_text(TABLE)
    (here / "latin.md").write_bytes(b"a\ncaf\xe9\n")
    before = {path: path.read_bytes() for path in here.glob("*.md")}
    done = docs(here, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert {path: path.read_bytes() for path in here.glob("*.md")} == before


def test_a_results_folder_with_a_broken_file_is_a_sentence(here):
    figures = here / "results/tables/optimizer-defaults/figures.csv"
    figures.write_text(figures.read_text() + "too,few\n")
    done = docs(here, "paper 论文.md")
    assert done.returncode == 2
    assert "figures.csv, line" in done.stderr
