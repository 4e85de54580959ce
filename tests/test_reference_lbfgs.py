import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import get_args, get_type_hints

import numpy as np
import pytest

from pitb import trace
from pitb.reference import lbfgs
from pitb.reference.lbfgs import BURN, PYTORCH

STEPS = 10
OPTIONS = [
    {
        "lr": lr,
        "max_iter": max_iter,
        "max_eval": max_eval,
        "tolerance_grad": tolerance_grad,
        "tolerance_change": tolerance_change,
        "history_size": history_size,
    }
    for lr, (max_iter, max_eval), (tolerance_grad, tolerance_change), history_size in product(
        (0.1, 1.0),
        ((1, None), (4, None), (20, None), (20, 1), (20, 5)),
        ((1e-7, 1e-9), (1e-2, 1e-2), (0.0, 0.0)),
        (1, 2, 5),
    )
]
LINE_SEARCHES = (None, "strong_wolfe")


@dataclass
class Problem:
    start: np.ndarray
    evaluate: Callable
    loss: Callable
    """Of a float64 tensor of PyTorch's."""
    model: dict | None = None
    """As optdef takes it."""


def exact(values):
    """Nearest numbers of float32, which are all that a batch of runs may hold."""
    return np.float32(values).astype(np.float64)


def parameter(start):
    return [{"name": "x", "shape": [len(start)], "values": start.tolist(), "layout": "plain"}]


def quadratic():
    random = np.random.default_rng(0)
    q, _ = np.linalg.qr(random.normal(size=(6, 6)))
    a = exact(q @ np.diag(np.geomspace(0.04, 4, 6)) @ q.T)
    a = (a + a.T) / 2
    b, start = exact(random.normal(size=6)), exact(random.normal(size=6))

    def loss(x):
        import torch

        return 0.5 * x @ (torch.from_numpy(a) @ x) - torch.from_numpy(b) @ x

    inputs = {
        "A": {"shape": [6, 6], "dtype": "float32", "values": a.ravel().tolist()},
        "b": {"shape": [6], "dtype": "float32", "values": b.tolist()},
    }
    model = {"model": "quadratic", "parameters": parameter(start), "inputs": inputs}
    return Problem(start, lambda x: (0.5 * x @ (a @ x) - b @ x, a @ x - b), loss, model)


def rosenbrock(*start):
    start = exact(start)

    def evaluate(x):
        rise = x[1:] - x[:-1] ** 2
        gradient = np.zeros_like(x)
        gradient[1:] += 200 * rise
        gradient[:-1] -= 400 * x[:-1] * rise + 2 * (1 - x[:-1])
        return np.sum(100 * rise**2 + (1 - x[:-1]) ** 2), gradient

    def loss(x):
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    model = {"model": "rosenbrock", "parameters": parameter(start)}
    return Problem(start, evaluate, loss, model)


def mlp():
    """Three inputs, five units of tanh, three classes, seven rows."""
    random = np.random.default_rng(1)
    rows, classes = random.normal(size=(7, 3)), random.integers(0, 3, size=7)

    def parts(x):
        return x[:15].reshape(5, 3), x[15:20], x[20:35].reshape(3, 5), x[35:]

    def evaluate(x):
        w1, b1, w2, b2 = parts(x)
        hidden = np.tanh(rows @ w1.T + b1)
        logits = hidden @ w2.T + b2
        logits -= logits.max(1, keepdims=True)
        sums = np.exp(logits).sum(1, keepdims=True)
        which = np.arange(7), classes
        loss = np.mean(np.log(sums[:, 0]) - logits[which])
        back = np.exp(logits) / sums
        back[which] -= 1
        back /= 7
        inner = (back @ w2) * (1 - hidden**2)
        gradients = (inner.T @ rows, inner.sum(0), back.T @ hidden, back.sum(0))
        return loss, np.concatenate([gradient.ravel() for gradient in gradients])

    def loss(x):
        import torch

        w1, b1, w2, b2 = parts(x)
        logits = torch.tanh(torch.from_numpy(rows) @ w1.T + b1) @ w2.T + b2
        return torch.nn.functional.cross_entropy(logits, torch.from_numpy(classes))

    return Problem(random.normal(size=38) / 2, evaluate, loss)


