import csv
import json
import math
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from explaining import configured, explained, layout, moved, names, recorded, source_of
from pitb import config, ledger, problems, trace
from pitb.breadth import runs
from pitb.errors import PitbError
from pitb.explain import factorial, machine, report, sources
from pitb.explain.configurations import KEYS, configuration
from pitb.explain.items import lay_out
from pitb.pages import ABLATIONS, OPTIMIZERS, default_pair
from pitb.reference.training import train
from pitb.registry import optimizers
from pitb.results import pair_name

ITEMS = {"only-eps": "eps", "only-wd": "weight_decay", "only-mom": "momentum"}
"""The pages' names of what they align alone."""
SGD = "pytorch:SGD lr=0.1"


# -- the pages' ablation -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def published(root):
    path = root / "config/published/optimizer-defaults.csv"
    return [item for item in ledger.read_published(path) if item.table == "ablation"]


@pytest.fixture
def page_configs(root, tmp_path):
    """The pages' configuration, without the traces of its runs."""
    return {"configs": [root / "config/config.yaml"], "results": tmp_path}


def ablation(name, item, configs, aligned=None):
    """The figures that the page prints of an ablation, computed by the factorial."""
    a, b = (sources.read(run, **configs).configured({}) for run in default_pair(name))
    found = lay_out(a, b, ("a1", "a1"))
    index = names(found).index(aligned or ITEMS[item])
    steps = range(1, found.steps + 1)
    outcome = factorial.factorial(found, at=steps)
    run = train(found.run(frozenset(range(len(found.items))) - {index}))
    figures = {}
    for row, step in enumerate(steps):
        key = f"{name} {item} step {step:02}"
        figures[key, "loss_pt"] = float(outcome.a.find(step, "loss")[0])
        figures[key, "loss_burn"] = float(run.find(step, "loss")[0])
        figures[key, "max|dparam|"] = float(outcome.effects[index].aligned[row, 0])
        figures[key, "|dloss|"] = float(outcome.effects[index].aligned[row, 2])
    return figures


@pytest.mark.parametrize(("name", "item"), ABLATIONS)
def test_the_ablations_of_the_pages_are_the_special_case(name, item, published, page_configs):
    figures = ablation(name, item, page_configs)
    mine = [figure for figure in published if figure.row.startswith(f"{name} {item} ")]
    assert len(mine) > 4
    for figure in mine:
        reproduced = figures[figure.row, figure.column]
        allowed, agrees = ledger.verdict(figure, repr(reproduced))
        assert agrees, (figure, reproduced, allowed)


def test_another_item_aligned_does_not_reproduce_it(published, page_configs):
    figures = ablation("rmsprop", "only-eps", page_configs, aligned="momentum")
    mine = [figure for figure in published if figure.row.startswith("rmsprop only-eps ")]
    agreed = [ledger.verdict(f, repr(figures[f.row, f.column]))[1] for f in mine]
    assert not all(agreed)


# -- what differs ------------------------------------------------------------------------------

CAUTIOUS = "burn:AdamW lr=0.1 cautious_weight_decay=true"
BURN_ADAM = "burn:Adam lr=0.1 weight_decay={penalty:1e-4}"
CLIPPED = f"{SGD} clip.scope=global clip.max_norm=0.1"
GROUPED = f"{SGD} groups=[{{parameters: [fc1.bias], optimizer: SGD, lr: 0.2}}]"
BURN_GROUP = (
    "burn:Sgd lr=0.1 groups=[{parameters: [fc1.bias], optimizer: Sgd, lr: 0.2, "
    "options: {gradient_clipping: {Norm: 0.1}}}]"
)
MATRICES = "lr=0.1 frozen=[fc1.bias, fc2.bias]"

