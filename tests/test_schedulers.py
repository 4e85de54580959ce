import json
import math
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb import cargo
from pitb.errors import PitbError
from pitb.schedulers import (
    CASES,
    Case,
    Outcome,
    burn_rates,
    burn_variants,
    coverage,
    judge,
    kills,
    mutants,
    pytorch_classes,
    pytorch_rates,
    pytorch_scheduler,
    reference_rates,
    totals,
)
from pitb.schedulers.judge import (
    DIFFERENT,
    ERROR,
    IMPOSSIBLE,
    MISMATCH,
    NEITHER,
    OK,
    ONE_SIDED,
    SAME,
    relation,
)
from pitb.schedulers.reference import CHOICES, PYTORCH, At, Choices, burn_rate, pytorch_rule, rates

BY_NAME = {case.name: case for case in CASES}
DESCRIBED = {side: {c.name: reference_rates(c, side) for c in CASES} for side in CHOICES}
"""What perfect libraries give."""


def burn(config, steps):
    return reference_rates(Case("burn", steps, [0.1], config, None), "burn")


def linear(initial, final, n):
    return {"Linear": {"initial_lr": initial, "final_lr": final, "num_iters": n}}


def cosine(initial, n, low=0.0):
    return {"Cosine": {"initial_lr": initial, "min_lr": low, "num_iters": n}}


def exponential(initial, gamma):
    return {"Exponential": {"initial_lr": initial, "gamma": gamma}}


def step(initial, n, gamma):
    return {"Step": {"initial_lr": initial, "step_size": n, "gamma": gamma}}


def noam(factor, warmup, model):
    return {"Noam": {"factor": factor, "warmup_steps": warmup, "model_size": model}}


def sequential(children, milestones):
    return {"Sequential": {"schedulers": children, "milestones": milestones}}


def composed(reduction, children):
    return {"Composed": {"schedulers": children, "reduction": reduction}}


ROOT_HALF = math.sqrt(0.5)


