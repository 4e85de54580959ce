import inspect
import json
import subprocess

import pytest

from pitb.errors import PitbError
from pitb.registry import Hyperparameter, by_pytorch_name, optimizers, plain

pytestmark = pytest.mark.torch

NAMES = [entry.pytorch for entry in optimizers()]


@pytest.fixture(scope="module")
def burn(programs):
    return json.loads(
        subprocess.run([programs / "optdef", "--defaults"], capture_output=True).stdout
    )


def to_burn(name, options=None, **rest):
    entry = by_pytorch_name(name)
    return entry.to_burn(entry.resolved(options or {}), **rest)


def adam(decay):
    standard = {"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8, "amsgrad": False}
    return standard | {"weight_decay": decay}


MUON = {
    "weight_decay": {"penalty": 0.1},
    "momentum": {"momentum": 0.95, "nesterov": True},
    "ns_coefficients": [3.4445, -4.775, 2.0315],
    "epsilon": 1e-7,
    "ns_steps": 5,
    "adjust_lr_fn": "Original",
}
LBFGS = {
    "max_iter": 20,
    "max_eval": 25,
    "tolerance_grad": 1e-7,
    "tolerance_change": 1e-9,
    "history_size": 100,
    "line_search_fn": "None",
}
RMSPROP = {"momentum": 0, "alpha": 0.99, "epsilon": 1e-8, "centered": False, "weight_decay": None}
ADAFACTOR = {
    "epsilon_1": 1e-30,
    "epsilon_2": 1e-3,
    "clip_threshold": 1.0,
    "decay_rate": -0.8,
    "weight_decay": 0.0,
}
LAMB = {
    "beta_1": 0.9,
    "beta_2": 0.999,
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "use_trust_ratio": False,
}
ADAN = {
    "beta_1": 0.98,
    "beta_2": 0.92,
    "beta_3": 0.99,
    "epsilon": 1e-8,
    "weight_decay": 0.0,
    "no_prox": False,
}
TABLE = [
    ("SGD", {}, {"momentum": None, "weight_decay": None}),
    (
        "SGD",
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        {
            "momentum": {"momentum": 0.9, "dampening": 0, "nesterov": True},
            "weight_decay": {"penalty": 0.1},
        },
    ),
    # Without momentum the rest of it does nothing, and burn has no place for it.
    ("SGD", {"dampening": 0.3}, {"momentum": None, "weight_decay": None}),
    ("Adam", {}, adam(None)),
    ("Adam", {"betas": [0.8, 0.9]}, adam(None) | {"beta_1": 0.8, "beta_2": 0.9}),
    ("Adam", {"weight_decay": 0.1, "amsgrad": True}, adam({"penalty": 0.1}) | {"amsgrad": True}),
    ("AdamW", {}, adam(0.01)),
    ("AdamW", {"weight_decay": 0.0}, adam(0.0)),
    ("RMSprop", {}, RMSPROP),
    ("RMSprop", {"momentum": 0.5, "centered": True}, RMSPROP | {"momentum": 0.5, "centered": True}),
    ("Adagrad", {}, {"lr_decay": 0, "epsilon": 1e-10, "weight_decay": None}),
    ("Adagrad", {"lr_decay": 0.1}, {"lr_decay": 0.1, "epsilon": 1e-10, "weight_decay": None}),
    ("Adafactor", {"eps": [1e-30, 1e-3]}, ADAFACTOR),
    (
        "Adafactor",
        {"eps": [0.1, 0.2], "d": 2.0, "beta2_decay": -0.5},
        ADAFACTOR | {"epsilon_1": 0.1, "epsilon_2": 0.2, "clip_threshold": 2.0, "decay_rate": -0.5},
    ),
    ("Muon", {}, MUON),
    ("Muon", {"weight_decay": 0.0}, MUON | {"weight_decay": None}),
    ("Muon", {"adjust_lr_fn": "original"}, MUON),
    ("Muon", {"adjust_lr_fn": "match_rms_adamw"}, MUON | {"adjust_lr_fn": "MatchRmsAdamW"}),
    # Muon's momentum has no off value: burn's is not optional there.
    (
        "Muon",
        {"momentum": 0.0, "nesterov": False},
        MUON | {"momentum": {"momentum": 0.0, "nesterov": False}},
    ),
    ("LBFGS", {}, LBFGS),
    ("LBFGS", {"line_search_fn": "strong_wolfe"}, LBFGS | {"line_search_fn": "StrongWolfe"}),
    ("LBFGS", {"max_iter": 4}, LBFGS | {"max_iter": 4, "max_eval": 5}),
    ("LBFGS", {"max_iter": 4, "max_eval": 9}, LBFGS | {"max_iter": 4, "max_eval": 9}),
    ("Lion", {}, {"beta_1": 0.9, "beta_2": 0.99, "weight_decay": 0.0}),
    ("Lamb", {"max_grad_norm": None}, LAMB),
    ("Lamb", {"max_grad_norm": None, "always_adapt": True}, LAMB | {"use_trust_ratio": True}),
    ("Adan", {}, ADAN),
    ("Adan", {"betas": [0.1, 0.2, 0.3]}, ADAN | {"beta_1": 0.1, "beta_2": 0.2, "beta_3": 0.3}),
]


@pytest.mark.parametrize(("name", "options", "expected"), TABLE)
def test_options_in_burns_words(name, options, expected):
    assert to_burn(name, options) == expected


def test_every_optimizer_has_a_line_in_the_table():
    assert {name for name, *_ in TABLE} == set(NAMES)
    assert len(NAMES) == 11


@pytest.mark.parametrize("name", NAMES)
def test_how_pytorch_computes_is_none_of_burns_business(name):
    entry, known = by_pytorch_name(name), {**by_pytorch_name(name).neutral}
    if name == "Adafactor":
        known["eps"] = [1e-30, 1e-3]
    options = entry.resolved(known)
    expected = entry.to_burn(options)
    for switch in ("foreach", "fused", "capturable", "differentiable"):
        if switch in options:
            assert entry.to_burn({**options, switch: True}) == expected


@pytest.mark.parametrize(
    ("name", "left", "expected"),
    [
        ("Adam", ("eps",), {k: v for k, v in adam(None).items() if k != "epsilon"}),
        ("Adam", ("betas[1]",), {k: v for k, v in adam(None).items() if k != "beta_2"}),
        ("SGD", ("weight_decay",), {"momentum": None}),
        ("Muon", ("momentum",), MUON | {"momentum": {"nesterov": True}}),
        (
            "Lamb",
            ("max_grad_norm", "eps", "always_adapt"),
            {"beta_1": 0.9, "beta_2": 0.999, "weight_decay": 0.01},
        ),
        ("Adafactor", ("eps[0]",), {k: v for k, v in ADAFACTOR.items() if k != "epsilon_1"}),
    ],
)
def test_what_is_left_at_burns_default_is_not_said(name, left, expected):
    assert to_burn(name, left=left) == expected


@pytest.mark.parametrize("name", NAMES)
def test_burn_is_told_nothing_where_all_is_left_at_its_defaults(name):
    entry = by_pytorch_name(name)
    left = [*(item.pytorch for item in entry.hyperparameters), *entry.pytorch_only]
    assert to_burn(name, left=left) == {}


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("SGD", {"maximize": True}, "burn's Sgd cannot do maximize=True"),
        ("LBFGS", {"maximize": True}, "burn's LBFGS cannot do maximize=True"),
        (
            "Adagrad",
            {"initial_accumulator_value": 0.5},
            "burn's AdaGrad cannot do initial_accumulator_value=0.5",
        ),
        (
            "Adam",
            {"decoupled_weight_decay": True},
            "burn's Adam cannot do decoupled_weight_decay=True",
        ),
        ("LBFGS", {"weight_decay": 0.1}, "LBFGS has no option 'weight_decay'; nearest: "),
        ("Adafactor", {}, r"burn's Adafactor cannot do eps\[0\]=None"),
        ("Lamb", {}, r"burn's Lamb cannot do max_grad_norm=1\.0"),
        ("Lamb", {"max_grad_norm": None, "trust_clip": True}, "cannot do trust_clip=True"),
        ("Lion", {"caution": True}, "burn's Lion cannot do caution=True"),
        (
            "Muon",
            {"adjust_lr_fn": "spectral_unclamped"},
            "burn's Muon cannot do adjust_lr_fn='spectral_unclamped'",
        ),
        ("LBFGS", {"line_search_fn": "armijo"}, "burn's LBFGS cannot do line_search_fn='armijo'"),
        ("SGD", {"momentun": 0.9}, "SGD has no option 'momentun'; nearest: 'momentum'"),
        ("Adan", {"no_proxy": True}, "Adan has no option 'no_proxy'; nearest: 'no_prox'"),
        ("AdamW", {"beta1": 0.9}, "AdamW has no option 'beta1'; nearest: 'betas'"),
    ],
)
def test_what_burn_cannot_do_is_said_with_its_key(name, options, sentence):
    entry = by_pytorch_name(name)
    with pytest.raises(PitbError, match=sentence):
        entry.to_burn({**entry.defaults(), **options})