DIFFERENCES = [
    (SGD, "pytorch:SGD lr=0.2", ["lr"]),
    (SGD, f"{SGD} weight_decay=0.1", ["weight_decay"]),
    (
        f"{SGD} momentum=0.9",
        "burn:Sgd lr=0.1 momentum.momentum=0.9",
        ["dampening", "float32"],
    ),
    # burn's null hides a dampening, which stands for nothing where momentum is off on both sides,
    # and is burn's own where aligning momentum switches it on.
    (SGD, "burn:Sgd lr=0.1", ["float32"]),
    (f"{SGD} momentum=0.9", "burn:Sgd lr=0.1", ["momentum", "dampening", "float32"]),
    # Off is off, whether by null or by 0.
    ("pytorch:Adam lr=0.1 eps=1e-5", "burn:Adam lr=0.1", ["float32", "interpolation", "folded"]),
    ("pytorch:Adam betas=[0.9, 0.99]", "pytorch:Adam betas=[0.8, 0.99]", ["betas[0]"]),
    # An option that only burn has.
    ("burn:AdamW lr=0.1", CAUTIOUS, ["cautious_weight_decay"]),
    (
        "pytorch:AdamW lr=0.1 eps=1e-5 weight_decay=1e-4",
        CAUTIOUS,
        ["cautious_weight_decay", "float32", "interpolation"],
    ),
    ("burn:Adafactor lr=0.1", "burn:Adafactor lr=0.1 relative_step=false", ["relative_step"]),
    # One optimizer under two names, but for choices.
    ("pytorch:Adam weight_decay=0.01", "pytorch:AdamW", ["decay"]),
    ("pytorch:Adam weight_decay=0.01 decoupled_weight_decay=true", "pytorch:AdamW", []),
    (BURN_ADAM, "burn:AdamW lr=0.1", ["decay", "folded"]),
    (BURN_ADAM, CAUTIOUS, ["cautious_weight_decay", "decay", "folded"]),
    # Two optimizers.
    (SGD, "pytorch:Adam lr=0.1", ["optimizer"]),
    (f"{SGD} momentum=0.9", "pytorch:RMSprop lr=0.1", ["optimizer", "momentum"]),
    # The training loop.
    (SGD, CLIPPED, ["clip"]),
    (
        CLIPPED,
        f"{SGD} clip.scope=per-parameter clip.max_norm=0.2",
        ["clip.scope", "clip.max_norm"],
    ),
    (CLIPPED, f"{SGD} clip={{scope: value, clip_value: 0.1}}", ["clip"]),
    (CLIPPED, f"{CLIPPED} clip.norm_type=1", ["clip.norm_type"]),
    (
        f"{SGD} clip.scope=per-parameter clip.max_norm=0.1",
        "burn:Sgd lr=0.1 gradient_clipping={Norm: 0.1}",
        ["float32", "own_clip_denominator", "own_clip_limit"],
    ),
    # burn's optimizer clips otherwise than the loop on burn's side.
    (
        "burn:Sgd lr=0.1 clip={scope: value, clip_value: 0.1}",
        "burn:Sgd lr=0.1 gradient_clipping={Value: 0.1}",
        ["own_clip_denominator", "own_clip_limit"],
    ),
    (
        "burn:Sgd lr=0.1 clip={scope: global, max_norm: 0.1}",
        "burn:Sgd lr=0.1 gradient_clipping={Norm: 0.2}",
        ["clip.scope", "clip.max_norm", "own_clip_denominator", "own_clip_limit"],
    ),
    (
        "pytorch:SGD lr=0.1 clip={scope: value, clip_value: 0.1}",
        "pytorch:SGD lr=0.1 clip={scope: value, clip_value: 0.1, first_step: 2}",
        ["clip.first_step"],
    ),
    # A group of burn's clips for itself.
    (BURN_GROUP, BURN_GROUP.replace("Norm: 0.1", "Norm: 0.2"), ["groups[0].clip.max_norm"]),
    # The loop clips every group, an optimizer its own parameters alone: not the same clip.
    (
        f"{GROUPED} clip={{scope: per-parameter, max_norm: 0.1}}",
        f"{BURN_GROUP} gradient_clipping={{Norm: 0.1}}",
        [
            *("clip", "float32", "own_clip_denominator", "own_clip_limit", "norm_precision"),
            "groups[0].clip",
        ],
    ),
    (SGD, f"{SGD} accumulate=2", ["accumulate"]),
    (SGD, f"{SGD} frozen=[fc1.bias]", ["frozen"]),
    (SGD, f"{SGD} rates=[{', '.join(['0.1'] * 9)}, 0.05]", ["rate schedule"]),
    (SGD, f"{SGD} scheduler={{class: StepLR, step_size: 3, gamma: 0.5}}", ["rate schedule"]),
    (SGD, GROUPED, ["groups"]),
    (GROUPED, GROUPED.replace("0.2", "0.3"), ["groups[0].lr"]),
    # L-BFGS and Muon, and options that follow others.
    ("pytorch:LBFGS lr=0.5 max_iter=4", "pytorch:LBFGS lr=0.5 max_iter=3", ["max_iter"]),
    ("pytorch:LBFGS lr=0.5 max_iter=4 max_eval=5", "pytorch:LBFGS lr=0.5 max_iter=4", []),
    (
        "pytorch:LBFGS max_iter=4",
        "burn:LBFGS lr=1 max_iter=4",
        ["flat_gradient", "lbfgs.last_evaluation", "lbfgs.prev_loss"],
    ),
    (
        f"pytorch:Muon {MATRICES}",
        f"burn:Muon {MATRICES}",
        ["weight_decay", "float32", "interpolation", "momentum", "newton_schulz", "fan"],
    ),
    ("pytorch:Lion lr=0.1", "pytorch:Lion lr=0.2", ["lr"]),
    # eps is a number of one and a pair of the other.
    (f"pytorch:Muon {MATRICES}", f"pytorch:Adafactor {MATRICES}", ["optimizer", "weight_decay"]),
]


def ends(found):
    """Every parameter and loss of a trace, bit for bit."""
    kept = [entry for entry in found.entries if entry.quantity in ("param", "loss")]
    return {entry.key: found.of(entry).tobytes() for entry in kept}


@pytest.mark.parametrize(("a", "b", "expected"), DIFFERENCES)
def test_items(a, b, expected):
    found = layout(a, b)
    assert names(found) == expected
    # All aligned is A, all broken is B.
    everyone = frozenset(range(len(found.items)))
    for broken, side in ((frozenset(), found.case_a), (everyone, found.case_b)):
        own = lay_out(side, side, (side.problem, side.problem))
        mine, other = (train(run) for run in (found.run(broken), own.run(())))
        assert ends(mine) == ends(other)


