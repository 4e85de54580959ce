"""What a report shows, where, and under which name: the one list of it.

Each item is a picture or a page below the folder of results, with the caption that explains it,
one of the files of ``report/``. A page is made of Markdown, in English and Chinese.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pitb.config import Config, Pair
from pitb.labels import SHEETS, TITLES, Text, both
from pitb.pages import PAGES
from pitb.results import SCOPES, explanation_path, pair_name, plot_path, remaining_path


def _joined(text: Text) -> str:
    return text["en"] if text["en"] == text["zh"] else f"{text['en']} {text['zh']}"


# The report lists categories in alphabetical order: their numbers keep the one that is meant.
LEDGER = "1 Ledger 台账"
TABLES = "2 Tables 表格"
PLOTS = "3 Plots 图"
FINDINGS = "4 Findings 发现"
COVERAGE = "5 Coverage and kills 覆盖与变异体"
FIELD = "6 The whole field 全部优化器"
EXPLANATIONS = "7 Explanations 解释"
PORT = "8 Port 移植"
VERSIONS = "9 Versions and machine 版本与机器"

PAGE_NAMES: dict[str, str] = {
    "one-step": "One step 一步",
    "optimizer-defaults": "Optimizer defaults differ 优化器默认值不同",
}
SCOPE_NAMES = dict(zip(SCOPES, ("The slice 部分", "All of it 全部"), strict=True))
PLOT_NAMES = {
    "loss": "1 Loss of both sides 两边的 loss",
    "steps": "2 Difference by step 每步的差",
    "tensors": "3 Difference by step and tensor 每步每个张量的差",
}
REMAINING = "4 What remains when aligned 对齐之后剩下的差"


@dataclass(frozen=True)
class Item:
    """One thing that a report shows; paths are below the folder of results."""

    path: str
    caption: str
    """The file of ``report/`` that explains it, without its suffix."""
    category: str
    label: str
    subcategory: str | None = None
    sources: tuple[str, ...] = ()
    """Of a page: Markdown in English, and in Chinese where there is one. Of a picture of the
    breadth: the file that it is drawn from."""


def tables(config: Config) -> list[Item]:
    """The ledger, the comparisons, every table of the pages, and the versions."""
    found = []
    if config.pages:
        ledger = ("ledger.md",)
        found.append(Item("report/ledger.html", "ledger", LEDGER, "Ledger 台账", None, ledger))
    label, listed = "Every comparison 全部比较", ("comparisons.md",)
    found.append(Item("report/comparisons.html", "comparisons", LEDGER, label, None, listed))
    for page in config.pages:
        for table in PAGES[page].tables:
            found.append(
                Item(
                    f"report/{page}.{table}.html",
                    "table",
                    TABLES,
                    _joined(TITLES[table]),
                    PAGE_NAMES[page],
                    _both_languages(f"tables/{page}/{table}"),
                )
            )
    label = "Versions and machine 版本与机器"
    sources = _both_languages("versions")
    return [*found, Item("report/versions.html", "versions", VERSIONS, label, None, sources)]


def pictures(config: Config) -> list[Item]:
    """The pictures of every comparison, and of what remains where a run has several."""
    found = [
        Item(plot_path(pair.a, pair.b, kind), kind, PLOTS, f"{pair.a} – {pair.b}", name)
        for kind, name in PLOT_NAMES.items()
        for pair in config.pairs
    ]
    runs = [pair.a for pair in config.pairs]
    several = [run for run in dict.fromkeys(runs) if runs.count(run) > 1]
    return found + [
        Item(remaining_path(run), "remaining", PLOTS, run, REMAINING) for run in several
    ]


def breadth_pictures(scope: str) -> list[Item]:
    """The pictures of the breadth or of its slice."""
    return [
        Item(
            f"plots/{scope}.{name}.svg",
            name,
            COVERAGE,
            label,
            SCOPE_NAMES[scope],
            (f"{scope}/{source}",),
        )
        for name, source, label in (
            ("coverage", "coverage.json", "1 Coverage, drawn 覆盖图"),
            ("kills", "kills.csv", "2 Mutants, drawn 变异体图"),
        )
    ]


def breadth(scope: str) -> list[Item]:
    """The pages of the breadth or of its slice."""
    places = {"coverage": COVERAGE, "kills": COVERAGE, "options": FINDINGS}
    found = [
        Item(
            f"report/{scope}.{sheet}.html",
            "sheet",
            places.get(sheet, FIELD),
            _joined(title),
            SCOPE_NAMES[scope],
            _both_languages(f"{scope}/{sheet}"),
        )
        for sheet, (title, _) in SHEETS.items()
    ]
    label = "Every difference in a default or an equation 默认值或公式的每处不同"
    sources = _both_languages(f"{scope}/findings")
    path = f"report/{scope}.findings.html"
    return [*found, Item(path, "findings", FINDINGS, label, SCOPE_NAMES[scope], sources)]


def explanations(pairs: Iterable[Pair]) -> list[Item]:
    """The pages of what `make explain` has explained."""
    return [
        Item(
            f"report/explain.{pair_name(pair.a, pair.b)}.html",
            "explanation",
            EXPLANATIONS,
            f"{pair.a} – {pair.b}",
            "Text 文字",
            tuple(explanation_path(pair.a, pair.b, suffix) for suffix in (".md", ".zh.md")),
        )
        for pair in pairs
    ]


def explanation_pictures(pairs: Iterable[Pair]) -> list[Item]:
    """The pictures of it, which the explanation itself draws."""
    return [
        Item(
            explanation_path(pair.a, pair.b, ".svg"),
            "explanation",
            EXPLANATIONS,
            f"{pair.a} – {pair.b}",
            "Pictures 图",
        )
        for pair in pairs
    ]


def port() -> list[Item]:
    """The page of what `make port` has ported."""
    label = "Every configuration, ported 每个配置的移植"
    return [Item("report/port.html", "port", PORT, label, None, _both_languages("port/port"))]


def _both_languages(name: str) -> tuple[str, str]:
    return f"{name}.md", f"{name}.zh.md"


HEADINGS: dict[str, Text] = {
    text["en"]: text
    for text in (
        both("Ledger", "台账"),
        both("Comparisons", "比较"),
        both("Not reproduced", "没有重现的"),
        both("one-step", "一步（one-step）"),
        both("optimizer-defaults", "优化器默认值（optimizer-defaults）"),
        both("table", "表"),
        both("row", "行"),
        both("column", "列"),
        both("printed", "印出的值"),
        both("kind", "种类"),
        both("reproduced", "重现的值"),
        both("allowed", "允许"),
        both("status", "状态"),
        both("evidence", "依据"),
        both("verdict", "结论"),
        both("worst", "最大差"),
        both("tolerance", "容差"),
        both("tensors", "张量数"),
        both("error", "出错"),
    )
}
"""The headings of what is written in English alone."""


def in_chinese(text: str) -> str:
    """Markdown that is written in English alone, with Chinese headings of its parts and tables.

    Its values are names, numbers and the verdicts that are the same in both languages.
    """
    lines = text.splitlines()
    for number, line in enumerate(lines):
        title = re.fullmatch(r"(#+ )(.*)", line)
        if title is not None:
            lines[number] = title[1] + _heading(title[2])
        elif number + 1 < len(lines) and re.fullmatch(r"\|( --- \|)+", lines[number + 1]):
            cells = [_heading(cell.strip()) for cell in line.strip("| ").split(" | ")]
            lines[number] = "| " + " | ".join(cells) + " |"
    return "\n".join([*lines, ""])


def _heading(name: str) -> str:
    return HEADINGS[name]["zh"] if name in HEADINGS else name
