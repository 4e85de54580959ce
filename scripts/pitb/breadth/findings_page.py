"""The findings as Markdown with headings in both languages, as CSV and as Parquet."""

import csv
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitb.breadth.finding import (
    DEFAULT,
    EQUATION,
    FAILS,
    KINDS,
    NOT_FINITE,
    NOT_RUN,
    ONE_SIDED,
    STEPS,
    ZERO,
    Finding,
    Size,
)
from pitb.files import replacing, write_text
from pitb.labels import COLONS, LANGUAGES, Text, both
from pitb.tables import line
from pitb.words import worded

if TYPE_CHECKING:
    import pyarrow as pa

QUOTED = 12
"""Lines of a program's output that the page quotes."""


WORDS: dict[str, Text] = {
    "title": both("Every difference in a default or an equation", "默认值或公式的每一处差别"),
    "note": both(
        "Generated from what the breadth has judged. Sizes are the largest difference of a "
        "parameter, relative to the largest magnitude that its tensor has had, with the absolute "
        "one in brackets: for an equation or a default the effect of that one alone, computed "
        "by the reference; for a schedule that of the rate.",
        "由全部优化器的对照生成。大小是参数的最大差，相对于该张量出现过的最大绝对值，括号里是绝对差："
        "公式和默认值的是该项单独的影响，由参考实现算出；调度的是学习率之差。",
    ),
    DEFAULT: both("Defaults", "默认值"),
    EQUATION: both("Equations", "公式"),
    ONE_SIDED: both("What one side alone has", "只有一边有的"),
    "hidden": both("Equations that differ where no run shows it", "公式不同但没有运行显出差别"),
    "details": both("Each equation, with a reproduction", "各处公式及复现"),
    "id": both("finding", "编号"),
    "kind": both("kind", "种类"),
    "optimizers": both("optimizers", "优化器"),
    "option": both("option or choice", "选项或公式选择"),
    "pytorch": both("PyTorch", "PyTorch"),
    "burn": both("burn", "burn"),
    "meaning": both("what it is", "含义"),
    "case": both("smallest run", "最小的运行"),
    "step": both("first shows at step", "最先显出的步"),
    "note_of": both("note", "说明"),
    "align": both("can it be aligned", "能否对齐"),
    "align_case": both("shown by", "由此用例证明"),
    "source": both("source", "源码位置"),
    "count": both("number", "数目"),
    "step_": both("step {}", "第 {} 步"),
    ZERO: both("0", "0"),
    NOT_RUN: both("not run", "没有运行"),
    NOT_FINITE: both("not finite", "非有限值"),
    FAILS: both("one side fails", "一边报错"),
    "reproduction": both("Reproduction", "复现"),
}


def shown(size: Size, language: str) -> str:
    """``3.2e-08 (1.1e-08)``, or why there is no number."""
    if size.status:
        return WORDS[size.status][language]
    return f"{size.relative:.2e} ({size.absolute:.2e})"


def markdown(
    found: Sequence[Finding], language: str, outputs: Mapping[str, Mapping[str, str]]
) -> str:
    """The page.

    Args:
        found: The findings.
        language: ``en`` or ``zh``.
        outputs: By finding what its two programs print, ``pytorch`` and ``burn``.
    """

    def word(key: str) -> str:
        return WORDS[key][language]

    counts = Counter(finding.kind for finding in found)
    lines = [f"# {word('title')}", "", word("note"), ""]
    lines += [line([word("kind"), word("count")]), line(["---"] * 2)]
    lines += [line([word(kind), str(counts[kind])]) for kind in KINDS]
    lines.append("")
    tables = {
        DEFAULT: [f for f in found if f.kind == DEFAULT],
        EQUATION: [f for f in found if f.kind == EQUATION and f.case],
        "hidden": [f for f in found if f.kind == EQUATION and not f.case],
    }
    for key, findings in tables.items():
        if findings:
            lines += [f"## {word(key)}", "", *_table(findings, language), ""]
    one_sided = [f for f in found if f.kind == ONE_SIDED]
    if one_sided:
        lines += [f"## {word(ONE_SIDED)}", "", *_one_sided(one_sided, language), ""]
    lines += [f"## {word('details')}", ""]
    for finding in tables[EQUATION] + tables["hidden"]:
        lines += _detail(finding, language, outputs.get(finding.id))
    return "\n".join(lines).rstrip() + "\n"


def _table(found: Sequence[Finding], language: str) -> list[str]:
    heads = ["id", "optimizers", "option", "pytorch", "burn", "case"]
    columns = [WORDS[head][language] for head in heads]
    columns += [WORDS["step_"][language].format(step) for step in STEPS]
    columns += [WORDS[head][language] for head in ("align", "align_case", "source")]
    rows = [line(columns), line("---" for _ in columns)]
    for finding in found:
        rows.append(
            line(
                [
                    finding.id,
                    ", ".join(finding.optimizers),
                    code(finding.option),
                    value_of(finding.pytorch, language),
                    value_of(finding.burn, language),
                    f"{finding.case} ({_words(finding.note, language)})"
                    if finding.note
                    else finding.case,
                    *(shown(size, language) for size in finding.sizes),
                    _align(finding, language),
                    finding.align.case,
                    _sources(finding, language),
                ]
            )
        )
    return rows