@pytest.mark.parametrize(("a", "b", "expected"), DIFFERENCES)
def test_items_of_the_other_way_round_are_the_same(a, b, expected):
    assert sorted(names(layout(b, a))) == sorted(expected)


def test_what_tells_adam_from_adamw_is_named():
    (item,) = layout("pytorch:Adam weight_decay=0.01", "pytorch:AdamW").items
    assert (item.kind, item.a, item.b) == ("equation", "coupled", "decoupled")
    assert item.note == "which is what tells Adam from AdamW"
    text = report.markdown(explained("pytorch:Adam weight_decay=0.01", "pytorch:AdamW"))
    assert "Adam and AdamW are one optimizer but for what stands below." in text
    assert "| `decay`, which tells Adam from AdamW | equation | coupled | decoupled |" in text
    text = report.markdown(explained(SGD, "pytorch:Adam lr=0.1"))
    assert "SGD and Adam are two optimizers" in text


def test_how_pytorch_computes_is_listed_and_not_tried():
    found = layout(SGD, f"{SGD} foreach=true")
    assert (found.items, names_of(found.untried)) == ((), ["foreach"])


def names_of(items):
    return [item.name for item in items]


def test_choices_that_no_run_reads_are_listed_apart():
    found = layout("pytorch:RMSprop lr=0.1", "burn:RmsProp lr=0.1")
    assert "center_product" in names_of(found.unread)
    centered = layout("pytorch:RMSprop lr=0.1 centered=true", "burn:RmsProp lr=0.1 centered=true")
    assert "center_product" in names(centered)


@pytest.mark.pipeline
@pytest.mark.parametrize("key", [optimizer.key for optimizer in optimizers()])
def test_a_run_is_what_the_breadth_makes_of_the_same_case(key, root):
    """Every way to configure each optimizer there is, on both sides, bit for bit."""
    plan = json.loads((root / f"results/breadth-slice/plans/{key}.json").read_text())
    tried = 0
    for name, entry in plan["cases"].items():
        case = entry["case"]
        if (case["dtype"], case["problem"], case["steps"]) != ("float64", "a1", 10):
            continue
        for side in ("pytorch", "burn"):
            spec = {k: v for k, v in entry[side].items() if k in KEYS}
            if "impossible" in entry[side]:
                continue
            spec |= {"side": side, "resume_step": case["resume_step"]}
            if entry["rates"][side]:
                spec |= {"rates": entry["rates"][side], "scheduler": None}
            found = configuration(spec, name)
            mine = lay_out(found, found, ("a1", "a1")).run(())
            theirs = replace(runs.reference_run(entry, side), states=False)
            assert ends(train(mine)) == ends(train(theirs)), (name, side)
            tried += 1
    assert tried > 20


# -- what it costs -----------------------------------------------------------------------------


def test_shares_add_up_to_the_total_and_alone_is_the_factorial_of_one():
    found = explained("pytorch:AdamW lr=0.01", "burn:AdamW lr=0.01").factorial
    shares = sum(effect.share for effect in found.effects)
    np.testing.assert_allclose(shares, found.total, atol=1e-12)
    assert found.runs == 2 ** len(found.effects)
    for i, effect in enumerate(found.effects):
        assert effect.name == found.effects[i].name
        np.testing.assert_array_equal(effect.every_step[found.steps], effect.broken)


def test_one_item_costs_all_of_it():
    found = explained(SGD, "pytorch:SGD lr=0.2").factorial
    (effect,) = found.effects
    np.testing.assert_array_equal(effect.share, found.total)
    np.testing.assert_array_equal(effect.broken, found.total)
    assert (effect.aligned == 0).all()


MANY = (
    "burn:AdamW lr=0.02 weight_decay=0.1 epsilon=1e-3 beta_1=0.8 beta_2=0.95 amsgrad=true "
    "clip.scope=global clip.max_norm=0.5 accumulate=2"
)


def test_more_than_eight_items_are_sampled_with_an_error_and_still_add_up():
    found = explained("pytorch:AdamW lr=0.01", MANY, permutations=4, seed=5)
    outcome = found.factorial
    assert len(outcome.effects) > 8
    assert outcome.permutations == 8
    np.testing.assert_allclose(sum(e.share for e in outcome.effects), outcome.total, atol=1e-12)
    assert max(effect.error.max() for effect in outcome.effects) > 0
    text = report.markdown(found)
    assert "estimated from 8 orders, drawn with seed 5" in text
    assert "standard error" in text


def test_effects_below_the_floor_are_not_detectable_and_never_zero():
    found = explained("pytorch:SGD lr=0.1 momentum=0.9", "burn:Sgd lr=0.1 momentum.momentum=0.9")
    text = report.markdown(found)
    # Dampening does nothing at step 1.
    row = next(line for line in text.splitlines() if line.startswith("| `dampening` | 1 |"))
    assert row.count("not detectable on this problem") == 3
    assert not re.search(r"\| [-+]?0(\.0+)?(e[-+]?0+)? \|", text.partition("## What each")[2])
    as_json = machine.as_json(found)
    (effect,) = [e for e in as_json["factorial"]["items"] if e["name"] == "dampening"]
    first, tenth = effect["broken"]
    assert first["parameters"] == {"value": None, "detectable": False}
    assert tenth["parameters"]["value"] > 1e-3


