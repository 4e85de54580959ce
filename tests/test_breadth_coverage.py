import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.torch

NAME = re.compile(r"[A-Za-z0-9_-]+")


@pytest.fixture(scope="module")
def coverage():
    import torch

    torch.set_num_threads(1)
    from pitb.breadth import coverage

    return coverage


@pytest.fixture(scope="module")
def optdef(programs):
    return programs / "optdef"


@pytest.fixture(scope="module")
def burn(optdef):
    return json.loads(subprocess.run([optdef, "--defaults"], capture_output=True).stdout)


@pytest.fixture(scope="module")
def refusal(coverage, optdef):
    return coverage.Refusals(optdef)


@pytest.fixture(scope="module")
def plan(coverage, burn):
    from pitb.breadth.plan import plan

    return plan(coverage.coverage_cases(), burn)


@pytest.fixture
def outcomes(plan):
    """As if every run that is possible had been trained and judged."""
    return {
        name: {
            f"{side}--reference": "impossible" if "impossible" in entry[side] else "OK"
            for side in ("pytorch", "burn")
        }
        for name, entry in plan["cases"].items()
    }


def test_the_list_is_pytorchs_own(coverage):
    from torch.testing._internal.common_optimizers import optim_db

    expected = [
        (info.optim_cls.__name__, given.desc)
        for info in optim_db
        for given in info.optim_inputs_func(device="cpu")
    ]
    found = [(item.optimizer, item.desc) for item in coverage.configurations()]
    assert found == expected
    assert len(found) > 50
    json.dumps([item.kwargs for item in coverage.configurations()])


def test_every_configuration_of_an_optimizer_that_burn_has_has_cases(coverage):
    from pitb.registry import optimizers

    known = {entry.pytorch for entry in optimizers()}
    for item, found in coverage.assigned():
        assert bool(found) == (item.optimizer in known)
        wanted = 2 if item.optimizer == "LBFGS" else 4
        assert len(found) in (0, wanted)
        for case in found:
            assert case.optimizer == item.optimizer
            assert case.lr == item.kwargs.get("lr", case.entry.defaults()["lr"])
            given = {key: value for key, value in item.kwargs.items() if key != "lr"}
            assert case.options == {**case.options, **given}


def test_names_are_unique_and_fit_for_files(coverage):
    found = list(coverage.coverage_cases())
    names = [case.name for case in found]
    assert len(names) == len(set(names))
    assert all(NAME.fullmatch(name) for name in names)
    assert all(case.set.startswith("cov-") and case.suite == "coverage" for case in found)


@given(st.lists(st.sampled_from(["default", "non-default lr", "lr", "ns_steps", "w/ -", "Lr 2"])))
def test_names_of_any_descriptions_are_unique_and_do_not_depend_on_later_ones(descriptions):
    from pitb.breadth import coverage

    items = [coverage.Configuration("SGD", desc, {"lr": 1}) for desc in descriptions]
    names = coverage.set_names(items)
    assert len(set(names)) == len(items)
    assert all(re.fullmatch(r"cov(-[a-z0-9]+)+", name) for name in names)
    assert coverage.set_names(items[:3]) == names[:3]


def test_configurations_that_come_to_the_same_share_cases(coverage, monkeypatch):
    listed = [
        ("default", {}),
        ("zero momentum", {"momentum": 0.0}),
        ("momentum", {"momentum": 0.9}),
    ]
    listed = tuple(coverage.Configuration("SGD", *item) for item in listed)
    monkeypatch.setattr(coverage, "configurations", lambda: listed)
    (_, first), (_, second), (_, third) = coverage.assigned.__wrapped__()
    assert first == second != third


def test_everything_is_covered_impossible_or_without_counterpart(
    coverage, plan, outcomes, refusal, burn
):
    rows = coverage.coverage(plan, outcomes, refusal, burn)
    coverage.check(rows)
    counted = coverage.totals(rows)
    assert sum(counted.values()) == len(rows) == len(coverage.configurations())
    assert counted["missing"] == 0
    known = [row for row in rows if row.status != "no-counterpart"]
    assert len(known) == sum(bool(found) for _, found in coverage.assigned())
    assert all(row.cases for row in known)
    assert all(row.reason for row in rows if row.status != "covered")


