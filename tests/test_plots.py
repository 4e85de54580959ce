"""The pictures of a report, on numbers that an axis does not like."""

import math
import re

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import draw_plots
from explaining import explained, recorded
from pitb.compare import MISMATCH, Comparison, Row
from pitb.errors import PitbError
from pitb.explain import sources
from pitb.plots import bars, breadth, comparison, style
from pitb.plots.style import LONGEST, shortened
from pitb.trace import Recorder


def made(values, names=("w", "b"), steps=None, quantity="param", a="pytorch/x", b="burn/x"):
    """A comparison with one difference for each step and tensor."""
    values = np.broadcast_to(values, (steps or np.shape(values)[-1], len(names)))
    rows = [
        Row(step, quantity, name, 1, 0, 0.0, 0.0, float(value), 0.0, 0.0, 0.0, 1e-6, MISMATCH)
        for step, row in enumerate(values, start=1)
        for name, value in zip(names, row, strict=True)
    ]
    return Comparison(a, b, 1e-6, [quantity], rows)


def trained(losses, run="pytorch/x", model="a1"):
    recorder = Recorder()
    for step, loss in enumerate(losses, start=1):
        recorder.add(step, "loss", loss, "float32")
    return recorder.trace({"run": run, "model": {"name": model}})


@pytest.fixture
def drawn(monkeypatch):
    """Every figure that is written, by its file's name; each is written without a warning."""
    figures = {}
    usual = style.drawing

    class Kept:
        def __init__(self, path, size, title):
            self.path, self.manager = path, usual(path, size, title)

        def __enter__(self):
            figures[self.path.name] = self.manager.__enter__()
            return figures[self.path.name]

        def __exit__(self, *error):
            return self.manager.__exit__(*error)

    monkeypatch.setattr(style, "drawing", Kept)
    return figures


def texts(figure):
    """Every text that is drawn, and where, in pixels."""
    from matplotlib.text import Text

    renderer = figure.canvas.get_renderer()
    found = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    ends = {id(t): t for axes in figure.axes for t in _outside(axes)}
    return [(t.get_text(), t.get_window_extent(renderer)) for t in found if id(t) not in ends]


def _outside(axes):
    """Labels of ticks that matplotlib keeps beyond the ends of an axis, and does not draw."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low * (1 - 1e-9) <= tick.get_loc() <= high * (1 + 1e-9):
                yield from (tick.label1, tick.label2)


def check_texts(figure):
    """No text reaches out of the picture, and none lies on another."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_layout_engine("none")  # it stays as it was written
    FigureCanvasAgg(figure).draw()
    width, height = figure.canvas.get_width_height()
    found = texts(figure)
    assert found
    for text, box in found:
        assert -0.5 <= box.x0 <= box.x1 <= width + 0.5, f"{text!r} is cut off at a side"
        assert -0.5 <= box.y0 <= box.y1 <= height + 0.5, f"{text!r} is cut off above or below"
    for i, (text, box) in enumerate(found):
        for other, its in found[:i]:
            inside = min(box.x1, its.x1) - max(box.x0, its.x0) > 1
            assert not (inside and min(box.y1, its.y1) - max(box.y0, its.y0) > 1), (text, other)


NUMBERS = {
    "zeros": 0.0,
    "infinite": math.inf,
    "huge": 1e300,
    "subnormal": 5e-324,
    "usual": 1e-3,
}


