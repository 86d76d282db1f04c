"""Installs patches in this process, and says which are active and how often each acted."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from perfcli import units
from perfcli.compile.patches.patching import Patching
from perfcli.errors import CompileFailed
from perfcli.model import PATCHED, OptionValue
from perfcli.options.patches import PATCHES, explain_refusal

_FILES = {
    "triton.mix_order_reduction_max_reads": "mix_order_reads",
    "patch.split_online_softmax": "split_online_softmax",
    "patch.accumulated_reads_size": "accumulated_reads",
    "patch.loop_peeling": "loop_peeling",
    "patch.recompute_half_inputs": "recompute",
}
"""The module of each patch. Its function ``apply`` takes a ``Patching`` and the value."""

_active: dict[str, tuple[OptionValue, Patching]] = {}


def install(name: str, value: OptionValue) -> Callable[[], None]:
    """Apply a patch to the torch of this process and return what takes it away again. A value that
    switches it off changes nothing. Raises CompileFailed where there is no such patch, it has no
    such value, or it does not fit this torch; the message names the piece that is missing."""
    patch = PATCHES.get(name)
    if patch is None:
        raise CompileFailed(f"there is no patch {name}: there are {', '.join(PATCHES)}")
    if not patch.accepts(value):
        raise CompileFailed(f"{name} needs {patch.values_in_words}, got {value!r}")
    if patch.is_off(value):
        return lambda: None
    _check_release(name)
    if name in _active:
        raise CompileFailed(f"{name} is {units.setting(_active[name][0])} in this process already")
    patching = Patching(patch)
    apply = import_module(f"perfcli.compile.patches.{_FILES[name]}").apply
    try:
        apply(patching, value)
    except BaseException:
        patching.undo()
        raise
    _active[name] = (value, patching)

    def undo() -> None:
        _active.pop(name, None)
        patching.undo()

    return undo


def _check_release(name: str) -> None:
    import torch
    import torch._inductor.config as inductor

    refusal = explain_refusal(name, torch.__version__, inductor._config)
    if refusal:
        raise CompileFailed(f"{name}: {refusal}")


def settings() -> dict[str, OptionValue]:
    """Return the patches that are active in this process, with their values."""
    return {name: value for name, (value, _) in _active.items()}


def counters() -> dict[str, int]:
    """Return how often each active patch acted, where it did."""
    found = {patching.patch.counter: patching.acted for _, patching in _active.values()}
    return {name: acted for name, acted in found.items() if acted}


def reset_counters() -> None:
    for _, patching in _active.values():
        patching.acted = patching.left = 0


def notes() -> tuple[str, ...]:
    """Return what the reader of a run has to know about the patches that are active."""
    return tuple(_write_note(value, patching) for value, patching in _active.values())


def _write_note(value: OptionValue, patching: Patching) -> str:
    patch, acted = patching.patch, patching.acted
    did = f"{patch.verb} {units.plural(acted, patch.unit)}" if acted else "acted nowhere"
    if patching.left:
        did += f" and left {units.plural(patching.left, patch.unit)} as torch has it"
    return f"{PATCHED}{patch.name}={units.setting(value)} {did}"