def pieces(ends, below, between, above):
    """In one dimension, a x^2 + b x + c by the side of ``ends`` that x is on; starts at 0."""

    def evaluate(x):
        a, b, c = above if x[0] > ends[1] else between if x[0] > ends[0] else below
        return a * x[0] ** 2 + b * x[0] + c, 2 * a * x + b

    def loss(x):
        a, b, c = above if x[0] > ends[1] else between if x[0] > ends[0] else below
        return (a * x**2 + b * x + c).sum()

    return Problem(np.zeros(1), evaluate, loss)


NAN = (np.nan, np.nan, np.nan)
PIECES = {
    # A step to 6 is too far, and the cubic then leads into the gap.
    "gap": pieces((1.5, 5), (1, -2, 0), NAN, (0, 0.25, -1)),
    # From a steep slope onto a higher plateau, below the line that Armijo's condition draws.
    "plateau": pieces((0.3, 9), (0, -1, 0), (0, 0, -0.05), (0, 0, -0.05)),
}
PROBLEMS = {
    "quadratic": quadratic(),
    "rosenbrock": rosenbrock(-1.2, 1),
    "rosenbrock-0": rosenbrock(0, 0),
    "rosenbrock-2": rosenbrock(2, 2),
    "rosenbrock-4d": rosenbrock(-1, 1.5, 0.5, 2),
    "mlp": mlp(),
}


def ours(problem, choices, options, evaluate=None, steps=STEPS):
    """The parameters and states after each step."""
    x, state, path = problem.start, {}, []
    for _ in range(steps):
        x = lbfgs.step(x, evaluate or problem.evaluate, state, choices=choices, **options)
        path.append((x, dict(state)))
    return path


def difference(a, b):
    """Largest difference relative to the largest element; NaN equals NaN."""
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return np.inf
    return np.max(np.nan_to_num(np.abs(a - b)), initial=0) / max(np.nanmax(np.abs([*a, 1e-300])), 0)


def growth(problem, choices, options):
    """How far apart rounding alone takes the runs, after each step.

    A step of L-BFGS is up to 20 iterations, each of which divides by differences of gradients, so
    it multiplies a rounding error, and near the minimum by much: y is all cancellation there. The
    measure is the reference against itself with each loss and gradient off by one ulp.
    """
    exactly = ours(problem, choices, options)
    worst = np.zeros(STEPS)
    for seed in range(5):
        random = np.random.default_rng(seed)

        def noisy(x, random=random):
            loss, gradient = problem.evaluate(x)
            ulp = 2.0**-52
            signs = random.choice([-ulp, ulp], size=1 + len(x))
            return loss * (1 + signs[0]), gradient * (1 + signs[1:])

        path = ours(problem, choices, options, noisy)
        gaps = [difference(a[0], b[0]) for a, b in zip(exactly, path, strict=True)]
        worst = np.maximum(worst, gaps)
    return np.maximum.accumulate(worst)


def compare(problem, choices, options, path):
    """Hold the reference against ``path``; return how many steps were held to 1e-12 and to less.

    Ten times the growth is allowed where that is more than 1e-12; a step where it is more than 1e-6
    tells nothing and is left out with those after it.
    """
    found = [
        difference(b, a[0]) for a, b in zip(ours(problem, choices, options), path, strict=True)
    ]
    if max(found) <= 1e-12:
        return STEPS, 0
    strict = loose = 0
    for step, (gap, rounding) in enumerate(
        zip(found, growth(problem, choices, options), strict=True)
    ):
        if 10 * rounding > 1e-6:
            break
        assert gap <= max(1e-12, 10 * rounding), (options, step + 1)
        strict, loose = strict + (gap <= 1e-12), loose + (gap > 1e-12)
    return strict, loose


