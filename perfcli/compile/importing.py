"""Imports what stays as long as the process."""

from __future__ import annotations

import ctypes
import gc
import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BESIDE = ("sympy", "networkx", "jinja2", "filelock")
"""What torch imports and what needs no library of its own."""


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


def load_libraries() -> None:
    """Load torch's libraries, which is done without Python's lock, while Python imports packages
    that torch will import. They are those that torch loads, in the same order and way."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent / "lib"
    # By a pointer to the function: ctypes.CDLL keeps the lock until a library is loaded.
    load = ctypes.CDLL(None).dlopen
    load.argtypes, load.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p

    def load_all() -> None:
        for name, mode in _LIBRARIES:
            load(os.fsencode(folder / name), mode)

    loading = threading.Thread(target=load_all)
    loading.start()
    with without_collection():
        for name in _BESIDE:
            with suppress(ImportError):
                importlib.import_module(name)
    loading.join()


_LIBRARIES = (
    ("libtorch_global_deps.so", os.RTLD_NOW | os.RTLD_GLOBAL),
    ("libtorch.so", os.RTLD_NOW),
)


_RARELY = (50_000, 20, 100)
"""In place of Python's thresholds: 500 collections are a twentieth of the time in which code is
generated for two layers (torch 2.11, 2026-11-24)."""


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Look for garbage less often in the block."""
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
