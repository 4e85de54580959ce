"""Markdown as one HTML page that needs nothing else: for a report that opens without a network.

A page in two languages shows one at a time; which one, a reader chooses above it. Rows of tables
with many columns become lists on narrow screens, so that nothing is cut off there.
"""

import html
from collections.abc import Mapping
from importlib import resources
from string import Template

from markdown_it import MarkdownIt
from markdown_it.token import Token

LANGUAGE_NAMES = {"en": "English", "zh": "中文"}
TAGS = {"en": "en", "zh": "zh-CN"}
"""Languages as HTML names them."""
WIDE = 6
"""Columns from which a table is a wide one."""


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
    return Template(template).substitute(title=html.escape(title), body="\n".join(parts))


def rendered(text: str) -> str:
    """Markdown as HTML; HTML within it is shown as it is written, and not obeyed."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    _label(tokens)
    return str(parser.renderer.render(tokens, parser.options, {}))


def _label(tokens: list[Token]) -> None:
    """Tell every cell what its column is called, and every table whether it is a wide one."""
    table: Token | None = None
    heads: list[str] = []
    column = 0
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "table_open":
            table, heads = token, []
        elif token.type == "tr_open":
            column = 0
        elif token.type == "th_open":
            heads.append(following.content if following is not None else "")
        elif token.type == "td_open":
            token.attrSet("data-label", heads[column])
            column += 1
        elif token.type == "thead_close" and table is not None and len(heads) >= WIDE:
            table.attrSet("class", "wide")