def test_beyond_burn_is_what_to_burn_refuses():
    def beyond(name, **options):
        entry = by_pytorch_name(name)
        return entry.beyond_burn(entry.resolved(options))

    assert beyond("SGD") == {}
    assert beyond("SGD", maximize=True, foreach=True) == {"maximize": True}
    assert beyond("Adafactor") == {"epsilon_1": None}
    spectral = beyond("Muon", adjust_lr_fn="spectral_unclamped")
    assert spectral == {"adjust_lr_fn": "spectral_unclamped"}
    assert beyond("Lamb") == {"max_grad_norm": 1.0}
    assert beyond("Lamb", max_grad_norm=None) == {}


def test_an_unknown_optimizer_names_the_nearest():
    with pytest.raises(PitbError, match="no optimizer 'Adamax' is known; nearest: 'Adam'"):
        by_pytorch_name("Adamax")


@pytest.mark.parametrize(
    ("max_iter", "max_eval"), [(20, 25), (4, 5), (3, 3), (1, 1), (25, 31), (100, 125)]
)
def test_max_eval_follows_max_iter(max_iter, max_eval):
    entry = by_pytorch_name("LBFGS")
    assert entry.resolved({"max_iter": max_iter})["max_eval"] == max_eval
    assert entry.resolved({"max_iter": max_iter, "max_eval": 7})["max_eval"] == 7