@pytest.mark.parametrize("steps", [1, 200])
@pytest.mark.parametrize("name", NUMBERS)
def test_any_difference_can_be_drawn(name, steps, drawn, tmp_path, recwarn):
    found = made(
        np.array([[NUMBERS[name], 1e-7 if name == "usual" else NUMBERS[name]]]), steps=steps
    )
    comparison.differences(tmp_path / "steps.svg", found, np.full(steps + 1, 1e-8))
    comparison.tensors(tmp_path / "tensors.svg", found)
    bars.remaining(tmp_path / "bars.svg", "pytorch/x", [found, made(np.ones((1, 2)), steps=steps)])
    assert [str(item.message) for item in recwarn] == []
    assert len(drawn) == 3
    for figure in drawn.values():
        check_texts(figure)


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_tolerance_floor_zeros_and_what_is_not_finite_are_named(drawn, tmp_path):
    values = np.array([[1e-3], [0.0], [math.inf]])
    comparison.differences(tmp_path / "x.svg", made(values, ["w"], 3), np.full(4, 1e-8))
    said = set(labels(drawn["x.svg"]))
    assert said == {"param", "rounding floor", "tolerance 1e-06", "exactly 0", "not finite"}
    comparison.differences(tmp_path / "y.svg", made(values[:1], ["w"], 1), None)
    assert set(labels(drawn["y.svg"])) == {"param", "tolerance 1e-06"}
    (axes,) = drawn["x.svg"].axes
    assert axes.get_yscale() == "log"
    assert "units" in axes.get_ylabel()
    assert "updates" in axes.get_xlabel()


def test_every_picture_has_a_title_and_units(drawn, tmp_path):
    found = made(np.full((1, 2), 1e-4), steps=3)
    comparison.losses(tmp_path / "loss.svg", trained([1.0, 0.5]), trained([1.0, 0.6], "burn/x"))
    comparison.differences(tmp_path / "steps.svg", found, None)
    comparison.tensors(tmp_path / "tensors.svg", found)
    bars.remaining(tmp_path / "remaining.svg", "pytorch/x", [found, found])
    breadth.coverage(tmp_path / "coverage.svg", [{"optimizer": "SGD", "status": "covered"}])
    units = {
        "loss.svg": ("updates", "nats"),
        "steps.svg": ("updates", "units of the quantity"),
        "tensors.svg": ("updates", "tensor", "units of the tensor"),
        "remaining.svg": ("units of the quantity", "burn/x"),
        "coverage.svg": ("configurations", "SGD"),
    }
    assert drawn.keys() == units.keys()
    for name, figure in drawn.items():
        axes = figure.axes[0]
        assert figure.get_suptitle()
        assert name not in ("steps.svg", "tensors.svg") or axes.get_title()
        beside = [axes.get_xlabel(), axes.get_ylabel(), figure.axes[-1].get_ylabel()]
        beside += [label.get_text() for label in axes.get_yticklabels()]
        for unit in units[name]:
            assert any(unit in text for text in beside), (name, unit)


def test_the_floor_is_that_of_an_explanation():
    runs = [recorded("burn:Sgd lr=0.1", "burn/x"), recorded("pytorch:SGD lr=0.1", "pytorch/x")]
    found = draw_plots.floor(*runs)
    expected = explained(*map(sources.of_trace, runs)).factorial.floor_every_step[:, 0]
    np.testing.assert_array_equal(found, expected)
    assert (found[1:] > 0).all()


def test_what_the_reference_cannot_train_has_no_floor_and_says_why(capsys):
    assert draw_plots.floor(trained([1.0]), trained([1.0], "burn/x")) is None
    assert "no rounding floor: pytorch/x carries no configuration" in capsys.readouterr().out


def test_a_bar_says_what_has_no_length(drawn, tmp_path):
    several = [
        made(np.zeros((1, 1)), ["w"], 2),
        made(np.full((1, 1), math.inf), ["w"], 2),
        made(np.full((1, 1), 6.6e-4), ["w"], 2),
        Comparison("pytorch/x", "burn/y", 1e-6, ["param"], error="initial state differs"),
    ]
    bars.remaining(tmp_path / "x.svg", "pytorch/x", several)
    said = [text.get_text().strip() for text in drawn["x.svg"].axes[0].texts]
    assert said == ["exactly 0", "not finite", "6.60e-04", "not compared"]
    check_texts(drawn["x.svg"])