# Rates worked out by hand, past the end where there is one.
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"Constant": 0.1}, [0.1, 0.1]),
        (linear(0.1, 0.5, 2), [0.1, 0.3, 0.5, 0.5]),
        (linear(0.1, 0.5, 1), [0.1, 0.5, 0.5]),
        (
            cosine(1.0, 4),
            [1, (1 + ROOT_HALF) / 2, 0.5, (1 - ROOT_HALF) / 2, 0, (1 - ROOT_HALF) / 2],
        ),
        (cosine(0.5, 1, 0.1), [0.5, 0.1, 0.5]),
        (exponential(1.0, 0.5), [1, 0.5, 0.25]),
        (step(1.0, 2, 0.5), [1, 1, 0.5, 0.5, 0.25]),
        (step(1.0, 1, 2.0), [1, 2, 4]),
        (noam(1.0, 4, 16), [1 / 32, 1 / 16, 3 / 32, 1 / 8, 0.25 / math.sqrt(5)]),
        (composed("Prod", [{"Constant": 0.5}, exponential(1.0, 0.5)]), [0.5, 0.25]),
        (composed("Sum", [{"Constant": 0.5}, exponential(1.0, 0.5)]), [1.5, 1.0]),
        (composed("Avg", [{"Constant": 0.5}, exponential(1.0, 0.5)]), [0.75, 0.5]),
        (composed("Prod", []), [1, 1]),
        (composed("Avg", []), [0, 0]),
        (sequential([linear(0.1, 0.3, 2), exponential(0.5, 0.5)], [2]), [0.1, 0.2, 0.5, 0.25]),
        (sequential([{"Constant": 0.3}, step(0.1, 1, 0.5)], [1]), [0.3, 0.1, 0.05]),
    ],
)
def test_burns_description_gives_the_rates_worked_out_by_hand(config, expected):
    found = burn(config, len(expected))
    assert found.error is None
    assert found.rates == pytest.approx(expected, rel=1e-14, abs=1e-16)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"class": "ConstantLR", "factor": 0.5, "total_iters": 2}, [0.5, 0.5, 1, 1]),
        ({"class": "MultiStepLR", "milestones": [1, 3, 3], "gamma": 0.5}, [1, 0.5, 0.5, 0.125]),
        (
            {"class": "PolynomialLR", "total_iters": 4, "power": 0.5},
            [1, 0.75**0.5, 0.5**0.5, 0.5, 0, 0],
        ),
        ({"class": "CosineAnnealingWarmRestarts", "T_0": 1, "T_mult": 2}, [1, 1, 0.5, 1]),
        (
            {"class": "CyclicLR", "base_lr": 0.2, "max_lr": 0.6, "step_size_up": 2},
            [0.2, 0.4, 0.6, 0.4, 0.2, 0.4],
        ),
        (
            {
                "class": "SequentialLR",
                "schedulers": [
                    {"class": "ExponentialLR", "gamma": 0.5},
                    {"class": "LinearLR", "start_factor": 0.5, "end_factor": 1.0, "total_iters": 2},
                ],
                "milestones": [2],
            },
            [1, 0.5, 0.5, 0.75, 1, 1],
        ),
    ],
)
def test_pytorchs_description_gives_the_rates_worked_out_by_hand(node, expected):
    found = rates(pytorch_rule(node), 1.0, len(expected))
    assert found == pytest.approx(expected, rel=1e-14, abs=1e-16)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (linear(2.0, 0.1, 3), "initial_lr 2.0"),
        (linear(0.1, 1.5, 3), "final_lr 1.5"),
        (linear(0.1, 0.2, 0), "num_iters is 0"),
        (cosine(0.1, 3, 0.2), "min_lr 0.2"),
        (exponential(0.1, 1.1), "gamma 1.1"),
        (step(0.1, 0, 0.5), "step_size is 0"),
        (noam(1.0, 0, 0), "warmup_steps, model_size is 0"),
        (sequential([{"Constant": 0.1}], [1]), "1 schedulers for 1 milestones"),
        (sequential([{"Constant": 0.1}] * 3, [2, 2]), "[2, 2]"),
        (composed("Sum", [exponential(0.1, 0.0)]), "gamma 0.0"),
    ],
)
def test_what_burn_documents_as_an_error_is_refused(config, sentence):
    found = burn(config, 3)
    assert found.rates == ()
    assert sentence in found.error


def test_a_scheduler_without_description_is_named():
    with pytest.raises(PitbError, match="no scheduler Expo; the nearest is Exponential"):
        burn({"Expo": {}}, 1)
    with pytest.raises(PitbError, match="no description of StepLr; the nearest is StepLR"):
        pytorch_rule({"class": "StepLr"})
    with pytest.raises(PitbError, match="no formula 'noa'; the nearest is 'noam'"):
        rates(pytorch_rule({"class": "LambdaLR", "lr_lambda": ["noa", 1]}), 1.0, 1)


# Properties of the descriptions.


def holds_for(*drawn, **options):
    """``given`` without a deadline, which a busy machine misses, and without its folder."""
    return lambda test: settings(deadline=None, database=None, **options)(given(*drawn)(test))


# Short decimals, which every reader of JSON reads alike.
lrs = st.integers(1, 1000).map(lambda n: n / 1000)
counts = st.integers(1, 12)
gammas = st.integers(5, 100).map(lambda n: n / 100)
leaves = st.one_of(
    lrs.map(lambda lr: {"Constant": lr}),
    st.builds(linear, lrs, lrs, counts),
    st.builds(lambda a, n, share: cosine(a, n, round(a * share, 5)), lrs, counts, gammas),
    st.builds(exponential, lrs, gammas),
    st.builds(step, lrs, counts, gammas.map(lambda gamma: 2 * gamma)),
    st.builds(noam, lrs, counts, st.integers(1, 1024)),
)


def in_sequence(children, gaps):
    """Each child after the one before, as many updates later as its gap."""
    return sequential(children, [sum(gaps[: i + 1]) for i in range(len(children) - 1)])


