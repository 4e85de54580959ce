import math
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb.breadth import mutants
from pitb.breadth.mutants import choices_read
from pitb.problems import problem
from pitb.reference import clipping
from pitb.reference.descriptions import DESCRIPTIONS, describe
from pitb.reference.equations import Equations, powi
from pitb.reference.optimizers import FUNCTIONS, GROUP_STEP, Scalars, _bfloat16, average
from pitb.reference.training import Group, Run, train

EQ = Equations()
LR = 0.1
P = np.array([[0.5, -1.25, 2.0], [-0.75, 3.0, -0.1]])
G = np.array([[0.1, -0.2, 0.3], [1.5, -0.7, -0.05]])
H = np.array([[-0.3, -0.4, 0.2], [0.5, 0.9, 0.15]])
K = np.array([[0.7, 0.1, -0.6], [0.25, -0.35, 0.8]])
ADAM = {"betas": [0.9, 0.99], "eps": 1e-3, "weight_decay": 0.0, "amsgrad": False}
OPTIONS = {
    "SGD": {"momentum": 0.9, "dampening": 0.0, "nesterov": False, "weight_decay": 0.0},
    "Adam": ADAM,
    "AdamW": ADAM,
    "RMSprop": {"alpha": 0.9, "eps": 1e-3, "centered": False, "momentum": 0, "weight_decay": 0.0},
    "Adagrad": {
        "lr_decay": 0.0,
        "eps": 1e-3,
        "initial_accumulator_value": 0,
        "weight_decay": 0.0,
    },
    "Adafactor": {"eps": [1e-30, 1e-3], "d": 1.0, "beta2_decay": -0.8, "weight_decay": 0.0},
    "Muon": {
        "momentum": 0.95,
        "nesterov": True,
        "ns_coefficients": [3.4445, -4.775, 2.0315],
        "eps": 1e-7,
        "ns_steps": 5,
        "adjust_lr_fn": None,
        "weight_decay": 0.0,
    },
    "Lion": {"betas": [0.9, 0.99], "weight_decay": 0.0},
    "Lamb": {"betas": [0.9, 0.99], "eps": 1e-3, "weight_decay": 0.0, "always_adapt": True},
    "Adan": {
        "betas": [0.98, 0.92, 0.99],
        "eps": 1e-3,
        "weight_decay": 0.0,
        "no_prox": False,
    },
    "LBFGS": {
        "max_iter": 4,
        "max_eval": 5,
        "tolerance_grad": 1e-7,
        "tolerance_change": 1e-9,
        "history_size": 10,
        "line_search_fn": None,
    },
}


def updated(optimizer, gradients, eq=EQ, p=P, lr=LR, transposed=False, state=None, **options):
    """The parameter after one update for each of ``gradients``."""
    scalars = Scalars({**OPTIONS[optimizer], **options}, eq, transposed)
    state = {} if state is None else state
    for t, gradient in enumerate(gradients, 1):
        state[GROUP_STEP] = t
        p = FUNCTIONS[optimizer](p, gradient, state, lr, scalars, eq)
    return p


def closed(share, keep, gradients):
    """An average that begins at 0, as a sum: share * keep^(t-i) * g_i."""
    t = len(gradients)
    return sum(share * keep ** (t - i) * g for i, g in enumerate(gradients, 1))


def same(a, b, rtol=1e-12):
    np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-14)


# SGD


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("dampening", [0.0, 0.3])
@pytest.mark.parametrize("first", ["gradient", "dampened"])
def test_sgd_with_momentum_is_a_sum_over_all_gradients(first, dampening, nesterov):
    m, rest, gs = 0.9, 1 - dampening, [G, H, K]
    first_share = 1 if first == "gradient" else rest
    expected = P
    for t in range(1, 4):
        buffer = first_share * m ** (t - 1) * G
        buffer = buffer + sum(rest * m ** (t - i) * gs[i - 1] for i in range(2, t + 1))
        expected = expected - LR * (gs[t - 1] + m * buffer if nesterov else buffer)
    options = {"momentum": m, "dampening": dampening, "nesterov": nesterov}
    same(updated("SGD", gs, EQ.but(first_momentum=first), **options), expected)


def test_sgd_by_hand():
    # (1 - 0.1 * 2) - 0.1 * (0.9 * 2 + 1)
    found = updated("SGD", [np.array([2.0]), np.array([1.0])], p=np.array([1.0]))
    same(found, [0.52])


@pytest.mark.parametrize(
    ("eq", "expected"),
    [
        (EQ, P - LR * (G + 0.5 * P)),
        (EQ.but(decay="decoupled"), P * (1 - LR * 0.5) - LR * G),
        (EQ.but(decay="decoupled-after"), (P - LR * G) * (1 - LR * 0.5)),
        (EQ.but(decay="decoupled", decay_rate="one"), P * 0.5 - LR * G),
        (EQ.but(decay="none"), P - LR * G),
    ],
)
def test_where_weight_decay_goes(eq, expected):
    same(updated("SGD", [G], eq, momentum=0, weight_decay=0.5), expected)


# Adam


@pytest.mark.parametrize(
    ("change", "factor", "eps"),
    [
        ({}, 1, 1e-3),
        ({"folded": True}, 1, 1e-3),
        ({"epsilon": "before-correction"}, 1, 1e-3 / math.sqrt(1 - 0.99)),
        # lr (1 - b1) g / (sqrt(1 - b2) |g| + eps), over sqrt(1 - b2)
        ({"bias_correction": "none"}, 0.1 / math.sqrt(0.01), 1e-3 / math.sqrt(0.01)),
        ({"bias_correction": "late"}, 0.1 / math.sqrt(0.01), 1e-3 / math.sqrt(0.01)),
        ({"bias_correction": "first"}, 1 / math.sqrt(0.01), 1e-3 / math.sqrt(0.01)),
        ({"bias_correction": "second"}, 0.1, 1e-3),
    ],
)
@pytest.mark.parametrize("optimizer", ["Adam", "AdamW"])
def test_the_first_step_of_adam_is_the_sign_softened_by_epsilon(optimizer, change, factor, eps):
    expected = P - LR * factor * G / (np.abs(G) + eps)
    same(updated(optimizer, [G], EQ.but(**change)), expected, rtol=1e-7 if change else 1e-12)


def test_epsilon_under_the_root():
    same(updated("Adam", [G], EQ.but(epsilon="inside")), P - LR * G / np.sqrt(G**2 + 1e-3))