def test_what_was_not_compared_says_why(drawn, tmp_path, recwarn):
    why = "initial state differs: x[0] -0.4999999403953552 vs -0.5"
    found = Comparison("pytorch/x", "burn/x", 1e-6, ["param"], error=why)
    comparison.differences(tmp_path / "a.svg", found, None)
    comparison.tensors(tmp_path / "b.svg", found)
    bars.remaining(tmp_path / "c.svg", "pytorch/x", [found, found])
    for name in ("a.svg", "b.svg"):
        (axes,) = drawn[name].axes
        assert axes.texts[0].get_text().replace("\n", " ") == f"not compared: {why}"
    for figure in drawn.values():
        check_texts(figure)
    assert not list(recwarn)


LONG_NAMES = [f"encoder.layers.{i}.self_attention.out_projection.weight" for i in range(200)]


@pytest.mark.parametrize("count", [1, 2, 40, 41, 200])
def test_few_and_many_tensors_are_named_without_overlap(count, drawn, tmp_path):
    names = LONG_NAMES[:count]
    comparison.tensors(tmp_path / "x.svg", made(np.full((1, count), 1e-4), names, 3))
    check_texts(drawn["x.svg"])
    shown = [label.get_text() for label in drawn["x.svg"].axes[0].get_yticklabels()]
    assert len(shown) <= 40
    assert shown[0] == shortened(names[0])
    assert all(len(name) <= LONGEST for name in shown)


def test_long_names_of_runs_are_not_cut_off(drawn, tmp_path):
    runs = [f"{side}/{'momentum-' * 9}x" for side in ("pytorch", "burn")]
    found = made(np.full((1, 2), 1e-4), steps=3, a=runs[0], b=runs[1])
    comparison.differences(tmp_path / "a.svg", found, None)
    comparison.tensors(tmp_path / "b.svg", found)
    comparison.losses(tmp_path / "c.svg", *(trained([1.0, 0.5], run) for run in runs))
    bars.remaining(tmp_path / "d.svg", runs[0], [found, found])
    for figure in drawn.values():
        check_texts(figure)


def test_many_quantities_are_told_apart(drawn, tmp_path):
    found = made(np.full((1, 2), 1e-4), steps=3)
    for number in range(8):
        rows = made(np.full((1, 2), 1e-4), steps=3, quantity=f"state.{number}").rows
        found.rows.extend(rows)
    comparison.differences(tmp_path / "x.svg", found, None)
    check_texts(drawn["x.svg"])
    (axes,) = drawn["x.svg"].axes
    named = [
        line for line in axes.get_lines() if line.get_label() in {r.quantity for r in found.rows}
    ]
    assert len({(line.get_marker(), line.get_linestyle()) for line in named}) == len(named) == 9


@pytest.mark.parametrize(
    ("name", "losses"),
    [
        ("usual", [1.14, 0.88, 0.77]),
        ("single", [1.14]),
        ("none", []),
        ("nan", [1.14, math.nan, math.inf]),
        ("all nan", [math.nan, math.nan]),
        ("zeros", [0.0, 0.0]),
        ("equal", [1.0, 1.0]),
        ("huge", [1.0, 1e150, 1e300]),
        ("negative", [-5.0, -6.0]),
        ("steep", [1e6, 1e-6]),
    ],
)
def test_any_loss_can_be_drawn(name, losses, drawn, tmp_path, recwarn):
    runs = (trained(losses), trained(losses[:2], "burn/x"))
    comparison.losses(tmp_path / "x.svg", *runs)
    figure = drawn["x.svg"]
    check_texts(figure)
    assert not list(recwarn)
    (axes,) = figure.axes
    if name == "none":
        assert axes.texts[0].get_text() == "neither run records a loss"
        return
    assert axes.get_ylabel() == "loss (nats, mean cross entropy)"
    beyond = "not finite, or beyond the axis" in labels(figure)
    assert beyond is (name in ("nan", "all nan", "huge"))
    assert axes.get_yscale() == ("log" if name in ("steep", "huge") else "linear")


def test_a_loss_of_another_model_has_its_own_unit(drawn, tmp_path):
    comparison.losses(tmp_path / "x.svg", *(trained([1.0], model="mine") for _ in "ab"))
    assert drawn["x.svg"].axes[0].get_ylabel() == "loss (in units of the model's own)"


EXTREMES = [0.0, 5e-324, 1e-200, 1e-7, 1.0, 1e150, 1e307, math.inf]