configs = st.recursive(
    leaves,
    lambda children: st.one_of(
        st.builds(
            composed, st.sampled_from(["Prod", "Sum", "Avg"]), st.lists(children, max_size=3)
        ),
        st.builds(
            in_sequence,
            st.lists(children, min_size=1, max_size=3),
            st.lists(counts, min_size=2, max_size=2),
        ),
    ),
    max_leaves=5,
)


@holds_for(configs)
def test_a_sequence_or_composition_of_one_is_that_one(config):
    alone = burn(config, 15)
    for reduction in ("Prod", "Sum", "Avg"):
        assert burn(composed(reduction, [config]), 15) == alone
    assert burn(sequential([config], []), 15) == alone


@holds_for(st.lists(lrs, min_size=1, max_size=6))
def test_a_composition_of_constants_is_their_product_sum_or_mean(values):
    children = [{"Constant": value} for value in values]
    for reduction, right in (
        ("Prod", math.prod(values)),
        ("Sum", math.fsum(values)),
        ("Avg", math.fsum(values) / len(values)),
    ):
        assert burn(composed(reduction, children), 1).rates[0] == pytest.approx(right, rel=1e-14)


@holds_for(configs, configs, counts)
def test_a_sequence_is_the_first_up_to_the_milestone_and_the_second_from_its_start(a, b, milestone):
    both = burn(sequential([a, b], [milestone]), 20).rates
    assert both == burn(a, milestone).rates + burn(b, 20 - milestone).rates


@holds_for(lrs, counts, st.floats(0, 1))
def test_a_cosine_falls_to_its_minimum_and_rises_as_it_fell(lr, n, share):
    low = lr * share
    found = burn(cosine(lr, n, low), 2 * n + 1).rates
    assert found[0] == pytest.approx(lr) and found[n] == pytest.approx(low, abs=1e-16)
    assert found == pytest.approx(found[::-1], rel=1e-12, abs=1e-16)
    assert all(a >= b for a, b in pairwise(found[: n + 1]))


@holds_for(lrs, counts, gammas)
def test_closed_and_recursive_forms_differ_only_by_rounding(lr, n, gamma):
    for node in (
        {"class": "ExponentialLR", "gamma": gamma},
        {"class": "StepLR", "step_size": n, "gamma": gamma},
        {"class": "LinearLR", "start_factor": gamma, "end_factor": 1.0, "total_iters": n},
        {"class": "CosineAnnealingLR", "T_max": n, "eta_min": lr * gamma / 2},
    ):
        recursive = rates(pytorch_rule(node), lr, 3 * n)
        closed = rates(pytorch_rule(node, Choices()), lr, 3 * n)
        assert recursive == pytest.approx(closed, rel=1e-11)


@holds_for(lrs, st.lists(gammas, min_size=1, max_size=4))
def test_a_chain_of_factors_is_their_product(base, chain):
    nodes = [{"class": "ExponentialLR", "gamma": gamma} for gamma in chain]
    found = rates(pytorch_rule({"class": "ChainedScheduler", "schedulers": nodes}), base, 6)
    right = [base * math.prod(chain) ** t for t in range(6)]
    assert found == pytest.approx(right, rel=1e-13)


# The cases.


@pytest.fixture(scope="module")
def pytorch():
    found = [{case.name: pytorch_rates(case, resume) for case in CASES} for resume in (False, True)]
    return found


@pytest.fixture(scope="module")
def libraries(programs, pytorch):
    """What both libraries give, whole and resumed."""
    program = programs / "optdef"
    return [
        {"burn": burn_rates(CASES, program, resume), "pytorch": pytorch[resume]}
        for resume in (False, True)
    ]


@pytest.mark.torch
@pytest.mark.parametrize("name", BY_NAME)
def test_pytorch_follows_its_description_whole_and_resumed(pytorch, name):
    measured, resumed = ({**DESCRIBED, "pytorch": found} for found in pytorch)
    for row in judge([BY_NAME[name]], measured, resumed)[2:4]:
        assert row.pair.startswith("pytorch")
        assert row.verdict == (IMPOSSIBLE if BY_NAME[name].pytorch is None else OK), row


