"""Counts on its syntax tree what a Triton kernel's source says about memory."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from perfcli.errors import UnreadableSource
from perfcli.facts.source.held_copies import _held_copies
from perfcli.facts.source.triton_names import _import_aliases
from perfcli.facts.source.triton_walk import NOTHING, TritonWalk, Value
from perfcli.model import Access, SourceFacts


def triton_facts(source: str, name: str) -> SourceFacts:
    """Return facts of the kernel called ``name`` in a module's text.

    ``source`` is what Inductor hands to ``async_compile.triton``, or a module or function that a
    user wrote. Static counts: a load in a loop is one load; both branches of an ``if`` count; a
    ``@triton.jit`` function of the same text counts as often as it is called, on the line of the
    outermost call. Of the library's own functions only those that Inductor gives pointers to are
    known (``triton_names.LIBRARY_EFFECTS``). A pass over a buffer is an innermost loop that loads
    it: a persistent kernel's outer loop, over rows, stands for the grid. ``buffers_read`` counts
    distinct pointers that are loaded, ``buffers_written`` those stored or updated atomically, so an
    ``in_out_ptr`` counts in both when it is both; accesses whose pointer could not be traced are in
    neither. Raises UnreadableSource where the text is no Python, or holds no such kernel."""
    try:
        module = ast.parse(source)
    except SyntaxError as error:
        raise UnreadableSource(
            f"kernel {name}: expected a Python module with a @triton.jit function, "
            f"but line {error.lineno} does not parse: {error.msg}"
        ) from None
    functions = _jit_functions(module)
    kernel = _find_kernel(functions, name)
    aliases = _import_aliases(module)
    walk = TritonWalk(functions, aliases)
    walk.function(kernel, _pointer_arguments(kernel))
    facts = _summarize(walk.accesses, walk.sweeps, reductions=walk.reductions, loops=walk.loops)
    return replace(
        facts,
        online_softmax=walk.online_softmax,
        held_copies=_held_copies(kernel, _signature(kernel), aliases),
    )


def _summarize(
    accesses: Sequence[Access],
    sweeps: Mapping[str, Collection[int]],
    *,
    reductions: int,
    loops: int,
) -> SourceFacts:
    """Return the counts that follow from the list of accesses, and from which sweeps load a
    buffer."""
    loads = [a for a in accesses if a.kind == "load"]
    stores = [a for a in accesses if a.kind == "store"]
    return SourceFacts(
        loads=len(loads),
        loads_in_loops=sum(a.depth > 0 for a in loads),
        stores=len(stores),
        stores_in_loops=sum(a.depth > 0 for a in stores),
        atomics=sum(a.kind == "atomic" for a in accesses),
        reductions=reductions,
        loops=loops,
        accesses=tuple(accesses),
        passes={pointer: len(where) for pointer, where in sweeps.items()},
        buffers_read=len({a.pointer for a in loads if a.pointer}),
        buffers_written=len({a.pointer for a in accesses if a.kind != "load" and a.pointer}),
    )


def _jit_functions(module: ast.Module) -> dict[str, ast.FunctionDef]:
    return {
        node.name: node
        for node in module.body
        if isinstance(node, ast.FunctionDef) and any(map(_is_jit, node.decorator_list))
    }


def _is_jit(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    if isinstance(decorator, ast.Attribute):
        return decorator.attr == "jit"
    return isinstance(decorator, ast.Name) and decorator.id == "jit"


def _find_kernel(functions: Mapping[str, ast.FunctionDef], name: str) -> ast.FunctionDef:
    """Return the kernel by its name, else the only function that no other one calls (Inductor
    numbers a user's kernels when it calls them, ``add_kernel_0``, and leaves their definitions
    alone)."""
    if name in functions:
        return functions[name]
    called = {
        call.func.id
        for function in functions.values()
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    roots = [function for key, function in functions.items() if key not in called]
    if len(roots) == 1:
        return roots[0]
    raise UnreadableSource(
        f"expected a @triton.jit function {name} in the kernel's source, "
        f"found {', '.join(functions) or 'none'}"
    )


def _pointer_arguments(kernel: ast.FunctionDef) -> dict[str, Value]:
    """Return every argument that may be a pointer, pointing at itself.

    Inductor writes the types into its decorator. Without them it is any argument that is not
    ``constexpr`` and that nothing multiplies, compares or counts with.
    """
    arguments = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    types = _signature(kernel)
    integers = _integer_names(kernel)
    return {
        a.arg: Value((a.arg,))
        if (
            types[a.arg].startswith(("*", "tensordesc"))
            if a.arg in types
            else a.arg not in integers and not _is_constexpr(a)
        )
        else NOTHING
        for a in arguments
    }


def _signature(kernel: ast.FunctionDef) -> dict[str, str]:
    for decorator in kernel.decorator_list:
        for node in ast.walk(decorator):
            if not isinstance(node, ast.Dict):
                continue
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "signature":
                    types = ast.literal_eval(value)
                    return {str(k): str(v) for k, v in types.items()}
    return {}


def _is_constexpr(argument: ast.arg) -> bool:
    return argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)


_COUNTING = ("range", "static_range", "cdiv")


def _integer_names(kernel: ast.FunctionDef) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(kernel):
        operands: Sequence[ast.expr] = ()
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add | ast.Sub):
            operands = (node.left, node.right)
        elif isinstance(node, ast.Compare) and not any(
            isinstance(op, ast.Is | ast.IsNot) for op in node.ops
        ):
            operands = (node.left, *node.comparators)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _COUNTING:
            operands = node.args
        names |= {o.id for o in operands if isinstance(o, ast.Name)}
    return names
