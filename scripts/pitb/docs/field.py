"""What pages on the whole field can name: its problems, choices of equation, laws and findings."""

from collections import Counter
from functools import cache
from pathlib import Path

from pitb import problems
from pitb.breadth import findings_page, laws
from pitb.breadth.equation_findings import meaning
from pitb.breadth.finding import (
    DEFAULT,
    EQUATION,
    KINDS,
    ONE_SIDED,
    SCHEDULE,
    STEPS,
    Align,
    Finding,
    from_plain,
)
from pitb.breadth.inputs import read_findings
from pitb.docs import chinese
from pitb.docs.content import Content
from pitb.errors import PitbError
from pitb.labels import both
from pitb.reference import descriptions
from pitb.tables import line
from pitb.words import worded

WORDS = {
    "problem": both("problem", "问题"),
    "numbers": both("numbers", "数的个数"),
    "about": both("what it is", "是什么"),
    "optimizer": both("optimizer", "优化器"),
    "all": both("all", "全部"),
    "choice": both("choice", "公式选择"),
    "law": both("law", "规律"),
    "base": both("base", "基数"),
    "growth": both("growth", "增长"),
    "reason": both("reason", "理由"),
    "relative": both("step {}, relative", "第 {} 步，相对差"),
    "momentum, dampening, nesterov": both(
        "`nesterov` with `dampening`", "`nesterov` 加 `dampening`"
    ),
}
PROCESSOR = {"equation-center-product"}
"""Findings that not every processor's PyTorch shows; tables in documents leave them out."""
_SHOWN_STEP = STEPS[1]


def _head(*cells: str) -> list[str]:
    return [line(cells), line("---" for _ in cells)]


def line_of(*cells: str) -> str:
    """A line of a table."""
    return line(cells)


def _words(key: str, language: str) -> str:
    return WORDS[key][language]


def problems_table(root: Path, language: str) -> str:
    """Every problem and what it is for."""
    lines = _head(*(_words(key, language) for key in ("problem", "numbers", "about")))
    for name in problems.names():
        found = problems.problem(name)
        count = sum(value.size for value in found.parameters.values())
        about = found.about if language == "en" else chinese.problem(name)
        lines.append(line_of(f"`{name}`", str(count), about))
    return "\n".join(lines)


def choices_table(root: Path, language: str) -> str:
    """The choices of equation in which the libraries' descriptions differ."""
    lines = _head(*(_words(key, language) for key in ("optimizer", "choice")), "PyTorch", "burn")
    used: dict[str, None] = {}
    shared = descriptions.shared_differences()
    own = {name: descriptions.differences(name) for name in descriptions.DESCRIPTIONS["burn"]}
    for optimizer, found in {"all": shared, **own}.items():
        shown = _words("all", language) if optimizer == "all" else optimizer
        for name, values in found.items():
            if optimizer == "all" or name not in shared:
                lines.append(line_of(shown, f"`{name}`", *(_value(value) for value in values)))
                used[name] = None
    return "\n".join([*lines, "", *(_explained(name, language) for name in used)])


def _explained(choice: str, language: str, said: str | None = None) -> str:
    """A choice of equation and what it is about."""
    if language == "zh":
        return f"- `{choice}`：{chinese.choice(choice)}"
    return f"- `{choice}`: {' '.join((said or meaning(choice)).split())}"


def _value(value: object) -> str:
    return ", ".join(sorted(value)) or "none" if isinstance(value, frozenset) else str(value)


def laws_table(root: Path, language: str) -> str:
    """Every law of tolerance."""
    lines = _head(*(_words(key, language) for key in ("law", "base", "growth", "reason")))
    for law in laws.LAWS:
        item = law.json()
        growth, reason = (worded(item[key], language) or item[key] for key in ("growth", "reason"))
        lines.append(line_of(item["law"], f"{item['base']:.2g}", growth, reason))
    return "\n".join(lines)


def law_base(name: str) -> str:
    """The base of a law, as the table has it."""
    return next(f"{law.base:.2g}" for law in laws.LAWS if law.name == name)


@cache
def _findings(root: Path) -> list[Finding]:
    path = root / "results/breadth-slice/findings.json"
    found = [from_plain(item) for item in read_findings(path)]
    return [finding for finding in found if finding.id not in PROCESSOR]


def findings_count(root: Path, language: str) -> str:
    """How many findings there are of each kind."""
    counts = Counter(finding.kind for finding in _findings(root))
    words = findings_page.WORDS
    lines = _head(words["kind"][language], words["count"][language])
    lines += [line_of(words[kind][language], str(counts[kind])) for kind in KINDS]
    return "\n".join(lines)


def findings_table(root: Path, language: str, kind: str) -> Content:
    """The findings of a kind about optimizers, with their size and how they are aligned.

    Where no finding of the kind is known to be aligned by anything, there is no such column.
    """
    found = [f for f in _findings(root) if f.kind == kind and SCHEDULE not in f.optimizers]
    if not found:
        raise PitbError(f"results/breadth-slice/findings.json has no finding of kind {kind}")
    words = findings_page.WORDS
    sized = kind != ONE_SIDED
    size = [_words("relative", language).format(_SHOWN_STEP)] if sized else []
    names = ("optimizers", "option", "pytorch", "burn")
    aligned = any(finding.align != Align() for finding in found)
    last = [words["align"][language]] if aligned else []
    lines = _head(*(words[key][language] for key in names), *size, *last)
    for finding in found:
        cells = [
            ", ".join(finding.optimizers) if len(finding.optimizers) < MANY else
            _words("all", language),
            _option(finding.option, language),
            *(findings_page.value_of(text, language) for text in (finding.pytorch, finding.burn)),
        ]  # fmt: skip
        if sized:
            at = finding.sizes[STEPS.index(_SHOWN_STEP)]
            status = words[at.status][language] if at.status else f"{at.relative:.1e}"
            cells.append(status)
        if aligned:
            cells.append(finding.align.how if language == "en" else finding.align.how_zh)
        lines.append(line_of(*cells))
    return Content("\n".join(lines), roundings=0.0)


def _option(name: str, language: str) -> str:
    """An option as code; a combination that one side refuses as what is refused of it."""
    return WORDS[name][language] if name in WORDS else findings_page.code(name)


MANY = 9
"""From so many optimizers on, a finding is about all that have what it is about."""


def meanings(root: Path, language: str) -> str:
    """What each finding in an equation of the optimizers is, in the reference's words."""
    found = [f for f in _findings(root) if f.kind == EQUATION and SCHEDULE not in f.optimizers]
    return "\n".join(_explained(f.option, language, f.meaning) for f in found)


CONTENTS = {
    "problems": problems_table,
    "choices": choices_table,
    "laws": laws_table,
    "law-float64": lambda root, language: law_base("float64"),
    "findings-count": findings_count,
    "findings-defaults": lambda root, language: findings_table(root, language, DEFAULT),
    "findings-equations": lambda root, language: findings_table(root, language, EQUATION),
    "findings-one-sided": lambda root, language: findings_table(root, language, ONE_SIDED),
    "findings-meanings": meanings,
}
