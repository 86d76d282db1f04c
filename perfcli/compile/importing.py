"""Imports what stays as long as the process."""

from __future__ import annotations

import gc
import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager


def import_inductor() -> None:
    """Import torch and everything that a variant is compiled with, so that processes that are
    forked later share it."""
    with without_collection():
        import torch._dynamo
        import torch._inductor.codegen.cpp
        import torch._inductor.codegen.triton
        import torch._inductor.compile_fx
        import torch._inductor.runtime.triton_heuristics  # noqa: F401

        if importlib.util.find_spec("triton") is not None:
            importlib.import_module("triton.compiler.code_generator")


@contextmanager
def without_collection() -> Iterator[None]:
    """Look for no garbage in what is imported in the block, now or later: it is all in use. Torch
    and Inductor are 380,000 objects, through which Python would go again and again: a fifth of the
    processor time of importing them (torch 2.13, 2026-11-23)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
