"""Python's search for reference cycles, put off where very many objects without any are made."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Search for no cycles meanwhile: each search goes through all objects that there are by then.

    Only one that was on before is on again after.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
