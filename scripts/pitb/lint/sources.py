"""burn's configurations in a Rust source: where each is made, and which fields are stated.

The source is parsed, so that comments and strings count for nothing. The arguments of macros, which
a parser sees as mere tokens, are read token by token.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import tree_sitter

from pitb import declared
from pitb.declarations import parse
from pitb.errors import PitbError

ROOTS = ("burn", "burn_optim")
ENUM = "GradientClippingConfig"
_ALLOW = re.compile(r"//+\s*pitb:\s*allow(?P<file>-file)?\b\s*(?:\((?P<names>[^)]*)\))?")
Node = tree_sitter.Node


@dataclass(eq=False)
class Site:
    """A place where a configuration is made."""

    configuration: str
    """``AdamConfig``, or ``GradientClippingConfig::Norm``."""
    node: Node
    line: int
    column: int
    last_line: int
    """The last line of the statements that set its fields."""
    fields: dict[str, Node | None] = field(default_factory=dict)
    """What is stated, with the argument; None where that is not known."""
    arguments: list[Node] = field(default_factory=list)
    """Of ``new``."""
    outer: tuple[str, str] | None = None
    """The configuration and field that it is given to."""
    test: bool = False
    """Whether it stands in test code."""
    whole: bool = False
    """Whether every field is stated, by a literal or a value that is not known here."""
    allowed: frozenset[str] = frozenset()
    """Fields that a comment silences; ``*`` is all."""


@dataclass
class RustSource:
    """One Rust source with its configurations."""

    name: str
    sites: list[Site]
    error: str = ""
    """What could not be parsed, with its line; what stands around it was."""


def read(text: str, name: str, strict: bool = True) -> RustSource:
    """The configurations of a Rust source that messages call ``name``.

    Args:
        text: The source.
        name: How messages call it.
        strict: Whether what cannot be parsed raises; the parser goes on after it, and knows less
            of Rust than rustc.

    Raises:
        PitbError: It cannot be parsed; says the line.
    """
    root = parse(text)
    error = ""
    if root.has_error:
        line, what = _first_error(root)
        error = f"{name}, line {line}: this is not Rust that can be parsed: {what}"
        if strict:
            raise PitbError(error)
    finder = _Finder(root)
    finder.find()
    allowed = _allowed(root)
    for site in finder.sites:
        here = set(allowed.get(0, frozenset()))
        for line in range(site.line - 1, site.last_line + 1):
            here |= allowed.get(line, frozenset())
        site.allowed = frozenset(here)
    sites = sorted(finder.sites, key=lambda site: (site.line, site.column))
    return RustSource(name, sites, error)


def walk(root: Node) -> Iterator[Node]:
    """A node and all below it, in the order of the text, however deep they are nested."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def text_of(node: Node | None) -> str:
    """The text of a node."""
    return node.text.decode("utf-8", "replace") if node is not None and node.text else ""


def line_of(node: Node) -> int:
    """The line that a node begins in, from 1."""
    return int(node.start_point[0]) + 1


def _first_error(root: Node) -> tuple[int, str]:
    for node in walk(root):
        if node.is_missing:
            return line_of(node), f"{node.type!r} is missing"
        if node.is_error:
            found = " ".join(text_of(node).split())[:40]
            return line_of(node), f"at {found!r}"
    return 1, "for a reason that the parser does not give"


def _allowed(root: Node) -> dict[int, frozenset[str]]:
    """What comments silence, by line; line 0 is the whole file."""
    found: dict[int, frozenset[str]] = {}
    for node in walk(root):
        if node.type != "line_comment":
            continue
        match = _ALLOW.match(text_of(node).strip())
        if match is None:
            continue
        names = [name.strip() for name in (match["names"] or "*").split(",") if name.strip()]
        line = 0 if match["file"] else line_of(node)
        found[line] = found.get(line, frozenset()) | frozenset(names)
    return found


