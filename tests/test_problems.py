import json
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pitb import a1
from pitb.errors import PitbError
from pitb.problems import is_linear, names, problem
from pitb.reference import models

WITH_LOSS = [name for name in names() if problem(name).model != "prescribed"]
PRESCRIBED = [name for name in names() if problem(name).model == "prescribed"]


def arrays_of(found):
    yield from found.parameters.values()
    yield from (value for value in found.inputs.values() if value.dtype != np.int64)
    yield from (value for step in found.gradients for value in step.values())


def drawn(seed, found):
    """Parameters of the same shapes: the problem's own for 0, others for other seeds."""
    if seed == 0:
        return found.parameters
    random = np.random.default_rng(seed)
    return {name: random.normal(size=value.shape) for name, value in found.parameters.items()}


@pytest.mark.parametrize("name", names())
def test_every_value_is_exact_in_float32(name):
    for values in arrays_of(problem(name)):
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values.astype(np.float32).astype(np.float64), values)


def test_no_two_problems_share_a_name_or_their_numbers():
    assert len(set(names())) == len(names())
    assert [problem(name).name for name in names()] == names()
    texts = {json.dumps(problem(name).json()) for name in names()}
    assert len(texts) == len(names())
    assert len({problem(name).about for name in names()}) == len(names())


@pytest.mark.parametrize("name", names())
def test_json_has_every_number_and_neither_nan_nor_infinity(name):
    found = problem(name)
    read = json.loads(json.dumps(found.json(), allow_nan=False))
    assert read["model"] == found.model
    assert [item["name"] for item in read["parameters"]] == list(found.parameters)
    for item in read["parameters"]:
        assert item["layout"] == ("linear" if is_linear(item["name"]) else "plain")
        values = np.array(item["values"]).reshape(item["shape"])
        np.testing.assert_array_equal(values, found.parameters[item["name"]])
    for key, item in read["inputs"].items():
        assert item["dtype"] == ("int64" if key == "y" or name == "embedding" else "float32")
        back = np.array([math.nan if x is None else x for x in item["values"]])
        np.testing.assert_array_equal(back.reshape(item["shape"]), found.inputs[key])
    assert len(read["gradients"]) == len(found.gradients)
    for step, expected in zip(read["gradients"], found.gradients, strict=True):
        assert step.keys() == expected.keys()
        for key, flat in step.items():
            back = [math.nan if x is None else float(x) for x in flat]
            np.testing.assert_array_equal(back, expected[key].reshape(-1))


@pytest.mark.parametrize(
    ("name", "linear"),
    [
        ("fc.weight", True),
        ("fc1.weight", True),
        ("unused.weight", True),
        ("fc.bias", False),
        ("conv.weight", False),
        ("embedding.weight", False),
        ("x", False),
        ("weight", False),
    ],
)
def test_only_weights_of_linear_layers_are_stored_transposed(name, linear):
    assert is_linear(name) == linear


def test_an_unknown_problem_names_the_nearest():
    with pytest.raises(PitbError, match=r"no problem 'quadratc' is known; nearest: 'quadratic'"):
        problem("quadratc")


@pytest.mark.parametrize("name", PRESCRIBED)
def test_prescribed_gradients_begin_again_after_the_last(name):
    found = problem(name)
    count = len(found.gradients)
    assert found.gradient(1) is found.gradients[0]
    assert found.gradient(count) is found.gradients[-1]
    assert found.gradient(count + 1) is found.gradients[0]
    for step in found.gradients:
        for key, value in step.items():
            assert value.shape == found.parameters[key].shape


def test_the_problems_are_what_they_are_for():
    assert len({str(step) for step in problem("constant").gradients}) == 1
    assert len({str(step) for step in problem("gradients").gradients}) == 10
    for step in problem("zero").gradients:
        assert not any(value.any() for value in step.values())
    zeros = [value == 0 for step in problem("sparse").gradients for value in step.values()]
    assert np.concatenate([z.reshape(-1) for z in zeros]).mean() == pytest.approx(2 / 3, abs=0.02)
    lacking = [step for step in problem("absent").gradients if "fc.bias" not in step]
    assert 0 < len(lacking) < 10
    for name, is_bad in (("nan", np.isnan), ("inf", np.isinf)):
        bad = [any(is_bad(v).any() for v in s.values()) for s in problem(name).gradients]
        assert bad == [step == 4 for step in range(1, 11)]
    found = problem("a1")
    np.testing.assert_array_equal(found.inputs["x"], a1.inputs()[0])
    eigenvalues = np.linalg.eigvalsh(problem("quadratic").inputs["A"])
    assert 0 < eigenvalues[0] < eigenvalues[-1] < 1 / 0.02  # no divergence at SGD's rate for it
    np.testing.assert_array_equal(
        problem("quadratic").inputs["A"].T, problem("quadratic").inputs["A"]
    )


