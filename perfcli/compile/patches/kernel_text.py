"""Reads a generated Triton kernel's text as a syntax tree, and edits it statement by statement.

``TritonKernel.codegen_kernel`` of torch 2.11 to 2.13 returns such a text: imports, and one function
with a decorator of ``triton_heuristics`` that has dictionaries ``inductor_meta`` and
``triton_meta``.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from perfcli.compile.patches.patching import Patching


class Unfit(Exception):
    """Says that a text is not as expected."""


def rewrite_kernels(
    patching: Patching,
    kernel: Any,
    generate: Any,
    concerns: Callable[[str], bool],
    rewrite: Callable[[str], str | None],
) -> None:
    """Have ``generate``, the ``codegen_kernel`` of the class ``kernel``, give what becomes of each
    text that the patch ``concerns``; what can't be rewritten (None) stays as torch wrote it. Each
    text counts once."""
    seen: set[str] = set()

    @functools.wraps(generate)
    def codegen_kernel(self: Any, name: str | None = None) -> Any:
        source = generate(self, name)
        if not concerns(source):
            return source
        rewritten = rewrite(source)
        if source not in seen:  # Inductor asks more than once for some kernels
            seen.add(source)
            patching.leave() if rewritten is None else patching.count()
        return source if rewritten is None else rewritten

    patching.replace(kernel, "codegen_kernel", codegen_kernel)


class ParsedKernel:
    """Holds a kernel's text and what it consists of."""

    def __init__(self, source: str, heuristics: str) -> None:
        """Read a kernel whose decorator is called ``heuristics``. Raises ``Unfit``."""
        if not source.isascii():
            raise Unfit  # columns of the syntax tree count bytes
        self._lines = source.splitlines()
        self.function, given = _find_kernel(_parse(source), heuristics)
        meta = given.get("inductor_meta")
        if not isinstance(meta, ast.Dict):
            raise Unfit
        self._meta = meta
        self.types = _read_types(given.get("triton_meta"))
        """What each argument is: ``*bf16``."""

    def assigned(self, name: str) -> str:
        """Return what a variable of the function's own block is set to; empty if nothing is."""
        for statement in self.function.body:
            match statement:
                case (
                    ast.Assign(targets=[target], value=value)
                    | ast.AnnAssign(target=target, value=ast.expr() as value)
                ):
                    if ast.unparse(target) == name:
                        return ast.unparse(value)
        return ""

    def write(
        self,
        edits: Sequence[tuple[ast.stmt, Sequence[str]]],
        first: Sequence[str],
        mark: tuple[str, object],
    ) -> str:
        """Return the text with statements replaced by lines, further lines at the function's
        beginning, and an entry in ``inductor_meta``."""
        lines = list(self._lines)
        for node, text in sorted(edits, key=lambda edit: -edit[0].lineno):
            lines[node.lineno - 1 : node.end_lineno] = [f"    {line}" for line in text]
        at = self.function.body[0].lineno - 1
        lines[at:at] = [f"    {line}" for line in first]
        at, column = self._meta.lineno - 1, self._meta.col_offset + 1
        lines[at] = f"{lines[at][:column]}{mark[0]!r}: {mark[1]!r}, {lines[at][column:]}"
        return "\n".join(lines) + "\n"


def list_calls(node: ast.AST) -> list[ast.Call]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)]


def list_names(node: ast.AST) -> list[ast.Name]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name)]


def _parse(source: str) -> ast.Module:
    """Return the syntax tree, with columns as in the text: a kernel has a placeholder for a name,
    ``Placeholder.KERNEL_NAME``, until it is known whether there is an equal one."""
    try:
        return ast.parse(re.sub(r"(?m)^def (\w+)\.(\w+)", r"def \1_\2", source))
    except SyntaxError:
        raise Unfit from None


def _find_kernel(
    module: ast.Module, heuristics: str
) -> tuple[ast.FunctionDef, dict[str | None, ast.expr]]:
    """Return the kernel and the keywords of its decorator."""
    for node in module.body:
        for decorator in getattr(node, "decorator_list", ()):
            if (
                isinstance(node, ast.FunctionDef)
                and isinstance(decorator, ast.Call)
                and ast.unparse(decorator.func) == f"triton_heuristics.{heuristics}"
            ):
                return node, {k.arg: k.value for k in decorator.keywords}
    raise Unfit


def _read_types(meta: ast.expr | None) -> dict[str, str]:
    if isinstance(meta, ast.Dict):
        for key, value in zip(meta.keys, meta.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "signature":
                types: dict[str, str] = ast.literal_eval(value)
                return types
    raise Unfit
