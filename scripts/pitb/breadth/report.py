"""What the breadth amounts to: which option sets are the same, how close each side is, kills."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pitb.breadth import inputs, laws, papers
from pitb.breadth.explain import DEFAULT, UNEXPLAINED
from pitb.breadth.inputs import VERDICTS
from pitb.breadth.judge import SIDES
from pitb.breadth.phases import IMPOSSIBLE
from pitb.compare import ERROR, MISMATCH, OK
from pitb.errors import PitbError
from pitb.problems import problem
from pitb.reference.descriptions import OURS

if TYPE_CHECKING:
    import pyarrow as pa

Record = dict[str, Any]
EARLY, NOT_FINITE = "early", "not finite"
"""How a run ended, where it did not end well."""
_ENDED = {EARLY: "ended early", NOT_FINITE: "ended with NaN or infinities"}
SAME, BY_DEFAULT, BY_FORMULA = "same", "different by default", "different by formula"
ONE_SIDED = "not to be had on the other side"
EXTREMES, ORDINARY = "only at extremes", "on ordinary gradients"
"""Where gradients are not finite or their squares leave the range of float32, and elsewhere."""
BESIDE = "but for what is beside the formula"
ABOUT_MODULES = frozenset({"tied"})
"""Choices that are no optimizer's: findings of their own, which tell nothing of an option."""
ABOUT_PRECISION = frozenset({"float32", "folded", "own_clip_limit"})
"""Choices that are the precision of hyper-parameters: the formula is the same."""


@dataclass
class Judged:
    """What the judging of all optimizers left behind."""

    outcomes: list[Record]
    kills: list[Record]
    papers: list[Record]
    rows: "pa.Table"


def load(folders: Iterable[Path]) -> Judged:
    """Read the folders of all optimizers.

    Raises:
        PitbError: A file is missing or malformed.
    """
    outcomes: list[Record] = []
    kills: list[Record] = []
    about_papers: list[Record] = []
    tables = []
    for folder in folders:
        outcomes += inputs.read_outcomes(folder / "outcomes.json")
        kills += inputs.read_kills(folder / "kills.json")
        about_papers += inputs.read_papers(folder / "papers.json")
        tables.append(inputs.read_rows(folder / "rows.parquet"))
    import pyarrow as pa

    if not outcomes or not kills:
        raise PitbError("nothing was judged: there are no outcomes, or no mutants")
    return Judged(outcomes, kills, about_papers, pa.concat_tables(tables))