@pytest.mark.parametrize("amsgrad", ["uncorrected", "corrected", "ignored"])
def test_adam_over_three_steps_is_that_of_the_paper_written_as_sums(amsgrad):
    b1, b2, eps, gs, expected = 0.5, 0.6, 1e-3, [K, 0.01 * H, 0.02 * G], P
    largest = np.zeros_like(P)
    for t in range(1, 4):
        first = closed(1 - b1, b1, gs[:t]) / (1 - b1**t)
        second = closed(1 - b2, b2, [g**2 for g in gs[:t]])
        correction = 1 - b2**t
        if amsgrad == "uncorrected":
            largest = np.maximum(largest, second)
            second = largest
        if amsgrad == "corrected":
            largest = np.maximum(largest, second / correction)
            second = largest * correction
        expected = expected - LR * first / (np.sqrt(second / correction) + eps)
    found = updated("Adam", gs, EQ.but(amsgrad=amsgrad), betas=[b1, b2], amsgrad=True)
    same(found, expected)


def test_the_absolute_second_moment_is_not_the_square():
    # Its root after one step is sqrt(|g|).
    expected = P - LR * G / (np.sqrt(np.abs(G)) + 1e-3)
    same(updated("Adam", [G], EQ.but(second_moment="abs")), expected)


def test_cautious_decay_shrinks_only_where_moment_and_parameter_agree():
    options = {"weight_decay": 0.5, "cautious_weight_decay": True}
    eq = EQ.but(decay="decoupled", decay_where="cautious")
    shrunk = np.where((P >= 0) == (G >= 0), P * (1 - LR * 0.5), P)
    same(updated("AdamW", [G], eq, **options), shrunk - LR * G / (np.abs(G) + 1e-3))
    whole = updated("AdamW", [G], EQ.but(decay="decoupled"), weight_decay=0.5)
    same(updated("AdamW", [G], EQ.but(decay="decoupled"), **options), whole)


@pytest.mark.parametrize(("p", "g", "left_alone"), [(0.0, 1.0, 0), (2.0, 0.0, 0), (-2.0, 0.0, 1)])
def test_cautious_decay_takes_0_for_positive(p, g, left_alone):
    eq = EQ.but(decay="decoupled", decay_where="cautious")
    options = {"weight_decay": 0.5, "cautious_weight_decay": True}
    found = updated("AdamW", [np.array([g])], eq, np.array([p]), **options)
    step = LR * g / (abs(g) + 1e-3)
    same(found, [p * (1 if left_alone else 1 - LR * 0.5) - step])


def test_the_groups_counter_corrects_more_where_a_gradient_was_missing():
    scalars, state = Scalars(ADAM, EQ), {GROUP_STEP: 3}
    eq = EQ.but(step_counter="group")
    found = FUNCTIONS["Adam"](P, G, state, LR, scalars, eq)
    first, second = 0.1 * G / (1 - 0.9**3), 0.01 * G**2 / (1 - 0.99**3)
    same(found, P - LR * first / (np.sqrt(second) + 1e-3))
    assert state["step"] == 1


# RMSprop, Adagrad


def test_the_first_step_of_centered_rmsprop():
    # The variance after one step: (1 - a) g^2 - ((1 - a) g)^2 = a (1 - a) g^2.
    expected = P - LR * G / (math.sqrt(0.9 * 0.1) * np.abs(G) + 1e-3)
    same(updated("RMSprop", [G], centered=True), expected)
    plain = P - LR * G / (math.sqrt(0.1) * np.abs(G) + 1e-3)
    same(updated("RMSprop", [G]), plain)
    same(updated("RMSprop", [G], EQ.but(center="ignored"), centered=True), plain)


@pytest.mark.parametrize("rate", ["outside", "inside"])
@pytest.mark.parametrize("epsilon", ["outside", "inside"])
def test_rmsprop_with_everything_over_three_steps(epsilon, rate):
    a, m, eps, gs, expected, buffer = 0.8, 0.5, 1e-3, [], P, np.zeros_like(P)
    for g in (G, H, K):
        gs.append(g + 0.1 * expected)
        mean = closed(1 - a, a, gs)
        variance = closed(1 - a, a, [x**2 for x in gs]) - mean**2
        root = np.sqrt(variance) + eps if epsilon == "outside" else np.sqrt(variance + eps)
        buffer = m * buffer + gs[-1] / root
        expected = expected - LR * buffer
    options = {"alpha": a, "momentum": m, "centered": True, "weight_decay": 0.1}
    eq = EQ.but(epsilon=epsilon, momentum_rate=rate)
    # A constant rate goes in as well as it goes out.
    same(updated("RMSprop", [G, H, K], eq, **options), expected, rtol=1e-11)


@pytest.mark.parametrize("lr_decay", ["from-zero", "from-one"])
@pytest.mark.parametrize("accumulator", ["initial", "zero"])
def test_adagrad_divides_by_the_root_of_all_squares(accumulator, lr_decay):
    start, decay, eps, expected = 0.5 * (accumulator == "initial"), 0.2, 1e-3, P
    gs = [G, H, K]
    for t in range(1, 4):
        rate = LR / (1 + (t - (lr_decay == "from-zero")) * decay)
        total = start + sum(g**2 for g in gs[:t])
        expected = expected - rate * gs[t - 1] / (np.sqrt(total) + eps)
    eq = EQ.but(accumulator=accumulator, lr_decay=lr_decay)
    same(updated("Adagrad", gs, eq, initial_accumulator_value=0.5, lr_decay=decay), expected)


