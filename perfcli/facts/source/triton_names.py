"""Names what the functions that Triton kernels call do to memory, by full name.

Seen with triton 3.6 to 3.9 and the code that Inductor of torch 2.11 to 2.15 writes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Kind = Literal["load", "store", "atomic"]

LANGUAGE = "triton.language"
HELPERS = "torch._inductor.runtime.triton_helpers"

# online_softmax_combine, online_softmax_combine_with_sum, online_softmax_reduce.
ONLINE_SOFTMAX = f"{HELPERS}.online_softmax_"

# Names that generated code and the documentation's examples use; a kernel's text taken without
# its module has no imports to say so.
DEFAULT_ALIASES = {"tl": LANGUAGE, "triton": "triton", "triton_helpers": HELPERS}

_ACCESSES: dict[str, Kind] = {
    "load": "load",
    "load_tensor_descriptor": "load",
    "_experimental_descriptor_load": "load",
    "_experimental_descriptor_gather": "load",
    "store": "store",
    "store_tensor_descriptor": "store",
    "_experimental_descriptor_store": "store",
    "_experimental_descriptor_scatter": "store",
}
_METHODS: dict[str, Kind] = {"load": "load", "gather": "load", "store": "store", "scatter": "store"}
_REDUCTIONS = {
    LANGUAGE: {"sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum", "reduce_or"},
    HELPERS: {
        "any",
        "max2",
        "max_with_index",
        "min2",
        "min_with_index",
        "online_softmax_reduce",
        "prod",
        "welford",
    },
}
_REDUCTION_METHODS = _REDUCTIONS[LANGUAGE] - {"reduce_or"}
_MASK_POSITION: dict[Kind, int] = {"load": 1, "store": 2, "atomic": 2}


@dataclass(frozen=True, slots=True)
class HelperAccess:
    """Describes one access that a library helper makes through its argument number ``argument``."""

    kind: Kind
    argument: int
    name: str
    in_loop: bool = False


# The helpers of triton_helpers that touch memory: their bodies are not in the kernel's text.
LIBRARY_EFFECTS: dict[str, tuple[HelperAccess, ...]] = {
    f"{HELPERS}.bucketize_binary_search": (
        HelperAccess("load", 8, "sorter_ptr", in_loop=True),
        HelperAccess("load", 1, "boundaries_ptr", in_loop=True),
    ),
    f"{HELPERS}.exclusive_scan_decoupled_lookback": (
        HelperAccess("atomic", 0, "scratch_base"),
        HelperAccess("atomic", 0, "scratch_base", in_loop=True),
        HelperAccess("atomic", 0, "scratch_base"),
    ),
    f"{HELPERS}.exclusive_scan_decoupled_lookback_64": (
        HelperAccess("store", 0, "scratch_base"),
        HelperAccess("atomic", 0, "scratch_base"),
        HelperAccess("atomic", 0, "scratch_base", in_loop=True),
        HelperAccess("load", 0, "scratch_base", in_loop=True),
        HelperAccess("store", 0, "scratch_base"),
        HelperAccess("atomic", 0, "scratch_base"),
    ),
    f"{HELPERS}.x_grid_barrier": (
        HelperAccess("atomic", 0, "sem"),
        HelperAccess("atomic", 0, "sem", in_loop=True),
    ),
}


def _import_aliases(module: ast.Module) -> dict[str, str]:
    """Return local name to full name, for every import in the text."""
    aliases = dict(DEFAULT_ALIASES)
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.asname:
                    aliases[item.asname] = item.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            for item in node.names:
                aliases[item.asname or item.name] = f"{node.module}.{item.name}"
    return aliases


def _full_name(function: ast.expr, aliases: dict[str, str], local: Iterable[str]) -> str | None:
    """Return ``triton.language.load`` for ``tl.load``, or None for what starts at a local
    variable."""
    parts: list[str] = []
    node = function
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id in local:
        return None
    return ".".join([aliases.get(node.id, node.id), *reversed(parts)])


def _access_kind(name: str) -> Kind | None:
    """Return what a function of ``triton.language`` does to its first argument's memory."""
    module, _, function = name.rpartition(".")
    if module != LANGUAGE:
        return None
    return "atomic" if function.startswith("atomic_") else _ACCESSES.get(function)


def _method_kind(name: str) -> Kind | None:
    """Return what a method of a tensor descriptor does to its memory."""
    return "atomic" if name.startswith("atomic_") else _METHODS.get(name)


def _is_reduction(name: str) -> bool:
    """Return whether the function combines values across a tile's axis (a scan does not)."""
    module, _, function = name.rpartition(".")
    return function in _REDUCTIONS.get(module, ())


def _is_reduction_method(name: str) -> bool:
    return name in _REDUCTION_METHODS


def _is_masked(name: str, call: ast.Call, kind: Kind) -> bool:
    """Return whether an access carries a mask, or bounds to check for a block pointer."""
    for keyword in call.keywords:
        if keyword.arg == "mask":
            return not _is_none(keyword.value)
        if keyword.arg == "boundary_check":
            return not (isinstance(keyword.value, ast.Tuple | ast.List) and not keyword.value.elts)
    if "descriptor" in name or name.endswith(".atomic_cas"):
        return False
    position = _MASK_POSITION[kind]
    return len(call.args) > position and not _is_none(call.args[position])


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