def check(held):
    """Most steps were compared. Those left out are of 20 iterations on Rosenbrock's valley, where
    without line search the first steps jump far off and rounding grows to the size of x."""
    strict, loose = held / (STEPS * len(OPTIONS))
    assert strict > 0.6
    assert strict + loose > 0.85


@pytest.fixture(scope="module")
def by_pytorch():
    import torch

    torch.set_num_threads(1)

    def run(problem, options, steps=STEPS):
        x = torch.nn.Parameter(torch.tensor(problem.start))
        optimizer = torch.optim.LBFGS([x], **options)

        def closure():
            optimizer.zero_grad()
            loss = problem.loss(x)
            loss.backward()
            return loss

        path = []
        for _ in range(steps):
            optimizer.step(closure)
            path.append((x.detach().numpy().copy(), dict(optimizer.state[x])))
        return path

    return run


@pytest.mark.torch
@pytest.mark.parametrize("line_search_fn", LINE_SEARCHES)
@pytest.mark.parametrize("name", PROBLEMS)
def test_pytorch_takes_the_same_steps(by_pytorch, name, line_search_fn):
    problem, held = PROBLEMS[name], np.zeros(2)
    for options in OPTIONS:
        options = {**options, "line_search_fn": line_search_fn}
        path = [x for x, _ in by_pytorch(problem, options)]
        held += compare(problem, PYTORCH, options, path)
    check(held)


def arrays(value):
    return [np.asarray(item) for item in (value if isinstance(value, list) else [value])]


@pytest.mark.torch
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("line_search_fn", LINE_SEARCHES)
@pytest.mark.parametrize("max_iter", [0, 1, 4])
def test_pytorch_keeps_the_same_state(by_pytorch, max_iter, line_search_fn, steps):
    options = {"lr": 1.0, "max_iter": max_iter, "line_search_fn": line_search_fn, "history_size": 3}
    for name in ("quadratic", "rosenbrock", "mlp"):
        theirs = by_pytorch(PROBLEMS[name], options, steps)[-1][1]
        mine = ours(PROBLEMS[name], PYTORCH, options, steps=steps)[-1][1]
        theirs.pop("al", None)  # scratch space
        assert theirs.keys() == mine.keys()
        for key, value in theirs.items():
            if value is None or mine[key] is None:
                assert value is mine[key]
                continue
            for a, b in zip(arrays(value), arrays(mine[key]), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.torch
@pytest.mark.parametrize("name", ["quadratic", "rosenbrock"])
def test_an_infinite_loss_ends_pytorch_in_nan_and_not_burn(by_pytorch, name):
    lr = {"quadratic": 1e160, "rosenbrock": 1e60}[name]
    options = {"lr": lr, "max_eval": 200, "line_search_fn": "strong_wolfe"}
    (theirs, _) = by_pytorch(PROBLEMS[name], options, steps=1)[-1]
    assert np.isnan(theirs).all()
    assert np.isnan(ours(PROBLEMS[name], PYTORCH, options, steps=1)[-1][0]).all()
    choices = replace(PYTORCH, nan_in_min_max="ignored")
    assert np.isfinite(ours(PROBLEMS[name], choices, options, steps=1)[-1][0]).all()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "lr", "change"),
    [("gap", 6.0, {"nan_loss": "rejected"}), ("plateau", 0.1, {"rise_checked_from": 1})],
)
def test_pytorch_searches_pieces_in_the_same_way(by_pytorch, name, lr, change):
    options = {"lr": lr, "max_iter": 3, "max_eval": 9, "line_search_fn": "strong_wolfe"}
    theirs = by_pytorch(PIECES[name], options, steps=1)[-1][0]
    assert difference(theirs, ours(PIECES[name], PYTORCH, options, steps=1)[-1][0]) <= 1e-12
    changed = ours(PIECES[name], replace(PYTORCH, **change), options, steps=1)[-1][0]
    assert difference(theirs, changed) > 1e-3