def totals(outcomes: Sequence[Record]) -> dict[str, Counter[str]]:
    """The verdicts of each kind of pair; every outcome has one of five, two of them declared."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for outcome in outcomes:
        found[outcome["pair"]][outcome["verdict"]] += 1
    for pair, counts in found.items():
        pairs = sum(outcome["pair"] == pair for outcome in outcomes)
        if sum(counts[verdict] for verdict in VERDICTS) != pairs:
            raise AssertionError(f"{pair}: {dict(counts)} do not add up to {pairs}")
    return dict(found)


def ended(outcome: Record) -> str:
    """How the library's run of an outcome ended, where its description says that it does so.

    ``early`` is with an error, at the step of the description and for its reason; ``not finite``
    is to the end, with a parameter that is not a number. Otherwise empty, also for what is no
    library with its description.
    """
    if outcome["verdict"] != OK or not outcome["pair"].endswith("--reference"):
        return ""
    if outcome["reason"]:
        return EARLY
    return NOT_FINITE if max(outcome["nonfinite"]) >= 0 else ""


def verdict_rows(outcomes: Iterable[Record]) -> Iterator[Record]:
    """Every outcome, with how its run ended beside its verdict."""
    for outcome in outcomes:
        row = {}
        for key, value in outcome.items():
            row[key] = value
            if key == "verdict":
                row["ended"] = ended(outcome)
        yield row


def check_summary(text: str) -> None:
    """That the parts of each line, ``OK: 3: 2 a, 1 b``, add up to its total.

    Raises:
        PitbError: They do not; quotes the line.
    """
    for line in text.splitlines():
        name, total, parts = (["", "", *line.rsplit(": ", 2)])[-3:]
        if not (name and total.isdecimal()):
            continue
        counts = [part.partition(" ")[0] for part in parts.split(", ") if part]
        if not all(map(str.isdecimal, counts)) or sum(map(int, counts)) != int(total):
            raise PitbError(f"the summary does not add up: {line}")


def relations(outcomes: Sequence[Record]) -> Iterator[Record]:
    """For each option set of each optimizer how burn and PyTorch relate, and by what."""
    groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for outcome in outcomes:
        if outcome["pair"] == laws.ACROSS:
            groups[outcome["optimizer"], outcome["suite"], outcome["set"]].append(outcome)
    for (optimizer, suite, name), members in groups.items():
        counts = Counter(member["verdict"] for member in members)
        because: Counter[str] = Counter()
        kinds, places = set(), set()
        for member in members:
            if member["verdict"] not in (MISMATCH, ERROR):
                continue
            because.update(member["because"])
            beside = ABOUT_MODULES | ABOUT_PRECISION | OURS
            if not member["because"] or set(member["because"]) - beside:
                kinds.add(member["explanation"])
                places.add(EXTREMES if problem(member["problem"]).extreme else ORDINARY)
        if counts[IMPOSSIBLE]:
            relation = ONE_SIDED
            because = Counter([next(m["reason"] for m in members if m["verdict"] == IMPOSSIBLE)])
        elif not kinds:
            relation = SAME
        else:
            relation = BY_DEFAULT if kinds == {DEFAULT} else BY_FORMULA
        yield {
            "optimizer": optimizer,
            "suite": suite,
            "set": name,
            "relation": relation,
            "because": "; ".join(
                text if counts[IMPOSSIBLE] else f"{text} ({n})" for text, n in because.most_common()
            ),
            "where": _where(relation, because, places),
            **{verdict: counts[verdict] for verdict in VERDICTS},
        }


def _where(relation: str, because: Mapping[str, int], places: set[str]) -> str:
    if relation == SAME and because:
        return BESIDE
    return EXTREMES if places == {EXTREMES} else ""


FLOOR_PAIRS = ("pytorch--reference", "burn--reference")
FLOOR_COLUMNS = ("case", "suite", "optimizer", "dtype", "step", "pair", "needed", "verdict")
"""What the sheet of the rounding floor is made of: these columns of the parameters' rows."""


def floor(rows: "pa.Table") -> Iterator[Record]:
    """How far each library's parameters are from the reference, and which is closer."""
    import pyarrow as pa
    import pyarrow.compute as pc

    wanted = rows.filter(
        pc.and_(pc.equal(rows["quantity"], "param"), pc.is_in(rows["pair"], pa.array(FLOOR_PAIRS)))
    )
    return floor_of(wanted.select(FLOOR_COLUMNS).to_pylist())


def floor_of(rows: Iterable[Record]) -> Iterator[Record]:
    """The same of rows of `FLOOR_COLUMNS`, those of parameters and of `FLOOR_PAIRS` alone.

    By optimizer, dtype and step: the median and the largest relative distance of all cases that
    both libraries trained and the reference followed, and in how many of them each is closer.
    """
    distances: dict[tuple[str, str, int], dict[str, dict[str, float]]] = defaultdict(dict)
    for row in rows:
        if row["verdict"] == OK and row["suite"] != "defaults":
            key = (row["optimizer"], row["dtype"], row["step"])
            side = row["pair"].partition("--")[0]
            distances[key].setdefault(row["case"], {})[side] = row["needed"]
    for (optimizer, dtype, step), cases in distances.items():
        both = [found for found in cases.values() if len(found) == 2]
        if not both:
            continue
        a, b = (np.array([found[side] for found in both]) for side in ("pytorch", "burn"))
        yield {
            "optimizer": optimizer,
            "dtype": dtype,
            "step": step,
            "cases": len(both),
            "pytorch_median": float(np.median(a)),
            "burn_median": float(np.median(b)),
            "pytorch_largest": float(a.max()),
            "burn_largest": float(b.max()),
            "pytorch_closer": int((a < b).sum()),
            "burn_closer": int((b < a).sum()),
            "equal": int((a == b).sum()),
        }


def kill_counts(kills: Sequence[Record]) -> Iterator[Record]:
    """How many mutants of each optimizer and kind were killed, on each side."""
    groups: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for kill in kills:
        counts = groups[kill["optimizer"], kill["side"], kill["kind"]]
        counts[kill["status"]] += 1
        for dtype in ("float32", "float64"):
            counts[dtype] += bool(kill[f"killed_by_{dtype}"])
    for (optimizer, side, kind), counts in groups.items():
        yield {
            "optimizer": optimizer,
            "side": side,
            "kind": kind,
            "mutants": sum(counts[status] for status in ("killed", "survived", "equivalent")),
            "killed": counts["killed"],
            "in_float32": counts["float32"],
            "in_float64": counts["float64"],
            "equivalent": counts["equivalent"],
            "survived": counts["survived"],
        }