# Adafactor


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=4), st.integers(0, 3))
def test_adafactor_on_a_rank_one_gradient_moves_by_the_sign(row, signs):
    """The factors give such a gradient's squares exactly, so that each element moves by 1."""
    column = np.array([0.3, 2.0, 5.0]) * [(-1) ** (signs >> i) for i in range(3)]
    g = np.outer(row, column)
    p = np.linspace(0.5, 2, g.size).reshape(g.shape)
    size = math.sqrt(np.mean(p**2))
    same(updated("Adafactor", [g], p=p), p - LR * size * np.sign(g), rtol=1e-9)
    # Over more steps too: a multiple of the gradient has a multiple of the squares.
    weight = 2**-0.8
    root = np.sqrt((1 - weight) + weight * 4)
    at = p - LR * size * np.sign(g)
    step = min(2 / root, 1.0) * np.sign(g)
    expected = at - LR * math.sqrt(np.mean(at**2)) * step
    same(updated("Adafactor", [g, 2 * g], p=p), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("eq", "options", "step"),
    [
        (EQ, {}, 1.0),
        (EQ.but(parameter_scale="never"), {}, 1 / 4.0),
        (EQ.but(parameter_scale="flag"), {"scale_parameter": False}, 1 / 4.0),
        (EQ.but(parameter_scale="flag"), {"scale_parameter": True}, 1.0),
        (EQ, {"lr": 5.0}, 10.0),
        (EQ.but(relative_step="never"), {"lr": 5.0}, 50.0),
        (EQ.but(relative_step="flag"), {"lr": 5.0, "relative_step": False}, 50.0),
        (EQ, {"eps": [1e-30, 8.0]}, 2.0),
        (EQ, {"d": 0.5}, 0.5),
        (EQ.but(update_clip="ignored"), {"d": 0.5}, 1.0),
        (EQ.but(update_clip="norm"), {}, 0.5),
        (EQ, {"eps": [0.5, 1e-3]}, None),
    ],
)
def test_the_rate_of_adafactor(eq, options, step):
    """Of a parameter of root mean square 4 and a gradient of 0.1, where a step of LR * 4 is 1."""
    p, g = np.full((2, 2), 4.0), np.full((2, 2), 0.1)
    eps1 = options.get("eps", [1e-30])[0]
    if step is None:
        step = 0.1 / eps1  # the clamp on the squares' factors
    found = updated("Adafactor", [g], eq, p=p, **options)
    same(found, p - 0.4 * step)


def test_the_bound_on_adafactors_rate_falls_with_the_root_of_the_steps():
    g = np.full((2, 2), 0.1)
    eq = EQ.but(parameter_scale="never")
    found = updated("Adafactor", [g] * 3, eq, p=0 * g, lr=5.0)
    same(found, -np.full((2, 2), 1 + 1 / math.sqrt(2) + 1 / math.sqrt(3)))


def test_adafactor_of_a_vector_is_not_factored():
    p, g = P[0], G[0]
    same(updated("Adafactor", [g], p=p), p - LR * math.sqrt(np.mean(p**2)) * np.sign(g))
    rows, whole = (updated("Adafactor", [G], EQ.but(factoring=f)) for f in ("last-two", "none"))
    assert not np.allclose(rows, whole)
    same(whole, P - LR * math.sqrt(np.mean(P**2)) * np.sign(G))


def test_the_epsilon_of_the_paper_is_added_to_the_squares():
    p, g, eps = P[0], G[0], 0.01
    update = g / np.sqrt(g**2 + eps)
    update = update / max(1, math.sqrt(np.mean(update**2)))
    expected = p - LR * math.sqrt(np.mean(p**2)) * update
    same(updated("Adafactor", [g], EQ.but(factored_epsilon="add"), p=p, eps=[eps, 1e-3]), expected)


# Muon


@pytest.mark.parametrize("shape", [(4, 4), (3, 7), (7, 3)])
def test_muons_step_is_nearly_orthogonal(shape):
    random = np.random.default_rng(1)
    p, g = random.normal(size=shape), random.normal(size=shape)
    ratio = math.sqrt(max(1, shape[0] / shape[1]))
    step = (p - updated("Muon", [g], p=p)) / (LR * ratio)
    assert np.all(np.abs(np.linalg.svd(step)[1] - 1) < 0.35)
    # With the coefficients of the cubic iteration it converges to the polar factor itself.
    options = {"ns_coefficients": [1.5, -0.5, 0.0], "ns_steps": 60}
    step = (p - updated("Muon", [g], p=p, **options)) / (LR * ratio)
    u, _, v = np.linalg.svd(g, full_matrices=False)
    same(step, u @ v, rtol=1e-9)


@pytest.mark.parametrize(
    ("fan", "transposed", "kind", "ratio"),
    [
        ("rows/columns", False, None, math.sqrt(3)),
        ("rows/columns", True, "original", math.sqrt(3)),
        ("columns/rows", False, "original", 1),
        ("stored", False, "original", math.sqrt(3)),
        ("stored", True, "original", 1),
        ("rows/columns", False, "match_rms_adamw", 0.2 * math.sqrt(6)),
        ("stored", True, "match_rms_adamw", 0.2 * math.sqrt(6)),
        ("rows/columns", False, "spectral_unclamped", math.sqrt(3)),
        ("stored", True, "spectral_unclamped", math.sqrt(1 / 3)),
        ("stored", True, "none", 1),
    ],
)
def test_the_axes_of_muons_rate(fan, transposed, kind, ratio):
    """Of a matrix of 6 x 2: burn stores that of a linear layer as 2 x 6."""
    g = np.random.default_rng(2).normal(size=(6, 2))
    options = {"ns_coefficients": [1.5, -0.5, 0.0], "ns_steps": 60, "adjust_lr_fn": kind}
    step = -updated("Muon", [g], EQ.but(fan=fan), 0 * g, transposed=transposed, **options)
    same(np.linalg.svd(step)[1], [LR * ratio] * 2, rtol=1e-9)


@pytest.mark.parametrize("nesterov", [False, True])
def test_what_muon_makes_orthogonal(nesterov):
    """A sum of gradients, or an average, which differ in more than a factor from step 2 on."""
    rest = {"ns_coefficients": [1.0, 0.0, 0.0], "nesterov": nesterov, "momentum": 0.5}
    for kind, weights in (("sum", (0.5, 1, 1)), ("average", (0.25, 0.5, 0.5))):
        buffer = weights[0] * G + weights[1] * H
        last = buffer
        if nesterov:
            last = H + 0.5 * buffer if kind == "sum" else 0.5 * H + 0.5 * buffer
        state = {}
        eq = EQ.but(momentum=kind)
        first = updated("Muon", [G], eq, state=state, **rest)
        second = FUNCTIONS["Muon"](
            first, H, state, LR, Scalars({**OPTIONS["Muon"], **rest}, eq), eq
        )
        same(state["momentum_buffer"], buffer)
        same(first - second, LR * last / np.linalg.norm(last))


def test_muon_takes_matrices_alone():
    with pytest.raises(ValueError, match=r"not a parameter of shape \(3,\)"):
        updated("Muon", [G[0]], p=P[0])


@pytest.fixture(scope="module")
def torch():
    import torch

    torch.set_num_threads(1)
    return torch