@pytest.mark.torch
def test_pytorch_fails_without_an_evaluation_left(by_pytorch):
    options = {"lr": 1.0, "max_eval": 0, "line_search_fn": "strong_wolfe"}
    with pytest.raises(UnboundLocalError):
        by_pytorch(PROBLEMS["rosenbrock"], options)
    with pytest.raises(ValueError, match="must be 1 up"):
        ours(PROBLEMS["rosenbrock"], PYTORCH, options)


@pytest.fixture
def by_burn(programs, tmp_path):
    """The traces of the runs {name: (problem, options)}."""

    def run(runs, steps=STEPS):
        specs = []
        for name, (problem, options) in runs.items():
            options = dict(options)
            spec = {"id": f"burn/{name}", "optimizer": "LBFGS", "dtype": "float64"}
            spec |= {"problem": problem, "lr": options.pop("lr"), "steps": steps}
            if options.pop("line_search_fn") is not None:
                options["line_search_fn"] = "StrongWolfe"
            spec["options"] = {key: value for key, value in options.items() if value is not None}
            specs.append(spec)
        problems = {name: problem.model for name, problem in PROBLEMS.items() if problem.model}
        batch = tmp_path / "runs.json"
        batch.write_text(json.dumps({"problems": problems, "runs": specs}))
        command = [programs / "optdef", "--runs", batch, "--traces", tmp_path]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        traces = {name: trace.read(tmp_path / "burn" / f"{name}.parquet") for name in runs}
        for name, found in traces.items():
            assert found.error is None, (found.error, runs[name])
        return traces

    return run


def parameters(found, steps=STEPS):
    by_key = found.by_key()
    return [found.of(by_key[step, "param", "x"]) for step in range(1, steps + 1)]


@pytest.mark.parametrize("line_search_fn", LINE_SEARCHES)
@pytest.mark.parametrize("name", ["quadratic", "rosenbrock", "rosenbrock-4d"])
def test_burn_takes_the_same_steps(by_burn, name, line_search_fn):
    every = [{**options, "line_search_fn": line_search_fn} for options in OPTIONS]
    traces = by_burn({str(i): (name, options) for i, options in enumerate(every)})
    held = np.zeros(2)
    for i, options in enumerate(every):
        held += compare(PROBLEMS[name], BURN, options, parameters(traces[str(i)]))
    check(held)


@pytest.mark.parametrize("line_search_fn", LINE_SEARCHES)
@pytest.mark.parametrize("max_iter", [1, 4])
def test_burn_keeps_the_same_state(by_burn, max_iter, line_search_fn):
    options = {"lr": 1.0, "max_iter": max_iter, "line_search_fn": line_search_fn, "history_size": 3}
    for name in ("quadratic", "rosenbrock"):
        found = by_burn({"x": (name, options)}, steps=2)["x"]
        for step in (1, 2):
            mine = ours(PROBLEMS[name], BURN, options, steps=step)[-1][1]
            length = len(mine["old_dirs"])
            before = ours(PROBLEMS[name], BURN, options, steps=step - 1) if step > 1 else []
            so_far = before[-1][1]["func_evals"] if before else 0
            same = ("d", "t", "prev_flat_grad", "prev_loss", "n_iter")
            expected = {key: mine[key] for key in same}
            expected["evaluations"] = mine["func_evals"] - so_far
            for key in ("old_dirs", "old_stps"):
                expected |= {f"{key}.len": length}
                expected |= {key: mine[key][-1]} if length else {}
            kept = [e for e in found.entries if e.step == step and e.quantity[:6] == "state."]
            assert {entry.quantity[6:] for entry in kept} == expected.keys()
            for entry in kept:
                other = np.ravel(expected[entry.quantity[6:]])
                np.testing.assert_allclose(found.of(entry), other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("problem", "options", "change"),
    [
        ("rosenbrock", {"lr": 1e60, "max_eval": 100}, "nan_in_min_max"),
        ("rosenbrock", {"lr": 1.0, "max_eval": 0}, "negative_max_ls"),
        ("rosenbrock-0", {"lr": 1.0, "tolerance_change": 0.5}, "line_search_tolerance"),
    ],
)
def test_burn_differs_where_its_choices_do(by_burn, problem, options, change):
    options = {**options, "line_search_fn": "strong_wolfe"}
    (theirs,) = parameters(by_burn({"x": (problem, options)}, steps=1)["x"], steps=1)
    assert difference(theirs, ours(PROBLEMS[problem], BURN, options, steps=1)[-1][0]) <= 1e-12
    choices = replace(BURN, **{change: getattr(PYTORCH, change)})
    try:
        (other, _) = ours(PROBLEMS[problem], choices, options, steps=1)[-1]
    except ValueError:
        return  # PyTorch's answer to max_eval=0
    assert difference(theirs, other) > 1e-6