def test_the_floor_is_that_of_the_dtype_and_grows_where_the_run_magnifies_roundings():
    floors = {}
    for dtype in ("float32", "float64"):
        overrides = {"dtype": dtype, "steps": 30}
        for name in ("quadratic", "rosenbrock"):
            run = "pytorch:SGD lr=0.001"
            found = explained(run, f"{run} momentum=0.9", {**overrides, "problem": name})
            floors[dtype, name] = found.factorial.floor[-1, 1]
    assert floors["float64", "quadratic"] < 1e-14 < 1e-8 < floors["float32", "quadratic"] < 1e-5
    assert floors["float32", "rosenbrock"] > 2 * floors["float32", "quadratic"]


def test_an_effect_that_float32_hides_shows_in_float64():
    pair = ("pytorch:SGD lr=0.1 momentum=0.9", "pytorch:SGD lr=0.1 momentum=0.900000001")
    assert not explained(*pair).detectable(explained(*pair).factorial.total)[:, 0].any()
    wide = explained(*pair, {"dtype": "float64"})
    assert wide.detectable(wide.factorial.total)[-1, 0]


def test_what_diverges_is_named_and_breaks_nothing():
    found = explained(
        "pytorch:SGD lr=0.001 momentum=0.5",
        "pytorch:SGD lr=10 momentum=0.9",
        {"problem": "rosenbrock"},
    )
    outcome = found.factorial
    # SGD with a rate of 10 leaves Rosenbrock's valley for infinity.
    assert any(item.broken == ("lr",) for item in outcome.diverging)
    assert math.isinf(outcome.total[-1, 0])
    text = report.markdown(found)
    assert re.search(r"With `lr` as B has it, a parameter is not finite at step \d", text)
    assert "undefined (a combination diverges)" in text
    momentum = next(effect for effect in outcome.effects if effect.name == "momentum")
    assert np.isfinite(momentum.broken).all()
    json.dumps(machine.as_json(found), allow_nan=False)


def test_a_combination_that_cannot_be_trained_is_named():
    found = explained(
        "burn:Muon lr=0.1 frozen=[fc1.bias, fc2.bias]", "burn:Muon lr=0.1 momentum.nesterov=false"
    )
    broken = {item.broken: item for item in found.factorial.diverging}
    assert "Muon takes matrices" in broken["frozen",].reason
    assert "the run ends at step 1: Muon takes matrices" in report.markdown(found)


def test_an_optimizer_that_cannot_be_trained_at_all_is_refused():
    with pytest.raises(PitbError, match="cannot be trained: Muon takes matrices"):
        explained("burn:Muon lr=0.1", "burn:Muon lr=0.2")


def test_items_that_interact_are_said_to():
    found = explained("pytorch:Lamb lr=0.01", "burn:Lamb lr=0.01")
    text = report.markdown(found)
    # What PyTorch's side scales because of its decay, burn's does because of its flag.
    assert "The items interact in the parameters: at step 10" in text
    assert "some items work against others" in text
    alone = explained("pytorch:SGD lr=0.1", "pytorch:SGD lr=0.2")
    assert "interact" not in report.markdown(alone)


@pytest.mark.parametrize(
    ("alone", "together", "floor", "expected"),
    [
        (1.0, 1.0, 0.0, False),
        (1.05, 1.0, 0.0, False),
        (1.2, 1.0, 0.0, True),
        (0.5, 1.0, 0.0, True),
        (1e-9, 0.0, 1e-8, False),
        (math.inf, 1.0, 0.0, False),
    ],
)
def test_how_far_the_sum_may_miss_the_total(alone, together, floor, expected):
    assert report.interacts(alone, together, floor) is expected


def test_a_problem_without_a_loss_has_none_to_share():
    found = explained(SGD, "pytorch:SGD lr=0.2", {"problem": "gradients"})
    assert "The problem has no loss." in report.markdown(found)
    assert found.differs


@pytest.mark.parametrize(
    "name", ["nan", "inf", "zero", "scale-1e30", "scale-1e-30", "absent", "tied"]
)
def test_every_kind_of_problem_can_be_explained(name):
    found = explained("pytorch:Adam lr=0.01", "burn:Adam lr=0.01", {"problem": name})
    json.dumps(machine.as_json(found), allow_nan=False)
    assert report.markdown(found, "zh")


@pytest.mark.parametrize(
    ("a", "b", "overrides", "differs"),
    [
        (SGD, SGD, {}, False),
        (SGD, "pytorch:SGD lr=0.1 momentum=0", {}, False),
        # Kept in float32 on one side: nothing that can be seen.
        (SGD, "burn:Sgd lr=0.1", {}, False),
        (SGD, "pytorch:SGD lr=0.2", {}, True),
        # A value differs, though this problem does not show it.
        (SGD, "pytorch:SGD lr=0.2", {"problem": "zero"}, True),
        (f"{SGD} steps=10", f"{SGD} steps=5", {}, True),
        (f"{SGD} steps=10", f"{SGD} steps=5", {"steps": 5}, False),
        (f"{SGD} dtype=float32", f"{SGD} dtype=float64", {}, True),
        (SGD, f"{SGD} foreach=true", {}, False),
    ],
)
def test_whether_anything_differs(a, b, overrides, differs):
    assert explained(a, b, overrides).differs is differs


