"""YAML as its writer meant it, or refused with the line.

YAML 1.1, which most loaders speak, reads ``1e-8`` as text, ``no`` as false and ``010`` as 8, and
lets a repeated key win in silence. Here ``1e-8`` is a number, ``no`` is text (which a schema that
wants a boolean refuses), and ``010`` and repeated keys are errors.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pitb.errors import PitbError
from pitb.files import read_text

Path_ = tuple[str | int, ...]
MAX_DEPTH = 50
_STANDARD = "tag:yaml.org,2002:"

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_ALMOST_NUMBER = re.compile(
    r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[-+]?0[xob][0-9a-fA-F_]+"
)
_WORDS: dict[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False}


@dataclass
class Document:
    """The value of a YAML file, and the line of each of its keys and items."""

    value: Any
    lines: dict[Path_, int] = field(default_factory=dict)
    path: Path | None = None

    def where(self, path: Path_) -> str:
        """File, line and key, as an error message names them."""
        while path and path not in self.lines:
            path = path[:-1]
        line = f", line {self.lines[path]}" if path in self.lines else ""
        return f"{self.path}{line}"


def load(path: Path) -> Document:
    """Read a YAML file.

    Raises:
        PitbError: It cannot be read, is not YAML, repeats a key, uses anchors or tags, or holds
            a scalar that could mean two things.
    """
    return parse(read_text(path), path)


def parse(text: str, path: Path | None = None) -> Document:
    """The value of YAML that stands in ``path``, or in what its caller calls so.

    Raises:
        PitbError: As `load` does.
    """
    document = Document(None, {}, path)
    parser = YAML(typ="safe", pure=True)
    try:
        node = parser.compose(text)
        document.value = _construct(node, (), document) if node is not None else None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark is not None else ""
        problem = str(error.problem or error.context or "malformed")
        raise PitbError(f"{path}{line}: not valid YAML: {problem}") from None
    except YAMLError as error:
        first = str(error).splitlines()[0]
        raise PitbError(f"{path}: not valid YAML: {first}") from None
    except RecursionError:
        raise PitbError(f"{path}: nested too deeply") from None
    return document


def scalar(text: str) -> Any:
    """The value of a plain scalar.

    Raises:
        ValueError: It could mean two things; the message says which.
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if abs(int(text[:25])) > 2**53:
            raise ValueError(f"{text[:25]} is too large for a number here")
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text.lower() in (".inf", "+.inf", "-.inf", ".nan"):
        raise ValueError(f"{text} is not a finite number")
    if _ALMOST_NUMBER.fullmatch(text):
        raise ValueError(
            f"{text} could be read as more than one number; write it in plain decimals, "
            "or in quotes where it is a name"
        )
    return text


def _construct(node: Node, path: Path_, document: Document) -> Any:
    line = node.start_mark.line + 1
    document.lines.setdefault(path, line)
    where = f"{document.path}, line {line}"
    if len(path) > MAX_DEPTH:
        raise PitbError(f"{where}: nested deeper than {MAX_DEPTH} levels")
    if node.anchor is not None:
        raise PitbError(f"{where}: anchors and aliases are not supported; write the value out")
    if not str(node.tag).startswith(_STANDARD) or str(node.tag).startswith(f"{_STANDARD}python/"):
        raise PitbError(f"{where}: tags such as {node.tag} are not supported")
    if isinstance(node, MappingNode):
        return _mapping(node, path, document)
    if isinstance(node, SequenceNode):
        return [_construct(item, (*path, i), document) for i, item in enumerate(node.value)]
    assert isinstance(node, ScalarNode)
    if node.style is not None:
        return node.value
    try:
        return scalar(node.value)
    except ValueError as error:
        key = f" (key {'.'.join(map(str, path))})" if path else ""
        raise PitbError(f"{where}{key}: {error}") from None


def _mapping(node: MappingNode, path: Path_, document: Document) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, ScalarNode):
            raise PitbError(f"{document.path}, line {line}: a key must be a word")
        key = key_node.value
        if not key.isprintable():
            raise PitbError(f"{document.path}, line {line}: key {key!r} is not all printable")
        if key in mapping:
            first = document.lines[(*path, key)]
            raise PitbError(
                f"{document.path}, line {line}: key '{key}' was given before, in line {first}"
            )
        document.lines[(*path, key)] = line
        mapping[key] = _construct(value_node, (*path, key), document)
    return mapping
