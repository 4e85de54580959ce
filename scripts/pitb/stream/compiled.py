"""Compares two files of the common kind in compiled code, where a checkout has built that.

That code is the crate ``pitb-compare``. It answers of traces of pitb's own writers that list the
same tensors, start from the same values and hold finite ones alone, to the bit as Python does; of
all else it says nothing, and Python goes on as if it had not been asked.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pitb import trace
from pitb.collection import put_off

# ctypes is imported where it is used, as most calls compare nothing.
if TYPE_CHECKING:
    import ctypes

ROOT = Path(__file__).resolve().parents[3]
SOURCES = ROOT / "native/pitb-compare/src"
_NAMES = {"darwin": "libpitb_compare.dylib", "win32": "pitb_compare.dll"}
LIBRARY = ROOT / "target/release" / _NAMES.get(sys.platform, "libpitb_compare.so")
_INTEGERS = 5
"""Columns of integers, which come first; six of doubles follow."""
_COLUMNS = 11


@dataclass(frozen=True)
class Found:
    """What was found of two traces."""

    runs: tuple[str, str]
    quantities: list[str]
    """Those that were compared."""
    hashes: dict[str, str]
    """Of each tensor that both start from."""
    rows: list[tuple[Any, ...]]
    """Of each compared tensor: step, quantity, tensor, number of values, index of the value that
    differs most, both sides' value there, absolute, ulp and relative difference, RMSE."""
    initial: int
    """Tensors that a run starts from."""
    rest: int
    """Tensors that nobody asked for."""


def library() -> "ctypes.CDLL | None":
    """The compiled code; None where there is none, or one of other sources than these."""
    return _loaded(LIBRARY)


@cache
def _loaded(path: Path) -> "ctypes.CDLL | None":
    import ctypes

    try:
        found = ctypes.CDLL(str(path))
        sources = b"".join(source.read_bytes() for source in sorted(SOURCES.glob("*.rs")))
        length = ctypes.c_size_t()
        found.pitb_sources.restype = ctypes.c_void_p
        start = found.pitb_sources(ctypes.byref(length))
        found.pitb_compare.restype = ctypes.c_void_p
        found.pitb_free.restype = None
        found.pitb_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    except (OSError, AttributeError):
        return None
    return found if ctypes.string_at(start, length.value) == sources else None


def compare(
    a: Path,
    b: Path,
    quantities: Sequence[str] | None,
    one_step: Sequence[str],
    long: Sequence[str],
    initial: Sequence[str],
) -> Found | None:
    """Compare two files; None is said of whatever is not of the common kind.

    Args:
        a: One file.
        b: The other.
        quantities: What to compare, if somebody said so.
        one_step: What otherwise of traces of one step.
        long: And of longer ones.
        initial: The quantities of step 0: what a run starts from.
    """
    code = library()
    if code is None:
        return None
    request = {
        "a": str(a),
        "b": str(b),
        "one_step": one_step,
        "long": long,
        "initial": initial,
        "format": {"schema": trace.SCHEMA_VERSION, "dtypes": trace.DTYPES},
    }
    if quantities:
        request["quantities"] = list(quantities)
    try:
        text = json.dumps(request, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return None  # a path that is no text
    import ctypes

    length = ctypes.c_size_t(len(text))
    start = code.pitb_compare(text, ctypes.byref(length))
    if start is None:
        return None
    try:
        return _read(ctypes.string_at(start, length.value))
    finally:
        code.pitb_free(start, length)


@put_off()
def _read(answer: bytes) -> Found:
    """An answer: the number of rows, a column after the other of 8 bytes a number, then JSON."""
    count = int.from_bytes(answer[:8], "little")
    end = 8 * (1 + _COLUMNS * count)
    said = json.loads(answer[end:])
    columns = np.frombuffer(answer, "<i8", _COLUMNS * count, 8).reshape(_COLUMNS, count)
    steps, quantity, tensor, *integers = columns[:_INTEGERS].tolist()
    names = said["names"]
    rows = zip(
        steps,
        map(names.__getitem__, quantity),
        map(names.__getitem__, tensor),
        *integers,
        *columns[_INTEGERS:].view("<f8").tolist(),
        strict=True,
    )
    return Found(
        runs=tuple(said["runs"]),
        quantities=said["quantities"],
        hashes=dict(said["hashes"]),
        rows=list(rows),
        initial=said["initial"],
        rest=said["rest"],
    )
