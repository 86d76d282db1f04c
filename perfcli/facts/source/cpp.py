"""Reads what Inductor's C++ CPU kernels do to memory off their tokens.

Seen with the code that Inductor of torch 2.11 to 2.15 writes (``codegen/cpp.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Literal

from perfcli.errors import UnreadableSource
from perfcli.facts.source.triton import _summarize
from perfcli.facts.source.triton_names import Kind
from perfcli.model import Access, SourceFacts

_TokenKind = Literal["name", "number", "string", "pragma", "mark"]

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


def cpp_facts(source: str) -> SourceFacts:
    """Return facts of the ``extern "C"`` kernel in a text that Inductor hands to
    ``async_compile.cpp…``.

    An access goes to memory when it addresses one of the kernel's arguments; scratch buffers on the
    stack do not count. Static counts: the vectorised loop's main and tail body both count, the
    tail's accesses (``C10_UNLIKELY``) as masked. A pass over a buffer is an innermost loop: the
    outer ones, over rows, stand for what is a Triton kernel's grid. Reductions are the accumulators
    that Inductor declares. Element ``p[i]`` is a scalar access; ``loadu``, ``store``, masks and
    transposed tiles move vectors. Raises UnreadableSource where there is no such kernel, or its
    brackets do not close."""
    tokens = _tokenize(source)
    start, pointers = _find_kernel(tokens)
    walk = _Walk(tokens, _matching_brackets(tokens), {name: name for name in pointers})
    walk.statement(start)
    facts = _summarize(walk.accesses, walk.sweeps, reductions=walk.reductions, loops=walk.loops)
    return replace(
        facts,
        vector_loads=sum(a.kind == "load" and bool(a.vectorized) for a in walk.accesses),
        vector_stores=sum(a.kind == "store" and bool(a.vectorized) for a in walk.accesses),
        parallel_regions=walk.parallel_regions,
    )


def _find_kernel(tokens: Sequence[_Token]) -> tuple[int, list[str]]:
    """Return where the body of the last ``extern "C"`` function starts, and its pointer
    arguments."""
    for start in reversed(range(len(tokens) - 1)):
        if tokens[start].text != "extern" or tokens[start + 1].text != '"C"':
            continue
        texts = [t.text for t in tokens[start:]]
        if "(" not in texts or "{" not in texts:
            break
        body = texts.index("{")
        return start + body, _pointers(tokens[start + texts.index("(") + 1 : start + body - 1])
    raise UnreadableSource('C++ kernel: expected a function declared extern "C", found none')


def _pointers(parameters: Sequence[_Token]) -> list[str]:
    """Return the names of the parameters that are declared with a ``*``."""
    names: list[str] = []
    is_pointer = False
    for token, following in zip_longest(parameters, parameters[1:]):
        is_pointer |= token.text == "*"
        if following is None or following.text == ",":
            if is_pointer and token.kind == "name":
                names.append(token.text)
            is_pointer = False
    return names


@dataclass(frozen=True, slots=True)
class _Token:
    """Represents one mark, word or number; ``>>`` is two marks, so that template arguments close
    one by one."""

    kind: _TokenKind
    text: str
    line: int


def _tokenize(source: str) -> list[_Token]:
    """Return the tokens of a C++ text; a preprocessor line is one ``pragma`` token. Raises
    UnreadableSource where a string or comment never ends."""
    tokens: list[_Token] = []
    position, line = 0, 1
    while position < len(source):
        found = _TOKEN.match(source, position)
        if not found:
            raise UnreadableSource(f"C++ kernel: a string or comment in line {line} never ends")
        kind = found.lastgroup
        if kind in ("name", "number", "pragma", "mark"):
            tokens.append(_Token(kind, found[0], line))  # type: ignore[arg-type]
        elif kind in ("string", "raw"):
            tokens.append(_Token("string", found[0], line))
        line += found[0].count("\n")
        position = found.end()
    return tokens


def _matching_brackets(tokens: Sequence[_Token]) -> dict[int, int]:
    """Return index of each opening bracket to that of its closing one. Raises UnreadableSource
    where they do not pair up."""
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


_VECTOR_LOADS = {"loadu", "from"}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "|=", "&=", "^="}
_ACCUMULATOR = re.compile(r"tmp_acc\d+")
_LANES = "_inner"  # how Inductor ends the names of its loops over one vector


@dataclass(slots=True)
class _Walk:
    """Holds the state of one walk through a kernel's tokens."""

    tokens: Sequence[_Token]
    closing: dict[int, int]
    arguments: dict[str, str]
    """Name to the kernel argument that it points into: arguments and their aliases."""
    accesses: list[Access] = field(default_factory=list)
    reductions: int = 0
    loops: int = 0
    outermost_loops: int = 0
    parallel_regions: int = 0
    depth: int = 0
    in_tail: bool = False
    sweep: int = 0
    """The innermost loop around, other than those over one vector's lanes; 0 outside loops."""
    sweeps: dict[str, set[int]] = field(default_factory=dict)
    """Kernel argument to the sweeps that load it."""

    def statement(self, index: int) -> int:
        """Read one statement; the index behind it."""
        token = self.tokens[index]
        if token.kind == "pragma":
            self.parallel_regions += _opens_parallel_region(token.text)
            return index + 1
        if token.text == "{":
            end = self.closing[index]
            index += 1
            while index < end:
                index = self.statement(index)
            return end + 1
        if token.text in ("else", "do"):
            return self.statement(index + 1)
        if token.text in ("for", "while", "if"):
            return self.controlled(index)
        return self.expression(index)

    def controlled(self, index: int) -> int:
        """Read the header of a ``for``, ``while`` or ``if``, and the statement below it."""
        is_loop = self.tokens[index].text != "if"
        header = index + 1
        while self.tokens[header].text != "(":  # if constexpr
            header += 1
        end = self.closing[header]
        outer = self.in_tail, self.sweep
        self.in_tail |= any(t.text == "C10_UNLIKELY" for t in self.tokens[header:end])
        if is_loop:
            self.loops += 1
            self.outermost_loops += self.depth == 0
            self.depth += 1
            if not any(t.text.endswith(_LANES) for t in self.tokens[header:end]):
                self.sweep = self.loops
        self.span(header + 1, end, [])
        index = self.statement(end + 1)
        self.depth -= is_loop
        self.in_tail, self.sweep = outer
        return index

    def expression(self, index: int) -> int:
        """Read everything up to the next ``;`` on this level, or the end of the block."""
        start = index
        while index < len(self.tokens) and self.tokens[index].text not in (";", "}"):
            index = self.closing.get(index, index) + 1
        self.declaration(start, index)
        self.span(start, index, [])
        return index + 1 if index < len(self.tokens) and self.tokens[index].text == ";" else index

    def declaration(self, start: int, end: int) -> None:
        """Note accumulators, and names for a kernel's argument (``auto p = in_out_ptr0;``)."""
        for index in range(start + 1, end - 1):
            if self.tokens[index + 1].text != "=" or self.tokens[index].kind != "name":
                continue
            name = self.tokens[index].text
            is_new = self.tokens[index - 1].kind == "name" or self.tokens[index - 1].text in "*>"
            value = self.tokens[index + 2].text if index + 2 < end else ""
            if is_new and _ACCUMULATOR.fullmatch(name):
                self.reductions += 1
            is_element = index + 3 < end and self.tokens[index + 3].text == "["
            if is_new and value in self.arguments and not is_element:
                self.arguments[name] = self.arguments[value]
            return

    def span(self, start: int, end: int, calls: Sequence[tuple[str, int]]) -> None:
        """Count the accesses among tokens ``start`` to ``end``; ``calls`` are the functions around
        them, each with the number of the argument."""
        position = 0
        index = start
        while index < end:
            token = self.tokens[index]
            around = [*calls[:-1], (calls[-1][0], position)] if calls else []
            if token.text == "{":
                self.statement(index)
                index = self.closing[index]
            elif token.text in ("(", "["):
                name = self.callee(index) if token.text == "(" else ""
                inner = [*around, (name, 0)] if name else around
                self.span(index + 1, self.closing[index], inner)
                index = self.closing[index]
            elif token.text == ",":
                position += 1
            elif token.kind == "name" and token.text in self.arguments:
                self.use(index, around)
            index += 1

    def callee(self, index: int) -> str:
        """Return the function whose argument list opens at ``index``, past template arguments."""
        index -= 1
        if self.tokens[index].text == ">":
            open_angles = 0
            while index > 0:
                open_angles += {">": 1, "<": -1}.get(self.tokens[index].text, 0)
                index -= 1
                if open_angles == 0:
                    break
        token = self.tokens[index]
        return token.text if token.kind == "name" else ""

    def use(self, index: int, calls: Sequence[tuple[str, int]]) -> None:
        """Count one mention of a kernel argument: what it does depends on what is around it."""
        atomic = any("atomic_add" in name for name, _ in calls)
        if self.tokens[index + 1].text == "[":
            following = self.tokens[self.closing[index + 1] + 1].text
            kinds: tuple[Kind, ...] = ("load",)
            if atomic and self.tokens[index - 1].text == "&":
                kinds = ("atomic",)
            elif following in _ASSIGNMENTS:
                kinds = ("store",) if following == "=" else ("load", "store")
            for kind in kinds:
                self.access(index, kind, vectorized=False)
            return
        function, argument = calls[-1] if calls else ("", 0)
        if atomic:
            self.access(index, "atomic", vectorized=function == "atomic_add_vec")
        elif function in _VECTOR_LOADS:
            self.access(index, "load", vectorized=True)
        elif function == "store":
            self.access(index, "store", vectorized=True)
        elif function == "transpose_mxn":
            # (source, its row length, destination, its row length)
            self.access(index, "load" if argument == 0 else "store", vectorized=True)

    def access(self, index: int, kind: Kind, vectorized: bool) -> None:
        pointer = self.arguments[self.tokens[index].text]
        if kind == "load":
            self.sweeps.setdefault(pointer, set()).add(self.sweep)
        self.accesses.append(
            Access(
                kind=kind,
                pointer=pointer,
                line=self.tokens[index].line,
                loop=self.outermost_loops if self.depth else 0,
                depth=self.depth,
                masked=self.in_tail,
                vectorized=vectorized,
            )
        )


def _opens_parallel_region(directive: str) -> bool:
    words = directive.lstrip("#").split()
    return words[:2] == ["pragma", "omp"] and any(w.startswith("parallel") for w in words[2:3])
