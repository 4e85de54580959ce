"""What stands in a mark: a name, then options, ``key=value`` or ``key="a value"``.

Values with spaces or quotes stand in quotes, single or double. A backslash before a character
stands for that character, in quotes and out of them; so a pipe in a row of a Markdown table is
``\\|``, as everywhere in such a row, and ``>`` after two hyphens is ``\\>``.
"""

import re
from dataclasses import dataclass

from pitb.errors import PitbError, nearest
from pitb.labels import LANGUAGES

PRINTED, REPRODUCED = "printed", "reproduced"
REPEATED = ("row", "column")
CHOICES = {
    "language": tuple(LANGUAGES),
    "value": (PRINTED, REPRODUCED),
    "only": ("published",),
    "below": ("yes", "no"),
}
KEYS = (*REPEATED, "format", *CHOICES)
FULL = "full"
FORMAT = re.compile(r"[-+ ]?(,|_)?(\.\d{1,2})?[eEfFgGd%]")
"""The formats of Python's that say how a number is written; nothing else of them is taken."""

_NAME = re.compile(r"[^\s\"'=]+")
_OPTION = re.compile(
    r"""\s+(?:([A-Za-z]+)=("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?:\\.|[^\s"'\\])+)(?=\s|$))""",
    re.DOTALL,
)


@dataclass(frozen=True)
class Options:
    """The options of a mark."""

    row: tuple[str, ...] = ()
    column: tuple[str, ...] = ()
    format: str | None = None
    language: str | None = None
    value: str = PRINTED
    only: str | None = None
    below: str = "no"


@dataclass(frozen=True)
class Named:
    """What a mark names."""

    name: str
    options: Options = Options()


def parse(text: str, where: str) -> Named:
    """Read what stands between ``pitb:`` and the end of a mark.

    Raises:
        PitbError: There is no name, or an option is malformed, unknown, or given twice.
    """
    match = _NAME.match(text)
    if match is None:
        raise PitbError(f"{where}: a mark names something, as in <!-- pitb:page/table -->")
    name = match[0]
    position = match.end()
    found: dict[str, list[str]] = {}
    end = len(text.rstrip())
    while position < end:
        option = _OPTION.match(text, position)
        if option is None:
            rest = " ".join(text[position:].split())
            raise PitbError(
                f"{where}: {rest!r} is no option; options are key=value, and a value with spaces "
                'or quotes stands in quotes, in which a quote is written \\"'
            )
        found.setdefault(option[1], []).append(_plain(option[2]))
        position = option.end()
    for key, values in found.items():
        if key not in KEYS:
            near = nearest(key, KEYS)
            raise PitbError(f"{where}: no option is called {key!r}; the nearest is {near!r}")
        if len(values) > 1 and key not in REPEATED:
            raise PitbError(f"{where}: option {key} is given twice")
        if key in CHOICES and values[0] not in CHOICES[key]:
            choices = " or ".join(CHOICES[key])
            raise PitbError(f"{where}: {key} is {choices}, not {values[0]!r}")
    given = found.get("format", [FULL])[0]
    if given != FULL and not FORMAT.fullmatch(given):
        raise PitbError(f"{where}: format {given!r} is none such as .2e, .3g, .1f, .1% or {FULL}")
    single = {key: values[0] for key, values in found.items() if key not in REPEATED}
    repeated = {key: tuple(values) for key, values in found.items() if key in REPEATED}
    return Named(name, Options(**repeated, **single))  # type: ignore[arg-type]


def _plain(text: str) -> str:
    inner = text[1:-1] if text[0] in "\"'" else text
    return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)
