"""The crate before the official validator, without a network; and the breadth in a whole bundle."""

import json
import re
import socket
import subprocess
import sys
from urllib.parse import unquote

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bundles
from pitb.breadth import records
from pitb.bundle import (
    contents,
    crate,
    packing,
    provenance,
    publish,
    report,
    rescoped,
    resized,
    validate,
    verify,
)

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module")
def whole(root, tmp_path_factory):
    parts = ("breadth-slice/", "evidence/schedules.json", "digits/")
    return bundles.made(root, tmp_path_factory.mktemp("whole"), parts)


@pytest.fixture(scope="module")
def files(whole):
    return bundles.files_of(whole)


@pytest.fixture(scope="module")
def small(root, tmp_path_factory):
    return bundles.made(root, tmp_path_factory.mktemp("small"))


@pytest.fixture
def alone(monkeypatch):
    """No network: whoever asks for it fails the test."""

    def refuse(*_, **__):
        raise AssertionError("something asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


def test_the_validator_complains_of_the_exceptions_and_nothing_else(root, small, alone):
    found = validate.issues(small)
    assert validate.complaints(found) == []
    # Each exception is one that it does complain of, or it would be excepted for nothing.
    homeless = not {"url", "repository-code"} & publish.citation(root).keys()
    expected = {item.check for item in validate.EXCEPTIONS if homeless or not item.without_home}
    assert {issue.check for issue in found} == expected
    assert {issue.severity for issue in found} == {validate.RECOMMENDED}


def test_the_validator_does_look(small, tmp_path, alone):
    spoilt = bundles.files_of(small)
    crate = json.loads(spoilt[contents.CRATE])
    # Less of it is looked through sooner.
    crate["@graph"] = [
        item
        for item in crate["@graph"]
        if not item["@id"].startswith(("results/", "scripts/", "tests/", "crates/", "native/"))
    ]
    for item in crate["@graph"]:
        item.pop("instrument", None)
        if item["@id"] == "./":
            item.pop("license")
    spoilt[contents.CRATE] = packing.json_bytes(crate)
    rest = {name: content for name, content in spoilt.items() if name != contents.MANIFEST}
    path = bundles.packed({**rest, contents.MANIFEST: packing.manifest(rest)}, tmp_path)
    found = validate.complaints(validate.issues(path))
    assert any(line.startswith("REQUIRED") and "license" in line for line in found)
    assert any("instrument" in line for line in found)


def test_the_page_lists_the_exceptions_that_the_code_makes(root):
    page = (root / "docs/bundles.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", page.partition("## The crate's exceptions")[2],
                      re.MULTILINE)[2:]  # fmt: skip
    assert rows == [(item.check, item.why) for item in validate.EXCEPTIONS]


ODD = ("文 档/说明.md", "a%20b.txt", "a#b?.csv", "Ünï [x].py", "a'b\"c.json", "x&y;z=1+2.yaml")


def test_names_of_all_kinds_find_their_files(tmp_path):
    files = {name: name.encode() for name in ("README.md", crate.WORKFLOW, contents.MEASURED, *ODD)}
    job = provenance.Job("r", "python scripts/x.py", (ODD[0],), (ODD[1],), (), 0.0, 1.0)
    versions = {"snakemake": "9"}
    facts = crate.Facts("1", "t", "a", ("x",), "MIT", None, "2026-01-01", versions, [], "fine")
    graph = json.loads(crate.metadata(files, [job], facts))["@graph"]
    described = [item["@id"] for item in graph if "File" in item["@type"]]
    assert sorted(map(unquote, described)) == sorted(files)
    (action,) = [item for item in graph if item["@id"] == "#job-r-1"]
    assert unquote(action["object"]["@id"]) == ODD[0]


# -- the breadth -----------------------------------------------------------------------------------


def checked(path, folder, findings=False):
    work = folder / "work"
    work.mkdir()
    return verify.verify(path, work, findings)


def test_a_whole_bundle_has_the_breadth_checked(whole, tmp_path):
    found = checked(whole, tmp_path, findings=True)
    assert found["faults"] == []
    assert found["checked"]["sizes of findings"] > 20
    assert found["checked"]["sheets"] >= 32
    assert found["checked"]["findings"] >= 4


@given(st.lists(st.integers(0, 5), max_size=6), st.lists(st.integers(0, 5), max_size=6))
def test_rows_are_read_side_by_side(a, b):
    def stream(lengths):
        start = 0
        for length in lengths:
            values = np.arange(start, start + length)
            yield dict.fromkeys(records.ROW_COLUMNS, values)
            start += length

    pieces = list(rescoped.side_by_side(stream(a), stream(b)))
    common = min(sum(a), sum(b))
    same = [(x["step"], y["step"]) for x, y in pieces if len(x["step"]) == len(y["step"])]
    assert all(np.array_equal(x, y) for x, y in same)
    assert sum(len(x) for x, _ in same) == common
    assert len(pieces) - len(same) == (sum(a) != sum(b))


def test_a_size_that_is_larger_than_it_was_is_found(files, tmp_path):
    name = "results/breadth-slice/findings.json"
    rows = json.loads(files[name])
    few = [row for row in rows if row["id"] == "default-adamw-weight-decay"]
    few[0]["sizes"][0]["relative"] *= 2
    below = tmp_path / "results/breadth-slice"
    (below / "plans").mkdir(parents=True)
    (below / "findings.json").write_text(json.dumps(few))
    plan = "results/breadth-slice/plans/adamw.json"
    (tmp_path / plan).write_bytes(files[plan])
    found = report.Report("x")
    resized.check(tmp_path, "results/breadth-slice", found)
    assert len(found.faults) == 1
    assert "default-adamw-weight-decay is" in found.faults[0].what


def test_what_is_changed_in_the_breadth_is_found(files, tmp_path):
    changed = dict(files)
    below = "results/breadth-slice"
    for name, old, new in (
        (f"{below}/options.md", "| same |", "| different by formula |"),
        (f"{below}/findings.csv", "default-adamw-weight-decay", "default-adamw-other"),
        (f"{below}/summary.txt", "OK", "MISMATCH"),
    ):
        assert old.encode() in changed[name], name
        changed[name] = changed[name].replace(old.encode(), new.encode(), 1)
    outcomes = f"{below}/judged/lion/outcomes.json"
    changed[outcomes] = changed[outcomes].replace(b'"verdict": "OK"', b'"verdict": "MISMATCH"', 1)
    found = checked(bundles.packed(bundles.mended(changed), tmp_path), tmp_path)
    where = {item["where"] for item in found["faults"]}
    assert {f"{below}/options.md", f"{below}/findings.csv", f"{below}/summary.txt"} <= where
    assert f"{below}/verdicts.csv" in where


@pytest.mark.parametrize(
    ("lacking", "more", "said"),
    [
        ("breadth-slice/judged/lion/papers.json", (), "papers.json is not in the bundle"),
        ("evidence/schedules.json", (), "schedules.json is not in the bundle"),
        ("none", ("breadth/CLAIM.md",), "it has CLAIM.md, but results/breadth/judged"),
    ],
)
def test_sheets_without_what_they_are_made_of_are_a_fault(files, tmp_path, lacking, more, said):
    changed = {name: content for name, content in files.items() if name != f"results/{lacking}"}
    names = [*changed, *(f"results/{name}" for name in more)]
    told = report.Report("x")
    scope = "breadth" if more else "breadth-slice"
    names = [name for name in names if name.startswith((f"results/{scope}/", "results/evidence"))]
    rescoped.check(tmp_path, names, False, told)
    (fault,) = told.faults
    assert fault.where == f"results/{scope}"
    assert said in fault.what


def test_what_was_judged_and_not_made_into_sheets_is_taken(tmp_path):
    told = report.Report("x")
    names = ["results/breadth/plans/sgd.json", "results/breadth/coverage.json"]
    assert rescoped.check(tmp_path, names, False, told) >= {*names}
    assert told.faults == []
    assert [item.where for item in told.not_recomputed] == ["results/breadth"]


def test_the_rules_make_it_and_check_it(root):
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", "bundle"]
    done = subprocess.run(
        [*command, "--forcerun", "make_bundle"], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for rule in ("make_bundle", "check_crate", "verify_bundle", "bundle"):
        assert f"rule {rule}:" in done.stdout + done.stderr or f"\n{rule} " in done.stdout
