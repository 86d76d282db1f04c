"""Cuts C++ text into tokens: comments are gone, strings are one token each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from perfcli.errors import UnreadableSource

TokenKind = Literal["name", "number", "string", "pragma", "mark"]

_RULES: tuple[tuple[str, str], ...] = (
    ("space", r"\s+|\\\n"),
    ("comment", r"//(?:\\\n|[^\n])*|/\*(?:[^*]|\*(?!/))*\*/"),
    ("pragma", r"\#(?:\\\n|/\*(?:[^*]|\*(?!/))*\*/|(?!//)[^\n])*"),
    ("raw", r'(?:u8|[uUL])?R"(?P<mark_>[^()\s\\]{0,16})\((?:.|\n)*?\)(?P=mark_)"'),
    ("string", r'(?:u8|[uUL])?"(?:\\(?:.|\n)|[^"\\\n])*"|(?:u8|[uUL])?\'(?:\\.|[^\'\\\n])+\''),
    ("number", r"\.?\d(?:'?[\w.]|[eEpP][+-])*"),
    ("name", r"[^\W\d]\w*"),
    ("mark", r"<<=|>>=|[-+*/%&|^=!<>]=|::|->|&&|\|\||\+\+|--|/(?!\*)|[^\s\w\"'/]"),
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_TOKEN = re.compile("|".join(f"(?P<{kind}>{rule})" for kind, rule in _RULES))


@dataclass(frozen=True, slots=True)
class Token:
    """``>>`` is two marks, so that template arguments close one by one."""

    kind: TokenKind
    text: str
    line: int


def tokenize(source: str) -> list[Token]:
    """The tokens of a C++ text; a preprocessor line is one ``pragma`` token.

    Raises:
        UnreadableSource: a string or comment never ends.
    """
    tokens: list[Token] = []
    position, line = 0, 1
    while position < len(source):
        found = _TOKEN.match(source, position)
        if not found:
            raise UnreadableSource(f"C++ kernel: a string or comment in line {line} never ends")
        kind = found.lastgroup
        if kind in ("name", "number", "pragma", "mark"):
            tokens.append(Token(kind, found[0], line))  # type: ignore[arg-type]
        elif kind in ("string", "raw"):
            tokens.append(Token("string", found[0], line))
        line += found[0].count("\n")
        position = found.end()
    return tokens


def matching_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Index of each opening bracket to that of its closing one.

    Raises:
        UnreadableSource: they do not pair up.
    """
    pairs: dict[int, int] = {}
    open_brackets: list[int] = []
    for index, token in enumerate(tokens):
        if token.kind != "mark":
            continue
        if token.text in _CLOSING:
            open_brackets.append(index)
        elif token.text in _CLOSING.values():
            if not open_brackets or _CLOSING[tokens[open_brackets[-1]].text] != token.text:
                raise UnreadableSource(
                    f"C++ kernel: {token.text} in line {token.line} closes nothing"
                )
            pairs[open_brackets.pop()] = index
    if open_brackets:
        raise UnreadableSource(
            f"C++ kernel: the bracket in line {tokens[open_brackets[-1]].line} never closes"
        )
    return pairs