# -- against the traces ------------------------------------------------------------------------

RMS = ("pytorch:RMSprop lr=0.01", "burn:RmsProp lr=0.01")


def traces(**options):
    return [source_of(text, f"{text.partition(':')[0]}/x", **options) for text in RMS]


def test_configurations_explain_what_the_reference_itself_recorded():
    found = explained(*traces(dtype="float64"))
    assert all(item.holds for item in found.recorded.follows)
    np.testing.assert_allclose(found.recorded.explained[:, 0], 1.0)
    text = report.markdown(found)
    assert "the configurations explain 100 % of the difference in the parameters" in text
    assert "follows pytorch/x to the end" in text


def test_a_trace_that_does_otherwise_is_not_explained_by_its_configuration():
    def mistaken(run):
        (group,) = run.groups
        wrong = replace(group, equations=group.equations.but(epsilon="inside"))
        return replace(run, groups=(wrong,))

    a, b = traces(dtype="float64")
    b = source_of(RMS[1], "burn/x", change=mistaken, dtype="float64")
    found = explained(a, b)
    first, second = found.recorded.follows
    assert first.holds
    assert (second.holds, second.step) == (False, 1)
    assert found.recorded.explained[0, 0] < 0.9
    text = report.markdown(found)
    assert "burn/x is not explained by its configuration" in text
    assert "pitb diagnose" in text


def test_what_traces_say_beyond_what_can_be_tried_is_listed():
    first = {"threads": 1, "versions": {"torch": "2.15.0", "python": "3.11"}}
    second = {"threads": 4, "versions": {"torch": "2.15.0", "python": "3.12"}}
    a = source_of(SGD, "pytorch/x", metadata=first)
    b = source_of(SGD, "pytorch/y", metadata=second)
    found = explained(a, b)
    assert names_of(found.layout.untried) == ["threads", "version of python"]
    assert "Not tried: `threads` (1 / 4), `version of python` (3.11 / 3.12)." in report.markdown(
        found
    )
    # Two libraries have versions of their own.
    other = source_of("burn:Sgd lr=0.1", "burn/x", metadata={"versions": {"python": "3.13"}})
    assert explained(a, other).layout.untried == ()


def test_nothing_is_explained_where_the_traces_differ_by_roundings_alone():
    a = source_of(SGD, "pytorch/x", dtype="float64")
    moved_trace = recorded(SGD, "pytorch/y", dtype="float64")
    for entry in moved_trace.entries:
        if entry.step > 0 and entry.quantity != "lr":
            moved_trace.of(entry)[:] *= 1 + 1e-15
    found = explained(a, sources.of_trace(moved_trace))
    assert found.recorded.rounded.all()
    assert "there is nothing to explain" in report.markdown(found)
    assert not found.differs


def test_traces_that_start_apart_have_an_initial_state_to_try():
    with problems.added(moved("a1", 0.25, "fc2.bias")):
        b = recorded(SGD, "pytorch/y", problem="a1, moved", dtype="float64")
    b.metadata["configuration"]["problem"] = b.metadata["model"]["name"] = "a1"
    found = explained(source_of(SGD, "pytorch/x", dtype="float64"), sources.of_trace(b))
    assert names(found.layout) == ["initial state"]
    np.testing.assert_allclose(found.recorded.explained[:, 0], 1.0)
    assert found.divergence.rule == "apart"


def test_traces_of_a_model_that_is_not_known_are_replayed():
    a, b = traces(own="mine", dtype="float64", problem="conv")
    found = explained(a, b)
    assert found.replayed == "pytorch/x"
    assert [effect.name for effect in found.factorial.effects] == ["momentum", "eps", "float32"]
    # At step 1 both have the same gradients, so replaying is exact; later it is not.
    assert found.recorded.explained[0, 0] == pytest.approx(1.0)
    assert found.recorded.follows[0].holds
    assert not found.recorded.follows[1].holds
    text = report.markdown(found)
    assert "The model is none that pitb can train" in text
    assert "The problem has no loss." in text


def test_unknown_models_that_start_apart_have_an_initial_state_to_try():
    with problems.added(moved("conv", 0.25, "fc.bias")):
        b = source_of(SGD, "pytorch/y", own="mine", problem="conv, moved", dtype="float64")
    a = source_of(SGD, "pytorch/x", own="mine", problem="conv", dtype="float64")
    found = explained(a, b)
    assert names(found.layout) == ["initial state"]
    # The same gradients from another start: the difference stays what it was.
    np.testing.assert_allclose(found.factorial.total[:, 0], 0.25)


def test_one_trace_of_an_unknown_model_is_enough():
    a = source_of(RMS[0], "pytorch/x", own="mine", dtype="float64")
    found = explained(a, RMS[1])
    assert (found.replayed, found.recorded) == ("pytorch/x", None)
    assert explained(RMS[0], source_of(RMS[1], "burn/x", own="mine")).replayed == "burn/x"