def law_rows(outcomes: Sequence[Record]) -> Iterator[Record]:
    """Every law, how often it was applied, and how much of it was needed."""
    for law in laws.LAWS:
        used = [o for o in outcomes if o["law"] == law.name and o["verdict"] == OK]
        needed = [float(o["needed"]) for o in used]
        yield {
            **law.json(),
            "applied": sum(o["law"] == law.name for o in outcomes),
            "held": len(used),
            "most_needed": max(needed, default=0.0),
        }


def complaints(judged: Judged) -> list[str]:
    """What must not be: unexplained differences, mutants that survive. One sentence each."""
    found = []
    for outcome in judged.outcomes:
        if outcome["explanation"] == UNEXPLAINED:
            why = outcome["reason"] or f"{outcome['needed']:.3g} times the tolerance"
            found.append(
                f"{outcome['case']}: {outcome['pair']} is {outcome['verdict']} and nothing explains"
                f" it ({why.splitlines()[0]})"
            )
    for kill in judged.kills:
        if kill["status"] == "survived":
            found.append(
                f"{kill['optimizer']}, {kill['side']}: the mutant {kill['mutant']!r} was not"
                f" noticed on any of {kill['tried']} cases"
            )
    return [*found, *papers.complaints(judged.papers)]


def schedule_complaints(schedules: Record) -> list[str]:
    """What must not be among the schedules: a library that leaves its description, a survivor."""
    found = []
    for row in schedules["rows"]:
        own = row["pair"] != "burn ~ pytorch"
        if own and row["verdict"] not in (OK, IMPOSSIBLE):
            found.append(f"schedule {row['case']}: {row['pair']} is {row['verdict']}")
    for kill in schedules["kills"]:
        if not kill["flagged"]:
            found.append(f"schedules: the mutant {kill['mutant']!r} was not noticed")
    return found


def summary(judged: Judged, schedules: Record, coverage: Record) -> str:
    """The totals in a few lines."""
    lines = []
    for pair, counts in totals(judged.outcomes).items():
        each = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
        lines.append(f"{pair}: {sum(counts.values())}: {each}")
    for kind in (EARLY, NOT_FINITE):
        found = [ended(outcome) for outcome in judged.outcomes]
        pairs = zip(judged.outcomes, found, strict=True)
        sides = Counter(outcome["pair"] for outcome, end in pairs if end == kind)
        each = ", ".join(f"{sides[f'{side}--reference']} {side}" for side in SIDES)
        name = f"{_ENDED[kind]}, as described (verdicts.csv, ended={kind})"
        lines.append(f"{name}: {sum(sides.values())}: {each}")
    explained = Counter(o["explanation"] for o in judged.outcomes if o["explanation"])
    each = ", ".join(f"{n} by {kind}" for kind, n in explained.most_common())
    lines.append(f"differences: {sum(explained.values())}: {each}")
    status = Counter(kill["status"] for kill in judged.kills)
    each = ", ".join(f"{status[name]} {name}" for name in ("killed", "survived", "equivalent"))
    lines.append(f"mutants: {len(judged.kills)}: {each}")
    for pair, verdicts in schedules["totals"].items():
        each = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
        lines.append(f"schedules, {pair}: {sum(verdicts.values())}: {each}")
    for name, rows in coverage.items():
        status = Counter(row["status"] for row in rows)
        each = ", ".join(f"{n} {kind}" for kind, n in status.most_common())
        lines.append(f"{_COVERED[name]}: {len(rows)}: {each}")
    return "\n".join(lines)


_COVERED = {"rows": "PyTorch's configurations", "fields": "fields and options"}


def shown(records: Iterable[Record]) -> Iterator[Record]:
    """Records with their lists as text; of long ones the first three items and the number."""
    for record in records:
        yield {
            key: _listed(value) if isinstance(value, list) else value
            for key, value in record.items()
        }


def _listed(items: list[Any]) -> str:
    text = ", ".join(str(item) for item in items[:3])
    return f"{text} and {len(items) - 3} more" if len(items) > 3 else text
