"""What the judging of one optimizer leaves behind, as JSON and Parquet have it."""

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from pitb.breadth.judge import Outcome, Row
from pitb.breadth.laws import law

if TYPE_CHECKING:
    import pyarrow as pa

_TYPE_NAMES = {int: "int64", float: "double", str: "string"}
ROW_COLUMNS = {name: _TYPE_NAMES[kind] for name, kind in Row.__annotations__.items()}
"""The columns of ``rows.parquet``, by Arrow's names of their types; none is nullable."""


@cache
def row_schema() -> "pa.Schema":
    """The columns as Arrow has them."""
    import pyarrow as pa

    fields = [(name, pa.type_for_alias(kind)) for name, kind in ROW_COLUMNS.items()]
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in fields])


def outcome_record(outcome: Outcome, kind: str, because: list[str]) -> dict[str, Any]:
    """One outcome, with its explanation and the case that it is of."""
    case = outcome.case
    needed = max((row.needed / row.tolerance for row in outcome.rows), default=0.0)
    return {
        "case": case.name,
        "suite": case.suite,
        "optimizer": case.optimizer,
        "set": case.set,
        "problem": case.problem,
        "dtype": case.dtype,
        "steps": case.steps,
        "lr": case.lr,
        "pair": outcome.pair,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "explanation": kind,
        "because": because,
        "law": law(case, outcome.pair).name,
        "needed": plain(needed),
        "nonfinite": list(outcome.nonfinite),
    }


def plain(value: Any) -> Any:
    """As JSON has it: what is not finite as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value