def test_what_burn_cannot_do_is_said_in_its_own_words(coverage, plan, outcomes, refusal, burn):
    rows = {(r.optimizer, r.desc): r for r in coverage.coverage(plan, outcomes, refusal, burn)}
    maximize = rows["Adam", "maximize"]
    assert maximize.status == "impossible"
    assert (
        'maximize=true: AdamConfig of optimizer Adam: unknown field "maximize"' in maximize.reason
    )
    assert "weight_decay" not in maximize.reason
    spectral = rows["Muon", "spectral_unclamped lr adjustment"]
    assert "unknown variant `spectral_unclamped`, expected `Original`" in spectral.reason
    assert rows["NAdam", "default"].reason.startswith("burn has no NAdam, only Sgd, Adam, ")
    assert "epsilon_1=null" in rows["Adafactor", "default"].reason
    assert rows["Adafactor", "default"].status == "covered"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda plan, outcomes, name: plan["cases"].pop(name), "not planned"),
        (lambda plan, outcomes, name: outcomes.pop(name), "no verdict"),
        (lambda plan, outcomes, name: outcomes[name].pop("burn--reference"), "burn of"),
        (lambda plan, outcomes, name: outcomes[name].update({"burn--reference": "error"}), "error"),
        (
            lambda plan, outcomes, name: plan["cases"][name].update(burn={"impossible": "no"}),
            "planned as impossible: no",
        ),
        (
            lambda plan, outcomes, name: plan["cases"][name]["case"].update(options={"eps": 1}),
            "planned with other options",
        ),
    ],
)
def test_a_case_that_was_not_trained_and_judged_is_missing(
    coverage, plan, outcomes, refusal, burn, spoil, words
):
    plan = json.loads(json.dumps(plan))
    name = "adam_cov-amsgrad_gradients_f64"
    spoil(plan, outcomes, name)
    rows = coverage.coverage(plan, outcomes, refusal, burn)
    (missing,) = [row for row in rows if row.status == "missing"]
    assert (missing.optimizer, missing.desc) == ("Adam", "amsgrad")
    assert words in missing.reason
    assert name in missing.reason
    with pytest.raises(coverage.PitbError, match=r"1 are not covered: Adam 'amsgrad'"):
        coverage.check(rows)


def test_impossible_in_burn_needs_a_run_of_pytorchs(coverage, plan, outcomes, refusal, burn):
    outcomes["adam_cov-maximize_a1_f32"].clear()
    rows = coverage.coverage(plan, outcomes, refusal, burn)
    (missing,) = [row for row in rows if row.status == "missing"]
    assert missing.desc == "maximize"
    assert "pytorch of adam_cov-maximize_a1_f32 was not judged" in missing.reason


def test_what_burn_takes_after_all_is_missing(coverage, plan, outcomes, burn):
    rows = coverage.coverage(plan, outcomes, lambda optimizer, options: None, burn)
    missing = [row for row in rows if row.status == "missing"]
    assert {"maximize", "spectral_unclamped lr adjustment"} < {row.desc for row in missing}
    assert all("which no case tries" in row.reason for row in missing)


def test_an_optimizer_that_burn_gains_or_loses_is_said(coverage, plan, outcomes, refusal, burn):
    more = {**burn, "NAdamConfig": {"optimizer": "NAdam", "fields": {}}}
    with pytest.raises(coverage.PitbError, match="the list of names lacks burn's NAdam"):
        coverage.coverage(plan, outcomes, refusal, more)
    less = {name: entry for name, entry in burn.items() if name != "AdanConfig"}
    with pytest.raises(coverage.PitbError, match="burn has no Adan"):
        coverage.coverage(plan, outcomes, refusal, less)


def test_rows_that_are_not_of_the_list_are_refused(coverage, plan, outcomes, refusal, burn):
    rows = coverage.coverage(plan, outcomes, refusal, burn)
    with pytest.raises(coverage.PitbError, match="are not those of PyTorch's"):
        coverage.check(rows[1:])
    with pytest.raises(coverage.PitbError, match="are not those of PyTorch's"):
        coverage.check([rows[1], *rows[1:]])
    with pytest.raises(coverage.PitbError, match="have a status that is known"):
        coverage.check([replace(rows[0], status="fine"), *rows[1:]])


def test_burn_is_asked_whether_it_takes_options(coverage, refusal):
    assert refusal("Adam", {"amsgrad": True}) is None
    assert "unknown field" in refusal("Adam", {"maximize": True})
    with pytest.raises(coverage.PitbError, match="burn refuses NAdam whatever its options: "):
        refusal("NAdam", {"maximize": True})
    with pytest.raises(coverage.PitbError, match="cannot be run; build it with make"):
        coverage.Refusals(Path("missing/optdef"))("Adam", {})


