import builtins
import math
import re
from dataclasses import replace

import numpy as np
import pytest

from explaining import explained
from pitb.errors import PitbError
from pitb.explain import plot
from pitb.explain.factorial import Distance

SGD = "pytorch:SGD lr=0.1"


@pytest.fixture(scope="module")
def found():
    return explained(SGD, "pytorch:SGD lr=0.1 momentum=0.9", {"steps": 12})


def with_values(found, values, tensors=None):
    """The same explanation with other differences, of shape (steps + 1, 3)."""
    every = Distance(values, 0.0)
    outcome = replace(found.factorial, every_step=every)
    return replace(found, factorial=outcome, tensors=tensors or found.tensors)


def differences(found, value):
    return np.full_like(found.factorial.every_step.values, value)


VALUES = {"zeros": 0.0, "nan": math.nan, "inf": math.inf, "huge": 1e300, "subnormal": 5e-324}


@pytest.mark.parametrize("suffix", [".svg", ".png"])
@pytest.mark.parametrize("name", VALUES)
def test_any_difference_can_be_drawn(name, suffix, found, tmp_path, recwarn):
    value = VALUES[name]
    tensors = (found.tensors[0], np.full_like(found.tensors[1], value))
    path = tmp_path / f"x{suffix}"
    plot.plot(with_values(found, differences(found, value), tensors), path)
    assert path.stat().st_size > 5000
    assert [str(item.message) for item in recwarn] == []


def panel(found):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    plot.lines(axes, found)
    return axes


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_zeros_stand_at_the_foot_of_the_axis_and_are_named(found):
    values = differences(found, 1e-3)
    values[3, 0] = 0.0
    axes = panel(with_values(found, values))
    assert axes.get_yscale() == "log"
    assert "exactly 0" in labels(axes)
    drawn = [
        line for line in axes.get_lines() if line.get_marker() == "v" and len(line.get_xdata())
    ]
    (zero,) = [line for line in drawn if list(line.get_xdata()) == [3]]
    curve = next(line for line in axes.get_lines() if line.get_label().startswith("parameters"))
    assert np.isnan(curve.get_ydata()).tolist() == [step == 3 for step in range(1, 13)]
    low, _ = axes.get_ylim()
    assert low < zero.get_ydata()[0] <= found.factorial.floor_every_step[3, 0]
    # Where nothing is 0, nothing says so.
    assert "exactly 0" not in labels(panel(with_values(found, differences(found, 1e-3))))


def test_what_is_not_finite_stands_at_the_head_and_is_named(found):
    values = differences(found, 1e-3)
    values[5:, 0] = math.inf
    axes = panel(with_values(found, values))
    assert "not finite" in labels(axes)
    assert axes.get_ylim()[1] < 1e6


def test_floor_and_tolerance_titles_and_units_are_there(found):
    axes = panel(replace(found, tolerance=3e-5))
    assert {"rounding floor", "tolerance 3e-05"} <= set(labels(axes))
    assert axes.get_title() == "Difference by step"
    assert "updates" in axes.get_xlabel()
    assert "units of the parameters" in axes.get_ylabel()
    low, high = axes.get_ylim()
    assert low < found.factorial.floor_every_step[1:, 0].min()
    assert high > 3e-5


def test_lines_are_told_apart_without_colour(found):
    shown = [line for line in panel(found).get_lines() if line.get_label()[0] not in "_et"]
    looks = {(line.get_marker(), line.get_linestyle()) for line in shown}
    assert len(looks) == len(shown) == 2


def heat_map(names, values):
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    plot.heat_map(figure, axes, names, values)
    figure.canvas.draw()
    return axes


def brightness(colours):
    return colours[:, :3] @ [0.299, 0.587, 0.114]


def test_the_map_can_be_read_in_grey():
    values = 10.0 ** -np.arange(10.0)[None, :]
    (image,) = heat_map(["w"], values).get_images()
    shades = brightness(image.cmap(image.norm(values[0])))
    assert (np.diff(shades) < -0.02).all()


def test_the_map_masks_zeros_and_marks_what_is_not_finite_or_missing():
    values = np.array([[0.0, 1e-3, math.inf], [1e-6, math.nan, 0.0]])
    axes = heat_map(["a", "b"], values)
    (image,) = axes.get_images()
    assert np.ma.getmaskarray(image.get_array()).tolist() == [
        [True, False, True],
        [False, True, True],
    ]
    marked = [collection.get_offsets().tolist() for collection in axes.collections]
    assert marked == [[[3.0, 0.0]], [[2.0, 1.0]]]


def test_no_difference_at_all_is_said():
    said = [text.get_text() for text in heat_map(["w"], np.zeros((1, 4))).texts]
    assert said == ["no difference at any step"]
    assert heat_map(["w"], np.ones((1, 4))).texts[:] == []


@pytest.mark.parametrize("count", [1, 4, 300])
@pytest.mark.parametrize("steps", [1, 200])
def test_few_and_many_tensors_and_steps(count, steps, found, tmp_path):
    names = [f"layers.{i}.weight" for i in range(count)]
    values = np.geomspace(1e-8, 1.0, count * steps).reshape(count, steps)
    axes = heat_map(names, values)
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert len(shown) <= plot.MOST_LABELS
    assert shown[0] == names[0]
    path = tmp_path / "x.png"
    plot.plot(replace(found, tensors=(names, values)), path)
    assert path.stat().st_size < 1e6


def test_a_single_step_is_drawn(tmp_path, recwarn):
    single = explained(SGD, "pytorch:SGD lr=0.2", {"steps": 1})
    plot.plot(single, tmp_path / "x.svg")
    assert "rounding floor" in labels(panel(single))
    assert not list(recwarn)


def test_a_problem_without_loss_has_one_line():
    prescribed = explained(SGD, "pytorch:SGD lr=0.2", {"problem": "gradients"})
    assert [label for label, _ in plot.curves(prescribed)] == ["parameters, reference"]


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_same_explanation_gives_the_same_bytes(suffix, found, tmp_path):
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        plot.plot(found, path)
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert not re.search(rb"20\d\d-\d\d-\d\d", first)


@pytest.mark.parametrize("name", ["x.pdf", "x", "x.svg.txt"])
def test_another_suffix_is_refused(name, found, tmp_path):
    with pytest.raises(PitbError, match=r"is neither \.svg nor \.png"):
        plot.plot(found, tmp_path / name)


def test_without_matplotlib_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    usual = builtins.__import__

    def without(name, *arguments, **options):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return usual(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PitbError, match=r"needs matplotlib, .* pip install 'path/to/pitb\[plot\]'"):
        plot.check_path(tmp_path / "x.svg")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (1e-12, 1.0)),
        ([0.0, math.nan, math.inf], (1e-12, 1.0)),
        ([1e-3], (1e-3, 1e-2)),
        ([2e-5, 3.0], (1e-5, 10.0)),
    ],
)
def test_the_ends_of_the_axis(values, expected):
    assert plot.limits([np.array(values)]) == pytest.approx(expected)
