"""Which figures of two bundles differ, and whether by rounding; and what reading one may take."""

import argparse
import copy
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bundles
from pitb.bundle import contents, diff, figures, limits, packing, report
from pitb.cli import verify
from pitb.errors import PitbError


def row(table, column, kind, printed, reproduced, status="agrees"):
    return {
        "page": "p",
        "table": table,
        "row": "r",
        "column": column,
        "printed": printed,
        "kind": kind,
        "reproduced": reproduced,
        "allowed": "",
        "status": status,
        "evidence": "e",
    }


def figure(table, column, value, at="r"):
    return {"page": "p", "table": table, "row": at, "column": column, "value": value}


def comparison(verdict, *found):
    rows = [
        {
            "step": step,
            "quantity": "param",
            "tensor": "w",
            "n": 1,
            "tolerance": 1e-6,
            "verdict": "OK" if max_abs <= 1e-6 else "MISMATCH",
            "max_abs": max_abs,
            "magnitude": magnitude,
        }
        for step, max_abs, magnitude in found
    ]
    return {"name": "a--b", "verdict": verdict, "rows": rows}


def side(**changed):
    found = {
        "bundle": "x.zip",
        "hash": "0",
        "pitb": "0.1.0",
        "versions": {"torch": "2.15.0"},
        "machine": {"cores": 2},
        "ledger": [],
        "figures": [],
        "comparisons": [],
    }
    return {**found, **changed}


def kinds(a, b):
    return [item.kind for item in diff.diff(a, b).differences]


REAL, ROUNDING = diff.REAL, diff.ROUNDING


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (row("t", "c", "exact", "7", "7"), row("t", "c", "exact", "7", "7"), []),
        (row("t", "c", "exact", "7", "7"), row("t", "c", "exact", "7", "8", "differs"), [REAL]),
        (row("t", "c", "exact", "7", "7"), row("t", "c", "exact", "7", "7.0"), [ROUNDING]),
        (row("t", "c", "size", "1.74", "1.7401"), row("t", "c", "size", "1.74", "1.7399"),
         [ROUNDING]),
        (row("t", "c", "size", "1.74", "1.7401"), row("t", "c", "size", "1.74", "1.75", "differs"),
         [REAL]),
        (row("t", "worst", "rounding", "1e-7", "1e-7"), row("t", "worst", "rounding", "1e-7", "0"),
         [ROUNDING]),
        (row("t", "c", "size", "1.74", "1.7401"), row("t", "c", "size", "1.75", "1.7401"), [REAL]),
    ],
)  # fmt: skip
def test_figures_of_the_ledger_go_by_its_rules(a, b, expected):
    assert kinds(side(ledger=[a]), side(ledger=[b])) == expected


def test_a_ledgers_own_status_counts_for_nothing():
    """A figure that the rule does not let agree, called agreeing by who made the ledger."""
    a, b = row("t", "c", "size", "1.74", "1.7401"), row("t", "c", "size", "1.74", "9.99", "agrees")
    assert kinds(side(ledger=[a]), side(ledger=[b])) == [REAL]
    a, b = (row("t", "c", "size", "1.74", value, "differs") for value in ("1.7401", "1.7402"))
    assert kinds(side(ledger=[a]), side(ledger=[b])) == [ROUNDING]
    same = [row("t", "c", "size", "1.74", "1.7401", status) for status in ("agrees", "differs")]
    (found,) = diff.diff(*(side(ledger=[item]) for item in same)).differences
    assert (found.kind, found.a, found.b) == (REAL, "agrees", "differs")


@pytest.mark.parametrize(("kind", "printed"), [("value", "words"), ("none such", "1.0")])
def test_a_row_that_no_rule_judges_really_differs(kind, printed):
    a, b = (row("t", "c", kind, printed, value) for value in ("1.0", "1.0000001"))
    assert kinds(side(ledger=[a]), side(ledger=[b])) == [REAL]