def test_a_program_that_fails_otherwise_has_refused_nothing(coverage, tmp_path):
    program = tmp_path / "optdef"
    program.write_text("#!/bin/sh\necho 'killed' >&2\nexit 101\n")
    program.chmod(0o755)
    with pytest.raises(coverage.PitbError, match="failed on Adam"):
        coverage.Refusals(program)("Adam", {})


DEFAULTS = {
    "SgdConfig": {
        "optimizer": "Sgd",
        "fields": {"weight_decay": None, "momentum": None, "epsilon": 0.1, "max_eval": None},
    },
    "MuonConfig": {"optimizer": "Muon", "fields": {"momentum": {"nesterov": True}}},
    "MomentumConfig": {"fields": {"momentum": 0.9, "nesterov": False}},
}
SPECS = [
    {"id": "burn/a", "optimizer": "Sgd", "options": {"weight_decay": None, "epsilon": 0.1}},
    {"id": "burn/b", "optimizer": "Sgd", "options": {"momentum": {"momentum": 0.9}}},
    {"id": "burn/c", "optimizer": "Sgd", "options": {"weight_decay": {"penalty": 0.0}}},
    {"impossible": "not this one"},
    {
        "id": "burn/d",
        "optimizer": "Sgd",
        "options": {"epsilon": 0.1 + 1e-12},
        "groups": [{"optimizer": "Muon", "options": {"momentum": {"nesterov": False}}}],
    },
]


def test_a_field_counts_where_a_run_sets_it_to_another_value(coverage):
    found = {(f.owner, f.name): f for f in coverage.burn_fields(DEFAULTS, SPECS)}
    assert {key: field.cases for key, field in found.items()} == {
        ("SgdConfig", "weight_decay"): ("c",),
        ("SgdConfig", "weight_decay.penalty"): ("c",),
        ("SgdConfig", "momentum"): ("b",),
        ("SgdConfig", "momentum.momentum"): (),
        ("SgdConfig", "momentum.nesterov"): (),
        ("SgdConfig", "epsilon"): (),
        ("SgdConfig", "max_eval"): (),
        ("MuonConfig", "momentum.nesterov"): ("d",),
    }
    assert found["SgdConfig", "epsilon"].status == "missing"
    assert found["SgdConfig", "epsilon"].reason == "no case sets it to another value than 0.1"
    assert found["SgdConfig", "momentum"].status == "covered"


def test_a_missing_field_is_named(coverage, plan, outcomes, refusal, burn):
    rows = coverage.coverage(plan, outcomes, refusal, burn)
    with pytest.raises(coverage.PitbError, match=r"MuonConfig momentum\.nesterov: no case"):
        coverage.check(rows, coverage.burn_fields(DEFAULTS, SPECS[:4]))


def test_the_parts_of_optional_fields_are_burns_own(coverage, refusal, burn):
    """Every optional field is known, and what burn says to nonsense names its parts."""
    for entry in burn.values():
        for field, parts in coverage._PARTS.items():
            if field not in entry["fields"] or "optimizer" not in entry:
                continue
            assert entry["fields"][field] is None or not isinstance(entry["fields"][field], dict)
            if entry["fields"][field] is None:
                wrong = {} if len(parts) == 1 else "x"
                said = refusal(entry["optimizer"], {field: wrong})
                assert set(re.findall(r"`(\w+)`", said)) - {"x"} == set(parts)
        optional = {name for name, value in entry["fields"].items() if value is None}
        assert optional <= {*coverage._PARTS, "momentum", "max_eval"}


@given(st.floats(-1e30, 1e30) | st.booleans() | st.integers(-9, 9) | st.sampled_from(["a", "None"]))
def test_a_value_is_the_same_as_itself_and_no_other_kind(value):
    from pitb.breadth import coverage

    assert coverage._same(value, value)
    assert coverage._same([value], [value])
    assert coverage._same("unset", value)
    assert not coverage._same(None, value)
    assert not coverage._same([value], value)
    assert not coverage._same([value, value], [value])
    if not isinstance(value, str):
        assert not coverage._same(bool(value) if not isinstance(value, bool) else 1 * value, value)


