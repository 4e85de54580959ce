from pathlib import Path

import pytest

from pitb import cargo
from pitb.cargo import Build
from pitb.errors import PitbError
from standins import POSIX, stand_in


def warning(line, code="unused_must_use"):
    text = [{"text": line}]
    return {
        "level": "warning",
        "message": "unused",
        "code": {"code": code},
        "spans": [{"is_primary": True, "text": text}],
    }


PROBE, CONTROL = warning("step(); // probe"), warning("control(); // control")


def built(*diagnostics, success=True, finished=True):
    return Build(success, list(diagnostics), finished)


@pytest.mark.parametrize(("diagnostics", "probe"), [([CONTROL], False), ([CONTROL, PROBE], True)])
def test_the_probe_says_what_is_marked(diagnostics, probe):
    found = cargo.must_use(built(*diagnostics))
    assert found == {"probe_warns": probe, "control_warns": True}


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (built(), "the control .* does not warn"),
        (built(PROBE), "the control .* does not warn"),
        (built(CONTROL, warning("x", "dead_code")), "another warning"),
        (built(CONTROL, success=False), "did not compile"),
        (built(CONTROL, finished=False), "did not compile"),
    ],
)
def test_a_probe_that_proves_nothing_is_refused(build, sentence):
    with pytest.raises(PitbError, match=sentence):
        cargo.must_use(build)


def test_no_warning_of_a_program_that_was_not_made_means_nothing():
    assert cargo.warnings(built(), "discard") == []
    assert cargo.warnings(built(PROBE), "discard") == [PROBE]
    with pytest.raises(PitbError, match="discard did not compile"):
        cargo.warnings(built(finished=False), "discard")


def error(**changes):
    def span(line, label, text):
        return {"line_start": line, "column_start": 1, "label": label, "text": [{"text": text}]}

    help_ = {"message": "clone it", "spans": [{"suggested_replacement": ".clone()"}]}
    return {
        "level": "error",
        "code": {"code": "E0382"},
        "message": "moved",
        "spans": [span(9, "late", "  c();"), span(3, "early", "  a();"), span(5, None, "b();")],
        "children": [{"message": "note", "spans": []}, help_],
        "rendered": "error[E0382]",
        **changes,
    }


def test_the_error_is_taken_apart_in_order_of_lines():
    found = cargo.noassign(built(error(), success=False, finished=False))
    assert found["labels"] == [
        {"line": 3, "source": "a();", "text": "early"},
        {"line": 9, "source": "c();", "text": "late"},
    ]
    assert (found["code"], found["help"], found["insertion"]) == ("E0382", "clone it", ".clone()")


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (built(), "must fail to compile"),
        (built(error()), "must fail to compile"),
        (built(error(), error(), success=False), "must fail to compile with one error, not 2"),
        (built(error(children=[]), success=False), "carries 0 suggestions"),
    ],
)
def test_an_unexpected_outcome_is_refused(build, sentence):
    with pytest.raises(PitbError, match=sentence):
        cargo.noassign(build)


LISTED = """
test "$1" = -vV && echo "host: some-platform" && exit
case "$*" in
    *"--filter-platform some-platform"*) ;;
    *) echo "error: all platforms" >&2; exit 1 ;;
esac
echo '{"packages": [{"name": "x", "manifest_path": "/x/Cargo.toml", "version": "1"}]}'
"""
UNLISTED = 'test "$1" = -vV && echo "host: x" && exit; printf "error: no lock\\nat all" >&2; exit 1'


@POSIX
def test_crates_of_other_platforms_are_not_asked_for(root, tmp_path, monkeypatch):
    """A build does not fetch them, so on a new machine they are not there."""
    found = cargo.crates(root)
    assert found["burn-optim"][1] == found["burn"][1]
    assert (found["burn-optim"][0] / "src/lib.rs").is_file()
    stand_in(tmp_path, "cargo", LISTED)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cargo.crates(tmp_path) == {"x": (Path("/x"), "1")}


@pytest.mark.parametrize(
    "program, message",
    [
        ("echo cargo 1", "cargo -vV does not say its host: cargo 1"),
        (UNLISTED, "cargo does not list the crates: error: no lock at all"),
        (None, "cargo is not installed or not on the PATH"),
    ],
)
@POSIX
def test_crates_that_cargo_does_not_list(tmp_path, monkeypatch, program, message):
    if program is not None:
        stand_in(tmp_path, "cargo", program)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PitbError, match=f"^{message}$"):
        cargo.crates(tmp_path)
