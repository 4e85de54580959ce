import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitb import strict_yaml
from pitb.errors import PitbError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-8", 1e-8),
        ("1E5", 1e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("-0.0", -0.0),
        ("+3", 3),
        ("10", 10),
        ("0", 0),
        ("0.010", 0.010),
        ("1.5e+3", 1500.0),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        # Words, to a schema that wants something else.
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("True", "True"),
        ("e5", "e5"),
        (".", "."),
        ("-", "-"),
        ("2026-01-01", "2026-01-01"),
        ("per-parameter", "per-parameter"),
    ],
)
def test_a_scalar_means_what_its_writer_meant(text, value):
    found = strict_yaml.scalar(text)
    assert (type(found), found) == (type(value), value)
    if isinstance(value, float):
        assert math.copysign(1, found) == math.copysign(1, value)


@pytest.mark.parametrize(
    "text", ["010", "-007", "1_000", "0x1F", "0o17", "00.5", ".inf", "-.INF", ".nan", "09e1"]
)
def test_a_scalar_that_could_mean_two_things_is_refused(text):
    with pytest.raises(ValueError, match="number"):
        strict_yaml.scalar(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_that_python_prints_is_read_back(value):
    assert strict_yaml.scalar(repr(value)) == value


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "key 'a' was given before, in line 1"),
        ("a:\n  b: 010\n", 2, "010 could be read"),
        ("a: [1\n", 2, "not valid YAML"),
        ("a: 1\n\tb: 2\n", 2, "not valid YAML"),
        ("a: &x 1\nb: *x\n", 1, "anchors"),
        ("a: !foo 1\n", 1, "tags such as !foo"),
        ('"a\\n": 1\n', 1, "is not all printable"),
        (f"a: {'9' * 400}\n", 1, "too large"),
        ("[1]: 2\n", 1, "a key must be a word"),
        ("a: 1\n---\nb: 2\n", 2, "not valid YAML"),
        ("a: b: c\n", 1, "not valid YAML"),
    ],
)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, text, line, sentence):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(PitbError, match=sentence) as caught:
        strict_yaml.load(path)
    assert f"bad.yaml, line {line}" in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a: \x00", b"[" * 100_000, b"a: " * 3])
def test_no_file_gives_a_traceback(tmp_path, content):
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    with pytest.raises(PitbError, match=r"bad\.yaml"):
        strict_yaml.load(path)


def test_quotes_make_text_of_anything(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: '010'\nb: \"no\"\n")
    assert strict_yaml.load(path).value == {"a": "010", "b": "no"}