@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
@example([1e307, 5e-174])
@example([0.0])
@given(st.lists(st.sampled_from(EXTREMES) | st.floats(0, math.inf), min_size=1, max_size=9))
def test_any_numbers_can_be_drawn_and_give_the_same_bytes(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("plots")
    found = made(np.array(values)[:, None], ["w"], len(values))
    written = []
    for turn in "ab":
        paths = [folder / f"{turn}-{kind}.svg" for kind in range(3)]
        comparison.differences(paths[0], found, None)
        comparison.tensors(paths[1], found)
        bars.remaining(paths[2], "pytorch/x", [found, found])
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]
    for content in written[0]:
        assert content.startswith(b"<?xml")
        assert not re.search(rb"20\d\d-\d\d-\d\d", content)


def test_a_reader_s_own_settings_change_nothing(tmp_path):
    import matplotlib

    found = made(np.full((1, 2), 1e-4), steps=3)
    comparison.differences(tmp_path / "a.svg", found, None)
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "none"}):
        comparison.differences(tmp_path / "b.svg", found, None)
        assert matplotlib.rcParams["font.size"] == 20
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_a_picture_says_what_it_shows(tmp_path):
    comparison.differences(tmp_path / "x.svg", made(np.ones((1, 2)), steps=2), None)
    text = (tmp_path / "x.svg").read_text(encoding="utf-8")
    assert "<title>Difference by step of pytorch/x and burn/x</title>" in text
    assert "<text" not in text  # outlines, which no reader's fonts change


def test_coverage_is_counted(drawn, tmp_path, recwarn):
    rows = [
        {"optimizer": "AdamW", "status": "covered"},
        {"optimizer": "AdamW", "status": "covered"},
        {"optimizer": "AdamW", "status": "impossible"},
        {"optimizer": "Rprop", "status": "no-counterpart"},
    ]
    breadth.coverage(tmp_path / "x.svg", rows)
    figure = drawn["x.svg"]
    check_texts(figure)
    assert (
        "4: 2 covered, 1 impossible, 1 no-counterpart, 0 missing"
        in figure.get_suptitle().replace("\n", " ")
    )
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["AdamW", "Rprop"]
    assert [text.get_text().strip() for text in axes.texts] == ["3", "1"]
    breadth.coverage(tmp_path / "y.svg", [])
    check_texts(drawn["y.svg"])
    assert not list(recwarn)


def test_an_unknown_status_is_not_drawn_as_nothing(tmp_path):
    with pytest.raises(PitbError, match="AdamW: status 'lost' is none of covered"):
        breadth.coverage(tmp_path / "x.svg", [{"optimizer": "AdamW", "status": "lost"}])


def test_kills_of_one_side_are_added_up(drawn, tmp_path):
    row = {"optimizer": "SGD", "side": "burn", "killed": "3", "equivalent": "1", "survived": "0"}
    breadth.kills(tmp_path / "x.svg", [row, {**row, "killed": "4"}, {**row, "side": "pytorch"}])
    figure = drawn["x.svg"]
    check_texts(figure)
    assert "13: 10 killed, 3 equivalent, 0 survived" in figure.get_suptitle().replace("\n", " ")
    (axes,) = figure.axes
    assert [text.get_text().strip() for text in axes.texts] == ["9", "4"]
    hatches = {patch.get_hatch() for patch in axes.patches}
    assert len(hatches) > 1


def test_a_text_that_is_cut_off_is_noticed(tmp_path):
    """The control of what the tests above rely on."""
    with style.drawing(tmp_path / "x.svg", (3, 3), "x") as figure:
        axes = figure.subplots()
        axes.set_title("wide " * 30)
    with pytest.raises(AssertionError, match="is cut off at a side"):
        check_texts(figure)
    with style.drawing(tmp_path / "y.svg", (3, 3), "y") as figure:
        axes = figure.subplots()
        axes.text(0.5, 0.5, "one")
        axes.text(0.5, 0.5, "other")
    with pytest.raises(AssertionError, match="other"):
        check_texts(figure)
