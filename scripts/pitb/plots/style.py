"""How all pictures of the project look, and how they are written.

They are read in grey and by those who see no colours, too: series differ in their markers and
dashes (lines) or in their hatches (bars), and the colours are among those that Okabe and Ito chose
to stay apart (Color Universal Design, 2008).
"""

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pitb.errors import PitbError
from pitb.files import replacing

SUFFIXES = (".svg", ".png")
WIDTH = 5.2
"""Of a picture in inches: on a telephone's 390 pixels its text is still read."""
SETTINGS = {
    "svg.hashsalt": "pitb",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.titlesize": 10,
    "hatch.linewidth": 0.6,
}
MOST_CHARACTERS = 50
"""Of a line of a title."""
LEGEND_CHARACTERS = 76
"""Of a line of a legend, in which capital letters are few."""
LONGEST = 32
"""Characters of a name beside an axis; the middle of a longer one is left out."""
TICKS = 8
"""Size of the text beside an axis, in points."""


@dataclass(frozen=True)
class Look:
    """What tells a series from the others: its colour, and without it marker, dash and hatch."""

    colour: str
    marker: str
    dash: str
    hatch: str


LOOKS = (
    Look("#000000", "o", "-", ""),
    Look("#0072B2", "s", "--", "///"),
    Look("#D55E00", "^", "-.", "..."),
    Look("#009E73", "D", ":", "xx"),
    Look("#CC79A7", "P", "-", "\\\\\\"),
    Look("#E69F00", "<", "--", "++"),
    Look("#56B4E9", "p", "-.", "oo"),
)
"""No marker is a ``v`` or an ``X``, which stand for what is exactly 0 and what is not finite."""
FILLS = ("#0072B2", "#E69F00", "#FFFFFF", "#D55E00")
"""Colours of areas that touch each other, dark beside bright."""


def look(index: int) -> Look:
    """The look of a series by its place; beyond the last, looks begin again with another dash."""
    found = LOOKS[index % len(LOOKS)]
    turns = index // len(LOOKS)
    dashes = ("-", "--", "-.", ":")
    dash = dashes[(dashes.index(found.dash) + turns) % len(dashes)]
    return Look(found.colour, found.marker, dash, found.hatch)


def check_path(path: Path) -> None:
    """Refuse a file of another kind before anything is computed.

    Raises:
        PitbError: It is neither SVG nor PNG, or matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise PitbError(f"{path} is neither .svg nor .png, which is what a plot is written as")
    _library()


def _library() -> Any:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise PitbError(
            "a plot needs matplotlib, which is not installed here: pip install 'path/to/pitb[plot]'"
        ) from None
    return matplotlib, Figure


@contextmanager
def drawing(path: Path, size: tuple[float, float], title: str) -> Iterator[Any]:
    """A figure of ``size`` inches to draw on, which is written to ``path`` at the end.

    The same drawing gives the same bytes, whatever settings matplotlib finds on the machine.

    Args:
        path: An SVG or PNG file.
        size: Width and height in inches.
        title: What it shows, for programs that read pictures aloud.

    Raises:
        PitbError: matplotlib is missing, the suffix is another, or the file cannot be written.
    """
    check_path(path)
    matplotlib, figure_class = _library()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        figure = figure_class(figsize=size, layout="constrained")
        yield figure
        kind = path.suffix.lower().removeprefix(".")
        metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
        with replacing(path) as temporary:
            options = {"dpi": 150, "metadata": {**metadata, "Title": title}}
            figure.savefig(temporary, format=kind, **options)


def whole_numbers(axes: Any) -> None:
    """Put ticks at whole numbers of the horizontal axis alone."""
    axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def titled(figure: Any, what: str, *lines: str) -> None:
    """What a picture shows, and below it the runs that it shows; long names go on in a new line."""
    parts = [part for line in lines for part in textwrap.wrap(line, MOST_CHARACTERS)]
    figure.suptitle("\n".join(filter(None, [what, *parts])), fontsize=10)


def say(axes: Any, text: str) -> None:
    """Say in the middle of empty axes why nothing is drawn there."""
    lines = "\n".join(textwrap.wrap(text, MOST_CHARACTERS))
    axes.text(0.5, 0.5, lines, transform=axes.transAxes, ha="center", va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def shortened(name: str, longest: int = LONGEST) -> str:
    """A name without the middle of what is longer than its place can bear."""
    if len(name) <= longest:
        return name
    kept = longest - 1
    return f"{name[: kept // 2]}…{name[kept // 2 - kept :]}"


def legend_below(axes: Any) -> None:
    """The legend below the horizontal axis, where it covers nothing; in columns where they fit."""
    handles, names = axes.get_legend_handles_labels()
    shown = [shortened(name, MOST_CHARACTERS) for name in names]
    widest = max(map(len, shown), default=0) + 6  # with the line before it
    axes.figure.legend(
        handles,
        shown,
        loc="outside lower center",
        ncols=min(max(LEGEND_CHARACTERS // widest, 1), 4),
        fontsize=TICKS,
        frameon=False,
    )
