"""Whether series can be told apart in grey, and by those who see some colours alike."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib import colormaps
from matplotlib.colors import to_rgb

from pitb.plots import style

# Of sRGB's linear values. Machado, Oliveira and Fernandes, A physiologically-based model for
# simulation of color vision deficiency (2009), severity 1.
SIMULATED = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    # Relative luminance: IEC 61966-2-1.
    "grey": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}
LEAST = 8.0
"""CIE76 distance in CIELAB of two colours that are told apart; 2.3 is just noticeable."""
LEAST_GREY = 5.0
"""Distance in lightness alone, 0 being black and 100 white."""
LEAST_CONTRAST = 1.9
"""Contrast ratio of a line to the white behind it (WCAG 2.1, 1.4.3): markers and dashes help it."""


def linear(colour):
    values = np.array(to_rgb(colour))
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    """CIELAB of linear sRGB, with the white point D65."""
    to_xyz = np.array(
        [
            [0.4124564, 0.3575761, 0.1804375],
            [0.2126729, 0.7151522, 0.0721750],
            [0.0193339, 0.1191920, 0.9503041],
        ]
    )
    ratio = to_xyz @ np.clip(rgb, 0, 1) / (to_xyz @ np.ones(3))
    cube = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * cube[1] - 16, 500 * (cube[0] - cube[1]), 200 * (cube[1] - cube[2])])


def seen(colour, how):
    return lab(SIMULATED[how] @ linear(colour))


@pytest.mark.parametrize("how", SIMULATED)
def test_each_simulation_keeps_white_and_black(how):
    np.testing.assert_allclose(seen("white", how), [100, 0, 0], atol=0.1)
    np.testing.assert_allclose(seen("black", how), [0, 0, 0], atol=0.1)


@pytest.mark.parametrize("how", ["protanopia", "deuteranopia"])
def test_a_red_and_a_green_are_alike_to_those_who_do_not_see_the_difference(how):
    """The control: the simulations do something."""
    confused = np.linalg.svd(SIMULATED[how])[2][-1]
    red, green = (np.full(3, 0.25) + step * 0.2 * confused for step in (-1, 1))
    alike = np.linalg.norm(lab(SIMULATED[how] @ red) - lab(SIMULATED[how] @ green))
    assert alike < LEAST
    assert np.linalg.norm(lab(red) - lab(green)) > 5 * LEAST


@pytest.mark.parametrize("how", ["normal", "protanopia", "deuteranopia"])
def test_the_colours_of_lines_are_told_apart(how):
    for first, second in combinations(style.LOOKS, 2):
        distance = np.linalg.norm(seen(first.colour, how) - seen(second.colour, how))
        assert distance > LEAST, (first, second, distance)


def test_lines_have_a_marker_and_a_dash_of_their_own():
    count = 3 * len(style.LOOKS)
    looks = [style.look(index) for index in range(count)]
    assert len({(look.marker, look.dash) for look in looks}) == count
    first = looks[: len(style.LOOKS)]
    assert len({look.marker for look in first}) == len({look.hatch for look in first}) == len(first)
    assert not {look.marker for look in looks} & {"v", "X"}  # which stand for 0 and for not finite


@pytest.mark.parametrize("how", SIMULATED)
def test_a_line_stands_out_from_the_page(how):
    for look in style.LOOKS:
        lightness = seen(look.colour, how)[0]
        luminance = ((lightness + 16) / 116) ** 3 if lightness > 8 else lightness / 903.3
        assert 1.05 / (luminance + 0.05) > LEAST_CONTRAST, look


@pytest.mark.parametrize("how", SIMULATED)
def test_areas_that_touch_are_told_apart(how):
    from pitb.plots.bars import HATCHES

    for (first, one), (second, other) in combinations(zip(style.FILLS, HATCHES, strict=True), 2):
        distance = np.linalg.norm(seen(first, how) - seen(second, how))
        assert distance > LEAST or one != other, (first, second)
        if how == "grey":
            assert abs(seen(first, how)[0] - seen(second, how)[0]) > LEAST_GREY or one != other


@pytest.mark.parametrize("how", SIMULATED)
def test_the_colours_of_the_map_rise_in_brightness(how):
    shades = [seen(colour, how)[0] for colour in colormaps["cividis"](np.linspace(0, 1, 16))[:, :3]]
    assert (np.diff(shades) > 1).all()
    assert shades[-1] < 95  # white stands for exactly 0
