"""Files that are whole or not there: written under a temporary name, then renamed."""

import contextlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pitb.errors import PitbError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``; what was written there takes its place at the end.

    Raises:
        PitbError: The folder cannot be made or the file cannot be written.
    """
    if path.is_dir():
        raise PitbError(f"cannot write {path}: it is a folder")
    if path.exists() and not path.is_file():
        yield path  # a device or a pipe, which is written to and not replaced
        return
    target = path.resolve()  # what a link points to, not the link
    temporary = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):  # the error that counts is the one before
            temporary.unlink()
        raise PitbError(f"cannot write {path}: {error.strerror or error}") from error


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8 with Unix line ends."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write ``value`` as JSON, indented unless told; refuses NaN, which JSON does not have."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")


def check_is_file(path: Path) -> None:
    """Refuse what is no file.

    Raises:
        PitbError: There is nothing, or a folder.
    """
    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")


def read_text(path: Path) -> str:
    """The text of a UTF-8 file.

    Raises:
        PitbError: The file is missing, is no file, cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PitbError(f"{path} does not exist") from None
    except OSError as error:
        raise PitbError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PitbError(f"{path} is not UTF-8 text (byte {error.start})") from None


def read_json(path: Path) -> Any:
    """The value of a JSON file.

    Raises:
        PitbError: The file cannot be read or is not JSON; the sentence names the line.
    """
    try:
        return json.loads(read_text(path), object_pairs_hook=_unrepeated)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise PitbError(f"{path} is not valid JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise PitbError(f"{path} is not usable JSON: it is nested too deeply") from None
    except ValueError as error:
        raise PitbError(f"{path} is not usable JSON: {error}") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are all different; Python lets the last one win."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} is given twice")
    return found