@pytest.mark.torch
@pytest.mark.parametrize("name", BY_NAME)
def test_burn_follows_its_description_and_relates_to_pytorch_as_described(libraries, name):
    case = BY_NAME[name]
    rows = judge([case], *libraries)
    for row in (rows[0], rows[1]):
        assert row.pair.startswith("burn")
        assert row.verdict == (IMPOSSIBLE if case.burn is None else OK), row
    related = rows[4].relation in (SAME, DIFFERENT)
    assert rows[4].verdict == (OK if related else IMPOSSIBLE), rows[4]


@pytest.mark.torch
def test_the_totals_add_up(libraries):
    rows = judge(CASES, *libraries)
    found = totals(rows)
    assert sum(sum(by.values()) for pair, by in found.items() if pair != "cases") == len(rows)
    assert sum(found["cases"].values()) == len(CASES) == len(BY_NAME)
    with pytest.raises(PitbError, match="do not add up"):
        totals(rows[1:])


def test_what_differs_by_formula_are_compositions_of_pytorchs():
    related = {name: relation(case)[0] for name, case in BY_NAME.items()}
    assert {name for name, found in related.items() if found == DIFFERENT} == {
        "composed-cosine-past-end",
        "composed-cosine-minimum",
        "composed-in-sequence-first",
        "sequential-in-composed",
        "sequential-in-sequence",
        "sequential-multiplicative",
    }
    assert related["cosine-past-end"] == related["exponential"] == related["noam"] == SAME
    assert related["exponential-rising"] == related["step-negative"] == ONE_SIDED
    assert related["step-no-size"] == related["sequential-empty"] == NEITHER


def test_a_case_is_resumed_before_its_end_and_says_why_a_side_has_none():
    for case in CASES:
        assert 0 <= case.resumed_after < case.steps
        assert case.note or (case.burn and case.pytorch)


# Controls: what the judge must not let pass.


@pytest.mark.torch
def test_the_rates_of_the_libraries_flag_every_mutant(libraries):
    table = kills(CASES, libraries[0])
    assert len(table) == len(mutants()) == len({(row["side"], row["mutant"]) for row in table})
    for row in table:
        assert row["flagged"], row
        assert set(row["flagged"]) <= set(row["changed"])
        # A form is the same up to rounding, which only some schedules bring to light.
        if "form" not in row["mutant"]:
            assert row["flagged"] == row["changed"], row


def verdicts(case, measured, resumed=None, **options):
    rows = judge([case], measured, resumed or measured, **options)
    return {row.pair: row.verdict for row in rows}


def with_rates(case, side, change):
    """The described outcomes with one of them changed."""
    right = DESCRIBED[side][case.name]
    wrong = replace(right, rates=tuple(change(list(right.rates))))
    return {**DESCRIBED, side: {case.name: wrong}}


def test_a_broken_description_is_a_mismatch():
    wrong = {**CHOICES, "pytorch": replace(PYTORCH, power=2)}
    found = verdicts(BY_NAME["step"], DESCRIBED, choices=wrong)
    assert found.pop("pytorch ~ reference") == MISMATCH
    assert set(found.values()) == {OK}


@pytest.mark.parametrize("name", ["step", "cosine-past-end", "sequential-in-composed"])
@pytest.mark.parametrize("side", ["burn", "pytorch"])
@pytest.mark.parametrize(
    "change",
    [
        lambda rates: [*rates[1:], rates[-1]],
        lambda rates: [*rates[:-1], rates[-1] * (1 + 1e-12)],
        lambda rates: [*rates[:-1], math.nan],
        lambda rates: [*rates[:-1], math.inf],
    ],
    ids=["early", "last", "nan", "inf"],
)
def test_wrong_rates_are_a_mismatch_of_that_side_and_of_the_pair(name, side, change):
    found = verdicts(BY_NAME[name], with_rates(BY_NAME[name], side, change))
    other = "pytorch" if side == "burn" else "burn"
    assert found[f"{side} ~ reference"] == found["burn ~ pytorch"] == MISMATCH
    assert found[f"{other} ~ reference"] == OK