def test_what_one_ledger_alone_has_really_differs():
    a = side(ledger=[row("t", "c", "exact", "7", "7")])
    (found,) = diff.diff(a, side()).differences
    assert (found.kind, found.a, found.b) == (REAL, "7", diff.ABSENT)


@pytest.mark.parametrize(
    ("a", "b", "at", "expected"),
    [
        ("1.0", "1.0", "r", []),
        ("1.0", "1.0000002", "r", [ROUNDING]),
        ("1.0", "1.0000006", "r", [REAL]),
        ("1.0", "1.0000006", "step 10", [ROUNDING]),
        ("1e6", "1000000.2", "r", [ROUNDING]),
        ("1e6", "1000001", "r", [REAL]),
        ("OK", "MISMATCH", "r", [REAL]),
        ("nan", "1.0", "r", [REAL]),
        ("inf", "1.0", "r", [REAL]),
        ("[1.0, 2.0]", "[1.0000002, 2.0]", "r", [ROUNDING]),
        ("[1.0, 2.0]", "[1.0, 2.1]", "r", [REAL]),
        ("[1.0, 2.0]", "[1.0, 2.0, 3.0]", "r", [REAL]),
        ("1.0 to 2.0", "1.0000002 to 2.0000002", "r", [ROUNDING]),
        ("1.0 to 2.0", "1.0 to 3.0", "r", [REAL]),
        ("[1.0, nan]", "[1.0000002, nan]", "r", [REAL]),
    ],
)
def test_other_figures_go_by_ulp_of_their_step(a, b, at, expected):
    first, second = (side(figures=[figure("t", "c", value, at)]) for value in (a, b))
    assert kinds(first, second) == expected


def test_a_figure_of_the_ledger_is_judged_once():
    a, b = (
        side(ledger=[row("t", "c", "size", "1.74", value)], figures=[figure("t", "c", value)])
        for value in ("1.7401", "1.7399")
    )
    assert kinds(a, b) == [ROUNDING]


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (comparison("OK", (1, 1e-7, 1.0)), comparison("OK", (1, 2e-7, 1.0)), [ROUNDING]),
        (comparison("OK", (1, 1e-7, 1.0)), comparison("OK", (1, 1e-7, 1.0)), []),
        (comparison("MISMATCH", (1, 0.5, 1.0)), comparison("MISMATCH", (1, 0.5000001, 1.0)),
         [ROUNDING]),
        (comparison("MISMATCH", (1, 0.5, 1.0)), comparison("MISMATCH", (1, 0.6, 1.0)), [REAL]),
        (comparison("OK", (1, 1e-7, 1.0)), comparison("MISMATCH", (1, 2e-6, 1.0)), [REAL, REAL]),
        (comparison("OK", (1, 1e-7, 1.0)), comparison("OK"), [REAL]),
    ],
)  # fmt: skip
def test_comparisons_go_by_their_tolerance(a, b, expected):
    assert kinds(side(comparisons=[a]), side(comparisons=[b])) == expected


def test_a_comparisons_own_verdict_and_tolerance_count_for_nothing():
    a, b = comparison("OK", (1, 1e-7, 1.0)), comparison("OK", (1, 0.5, 1.0))
    b["rows"][0]["verdict"] = "OK"
    assert kinds(side(comparisons=[a]), side(comparisons=[b])) == [REAL]
    b["rows"][0]["tolerance"] = 1e9
    assert kinds(side(comparisons=[a]), side(comparisons=[b])) == [REAL]


def test_versions_and_machines_are_told_and_are_no_figures():
    other = side(versions={"torch": "2.16.0"}, machine={"cores": 4})
    found = diff.diff(side(), other)
    assert found.figures == found.real == 0
    assert [(item.where, item.a, item.b) for item in found.versions] == [
        ("torch", "2.15.0", "2.16.0"),
        ("machine, cores", "2", "4"),
    ]


