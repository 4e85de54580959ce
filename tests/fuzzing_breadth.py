"""The readers of the field's files, of sheets, bundles and checkpoints, for fuzzing.py."""

import json
from dataclasses import is_dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pitb import schedulers, schema, trace
from pitb.breadth import inputs, records
from pitb.breadth.covered import Field, Row
from pitb.breadth.finding import Finding
from pitb.breadth.mutants import Kill
from pitb.breadth.papers import Row as Paper
from pitb.bundle import inside
from pitb.diagnose import recording
from pitb.docs import sheets, source
from pitb.registry import by_pytorch_name, optimizers


def example(of):
    """A value that is as a schema says, or as that of a dataclass does."""
    if is_dataclass(of):
        of = schema.fields_of(of)
    if "enum" in of:
        return of["enum"][0]
    if of == schema.NUMBER:
        return 0.25
    kind = of.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        names = of.get("required", ["x"] if of.get("minProperties") else [])
        others = of.get("additionalProperties")
        known = dict.fromkeys(names, others) if isinstance(others, dict) else {}
        known |= of.get("properties", {})
        return {name: example(known[name]) for name in names}
    if kind == "array":
        return [example(of["items"])] if "items" in of else []
    return {"string": "x", "integer": 3, "number": 0.5, "boolean": True}.get(kind, 1)


def a_plan():
    found = example(inputs.plan_schema())
    (entry,) = found["cases"].values()
    entry["case"]["optimizer"] = "SGD"
    side = {"id": "x", "optimizer": "SGD", "options": {"momentum": 0.9}, "lr": 0.1, "steps": 3}
    entry |= {"pytorch": side, "burn": side}
    names = [item.pytorch.partition("[")[0] for item in by_pytorch_name("SGD").hyperparameters]
    entry["options"] = {name: dict.fromkeys(names, 0) for name in ("pytorch", "burn")}
    return found


def a_schedule():
    return {
        "rows": [example(schedulers.Row)],
        "kills": [{"mutant": "x", "flagged": ["y"]}],
        "schedulers": [{"side": "burn", "name": "x"}],
        "totals": {"burn": {"OK": 1}},
    }


def rows(folder):
    found = {"string": "x", "int32": 3, "int64": 3, "double": 0.5, "bool": True}
    wanted = records.row_schema()
    path = folder / "seed"
    one = {field.name: found.get(str(field.type), 1) for field in wanted}
    pq.write_table(pa.Table.from_pylist([one] * 3, schema=wanted), path, compression="none")
    return path.read_bytes()


def read_rows(path):
    inputs.read_rows(path).to_pylist()


def read_sheet(path):
    sheets.read(source.Folder(path.parent), path.stem)


def read_inside(path):
    inside.read_json(path.parent, path.name)


def read_diagnosed(path):
    recording.load(path)


def a_recording(folder):
    recorder = trace.Recorder()
    value = np.array([1.0, -2.5, 0.5, 4.0], dtype=np.float32)
    recorder.add(0, "param", value, "float32", "w")
    for step in (1, 2, 3):
        gradient = np.float32(step) * np.array([0.5, 0.25, -1.0, 2.0], dtype=np.float32)
        value = value - np.float32(0.1) * gradient
        recorder.add(step, "grad", gradient, "float32", "w")
        recorder.add(step, "param", value, "float32", "w")
    path = folder / "seed"
    trace.write(recorder.trace({"schema": trace.SCHEMA_VERSION, "run": "pytorch/x"}), path)
    return path.read_bytes()


def _parts():
    import torch

    from pitb.problems import problem
    from pitb.torch_checkpoint import Parts
    from pitb.torch_models import Model

    model = Model(problem("single"), torch.float32)
    return Parts(model, "float32", [torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)], [])


def read_checkpoint(path):
    from pitb import torch_checkpoint

    torch_checkpoint.load(path, _parts(), 3)


def a_checkpoint(folder):
    from pitb import torch_checkpoint

    torch_checkpoint.save(folder / "seed", _parts(), 3)
    return (folder / "seed").read_bytes()


def _as_json(value, _folder):
    return json.dumps(value, indent=1).encode()


JSON = {
    "plan": (inputs.read_plan, a_plan()),
    "defaults": (
        inputs.read_defaults,
        {item.burn_config: {"fields": {"epsilon": 1e-5}} for item in optimizers()},
    ),
    "outcomes": (inputs.read_outcomes, [example(inputs.OUTCOME)]),
    "kills": (inputs.read_kills, [example(Kill)]),
    "papers": (inputs.read_papers, [example(Paper)]),
    "coverage": (inputs.read_coverage, {"rows": [example(Row)], "fields": [example(Field)]}),
    "schedules": (inputs.read_schedules, a_schedule()),
    "findings": (inputs.read_findings, [example(Finding)]),
    "inside": (read_inside, {"name": "x", "files": [{"path": "y", "size": 1.5}], "z": None}),
}
READERS = {name: (read, partial(_as_json, value)) for name, (read, value) in JSON.items()}
READERS |= {
    "diagnosed": (read_diagnosed, a_recording),
    "rows": (read_rows, rows),
    "sheet": (read_sheet, lambda _: b'a,b,c\nSGD,"x, y",0.123456789\nAdam,z,1e-7\n'),
    "checkpoint": (read_checkpoint, a_checkpoint),
}
SUFFIXES = {**dict.fromkeys(JSON, ".json"), "sheet": ".csv", "checkpoint": ".pt"}