def test_a_resumed_run_must_have_the_same_bits():
    case = BY_NAME["exponential"]
    resumed = with_rates(case, "burn", lambda rates: [*rates[:-1], math.nextafter(rates[-1], 1)])
    found = verdicts(case, DESCRIBED, resumed)
    assert found["burn ~ resumed"] == MISMATCH
    assert found["burn ~ reference"] == found["pytorch ~ resumed"] == OK


def test_an_error_where_none_is_described_or_none_where_one_is_is_a_mismatch():
    case = BY_NAME["step"]
    refused = {**DESCRIBED, "burn": {"step": Outcome(error="no")}}
    found = verdicts(case, refused)
    assert (found["burn ~ reference"], found["burn ~ pytorch"]) == (MISMATCH, ERROR)
    rising = BY_NAME["exponential-rising"]
    took = {**DESCRIBED, "burn": {rising.name: Outcome((0.1,) * rising.steps)}}
    assert verdicts(rising, took)["burn ~ reference"] == MISMATCH


def test_no_rates_are_an_error_and_too_few_a_mismatch():
    case = BY_NAME["step"]
    found = verdicts(case, {**DESCRIBED, "burn": {}})
    assert found["burn ~ reference"] == found["burn ~ resumed"] == found["burn ~ pytorch"] == ERROR
    short = with_rates(case, "pytorch", lambda rates: rates[:-1])
    assert verdicts(case, short)["pytorch ~ reference"] == MISMATCH


def test_only_the_described_difference_is_ok_where_the_formulas_differ():
    case = BY_NAME["sequential-in-composed"]
    burn_too = {**DESCRIBED, "burn": {case.name: DESCRIBED["pytorch"][case.name]}}
    assert verdicts(case, DESCRIBED)["burn ~ pytorch"] == OK
    assert verdicts(case, burn_too)["burn ~ pytorch"] == MISMATCH


# Coverage.


@pytest.mark.torch
def test_every_scheduler_of_both_sides_has_a_case(programs):
    rows = coverage(burn_variants(programs / "optdef"), pytorch_classes())
    found = {(row["side"], row["name"]): row["counterparts"] for row in rows}
    none = {name for (_, name), counterparts in found.items() if counterparts == ["no counterpart"]}
    assert none == {"ReduceLROnPlateau"}
    assert found["pytorch", "MultiStepLR"] == ["Sequential(Constant)"]
    assert found["burn", "Noam"] == ["LambdaLR"]
    with pytest.raises(PitbError, match="no case has the schedulers Cyclic, OtherLR"):
        coverage(["Cyclic", "Step"], ["OtherLR"])


def test_the_variants_that_the_program_lists_are_those_of_burns_source(programs, root):
    folder, _ = cargo.crates(root)["burn-optim"]
    source = folder / "src/lr_scheduler/base.rs"
    enum = re.search(r"pub enum LrSchedulerConfig \{(.*?)\n\}", source.read_text(), re.DOTALL)[1]
    assert burn_variants(programs / "optdef") == re.findall(r"^    (\w+)\(", enum, re.MULTILINE)


# The libraries.


@holds_for(st.lists(st.tuples(configs, st.integers(1, 30), st.floats(0, 0.99)), min_size=1))
def test_burn_follows_the_description_of_any_nesting(programs, drawn):
    cases = [
        Case(str(i), steps, [0.1], config, None, resume_at=int(share * steps))
        for i, (config, steps, share) in enumerate(drawn)
    ]
    for resume in (False, True):
        found = burn_rates(cases, programs / "optdef", resume)
        for case in cases:
            right = reference_rates(case, "burn")
            assert found[case.name].rates == pytest.approx(right.rates, rel=1e-14, abs=1e-18)
            assert found[case.name].error is None


def torch_class(name, **drawn):
    return st.fixed_dictionaries({"class": st.just(name), **drawn})


