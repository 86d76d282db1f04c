"""Reads what the modes of ``torch.compile`` stand for from an installed torch, without importing
it.

``torch/_inductor/__init__.py`` has them as a dictionary in ``list_mode_options``. Seen with torch
2.11 to 2.13.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.model import OptionValue
from perfcli.names import suggestion

MODE = "mode"
"""The name by which a mode is given in place of the options that it stands for."""


def expand_mode(mode: str, torch_dir: Path) -> Mapping[str, OptionValue]:
    """Return the options that a mode sets, by the torch in ``torch_dir``. Raises PerfcliError where
    this torch has no such mode, or does not say what its modes set."""
    modes = _read_modes(torch_dir / "_inductor" / "__init__.py")
    if mode not in modes:
        raise PerfcliError(f"this torch has no mode {mode!r}: {suggestion(mode, set(modes))}")
    return modes[mode]


def _read_modes(path: Path) -> Mapping[str, Mapping[str, OptionValue]]:
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        function = next(
            node
            for node in body
            if isinstance(node, ast.FunctionDef) and node.name == "list_mode_options"
        )
        known = dict(_list_assigned(body))
        modes = dict(_list_assigned(function.body))["mode_options"]
        assert isinstance(modes, ast.Dict)
        found = {}
        for key, value in zip(modes.keys, modes.values, strict=True):
            given = known[value.id] if isinstance(value, ast.Name) else value
            found[ast.literal_eval(key or modes)] = ast.literal_eval(given)
    except (OSError, SyntaxError, StopIteration, LookupError, ValueError, AssertionError) as error:
        raise PerfcliError(
            f"what modes stand for can't be read from {path}: set their options one by one "
            "(max_autotune, triton.cudagraphs …)"
        ) from error
    return found


def _list_assigned(body: list[ast.stmt]) -> list[tuple[str, ast.expr]]:
    """Return the names that statements assign to, with what they assign."""
    found = []
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        value = getattr(node, "value", None)
        found += [(t.id, value) for t in targets if isinstance(t, ast.Name) and value is not None]
    return found
