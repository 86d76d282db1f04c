"""Reads what Inductor's C++ CPU kernels do to memory off their tokens.

Seen with the code that Inductor of torch 2.11 to 2.15 writes (``codegen/cpp.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from perfcli.errors import UnreadableSource
from perfcli.facts.source.cpp_walk import CppWalk, Token, _matching_brackets, _tokenize
from perfcli.facts.source.triton import _summarize
from perfcli.model import SourceFacts


def cpp_facts(source: str) -> SourceFacts:
    """Return facts of the ``extern "C"`` kernel in a text that Inductor hands to
    ``async_compile.cpp…``.

    An access goes to memory when it addresses one of the kernel's arguments; scratch buffers on
    the stack do not count. Static counts: the vectorised loop's main and tail body both count,
    the tail's accesses (``C10_UNLIKELY``) as masked. A pass over a buffer is an innermost loop:
    the outer ones, over rows, stand for what is a Triton kernel's grid. Reductions are the
    accumulators that Inductor declares. Element ``p[i]`` is a scalar access; ``loadu``,
    ``store``, masks and transposed tiles move vectors.

    Raises:
        UnreadableSource: there is no such kernel, or its brackets do not close.
    """
    tokens = _tokenize(source)
    start, pointers = _find_kernel(tokens)
    walk = CppWalk(tokens, _matching_brackets(tokens), {name: name for name in pointers})
    walk.statement(start)
    facts = _summarize(walk.accesses, walk.sweeps, reductions=walk.reductions, loops=walk.loops)
    return replace(
        facts,
        vector_loads=sum(a.kind == "load" and bool(a.vectorized) for a in walk.accesses),
        vector_stores=sum(a.kind == "store" and bool(a.vectorized) for a in walk.accesses),
        parallel_regions=walk.parallel_regions,
    )


def _find_kernel(tokens: Sequence[Token]) -> tuple[int, list[str]]:
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


def _pointers(parameters: Sequence[Token]) -> list[str]:
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