@pytest.mark.parametrize("name", PRESCRIBED)
def test_the_problems_whose_squares_leave_float32_say_so(name):
    found = problem(name)
    values = np.concatenate([v.reshape(-1) for step in found.gradients for v in step.values()])
    values = values[np.isfinite(values) & (values != 0)].astype(np.float32)
    with np.errstate(all="ignore"):
        squares = values * values
    left = bool(len(values)) and (np.isinf(squares).any() or (squares == 0).all())
    assert found.overflows == left


@pytest.mark.parametrize("name", WITH_LOSS)
def test_gradients_are_those_of_finite_differences(name):
    found = problem(name)
    whole = models.evaluate(found, found.parameters)
    h = 1e-5
    for key, values in found.parameters.items():
        for index in np.ndindex(values.shape):
            ends = []
            for sign in (1, -1):
                moved = values.copy()
                moved[index] += sign * h
                ends.append(models.evaluate(found, {**found.parameters, key: moved}).loss)
            slope = (ends[0] - ends[1]) / (2 * h)
            if key not in whole.gradients:
                assert slope == 0
            else:
                assert whole.gradients[key][index] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_what_the_forward_pass_does_not_call_has_no_gradient():
    found = problem("unused")
    gradients = models.evaluate(found, found.parameters).gradients
    assert found.parameters.keys() - gradients.keys() == {"unused.weight", "unused.bias"}


def test_rows_that_are_never_looked_up_have_gradients_of_exact_zeros():
    found = problem("embedding")
    table = models.evaluate(found, found.parameters).gradients["embedding.weight"]
    assert [bool(row.any()) for row in table] == [True] * 4 + [False] * 2


@pytest.fixture(scope="module")
def by_autograd():
    """Loss, logits and gradients of PyTorch's, in float64."""
    import torch

    from pitb.torch_models import Model

    torch.set_num_threads(1)

    def evaluate(found, parameters):
        model = Model(found, torch.float64)
        with torch.no_grad():
            for name, value in parameters.items():
                model.get_parameter(name).copy_(torch.from_numpy(value))
        evaluation = model.evaluate()
        evaluation.loss.backward()
        gradients = {n: p.grad.numpy() for n, p in model.named_parameters() if p.grad is not None}
        return evaluation, gradients

    return evaluate


def close(a, b):
    scale = max(1.0, float(np.abs(b).max(initial=0)))
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * scale)


@pytest.mark.torch
@pytest.mark.parametrize("name", WITH_LOSS)
@settings(max_examples=15)
@given(seed=st.integers(0, 1000))
@example(seed=0)
def test_gradients_are_those_of_autograd(by_autograd, name, seed):
    found = problem(name)
    parameters = drawn(seed, found)
    mine = models.evaluate(found, parameters)
    theirs, gradients = by_autograd(found, parameters)
    close(mine.loss, theirs.loss.item())
    if theirs.logits is None:
        assert mine.logits is None
    else:
        close(mine.logits, theirs.logits.detach().numpy())
    assert mine.gradients.keys() == gradients.keys()
    for key, value in gradients.items():
        assert mine.gradients[key].shape == value.shape
        close(mine.gradients[key], value)


@pytest.mark.torch
@pytest.mark.parametrize("name", names())
def test_a_module_has_the_parameters_under_their_names(name):
    import torch

    from pitb.torch_models import Model

    found = problem(name)
    for dtype in (torch.float32, torch.float64):
        model = Model(found, dtype)
        unique = dict(model.named_parameters())
        assert list(unique) == list(found.parameters)
        assert {p.dtype for p in unique.values()} == {dtype}
        for key, value in found.parameters.items():
            np.testing.assert_array_equal(unique[key].detach().numpy(), value)
        for second, first in found.tied:
            assert model.named()[second] is unique[first]


@given(
    st.lists(st.lists(st.floats(-50, 50), min_size=3, max_size=3), min_size=1, max_size=4),
    st.floats(-100, 100),
)
def test_cross_entropy_does_not_see_a_shift_and_its_gradient_adds_up_to_0(rows, shift):
    logits, y = np.array(rows), np.arange(len(rows)) % 3
    loss, slope = models.cross_entropy(logits, y)
    shifted, _ = models.cross_entropy(logits + shift, y)
    assert loss == pytest.approx(shifted, rel=1e-9, abs=1e-9)
    assert loss >= 0
    np.testing.assert_allclose(slope.sum(axis=1), 0, atol=1e-14)


@pytest.mark.parametrize("name", WITH_LOSS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loss_is_computed_in_the_parameters_precision(name, dtype):
    found = problem(name)
    mine = models.evaluate(found, {k: v.astype(dtype) for k, v in found.parameters.items()})
    assert {value.dtype for value in mine.gradients.values()} == {np.dtype(dtype)}
    assert np.asarray(mine.loss).dtype == dtype
