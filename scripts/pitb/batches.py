"""What one process does: batches of runs, of evidence and of comparisons, as JSON has them.

A process reads the configuration itself and picks its batch. The pipeline gives it the batch's
digest, so that editing one run reruns one batch, and no batch is trained of another configuration
than the pipeline has read.
"""

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pitb import arguments as command_line
from pitb.config import Config, Run, digest, load
from pitb.errors import PitbError, nearest
from pitb.results import evidence_path, step_json_path, trace_path

TRAIN_STEP = "train-step"
OVERRIDES = "PITB_CONFIG_OVERRIDES"
"""The environment variable that holds, as JSON, what was set on Snakemake's command line."""
PYTORCH_EVIDENCE = ("defaults/pytorch", "moves/pytorch")
"""What the first PyTorch batch records besides its runs: a process of its own would cost more
than all runs together."""

Batch = dict[str, Any]


def pytorch_batches(config: Config) -> dict[str, Batch]:
    """One for each process of PyTorch, for all programs, since starting torch is what costs."""
    batches: dict[str, Batch] = {}
    for number, runs in config.batches("pytorch").items():
        batches[f"pytorch-{number}"] = {
            "threads": config.threads,
            "runs": [{**_spec(run), "program": run.program} for run in runs],
            "evidence": [] if batches else list(PYTORCH_EVIDENCE),
        }
    return batches


def burn_batches(config: Config, program: str) -> dict[str, Batch]:
    """One for each process of one burn program."""
    return {
        f"burn-{program}-{number}": {"runs": [_spec(run) for run in runs], **_problems(runs)}
        for number, runs in config.batches("burn", program).items()
    }


def _problems(runs: Iterable[Run]) -> Batch:
    """The problems that runs name, as burn's programs read them; nothing where none does."""
    names = sorted({run.spec["problem"] for run in runs if "problem" in run.spec})
    if not names:
        return {}
    from pitb.problems import problem  # needs NumPy, which most configurations need not wait for

    return {"problems": {name: problem(name).json() for name in names}}


def pair_batches(config: Config) -> dict[str, Batch]:
    """One for each process that compares."""
    return {
        f"compare-{number}": {
            "pairs": [
                {
                    "a": pair.a,
                    "b": pair.b,
                    "quantities": list(pair.quantities),
                    "tolerance": pair.tolerance,
                    "initial_state_may_differ": pair.initial_state_may_differ,
                }
                for pair in pairs
            ]
        }
        for number, pairs in config.pair_batches().items()
    }


def all_batches(config: Config) -> dict[str, Batch]:
    """All batches by name."""
    batches = pytorch_batches(config)
    for program in config.programs("burn"):
        batches |= burn_batches(config, program)
    return batches | pair_batches(config)


def outputs(batch: Batch, program: str | None = None) -> Iterator[str]:
    """What a batch of runs writes, below the folder of results.

    Args:
        batch: The batch.
        program: The program that trains it, where its runs don't say so.
    """
    for run in batch["runs"]:
        yield trace_path(run["id"])
        if run.get("program", program) == TRAIN_STEP:
            yield step_json_path(run["id"])
    yield from map(evidence_path, batch.get("evidence", ()))


def digest_of(batch: Batch) -> str:
    """Changes when the batch does, though not when its runs move to other lines of the file."""
    runs = [{k: v for k, v in run.items() if k != "sources"} for run in batch.get("runs", ())]
    return digest([{**batch, "runs": runs}])


def parser(doc: str | None, examples: str) -> argparse.ArgumentParser:
    """A parser with examples and with the options that name a batch."""
    made = command_line.parser(doc, examples)
    made.add_argument("batch", help="name of the batch, such as pytorch-0")
    made.add_argument("--config", type=Path, nargs="+", required=True, help="YAML files")
    made.add_argument("--schema", type=Path, required=True, help="JSON schema of these")
    made.add_argument("--digest", help="digest that the batch must have")
    made.add_argument("--results", type=Path, required=True, help="folder of results")
    return made


def read(arguments: argparse.Namespace) -> Batch:
    """The batch that the command line names.

    Raises:
        PitbError: The configuration is wrong, has no such batch, or is not the one whose digest
            was given.
    """
    batches = all_batches(load(arguments.config, arguments.schema, overrides()))
    if arguments.batch not in batches:
        near = nearest(arguments.batch, batches)
        raise PitbError(f"there is no batch {arguments.batch!r}; the nearest is {near!r}")
    batch = batches[arguments.batch]
    if arguments.digest not in (None, digest_of(batch)):
        raise PitbError("the configuration was edited during the run; start the run again")
    return batch


def overrides() -> dict[str, Any]:
    """What Snakemake's --config sets, where a rule of the pipeline calls.

    Raises:
        PitbError: The environment holds something else.
    """
    try:
        found = json.loads(os.environ.get(OVERRIDES, "{}"))
    except json.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise PitbError(f"the environment variable {OVERRIDES} must be keys and values as JSON")
    return found


def _spec(run: Run) -> dict[str, Any]:
    return {**run.spec, "sources": run.sources}
