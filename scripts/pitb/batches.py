"""What one process does: batches of runs, of evidence and of comparisons, as JSON has them."""

from collections.abc import Iterator
from typing import Any

from pitb.config import Config, Run
from pitb.results import evidence_path, step_json_path, trace_path

TRAIN_STEP = "train-step"
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
            "evidence": [],
        }
    next(iter(batches.values()))["evidence"] = list(PYTORCH_EVIDENCE)
    return batches


def burn_batches(config: Config, program: str) -> dict[str, Batch]:
    """One for each process of one burn program."""
    return {
        f"burn-{program}-{number}": {"runs": [_spec(run) for run in runs]}
        for number, runs in config.batches("burn", program).items()
    }


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


def without_sources(batch: Batch) -> Batch:
    """The batch without the lines that its runs stand in, which change nothing."""
    runs = [{k: v for k, v in run.items() if k != "source"} for run in batch.get("runs", ())]
    return {**batch, "runs": runs}


def _spec(run: Run) -> dict[str, Any]:
    return {**run.spec, "source": run.source}
