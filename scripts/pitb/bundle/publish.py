"""What an archive such as Zenodo asks for, from ``CITATION.cff``; and whether it is all there."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pitb
from pitb import schema, strict_yaml
from pitb.errors import PitbError
from pitb.files import read_text

_TEXT: schema.Schema = {"type": "string", "minLength": 1}
AUTHOR: schema.Schema = {
    "anyOf": [
        schema.having(name=_TEXT),
        schema.having(**{"family-names": _TEXT, "given-names": _TEXT}),
    ]
}
CITATION: schema.Schema = {
    **schema.having(
        **dict.fromkeys(
            ("cff-version", "message", "title", "abstract", "version", "license"), _TEXT
        ),
        type={"enum": ["software", "dataset"]},
        authors={**schema.listed(AUTHOR), "minItems": 1},
        keywords={**schema.listed(_TEXT), "minItems": 1},
    )
}
"""What ``CITATION.cff`` must have, of its format 1.2.0 and for a deposit."""
LICENSES = {"MIT": "MIT License"}
"""SPDX's names to the first line of the text."""


def citation(root: Path) -> dict[str, Any]:
    """``CITATION.cff``.

    Raises:
        PitbError: It is missing or malformed, or lacks what a deposit needs.
    """
    path = root / "CITATION.cff"
    found = strict_yaml.load(path).value
    if isinstance(found, dict):
        # A version such as 0.1 is a number to YAML.
        found = {
            key: str(value) if key in ("version", "cff-version") else value
            for key, value in found.items()
        }
    wrong = schema.first_error(found, CITATION)
    if wrong is not None:
        raise PitbError(f"{path}: {wrong[1]}")
    return dict(found)


def missing(root: Path) -> list[str]:
    """What is not there or not the same everywhere, a sentence each."""
    try:
        cited = citation(root)
    except PitbError as error:
        return [str(error)]
    return [*_license_faults(root, cited), *_version_faults(root, cited)]


def _license_faults(root: Path, cited: dict[str, Any]) -> list[str]:
    found = []
    try:
        text = read_text(root / "LICENSE")
    except PitbError as error:
        return [str(error)]
    name = cited["license"]
    if name not in LICENSES:
        known = ", ".join(LICENSES)
        found.append(f"CITATION.cff: the licence {name!r} is not one of those known here: {known}")
    elif (text.splitlines() or [""])[0].strip() != LICENSES[name]:
        found.append(f"LICENSE does not begin with {LICENSES[name]!r}, as CITATION.cff has it")
    for file, keys in (
        ("pyproject.toml", ("project", "license")),
        ("Cargo.toml", ("workspace", "package", "license")),
    ):
        try:
            value = _toml(root / file, keys)
        except PitbError as error:
            found.append(str(error))
            continue
        if value != name:
            found.append(f"{file}: {'.'.join(keys)} is {value!r}, but CITATION.cff has {name!r}")
    return found


def _version_faults(root: Path, cited: dict[str, Any]) -> list[str]:
    version = cited["version"]
    found = []
    places: dict[str, str] = {"scripts/pitb/__init__.py": pitb.__version__}
    try:
        places["Cargo.toml"] = _toml(root / "Cargo.toml", ("workspace", "package", "version"))
        headings = re.findall(
            r"^## \[?v?([^\]\s]+)", read_text(root / "CHANGELOG.md"), re.MULTILINE
        )
        numbered = [heading for heading in headings if re.match(r"\d", heading)]
        places["CHANGELOG.md"] = numbered[0] if numbered else "none"
    except PitbError as error:
        found.append(str(error))
    for place, value in places.items():
        if value != version:
            found.append(f"{place} has version {value}, but CITATION.cff has {version}")
    return found


def _toml(path: Path, keys: tuple[str, ...]) -> Any:
    try:
        value: Any = tomllib.loads(read_text(path))
        for key in keys:
            value = value[key]
    except tomllib.TOMLDecodeError as error:
        raise PitbError(f"{path} is not valid TOML: {error}") from None
    except (KeyError, TypeError):
        raise PitbError(f"{path} has no {'.'.join(keys)}") from None
    return value


def zenodo(cited: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a deposit, as Zenodo's interface takes it."""
    return {
        "metadata": {
            "upload_type": "dataset",
            "title": f"{cited['title']} {cited['version']}",
            "creators": [{"name": creator(author)} for author in cited["authors"]],
            "description": " ".join(cited["abstract"].split()),
            "access_right": "open",
            "license": cited["license"],
            "keywords": list(cited["keywords"]),
            "version": cited["version"],
        }
    }


def creator(author: dict[str, Any]) -> str:
    """A name as archives sort it."""
    if "name" in author:
        return str(author["name"])
    return f"{author['family-names']}, {author['given-names']}"
