"""Code that a reader has never seen: calls of any arguments are read or refused in one sentence.

PyTorch's calls by `pitb port`, burn's configurations by its other direction and by `pitb lint`, and
lists of versions by `pitb watch`.
"""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import fuzzing
from pitb.errors import PitbError
from pitb.registry import optimizers

SETTINGS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
NUMBERS = st.floats().map(repr) | st.integers(-(2**70), 2**70).map(str) | st.sampled_from(
    ["1e400", str(10**400),
     "-0.0", "0x1p-3", "1_000", "1j", "float('nan')", "float('inf')", "1e-3 if x else 2"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["None", "True", "False", "args.lr", "lambda s: 0.9 ** s", "[*a]", "'adam'", "f'{x}'", "...",
     "torch.tensor(0.1)", "lr", "(yield)", "b''", "\"层\"", "x := 3", "{}", "[i for i in range(3)]"]
)  # fmt: skip
VALUES = st.recursive(
    NUMBERS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda found: f"({', '.join(found)})")
        | st.lists(inner, max_size=3).map(lambda found: f"[{', '.join(found)}]")
    ),
    max_leaves=4,
)
OPTIONS = sorted({item.pytorch for entry in optimizers() for item in entry.hyperparameters})
EXTREME = ["1e400", "float('nan')", "-1", "0", str(10**400), "1e308", "5e-324", "0.5", "3", "-1e9"]
RATES = ["0.1", "0.1", "3", "1e308", "5e-324", str(10**400), "1e400"]
SCHEDULERS = {
    "StepLR": ["step_size", "gamma"],
    "MultiStepLR": ["milestones", "gamma"],
    "ConstantLR": ["factor", "total_iters"],
    "LinearLR": ["start_factor", "end_factor", "total_iters"],
    "ExponentialLR": ["gamma"],
    "CosineAnnealingLR": ["T_max", "eta_min"],
    "CosineAnnealingWarmRestarts": ["T_0", "T_mult", "eta_min"],
    "PolynomialLR": ["total_iters", "power"],
    "CyclicLR": ["base_lr", "max_lr", "step_size_up", "step_size_down"],
    "OneCycleLR": ["max_lr", "total_steps", "pct_start", "div_factor", "final_div_factor"],
    "ReduceLROnPlateau": ["factor", "patience", "cooldown", "min_lr"],
    "LambdaLR": ["lr_lambda"],
    "MultiplicativeLR": ["lr_lambda"],
}
NAMES = st.sampled_from([*OPTIONS, "lr", "maximize", "foreach", "step_size", "gamma", "T_max", "x"])
CLASSES = st.sampled_from(
    [entry.pytorch for entry in optimizers()]
    + ["NAdam", "lr_scheduler.StepLR", "lr_scheduler.LambdaLR", "lr_scheduler.OneCycleLR", "adam"]
)


@st.composite
def python(draw):
    """A call of something of torch.optim, by any arguments."""
    name = draw(CLASSES)
    first = "optimizer" if name.startswith("lr_") else "model.parameters()"
    words = [draw(st.sampled_from([first, "", "*args", "[{'params': x, 'lr': 1}]"]))]
    words += draw(st.lists(VALUES, max_size=2))
    words += [f"{key}={draw(VALUES)}" for key in draw(st.lists(NAMES, max_size=3))]
    return f"o = torch.optim.{name}({', '.join(word for word in words if word)})\n"


@st.composite
def schedule(draw):
    """An optimizer and its schedule, by numbers that few people write."""
    name = draw(st.sampled_from(list(SCHEDULERS)))
    numbers = st.sampled_from(EXTREME)
    many = st.lists(numbers, max_size=3).map(lambda found: f"[{', '.join(found)}]")
    formula = st.sampled_from(
        ["{} ** k", "min({}, k)", "{} * 0.5 ** (k // {})", "1 / (1 + {} * k)"]
    )
    functions = st.builds(lambda text, n: f"lambda k: {text.replace('{}', n)}", formula, numbers)
    kind = {"milestones": many, "lr_lambda": functions}
    words = [f"{key}={draw(kind.get(key, numbers))}" for key in SCHEDULERS[name]]
    optimizer = f"o = torch.optim.SGD(model.parameters(), lr={draw(st.sampled_from(RATES))})"
    return f"{optimizer}\ns = torch.optim.lr_scheduler.{name}(o, {', '.join(words)})\n"


@st.composite
def configuration(draw):
    """A configuration of burn's, as its Debug prints it or as it is built."""
    entry = draw(st.sampled_from(optimizers()))
    fields = [item.burn for item in entry.hyperparameters] + ["weight_decay", "x"]
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4))
    values = NUMBERS | st.sampled_from(["None", "Some(0.1)", "true", "x()", "Some(Norm(1.0))", "{"])
    if draw(st.booleans()):
        inner = ", ".join(f"{name}: {draw(values)}" for name in chosen)
        return f"{entry.burn_config} {{ {inner} }}"
    calls = "".join(f".with_{name}({draw(values)})" for name in chosen)
    return f"{entry.burn_config}::new(){draw(st.sampled_from(['', '0.1']))}{calls}"


def read_or_refused(reader, text, folder):
    """Either is fine; any other exception is not, nor is a sentence of two lines."""
    path = folder / f"input{fuzzing.SUFFIXES.get(reader, '')}"
    path.write_text(text, encoding="utf-8")
    try:
        fuzzing.READERS[reader][0](path)
    except PitbError as error:
        assert len(str(error).splitlines()) == 1


@SETTINGS
@given(text=python())
def test_any_call_of_pytorch_is_ported_or_refused(tmp_path, text):
    read_or_refused("python", text, tmp_path)


@SETTINGS
@given(text=schedule())
def test_any_schedule_of_pytorch_is_ported_or_refused(tmp_path, text):
    read_or_refused("python", text, tmp_path)


@SETTINGS
@given(text=configuration())
@example(text="LBFGSConfig::new().with_max_iter(1e400)")
@example(text=f"LBFGSConfig {{ max_iter: {10**400} }}")
@example(text=f"AdamConfig {{ epsilon: {10**400} }}")
def test_any_configuration_of_burn_is_turned_round_or_refused(tmp_path, text):
    read_or_refused("reverse", text, tmp_path)


@SETTINGS
@given(texts=st.lists(configuration(), max_size=3))
def test_any_rust_is_linted_or_refused(tmp_path, texts):
    body = "\n".join(f"    let a{i} = {text};" for i, text in enumerate(texts))
    read_or_refused("rust", f"use burn::optim::*;\nfn main() {{\n{body}\n}}\n", tmp_path)


ANY = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["versions", "releases", "num", "yanked"]), inner)
    ),
    max_leaves=6,
)


@SETTINGS
@given(value=ANY)
@example(value={"versions": [{"num": "1"}, {"num": None}]})
def test_any_list_of_versions_is_read_or_refused(tmp_path, value):
    read_or_refused("registry", json.dumps(value), tmp_path)


def test_a_reader_that_breaks_is_seen(tmp_path, monkeypatch):
    def breaks(path):
        raise IndexError("not a sentence")

    monkeypatch.setitem(fuzzing.READERS, "rust", (breaks, None))
    with pytest.raises(IndexError):
        read_or_refused("rust", "", tmp_path)
