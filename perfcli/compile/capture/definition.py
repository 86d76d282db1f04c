"""Reads the definition of a kernel that Inductor writes into its wrapper module."""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import re
import tokenize
from dataclasses import dataclass
from typing import Literal

from perfcli.model import KernelKind

_UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What ``ast.parse`` raises for text that is no Python, or that is nested too deeply."""

# The decorator of a generated kernel names its heuristic (runtime/triton_heuristics.py).
_KINDS: dict[str, KernelKind] = {
    "pointwise": "pointwise",
    "reduction": "reduction",
    "cooperative_reduction": "reduction",
    "split_scan": "reduction",
    "persistent_reduction": "persistent-reduction",
    "template": "template",
    "foreach": "combo",
    "user_autotune": "user",
}

# In ``inductor_meta`` of a combo kernel, whose heuristic can be that of its largest part.
_COMBO = "combo_grid_meta"

# Inductor notes it in the source even where it shortens the name to ``triton_``.
_FULL_NAME = re.compile(r"'kernel_name': '[^']*'")


_WANTS_TOKENS = re.compile(r"""#|\\|\"{3}|'{3}""")
"""What keeps a line from being code alone, or an empty one from being empty: reading generated
texts token by token was a twentieth of the time in which code is generated."""


@dataclass(frozen=True, slots=True)
class Definition:
    """Holds one kernel's text. ``name`` is its name in that text (Inductor can shorten it)."""

    name: str
    language: Literal["triton", "cpp"]
    source: str
    kind: KernelKind

    @property
    def source_hash(self) -> str:
        """Return the SHA-256 of the text without its own name and comments: the same code under two
        names is one kernel, and so is code that differs only in saying where it comes from
        (``comment_origin``)."""
        text = strip_name(self.source, self.name)
        if self.language == "triton":
            text = strip_comments(text)
        return hashlib.sha256(text.encode()).hexdigest()


def strip_name(source: str, name: str) -> str:
    """Return a kernel's text as it would be under any other name."""
    return _FULL_NAME.sub("'kernel_name': 'kernel'", source).replace(name, "kernel")


@functools.lru_cache(maxsize=512)
def strip_comments(source: str) -> str:
    """Return a Python text without its comments and empty lines, which stand around comments; as
    it is where it can't be read."""
    lines: list[str | None] = list(source.splitlines())
    if not _WANTS_TOKENS.search(source):
        return "\n".join(line for line in lines if line and not line.isspace())
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError):
        return source
    for token in tokens:
        row, column = token.start
        if token.type == tokenize.COMMENT:
            lines[row - 1] = token.line[:column].rstrip() or None
        elif token.type == tokenize.NL and not token.line.strip():
            lines[row - 1] = None
    return "\n".join(line for line in lines if line is not None)


def parse_definition(body: str, cpp_definition: str | None = None) -> Definition | None:
    """Return the kernel in the text handed to ``define_kernel``, or None for what is no kernel of
    its own (a choice among kernels already defined)."""
    try:
        tree = ast.parse(body.strip(), mode="eval")
    except SyntaxError:
        # The C++ wrapper gets the bare C++ text.
        return Definition("kernel", "cpp", body.strip(), "cpp") if cpp_definition else None
    return read_definition(tree.body)


def read_definition(call: ast.expr) -> Definition | None:
    """Return the kernel that ``async_compile.triton('NAME', '''TEXT''', …)`` defines, or one in
    C++; None for everything else."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
        return None
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if call.func.attr == "triton" and len(texts) == 2:
        name, source = texts[0], texts[1].strip()
        return Definition(name, "triton", source, _triton_kind(source, name))
    if call.func.attr.startswith("cpp") and texts:
        return Definition("kernel", "cpp", texts[-1].strip(), "cpp")
    return None


def read_module(source: str) -> Definition | None:
    """Return the kernel in a module that Inductor wrote for it alone, as it lies in its cache; None
    for everything else."""
    try:
        tree = ast.parse(source)
    except _UNPARSABLE:
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and len(node.decorator_list) > 1:
            return Definition(node.name, "triton", source, _triton_kind(source, node.name))
    return None


@functools.lru_cache(maxsize=512)
def _triton_kind(source: str, name: str) -> KernelKind:
    """Return the kind of kernel, by its decorator and arguments."""
    try:
        tree = ast.parse(source)
    except _UNPARSABLE:
        return "other"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            arguments = {a.arg for a in node.args.args}
            if "RSPLIT_SIZE" in arguments:
                return "mix-order-reduction"
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute):
                    if _names(decorator, _COMBO):
                        return "combo"
                    return _KINDS.get(decorator.func.attr, "other")
    return "other"


def _names(tree: ast.AST, text: str) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == text for node in ast.walk(tree))
