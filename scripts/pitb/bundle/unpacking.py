"""Reading a zip that a stranger has sent: nothing that it says of itself is believed.

Before a byte is unpacked: the archive's own tables must be of plain files with plain names
(`pitb.bundle.names`), not encrypted, stored or deflated, each in a place of its own within the
file. While it is unpacked bytes are counted, whatever the tables say, and written below one folder.
"""

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pitb.bundle import names
from pitb.errors import PitbError

MOST_ENTRIES = 20_000
MOST_TABLE = 8 << 20
"""Bytes of the archive's table of files."""
MOST_BYTES = 512 << 20
"""Of all files together, unpacked."""
MOST_BYTES_EACH = 128 << 20
MOST_RATIO = 250
"""Of all bytes unpacked to all bytes packed, beyond `FREE_BYTES`; deflate itself allows 1032."""
FREE_BYTES = 16 << 20
_CHUNK = 1 << 16
_END = struct.Struct("<4s4H2LH")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x1 | 0x40 | 0x2000


@dataclass(frozen=True)
class Archive:
    """An archive whose tables were looked through."""

    path: Path
    entries: tuple[zipfile.ZipInfo, ...]
    file: zipfile.ZipFile

    def unpack(self, folder: Path) -> None:
        """Write all files below ``folder``, which must exist and be empty.

        Raises:
            PitbError: There is more than there may be, or a file is broken.
        """
        total = 0
        allowed = FREE_BYTES + MOST_RATIO * self.path.stat().st_size
        for entry in self.entries:
            target = folder.joinpath(*entry.filename.split("/"))
            target.parent.mkdir(parents=True, exist_ok=True)
            written = 0
            try:
                with self.file.open(entry) as source, target.open("xb") as sink:
                    while chunk := source.read(_CHUNK):
                        written += len(chunk)
                        total += len(chunk)
                        self._check_amount(entry, written, total, allowed)
                        sink.write(chunk)
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
                raise PitbError(
                    f"{self.path}: {entry.filename} cannot be unpacked: {_first(error)}"
                ) from None
            if written != entry.file_size:
                raise PitbError(
                    f"{self.path}: {entry.filename} has {written} bytes, not {entry.file_size} as "
                    "the archive says"
                )

    def _check_amount(self, entry: zipfile.ZipInfo, written: int, total: int, allowed: int) -> None:
        if written > MOST_BYTES_EACH or total > MOST_BYTES:
            most = f"{MOST_BYTES_EACH >> 20} MB a file and {MOST_BYTES >> 20} MB in all"
            raise PitbError(f"{self.path}: {entry.filename} unpacks to more than the {most}")
        if total > allowed:
            raise PitbError(
                f"{self.path} unpacks to more than {MOST_RATIO} times its size, at {entry.filename}"
            )


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """Open an archive whose tables are in order.

    Raises:
        PitbError: It is none, or something in its tables is not as above.
    """
    if not path.is_file():
        raise PitbError(f"{path} {'is not a file' if path.exists() else 'does not exist'}")
    size = path.stat().st_size
    _check_end(path, size)
    try:
        with zipfile.ZipFile(path) as file:
            entries = tuple(file.infolist())
            _check_entries(path, entries, file.start_dir)
            yield Archive(path, entries, file)
    except (zipfile.BadZipFile, NotImplementedError, struct.error, UnicodeDecodeError) as error:
        raise PitbError(f"{path} is not a readable zip: {_first(error)}") from None


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or ["malformed"])[0]


def _check_end(path: Path, size: int) -> None:
    """The record at the archive's end, before anything is read by what it says."""
    with path.open("rb") as file:
        file.seek(max(0, size - _END.size))
        tail = file.read(_END.size)
    if len(tail) < _END.size or not tail.startswith(b"PK\5\6"):
        raise PitbError(f"{path} is not a whole zip: its last {_END.size} bytes are no end record")
    _, disk, first_disk, here, entries, length, start, comment = _END.unpack(tail)
    if disk or first_disk or here != entries or comment:
        raise PitbError(f"{path} is a zip in several volumes, or with a comment at its end")
    if entries > MOST_ENTRIES or length > MOST_TABLE:
        raise PitbError(
            f"{path} holds {entries} files in a table of {length} bytes; at most {MOST_ENTRIES} in "
            f"{MOST_TABLE} are read"
        )
    if start + length != size - _END.size:
        raise PitbError(f"{path} is not a whole zip: its table of files is not at its end")


def _check_entries(path: Path, entries: tuple[zipfile.ZipInfo, ...], end: int) -> None:
    if len(entries) > MOST_ENTRIES:
        raise PitbError(f"{path} holds {len(entries)} files; at most {MOST_ENTRIES} are read")
    for entry in entries:
        # zipfile cuts names at a zero byte, and turns backslashes on some systems.
        if entry.orig_filename != entry.filename:
            raise PitbError(f"{path}: the name {entry.orig_filename[:80]!r} holds a zero byte")
    names.check([entry.filename for entry in entries], str(path))
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or entry.external_attr & 0x10:
            raise PitbError(f"{path}: {entry.filename} is a link or another file that is not plain")
        if entry.flag_bits & _ENCRYPTED:
            raise PitbError(f"{path}: {entry.filename} is encrypted")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise PitbError(
                f"{path}: {entry.filename} is packed by method {entry.compress_type}; only stored "
                "and deflated files are read"
            )
    _check_places(path, entries, end)


def _check_places(path: Path, entries: tuple[zipfile.ZipInfo, ...], end: int) -> None:
    """Each file has a place of its own: two that overlap could unpack to any amount."""
    last, before = 0, ""
    with path.open("rb") as file:
        for entry in sorted(entries, key=lambda entry: entry.header_offset):
            if entry.header_offset < last:
                raise PitbError(f"{path}: {entry.filename} and {before} overlap")
            file.seek(entry.header_offset)
            local = file.read(_LOCAL.size)
            if len(local) < _LOCAL.size or not local.startswith(b"PK\3\4"):
                raise PitbError(f"{path}: {entry.filename} is not where the archive says")
            *_, name_length, extra_length = _LOCAL.unpack(local)
            start = entry.header_offset + _LOCAL.size + name_length + extra_length
            last, before = start + entry.compress_size, entry.filename
            if last > end:
                raise PitbError(f"{path}: {entry.filename} reaches beyond the files' place")
