"""Gives the grid that Inductor launches a kernel with, from its source, sizes and configuration;
that of a user's kernel from what the launcher is called with.

The rules are those of ``torch/_inductor/runtime/triton_heuristics.py`` (``GridExpr``), as in torch
2.11 to 2.13.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

from perfcli.model import Grid

MOST_BLOCKS_Y = 65535
"""CUDA's limit on the second dimension of a grid."""


def grid_of(
    source: str,
    config: Mapping[str, int],
    sizes: Mapping[str, int],
    scalars: Mapping[str, int] | None = None,
) -> Grid | None:
    """Return the grid of a launch; None where the source does not say how it is made.

    ``config`` is the launch configuration (``XBLOCK`` …), ``sizes`` the iteration space (``x``,
    ``r0_`` …), ``scalars`` are the whole numbers that the launcher gets.
    """
    meta = _read_meta(source, "inductor_meta")
    rule = _RULES.get(str(meta.get("grid_type")))
    if rule is None:
        return None
    numels = {f"{name}numel": size for name, size in sizes.items()} | dict(scalars or {})
    try:
        return rule(meta, dict(config), numels)
    except (KeyError, TypeError, ValueError, SyntaxError, ZeroDivisionError):
        return None


def count_blocks_at_once(
    source: str,
    config: Mapping[str, int],
    sizes: Mapping[str, int],
    scalars: Mapping[str, int] | None = None,
) -> int | None:
    """Return the blocks of a launch, where all of them start together or none does, since they wait
    for each other (``CooperativeReductionGrid``); None where that is not so, or the grid is not
    known. What is given is that of ``grid_of``."""
    if _COOPERATIVE not in source or not _read_meta(source, "triton_meta").get(_COOPERATIVE):
        return None
    grid = grid_of(source, config, sizes, scalars)
    return None if grid is None else math.prod(grid)


_COOPERATIVE = "launch_cooperative_grid"


@functools.lru_cache(maxsize=64)
def _read_meta(source: str, name: str) -> Mapping[str, Any]:
    """Return the literal part of a kernel's ``inductor_meta`` or ``triton_meta``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == name:
            return _literals(node.value)
    return {}


def _literals(node: ast.expr) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if not isinstance(node, ast.Dict):
        return found
    for key, value in zip(node.keys, node.values, strict=True):
        try:
            if key is not None:
                found[ast.literal_eval(key)] = ast.literal_eval(value)
        except ValueError:
            continue
    return found


def _blocks(size: int, block: int | None) -> int:
    return -(-size // block) if block else size


def _one(_: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]) -> Grid:
    return _blocks(numels["xnumel"], config.get("XBLOCK")), 1, 1


def _two(_: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]) -> Grid:
    x = _blocks(numels["xnumel"], config.get("XBLOCK"))
    return x, _blocks(numels["ynumel"], config.get("YBLOCK")), 1


def _three(_: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]) -> Grid:
    x, y, _z = _two({}, config, numels)
    return x, y, _blocks(numels["znumel"], config.get("ZBLOCK"))


def _folded(_: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]) -> Grid:
    """Return a grid whose second dimension continues in the third where it is too long."""
    x, y, _z = _two({}, config, numels)
    z = _blocks(y, MOST_BLOCKS_Y)
    return x, _blocks(y, z), z


def _mix_order(_: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]) -> Grid:
    return _blocks(numels["xnumel"], config["RSPLIT_SIZE"]), 1, 1


def _cooperative(
    _: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]
) -> Grid:
    return config["RSPLIT"], _blocks(numels["xnumel"], config.get("XBLOCK")), 1


def _split_scan(_: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]) -> Grid:
    return _blocks(numels["r0_numel"], config.get("R0_BLOCK")), numels["xnumel"], 1


def _combo(
    meta: Mapping[str, Any],
    config: dict[str, int],
    numels: Mapping[str, int],
    combine: Callable[[list[int]], int],
) -> Grid:
    combo = meta["combo_grid_meta"]
    config = {**(combo["default_config"] or {}), **config}
    parts = range(combo["num_kernels"])

    def size(axis: str, part: int) -> int:
        name = f"{axis}numel_{part}"
        return int(combo[name] or numels[name])

    blocks = [
        _blocks(size("x", part), 1 if combo[f"no_x_dim_{part}"] else config.get("XBLOCK"))
        for part in parts
    ]
    x = max(combine(blocks), combo["min_blocks"] or 0)
    heights = [size("y", part) for part in parts if f"ynumel_{part}" in combo]
    if not heights:
        return x, 1, 1
    y = _blocks(max(heights), config.get("YBLOCK"))
    z = _blocks(y, MOST_BLOCKS_Y)
    return x, _blocks(y, z), z


def _fixed(meta: Mapping[str, Any], _: Mapping[str, int], numels: Mapping[str, int]) -> Grid:
    x, y, z = (numels[name] for name in meta["fixed_grid"])
    return x, y, z


def _precomputed(
    meta: Mapping[str, Any], config: Mapping[str, int], numels: Mapping[str, int]
) -> Grid:
    """Return the grid that stands beside the configuration, an expression for each dimension."""
    for known in meta["precomputed_grids"]:
        if all(config.get(name, value) == value for name, value in known["config"].items()):
            found = [
                _compute(ast.parse(text, mode="eval").body, numels) for text in known["python"]
            ]
            x, y, z = (*found, 1, 1)[:3]
            return x, y, z
    raise KeyError("no such configuration")


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: int.__floordiv__,
    ast.Mod: int.__mod__,
}


def _compute(node: ast.expr, numbers: Mapping[str, int]) -> int:
    """Return the value of an expression of whole numbers. Raises ValueError for others."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name):
        return numbers[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _compute(node.left, numbers), _compute(node.right, numbers)
        return _OPERATORS[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_compute(node.operand, numbers)
    raise ValueError(ast.unparse(node))


_RULES: dict[str, Callable[[Mapping[str, Any], dict[str, int], Mapping[str, int]], Grid]] = {
    "Grid1D": _one,
    "Grid2D": _two,
    "Grid3D": _three,
    "Grid2DWithYZOverflow": _folded,
    "MixOrderReductionGrid": _mix_order,
    "CooperativeReductionGrid": _cooperative,
    "SplitScanGrid": _split_scan,
    "FixedGrid": _fixed,
    "PrecomputedGrid": _precomputed,
    "SequentialComboKernelGrid": lambda meta, config, numels: _combo(meta, config, numels, sum),
    "RoundRobinComboKernelGrid": lambda meta, config, numels: _combo(
        meta, config, numels, lambda blocks: max(blocks) * len(blocks)
    ),
}
