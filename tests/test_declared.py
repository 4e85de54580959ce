import pytest

from pitb import declarations, declared, libraries, rust
from pitb.errors import PitbError
from pitb.registry import optimizers

BURN = libraries.recorded()["burn"]


@pytest.mark.torch
@pytest.mark.pipeline
def test_the_record_is_that_of_the_installed_sources(root):
    assert declarations.read(root) == declared.recorded()


def test_it_is_of_the_version_that_is_recorded_elsewhere():
    assert declared.recorded()["burn"] == libraries.recorded()["versions"]["burn"]


@pytest.mark.parametrize("name", BURN)
def test_fields_are_those_that_burn_serialises(name):
    fields = {item.name: item for item in declared.structs()[name]}
    assert fields.keys() == BURN[name]["fields"].keys()
    for key, value in BURN[name]["fields"].items():
        # The default in the source, and the one that burn's own program printed.
        written = rust.shown(fields[key].type, value, rust.Style(BURN))
        text = fields[key].default
        assert text is not None
        assert _same(text, written)


def _same(text, written):
    try:
        return float(text) == float(written)
    except ValueError:
        return "".join(text.split()) == "".join(written.split())


def test_every_optimizer_has_its_configuration():
    for entry in optimizers():
        assert declared.paths()[entry.burn_config] == f"burn::optim::{entry.burn_config}"
        assert declared.refusals(entry.pytorch) or entry.pytorch == "Lamb"


SOURCE = """
#[derive(Config, Debug)]
pub struct AConfig {
    /// Words.
    #[config(default = 0.9)]
    first: f32,
    #[config(default = "B::C")]
    pub second: B,
    third: Option<usize>,
    fourth: Vec<f64>,
}
#[derive(Debug)]
pub struct Other { x: f32 }
"""


def test_a_struct_is_read():
    first, other = (n for n in declarations.parse(SOURCE).children if n.type == "struct_item")
    assert declarations.derives_config(first)
    assert not declarations.derives_config(other)
    assert declarations.struct_fields(first) == [
        {"name": "first", "type": "f32", "default": "0.9"},
        {"name": "second", "type": "B", "default": "B::C", "public": True},
        {"name": "third", "type": "Option<usize>", "default": "None"},
        {"name": "fourth", "type": "Vec<f64>"},
    ]


def test_refusals_of_a_constructor():
    class Base:
        def __init__(self, lr, fused=False, foreach=None):
            if lr < 0.0:
                raise ValueError
            if fused:
                if foreach:
                    raise RuntimeError
                self.fused = True
            if isinstance(lr, str):
                raise TypeError
            if self.x:
                raise ValueError

    class Derived(Base):
        pass

    assert declarations.refusals(Derived) == ["lr < 0.0", "(fused) and (foreach)"]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("f32", 1e-8, "1e-8"),
        ("f32", 1, "1.0"),
        ("f64", 1e100, "1e100"),
        ("f64", float("inf"), "f64::INFINITY"),
        ("usize", 3, "3"),
        ("bool", True, "true"),
        ("Option<usize>", None, "None"),
        ("Option<usize>", 3, "Some(3)"),
        ("(f32, f32)", [1, 0.5], "(1.0, 0.5)"),
        ("LineSearchFn", "StrongWolfe", "LineSearchFn::StrongWolfe"),
        ("Option<GradientClippingConfig>", {"Norm": 1}, "Some(GradientClippingConfig::Norm(1.0))"),
        ("Option<WeightDecayConfig>", {"penalty": 0.1}, "Some(WeightDecayConfig::new(0.1))"),
        ("Option<f32>", rust.Expression("x"), "Some(x)"),
        ("LrSchedulerConfig", {"Constant": 1}, "LrSchedulerConfig::Constant(1.0)"),
    ],
)
def test_values_in_rust(kind, value, text):
    assert rust.value(kind, value, rust.Style(BURN)) == text


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("f32", 1e-60, "is 0 in f32"),
        ("f32", -1e60, "is infinity in f32"),
        ("f32", True, "is not a number"),
        ("bool", 1, "is not true or false"),
        ("usize", -1, "is not a whole number of 0 or more"),
        ("usize", 0.5, "is not a whole number of 0 or more"),
        ("(f32, f32)", [1], "is not 2 numbers"),
        ("LineSearchFn", "Wolfe", "nearest: 'StrongWolfe'"),
    ],
)
def test_values_that_a_type_cannot_hold(kind, value, said):
    with pytest.raises(PitbError, match=said):
        rust.value(kind, value, rust.Style(BURN))


def test_a_field_that_there_is_not():
    with pytest.raises(PitbError, match=r"no field 'eps'; nearest: 'epsilon'"):
        rust.configuration("AdamConfig", {"eps": 1e-8}, rust.Style(BURN))
    with pytest.raises(PitbError, match="nearest is 'AdamConfig'"):
        rust.configuration("AdmConfig", {}, rust.Style(BURN))


def test_folding():
    code = "A::new(B::new(1.0, 2.0), vec![C::D, C::E])"
    assert rust.folded(code) == code
    assert rust.folded(code, width=30) == (
        "A::new(\n    B::new(1.0, 2.0),\n    vec![C::D, C::E],\n)"
    )