def test_every_option_of_pytorchs_constructors_is_accounted_for(coverage, plan):
    import inspect

    from pitb.breadth.cases import option_cases
    from pitb.registry import IMPLEMENTATION, optimizers

    # What is planned from option sets comes to the same specification.
    others = [
        {"id": f"pytorch/{c.name}", "optimizer": c.optimizer, "options": c.options, "lr": c.lr}
        for c in option_cases()
    ]
    specs = [entry["pytorch"] for entry in plan["cases"].values()]
    found = coverage.pytorch_options([*specs, *others])
    expected = [
        (entry.pytorch, name)
        for entry in optimizers()
        for name in list(inspect.signature(entry.constructor()).parameters)[1:]
    ]
    assert [(field.owner, field.name) for field in found] == expected
    assert [field for field in found if field.status == "missing"] == []
    refused = [field for field in found if field.status == "impossible"]
    assert {field.name for field in refused} <= set(IMPLEMENTATION)
    without = coverage.pytorch_options(spec for spec in others if "_eps" not in spec["id"])
    assert "foreach" in {field.name for field in without if field.status == "missing"}


def test_switches_of_the_implementation_are_tried(coverage):
    for (optimizer, switch), (found, refused) in coverage._switches().items():
        assert bool(found) != bool(refused), (optimizer, switch)
        for case in found:
            assert case.options[switch] is True
            assert case.set == f"cov-{switch}"
            # burn's options are those without the switch.
            entry, options = case.entry, case.entry.resolved(case.options)
            assert entry.to_burn(options) == entry.to_burn({**options, switch: None})
        if switch == "differentiable":
            assert "a leaf Variable that requires grad" in refused
        if switch == "capturable":
            assert "must be on supported devices" in refused


def bits(run):
    assert run.error is None
    return [run.of(entry).tobytes() for entry in run.entries if entry.quantity == "param"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_adafactors_none_stands_for_the_number_that_is_put_in_its_place(coverage, dtype):
    from pitb import pytorch
    from pitb.registry import by_pytorch_name

    spelled = coverage._spelled_out(by_pytorch_name("Adafactor"), {}, dtype)
    assert spelled["eps"][0] > 0
    spec = {"id": "pytorch/x", "optimizer": "Adafactor", "lr": 0.1, "steps": 5, "dtype": dtype}
    assert bits(pytorch.train(spec)) == bits(pytorch.train({**spec, "options": spelled}))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rate_in_a_tensor_trains_as_the_number_that_it_holds(coverage, dtype):
    import torch

    tried = 0
    for item in coverage.configurations():
        if "tensor lr" not in item.desc.lower() or item.optimizer == "SparseAdam":
            continue
        ends = []
        for lr in (item.kwargs["lr"], torch.tensor(0.001)):
            parameter = torch.nn.Parameter(torch.ones(2, 3, dtype=getattr(torch, dtype)))
            optimizer = getattr(torch.optim, item.optimizer)([parameter], lr=lr)

            def closure(parameter=parameter, optimizer=optimizer):
                optimizer.zero_grad()
                loss = (parameter**3 * torch.arange(1, 7).reshape(2, 3)).sum()
                loss.backward()
                return loss

            for _ in range(3):
                optimizer.step(closure)
            ends.append(parameter.detach())
        # Muon adjusts the rate in the tensor's own float32, also in float64.
        assert item.tensors == ("lr",)
        torch.testing.assert_close(*ends, rtol=1e-7 if dtype == "float64" else 0, atol=0)
        tried += 1
    assert tried > 0


def test_differentiable_updates_of_copies_are_the_same_updates(coverage):
    """What is refused for the parameters of a module works on copies of them."""
    import torch

    from pitb.registry import by_pytorch_name

    for optimizer, switch in coverage._switches():
        if switch != "differentiable":
            continue
        ends = []
        for on in (False, True):
            leaf = torch.arange(1.0, 7.0).reshape(2, 3).requires_grad_()
            parameter = leaf.clone() if on else leaf
            constructor = by_pytorch_name(optimizer).constructor()
            optimizing = constructor([parameter], lr=0.1, weight_decay=0.1, differentiable=on)
            for step in range(3):
                gradient = torch.arange(6.0).reshape(2, 3).sin() * (step + 1)
                if on:
                    parameter.retain_grad()  # without which a copy that has a gradient warns
                parameter.grad = gradient
                optimizing.step()
            ends.append(parameter.detach())
        torch.testing.assert_close(*ends, rtol=1e-5, atol=0)