@pytest.mark.torch
@given(values=st.lists(st.floats(width=32), min_size=1, max_size=9))
def test_bfloat16_is_pytorchs(torch, values):
    x = np.array(values, dtype=np.float32)
    expected = torch.from_numpy(x.copy()).to(torch.bfloat16).to(torch.float32).numpy()
    np.testing.assert_array_equal(_bfloat16(x), expected)


@pytest.mark.torch
@given(old=st.floats(), new=st.floats(), share=st.floats(0, 1))
def test_lerp_is_pytorchs(torch, old, new, share):
    pair = np.array([old]), np.array([new])
    expected = torch.lerp(*map(torch.from_numpy, pair), share).item()
    with np.errstate(all="ignore"):
        found = average(*pair, 1.0 - share, share, EQ)[0]
    assert math.isnan(found) == math.isnan(expected)
    if not math.isnan(found):
        # What cancels leaves the roundings of what was there.
        assert found == pytest.approx(expected, rel=0, abs=1e-15 * max(abs(old), abs(new)))


# Lion, LAMB, Adan


def test_lion_moves_by_the_sign_of_what_it_interpolates():
    same(updated("Lion", [G]), P - LR * np.sign(G))
    # Algorithm 2: c = b1 m + (1 - b1) g with m = (1 - b2) g_1.
    c = 0.9 * 0.01 * G + 0.1 * H
    expected = (P - LR * np.sign(G)) * (1 - LR * 0.5) - LR * np.sign(c)
    first = updated("Lion", [G])
    state = {"exp_avg": 0.01 * G}
    eq = EQ.but(decay="decoupled")
    same(updated("Lion", [H], eq, first, state=state, weight_decay=0.5), expected)
    same(state["exp_avg"], 0.99 * 0.01 * G + 0.01 * H)


def test_lion_that_updates_first_or_has_no_sign():
    m, options = -0.5 * H, {"betas": [0.9, 0.5]}
    # The new momentum is 0.25 H, the old one -0.5 H: the interpolations differ in sign.
    later = updated("Lion", [H], EQ, state={"exp_avg": m}, **options)
    sooner = EQ.but(lion_order="update-then-interpolate")
    same(later, P + LR * np.sign(H))
    same(updated("Lion", [H], sooner, state={"exp_avg": m}, **options), P - LR * np.sign(H))
    same(updated("Lion", [G], EQ.but(lion_sign="none")), P - LR * 0.1 * G)


def test_caution_leaves_out_what_goes_against_the_gradient():
    state = {"exp_avg": -10 * G * (np.arange(6).reshape(2, 3) < 2)}  # two elements go against it
    found = updated("Lion", [G], state=state, caution=True)
    step = np.where(np.arange(6).reshape(2, 3) < 2, 0.0, np.sign(G) * 6 / 4)
    same(found, P - LR * step)


@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_lambs_step_is_as_long_as_its_rate_says(weight_decay):
    """With the trust ratio the step's norm is lr times the parameter's, whatever the gradient."""
    for gradients in ([G], [1e6 * G], [H]):
        moved = P - updated("Lamb", gradients, weight_decay=weight_decay)
        assert np.linalg.norm(moved) == pytest.approx(LR * np.linalg.norm(P))
        direction = np.sign(gradients[0]) * np.abs(gradients[0]) / (np.abs(gradients[0]) + 1e-3)
        direction = direction + weight_decay * P
        same(moved / np.linalg.norm(moved), direction / np.linalg.norm(direction))


@pytest.mark.parametrize(
    ("change", "options", "ratio"),
    [
        ({}, {"always_adapt": False}, 1.0),
        ({"trust_ratio": "decay-or-flag"}, {"always_adapt": False}, 6.0),
        ({"trust_ratio": "decay-or-flag"}, {"always_adapt": False, "weight_decay": 0.0}, 1.0),
        ({"trust_ratio": "ignored"}, {}, 1.0),
        ({"trust_ratio": "inverted"}, {}, 1 / 6.0),
        ({}, {}, 6.0),
        ({}, {"trust_clip": True}, 1.0),
    ],
)
def test_when_lamb_scales_by_the_trust_ratio(change, options, ratio):
    """Of p = (3, 4) * 1.2 sqrt(2), whose norm is 6 times that of a step of (1, 1)."""
    p, g = np.array([3.0, 4.0]) * 1.2 * math.sqrt(2), np.array([2.0, 2.0])
    options = {"eps": 0.0, "weight_decay": 1e-12, **options}
    found = updated("Lamb", [g], EQ.but(**change), p=p, **options)
    same(found, p - LR * ratio * np.ones(2), rtol=1e-10)


@pytest.mark.parametrize(("p", "g"), [(0.0, 1.0), (1.0, 0.0)])
def test_lambs_ratio_of_what_has_no_length_is_1(p, g):
    found = updated("Lamb", [np.full(2, g)], p=np.full(2, p))
    same(found, np.full(2, p - LR * g / (abs(g) + 1e-3)))


def test_lamb_with_decay_after_its_ratio_measures_the_update_alone():
    step = np.sign(G)
    eq = EQ.but(lamb_decay="after-ratio")
    found = updated("Lamb", [G], eq, eps=0.0, weight_decay=0.3)
    same(found, P - LR * (step + 0.3 * P) * np.linalg.norm(P) / math.sqrt(6))


@pytest.mark.parametrize("no_prox", [False, True])
def test_the_first_two_steps_of_adan(no_prox):
    b1, b2, b3, eps, decay = 0.98, 0.92, 0.99, 1e-3, 0.5

    def decayed(p, step):
        return p * (1 - LR * decay) - LR * step if no_prox else (p - LR * step) / (1 + LR * decay)

    first = decayed(P, G / (np.abs(G) + eps))
    options = {"weight_decay": decay, "no_prox": no_prox}
    eq = EQ.but(decay="decoupled")
    same(updated("Adan", [G], eq, **options), first)
    # Corrected, (1 - b)(b x_1 + x_2) / (1 - b^2) is (b x_1 + x_2) / (1 + b).
    change = H - G
    moment, slope = (b1 * G + H) / (1 + b1), change / (1 + b2)
    root = np.sqrt((b3 * G**2 + (H + b2 * change) ** 2) / (1 + b3))
    second = decayed(first, (moment + b2 * slope) / (root + eps))
    same(updated("Adan", [G, H], eq, **options), second)


def test_adan_without_the_difference():
    moment, root = (0.98 * G + H) / 1.98, np.sqrt((0.99 * G**2 + H**2) / 1.99)
    first = P - LR * G / (np.abs(G) + 1e-3)
    found = updated("Adan", [G, H], EQ.but(difference="ignored"))
    same(found, first - LR * moment / (root + 1e-3))