def test_a_gradient_of_no_update_is_not_replayed():
    own = recorded(RMS[0], "pytorch/x", own="mine", dtype="float64")
    grads = [entry for entry in own.entries if entry.quantity == "grad" and entry.step == 2]
    for step in (0, own.configuration["steps"] + 5):
        entries = [*own.entries, *(replace(entry, step=step) for entry in grads)]
        stray = trace.Trace(entries, own.values, own.metadata)
        whole, found = (
            explained(sources.of_trace(each), RMS[1], permutations=1) for each in (own, stray)
        )
        np.testing.assert_array_equal(found.factorial.total, whole.factorial.total)


def without(found, quantity, step=None):
    kept = [e for e in found.entries if e.quantity != quantity or step not in (None, e.step)]
    return trace.Trace(kept, found.values, found.metadata)


@pytest.mark.parametrize(
    ("quantity", "step", "sentence"),
    [
        ("grad", None, "records no gradients to replay"),
        ("grad", 3, "records no gradient at step 3"),
        ("param", 0, "records no parameters of step 0"),
        ("param", None, "records no parameter"),
    ],
)
def test_what_a_replay_needs(quantity, step, sentence):
    a = recorded(RMS[0], "pytorch/x", own="mine")
    with pytest.raises(PitbError, match=sentence):
        explained(sources.of_trace(without(a, quantity, step)), RMS[1])


def test_lbfgs_cannot_be_replayed():
    a = source_of("pytorch:LBFGS lr=0.5 max_iter=2", "pytorch/x", own="mine")
    with pytest.raises(PitbError, match="LBFGS evaluates the loss again within an update"):
        explained(a, "burn:LBFGS lr=0.5 max_iter=2")


def test_models_with_other_parameters_cannot_be_compared():
    a = source_of(SGD, "pytorch/x", own="mine", problem="conv")
    b = source_of(SGD, "pytorch/y", own="mine", problem="a1")
    with pytest.raises(PitbError, match="do not have the same parameters"):
        explained(a, b)


def test_an_override_leaves_the_traces_out_and_says_so():
    found = explained(*traces(), {"problem": "conv"})
    assert found.recorded is None
    assert "The trace of pytorch/x is of another problem" in report.markdown(found)
    fewer = explained(*traces(), {"steps": 3})
    assert fewer.recorded is not None
    assert fewer.recorded.steps == [1, 3]


# -- what may be compared ----------------------------------------------------------------------

MISTAKES = [
    ("pytorch:Adm lr=1", "no optimizer 'Adm' is known; nearest: 'Adam'"),
    ("burn:Adamw lr=1", "burn has no optimizer 'Adamw'; nearest: 'AdamW'"),
    ("pytorch:Adam ep=1", "torch.optim.Adam has no option 'ep'; nearest: 'eps'"),
    ("pytorch:Lion beta=1", "timm.optim.Lion has no option 'beta'; nearest: 'betas'"),
    ("burn:Adam lr=1 epsilo=1", "AdamConfig has no field 'epsilo'; nearest: 'epsilon'"),
    ("burn:Sgd lr=1 momentum.momentm=1", "has no key 'momentm'; nearest: 'momentum'"),
    ("burn:Sgd lr=1 momentum=0.9", "momentum of burn's SgdConfig is 0.9, but must be keys"),
    ("burn:Sgd lr=1 gradient_clipping={Norms: 1}", "no kind 'Norms'; nearest: 'Norm'"),
    ("burn:Muon lr=1 adjust_lr_fn=Orig", "allowed: Original, MatchRmsAdamW"),
    ("burn:Adam", "the key 'lr' is missing, and burn has no default"),
    ("pytorch:SGD nesterov=1", "is 1, not true or false"),
    ("pytorch:SGD momentum=true", "momentum of torch.optim.SGD is True, not a number"),
    ("pytorch:Adam betas=0.9", "not a list of 2 numbers"),
    ("pytorch:SGD lr=010", "could be read as more than one number"),
    ("pytorch:SGD lr", "'lr' is not of the form key=value"),
    ("pytorch:SGD lr=1 lr=2", "lr is given twice"),
    ("pytorch:SGD clip=1 clip.scope=global", "clip is set to a value and to a table"),
    ("pytorch:SGD clip.scope=globl clip.max_norm=1", "nearest: global"),
    ("pytorch:SGD clip.scope=global", "lacks the key 'max_norm'"),
    ("pytorch:SGD clip.scope=value clip.max_norm=1", "clip of scope value has no key 'max_norm'"),
    ("pytorch:SGD clip.scope=global clip.max_norm=0", "is 0, not a number above 0"),
    ("pytorch:SGD steps=0", "steps is 0, but must be 1 or more"),
    ("pytorch:SGD steps=1.5", "steps is 1.5, not a whole number"),
    ("pytorch:SGD steps=31e9", "steps is 31000000000.0, but every step of every run is held"),
    ("pytorch:SGD steps=1e999", "steps is inf, not a whole number"),
    ("pytorch:SGD lr=fast", "lr is 'fast', not a number"),
    (f"pytorch:SGD{' momentun=1' * 300}", "momentun is given twice"),
    ("pytorch:SGD dtype=float16", "nearest: float64"),
    ("pytorch:SGD frozen=fc1.bias", "not a list of parameters' names"),
    ("pytorch:SGD rates=[0.1]", "rates has 1 values for 10 steps"),
    ("pytorch:SGD scheduler={class: StpLR}", "the nearest is StepLR"),
    ("burn:Sgd lr=1 scheduler={Cosin: {}}", "scheduler is not one of burn's|the nearest is Cosine"),
    ("pytroch:SGD lr=1", "side 'pytroch' is not known; nearest: 'pytorch'"),
    ("pytorch:SGD betas=[1", "betas is '\\[1', which is no value"),
    ("nowhere", "is no file, no run such as pytorch/rmsprop, and no run in a line"),
    ("nowhere.yaml", "nowhere.yaml does not exist"),
    ("nowhere.parquet", "nowhere.parquet does not exist"),
]


