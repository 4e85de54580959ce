"""Judge the breadth of one optimizer: libraries against the reference and each other, mutants."""

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pitb import arguments as command_line
from pitb import trace
from pitb.breadth import inputs, papers, records
from pitb.breadth.explain import explain
from pitb.breadth.judge import Judge
from pitb.breadth.mutants import Hunt
from pitb.errors import PitbError, nearest, run_main
from pitb.files import replacing, write_json
from pitb.registry import optimizers

EXAMPLES = """  python scripts/judge_breadth.py adam --plan results/breadth-slice/plans/adam.json \\
    --traces results/breadth-slice/traces/adam --out results/breadth-slice/judged/adam"""


def main() -> None:
    parser = command_line.parser(__doc__, EXAMPLES)
    parser.add_argument("optimizer", help="the optimizer's key, adamw")
    parser.add_argument("--plan", type=Path, required=True, help="the plan, as JSON")
    parser.add_argument("--traces", type=Path, required=True, help="the folder of its traces")
    parser.add_argument("--out", type=Path, required=True, help="the folder for what is found")
    arguments = parser.parse_args()
    keys = {item.key: item.pytorch for item in optimizers()}
    if arguments.optimizer not in keys:
        near = nearest(arguments.optimizer, keys)
        raise PitbError(f"there is no optimizer {arguments.optimizer!r}; nearest: {near!r}")
    name = keys[arguments.optimizer]
    judge = Judge(inputs.read_plan(arguments.plan), arguments.traces)
    if any(entry["case"]["optimizer"] != name for entry in judge.entries()):
        raise PitbError(f"{arguments.plan} is not the plan of {name}")
    rows, outcomes = [], []
    for entry in judge.entries():
        for outcome in judge.outcomes(entry):
            kind, because = explain(judge, entry, outcome)
            rows += [asdict(row) for row in outcome.rows]
            outcomes.append(records.outcome_record(outcome, kind, because))
    for run in judge.references():
        side = arguments.traces / "reference"
        trace.write(run, side / f"{run.run.partition('/')[2]}.parquet")
    print(f"{name}: {len(outcomes)} pairs judged", flush=True)
    kills = [asdict(kill) for kill in Hunt(judge).kills(name)]
    print(f"{name}: {len(kills)} mutants hunted", flush=True)
    found = [asdict(row) for row in papers.rows(judge, name)]
    with replacing(arguments.out / "rows.parquet") as path:
        pq.write_table(pa.Table.from_pylist(rows, schema=records.row_schema()), path)
    write_json(arguments.out / "outcomes.json", outcomes, indent=None)
    write_json(arguments.out / "papers.json", records.plain(found), indent=None)
    write_json(arguments.out / "kills.json", records.plain(kills), indent=None)


if __name__ == "__main__":
    run_main(main)
