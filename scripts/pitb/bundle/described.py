"""Whether a bundle's own files agree: manifest, hash, description, what varies, and the crate."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pitb import schema
from pitb.bundle.contents import (
    CRATE,
    DESCRIPTION,
    FORMAT,
    MANIFEST,
    MEASURED,
    hash_in_name,
)
from pitb.bundle.inside import read_json, read_text
from pitb.bundle.packing import digest, json_bytes, name_hash
from pitb.bundle.report import Report
from pitb.errors import PitbError

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_TEXT: schema.Schema = {"type": "string"}
_TEXTS = schema.listed(_TEXT)
SCHEMA = schema.having(
    format={"type": "integer"},
    pitb=_TEXT,
    commit=_TEXT,
    date=_TEXT,
    differs_from_commit=_TEXTS,
    configuration=schema.having(files=_TEXTS, overrides={"type": "object"}),
    parts=schema.listed(schema.having(name=_TEXT, files={"type": "integer"})),
    left_out=schema.listed(schema.having(path=_TEXT, why=_TEXT)),
    varies=_TEXT,
    versions={"type": "object", "additionalProperties": _TEXT},
    result=_TEXT,
)
"""Of ``bundle.json``."""
MEASURED_SCHEMA = schema.having(
    measured=schema.having(
        machine={"type": "object"},
        jobs=schema.listed({"type": "object"}),
        benchmarks={"type": "object"},
        logs={"type": "object"},
    ),
    sha256=_TEXT,
)
"""Of ``measured.json``."""


@dataclass
class Listed:
    """What the manifest says."""

    hashes: dict[str, str] = field(default_factory=dict)
    sound: set[str] = field(default_factory=set)
    """The files whose checksum is right."""


def check_manifest(folder: Path, names: Sequence[str], report: Report) -> Listed:
    """Every file has the checksum that the manifest says, none is missing, none was added.

    Raises:
        PitbError: There is no manifest, so this is no bundle.
    """
    if MANIFEST not in names or DESCRIPTION not in names:
        lacks = MANIFEST if MANIFEST not in names else DESCRIPTION
        raise PitbError(f"{report.bundle} is no bundle of pitb's: it has no {lacks}")
    listed = Listed()
    text = read_text(folder, MANIFEST)
    previous = ""
    for number, line in enumerate(text.split("\n")[:-1], start=1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] <= previous:
            report.fault(f"{MANIFEST}, line {number}", "it is no checksum and name, in order")
            continue
        previous = match[2]
        listed.hashes[match[2]] = match[1]
    if text and not text.endswith("\n"):
        report.fault(MANIFEST, "its last line does not end")
    for name, expected in listed.hashes.items():
        if not (folder / name).is_file() or name not in names:
            report.fault(name, "it is missing: the manifest lists it")
            continue
        report.checked["checksums"] += 1
        found = digest(folder / name)
        if found == expected:
            listed.sound.add(name)
        else:
            report.fault(name, f"its SHA-256 is {found}, but the manifest says {expected}")
    for name in names:
        if name not in listed.hashes and name not in (MANIFEST, MEASURED):
            report.fault(name, "it was added: the manifest does not list it")
    return listed


def check_name(path: Path, folder: Path, report: Report) -> None:
    """The hash in the bundle's name is that of its manifest."""
    report.hash = name_hash((folder / MANIFEST).read_bytes())
    claimed = hash_in_name(path.name)
    if claimed is None:
        report.notes.append(
            "its file's name carries no hash to hold it against; compare the hash above with the "
            "one you were told"
        )
    elif claimed != report.hash:
        report.fault(
            path.name,
            f"its name says hash {claimed}, but that of its manifest is {report.hash}: what is "
            "inside is not what was given that name",
        )


def check_measured(folder: Path, names: Sequence[str], report: Report) -> None:
    """What varies is in the form that it was written in, and has its own checksum."""
    if MEASURED not in names:
        report.fault(MEASURED, "it is missing")
        return
    found = read_json(folder, MEASURED)
    report.checked["checksums"] += 1
    wrong = schema.first_error(found, MEASURED_SCHEMA)
    if (folder / MEASURED).read_bytes() != json_bytes(found):
        report.fault(MEASURED, "it was edited: it is not in the form that it is written in")
    elif wrong is not None:
        report.fault(MEASURED, f"it is not what a run leaves behind: {wrong[1]}")
    elif found["sha256"] != hashlib.sha256(json_bytes(found["measured"])).hexdigest():
        report.fault(MEASURED, "its content has not the SHA-256 that it says")


