import sys
import textwrap
from pathlib import Path

import pytest

from pitb import cargo
from pitb.cargo import Build
from pitb.errors import PitbError


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


def test_crates_of_other_platforms_are_not_asked_for(root, tmp_path, monkeypatch):
    """A build does not fetch them, so on a new machine they are not there."""
    found = cargo.crates(root)
    assert found["burn-optim"][1] == found["burn"][1]
    assert (found["burn-optim"][0] / "src/lib.rs").is_file()
    command = shim(
        tmp_path,
        monkeypatch,
        """
        if sys.argv[1] == "-vV":
            print("cargo 9.9.9")
            print("host: some-platform")
        else:
            wanted = "--filter-platform some-platform"
            if wanted not in " ".join(sys.argv):
                sys.exit(f"error: no {wanted}")
            print('{"packages": [{"name": "x", "manifest_path": "/x/Cargo.toml", "version": "1"}]}')
        """,
    )
    assert command.is_file()
    assert cargo.crates(tmp_path) == {"x": (Path("/x"), "1")}


@pytest.mark.parametrize(
    "program, message",
    [
        ("print('cargo 1')", "cargo -vV does not say its host: cargo 1"),
        (
            "print('host: x') if sys.argv[1] == '-vV' else sys.exit('error: no lock\\nat all')",
            "cargo does not list the crates: error: no lock at all",
        ),
        (None, "cargo is not installed or not on the PATH"),
    ],
)
def test_crates_that_cargo_does_not_list(tmp_path, monkeypatch, program, message):
    shim(tmp_path, monkeypatch, program)
    with pytest.raises(PitbError, match=f"^{message}$"):
        cargo.crates(tmp_path)


def shim(folder, monkeypatch, program):
    """A cargo of a few lines of Python that is alone on the PATH; none without a program."""
    command = folder / "cargo"
    if program is not None:
        code = textwrap.dedent(program)
        inner = folder / "cargo.py"
        inner.write_text(f"import sys\n{code}\n", encoding="utf-8")
        # A path with a space in it cannot stand after #!.
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{inner}" "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return command