nodes = st.recursive(
    st.one_of(
        torch_class("ConstantLR", factor=gammas, total_iters=counts),
        torch_class("LinearLR", start_factor=gammas, end_factor=gammas, total_iters=counts),
        torch_class("CosineAnnealingLR", T_max=st.integers(2, 12), eta_min=gammas),
        torch_class("ExponentialLR", gamma=gammas),
        torch_class("StepLR", step_size=counts, gamma=gammas),
        torch_class("MultiStepLR", milestones=st.lists(counts, max_size=3), gamma=gammas),
        torch_class("MultiplicativeLR", lr_lambda=gammas.map(lambda value: ["constant", value])),
    ),
    lambda children: st.one_of(
        torch_class("ChainedScheduler", schedulers=st.lists(children, min_size=1, max_size=3)),
        st.builds(
            lambda schedulers, gaps: {
                "class": "SequentialLR",
                "schedulers": schedulers,
                "milestones": [sum(gaps[: i + 1]) for i in range(len(schedulers) - 1)],
            },
            st.lists(children, min_size=1, max_size=3),
            st.lists(counts, min_size=2, max_size=2),
        ),
    ),
    max_leaves=4,
)


@pytest.mark.torch
@holds_for(nodes, lrs, st.integers(1, 20))
def test_pytorch_follows_the_description_of_any_nesting(node, base, steps):
    case = Case("nested", steps, [base], None, node)
    right, found = reference_rates(case, "pytorch"), pytorch_rates(case)
    assert found.rates == pytest.approx(right.rates, rel=1e-9, abs=1e-12)
    assert bool(found.error) == bool(right.error)


def test_the_program_reads_every_number_as_the_nearest_f64(programs):
    values = [0.37667905299174836, 0.9827854760376531, 2.4391087688713198e-05]
    cases = [Case(str(value), 1, [0.1], {"Constant": value}, None) for value in values]
    found = burn_rates(cases, programs / "optdef")
    assert [found[case.name].rates[0] for case in cases] == values


@pytest.mark.torch
def test_a_scheduler_of_pytorchs_is_made_of_data():
    import torch

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.5)
    made = pytorch_scheduler({"class": "StepLR", "step_size": 3, "gamma": 0.5}, optimizer)
    assert type(made) is torch.optim.lr_scheduler.StepLR and made.gamma == 0.5
    with pytest.raises(PitbError, match="has no StepLr; the nearest is StepLR"):
        pytorch_scheduler({"class": "StepLr"}, optimizer)
    with pytest.raises(PitbError, match=r"StepLR: .*unexpected keyword argument 'size'"):
        pytorch_scheduler({"class": "StepLR", "size": 3}, optimizer)


@pytest.fixture
def program(tmp_path):
    """Makes a program that answers as it is told to."""

    def made(answer, code=0):
        path = tmp_path / "optdef"
        writes = f"echo '{json.dumps(answer)}' > \"$4\""
        path.write_text(f"#!/bin/sh\necho 'error: a reason' >&2\n{writes}\nexit {code}\n")
        path.chmod(0o755)
        return path

    return made


def test_what_the_program_leaves_out_or_refuses_is_said(program, tmp_path):
    cases = [BY_NAME["step"], BY_NAME["plateau"]]
    answer = {"step": {"rates": [0.1, None]}}
    found = burn_rates(cases, program({"schedules": answer}))
    assert found["step"].rates[0] == 0.1 and math.isnan(found["step"].rates[1])
    assert (
        burn_rates(cases, program({"schedules": {"step": {"error": "no"}}}))["step"].error == "no"
    )
    with pytest.raises(PitbError, match="left out step"):
        burn_rates(cases, program({"schedules": {}}))
    with pytest.raises(PitbError, match="failed: error: a reason"):
        burn_rates(cases, program({"schedules": answer}, 2))
    with pytest.raises(PitbError, match="missing does not run: No such file"):
        burn_rates(cases, tmp_path / "missing")
    with pytest.raises(PitbError, match="does not list burn's schedulers: no"):
        burn_variants(program({"schedules": {"none": {"error": "no"}}}))


def test_a_rule_at_one_update_is_pure():
    rule = pytorch_rule({"class": "CosineAnnealingLR", "T_max": 4})
    at = At(3, 0.5, 1.0, False)
    assert rule(at) == rule(at)
    assert burn_rate(cosine(1.0, 4), 3) == burn_rate(cosine(1.0, 4), 3)