# What holds for many

NUMBERS = st.floats(-100, 100).filter(lambda x: x == 0 or abs(x) > 1e-3)
VECTORS = st.lists(NUMBERS, min_size=6, max_size=6).map(lambda x: np.array(x).reshape(2, 3))
NONZERO = st.lists(NUMBERS.filter(bool), min_size=6, max_size=6).map(
    lambda x: np.array(x).reshape(2, 3)
)


@pytest.mark.parametrize("optimizer", FUNCTIONS)
@given(p=VECTORS, gradients=st.lists(NONZERO, min_size=1, max_size=3), decay=st.booleans())
@settings(max_examples=25)
def test_a_rate_of_0_leaves_parameters_where_they_are(optimizer, p, gradients, decay):
    for side in ("pytorch", "burn"):
        eq = describe(side, optimizer)
        found = updated(optimizer, gradients, eq, p, lr=0.0, weight_decay=0.5 * decay)
        np.testing.assert_array_equal(found, p)


@pytest.mark.parametrize("optimizer", FUNCTIONS)
@given(p=NONZERO, gradients=st.lists(NONZERO, min_size=1, max_size=3))
@settings(max_examples=25)
def test_what_comes_in_stays_as_it_is(optimizer, p, gradients):
    copies = [p.copy(), *(g.copy() for g in gradients)]
    updated(optimizer, gradients, p=p, weight_decay=0.1)
    for before, after in zip(copies, [p, *gradients], strict=True):
        np.testing.assert_array_equal(before, after)


@given(gradients=st.lists(NONZERO, min_size=1, max_size=4), power=st.integers(-20, 20))
@pytest.mark.parametrize("optimizer", ["Adam", "RMSprop", "Adagrad", "Lamb", "Adan"])
def test_without_epsilon_the_gradients_scale_does_not_matter(optimizer, gradients, power):
    # Powers of two do not round, so that the bits are the same.
    scaled = [g * 2.0**power for g in gradients]
    ends = [updated(optimizer, gs, eps=0.0) for gs in (gradients, scaled)]
    np.testing.assert_array_equal(*ends)


@given(p=VECTORS, g=VECTORS, decay=st.floats(0, 1), momentum=st.sampled_from([0, 0.9]))
def test_coupled_decay_is_decay_in_the_gradient(p, g, decay, momentum):
    inside = updated("SGD", [g], p=p, weight_decay=decay, momentum=momentum)
    outside = updated("SGD", [g + p * decay], p=p, momentum=momentum)
    np.testing.assert_array_equal(inside, outside)


@given(p=VECTORS, gradients=st.lists(NONZERO, min_size=3, max_size=3))
def test_both_interpolations_are_the_same_but_for_roundings(p, gradients):
    for optimizer in ("Adam", "Lamb", "Adan"):
        ends = [
            updated(optimizer, gradients, EQ.but(interpolation=kind), p)
            for kind in ("lerp", "weights")
        ]
        np.testing.assert_allclose(*ends, rtol=1e-9, atol=1e-9)


# Clipping

TENSORS = st.lists(
    st.lists(NUMBERS, min_size=1, max_size=5).map(np.array), min_size=1, max_size=4
).map(lambda found: {f"t{i}": x for i, x in enumerate(found)})
SCOPES = st.sampled_from(["global", "per-parameter"])
P_NORMS = st.sampled_from([0.5, 1.0, 2.0, 3.0, math.inf])


@given(tensors=TENSORS, p=P_NORMS)
def test_norms_are_numpys(tensors, p):
    whole = np.concatenate(list(tensors.values()))
    found = clipping.norm(list(tensors.values()), p)
    assert found == pytest.approx(np.linalg.norm(whole, p), rel=1e-12)


@given(tensors=TENSORS, p=P_NORMS, limit=st.floats(0.01, 100), scope=SCOPES)
@pytest.mark.parametrize("denominator", ["1e-6", "tiny", "none"])
def test_clipping_never_exceeds_the_limit_and_keeps_the_direction(
    denominator, tensors, p, limit, scope
):
    how = {"scope": scope, "max_norm": limit, "norm_type": p}
    with np.errstate(all="ignore"):  # 0 / 0 where nothing is added to a norm of 0
        clipped, norms = clipping.clip(tensors, how, EQ.but(clip_denominator=denominator))
    groups = [list(tensors)] if scope == "global" else [[name] for name in tensors]
    assert list(clipped) == list(tensors)
    assert list(norms) == ([""] if scope == "global" else list(tensors))
    for group, before in zip(groups, norms.values(), strict=True):
        ours = np.concatenate([clipped[name] for name in group])
        theirs = np.concatenate([tensors[name] for name in group])
        if before == 0:
            continue
        assert np.linalg.norm(ours, p) <= limit * (1 + 1e-12)
        factor = min(1.0, limit / before)
        np.testing.assert_allclose(ours, theirs * factor, rtol=2e-6 / min(before, 1) + 1e-12)
        if before < limit * (1 - 1e-5) - 1e-5:
            np.testing.assert_array_equal(ours, theirs)


@given(tensors=TENSORS, limit=st.floats(0.01, 10))
def test_clipping_by_value_is_elementwise(tensors, limit):
    clipped, norms = clipping.clip(tensors, {"scope": "value", "clip_value": limit}, EQ)
    assert norms == {}
    for name, value in tensors.items():
        np.testing.assert_array_equal(clipped[name], np.sign(value) * np.fmin(abs(value), limit))


def test_the_limit_of_the_optimizers_own_clipping_is_kept_in_float32():
    how, eq = {"scope": "value", "clip_value": 0.1}, EQ.but(own_clip_limit="float32")
    assert clipping.own_clip({"a": np.array([1.0])}, how, EQ)["a"][0] == 0.1
    assert clipping.own_clip({"a": np.array([1.0])}, how, eq)["a"][0] == float(np.float32(0.1))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_norm_that_is_not_finite(bad):
    tensors, how = {"a": np.array([1.0, bad]), "b": np.array([2.0])}, {"max_norm": 1.0}
    how["scope"] = "global"
    with np.errstate(all="ignore"):
        clipped, norms = clipping.clip(tensors, how, EQ)
        with pytest.raises(ValueError, match=r"the total norm is (nan|inf), which is not to be"):
            clipping.clip(tensors, {**how, "error_if_nonfinite": True}, EQ)
    assert not math.isfinite(norms[""])
    # A NaN spoils all; an infinity makes the others 0, and itself inf * 0.
    expected = [math.nan, math.nan, math.nan] if math.isnan(bad) else [0.0, math.nan, 0.0]
    np.testing.assert_array_equal([*clipped["a"], *clipped["b"]], expected)


