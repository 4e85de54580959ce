"""Shapley values: what each player of a game adds, averaged over the orders in which they join.

A game gives each coalition, a set of the players 0 ... n - 1, a vector of values of shape (m,). The
empty coalition's is its origin. Source: Shapley, A value for n-person games (1953).
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Coalition = frozenset[int]
Game = Callable[[Coalition], Array]
MOST_EXACT = 8
"""Players up to which every coalition is asked."""
PERMUTATIONS = 24
"""Orders that are drawn where there are more; each of them is also run through backwards."""


@dataclass(frozen=True)
class Shares:
    """Shapley values, shape (n, m), and their standard errors: zeros where they are exact."""

    values: Array
    errors: Array
    permutations: int = 0
    """How many orders were asked; 0 where all coalitions were."""


def shares(n: int, game: Game, permutations: int = PERMUTATIONS, seed: int = 0) -> Shares:
    """Exact Shapley values of up to `MOST_EXACT` players, sampled ones of more.

    Where a coalition's value is not finite, the values that depend on it are NaN.
    """
    if n <= MOST_EXACT:
        return exact(n, game)
    return sampled(n, game, permutations, seed)


def exact(n: int, game: Game) -> Shares:
    """Over all 2^n coalitions: player i's share of coalition S without it weighs
    |S|! (n - |S| - 1)! / n!.
    """
    values = np.zeros((n, game(frozenset()).size))
    with np.errstate(invalid="ignore"):
        for size in range(n):
            weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            for members in itertools.combinations(range(n), size):
                before = game(frozenset(members))
                for player in set(range(n)) - set(members):
                    values[player] += weight * (game(frozenset((*members, player))) - before)
    return Shares(values, np.zeros_like(values))


def sampled(n: int, game: Game, permutations: int = PERMUTATIONS, seed: int = 0) -> Shares:
    """Over orders drawn at random, each together with its reverse.

    The values of one order add up to that of all players, so their means do, too. The standard
    error is that of the mean over the pairs, each of which is one independent draw. Source:
    Castro, Gomez and Tejada, Polynomial calculation of the Shapley value based on sampling (2009);
    pairs: Mitchell et al., Sampling permutations for Shapley value estimation (2022).

    Raises:
        ValueError: Fewer than 2 orders leave no error to estimate.
    """
    if permutations < 2:
        raise ValueError(f"{permutations} orders leave no error to estimate; take 2 or more")
    random = np.random.default_rng(seed)
    drawn = []
    for _ in range(permutations):
        order = [int(player) for player in random.permutation(n)]
        drawn.append((_marginals(order, game) + _marginals(order[::-1], game)) / 2)
    draws = np.array(drawn)
    with np.errstate(invalid="ignore"):
        errors = draws.std(axis=0, ddof=1) / math.sqrt(permutations)
        return Shares(draws.mean(axis=0), errors, 2 * permutations)


def _marginals(order: list[int], game: Game) -> Array:
    """What each player adds where they join in this order, shape (n, m)."""
    joined: frozenset[int] = frozenset()
    before = game(joined)
    found = np.zeros((len(order), before.size))
    for player in order:
        joined = joined | {player}
        after = game(joined)
        with np.errstate(invalid="ignore"):
            found[player] = after - before
        before = after
    return found


def alone(n: int, game: Game) -> Array:
    """The value of each player alone, shape (n, m)."""
    return _stacked([game(frozenset({i})) for i in range(n)], game)


def without(n: int, game: Game) -> Array:
    """The value of all but each player, shape (n, m)."""
    everyone = frozenset(range(n))
    return _stacked([game(everyone - {i}) for i in range(n)], game)


def _stacked(rows: list[Array], game: Game) -> Array:
    return np.array(rows).reshape(len(rows), game(frozenset()).size)


def pairs(n: int, game: Game) -> dict[tuple[int, int], Array]:
    """By how much two players together are worth more than the sum of both alone, by pair."""
    each = alone(n, game)
    with np.errstate(invalid="ignore"):
        return {
            (i, j): game(frozenset({i, j})) - each[i] - each[j]
            for i, j in itertools.combinations(range(n), 2)
        }
