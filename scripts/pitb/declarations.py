"""Reading declarations from the installed sources of both libraries; `declared` has what was read.

burn's configurations derive their constructor and their ``with_*`` methods from a struct's fields:
a field with ``#[config(default = ...)]`` or of type ``Option`` has a method that takes the field's
type, any other field is an argument of ``new`` (``burn-derive``, ``config/analyzer_struct.rs``).
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import tree_sitter
import tree_sitter_rust

from pitb import cargo
from pitb.errors import PitbError
from pitb.files import read_text
from pitb.registry import optimizers

CRATE = "burn-optim"
FACADES = {"lr_scheduler": "burn::lr_scheduler", "grad_clipping": "burn::grad_clipping"}
"""Modules of the crate that the ``burn`` crate shows beside ``burn::optim``."""
RUST = tree_sitter.Language(tree_sitter_rust.language())


def read(root: Path) -> dict[str, Any]:
    """Everything: ``structs`` and ``enums`` of burn, ``refusals`` of PyTorch and timm."""
    folder, version = crate_folder(root)
    structs: dict[str, Any] = {}
    enums: dict[str, Any] = {}
    for path, node in items(folder / "src"):
        name = text_of(node.child_by_field_name("name"))
        if node.type == "struct_item" and derives_config(node):
            structs[name] = {"path": f"{path}::{name}", "fields": struct_fields(node)}
        elif node.type == "enum_item":
            enums[name] = {"path": f"{path}::{name}", "variants": variants(node)}
    used = {kind for item in structs.values() for kind in named(item["fields"])}
    used |= {"LrSchedulerConfig"}
    return {
        "comment": "Written by scripts/record_declared.py (make libraries); not to be edited.",
        "burn": version,
        "structs": dict(sorted(structs.items())),
        "enums": {name: item for name, item in sorted(enums.items()) if name in used},
        "refusals": {item.pytorch: refusals(item.constructor()) for item in optimizers()},
    }


def crate_folder(root: Path) -> tuple[Path, str]:
    """Where cargo keeps the source of burn's optimizers, and its version.

    Raises:
        PitbError: cargo is not there, or does not know the crate.
    """
    found = cargo.crates(root).get(CRATE)
    if found is None:
        raise PitbError(f"the project at {root} does not depend on {CRATE}")
    return found


# burn


def items(source: Path) -> Iterator[tuple[str, tree_sitter.Node]]:
    """Every public struct and enum below ``source`` with the path of its module for a user."""
    yield from _module(source, source / "lib.rs", "burn::optim", source)


def _module(
    folder: Path, file: Path, path: str, root: Path
) -> Iterator[tuple[str, tree_sitter.Node]]:
    tree = parse(read_text(file))
    shown = {
        text_of(node.child_by_field_name("argument")).removesuffix("::*")
        for node in tree.children
        if node.type == "use_declaration" and node.children[0].type == "visibility_modifier"
    }
    for node in tree.children:
        if node.children and node.children[0].type == "visibility_modifier":
            public = text_of(node.children[0]) == "pub"
        else:
            public = False
        if node.type in ("struct_item", "enum_item") and public:
            yield path, node
        if node.type != "mod_item" or node.child_by_field_name("body") is not None:
            continue
        name = text_of(node.child_by_field_name("name"))
        inner = next(
            (p for p in (folder / f"{name}.rs", folder / name / "mod.rs") if p.is_file()), None
        )
        if inner is None:
            continue
        below = path if name in shown else f"{path}::{name}"
        if folder == root and name in FACADES:
            below = FACADES[name]
        if public or name in shown:
            yield from _module(folder / name, inner, below, root)


def parse(text: str) -> tree_sitter.Node:
    """The syntax tree of a Rust source."""
    return tree_sitter.Parser(RUST).parse(text.encode()).root_node


def text_of(node: tree_sitter.Node | None) -> str:
    """The text of a node; empty for none."""
    return node.text.decode() if node is not None and node.text is not None else ""


def _attributes(node: tree_sitter.Node) -> list[str]:
    found = []
    before = node.prev_named_sibling
    while before is not None and before.type in ("attribute_item", "line_comment", "block_comment"):
        if before.type == "attribute_item":
            found.append(text_of(before))
        before = before.prev_named_sibling
    return found


def derives_config(node: tree_sitter.Node) -> bool:
    """Whether an item has ``#[derive(Config)]``."""
    derives = [text for text in _attributes(node) if text.startswith("#[derive(")]
    words = "".join(derives).replace("(", " ").replace(")", " ").replace(",", " ").split()
    return "Config" in words


def struct_fields(node: tree_sitter.Node) -> list[dict[str, Any]]:
    """``name``, ``type``, ``default`` (Rust; absent where ``new`` takes it), whether ``public``."""
    found = []
    body = node.child_by_field_name("body")
    for item in body.named_children if body is not None else []:
        if item.type != "field_declaration":
            continue
        kind = text_of(item.child_by_field_name("type"))
        entry: dict[str, Any] = {
            "name": text_of(item.child_by_field_name("name")),
            "type": kind,
        }
        for attribute in _attributes(item):
            if attribute.startswith("#[config(default = "):
                text = attribute.removeprefix("#[config(default = ").removesuffix(")]")
                entry["default"] = text[1:-1] if text.startswith('"') else text
        if "default" not in entry and kind.startswith("Option<"):
            entry["default"] = "None"
        if any(child.type == "visibility_modifier" for child in item.children):
            entry["public"] = True
        found.append(entry)
    return found


def variants(node: tree_sitter.Node) -> dict[str, list[str]]:
    """The variants of an enum, each with the types that it holds."""
    body = node.child_by_field_name("body")
    found = {}
    for item in body.named_children if body is not None else []:
        if item.type == "enum_variant":
            held = item.child_by_field_name("body")
            kinds = [text_of(child) for child in held.named_children] if held is not None else []
            found[text_of(item.child_by_field_name("name"))] = kinds
    return found


def named(fields: list[dict[str, Any]]) -> Iterator[str]:
    """The types that fields have, without what is around them."""
    for item in fields:
        yield item["type"].replace("Option<", "").replace("Vec<", "").rstrip(">")


# PyTorch


def refusals(constructor: Any) -> list[str]:
    """The conditions under which a constructor raises, as its source has them.

    Those that look at types, or call anything, are left out.
    """
    found: list[str] = []
    for base in constructor.__mro__:
        own = vars(base).get("__init__")
        if own is None or base.__name__ in ("Optimizer", "object"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(own))).body
        assert isinstance(tree, ast.FunctionDef)
        known = {item.arg for item in ast.walk(tree.args) if isinstance(item, ast.arg)}
        found += _raising(tree.body, known, [])
    return list(dict.fromkeys(found))


def _raising(body: Sequence[ast.stmt], known: set[str], under: Sequence[str]) -> Iterator[str]:
    """Conditions of the statements that raise, joined with those that they stand under."""
    for node in body:
        if not isinstance(node, ast.If):
            continue
        names = {x.id for x in ast.walk(node.test) if isinstance(x, ast.Name)}
        calls = any(isinstance(x, (ast.Call, ast.Attribute)) for x in ast.walk(node.test))
        if not names <= known or calls:
            continue
        here = [*under, ast.unparse(node.test)]
        if any(isinstance(x, ast.Raise) for x in node.body):
            yield here[0] if len(here) == 1 else " and ".join(f"({text})" for text in here)
        yield from _raising(node.body, known, here)
