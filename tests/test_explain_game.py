import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pitb.explain import game

NUMBERS = st.floats(-1e3, 1e3)


@st.composite
def games(draw, least=1, most=5, columns=2):
    """A game of any values: what each coalition is worth, none for the empty one."""
    n = draw(st.integers(least, most))
    coalitions = [
        frozenset(members)
        for size in range(n + 1)
        for members in itertools.combinations(range(n), size)
    ]
    values = {
        members: np.array(draw(st.lists(NUMBERS, min_size=columns, max_size=columns)))
        for members in coalitions
    }
    values[frozenset()] = np.zeros(columns)
    return n, values


def by_orders(n, play):
    """Shapley values by their definition: the mean over all orders."""
    total = np.zeros((n, play(frozenset()).size))
    for order in itertools.permutations(range(n)):
        for place, player in enumerate(order):
            before = frozenset(order[:place])
            total[player] += play(before | {player}) - play(before)
    return total / math.factorial(n)


METHODS = {
    "exact": game.exact,
    "sampled": lambda n, play: game.sampled(n, play, permutations=4, seed=1),
}


@given(games())
@settings(max_examples=40, deadline=None)
def test_exact_values_are_the_mean_over_all_orders(drawn):
    n, values = drawn
    found = game.exact(n, values.__getitem__).values
    np.testing.assert_allclose(found, by_orders(n, values.__getitem__), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@given(drawn=games())
@settings(max_examples=40, deadline=None)
def test_efficiency(method, drawn):
    n, values = drawn
    found = METHODS[method](n, values.__getitem__).values
    np.testing.assert_allclose(found.sum(axis=0), values[frozenset(range(n))], atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@given(drawn=games(), constant=NUMBERS)
@settings(max_examples=40, deadline=None)
def test_a_dummy_gets_what_it_is_worth_alone(method, drawn, constant):
    n, values = drawn

    def play(coalition):
        return values[coalition - {n}] + (constant if n in coalition else 0.0)

    found = METHODS[method](n + 1, play).values
    np.testing.assert_allclose(found[n], constant, atol=1e-8)


@given(games(least=2))
@settings(max_examples=40, deadline=None)
def test_symmetric_players_share_alike(drawn):
    n, values = drawn

    def play(coalition):
        # Of players 0 and 1 only their number counts.
        both = len(coalition & {0, 1})
        rest = coalition - {0, 1}
        return values[rest | frozenset(range(both))] if both != 1 else values[rest | {0}]

    found = game.exact(n, play).values
    np.testing.assert_allclose(found[0], found[1], atol=1e-9)


@given(games(most=4), games(most=4))
@settings(max_examples=20, deadline=None)
def test_values_of_a_sum_are_the_sum_of_values(first, second):
    n = min(first[0], second[0])
    one, two = (game.exact(n, g[1].__getitem__).values for g in (first, second))
    both = game.exact(n, lambda c: first[1][c] + second[1][c]).values
    np.testing.assert_allclose(both, one + two, atol=1e-8)


def quadratic(coalition):
    """Interactions of all pairs, whose Shapley values are known: i (1 + sum of the others / 2)."""
    members = [i + 1.0 for i in coalition]
    pairs = sum(x * y for x, y in itertools.combinations(members, 2))
    return np.array([sum(members) + pairs])


def test_sampled_values_are_within_their_errors_of_the_known_ones():
    n = 10
    total = sum(range(1, n + 1))
    known = np.array([(i + 1) * (1 + (total - i - 1) / 2) for i in range(n)])
    found = game.sampled(n, quadratic, permutations=50, seed=0)
    # An order and its reverse together are exact for pairs: no error is left.
    np.testing.assert_allclose(found.values[:, 0], known, rtol=1e-12)
    assert found.errors.max() < 1e-9


def cubic(coalition):
    members = [i + 1.0 for i in coalition]
    return np.array([sum(map(math.prod, itertools.combinations(members, 3)))])


def test_the_standard_error_says_how_far_sampled_values_are_off():
    n = 7
    exact = game.exact(n, cubic).values[:, 0]
    within = []
    for seed in range(20):
        found = game.sampled(n, cubic, permutations=30, seed=seed)
        assert (found.errors > 0).all()
        assert found.permutations == 60
        within += list(np.abs(found.values[:, 0] - exact) <= 2 * found.errors[:, 0])
    assert 0.85 < np.mean(within) < 1.0


def test_a_seed_draws_the_same_orders_again_and_another_one_others():
    one, same, other = (game.sampled(9, cubic, 8, seed).values for seed in (3, 3, 4))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(("n", "orders"), [(8, 0), (9, 4)])
def test_more_than_eight_players_are_sampled(n, orders):
    found = game.shares(n, cubic, permutations=2, seed=0)
    assert found.permutations == orders
    assert found.values.sum() == pytest.approx(cubic(frozenset(range(n)))[0])


def test_one_order_leaves_no_error_to_estimate():
    with pytest.raises(ValueError, match="1 orders leave no error"):
        game.sampled(3, cubic, permutations=1)


def test_what_is_not_finite_leaves_values_undefined_and_the_others_alone():
    def play(coalition):
        return np.array([math.inf if len(coalition) == 2 else 1.0, float(len(coalition))])

    found = game.exact(3, play).values
    assert np.isnan(found[:, 0]).all()
    np.testing.assert_allclose(found[:, 1], 1.0)


def test_pairs_are_what_both_are_worth_beyond_each():
    found = game.pairs(3, quadratic)
    assert {pair: float(value[0]) for pair, value in found.items()} == {
        (0, 1): 2.0,
        (0, 2): 3.0,
        (1, 2): 6.0,
    }


@pytest.mark.parametrize("n", [0, 1])
def test_few_players(n):
    found = game.shares(n, quadratic)
    assert found.values.shape == (n, 1)
    assert game.alone(n, quadratic).shape == game.without(n, quadratic).shape == (n, 1)