def test_a_norm_beyond_float32_is_infinite_unless_summed_in_float64():
    tensors = {"a": np.full(3, 1e30, dtype=np.float32)}
    how = {"scope": "global", "max_norm": 1.0}
    with np.errstate(all="ignore"):
        narrow, wide = (
            clipping.clip(tensors, how, EQ.but(norm_precision=kind))
            for kind in ("dtype", "float64")
        )
    assert narrow[1][""] == math.inf
    assert not narrow[0]["a"].any()
    assert wide[1][""] == pytest.approx(math.sqrt(3) * 1e30, rel=1e-6)
    assert np.linalg.norm(wide[0]["a"].astype(float)) == pytest.approx(1, rel=1e-6)
    assert wide[0]["a"].dtype == np.float32


# Emulated float32


@given(st.integers(-4, 4), st.integers(0, 25))
def test_powers_of_two_are_exact(k, n):
    assert powi(np.float32(2.0**k), n) == np.float32(2.0 ** (k * n))


@given(st.floats(0.5, 1, width=32), st.integers(0, 200))
def test_powi_is_near_the_exact_power(base, n):
    exact = Fraction(base) ** n
    found = Fraction(float(powi(np.float32(base), n)))
    # An error of a base is squared with it, so that there are at most as many as there are factors.
    assert abs(found - exact) <= exact * (n + 1) * Fraction(2) ** -24 + Fraction(2) ** -148


@given(st.floats(0.5, 1, width=32), st.integers(1, 60))
def test_powi_is_a_product_of_squares_each_rounded(base, n):
    factors, product = [np.float32(base)], np.float32(1)
    while len(factors) < n.bit_length():
        factors.append(np.multiply(factors[-1], factors[-1], dtype=np.float32))
    for factor, digit in zip(factors, reversed(f"{n:b}"), strict=True):
        if digit == "1":
            product = np.multiply(product, factor, dtype=np.float32)
    assert powi(np.float32(base), n) == product


def test_hyperparameters_and_what_is_made_of_them_in_both_precisions():
    options = {"betas": [0.9, 0.999], "eps": 1e-8, "amsgrad": True, "ns_coefficients": [3.4445]}
    wide = Scalars(options, EQ)
    narrow = Scalars(options, EQ.but(float32=frozenset({*options, "betas[0]", "betas[1]"})))
    assert wide["betas[1]"] == 0.999
    assert wide.rest("betas[1]") == 1 - 0.999
    assert wide.correction("betas[1]", 3) == 1 - 0.999**3
    assert narrow["betas[1]"] == float(np.float32(0.999))
    assert narrow["ns_coefficients"] == [float(np.float32(3.4445))]
    assert narrow["amsgrad"] is True
    assert narrow.rest("betas[1]") == 0.0009999871253967285  # nor f32(0.001)
    b = np.float32(0.9)
    assert narrow.correction("betas[0]", 3) == float(np.float32(1) - b * (b * b))
    assert narrow.root(0.1) == float(np.sqrt(np.float32(0.1)))
    assert wide.root(0.1) == math.sqrt(0.1)
    assert wide.get("caution", "none") == "none"


# NaN and infinity


@pytest.mark.parametrize(
    ("old", "new", "share", "lerp", "weights"),
    [
        (math.inf, 1.0, 0.1, math.nan, math.inf),
        (math.inf, 1.0, 0.9, math.inf, math.inf),
        (1.0, math.inf, 0.1, math.inf, math.inf),
        (1.0, math.inf, 0.9, math.nan, math.inf),
        (math.inf, -math.inf, 0.1, math.nan, math.nan),
        (math.nan, 1.0, 0.1, math.nan, math.nan),
    ],
)
def test_an_average_of_what_is_not_finite(old, new, share, lerp, weights):
    pair = np.array([old]), np.array([new])
    with np.errstate(all="ignore"):
        found = [
            average(*pair, 1 - share, share, EQ.but(interpolation=kind))[0]
            for kind in ("lerp", "weights")
        ]
    np.testing.assert_array_equal(found, [lerp, weights])


@pytest.mark.parametrize(
    ("choice", "value", "ends"),
    [("amsgrad_nan", "propagates", "lost"), ("amsgrad_nan", "dropped", "kept")],
)
def test_amsgrads_maximum_of_a_nan(choice, value, ends):
    state = {}
    bad = np.where(np.arange(6).reshape(2, 3) == 4, np.nan, G)
    updated("Adam", [G, bad], EQ.but(**{choice: value}), state=state, amsgrad=True)
    assert np.isnan(state["exp_avg"][1, 1])
    assert np.isnan(state["max_exp_avg_sq"][1, 1]) == (ends == "lost")


@pytest.mark.parametrize(("kind", "lost"), [("dropped", 1), ("propagates", 6)])
def test_adafactors_bounds_of_a_nan(kind, lost):
    """Of a vector, a NaN in the root mean square is dropped, or spoils all elements."""
    bad = np.array([0.1, math.nan, 0.3, 1.0, 2.0, 0.5])
    found = updated("Adafactor", [bad], EQ.but(nan_in_bound=kind), p=P.reshape(-1))
    assert np.isnan(found).sum() == lost


@pytest.mark.parametrize(("kind", "lost"), [("zero", 0), ("nan", 1)])
def test_the_sign_of_a_nan(kind, lost):
    bad = np.where(np.arange(6).reshape(2, 3) == 4, np.nan, G)
    found = updated("Lion", [bad, G], EQ.but(sign_of_nan=kind))
    assert np.isnan(found).sum() == lost
    if not lost:
        assert found[1, 1] == P[1, 1]


@pytest.mark.parametrize(("kind", "moved"), [("wide", True), ("dtype", False)])
def test_rmsprops_mean_whose_square_leaves_float32(kind, moved):
    g, p = np.array([1e25], dtype=np.float32), np.array([1.0], dtype=np.float32)
    eq = EQ.but(center_product=kind)
    with np.errstate(all="ignore"):
        found = updated("RMSprop", [g], eq, p=p, centered=True)
    # inf - finite is inf, which stands still; inf - inf is NaN.
    assert (found[0] == 1.0) == moved
    assert np.isnan(found[0]) != moved


