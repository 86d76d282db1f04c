"""Finds element types by name, and how exactly a result in each can be right."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

FLOATS = ("bfloat16", "float16", "float32", "float64")

TOLERANCE = {"bfloat16": 2**-7, "float16": 2**-10, "float32": 1e-5, "float64": 1e-12}
"""Largest error, as a part of the reference's largest value, of a computation that keeps its
intermediate values in float32 and rounds its inputs and its result once: two units in the last
place (2⁻⁸ and 2⁻¹¹ relative, half units), and for float32 the summing of up to 2¹⁶ values."""


def torch_dtype(name: object) -> Any:
    """Return ``torch.bfloat16`` for ``bfloat16``."""
    import torch

    return getattr(torch, str(name))


@contextlib.contextmanager
def default_dtype(name: object) -> Iterator[None]:
    """Make new floating-point parameters of this type. Only while building: a default left in place
    would change the type of scalars in the model itself."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch_dtype(name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)