def test_what_pytorch_refuses_is_resolved_as_given():
    found = by_pytorch_name("SGD").resolved({"nesterov": True})
    assert found == by_pytorch_name("SGD").defaults() | {"nesterov": True}


@pytest.mark.parametrize("name", NAMES)
def test_resolving_again_changes_nothing_and_hands_out_copies(name):
    entry = by_pytorch_name(name)
    first = entry.defaults()
    assert json.loads(json.dumps(first)) == first
    taken = {
        k: v for k, v in first.items() if k in inspect.signature(entry.constructor()).parameters
    }
    assert entry.resolved(taken) == first
    entry.defaults()["lr"] = -1
    assert entry.defaults() == first


@pytest.mark.parametrize("name", NAMES)
def test_every_option_of_pytorchs_is_mapped_or_listed(name):
    entry = by_pytorch_name(name)
    options = {*list(inspect.signature(entry.constructor()).parameters)[1:], *entry.defaults()}
    assert options - {"lr"} == entry.mapped() | set(entry.pytorch_only)
    assert not entry.mapped() & set(entry.pytorch_only)
    assert set(entry.neutral) <= set(entry.pytorch_only)


@pytest.mark.parametrize("name", NAMES)
def test_every_field_of_burns_is_mapped_or_listed(burn, name):
    entry = by_pytorch_name(name)
    paths = [item.burn for item in entry.hyperparameters]
    assert len(set(paths)) == len(paths)
    fields = burn[entry.burn_config]["fields"]
    outer = {path.partition(".")[0] for path in paths}
    assert set(fields) == outer | {path.partition(".")[0] for path in entry.burn_only}
    assert not outer & set(entry.burn_only)
    for path in paths:
        field, _, inner = path.partition(".")
        if isinstance(fields[field], dict):
            assert inner in fields[field]
        if inner and field == "momentum":
            assert inner in burn["MomentumConfig"]["fields"]


@pytest.mark.parametrize("name", NAMES)
def test_burn_takes_what_it_is_told(programs, tmp_path, name):
    entry = by_pytorch_name(name)
    runs = [
        {
            "id": f"burn/{i}",
            "optimizer": entry.burn,
            "options": to_burn(other, options),
            "lr": 0.01,
            "steps": 1,
            "frozen": ["fc1.bias", "fc2.bias"] if entry.matrices_only else [],
        }
        for i, (other, options, _) in enumerate(TABLE)
        if other == name
    ]
    path = tmp_path / "runs.json"
    path.write_text(json.dumps({"runs": runs}))
    command = [programs / "optdef", "--runs", path, "--traces", tmp_path]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_labels_and_names_are_not_given_twice():
    for entry in optimizers():
        assert len({item.pytorch for item in entry.hyperparameters}) == len(entry.hyperparameters)
        assert len({item.label for item in entry.hyperparameters}) == len(entry.hyperparameters)
    assert len({entry.key for entry in optimizers()}) == len({entry.burn for entry in optimizers()})


def test_one_value_of_a_tuple():
    item = Hyperparameter("betas[1]", "beta_2", "beta 2")
    assert item.pytorch_name == "betas"
    assert item.of({"betas": [0.9, 0.99]}) == 0.99
    assert Hyperparameter("eps", "epsilon", "eps").of({"eps": 0.1}) == 0.1


def test_plain_values_are_those_of_json():
    import torch

    assert plain({"a": (1, [torch.tensor(2.0)]), "b": None}) == {"a": [1, [2.0]], "b": None}
