"""What a JSON or YAML value must be, and the sentence on what it is instead."""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
from jsonschema import ValidationError

from pitb.errors import PitbError, nearest
from pitb.files import read_json

Key = tuple[str | int, ...]
Schema = dict[str, Any]
NUMBER: Schema = {"type": ["number", "null", "string"], "pattern": "^(nan|-?inf)$"}
"""A number, or what stands for one that JSON does not have."""


def read(path: Path, schema: Schema) -> Any:
    """The value of a JSON file that is as ``schema`` says.

    Raises:
        PitbError: It is missing, no JSON, or not so; names file and key.
    """
    value = read_json(path)
    found = first_error(value, schema)
    if found is not None:
        raise PitbError(f"{path}: {found[1]}")
    return value


def first_error(value: Any, schema: Schema, whole: str = "it") -> tuple[Key, str] | None:
    """Key and sentence of the first thing that is not as ``schema`` says; ``whole`` has no key."""
    validator = jsonschema.Draft202012Validator(schema)
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
    if not errors:
        return None
    error = errors[0]
    while error.validator == "anyOf" and error.context:
        # What is there and wrong tells more than what is not there.
        error = min(error.context, key=lambda inner: inner.validator == "required")
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        extra = next(key for key in error.instance if key not in error.schema["properties"])
        path = (*path, extra)
    elif "propertyNames" in error.absolute_schema_path:
        path = (*path, error.instance)
    return path, _sentence(error, path, whole)


def name_of(path: Key, whole: str = "it") -> str:
    """A key as people write it, ``runs.burn.sgd`` or ``comparisons[0].a``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or whole


_KINDS = {"object": "keys and values", "array": "a list", "string": "text", "null": "null"}


def _sentence(error: ValidationError, path: Key, whole: str) -> str:
    name, found = name_of(path, whole), error.instance
    match error.validator:
        case "additionalProperties":
            near = nearest(str(path[-1]), error.schema["properties"])
            return f"unknown key '{name}'; the nearest valid one is '{near}'"
        case "required":
            missing = [key for key in error.validator_value if key not in found]
            return f"{name} lacks the key '{missing[0]}'"
        case "type":
            wanted = error.validator_value
            kinds = [wanted] if isinstance(wanted, str) else list(wanted)
            words = " or ".join(_KINDS.get(kind, f"of type {kind}") for kind in kinds)
            return f"{name} is {_shown(found)}, but must be {words}"
        case "enum":
            near = nearest(str(found), map(str, error.validator_value))
            allowed = ", ".join(map(str, error.validator_value))
            return f"{name} is {_shown(found)}; allowed: {allowed} (nearest: {near})"
        case "pattern" if "description" in error.schema:
            return f"{name}: {_shown(found)} is not {error.schema['description']}"
        case "minItems" | "minProperties":
            return f"{name} is empty"
        case _:
            return f"{name}: {error.message}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def listed(item: Schema) -> Schema:
    """A list of items."""
    return {"type": "array", "items": item}


def named(item: Schema) -> Schema:
    """Items by name, one or more."""
    return {"type": "object", "minProperties": 1, "additionalProperties": item}


def having(**fields: Schema) -> Schema:
    """An object with these fields, and maybe more."""
    return {"type": "object", "required": list(fields), "properties": fields}


def fields_of(kind: type) -> Schema:
    """An object with the fields of a dataclass, all of them and no others, as ``asdict`` makes it.

    Raises:
        TypeError: A field is of a type that JSON has no counterpart of here.
    """
    hints = typing.get_type_hints(kind)
    fields = {field.name: _of(hints[field.name]) for field in dataclasses.fields(kind)}
    return {**having(**fields), "additionalProperties": False}


def _of(hint: Any) -> Schema:
    plain = {str: "string", bool: "boolean", int: "integer"}
    if hint in plain:
        return {"type": plain[hint]}
    if hint is float:
        return NUMBER
    if hint is Any:
        return {}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fields_of(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        first, *others = [_of(argument) for argument in arguments if argument is not types.NoneType]
        if not others and isinstance(first.get("type"), str):
            return {**first, "type": [first["type"], "null"]}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object"}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return listed(_of(arguments[0]))
    raise TypeError(f"{hint} has no schema")


_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer"}
_OPTIONAL: Schema = {"type": ["object", "null"]}
SPEC: Schema = {
    **having(id=_TEXT, optimizer=_TEXT, steps=_COUNT),
    # burn's side takes a scheduler instead of a rate.
    "anyOf": [having(lr={"type": "number"}), having(scheduler={"type": "object"})],
}
"""A run, as the programs of both sides read it. What more it can say, each side checks itself."""
SPEC["properties"] |= {
    "options": _OPTIONAL,
    "clip": _OPTIONAL,
    "problem": _TEXT,
    "dtype": _TEXT,
    "frozen": listed(_TEXT),
    "groups": listed(having(parameters=listed(_TEXT))),
    "observe": {"type": "boolean"},
    "sources": {"type": "object"},
    "save": {"type": ["string", "null"]},
    "resume": {"type": ["string", "null"]},
}
