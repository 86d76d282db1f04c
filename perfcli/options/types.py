"""Converts texts to values by an option's annotation: ``"bool | None"``, ``"Literal['a', 'b']"``
…"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from perfcli.model import OptionValue

_TRUE, _FALSE, _NONE = ("true", "1", "yes", "on"), ("false", "0", "no", "off"), ("none", "null")
_TRUTH = {**dict.fromkeys(_TRUE, True), **dict.fromkeys(_FALSE, False)}
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "dict": "a mapping such as {'a': 1}",
    "Any": "any value",
}
# A text is tried in this order: "true" is a truth value before it is a text.
_ORDER = ("None", "Literal", "bool", "int", "float", "list", "tuple", "set", "dict", "Any", "str")


class Unsettable(ValueError):
    """The type is a Python object that no text can name."""


def convert(annotation: str, text: str) -> OptionValue:
    """Return the value of ``text`` for an annotation. Raises Unsettable where the annotation allows
    nothing that can be written and ValueError where the text is no such value."""
    known = [node for node in _alternatives(annotation) if _kind(node) in _ORDER]
    if not known or (all(_kind(node) == "None" for node in known) and text.lower() not in _NONE):
        raise Unsettable(annotation)
    for node in sorted(known, key=lambda node: _ORDER.index(_kind(node))):
        try:
            return _convert_one(node, text)
        except ValueError:
            continue
    raise ValueError(text)


def describe(annotation: str) -> str:
    """Return what the type needs, in words: ``a whole number or none``."""
    words = [_describe_one(node) for node in _alternatives(annotation)]
    return " or ".join(dict.fromkeys(words))


def is_number(annotation: str) -> bool:
    """Return whether only numbers (or nothing) are allowed."""
    kinds = {_kind(node) for node in _alternatives(annotation)} - {"None"}
    return bool(kinds) and kinds <= {"int", "float"}


def _alternatives(annotation: str) -> list[ast.expr]:
    try:
        return list(_flatten(ast.parse(annotation, mode="eval").body))
    except SyntaxError:
        return [ast.Name("Any")]


def _flatten(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _flatten(left)
            yield from _flatten(right)
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            yield from _flatten(inner)
            yield ast.Constant(None)
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=members)):
            for member in members:
                yield from _flatten(member)
        case _:
            yield node


def _kind(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=None):
            return "None"
        case ast.Name(id="object"):
            return "Any"
        case ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name)):
            return name.lower() if name in ("List", "Dict", "Tuple", "Set") else name
        case _:
            return "object"


def _describe_one(node: ast.expr) -> str:
    kind = _kind(node)
    if kind == "None":
        return "none"
    if kind == "Literal":
        return " or ".join(map(str, _literals(node)))
    return _WORDS.get(kind, f"a Python object ({ast.unparse(node)})")


def _literals(node: ast.expr) -> list[Any]:
    value = ast.literal_eval(node.slice) if isinstance(node, ast.Subscript) else ()
    return list(value) if isinstance(value, tuple) else [value]


def _convert_one(node: ast.expr, text: str) -> OptionValue:
    match _kind(node):
        case "None":
            return _choose(text.lower(), dict.fromkeys(_NONE))
        case "bool":
            return _choose(text.lower(), _TRUTH)
        case "int":
            return int(text, 0)
        case "float":
            number: float = float(text)
            return number
        case "str":
            return _unquote(text)
        case "Literal":
            return _choose(_unquote(text), {str(value): value for value in _literals(node)})
        case "Any":
            return _anything(text)
        case _:
            return _container(node, text)


def _choose(text: str, values: Mapping[str, Any]) -> OptionValue:
    if text not in values:
        raise ValueError(text)
    found: OptionValue = values[text]
    return found


def _unquote(text: str) -> str:
    quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if quoted else text


def _anything(text: str) -> OptionValue:
    for parse in (json.loads, ast.literal_eval):
        try:
            value: OptionValue = _plain(parse(text))
        except (ValueError, SyntaxError):
            continue
        return value
    for annotation in ("bool", "None"):
        try:
            return convert(f"{annotation} | None", text)
        except ValueError:
            continue
    return text


def _container(node: ast.expr, text: str) -> OptionValue:
    """Return a list or mapping as JSON, as Python, or (lists) with commas between plain texts."""
    value: Any
    for parse in (json.loads, ast.literal_eval):
        try:
            value = _plain(parse(text))
            break
        except (ValueError, SyntaxError):
            continue
    else:
        if _kind(node) == "dict" or text[:1] in ("[", "{", "("):
            raise ValueError(text)
        value = [part.strip() for part in text.split(",")] if text else []
    if _kind(node) != "dict" and not isinstance(value, list):
        value = [value]
    if not _fits(node, value):
        raise ValueError(text)
    result: OptionValue = value
    return result


def _plain(value: Any) -> Any:
    """Return tuples and sets as lists, which JSON can carry."""
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


def _fits(node: ast.expr, value: Any) -> bool:
    """Return whether a value read from text has the annotated shape."""
    return any(_fits_one(member, value) for member in _flatten(node))


def _fits_one(node: ast.expr, value: Any) -> bool:
    inner = node.slice if isinstance(node, ast.Subscript) else None
    members = inner.elts if isinstance(inner, ast.Tuple) else [inner] if inner else []
    match _kind(node):
        case "None":
            return value is None
        case "Literal":
            return value in _literals(node)
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "str":
            return isinstance(value, str)
        case "dict":
            return isinstance(value, dict) and (
                len(members) < 2 or all(_fits(members[1], item) for item in value.values())
            )
        case "tuple" if members and not _is_ellipsis(members[-1]):
            return (
                isinstance(value, list)
                and len(value) == len(members)
                and all(_fits(m, item) for m, item in zip(members, value, strict=True))
            )
        case "list" | "set" | "tuple":
            return isinstance(value, list) and (
                not members or all(_fits(members[0], item) for item in value)
            )
        case kind:
            return kind == "Any"


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
