"""A batch of a sweep trained on one side, into one file."""

import argparse
import tempfile
from pathlib import Path

from pitb import arguments as command_line
from pitb import programs
from pitb.errors import PitbError
from pitb.files import write_json
from pitb.problems import problem
from pitb.sweeps import dataset, plan
from pitb.sweeps.plan import Batch
from pitb.trace import Trace


def parser(doc: str | None, examples: str) -> argparse.ArgumentParser:
    """What the scripts that train a batch take."""
    found = command_line.parser(doc, examples)
    found.add_argument("batch", help="the batch, such as 0of1")
    found.add_argument("--plan", type=Path, required=True, help="the folder of the plan")
    found.add_argument("--digest", help="digest that the batch must have")
    found.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    return found


def batch_of(arguments: argparse.Namespace) -> Batch:
    """The batch that a command line names.

    Raises:
        PitbError: As `pitb.sweeps.plan.read_batch`.
    """
    return plan.read_batch(arguments.plan, arguments.batch, arguments.digest)


def train_pytorch(batch: Batch, path: Path) -> None:
    """Train PyTorch's side of a batch. What it cannot do is written down as refused.

    Raises:
        PitbError: The file cannot be written.
    """
    # Takes seconds, so only once there is something to train.
    import torch

    from pitb import pytorch

    torch.set_num_threads(1)
    with dataset.writing(path, "pytorch") as writer:
        for name, point in batch["points"].items():
            try:
                found = pytorch.train(point.pytorch_spec())
            except PitbError as error:
                # It begins with the run, which is called by its digest there.
                writer.refuse(name, str(error).partition(": ")[2] or str(error))
                continue
            writer.add(name, found)


def train_burn(batch: Batch, program: Path, path: Path) -> None:
    """Train burn's side of a batch by its program; as `train_pytorch`.

    Raises:
        PitbError: The program fails or leaves out a run, or the file cannot be written.
    """
    specs, names, reasons = [], {}, {}
    for name, point in batch["points"].items():
        try:
            spec = point.burn_spec()
        except PitbError as error:
            reasons[name] = str(error)
            continue
        specs.append(spec)
        names[spec["id"]] = name
    used = sorted({spec["problem"] for spec in specs})
    with tempfile.TemporaryDirectory() as folder, dataset.writing(path, "burn") as writer:
        listed, together = Path(folder) / "runs.json", Path(folder) / "batch.parquet"
        value = {"problems": {name: problem(name).json() for name in used}, "runs": specs}
        found: dict[str, object] = {}
        if specs:
            write_json(listed, value, indent=None)
            programs.run([program.resolve(), "--batch", listed, "--out", together])
            programs.check_whole([together], program.name)
            found = dict(dataset.read_together(together))
        if set(found) != set(names):
            lost = sorted(set(names) ^ set(found))[0]
            raise PitbError(f"{program.name} left out or added the run {names.get(lost, lost)}")
        of = {name: found[identity] for identity, name in names.items()}
        for name in batch["points"]:
            outcome = of.get(name, reasons.get(name))
            if isinstance(outcome, Trace):
                writer.add(name, outcome)
            else:
                writer.refuse(name, str(outcome))