# Equations


def test_differences_are_those_that_were_made():
    assert EQ.differences(Equations()) == {}
    other = EQ.but(decay="none", folded=True)
    assert EQ.differences(other) == {"decay": ("coupled", "none"), "folded": (False, True)}
    assert other.differences(EQ) == {"decay": ("none", "coupled"), "folded": (True, False)}
    with pytest.raises(TypeError, match="unexpected keyword argument 'decai'"):
        EQ.but(decai="none")


def test_every_value_of_every_description_is_one_that_its_choice_has():
    for by_optimizer in DESCRIPTIONS.values():
        assert by_optimizer.keys() == OPTIONS.keys()
        for eq in by_optimizer.values():
            for item in fields(Equations):
                values = mutants.alternatives(Equations, item.name)
                assert not values or getattr(eq, item.name) in values
            assert not isinstance(eq.float32, str)


# Runs


def run(optimizer="SGD", name="gradients", eq=EQ, lr=0.05, **changes):
    options = {**OPTIONS[optimizer], **changes.pop("options", {})}
    group = {key: changes.pop(key) for key in ("clip_of", "optimizer") if key in changes}
    first = Group(optimizer, options, eq, lr=lr, clip=group.get("clip_of"))
    return Run("x", name, (first, *changes.pop("others", ())), **changes)


def bits(found):
    assert found.error is None
    return [(e.key, found.of(e).tobytes()) for e in found.entries if e.quantity == "param"]


def end(found):
    """The parameters at the end, flat."""
    last = max(entry.step for entry in found.entries if entry.quantity == "param")
    return np.concatenate([found.of(entry) for entry in found.select(last, "param")])


MATRICES = {"frozen": ("fc1.bias", "fc2.bias")}


@pytest.mark.parametrize("optimizer", OPTIONS)
def test_a_frozen_parameter_never_moves(optimizer):
    frozen = ("fc1.weight", *MATRICES["frozen"])
    found = train(run(optimizer, "a1", frozen=frozen))
    assert {entry.tensor for entry in found.entries if entry.quantity == "grad"} == {"fc2.weight"}
    for name, start in problem("a1").parameters.items():
        for step in range(1, 11):
            now = found.find(step, "param", name)
            assert np.array_equal(now, start.reshape(-1)) == (name in frozen)