@given(st.lists(st.tuples(st.text("abc", max_size=2), st.floats(0, 10)), max_size=8))
def test_it_is_symmetric_and_a_bundle_never_differs_from_itself(found):
    a = side(figures=[figure(name, "c", repr(value)) for name, value in dict(found).items()])
    assert kinds(a, copy.deepcopy(a)) == []
    b = side(figures=[{**item, "value": "5.0"} for item in a["figures"]])
    assert kinds(a, b) == kinds(b, a)


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bundle(root, tmp_path_factory):
    return bundles.made(root, tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="module")
def other(bundle, tmp_path_factory):
    """The same with another version of torch, and one figure that really differs."""
    files = bundles.files_of(bundle)
    told = json.loads(files[contents.DESCRIPTION])
    told["versions"]["torch"] = "2.16.0"
    files[contents.DESCRIPTION] = packing.json_bytes(told)
    name = "results/tables/optimizer-defaults/figures.csv"
    files[name] = files[name].replace(b"a1,model,parameters,67", b"a1,model,parameters,68")
    name = "results/ledger.csv"
    files[name] = (
        files[name].replace(b",67,agrees", b",68,agrees").replace(b",67,equal", b",68,equal")
    )
    return bundles.packed(bundles.mended(files), tmp_path_factory.mktemp("other"))


@pytest.mark.pipeline
def test_the_command_says_what_differs(bundle, other, tmp_path):
    same = bundles.pitb("diff", bundle, bundle, cwd=tmp_path)
    assert same.code == 0, same.err
    assert "0 rounding, 0 real" in same.out
    found = bundles.pitb("diff", bundle, other, cwd=tmp_path)
    assert found.code == 1, found.out + found.err
    assert "version: torch: 2.15.0 | 2.16.0" in found.out
    assert "real: ledger: optimizer-defaults / a1 / model / parameters: 67 | 68" in found.out
    as_json = json.loads(bundles.pitb("diff", bundle, other, "--json", cwd=tmp_path).out)
    assert as_json["real"] == 1
    assert as_json["figures"] > 1000


@pytest.mark.pipeline
def test_an_altered_bundle_is_not_compared(bundle, tmp_path):
    files = bundles.files_of(bundle)
    files["README.md"] += b"\n"
    path = bundles.packed(files, tmp_path, "altered.zip")
    work = tmp_path / "work"
    with pytest.raises(PitbError, match=r"altered\.zip: it was altered, see pitb verify: README"):
        figures.of(path, work)


@pytest.mark.pipeline
@pytest.mark.parametrize(
    ("measured", "said"),
    [
        ({"machine": [1], "jobs": [], "benchmarks": {}, "logs": {}}, "measured.machine is [1]"),
        ({"machine": {}}, "lacks the key"),
        ([1], "measured is [1]"),
    ],
)
def test_what_varies_is_in_its_form_though_it_is_sealed(bundle, tmp_path, measured, said):
    files = bundles.files_of(bundle)
    files[contents.MEASURED] = packing.sealed(measured)
    path = bundles.packed(bundles.mended(files), tmp_path)
    work = tmp_path / "work"
    with pytest.raises(PitbError, match=re.escape(said)):
        figures.of(path, work)


EVIL = "\x1b[2J\x9b1m\u202eevil\r\nOK: all is well\x00\u2028文档"


def test_nothing_unprintable_reaches_the_terminal():
    said = report.printable(EVIL)
    assert said.isprintable()
    assert said.endswith("文档")
    assert json.loads(report.json_text({"a": [EVIL]})) == {"a": [EVIL]}
    assert "\x9b" not in report.json_text([EVIL])
    found = report.Report("x", notes=[EVIL], checked=Counter({EVIL: 1}))
    found.fault(EVIL, EVIL)
    found.taken(EVIL, EVIL)
    a = side(versions={EVIL: EVIL}, machine={EVIL: [EVIL]}, figures=[figure(EVIL, EVIL, EVIL)])
    for text in (report.text(found.json()), diff.text(a, side(), diff.diff(a, side()), True)):
        assert "evil" in text
        assert all(line.isprintable() for line in text.split("\n"))
        assert not any(line.startswith("OK") for line in text.split("\n"))


