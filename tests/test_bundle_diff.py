"""Which figures of two bundles differ, and whether by rounding; and what reading one may take."""

import copy
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bundles
from pitb.bundle import contents, diff, figures, limits, packing
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
    ],
)
def test_a_worker_that_does_not_end_well_is_a_sentence(monkeypatch, tmp_path, body, said):
    worker(monkeypatch, tmp_path, body)
    seconds = 1 if "takes more than 1 s" in said else 20
    with pytest.raises(PitbError, match=said):
        limits.run("verify", [tmp_path / "x.zip"], seconds, 200)


def test_a_worker_has_no_more_memory_than_it_may(tmp_path):
    import subprocess

    code = "from pitb.bundle import limits; limits.limit_memory(500); x = bytearray(400 << 20)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if sys.platform.startswith("linux"):
        assert "MemoryError" in done.stderr
