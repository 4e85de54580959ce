"""An explanation as Markdown, in both languages."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from pitb.explain.divergence import Element
from pitb.explain.explanation import STRONG, Explanation
from pitb.explain.factorial import LOSS, MEASURES, PARAMETERS
from pitb.explain.items import EQUATION, OPTIMIZER, Item, described
from pitb.explain.words import (
    DIVERGES,
    KINDS,
    NOT_DETECTABLE,
    RULE,
    STAGES,
    UNDEFINED,
    text,
)
from pitb.explain.words import MEASURES as MEASURE_WORDS
from pitb.tables import line

Array = NDArray[np.float64]
MOST_COMBINATIONS = 5
"""Diverging combinations that are named; the others are counted."""


def markdown(found: Explanation, language: str = "en") -> str:
    """The whole report."""
    blocks = [
        text("title", language, a=found.a.label, b=found.b.label),
        *_head(found, language),
        text("what differs", language),
        *_differences(found, language),
    ]
    if found.layout.items:
        blocks += [text("costs", language), *_costs(found, language)]
    blocks += [text("first", language), *_first(found, language)]
    if found.recorded is not None:
        blocks += [text("against", language), *_against(found, language)]
    return "\n\n".join(blocks) + "\n"


def _head(found: Explanation, language: str) -> Iterator[str]:
    outcome = found.factorial
    dtypes = dict.fromkeys((found.a.dtype, found.b.dtype))
    yield text(
        "setting",
        language,
        problem=found.problem,
        steps=found.layout.steps,
        dtype=" / ".join(dtypes),
        runs=outcome.runs,
    )
    if found.replayed:
        yield text("replayed", language, run=found.replayed)
        if any(item.name == "fan" for item in found.layout.items):
            yield text("fan", language)
    for name, values in found.notes:
        yield text(name, language, **values)
    optimizers = _optimizers(found)
    if optimizers["a"] != optimizers["b"]:
        two = any(item.kind == OPTIMIZER for item in found.layout.items)
        yield text("two optimizers" if two else "one optimizer", language, **optimizers)
    if not found.differs:
        yield text("same" if not found.layout.items else "nothing", language)
        return
    if not (outcome.total > outcome.floor).any() and found.layout.items:
        yield text("nothing", language)
    for row, step in enumerate(outcome.steps):
        shares = np.array([effect.share[row, 0] for effect in outcome.effects])
        total = outcome.total[row, 0]
        if not shares.size or not np.isfinite(shares).all() or not total > outcome.floor[row, 0]:
            continue
        if np.abs(shares).max() > (1 + STRONG) * total:
            yield text("against each other", language, step=step)
            continue
        best = int(np.argmax(np.abs(shares)))
        part = f"{100 * shares[best] / total:.0f}"
        yield text("most", language, step=step, item=f"`{outcome.effects[best].name}`", part=part)


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join([line(head), line("---" for _ in head), *map(line, rows)])


def _differences(found: Explanation, language: str) -> Iterator[str]:
    tells = text("tells", language, **_optimizers(found))
    rows = [
        [
            f"`{item.name}`" + (f", {tells}" if item.note else ""),
            KINDS[item.kind][language],
            described(item.a),
            described(item.b),
        ]
        for item in found.layout.items
    ]
    head = [text("item", language), text("kind", language), found.a.label, found.b.label]
    yield _table(head, rows) if rows else text("same", language)
    from pitb.breadth.equation_findings import meaning  # which a report in JSON need not wait for

    equations = [item.name for item in found.layout.items if item.kind == EQUATION]
    if equations:
        yield "\n".join(
            "- " + text("meaning", language, choice=name, meaning=meaning(name))
            for name in equations
        )
    if found.layout.untried:
        names = ", ".join(_untried(item) for item in found.layout.untried)
        yield text("untried", language, items=names)
    if found.layout.unread:
        names = ", ".join(f"`{item.name}`" for item in found.layout.unread)
        yield text("unread", language, items=names)


def _optimizers(found: Explanation) -> dict[str, str]:
    return {"a": found.a.member.entry.pytorch, "b": found.b.member.entry.pytorch}


def _untried(item: Item) -> str:
    return f"`{item.name}` ({described(item.a)} / {described(item.b)})"


def _costs(found: Explanation, language: str) -> Iterator[str]:
    outcome = found.factorial
    phrase = NOT_DETECTABLE[language]
    labels = {"a": found.a.label, "b": found.b.label}
    yield text("method", language, phrase=phrase[:1].upper() + phrase[1:], **labels)
    if outcome.permutations:
        n, orders = len(outcome.effects), outcome.permutations
        yield text("sampled", language, n=n, orders=orders, seed=outcome.seed)
    for column, measure in enumerate(MEASURES):
        yield f"### {MEASURE_WORDS[measure][language]}"
        if measure == LOSS:
            if np.isnan(outcome.every_step.values[:, column]).all():
                yield text("no loss", language)
                continue
            yield text("loss step", language)
        yield _measure(found, column, language)
    for column, measure in enumerate(MEASURES):
        if measure in (PARAMETERS, LOSS):
            yield from _interaction(found, column, language)
    shown = outcome.diverging[:MOST_COMBINATIONS]
    for combination in shown:
        names = ", ".join(f"`{name}`" for name in combination.broken)
        items = names or text("none broken", language)
        how = "ends" if combination.reason else "diverging"
        step, reason = combination.step, combination.reason
        yield text(how, language, items=items, step=step, reason=reason)
    if len(outcome.diverging) > len(shown):
        yield text("more", language, n=len(outcome.diverging) - len(shown))


def _measure(found: Explanation, column: int, language: str) -> str:
    outcome = found.factorial
    sampled = bool(outcome.permutations)
    head = [text(name, language) for name in ("item", "step", "broken", "aligned", "share")]
    head += [text("error", language)] if sampled else []
    rows = []
    for effect in outcome.effects:
        for row, step in enumerate(outcome.steps):
            floor = float(outcome.floor[row, column])
            cells = [
                _shown(float(values[row, column]), floor, language)
                for values in (effect.broken, effect.aligned, effect.share)
            ]
            cells += [_number(float(effect.error[row, column]))] if sampled else []
            rows.append([f"`{effect.name}`", str(step), *cells])
    for name, values in (("total", outcome.total), ("floor", outcome.floor)):
        for row, step in enumerate(outcome.steps):
            floor = float(outcome.floor[row, column]) if name == "total" else -1.0
            cell = _shown(float(values[row, column]), floor, language)
            rows.append([text(name, language), str(step), "", "", cell, *[""] * sampled])
    return _table(head, rows)


def _shown(value: float, floor: float, language: str) -> str:
    """An effect as people read it: never 0 where it cannot be told from roundings."""
    if math.isnan(value):
        return UNDEFINED[language]
    if math.isinf(value):
        return DIVERGES[language]
    return NOT_DETECTABLE[language] if abs(value) <= floor else _number(value)


def _number(value: float) -> str:
    return f"{value:.2e}"


def _interaction(found: Explanation, column: int, language: str) -> Iterator[str]:
    outcome = found.factorial
    alone, together = outcome.interaction(column)
    floor = float(outcome.floor[-1, column])
    if not interacts(alone, together, floor):
        return
    pair = ""
    finite = {
        names: float(value[-1, column])
        for names, value in outcome.pairs.items()
        if math.isfinite(value[-1, column])
    }
    if finite and len(outcome.effects) > 2:
        first, second = max(finite, key=lambda names: abs(finite[names]))
        if abs(finite[first, second]) > floor:
            extra = f"{finite[first, second]:+.2e}"
            pair = text("pair", language, first=f"`{first}`", second=f"`{second}`", extra=extra)
    values = {
        "what": text("parameters" if MEASURES[column] == PARAMETERS else "loss", language),
        "alone": _number(alone),
        "together": _shown(together, floor, language),
    }
    yield text("interact", language, step=outcome.steps[-1], pair=pair, **values)


def interacts(alone: float, together: float, floor: float) -> bool:
    """Whether the sum of effects alone differs strongly from their effect together."""
    if not (math.isfinite(alone) and math.isfinite(together)):
        return False
    return abs(alone - together) > max(STRONG * abs(together), floor)


def _first(found: Explanation, language: str) -> Iterator[str]:
    divergence = found.divergence
    yield text("of traces" if found.recorded is not None else "of reference", language)
    if divergence.first is None:
        yield text("no divergence", language)
    else:
        yield text("begins", language, where=_where(divergence.first, language))
        head = [text(n, language) for n in ("step", "stage", "tensor", "index", "a", "b", "ulp")]
        rows = [
            [
                str(element.step),
                STAGES[stage][language],
                _tensor(element),
                str(element.index),
                repr(element.a),
                repr(element.b),
                f"{element.ulp:g}",
            ]
            for stage, element in divergence.by_stage.items()
        ]
        yield _table(head, rows)
    if divergence.first_bit is not None:
        where = _where(divergence.first_bit, language)
        yield text("first bit", language, where=where, ulp=f"{divergence.first_bit.ulp:g}")
    yield RULE[divergence.rule][language]
    yield from _confirmed(found, language)
    for sentence in divergence.missing:
        yield text("missing", language, sentence=sentence)


def _confirmed(found: Explanation, language: str) -> Iterator[str]:
    """Which items the factorial has at work at the step that the rule of thumb speaks of."""
    step = found.divergence.parameter_step
    if not step:
        return
    floor = found.factorial.floor_every_step[step, 0]
    names = [
        f"`{effect.name}`"
        for effect in found.factorial.effects
        if effect.every_step[step, 0] > floor
    ]
    if names:
        joined = (", " if language == "en" else "、").join(names)
        verb = text("alone changes" if len(names) == 1 else "alone change", language)
        yield text("then", language, items=joined, verb=verb)


def _tensor(element: Element) -> str:
    name = element.quantity if element.quantity.startswith("state.") else ""
    return " ".join(part for part in (name, element.tensor) if part) or element.quantity


def _where(element: Element, language: str) -> str:
    stage, step = STAGES[element.stage][language], text("step", language)
    comma = ", " if language == "en" else "，"
    return comma.join([f"{step} {element.step}", stage, f"{_tensor(element)}[{element.index}]"])


def _against(found: Explanation, language: str) -> Iterator[str]:
    real = found.recorded
    assert real is not None
    for row, step in enumerate(real.steps):
        for column, (what, measure) in enumerate((("parameters", 0), ("loss", 2))):
            size = float(real.distance.values[step, measure])
            part = float(real.explained[row, column])
            words = {"step": step, "what": text(what, language)}
            if math.isnan(size):
                continue
            if size == 0:
                yield text("equal", language, **words)
                continue
            if real.rounded[row, column]:
                yield text("tiny", language, recorded=_number(size), **words)
                continue
            if math.isnan(part):
                yield text("infinite", language, **words)
                continue
            floor = float(found.factorial.floor_every_step[step, measure])
            ours = float(found.factorial.every_step.values[step, measure])
            words |= {
                "part": percent(part),
                "recorded": _number(size),
                "reference": _shown(ours, floor, language),
            }
            yield text("explained", language, **words)
    for item in real.follows:
        values = {"run": item.run, "law": item.law}
        if item.reason:
            yield text("unsaid", language, reason=item.reason, **values)
        elif item.step is None:
            yield text("follows", language, **values)
        else:
            sizes = {"needed": _number(item.needed), "allowed": _number(item.allowed)}
            yield text("strays", language, step=item.step, where=item.where, **sizes, **values)


def percent(part: float) -> str:
    """A part of 1 as a percentage, which is 100 only where nothing is left."""
    shown = f"{100 * part:.0f}"
    return shown if shown != "100" else f"{math.floor(1e4 * part) / 100:g}"