def _one_sided(found: Sequence[Finding], language: str) -> list[str]:
    heads = ("id", "optimizers", "option", "pytorch", "burn", "meaning", "case", "source")
    rows = [line(WORDS[head][language] for head in heads), line("---" for _ in heads)]
    for finding in found:
        values = (finding.pytorch, finding.burn)
        rows.append(
            line(
                [
                    finding.id,
                    ", ".join(finding.optimizers),
                    code(finding.option),
                    *(value_of(value, language) for value in values),
                    _words(finding.meaning, language),
                    finding.case,
                    _sources(finding, language),
                ]
            )
        )
    return rows


ANSWERS = ("yes", "no", "no such option")
"""What stands in the place of a side's value where it has none."""


def value_of(text: str, language: str) -> str:
    """A side's value as code, or the word for there being none."""
    return _words(text, language) if text in ANSWERS and language != "en" else code(text)


def _words(text: str, language: str) -> str:
    """A text in ``language`` where it is one of ours; a library's own stays as it is."""
    return worded(text, language) or text


def _sources(finding: Finding, language: str) -> str:
    places = (*finding.pytorch_source, *finding.burn_source)
    return ", ".join(_words(place, language) for place in places)


def _align(finding: Finding, language: str) -> str:
    return finding.align.how if language == "en" else finding.align.how_zh


def code(text: str) -> str:
    """Text as code, whatever backticks it holds."""
    if "`" in text:
        return f"`` {text} ``"
    return f"`{text}`" if text else ""


def _detail(finding: Finding, language: str, outputs: Mapping[str, str] | None) -> list[str]:
    def item(key: str, text: str) -> str:
        return f"- {WORDS[key][language]}{COLONS[language]}{' '.join(text.split())}"

    lines = [f"### {finding.id}", "", item("meaning", finding.meaning)]
    values = {"pytorch": finding.pytorch, "burn": finding.burn}
    lines += [item(side, value_of(value, language)) for side, value in values.items()]
    if finding.step:
        lines.append(item("step", str(finding.step)))
    if finding.note:
        lines.append(item("note_of", _words(finding.note, language)))
    lines.append(item("align", _align(finding, language)))
    lines.append(item("source", _sources(finding, language)))
    lines.append("")
    for side, file in (("pytorch", "main.py"), ("burn", "main.rs")):
        if outputs and side in outputs:
            link = f"[{file}](reproductions/{finding.id}/{file})"
            lines += [f"{WORDS['reproduction'][language]}, {link}{COLONS[language].rstrip()}", ""]
            lines += ["```text", *_first(outputs[side]), "```", ""]
    return lines


def _first(text: str) -> list[str]:
    """The first lines, none of which closes the block that they are quoted in."""
    found = [text_line.replace("```", "'''")[:200] for text_line in text.splitlines()]
    return found[:QUOTED] + ["..."] * (len(found) > QUOTED)


def records(found: Sequence[Finding]) -> list[dict[str, Any]]:
    """A flat record of each finding; what is not a number is None."""
    flat = []
    for finding in found:
        record: dict[str, Any] = {
            "id": finding.id,
            "kind": finding.kind,
            "optimizers": ", ".join(finding.optimizers),
            "option": finding.option,
            "pytorch": finding.pytorch,
            "burn": finding.burn,
            "meaning": finding.meaning,
            "case": finding.case,
            "note": finding.note,
            "first_step": finding.step,
            "quantity": finding.quantity,
            "alone": finding.alone,
        }
        for step, size in zip(STEPS, finding.sizes, strict=True):
            record[f"status_{step}"] = size.status or "number"
            record[f"absolute_{step}"] = _number(size.absolute)
            record[f"relative_{step}"] = _number(size.relative)
        record |= {
            "pytorch_source": ", ".join(finding.pytorch_source),
            "burn_source": ", ".join(finding.burn_source),
            "align": finding.align.how,
            "align_case": finding.align.case,
        }
        flat.append(record)
    return flat


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


COLUMNS = {
    **dict.fromkeys(("id", "kind", "optimizers", "option", "pytorch", "burn"), "string"),
    **dict.fromkeys(("meaning", "case", "note"), "string"),
    "first_step": "int64",
    "quantity": "string",
    "alone": "bool",
    **{
        f"{name}_{step}": kind
        for step in STEPS
        for name, kind in (("status", "string"), ("absolute", "double"), ("relative", "double"))
    },
    **dict.fromkeys(("pytorch_source", "burn_source", "align", "align_case"), "string"),
}
"""The columns of the findings' files, by Arrow's names of their types; sizes may be null."""


def _schema() -> "pa.Schema":
    import pyarrow as pa

    def nullable(name: str) -> bool:
        return name.startswith(("absolute_", "relative_"))

    fields = [(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()]
    return pa.schema([pa.field(name, kind, nullable=nullable(name)) for name, kind in fields])


def csv_text(found: Sequence[Finding]) -> str:
    """What ``findings.csv`` holds."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, list(COLUMNS), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records(found))
    return buffer.getvalue()


def write_tables(found: Sequence[Finding], folder: Path) -> None:
    """Write ``findings.csv`` and ``findings.parquet``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_text(folder / "findings.csv", csv_text(found))
    with replacing(folder / "findings.parquet") as path:
        pq.write_table(pa.Table.from_pylist(records(found), schema=_schema()), path)


def write_pages(
    found: Sequence[Finding], folder: Path, outputs: Mapping[str, Mapping[str, str]]
) -> None:
    """Write ``findings.md`` and ``findings.zh.md``."""
    for language, suffix in LANGUAGES.items():
        write_text(folder / f"findings{suffix}.md", markdown(found, language, outputs))
