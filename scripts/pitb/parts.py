"""A trace as a folder of parts, so that a training that is killed leaves what it recorded.

Each part is a whole trace file (`pitb.trace`), named ``part-000000.parquet`` and so on, and is
renamed to that name once it is written. Its metadata has, beside what every trace has, ``part``:

=============  ==================================================================================
``recording``  text of its own for each recording: parts of two are not mixed
``number``     the part's number, from 0
``finished``   whether this is the last part of a recording that was ended, not killed
=============  ==================================================================================

Read together the parts are one trace. Its metadata is that of the last part, without ``part``;
where the recording was not ended, ``unfinished`` says so, and how far it went.
"""

import itertools
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pitb import trace
from pitb.errors import PitbError
from pitb.trace import Entry, Key, Trace

NAME = "part-{:06d}.parquet"
_PART = re.compile(r"part-(\d{6,})\.parquet")
KEY = "part"
"""The key of a part's own metadata."""
UNFINISHED = "unfinished"
"""The key that says, of a trace that was read, that its recording was not ended."""


def part_path(folder: Path, number: int) -> Path:
    """The file of a part."""
    return folder / NAME.format(number)


def found_parts(folder: Path) -> list[Path]:
    """The parts in a folder, in order; hidden files and files of other kinds are not looked at.

    Raises:
        PitbError: A Parquet file is no part, or a number is missing; names it.
    """
    numbers: dict[int, Path] = {}
    for path in sorted(folder.glob("*.parquet")):
        match = _PART.fullmatch(path.name)
        if path.name.startswith("."):
            continue  # what a killed recording was writing
        if match is None or NAME.format(int(match[1])) != path.name:
            raise PitbError(
                f"{folder} is no trace in parts: {path.name} is not named like {NAME.format(0)}"
            )
        numbers[int(match[1])] = path
    for number, name in enumerate(sorted(numbers)):
        if number != name:
            raise PitbError(
                f"{folder} has {numbers[name].name} but not {NAME.format(number)}; a part is lost"
            )
    return [numbers[number] for number in sorted(numbers)]


def read(folder: Path, reader: Callable[[Path], Trace] | None = None) -> Trace:
    """Read a folder of parts as one trace.

    Args:
        folder: The folder.
        reader: What reads a part, where not all of it is wanted (default: `trace.read`).

    Raises:
        PitbError: There is no part, one is missing or no trace, they are not of one recording, or
            their steps do not follow each other; names the part.
    """
    paths = found_parts(folder)
    if not paths:
        raise PitbError(f"{folder} holds no part of a trace; the first would be {NAME.format(0)}")
    entries: list[Entry] = []
    values = []
    recording = None
    finished = False
    keys: set[Key] = set()
    rows = 0
    metadata: dict[str, Any] = {}
    for number, path in enumerate(paths):
        part = (reader or trace.read)(path)
        told = _told(part, path)
        recording = recording or told["recording"]
        if told["recording"] != recording:
            raise PitbError(f"{path} is of another recording than {paths[0].name}")
        if told["number"] != number:
            raise PitbError(f"{path} is part {told['number']} of its recording under another name")
        if finished:
            raise PitbError(f"{path} comes after {paths[number - 1].name}, which is the last part")
        for entry in part.entries:
            if entries and entry.step < entries[-1].step:
                raise PitbError(
                    f"{path} holds {entry.where}, and an earlier part step {entries[-1].step}"
                )
            if entry.key in keys:
                raise PitbError(f"{path} holds {entry.where}, as an earlier part does")
            keys.add(entry.key)
            entries.append(replace(entry, first_row=entry.first_row + rows))
        rows += len(part.values)
        values.append(part.values)
        finished = told["finished"]
        metadata = {key: value for key, value in part.metadata.items() if key != KEY}
    if not finished or "error" in metadata:
        last = max((entry.step for entry in entries), default=0)
        why = metadata.get("error", "it was killed, or is still going on")
        metadata[UNFINISHED] = f"recorded to step {last} and not ended: {why}"
    return Trace(entries, _joined(values), metadata, str(folder))


def _joined(values: Sequence[Any]) -> Any:
    """The values of all parts: an array, or where some are on disk, on disk."""
    if all(isinstance(one, np.ndarray) for one in values):
        return np.concatenate(values)
    from pitb.stream.stored import joined

    return joined(values)


def _told(part: Trace, path: Path) -> dict[str, Any]:
    """What a part says of itself."""
    told = part.metadata.get(KEY)
    kinds = {"recording": str, "number": int, "finished": bool}
    if not isinstance(told, dict) or any(
        type(told.get(key)) is not kind for key, kind in kinds.items()
    ):
        raise PitbError(
            f"{path} is a trace of its own, not a part of one: its metadata has no usable {KEY!r}"
        )
    return told


def write(whole: Trace, folder: Path, splits: Sequence[int] = ()) -> None:
    """Write a trace as parts, which `read` reads back as the same trace.

    Args:
        whole: The trace.
        folder: Where to; it must hold no part yet.
        splits: The numbers of entries at which a new part begins, in order.

    Raises:
        PitbError: The folder holds a part, or a file cannot be written.
    """
    if folder.is_dir() and found_parts(folder):
        raise PitbError(f"{folder} holds a trace already")
    recording = uuid.uuid4().hex
    bounds = [0, *splits, len(whole.entries)]
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        chosen = whole.entries[start:end]
        first = chosen[0].first_row if chosen else 0
        rows = sum(entry.count for entry in chosen)
        entries = [replace(entry, first_row=entry.first_row - first) for entry in chosen]
        last = number == len(bounds) - 2
        told = {"recording": recording, "number": number, "finished": last}
        part = Trace(entries, whole.values[first : first + rows], {**whole.metadata, KEY: told})
        trace.write(part, part_path(folder, number))