@pytest.mark.parametrize(("text", "sentence"), MISTAKES)
def test_a_mistake_is_one_sentence(text, sentence):
    with pytest.raises(PitbError, match=sentence) as caught:
        configured(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("a", "b", "overrides", "sentence"),
    [
        (f"{SGD} problem=conv", f"{SGD} problem=a1", {}, "trains 'conv' and .* 'a1'; --problem"),
        (SGD, SGD, {"problem": "a2"}, "no problem 'a2' is known; nearest: 'a1'"),
        (SGD, f"{SGD} frozen=[fc1.bia]", {}, "'fc1.bia' is no parameter of a1"),
        (SGD, f"{SGD} accumulate=3", {}, "does not divide the 4 rows"),
        (SGD, "burn:Sgd lr=0.1 initial_state=float32", {}, "only burn computes an initial state"),
        ("burn:LBFGS lr=1", "burn:LBFGS lr=2", {"problem": "gradients"}, "LBFGS evaluates"),
        (SGD, f"{SGD} rates=[{', '.join(['0.1'] * 10)}]", {"steps": 20}, "does not reach 20 steps"),
    ],
)  # fmt: skip
def test_a_pair_that_cannot_be_explained(a, b, overrides, sentence):
    with pytest.raises(PitbError, match=sentence):
        explained(a, b, overrides)


def test_what_one_side_leaves_open_is_as_the_other_has_it():
    found = explained(f"{SGD} steps=4 problem=conv dtype=float64", "pytorch:SGD lr=0.2")
    assert (found.problem, found.layout.steps, found.b.dtype) == ("conv", 4, "float64")


def test_files_of_one_run(tmp_path):
    yaml, plain = tmp_path / "a.yaml", tmp_path / "b.json"
    yaml.write_text("side: pytorch\noptimizer: AdamW\noptions: {eps: 1e-8}\nlr: 0.01\n")
    plain.write_text(json.dumps({"id": "burn/b", "optimizer": "AdamW", "lr": 0.01}))
    found = explained(*(sources.read(str(path)) for path in (yaml, plain)))
    assert (found.a.label, found.b.label) == ("a", "burn/b")
    assert {"eps", "weight_decay"} <= set(names(found.layout))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("optimiser: SGD\nside: pytorch\n", "a run has no key 'optimiser'; nearest: 'optimizer'"),
        ("optimizer: SGD\n", "side is None; allowed: pytorch, burn"),
        ("side: pytorch\n", "the key 'optimizer' is missing"),
        ("- 1\n", "not a run: it must hold keys and values"),
        ("runs: {}\n", "is a configuration of many runs"),
        ("side: burn\nside: burn\n", "line 2: key 'side' was given before"),
    ],
)
def test_a_file_with_a_mistake(text, sentence, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(text)
    with pytest.raises(PitbError, match=sentence) as caught:
        sources.read(str(path)).configured({})
    assert "run.yaml" in str(caught.value)


def test_a_run_of_the_configuration_brings_its_trace_if_it_is_of_that_very_run(root, tmp_path):
    configs = [root / "config/config.yaml"]
    bare = sources.read("pytorch/adamw", configs, tmp_path)
    assert bare.trace is None
    path = tmp_path / "traces/pytorch/adamw.parquet"
    trace.write(recorded("pytorch:AdamW lr=0.01", "pytorch/adamw"), path)
    assert sources.read("pytorch/adamw", configs, tmp_path).trace is not None
    trace.write(recorded("pytorch:AdamW lr=0.02", "pytorch/adamw"), path)
    assert sources.read("pytorch/adamw", configs, tmp_path).trace is None
    with pytest.raises(PitbError, match="no run 'pytorch/admw'; nearest: 'pytorch/adamw'"):
        sources.read("pytorch/admw", configs, tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"configuration": None}, "carries no configuration"),
        ({"side": "reference"}, "is of side 'reference'"),
    ],
)
def test_a_trace_that_says_too_little(change, sentence):
    with pytest.raises(PitbError, match=sentence):
        source_of(SGD, "pytorch/x", metadata=change)


