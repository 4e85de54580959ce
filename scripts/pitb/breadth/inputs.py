"""What the scripts of the breadth read of one another, checked as it is read.

Each function raises `PitbError` with file and key where a file is missing, malformed, or not what
it is taken for. Types of the fields are those of the dataclasses that were written.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pitb import schedulers, schema
from pitb.breadth.cases import Case
from pitb.breadth.covered import Field, Row
from pitb.breadth.judge import UNDECIDED
from pitb.breadth.phases import IMPOSSIBLE, Plan
from pitb.compare import ERROR, MISMATCH, OK
from pitb.errors import PitbError
from pitb.registry import by_pytorch_name, optimizers

if TYPE_CHECKING:
    import pyarrow as pa

TEXT: schema.Schema = {"type": "string"}
OBJECT: schema.Schema = {"type": "object"}
LIST: schema.Schema = {"type": "array"}
INTEGER: schema.Schema = {"type": "integer"}
Record = dict[str, Any]


def _side() -> schema.Schema:
    """What one side trains, or why it cannot."""
    return {
        "type": "object",
        "if": {"required": [IMPOSSIBLE]},
        "then": schema.having(**{IMPOSSIBLE: TEXT}),
        "else": schema.SPEC,
    }


def _sides(item: schema.Schema) -> schema.Schema:
    return schema.having(pytorch=item, burn=item)


def plan_schema() -> schema.Schema:
    """Of what :func:`pitb.breadth.plan.plan` makes."""
    entry = schema.having(
        case=schema.fields_of(Case),
        options=_sides(OBJECT),
        groups=schema.listed(schema.having(resolved=OBJECT)),
        rates=_sides(schema.listed({"type": "number"})),
        pytorch=_side(),
        burn=_side(),
    )
    problem = schema.having(model=TEXT, parameters=schema.listed(OBJECT))
    return schema.having(
        problems=schema.named(problem), defaults=schema.named(OBJECT), cases=schema.named(entry)
    )


VERDICTS = (OK, MISMATCH, ERROR, IMPOSSIBLE, UNDECIDED)
"""Of a pair, all that there are."""
OUTCOME = schema.having(
    **dict.fromkeys(("case", "suite", "optimizer", "set", "problem", "dtype", "pair"), TEXT),
    **dict.fromkeys(("reason", "explanation", "law"), TEXT),
    verdict={"enum": list(VERDICTS)},
    steps=INTEGER,
    lr={"type": "number"},
    because=schema.listed(TEXT),
    needed=schema.NUMBER,
    nonfinite=schema.listed(INTEGER),
)
"""Of what :func:`pitb.breadth.records.outcome_record` makes."""


def read_plan(path: Path) -> Plan:
    """A plan."""
    found: Plan = schema.read(path, plan_schema())
    for name, entry in found["cases"].items():
        try:
            optimizer = by_pytorch_name(entry["case"]["optimizer"])
        except PitbError as error:
            raise PitbError(f"{path}: cases.{name}.case.optimizer: {error}") from None
        for side, options in entry["options"].items():
            for item in optimizer.hyperparameters:
                base = item.pytorch.partition("[")[0]
                if base not in options:
                    raise PitbError(f"{path}: cases.{name}.options.{side} lacks the key '{base}'")
    return found


def read_defaults(path: Path) -> Record:
    """burn's defaults, as ``optdef --defaults`` prints them."""
    configs = {entry.burn_config: schema.having(fields=OBJECT) for entry in optimizers()}
    found: Record = schema.read(path, schema.having(**configs))
    return found


def read_outcomes(path: Path) -> list[Record]:
    """What became of each case and pair of one optimizer."""
    found: list[Record] = schema.read(path, schema.listed(OUTCOME))
    return found


def read_kills(path: Path) -> list[Record]:
    """What became of each mutant of one optimizer."""
    from pitb.breadth.mutants import Kill

    found: list[Record] = schema.read(path, schema.listed(schema.fields_of(Kill)))
    return found


def read_papers(path: Path) -> list[Record]:
    """How the implementations of one optimizer relate to its paper."""
    from pitb.breadth.papers import Row as PaperRow

    found: list[Record] = schema.read(path, schema.listed(schema.fields_of(PaperRow)))
    return found


def read_rows(path: Path, columns: Iterable[str] | None = None, filters: Any = None) -> "pa.Table":
    """The steps of one optimizer that were judged, or some of their columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from pitb.breadth.records import row_schema

    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    try:
        found = pq.read_schema(path)
        for field in row_schema():
            position = found.get_field_index(field.name)
            if position < 0:
                raise PitbError(f"{path} lacks the column '{field.name}'")
            if found.field(position).type != field.type:
                kind = found.field(position).type
                raise PitbError(f"{path}: column '{field.name}' is {kind}, not {field.type}")
        names = None if columns is None else list(columns)
        table = pq.read_table(path, columns=names, filters=filters)
        table.validate(full=True)  # text that is no UTF-8 is an error here, not later
        return table
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["malformed"])[0]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None


def read_coverage(path: Path) -> dict[str, list[Record]]:
    """What covers PyTorch's configurations and both sides' options."""
    rows, fields = (schema.listed(schema.fields_of(kind)) for kind in (Row, Field))
    found: dict[str, list[Record]] = schema.read(path, schema.having(rows=rows, fields=fields))
    return found


def read_schedules(path: Path) -> Record:
    """What was judged of the schedules."""
    wanted = schema.having(
        rows=schema.listed(schema.fields_of(schedulers.Row)),
        kills=schema.listed(schema.having(mutant=TEXT, flagged=LIST)),
        schedulers=schema.listed(schema.having(side=TEXT, name=TEXT)),
        totals=schema.named(schema.named(INTEGER)),
    )
    found: Record = schema.read(path, wanted)
    return found


def read_findings(path: Path) -> list[Record]:
    """The findings as :func:`pitb.breadth.finding.plain` made them."""
    from pitb.breadth.finding import Finding

    found: list[Record] = schema.read(path, schema.listed(schema.fields_of(Finding)))
    return found
