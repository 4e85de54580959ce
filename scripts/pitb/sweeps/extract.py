"""One run of a sweep as two traces of their own."""

from pathlib import Path
from typing import Any

from pitb import trace
from pitb.errors import PitbError, nearest
from pitb.sweeps import dataset
from pitb.sweeps.plan import SIDES


def find(folder: Path, run: str) -> str:
    """The batch of a run.

    Raises:
        PitbError: The folder is no sweep's, or has no such run; names the nearest.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / "runs.parquet"
    if not path.is_file():
        raise PitbError(f"{path} does not exist; make sweep writes it")
    try:
        with pq.ParquetFile(path, memory_map=False) as file:
            table = file.read(columns=["run", "batch"], use_threads=False)
        columns = [column.to_pylist() for column in table.columns]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["malformed"])[0]
        raise PitbError(f"{path} is not a readable Parquet file: {first}") from None
    batches: dict[str, Any] = {}
    if len(columns) == 2:
        batches = {str(name): batch for name, batch in zip(*columns, strict=True)}
    if not batches:
        raise PitbError(f"{path} is no table of a sweep's runs")
    if run not in batches:
        # Looking through all of many takes long, and the digest at the end says the most.
        likely = [name for name in batches if name[:5] == run[:5]] or list(batches)
        near = nearest(run, likely[:2000])
        raise PitbError(f"{path} has no run {run!r}; nearest: {near!r}")
    return str(batches[run])


def extract(folder: Path, run: str, out: Path) -> list[Path]:
    """Write the traces of a run below ``out``, ``<side>/<run>.parquet``.

    Raises:
        PitbError: There is no such run, a side did not train it, or a file cannot be written.
    """
    batch = find(folder, run)
    found = [dataset.read(folder / "traces" / f"{side}-{batch}.parquet") for side in SIDES]
    traces = [side.trace(run) for side in found]
    paths = [out / side / f"{run}.parquet" for side in SIDES]
    for one, path in zip(traces, paths, strict=True):
        trace.write(one, path)
    return paths
