"""Writing a bundle: the same files give the same bytes, whenever and wherever they are packed."""

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pitb.bundle import names
from pitb.bundle.contents import HASH_DIGITS, MANIFEST, MEASURED
from pitb.errors import PitbError
from pitb.files import replacing

TIME = (1980, 1, 1, 0, 0, 0)
"""Of every entry; the earliest that a zip can hold."""
MODE = 0o100644
"""Of every entry: a plain file."""
LEVEL = 6
"""Of zlib's compression."""

Content = Path | bytes


def json_bytes(value: Any) -> bytes:
    """JSON in the one form that bundles have it in: a reader can tell that nothing was edited."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False, sort_keys=True)
    return (text + "\n").encode()


def digest(content: Content) -> str:
    """SHA-256 of a file or of bytes."""
    if isinstance(content, bytes):
        return hashlib.sha256(content).hexdigest()
    try:
        with content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PitbError(f"cannot read {content}: {error.strerror or error}") from None


def manifest(files: Mapping[str, Content]) -> bytes:
    """A line for each file but `MEASURED`, as ``sha256sum`` prints and checks it."""
    lines = [f"{digest(files[name])}  {name}\n" for name in sorted(files) if name != MEASURED]
    return "".join(lines).encode()


def name_hash(manifest_bytes: bytes) -> str:
    """The hash that names a bundle: the first digits of the manifest's SHA-256."""
    return hashlib.sha256(manifest_bytes).hexdigest()[:HASH_DIGITS]


def sealed(measured: Any) -> bytes:
    """`MEASURED` with its own checksum, since no other file may depend on it."""
    return json_bytes({"measured": measured, "sha256": digest(json_bytes(measured))})


def write(files: Mapping[str, Content], path: Path) -> None:
    """Write a zip of these files, in order of their names.

    Raises:
        PitbError: A name is none that every system has, or a file cannot be read or written.
    """
    names.check(sorted(files), str(path))
    with (
        replacing(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive,
    ):
        for name in sorted(files):
            content = files[name]
            entry = zipfile.ZipInfo(name, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, wherever it is written
            entry.external_attr = MODE << 16
            data = content if isinstance(content, bytes) else content.read_bytes()
            archive.writestr(entry, data, compresslevel=LEVEL)


def pack(files: Mapping[str, Content], folder: Path, version: str) -> Path:
    """Add the manifest, and write ``pitb-<version>-<hash>.zip`` into ``folder``."""
    listed = manifest(files)
    path = folder / f"pitb-{version}-{name_hash(listed)}.zip"
    write({**files, MANIFEST: listed}, path)
    return path
