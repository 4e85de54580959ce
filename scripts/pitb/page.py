"""Markdown as one HTML page that needs nothing else: for a report that opens without a network.

A page in two languages shows one at a time; which one, a reader chooses above it. Rows of tables
with many columns become lists on narrow screens, so that nothing is cut off there.
"""

import html
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template

from markdown_it import MarkdownIt
from markdown_it.token import Token

LANGUAGE_NAMES = {"en": "English", "zh": "中文"}
TAGS = {"en": "en", "zh": "zh-CN"}
"""Languages as HTML names them."""
WINDOWS = (20, 26, 32, 40, 48, 56, 64, 75, 90)
"""Widths of windows in rem: a table that needs more than the first has the name of the next wider
one, ``w32``, below which its rows are lists."""
_CHARACTER, _COLUMN, _EDGES = 0.5, 0.75, 2
"""What a character, the edges of a column, and those of the page take, in rem."""
SHORT = 14
"""Characters of a cell up to which it stands in one line."""
_LIST = """@media (max-width: ${width}rem) {
  $table thead { display: none; }
  $table, $table tbody { display: block; }
  $table tr {
    display: grid; grid-template-columns: repeat(auto-fill, minmax(min(15rem, 100%), 1fr));
    border: 1px solid #888; margin-bottom: 0.6rem;
  }
  $table td { white-space: normal; overflow-wrap: anywhere; }
  $table td { border: 0; border-bottom: 1px solid #ddd; }
  $table td:empty { display: none; }
  $table td::before { content: attr(data-label) ": "; font-weight: 600; color: #444; }
}
"""
_NUMBER = re.compile(r"\d[\d.]*e[+-]\d+")
_LONG_WORD = re.compile(rf"[^\s&;]{{{SHORT + 1},}}")
_JOINT = re.compile(r"(?<=[_/.:\-])(?=[A-Za-z])")


def page(title: str, texts: Mapping[str, str]) -> str:
    """An HTML page.

    Args:
        title: Of the page.
        texts: Its Markdown by language, ``en`` and perhaps ``zh``.
    """
    parts = []
    if len(texts) > 1:
        for number, language in enumerate(texts):
            checked = "" if number else " checked"
            name = LANGUAGE_NAMES[language]
            button = f'<input class="choice" type="radio" name="language" id="{language}"{checked}>'
            parts.append(f'{button}<label for="{language}">{name}</label>')
    for language, text in texts.items():
        parts.append(f'<main lang="{TAGS[language]}">\n{rendered(text)}</main>')
    template = resources.files("pitb").joinpath("page.html").read_text(encoding="utf-8")
    body = "\n".join(parts)
    listed = "".join(_listed(width) for width in WINDOWS if f'class="wide w{width}"' in body)
    return Template(template).substitute(title=html.escape(title), listed=listed, body=body)


def _listed(width: int) -> str:
    """The style that makes lists of the rows of tables, on screens narrower than ``width`` rem."""
    return Template(_LIST).substitute(table=f"table.w{width}", width=width)


def rendered(text: str) -> str:
    """Markdown as HTML; HTML within it is shown as it is written, and not obeyed."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.add_render_rule("text", _text)
    parser.add_render_rule("code_inline", _code)
    tokens = parser.parse(text)
    _label(tokens)
    return str(parser.renderer.render(tokens, parser.options, {}))


def _text(_: object, tokens: Sequence[Token], index: int, *__: object) -> str:
    return _breakable(tokens[index].content)


def _code(_: object, tokens: Sequence[Token], index: int, *__: object) -> str:
    return f"<code>{_breakable(tokens[index].content)}</code>"


def _breakable(text: str) -> str:
    """A text as HTML whose long names may go on in a new line after a joint of theirs."""
    escaped = html.escape(text, quote=False)
    broken = _LONG_WORD.sub(lambda word: _JOINT.sub("<wbr>", word[0]), escaped)
    return _NUMBER.sub(r"<span>\g<0></span>", broken)  # which is not broken at its sign


def _label(tokens: list[Token]) -> None:
    """Tell every cell what its column is called, and every table how wide it is."""
    table: Token | None = None
    heads: list[str] = []
    least: list[int] = []
    column = 0
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        text = following.content if following is not None else ""
        if token.type == "table_open":
            table, heads, least = token, [], []
        elif token.type == "tr_open":
            column = 0
        elif token.type == "th_open":
            heads.append(text)
            least.append(_least(text))
        elif token.type == "td_open":
            token.attrSet("data-label", heads[column])
            if len(text) <= SHORT:
                token.attrSet("class", "short")
            least[column] = max(least[column], len(text) if len(text) <= SHORT else _least(text))
            column += 1
        elif token.type == "table_close" and table is not None:
            needed = _CHARACTER * sum(least) + _COLUMN * len(least) + _EDGES
            if needed > WINDOWS[0]:
                width = next((width for width in WINDOWS if width >= needed), WINDOWS[-1])
                table.attrSet("class", f"wide w{width}")


def _least(text: str) -> int:
    """Characters of the longest part of a text that stands in one line."""
    parts = (part for word in text.split() for part in _JOINT.split(word))
    return max(map(len, parts), default=0)
