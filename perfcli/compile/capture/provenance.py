"""Finds the FX nodes that a kernel computes, and where in the user's model they come from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfcli.model import Origin

_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)(, in .*)?$')
# Where Dynamo found the outermost module: a local, a global, a cell of the compiled function.
_ROOT = re.compile(r"^[LG]\['[^']+'\](\.__closure__\[\d+\]\.cell_contents)?\.?")


def origins(scheduled: Any) -> tuple[Origin, ...]:
    """Return the origins of scheduler nodes (or one IR node), in graph order.

    Reads ``node.origins`` and ``node.meta`` as Inductor keeps them (torch 2.11 to 2.15).
    """
    nodes: dict[Any, None] = {}
    for item in scheduled if isinstance(scheduled, list | tuple) else [scheduled]:
        ir_node = getattr(item, "node", None) or item
        for origin in getattr(ir_node, "origins", ()):
            nodes[origin] = None
    computed = [n for n in sorted(nodes, key=_position) if n.op == "call_function"]
    found = tuple(_origin(n) for n in computed)
    if any(origin.location for origin in found):
        return found
    return tuple(_take_users_line(n, origin) for n, origin in zip(computed, found, strict=True))


def _take_users_line(node: Any, origin: Origin) -> Origin:
    """Return the origin with the line of the nearest node that uses this one: Inductor's pattern
    matcher puts nodes without a trace (``prims.prepare_softmax_online``) in the place of the
    model's."""
    seen, queue = {node}, [node]
    for current in queue:
        for user in getattr(current, "users", ()):
            location, code = user_line(user.meta.get("stack_trace") or "")
            if location:
                return replace(origin, location=location, code=code)
            if user not in seen:
                seen.add(user)
                queue.append(user)
    return origin


def parts(scheduled: Any, kernel: Any) -> Any:
    """Return the scheduler nodes that one kernel computes. A combo (or ``foreach``) node becomes
    several kernels; each of them computes what its own parts were made for."""
    from torch._inductor.scheduler import ForeachKernelSchedulerNode

    if not isinstance(scheduled, list | tuple):
        return scheduled
    if not any(isinstance(node, ForeachKernelSchedulerNode) for node in scheduled):
        return scheduled
    kernels = getattr(kernel, "sub_kernels", None) or [kernel]
    return [node for part in kernels for node in part.features.node_schedule]


def _position(node: Any) -> int:
    """Return the index of a node in its graph; the indices are kept on the graph, which is frozen
    by now."""
    graph = node.graph
    index = getattr(graph, "_perfcli_index", None)
    if index is None or node not in index:
        index = {n: i for i, n in enumerate(graph.nodes)}
        graph._perfcli_index = index
    return int(index.get(node, -1))


def _origin(node: Any) -> Origin:
    location, code = user_line(node.meta.get("stack_trace") or "")
    aten = node.meta.get("original_aten")
    value = node.meta.get("val")
    return Origin(
        node=node.name,
        op=str(aten if aten is not None else node.target),
        module=_module_path(node.meta),
        shape=tuple(s if isinstance(s, int) else str(s) for s in getattr(value, "shape", ())),
        location=location,
        code=code,
    )


def user_line(stack_trace: str) -> tuple[str, str]:
    """Return ``file:line`` and the text (which a stack trace can lack) of the innermost frame that
    is not torch's own, or of the innermost frame where all are."""
    lines = stack_trace.splitlines()
    frames = []
    for number, text in enumerate(lines):
        if found := _FRAME.match(text):
            following = lines[number + 1] if number + 1 < len(lines) else ""
            code = "" if _FRAME.match(following) else following.strip()
            frames.append((found[1], found[2], code))
    torchs = torch_folder()
    users = [frame for frame in frames if not frame[0].startswith(torchs)]
    for file, line, code in reversed(users or frames):
        return f"{file}:{line}", code
    return "", ""


def torch_folder() -> str:
    """Return the folder that torch is installed in, with a slash at its end."""
    import torch

    return f"{Path(torch.__file__).parent}/"


def _module_path(meta: Any) -> str:
    """Return ``blocks.3.attn`` from the innermost entry of the module stack."""
    stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
    if not stack:
        return ""
    entry = list(stack.values())[-1]
    path = entry[0] if isinstance(entry, tuple) else str(entry)
    path = _ROOT.sub("", str(path))
    path = re.sub(r"_modules\['([^']+)'\]", r"\1", path)
    return re.sub(r"\._modules\.|\['([^']+)'\]", r".\1", path).strip(".")
