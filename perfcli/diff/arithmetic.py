"""Tells what operators ask of a device's arithmetic, roughly: instructions for each element."""

from __future__ import annotations

import math

from perfcli.model import Origin

_HEAVY = {
    "exp": 6, "exp2": 4, "expm1": 12, "log": 8, "log1p": 14, "log2": 6, "sin": 24, "cos": 24,
    "tan": 40, "tanh": 16, "sinh": 20, "cosh": 20, "erf": 20, "erfc": 24, "erfinv": 30, "gelu": 22,
    "sigmoid": 12, "silu": 14, "pow": 12, "div": 8, "reciprocal": 6, "sqrt": 6, "rsqrt": 4,
    "lgamma": 60, "digamma": 60, "atan2": 30, "atan": 24, "asin": 24, "acos": 24, "fmod": 16,
    "remainder": 16, "softplus": 18, "mish": 30, "elu": 10, "logit": 16,
}  # fmt: skip
_COPIES = ("view", "reshape", "permute", "expand", "clone", "slice", "select", "cat", "unsqueeze",
           "squeeze", "transpose", "convert_element_type", "full", "constant_pad", "split",
           "getitem", "alias", "t_", "stack")  # fmt: skip

_OF_INDICES = ("roll", "flip", "rot90", "arange", "index", "gather")
"""ATen operators whose parts compute where an element lies, such as the ``fmod`` of ``roll``; that
is integer arithmetic of a few instructions."""


def word_of(origin: Origin) -> str:
    """Return ``sin`` of the node ``sin_3``; nodes are finer than the operators that they are made
    of."""
    parts = origin.node.removesuffix("_default").split("_")
    while len(parts) > 1 and (not parts[-1] or parts[-1].isdigit()):
        parts.pop()
    return "_".join(parts)


def is_heavy(origin: Origin) -> bool:
    """Return whether it takes many instructions for each element."""
    return word_of(origin) in _HEAVY and not _is_of_indices(origin)


def _is_of_indices(origin: Origin) -> bool:
    return origin.op.removeprefix("aten.").startswith(_OF_INDICES)


def weigh_node(origin: Origin) -> int:
    """Return the instructions of an FX node for each of its elements; 0 for what only moves."""
    word = word_of(origin)
    if _is_of_indices(origin):
        return 1
    return 0 if word.startswith(_COPIES) else _HEAVY.get(word, 1)


def elements_of(origin: Origin) -> int | None:
    """Return the elements of a node's result, or None where its size is a symbol."""
    if not all(isinstance(size, int) for size in origin.shape):
        return None
    return math.prod(size for size in origin.shape if isinstance(size, int))