@pytest.mark.torch
@pytest.mark.parametrize("optimizer", optimizers(), ids=lambda optimizer: optimizer.key)
def test_defaults_without_torch_are_those_of_torch(optimizer):
    found = configured(f"pytorch:{optimizer.pytorch} lr=0.5").member
    standard = optimizer.resolved({"lr": 0.5})
    for name, value in {**found.options, **found.how}.items():
        if name in standard and name not in ("max_lr_snapshot", "max_eval", "eps"):
            assert value == standard[name], name
    assert set(standard) - {"lr", "decoupled_weight_decay"} <= set(found.options) | set(found.how)


# -- the command -------------------------------------------------------------------------------


def pitb(*arguments, cwd=None, blocked=()):
    """The command in a process of its own, in which some modules cannot be imported."""
    block = "".join(f"sys.modules[{name!r}] = None; " for name in blocked)
    code = f"import sys; {block}from pitb.cli import main; sys.argv[0] = 'pitb'; main()"
    command = [sys.executable, "-c", code, "explain", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


HEAVY = ("torch", "timm", "snakemake", "matplotlib")


def test_it_needs_neither_torch_nor_snakemake_nor_matplotlib(tmp_path):
    ended = pitb(*RMS, "--json", cwd=tmp_path, blocked=HEAVY)
    assert (ended.returncode, ended.stderr) == (1, "")
    found = json.loads(ended.stdout)
    assert found["differs"] is True
    assert [item["name"] for item in found["differences"]["tried"]] == [
        "momentum",
        "eps",
        "float32",
    ]


def test_without_matplotlib_a_plot_is_one_sentence(tmp_path):
    ended = pitb(*RMS, "--plot", tmp_path / "x.svg", cwd=tmp_path, blocked=HEAVY)
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: a plot needs matplotlib")
    assert ended.stderr.count("\n") == 1


def test_exit_codes_and_languages(tmp_path):
    assert pitb(SGD, SGD, cwd=tmp_path).returncode == 0
    ended = pitb(SGD, "pytorch:SGD lr=0.2", "--language", "zh", cwd=tmp_path)
    assert ended.returncode == 1
    assert "有哪些不同" in ended.stdout
    ended = pitb(SGD, "nowhere", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: 'nowhere' is no file")


def test_the_whole_report_is_in_both_languages():
    found = explained(*traces(own="mine"))
    for language in ("en", "zh"):
        text = report.markdown(found, language)
        assert "{" not in re.sub(r"`[^`]*`", "", text).replace("{entry", "")
        assert text.count("\n## ") == 4


@pytest.mark.pipeline
def test_what_the_pipeline_writes_is_what_the_command_prints(root, tmp_path):
    """`explain: true` of the configuration, as a job of the pipeline makes it."""
    command = [sys.executable, root / "scripts/explain_pairs.py", "--results", tmp_path]
    for side in ("pytorch", "burn"):
        found = trace.read(root / f"results/traces/{side}/rmsprop.parquet")
        trace.write(found, tmp_path / f"traces/{side}/rmsprop.parquet")
    pair = ("pytorch/rmsprop", "burn/rmsprop")
    subprocess.run([*command, "--pair", *pair, "1e-06"], check=True, capture_output=True)
    folder = tmp_path / "explain"
    written = {path.name.partition("burn.rmsprop")[2] for path in folder.iterdir()}
    assert written == {".md", ".zh.md", ".json", ".svg"}
    ended = pitb(*(tmp_path / f"traces/{run}.parquet" for run in pair), "--json")
    assert json.loads(ended.stdout) == json.loads(next(folder.glob("*.json")).read_text())


def test_a_comparison_of_the_configuration_can_ask_to_be_explained(root):
    found = config.load([root / "config/config.yaml"], root / "config/schema.json")
    asked = {pair.name for pair in found.explained()}
    assert {pair_name(*default_pair(name)) for name in OPTIMIZERS} <= asked
    assert len(asked) < len(found.pairs)


@pytest.mark.pipeline
def test_the_pipeline_has_a_target_for_it(root, tmp_path):
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run", "explain"]
    project = ["-s", root / "Snakefile", "--directory", tmp_path]
    ended = subprocess.run([*command, *project], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"^explain_pairs +1$", ended.stdout, re.MULTILINE)
    # Where no comparison asks for it, there is nothing to do.
    mine = tmp_path / "config/config.yaml"
    mine.parent.mkdir()
    text = (root / "config/config.yaml").read_text(encoding="utf-8")
    mine.write_text(text.replace(", explain: true", ""), encoding="utf-8")
    ended = subprocess.run([*command, *project], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "explain_pairs" not in ended.stdout


@pytest.mark.pipeline
def test_real_traces_are_explained(root):
    """The totals of the pages' five explanations, against what both libraries recorded."""
    with (root / "results/comparisons.csv").open() as file:
        mismatches = {(r["a"], r["b"]) for r in csv.DictReader(file) if r["verdict"] == "MISMATCH"}
    for name in ("sgdm", "adamw", "rmsprop", "adagrad"):
        pair = default_pair(name)
        assert pair in mismatches
        files = [root / f"results/traces/{run}.parquet" for run in pair]
        found = explained(*(sources.of_trace(trace.read(path)) for path in files))
        assert all(item.holds for item in found.recorded.follows), name
        assert found.recorded.explained[-1, 0] > 0.99