class _Finder:
    """Finds the sites of one source."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.sites: list[Site] = []
        self.by_node: dict[int, Site] = {}
        self.names: dict[str, str] = {}
        """Names to burn's configurations and enums, to modules of burn's, or to ""."""
        self.variables: dict[tuple[int, str], Site] = {}
        self.functions: dict[str, Site] = {}

    def find(self) -> None:
        """Fill ``sites``."""
        self._imports()
        for node in walk(self.root):
            if node.type == "call_expression":
                self._call(node)
            elif node.type == "struct_expression":
                self._literal(node)
            elif node.type == "token_tree" and self._outermost(node):
                self._tokens(node)
        self._join()

    # Names

    def _imports(self) -> None:
        for node in walk(self.root):
            if node.type == "use_declaration":
                self._use(node.child_by_field_name("argument"), "")
            elif node.type in ("struct_item", "enum_item"):
                self.names[text_of(node.child_by_field_name("name"))] = ""
        for node in walk(self.root):
            if node.type == "type_item":
                kind = self._named(text_of(node.child_by_field_name("type")))
                if kind is not None:
                    self.names[text_of(node.child_by_field_name("name"))] = kind

    def _use(self, node: Node | None, before: str) -> None:
        if node is None:
            return
        if node.type == "use_as_clause":
            full = _joined(before, text_of(node.child_by_field_name("path")))
            self._import(text_of(node.child_by_field_name("alias")), full)
        elif node.type == "scoped_use_list":
            path = _joined(before, text_of(node.child_by_field_name("path")))
            self._use(node.child_by_field_name("list"), path)
        elif node.type == "use_list":
            for child in node.named_children:
                self._use(child, before)
        elif node.type in ("identifier", "scoped_identifier"):
            full = _joined(before, text_of(node))
            self._import(full.rpartition("::")[2], full)
        elif node.type == "self":
            self._import(before.rpartition("::")[2], before)

    def _import(self, name: str, full: str) -> None:
        last = full.rpartition("::")[2]
        if full.partition("::")[0] not in ROOTS:
            self.names[name] = ""
        elif last in declared.paths():
            self.names[name] = last
        else:
            self.names[name] = full  # a module

    def _named(self, text: str) -> str | None:
        """The configuration of burn's that a path names; None for none."""
        path = re.sub(r"\s+", "", text).strip("<>").removeprefix("::")
        first, mark, rest = path.partition("::")
        last = path.rpartition("::")[2]
        if not mark:
            found = self.names.get(first, first)
            return found if found in declared.paths() else None
        if first in ("self", "super", "crate"):
            found = self.names.get(last, "")
            return found if found in declared.paths() else None
        root = self.names.get(first, first)
        if root in declared.paths():
            return root if root == ENUM else None
        full = f"{root}::{rest}"
        inside = full.partition("::")[0] in ROOTS
        return last if inside and last in declared.paths() else None

    # Sites

    def _add(self, kind: str, node: Node) -> Site:
        row, column = node.start_point
        site = Site(kind, node, row + 1, column + 1, int(node.end_point[0]) + 1)
        site.test = _in_test(node)
        self.sites.append(site)
        self.by_node[node.id] = site
        return site

    def _call(self, node: Node) -> None:
        function = node.child_by_field_name("function")
        if function is None or function.type != "scoped_identifier":
            return
        path, name = (function.child_by_field_name(key) for key in ("path", "name"))
        kind = self._named(text_of(path))
        arguments = node.child_by_field_name("arguments")
        given = arguments_of(arguments)
        if kind == ENUM and text_of(name) in declared.enums()[ENUM]:
            site = self._add(f"{ENUM}::{text_of(name)}", node)
            site.arguments = given
        elif kind in declared.structs() and text_of(name) == "new":
            site = self._add(kind, node)
            site.arguments = given
            self._chain(site, node)

    def _chain(self, site: Site, node: Node) -> Node:
        """Take up the ``with_*`` calls around a node; gives the outermost."""
        while True:
            parent = node.parent
            if parent is None:
                return node
            if parent.type in ("parenthesized_expression", "reference_expression"):
                node = parent
                continue
            call = parent.parent
            if (
                parent.type != "field_expression"
                or call is None
                or call.type != "call_expression"
                or parent.child_by_field_name("value") != node
            ):
                return node
            name = text_of(parent.child_by_field_name("field"))
            if name == "clone":
                node = call
                continue
            if not name.startswith("with_"):
                return node
            given = arguments_of(call.child_by_field_name("arguments"))
            site.fields[name.removeprefix("with_")] = given[0] if given else None
            site.last_line = max(site.last_line, int(call.end_point[0]) + 1)
            self.by_node[call.id] = site
            node = call

    def _literal(self, node: Node) -> None:
        kind = self._named(text_of(node.child_by_field_name("name")))
        if kind not in declared.structs():
            return
        site = self._add(kind, node)
        body = node.child_by_field_name("body")
        for item in body.named_children if body is not None else []:
            if item.type == "field_initializer":
                name = text_of(item.child_by_field_name("field") or item.named_children[0])
                site.fields[name] = item.child_by_field_name("value")
            elif item.type == "shorthand_field_initializer":
                site.fields[text_of(item)] = item
            elif item.type == "base_field_initializer":
                site.whole = True  # until the base is known
        self._chain(site, node)

    def _join(self) -> None:
        """Follow configurations through variables, functions and struct updates."""
        for node in walk(self.root):
            if node.type == "base_field_initializer":
                self._base(node)
            elif node.type == "let_declaration":
                self._let(node)
            elif node.type == "assignment_expression":
                self._assign(node)
            elif node.type == "function_item":
                self._function(node)
            elif node.type in ("identifier", "call_expression"):
                self._used(node)
        for site in self.sites:
            site.outer = self._outer(site.node)

    def _base(self, node: Node) -> None:
        literal = node.parent.parent if node.parent is not None else None
        base = self._site(node.named_children[0]) if node.named_children else None
        outer = self.by_node.get(literal.id) if literal is not None else None
        if base is None or outer is None or base is outer:
            return
        outer.whole = base.whole
        outer.fields = {**base.fields, **outer.fields}
        if base in self.sites:
            self.sites.remove(base)

    def _site(self, node: Node | None) -> Site | None:
        """The site whose configuration an expression is."""
        while node is not None:
            if node.id in self.by_node:
                return self.by_node[node.id]
            if node.type == "identifier":
                return self._variable(text_of(node), node)
            if node.type in ("parenthesized_expression", "reference_expression"):
                node = node.named_children[-1] if node.named_children else None
                continue
            if node.type == "call_expression":
                function = node.child_by_field_name("function")
                if function is not None and function.type == "identifier":
                    return self.functions.get(text_of(function))
                if function is not None and function.type == "field_expression":
                    name = text_of(function.child_by_field_name("field"))
                    if name == "clone" or name.startswith("with_"):
                        node = function.child_by_field_name("value")
                        continue
            return None
        return None

    def _variable(self, name: str, node: Node) -> Site | None:
        scope: Node | None = node
        while scope is not None:
            if (scope.id, name) in self.variables:
                return self.variables[scope.id, name]
            scope = scope.parent
        return None

    def _let(self, node: Node) -> None:
        pattern, value = (node.child_by_field_name(key) for key in ("pattern", "value"))
        if pattern is None or node.parent is None:
            return
        name = text_of(pattern).removeprefix("mut ").strip()
        site = self._site(value)
        if site is not None and pattern.type in ("identifier", "mut_pattern"):
            self.variables[node.parent.id, name] = site
        else:
            self.variables.pop((node.parent.id, name), None)

    def _assign(self, node: Node) -> None:
        left, right = (node.child_by_field_name(key) for key in ("left", "right"))
        if left is None:
            return
        if left.type == "field_expression":
            site = self._site(left.child_by_field_name("value"))
            if site is not None:
                site.fields[text_of(left.child_by_field_name("field"))] = right
                site.last_line = max(site.last_line, int(node.end_point[0]) + 1)
            return
        site = self._site(right)
        if site is not None and left.type == "identifier":
            scope = self._scope_of(text_of(left), left)
            if scope is not None:
                self.variables[scope, text_of(left)] = site

    def _scope_of(self, name: str, node: Node) -> int | None:
        """Where a variable is kept; the outermost block where it is not yet."""
        scope: Node | None = node
        outermost: int | None = None
        while scope is not None:
            if (scope.id, name) in self.variables:
                return int(scope.id)
            if scope.type == "block":
                outermost = int(scope.id)
            scope = scope.parent
        return outermost

    def _function(self, node: Node) -> None:
        body = node.child_by_field_name("body")
        tail = body.named_children[-1] if body is not None and body.named_children else None
        site = self._site(tail)
        if site is not None:
            self.functions[text_of(node.child_by_field_name("name"))] = site

    def _used(self, node: Node) -> None:
        """``with_*`` on a variable or on what a function of this file gives."""
        if node.id in self.by_node:
            return
        parent = node.parent
        if parent is None or parent.type != "field_expression":
            return
        if node.type == "call_expression":
            function = node.child_by_field_name("function")
            if function is None or function.type != "identifier":
                return
        site = self._site(node)
        if site is not None:
            self._chain(site, node)

    def _outer(self, node: Node) -> tuple[str, str] | None:
        """The configuration and field that a site is given to, within ``Some`` or not."""
        here = node
        while here.parent is not None:
            parent = here.parent
            if parent.type == "arguments" and parent.parent is not None:
                call = parent.parent
                if call.id in self.by_node:
                    site = self.by_node[call.id]
                    function = call.child_by_field_name("function")
                    name = text_of(function.child_by_field_name("field")) if function else ""
                    if site.node is not node and name.startswith("with_"):
                        return site.configuration, name.removeprefix("with_")
                function = call.child_by_field_name("function")
                passes = function is not None and function.type == "field_expression"
                if text_of(function) not in ("Some", "Option::Some") and not passes:
                    return None
                here = call
                continue
            if parent.type == "field_expression" and parent.parent is not None:
                here = parent.parent
                continue
            if parent.type in ("parenthesized_expression", "call_expression"):
                here = parent
                continue
            return None
        return None

    # Macros

    def _outermost(self, node: Node) -> bool:
        return node.parent is None or node.parent.type != "token_tree"

    def _tokens(self, tree: Node) -> None:
        """Sites among tokens, those in nested brackets too."""
        waiting: list[tuple[Node, tuple[str, str] | None]] = [(tree, None)]
        while waiting:
            here, outer = waiting.pop()
            tokens = here.children
            i = 0
            inside: dict[int, tuple[str, str]] = {}
            while i < len(tokens):
                taken = self._at(tokens, i, outer, inside)
                i = max(taken, i + 1)
            for token in tokens:
                if token.type == "token_tree":
                    waiting.append((token, inside.get(token.id, outer)))

    def _at(
        self,
        tokens: list[Node],
        i: int,
        outer: tuple[str, str] | None,
        inside: dict[int, tuple[str, str]],
    ) -> int:
        """Take up a configuration whose path begins at token i; gives where it ends."""
        path, j = _path(tokens, i)
        if not path or (i > 0 and text_of(tokens[i - 1]) in ("::", ".")):
            return i
        *start, last = path
        kind = self._named("::".join(start))
        brackets = j < len(tokens) and tokens[j].type == "token_tree"
        if kind == ENUM and brackets and last in declared.enums()[ENUM]:
            site = self._add(f"{ENUM}::{last}", tokens[i])
            site.outer = outer
            return j
        whole = self._named("::".join(path))
        if whole in declared.structs() and brackets and text_of(tokens[j]).startswith("{"):
            return self._literal_tokens(whole, tokens, i, j)
        if kind not in declared.structs() or last != "new" or not brackets:
            return i
        site = self._add(kind, tokens[i])
        site.outer = outer
        j += 1
        while j + 2 < len(tokens) and text_of(tokens[j]) == ".":
            name, held = text_of(tokens[j + 1]), tokens[j + 2]
            if not name.startswith("with_") or held.type != "token_tree":
                break
            site.fields[name.removeprefix("with_")] = None
            site.last_line = max(site.last_line, int(held.end_point[0]) + 1)
            inside[held.id] = (kind, name.removeprefix("with_"))
            j += 3
        return j

    def _literal_tokens(self, kind: str, tokens: list[Node], i: int, j: int) -> int:
        site = self._add(kind, tokens[i])
        held = tokens[j].children[1:-1]
        for k, token in enumerate(held):
            before = text_of(held[k - 1]) if k else ","
            if token.type == "identifier" and before == ",":
                site.fields[text_of(token)] = None
            if text_of(token) == "..":
                site.whole = True
        site.last_line = int(tokens[j].end_point[0]) + 1
        return j + 1


def _path(tokens: list[Node], i: int) -> tuple[list[str], int]:
    """The path of identifiers that begins at token i, and where it ends."""
    found: list[str] = []
    while i < len(tokens) and tokens[i].type in ("identifier", "crate", "self", "super"):
        found.append(text_of(tokens[i]))
        i += 1
        if i >= len(tokens) or text_of(tokens[i]) != "::":
            break
        i += 1
    return found, i


def _joined(before: str, after: str) -> str:
    path = re.sub(r"\s+", "", after).removeprefix("::")
    return f"{before}::{path}" if before else path


def arguments_of(node: Node | None) -> list[Node]:
    """What stands between the brackets of a call."""
    comments = ("line_comment", "block_comment")
    return [c for c in node.named_children if c.type not in comments] if node is not None else []


def _in_test(node: Node) -> bool:
    """Whether an attribute around a node says that it is test code."""
    here: Node | None = node
    while here is not None:
        before = here.prev_named_sibling
        while before is not None and before.type in ("attribute_item", "line_comment"):
            if re.match(r"#\[(cfg\(test\)|(\w+::)*test\b)", text_of(before)):
                return True
            before = before.prev_named_sibling
        here = here.parent
    return False