def description(folder: Path) -> dict[str, Any]:
    """``bundle.json``.

    Raises:
        PitbError: It is malformed, or of another format.
    """
    found: dict[str, Any] = read_json(folder, DESCRIPTION)
    if found.get("format") != FORMAT:
        raise PitbError(
            f"{DESCRIPTION} says format {found.get('format')!r}; this version of pitb reads "
            f"{FORMAT}"
        )
    wrong = schema.first_error(found, SCHEMA)
    if wrong is not None:
        raise PitbError(f"{DESCRIPTION}: {wrong[1]}")
    return found


def check_crate(
    folder: Path,
    names: Sequence[str],
    told: Mapping[str, Any],
    listed: Listed,
    report: Report,
) -> None:
    """The crate describes these files with these checksums, and refers to nothing that is not."""
    if CRATE not in names:
        report.fault(CRATE, "it is missing")
        return
    graph = read_json(folder, CRATE).get("@graph")
    if not isinstance(graph, list) or not all(
        isinstance(item, dict) and isinstance(item.get("@id"), str) for item in graph
    ):
        raise PitbError(f"{CRATE} has no @graph of entities with an @id each")
    entities = {item["@id"]: item for item in graph}
    report.checked["entities of the crate"] += len(graph)
    if len(entities) != len(graph):
        report.fault(CRATE, "it has two entities with one @id")
    _check_files(folder, entities, names, listed, report)
    for item in graph:
        for key, target in _references(item):
            if target not in entities and not target.startswith(("http://", "https://")):
                report.fault(CRATE, f"{item['@id']}: {key} refers to {target}, which is not there")
    _check_told(entities, told, report)


def _check_files(
    folder: Path,
    entities: Mapping[str, Mapping[str, Any]],
    names: Sequence[str],
    listed: Listed,
    report: Report,
) -> None:
    described = {name: item for name, item in entities.items() if "File" in _types(item)}
    by_name = {_unquoted(name): item for name, item in described.items()}
    for name, item in by_name.items():
        if name not in names:
            report.fault(CRATE, f"it describes {name}, which is not in the bundle")
        elif item.get("sha256") != listed.hashes.get(name) and name != MEASURED:
            report.fault(CRATE, f"it gives {name} another SHA-256 than the manifest does")
        elif name != MEASURED and item.get("contentSize") != str((folder / name).stat().st_size):
            report.fault(CRATE, f"it gives {name} another size than it has")
    for name in names:
        if name not in by_name and name not in (CRATE, MANIFEST):
            report.fault(CRATE, f"it does not describe {name}")


def _check_told(
    entities: Mapping[str, Mapping[str, Any]], told: Mapping[str, Any], report: Report
) -> None:
    """What the crate says of versions, date and result is what ``bundle.json`` says."""
    expected = {("./", "datePublished"): told["date"], ("./", "version"): told["pitb"]}
    expected |= {("#run", "description"): told["result"]}
    for name, version in told["versions"].items():
        expected["#" + name, "softwareVersion"] = version
    for (identifier, key), value in expected.items():
        found = entities.get(identifier, {}).get(key)
        if found != value:
            report.fault(
                CRATE, f"{identifier} has {key} {found!r}, but {DESCRIPTION} says {value!r}"
            )


def _types(item: Mapping[str, Any]) -> list[Any]:
    found = item.get("@type")
    return found if isinstance(found, list) else [found]


def _unquoted(identifier: str) -> str:
    from urllib.parse import unquote

    return unquote(identifier)


def _references(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What an entity refers to: the key, and the @id that stands there."""
    for key, value in item.items():
        for found in value if isinstance(value, list) else [value]:
            if isinstance(found, dict) and isinstance(found.get("@id"), str):
                yield key, found["@id"]
