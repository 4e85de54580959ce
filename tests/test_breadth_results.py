"""What the slice of the breadth came to; `make test` makes it before it runs pytest."""

import csv
import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from pitb.breadth import laws, report
from pitb.breadth.cases import SETS
from pitb.registry import optimizers

pytestmark = pytest.mark.pipeline
KEYS = [optimizer.key for optimizer in optimizers()]


@pytest.fixture(scope="module")
def folder(root):
    found = root / "results/breadth-slice"
    assert (found / "checked.txt").is_file(), "there is no slice: run make slice"
    return found


@pytest.fixture(scope="module")
def judged(folder):
    return report.load(folder / "judged" / key for key in KEYS)


def sheet(folder, name):
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_nothing_is_unexplained_and_no_mutant_survives(folder, judged):
    assert report.complaints(judged) == []
    assert (folder / "complaints.txt").read_text() == ""


def test_every_optimizer_and_option_set_is_tried_on_every_pair(judged):
    tried = Counter((o["optimizer"], o["set"], o["pair"]) for o in judged.outcomes)
    for name, sets in SETS.items():
        for chosen in sets:
            for pair in ("pytorch--reference", "burn--reference", "pytorch--burn"):
                assert tried[name, chosen.name, pair], (name, chosen.name, pair)


def test_the_verdicts_add_up(judged):
    counts = report.totals(judged.outcomes)
    assert sum(sum(found.values()) for found in counts.values()) == len(judged.outcomes)
    for pair in ("pytorch--reference", "burn--reference"):
        assert set(counts[pair]) <= {"OK", "impossible", "undecided"}
        # Only L-BFGS branches on numbers that float32 leaves open.
        undecided = {o["optimizer"] for o in judged.outcomes if o["verdict"] == "undecided"}
        assert undecided <= {"LBFGS"}


def test_an_observed_run_ends_in_the_bits_of_one_that_is_not(judged):
    twins = [o for o in judged.outcomes if o["set"].startswith("unobserved")]
    assert {o["pair"] for o in twins} == {"pytorch--twin", "burn--twin"}
    assert {o["optimizer"] for o in twins} == set(SETS)
    assert {o["verdict"] for o in twins} == {"OK"}


@pytest.mark.parametrize(
    ("optimizer", "name", "relation", "because"),
    [
        ("SGD", "momentum", report.SAME, ""),
        ("SGD", "nesterov-dampening", report.ONE_SIDED, "zero dampening"),
        ("SGD", "maximize", report.ONE_SIDED, "maximize"),
        ("Adam", "betas", report.BY_FORMULA, "interpolation"),
        ("Adagrad", "accumulator", report.ONE_SIDED, "initial_accumulator_value"),
        ("Adagrad", "lr-decay", report.SAME, ""),
        ("AdamW", "own-eps", report.BY_DEFAULT, "eps"),
        ("RMSprop", "own-momentum", report.BY_DEFAULT, "momentum"),
        ("Adafactor", "eps1", report.BY_FORMULA, "factored_epsilon"),
        ("Muon", "default", report.BY_FORMULA, "fan"),
        ("Lamb", "default", report.BY_FORMULA, "trust_ratio"),
        ("Adan", "default", report.BY_FORMULA, "step_counter"),
        ("LBFGS", "frozen", report.BY_FORMULA, "flat_gradient"),
        ("SGD", "clip-norm-late", report.BY_FORMULA, "late_clipping"),
    ],
)
def test_how_burn_and_pytorch_relate(folder, optimizer, name, relation, because):
    (row,) = (
        r for r in sheet(folder, "options") if (r["optimizer"], r["set"]) == (optimizer, name)
    )
    assert row["relation"] == relation
    assert because in row["because"]


def test_no_configuration_of_pytorch_and_no_field_is_missing(folder):
    found = json.loads((folder / "coverage.json").read_text())
    assert len(found["rows"]) > 90
    for rows in found.values():
        assert {row["status"] for row in rows} <= {"covered", "impossible", "no-counterpart"}


def test_every_row_has_its_tolerance_and_the_one_it_needed(folder, judged):
    rows = pq.read_table(folder / "rows.parquet").to_pylist()
    assert len(rows) == judged.rows.num_rows
    for row in rows:
        assert row["tolerance"] > 0
        within = "OK" if row["needed"] <= row["tolerance"] else "MISMATCH"
        assert row["verdict"] == (within if row["tolerance"] <= laws.MOST else "undecided")
        assert row["moved"] >= 0


def test_the_float64_law_is_the_bound_that_is_promised(folder):
    laws = {row["law"]: row for row in sheet(folder, "laws")}
    assert float(laws["float64"]["base"]) == 1e-12
    assert float(laws["float64"]["most_needed"]) <= 1