def test_options_out_of_range_are_refused():
    problem = PROBLEMS["quadratic"]
    with pytest.raises(ValueError, match="history_size is 0"):
        ours(problem, PYTORCH, {"lr": 1.0, "history_size": 0})
    with pytest.raises(ValueError, match="nearest: 'strong_wolfe'"):
        ours(problem, PYTORCH, {"lr": 1.0, "line_search_fn": "wolfe"})


def test_the_parameters_that_come_in_stay_as_they_are():
    problem = PROBLEMS["quadratic"]
    before = problem.start.copy()
    for tolerance in (1e-7, 1e9):
        options = {"lr": 1.0, "tolerance_grad": tolerance}
        after = lbfgs.step(problem.start, problem.evaluate, {}, choices=PYTORCH, **options)
        assert after is not problem.start
        assert np.array_equal(problem.start, before)


ROUGH = [{"lr": lr, "max_iter": 8, "max_eval": 9, "history_size": 2} for lr in (0.1, 1.0, 3.0)]
SHOWN_BY = {
    "nan_in_min_max": [("rosenbrock", {"lr": 1e60, "max_eval": 200})],
    "nan_loss": [("gap", {"lr": 6.0, "max_iter": 3, "max_eval": 9})],
    "negative_max_ls": [("rosenbrock", {"lr": 1.0, "max_eval": 0})],
    "line_search_tolerance": [("rosenbrock-0", {"lr": 1.0, "tolerance_change": 0.5})],
    "line_search_evaluations": [("rosenbrock", {"lr": 3.0, "max_iter": 8, "max_eval": 9})],
    "rise_checked_from": [("plateau", {"lr": 0.1, "max_eval": 9})],
}
OTHER_NUMBERS = {"c1": 0.3, "c2": 0.1, "rise_checked_from": 1}


def other_values():
    for field in fields(PYTORCH):
        now = getattr(PYTORCH, field.name)
        kinds = get_args(get_type_hints(lbfgs.Choices)[field.name])
        for value in kinds or (OTHER_NUMBERS[field.name],):
            if value != now:
                yield field.name, value


@pytest.mark.parametrize(("name", "value"), list(other_values()))
def test_every_choice_shows(name, value):
    """Else a wrong one could not be told."""
    problems = {**PROBLEMS, **PIECES}
    default = [(problem, options) for problem in PROBLEMS for options in ROUGH]
    changed = replace(PYTORCH, **{name: value})
    for problem, options in SHOWN_BY.get(name, default):
        for line_search_fn in LINE_SEARCHES:
            options = {**options, "line_search_fn": line_search_fn}
            both = []
            for choices in (PYTORCH, changed):
                try:
                    both.append(ours(problems[problem], choices, options, steps=2))
                except ValueError:
                    both.append(None)
            if (both[0] is None) != (both[1] is None):
                return
            if both[0] is None:
                continue
            (x, state), (y, other) = both[0][-1], both[1][-1]
            counted = name == "last_evaluation" and state["func_evals"] != other["func_evals"]
            kept = name == "prev_loss" and state["prev_loss"] != other["prev_loss"]
            if difference(x, y) > 1e-6 or counted or kept:
                return
    pytest.fail(f"{name}={value!r} changes nothing")
