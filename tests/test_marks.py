from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitb import marks
from pitb.errors import PitbError

PATH = Path("a.md")
OPEN, CLOSE = "<!-- pitb:x -->\n", "<!-- /pitb -->\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"a\n{OPEN}{CLOSE}b", f"a\n{OPEN}new\n{CLOSE}b"),
        (f"{OPEN}old\nolder\n{CLOSE}", f"{OPEN}new\n{CLOSE}"),
        (f"{OPEN}new\n{CLOSE}", f"{OPEN}new\n{CLOSE}"),
        (f"{OPEN}{CLOSE}\n{OPEN}{CLOSE}", f"{OPEN}new\n{CLOSE}\n{OPEN}new\n{CLOSE}"),
        ("in text <!-- pitb:x --> it is no mark\n", "in text <!-- pitb:x --> it is no mark\n"),
    ],
)
def test_marked_places_are_filled(text, expected):
    assert marks.fill(text, {"x": "new"}, PATH) == expected


@given(st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=["Cs"])))
def test_what_is_outside_stays_to_the_byte(text):
    assert marks.fill(text, {}, PATH) == text
    filled = marks.fill(f"{text}\n{OPEN}{CLOSE}{text}", {"x": "new"}, PATH)
    assert filled == f"{text}\n{OPEN}new\n{CLOSE}{text}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (f"a\n{OPEN}b\n", r"a\.md, line 2: the mark is not closed"),
        (f"{OPEN}{OPEN}{CLOSE}", r"a\.md, line 1: the mark is not closed"),
        (f"a\n{CLOSE}", r"a\.md, line 2: .* closes nothing"),
        (f"<!-- pitb:y -->\n{CLOSE}", r"a\.md, line 1: nothing is called 'y'; the nearest is 'x'"),
    ],
)
def test_a_broken_mark_is_refused_with_its_line(text, sentence):
    with pytest.raises(PitbError, match=sentence):
        marks.fill(text, {"x": "new"}, PATH)
