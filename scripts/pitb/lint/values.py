"""Literals and configurations of Rust as burn serialises them."""

import re
from typing import Any

from pitb import declared
from pitb.lint.sources import Node, arguments_of, text_of


def value(node: Node | None) -> Any:
    """A literal of Rust as burn serialises it; the node's text where it is something else."""
    if node is None:
        return None
    text = text_of(node)
    if node.type in ("float_literal", "integer_literal"):
        plain = re.sub(r"(_?(f32|f64|usize|u\d+|i\d+))$", "", text).replace("_", "")
        return int(plain, 0) if re.fullmatch(r"\d+", plain) else float(plain)
    if node.type == "unary_expression" and text.startswith("-"):
        found = value(node.named_children[0])
        return -found if isinstance(found, (int, float)) else text
    if node.type == "boolean_literal":
        return text == "true"
    if node.type == "tuple_expression":
        return [value(child) for child in node.named_children]
    if text in ("None", "Option::None"):
        return None
    special = {"INFINITY": float("inf"), "NEG_INFINITY": float("-inf"), "NAN": float("nan")}
    if node.type == "scoped_identifier":
        last = text.rpartition("::")[2]
        return special.get(last, last)
    if node.type == "call_expression":
        return _value_of_call(node, text)
    return text


def _value_of_call(node: Node, text: str) -> Any:
    function = node.child_by_field_name("function")
    given = arguments_of(node.child_by_field_name("arguments"))
    name = text_of(function)
    if name in ("Some", "Option::Some") and len(given) == 1:
        return value(given[0])
    if function is not None and function.type == "field_expression":
        field_name = text_of(function.child_by_field_name("field"))
        inner = value(function.child_by_field_name("value"))
        if field_name.startswith("with_") and isinstance(inner, dict):
            return {**inner, field_name.removeprefix("with_"): value(given[0] if given else None)}
        return inner
    if function is not None and function.type == "scoped_identifier":
        kind, last = (text_of(function.child_by_field_name(key)) for key in ("path", "name"))
        kind = kind.rpartition("::")[2]
        if last == "new" and kind in declared.structs():
            required = [item.name for item in declared.structs()[kind] if item.required]
            return {key: value(item) for key, item in zip(required, given, strict=False)}
        if kind in declared.enums() and len(given) == 1:
            return {last: value(given[0])}
    return text