def test_a_frozen_parameter_that_moves_all_the_same():
    found = train(run("SGD", "a1", EQ.but(frozen="updated"), frozen=("fc1.weight",)))
    assert bits(found) == bits(train(run("SGD", "a1")))


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("name", ["a1", "conv", "embedding", "wide"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "LBFGS"])
def test_accumulation_by_mean_is_the_whole_batch(optimizer, name, parts):
    whole, cut = (train(run(optimizer, name, accumulate=n)) for n in (1, parts))
    # L-BFGS branches on what it sees rounded.
    rtol = 1e-6 if optimizer == "LBFGS" else 1e-11
    np.testing.assert_allclose(end(cut), end(whole), rtol=rtol, atol=1e-13)
    np.testing.assert_allclose(
        cut.find(1, "logits"), whole.find(1, "logits"), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("parts", [2, 4])
def test_other_accumulations(parts):
    whole = train(run("SGD", "a1")).find(1, "grad", "fc2.bias")
    total, last = (
        train(run("SGD", "a1", EQ.but(accumulation=kind), accumulate=parts))
        for kind in ("sum", "last")
    )
    same(total.find(1, "grad", "fc2.bias"), parts * whole)
    assert not np.allclose(last.find(1, "grad", "fc2.bias"), whole)
    assert last.find(1, "loss") == pytest.approx(total.find(1, "loss"))


@pytest.mark.parametrize("optimizer", OPTIONS)
def test_a_resumed_run_is_the_uninterrupted_one(optimizer):
    whole = run(optimizer, "a1", steps=6, frozen=MATRICES["frozen"])
    for step in (1, 3, 5):
        again = replace(whole, resume_step=step, library_dtype="float64")
        assert bits(train(again)) == bits(train(whole))
    reset = replace(again.groups[0], equations=EQ.but(resumed_state="reset"))
    assert bits(train(replace(again, groups=(reset,)))) != bits(train(whole))


def test_a_state_that_comes_back_in_another_dtype_ends_the_run():
    eq = EQ.but(resumed_dtype="default")
    narrow, wide = (
        train(run("Adam", "gradients", eq, resume_step=3, library_dtype=dtype))
        for dtype in ("float32", "float64")
    )
    assert narrow.error is None
    assert wide.error == "ValueError: the loaded state is float32, and the gradients are float64"
    assert wide.by_key().keys() < narrow.by_key().keys()
    stateless = run("SGD", eq=eq, resume_step=3, library_dtype="float64", options={"momentum": 0})
    assert train(stateless).error is None


@pytest.mark.parametrize("optimizer", OPTIONS)
def test_a_nudge_of_0_changes_nothing_and_another_little(optimizer):
    plain = run(optimizer, "a1", frozen=MATRICES["frozen"])
    base = train(plain)
    assert bits(train(replace(plain, nudge=0.0, phase=7))) == bits(base)
    for phase in (0, 7):
        nudged = train(replace(plain, nudge=1e-15, phase=phase))
        assert bits(nudged) != bits(base)
        np.testing.assert_allclose(end(nudged), end(base), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("states", [True, False])
def test_a_run_without_states_is_the_same_but_for_them(states):
    found, whole = train(run("Adam", states=states)), train(run("Adam"))
    assert bits(found) == bits(whole)
    assert bool(found.select(1, "state.exp_avg")) == states


@pytest.mark.parametrize(
    ("rate", "expected"), [("on-time", [1, 2, 3]), ("late", [1, 1, 2]), ("early", [2, 3, 3])]
)
def test_which_update_a_scheduled_rate_is_for(rate, expected):
    found = train(run(eq=EQ.but(rate=rate), rates=(1.0, 2.0, 3.0), steps=3))
    assert [found.find(step, "lr")[0] for step in (1, 2, 3)] == expected
    moved = found.find(0, "param", "fc.bias") - found.find(1, "param", "fc.bias")
    same(moved, expected[0] * problem("gradients").gradient(1)["fc.bias"])


def test_the_last_group_that_names_a_parameter_has_it():
    others = [
        Group("SGD", {**OPTIONS["SGD"], "momentum": 0}, EQ, lr=lr, parameters=("fc.bias",))
        for lr in (0.5, 0.25)
    ]
    found = train(run(others=others, steps=1, lr=1.0))
    for name, rate in (("fc.bias", 0.25), ("fc.weight", 1.0)):
        moved = found.find(0, "param", name) - found.find(1, "param", name)
        same(moved, rate * problem("gradients").gradient(1)[name].reshape(-1))


def test_maximize_is_a_step_the_other_way():
    down, up = (train(run(steps=1, options={"maximize": up})) for up in (False, True))
    same(end(down) + end(up), 2 * np.concatenate([down.of(e) for e in down.select(0, "param")]))


def test_a_parameter_without_a_gradient_is_left_alone_or_gets_zeros():
    skipped, zeros = (
        train(run("SGD", "absent", EQ.but(absent_gradient=kind))) for kind in ("skipped", "zero")
    )
    lacking = next(
        step for step in range(2, 11) if "fc.bias" not in problem("absent").gradient(step)
    )
    before, after = (skipped.find(step, "param", "fc.bias") for step in (lacking - 1, lacking))
    np.testing.assert_array_equal(before, after)
    assert not np.array_equal(zeros.find(lacking, "param", "fc.bias"), after)


def test_a_tied_tensor_stays_one_or_comes_apart():
    one, apart = (train(run("SGD", "tied", EQ.but(tied=kind))) for kind in ("one", "first-only"))
    for step in range(11):
        np.testing.assert_array_equal(
            one.find(step, "param", "fc1.weight"), one.find(step, "param", "fc2.weight")
        )
    np.testing.assert_array_equal(
        apart.find(10, "param", "fc2.weight"), problem("tied").parameters["fc1.weight"].reshape(-1)
    )
    same(apart.find(1, "param", "fc1.weight"), one.find(1, "param", "fc1.weight"))
    assert not np.allclose(apart.find(2, "param", "fc1.weight"), one.find(2, "param", "fc1.weight"))


@pytest.mark.parametrize(("kind", "heard"), [("heard", True), ("ignored", False)])
def test_clipping_that_comes_late(kind, heard):
    clip = {"scope": "value", "clip_value": 0.1}
    bare = train(run())
    late = train(run(eq=EQ.but(late_clipping=kind), clip_of={**clip, "first_step": 2}))
    assert bits(late)[:4] == bits(bare)[:4]  # steps 0 and 1
    assert (bits(late) == bits(bare)) != heard


# Every choice matters somewhere

EACH = {"scope": "per-parameter", "max_norm": 0.1}
WHOLE = {"scope": "global", "max_norm": 0.1}
RUNS = {
    "sgd": run(options={"dampening": 0.3, "nesterov": True, "weight_decay": 0.1}),
    "sgd-absent": run(name="absent"),
    "sgd-tied": run(name="tied"),
    "sgd-square": run(name="square", clip_of=EACH),
    "sgd-own-late": run(clip_of={**EACH, "first_step": 2}),
    "sgd-clipped": run(clip=WHOLE, frozen=("fc.bias",)),
    "sgd-clipped-each": run(clip=EACH),
    "sgd-overflow": run(name="scale-1e30", dtype="float32", clip=WHOLE),
    "sgd-tiny": run(name="scale-1e-30", clip={**WHOLE, "max_norm": 1e-30}, clip_of=EACH),
    "sgd-tiny-own": run(name="scale-1e-30", clip_of={**EACH, "max_norm": 1e-30}),
    "sgd-zero-own": run(name="zero", clip_of=EACH),
    "sgd-scheduled": run(rates=(0.1, 0.05, 0.01)),
    "sgd-accumulated": run(name="a1", accumulate=2),
    "sgd-resumed": run(resume_step=5, library_dtype="float64"),
    "adam": run("Adam", options={"betas": [0.9, 0.9], "amsgrad": True, "weight_decay": 0.1}),
    "adam-nan": run("Adam", "nan", options={"amsgrad": True}),
    "adam-inf": run("Adam", "inf"),
    "adam-absent": run("Adam", "absent"),
    "adamw": run(
        "AdamW",
        eq=EQ.but(decay="decoupled"),
        options={"weight_decay": 0.3, "cautious_weight_decay": True},
    ),
    "rmsprop": run("RMSprop", options={"centered": True, "momentum": 0.5}, rates=(0.1, 0.05, 0.01)),
    "rmsprop-overflow": run("RMSprop", "scale-1e30", options={"centered": True}, dtype="float32"),
    "adagrad": run("Adagrad", options={"lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    "adafactor": run(
        "Adafactor",
        lr=2.0,
        options={"eps": [1e-2, 1e-3], "relative_step": False, "scale_parameter": False},
    ),
    "adafactor-nan": run("Adafactor", "nan"),
    "muon": run("Muon", "tall", frozen=MATRICES["frozen"]),
    "lion": run("Lion", options={"betas": [0.5, 0.8]}),
    "lion-nan": run("Lion", "nan"),
    "lamb": run("Lamb", options={"weight_decay": 0.3}),
    "lamb-flag": run("Lamb", options={"always_adapt": False, "weight_decay": 0.3}),
    "adan": run("Adan", eq=EQ.but(decay="decoupled"), options={"weight_decay": 0.3}),
    "adan-no-prox": run(
        "Adan", eq=EQ.but(decay="decoupled"), options={"weight_decay": 0.3, "no_prox": True}
    ),
    "lbfgs": run("LBFGS", "a1", frozen=("fc1.weight",)),
}


@pytest.fixture(scope="module")
def read():
    return {name: choices_read(each) for name, each in RUNS.items()}


def test_every_choice_is_read(read):
    assert set().union(*read.values()) == {item.name for item in fields(Equations)}


@pytest.mark.parametrize(
    ("choice", "value"),
    [
        (item.name, value)
        for item in fields(Equations)
        for value in mutants.alternatives(Equations, item.name)
    ],
)
def test_every_value_of_every_choice_ends_some_run_elsewhere(read, choice, value):
    tried = [each for name, each in RUNS.items() if choice in read[name]]
    tried = [each for each in tried if getattr(each.equations, choice) != value]

    def ends(each, **changes):
        groups = tuple(replace(g, equations=g.equations.but(**changes)) for g in each.groups)
        found = train(replace(each, groups=groups))
        return found.error, [(e.key, found.of(e).tobytes()) for e in found.entries]

    assert not tried or any(ends(each) != ends(each, **{choice: value}) for each in tried)
