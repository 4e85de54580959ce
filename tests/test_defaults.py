import pytest

from pitb import defaults
from pitb.errors import PitbError
from pitb.registry import published_optimizers


@pytest.mark.parametrize(
    ("text", "name", "fields"),
    [
        ("A { x: 0.9, y: false }", "A", {"x": "0.9", "y": "false"}),
        (
            "A { x: Some(B { y: 1, z: 2 }), w: None }",
            "A",
            {"x": "Some(B { y: 1, z: 2 })", "w": "None"},
        ),
        ("A { x: (1.0, -2.0), y: [1, 2] }", "A", {"x": "(1.0, -2.0)", "y": "[1, 2]"}),
        ("A { x: B { y: (1, 2) } }", "A", {"x": "B { y: (1, 2) }"}),
    ],
)
def test_debug_output_is_split_into_fields(text, name, fields):
    assert defaults.parse_debug(text) == (name, fields)


@pytest.mark.parametrize("text", ["", "A", "A {}", "A { x }", "[1, 2]"])
def test_what_is_no_debug_output_is_refused(text):
    with pytest.raises(PitbError, match="not"):
        defaults.parse_debug(text)


@pytest.mark.parametrize(
    ("pytorch", "burn", "off", "expected"),
    [
        (0, "None", 0, True),
        (0.0, "None", 0, True),
        (None, "None", None, True),
        (0.1, "None", 0, False),
        (0, "0.0", 0, True),
        (0, "0.9", 0, False),
        (1e-8, "1e-5", None, False),
        (0.9, "0.9", None, True),
        (0.9, "0.8999999761581421", None, True),  # 0.9 as f32
        (0.9, "0.90001", None, False),
        (False, "false", None, True),
        (True, "false", None, False),
        # Where nothing means off, None is no value.
        (0.9, "None", None, False),
    ],
)
def test_defaults_are_the_same_where_they_mean_the_same(pytorch, burn, off, expected):
    assert defaults.same(pytorch, burn, off) is expected


def agreeing():
    """Defaults of both sides that agree on everything."""
    pytorch, burn = {}, {}
    for optimizer in published_optimizers():
        values = {}
        config = {}
        for item in optimizer.hyperparameters:
            name = item.pytorch.partition("[")[0]
            if "[" in item.pytorch:
                values.setdefault(name, []).append(0.5)
            else:
                values[name] = 0 if item.off is not None else 0.5
            field, _, rest = item.burn.partition(".")
            if item.when:
                burn.setdefault(item.when, {})[rest] = "0.5"
            else:
                config[field] = "None" if rest else "0.0" if item.off is not None else "0.5"
        values |= dict.fromkeys(optimizer.pytorch_only)
        config |= dict.fromkeys(optimizer.burn_only, "None")
        pytorch[optimizer.pytorch] = values
        burn[optimizer.burn_config] = config
    return pytorch, burn


def debug(burn):
    return {
        name: {"debug": f"{name} {{ {', '.join(f'{k}: {v}' for k, v in fields.items())} }}"}
        for name, fields in burn.items()
    }


def test_defaults_that_agree_give_no_difference():
    pytorch, burn = agreeing()
    assert defaults.differences(pytorch, debug(burn)) == []


def test_an_epsilon_that_adam_and_adamw_share_is_one_row():
    pytorch, burn = agreeing()
    for config in ("AdamConfig", "AdamWConfig", "RmsPropConfig"):
        burn[config]["epsilon"] = "1e-5"
    found = defaults.differences(pytorch, debug(burn))
    assert [(d.name, d.sources) for d in found] == [
        ("Adam / AdamW eps", ("AdamConfig", "AdamWConfig")),
        ("RMSprop eps", ("RmsPropConfig",)),
    ]


def test_epsilons_of_adam_and_adamw_that_differ_are_two_rows():
    pytorch, burn = agreeing()
    burn["AdamConfig"]["epsilon"], burn["AdamWConfig"]["epsilon"] = "1e-5", "1e-6"
    assert [d.name for d in defaults.differences(pytorch, debug(burn))] == ["Adam eps", "AdamW eps"]


def test_options_of_momentum_are_those_of_its_own_configuration():
    pytorch, burn = agreeing()
    burn["MomentumConfig"]["dampening"] = "0.1"
    (found,) = defaults.differences(pytorch, debug(burn))
    assert (found.name, found.sources) == ("SGD momentum dampening", ("MomentumConfig",))


def test_a_name_that_a_library_no_longer_has_is_said():
    pytorch, burn = agreeing()
    del pytorch["Adam"]["eps"]
    with pytest.raises(PitbError, match=r"opt\.defaults has no 'eps'"):
        defaults.differences(pytorch, debug(burn))
    pytorch, burn = agreeing()
    del burn["AdamConfig"]["epsilon"]
    with pytest.raises(PitbError, match="AdamConfig has no 'epsilon'"):
        defaults.differences(pytorch, debug(burn))


@pytest.mark.parametrize(
    ("side", "sentence"), [(0, "of PyTorch's Adam"), (1, "of burn's AdamConfig")]
)
def test_a_default_that_a_library_adds_does_not_go_unnoticed(side, sentence):
    sides = agreeing()
    sides[side]["Adam" if side == 0 else "AdamConfig"]["novelty"] = "1"
    with pytest.raises(PitbError, match=f"lacks 'novelty' {sentence}"):
        defaults.differences(sides[0], debug(sides[1]))


def test_a_part_that_is_switched_on_by_default_is_a_difference():
    pytorch, burn = agreeing()
    burn["AdamConfig"]["weight_decay"] = "Some(WeightDecayConfig { penalty: 0.1 })"
    assert [d.name for d in defaults.differences(pytorch, debug(burn))] == ["Adam weight decay"]