def test_sentences_of_errors_are_printable(monkeypatch, tmp_path):
    answer = {"error": EVIL}
    worker(monkeypatch, tmp_path, f"Path(sys.argv[3]).write_text({json.dumps(answer)!r}); exit(2)")
    with pytest.raises(PitbError) as caught:
        limits.run("verify", [tmp_path / "x.zip"], 20, 200)
    assert str(caught.value).isprintable()
    assert "evil" in str(caught.value)


# -- limits ---------------------------------------------------------------------------------------


def worker(monkeypatch, tmp_path, body):
    """Have the limits start this instead of their own worker."""
    script = tmp_path / "worker.py"
    script.write_text(f"import sys, time, json\nfrom pathlib import Path\n{body}\n")
    real = limits.subprocess.Popen

    def start(command, **options):
        return real([sys.executable, str(script), *command[6:]], **options)

    monkeypatch.setattr(limits.subprocess, "Popen", start)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("time.sleep(60)", "takes more than 1 s"),
        ("x = bytearray(400 << 20); time.sleep(60)", "takes more than 200 MB of memory"),
        ("import os; os.abort()", "crashed"),
        ("raise SystemExit(3)", "crashed"),
        ("1 / 0", "ZeroDivisionError"),
        ("raise MemoryError", "more memory than is allowed"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "takes more than 20 s"),
    ],
)
def test_a_worker_that_does_not_end_well_is_a_sentence(monkeypatch, tmp_path, body, said):
    worker(monkeypatch, tmp_path, body)
    seconds = 1 if "takes more than 1 s" in said else 20
    with pytest.raises(PitbError, match=said):
        limits.run("verify", [tmp_path / "x.zip"], seconds, 200)


def test_a_worker_has_no_more_memory_than_it_may(tmp_path):
    code = "from pitb.bundle import limits; limits.limit_memory(500); x = bytearray(400 << 20)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if sys.platform.startswith("linux"):
        assert "MemoryError" in done.stderr


def test_a_worker_has_no_more_of_a_processor_than_it_may():
    code = "from pitb.bundle import limits; limits.limit_time(0.1)\nwhile True: pass"
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20)
    assert done.returncode == -signal.SIGXCPU
    assert time.monotonic() - began < 15


def test_the_worker_ends_with_its_caller(tmp_path):
    """At a signal to end nothing goes on, and nothing is left in the folder for such things."""
    noted = tmp_path / "pid"
    script = tmp_path / "worker.py"
    script.write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(noted)!r} + '.part').write_text(str(os.getpid()))\n"
        f"os.replace({str(noted)!r} + '.part', {str(noted)!r})\n"
        "time.sleep(60)\n"
    )
    code = (
        "import pathlib, sys\n"
        "from pitb.bundle import limits\n"
        "start = limits.subprocess.Popen\n"
        f"limits.subprocess.Popen = lambda c, **k: start([sys.executable, {str(script)!r}], **k)\n"
        "limits.run('verify', [pathlib.Path('x.zip')], 50, 500)\n"
    )
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch)}
    caller = subprocess.Popen([sys.executable, "-c", code], env=environment)
    for _ in range(500):
        if noted.exists():
            break
        time.sleep(0.02)
    worker_id = int(noted.read_text())
    caller.terminate()
    assert caller.wait(timeout=10) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(worker_id, 0)
    assert list(scratch.iterdir()) == []


def test_the_command_line_has_the_limits_that_hold(tmp_path):
    parser = argparse.ArgumentParser()
    verify.add_limits(parser)
    found = parser.parse_args([])
    assert (found.seconds, found.memory) == (limits.SECONDS, limits.MEGABYTES)
    assert f"(default: {limits.SECONDS})" in parser.format_help()
