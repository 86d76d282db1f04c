"""Decides which kernels' sources may be compiled.

To compile a kernel Python runs its module: imports, the decorator with its arguments, constants.
Triton then reads the function, and calls what stands in it by name. A source that somebody else
wrote is let through only where all of that is known: what Inductor writes, and the user's own
``@triton.jit`` functions that it copies in. All else is refused, and said.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from perfcli.importing.sources.wrapper import UNPARSABLE

MOST_CHARACTERS = 4 << 20
_MOST_NODES = 400_000
_DEEPEST = 100

_IMPORTS = {
    "import triton": {"triton": "triton"},
    "import triton.language as tl": {"tl": "tl"},
    "import triton.language.extra.tlx as tlx": {"tlx": "library"},
    "from torch._inductor.runtime import triton_helpers, triton_heuristics": {
        "triton_helpers": "helpers",
        "triton_heuristics": "heuristics",
    },
    "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math": {
        "libdevice": "library",
        "tl_math": "library",
    },
}
"""Whole statements that Inductor writes, and what the names are that they bring."""
_HINTS = "torch._inductor.runtime.hints"
_HINT_NAMES = {"AutotuneHint", "ReductionHint", "TileHint", "DeviceProperties", "HeuristicType"}
_DESCRIPTORS = {"torch._inductor.runtime.triton_compat", "triton.compiler.compiler"}
_DESCRIPTOR_NAMES = {"AttrsDescriptor"}

_DECORATORS = {
    "pointwise", "reduction", "cooperative_reduction", "persistent_reduction", "split_scan",
    "template", "fixed_config", "user_autotune", "foreach",
}  # fmt: skip
_SUBMODULES = {
    "core", "standard", "semantic", "random", "target_info", "extra", "math", "pymath", "warnings",
    "libdevice", "tl", "triton", "knobs", "builtins", "inspect", "typing", "numbers", "driver",
    "utils", "cuda", "hip", "gdc", "language", "runtime",
}  # fmt: skip
"""Names of modules inside Triton's and Inductor's: none of these is a value in a kernel."""
_TRITON = {"jit", "cdiv", "next_power_of_2"}
_BUILTINS = {"float", "int", "bool", "min", "max", "range", "len", "abs", "tuple", "isinstance"}
_METHODS = {
    "to", "dtype", "shape", "type", "element_ty", "scalar", "primitive_bitwidth", "numel", "value",
    "is_floating", "is_int", "is_ptr", "is_fp8", "is_bf16", "is_fp16", "is_fp32", "T", "trans",
    "permute", "reshape", "view", "broadcast_to", "expand_dims", "cast", "split", "join", "sum",
    "max", "min", "argmax", "argmin", "reduce", "associative_scan", "cumsum", "cumprod", "sort",
    "gather", "flip", "ravel", "item", "load", "store", "atomic_add", "abs", "exp", "log", "sqrt",
    "sigmoid", "softmax", "transpose", "unsqueeze", "stride", "logical_and", "logical_or",
    "xor_sum", "num_bits", "ndim", "int_bitwidth", "fp_mantissa_width", "itemsize",
}  # fmt: skip
"""What is asked of tensors, dtypes and constants in a kernel."""
_STATEMENTS = (
    ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.For, ast.While, ast.If, ast.Return,
    ast.Pass, ast.Break, ast.Continue, ast.Assert,
)  # fmt: skip
_EXPRESSIONS = (
    ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.Constant, ast.Name,
    ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Starred, ast.Dict,
    ast.JoinedStr, ast.FormattedValue,
)  # fmt: skip


class _Refused(Exception):
    """Says why a source is not compiled."""


def refuse(source: str, name: str) -> str:
    """Return why the kernel ``name`` of this text may not be compiled; empty where it may."""
    if len(source) > MOST_CHARACTERS:
        return f"its source is longer than {MOST_CHARACTERS >> 20} Mi characters"
    try:
        module = ast.parse(source)
        _check_size(module)
        _Module().check(module, name)
    except UNPARSABLE as error:
        return f"its source is no Python ({_one_line(str(error) or type(error).__name__)})"
    except _Refused as refused:
        return str(refused)
    return ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:160]


def _check_size(module: ast.Module) -> None:
    """Raise _Refused for a tree that is too large or too deep to walk."""
    waiting: list[tuple[ast.AST, int]] = [(module, 0)]
    count = 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if count > _MOST_NODES or depth > _DEEPEST:
            raise _Refused("its source is larger or deeper than any that Inductor writes")
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]


def _text(node: ast.AST) -> str:
    return _one_line(ast.unparse(node))


class _Module:
    """Checks one module, from top to bottom."""

    def __init__(self) -> None:
        self._kinds: dict[str, str] = {}
        """What each name at the top is: ``tl``, ``function``, ``constant`` …"""

    def check(self, module: ast.Module, name: str) -> None:
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
        self._kinds |= {node.name: "function" for node in functions}
        if len(self._kinds) < len(functions):
            raise _Refused("it defines a function twice")
        for node in module.body:
            self._check_statement(node, name)
        if name not in self._kinds:
            raise _Refused(f"it defines no function {name[:80]}")

    def _check_statement(self, node: ast.stmt, name: str) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.FunctionDef():
                self._check_function(node, node.name == name)
            case ast.Assign([ast.Name(target)], value) | ast.AnnAssign(ast.Name(target), _, value):
                if isinstance(node, ast.AnnAssign):
                    self._check_annotation(node.annotation)
                self._check_constant(value)
                self._add(target, "constant")
            case ast.Expr(ast.Constant()):
                pass
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(owner), called), [], [])) if (
                self._kinds.get(owner) == "helpers" and called.startswith("set_driver_to_")
            ):
                pass
            case _:
                raise _Refused(f"it runs {_text(node)!r}, which no generated kernel does")

    def _add(self, name: str, kind: str) -> None:
        if name.startswith("__") or name in _BUILTINS or self._kinds.get(name, kind) != kind:
            raise _Refused(f"it gives the name {name[:80]} another meaning")
        self._kinds[name] = kind

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        known = _IMPORTS.get(ast.unparse(node))
        if known is None and isinstance(node, ast.ImportFrom) and not node.level:
            names = {alias.name for alias in node.names if alias.asname is None}
            allowed = {_HINTS: _HINT_NAMES} | dict.fromkeys(_DESCRIPTORS, _DESCRIPTOR_NAMES)
            if len(names) == len(node.names) and names <= allowed.get(node.module or "", set()):
                known = dict.fromkeys(names, "hint")
        if known is None:
            raise _Refused(f"it imports what no generated kernel needs: {_text(node)!r}")
        for name, kind in known.items():
            self._add(name, kind)

    # --- what Python evaluates ---------------------------------------------------------------

    def _check_constant(self, node: ast.expr | None) -> None:
        """Check what is evaluated when the module is run: literals, and known constructors."""
        match node:
            case None | ast.Constant():
                return None
            case ast.Name("__file__" | "True" | "False" | "None"):
                return None
            case ast.Tuple(parts) | ast.List(parts) | ast.Set(parts):
                return self._check_constants(parts)
            case ast.Dict(keys, values):
                return self._check_constants([*keys, *values])
            case ast.UnaryOp(ast.USub() | ast.UAdd(), operand):
                return self._check_constant(operand)
            case ast.Attribute(ast.Name(owner), attribute) if not attribute.startswith("_"):
                if self._kinds.get(owner) == "hint" and owner != "DeviceProperties":
                    return None
                if self._kinds.get(owner) == "tl" and attribute not in _SUBMODULES:
                    return None
            case ast.Call(function, given, named) if self._constructs(function):
                return self._check_constants([*given, *(each.value for each in named)])
        raise _Refused(f"it computes {_text(node)!r} where a generated kernel has a literal")

    def _check_constants(self, nodes: Sequence[ast.expr | None]) -> None:
        for node in nodes:
            self._check_constant(node)

    def _constructs(self, function: ast.expr) -> bool:
        match function:
            case ast.Name("set" | "float"):
                return True
            case ast.Name(name):
                return self._kinds.get(name) == "hint"
            case ast.Attribute(ast.Name("AttrsDescriptor"), "from_dict"):
                return self._kinds.get("AttrsDescriptor") == "hint"
            case ast.Attribute(ast.Name(owner), "constexpr"):
                return self._kinds.get(owner) == "tl"
        return False

    def _check_annotation(self, node: ast.expr | None) -> None:
        match node:
            case None | ast.Constant():
                return
            case ast.Attribute(ast.Name(owner), name) if self._kinds.get(owner) == "tl":
                if name not in _SUBMODULES and not name.startswith("_"):
                    return
        raise _Refused(f"it annotates with {_text(node)!r}")

    def _check_function(self, node: ast.FunctionDef, is_kernel: bool) -> None:
        decorators = list(node.decorator_list)
        if not decorators or not self._is_jit(decorators.pop()):
            raise _Refused(f"its function {node.name[:80]} is not decorated with @triton.jit alone")
        for decorator in decorators:
            self._check_heuristic(decorator)
        if len(decorators) != is_kernel:
            raise _Refused(
                f"its function {node.name[:80]} has {len(decorators)} of Inductor's decorators"
            )
        arguments = node.args
        self._check_constants([*arguments.defaults, *arguments.kw_defaults])
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for each in every:
            self._check_annotation(each.annotation)
        if arguments.vararg or arguments.kwarg:
            raise _Refused(f"its function {node.name[:80]} takes any number of arguments")
        self._check_annotation(node.returns)
        _Body(self._kinds, [each.arg for each in every]).check(node)

    def _is_jit(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(function, [], named):
                self._check_constants([each.value for each in named])
                node = function
        match node:
            case ast.Attribute(ast.Name(owner), "jit"):
                return self._kinds.get(owner) == "triton"
        return False

    def _check_heuristic(self, node: ast.expr) -> None:
        match node:
            case ast.Call(ast.Attribute(ast.Name(owner), name), given, named) if (
                self._kinds.get(owner) == "heuristics" and name in _DECORATORS
            ):
                for each in named:
                    if each.arg is None:
                        break
                    is_file = isinstance(each.value, ast.Name) and each.value.id == "__file__"
                    if each.arg == "filename" and not is_file:
                        break
                else:
                    self._check_constants([*given, *(each.value for each in named)])
                    _check_metadata(node)
                    return
        raise _Refused(f"its decorator {_text(node)[:80]!r} is none that Inductor writes")


def _check_metadata(node: ast.Call) -> None:
    """Raise _Refused for settings that reach outside of the process that compiles."""
    for each in ast.walk(node):
        if isinstance(each, ast.Dict):
            for key, value in zip(each.keys, each.values, strict=True):
                name = key.value if isinstance(key, ast.Constant) else ""
                wants = not (isinstance(value, ast.Constant) and not value.value)
                if isinstance(name, str) and name.endswith("remote_cache") and wants:
                    raise _Refused("it asks a remote cache for launch configurations")
                if name in ("ir_override", "extern_libs", "pre_hook"):
                    raise _Refused(f"its launch configuration names a file or a hook ({name})")


class _Body:
    """Checks the function of a kernel, which Triton reads: it calls what stands there by name."""

    def __init__(self, kinds: dict[str, str], parameters: Sequence[str]) -> None:
        self._kinds = kinds
        self._locals = set(parameters)

    def check(self, function: ast.FunctionDef) -> None:
        for node in _walk_body(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._locals.add(node.id)
        taken = self._locals & (self._kinds.keys() | _BUILTINS)
        modules = {name for name in taken if self._kinds.get(name) not in ("constant", "function")}
        if modules or any(name.startswith("__") for name in self._locals):
            raise _Refused(f"its function {function.name[:80]} gives a name another meaning")
        for node in _walk_body(function):
            self._check(node)

    def _check(self, node: ast.AST) -> None:
        match node:
            case ast.stmt():
                if not isinstance(node, _STATEMENTS):
                    raise _Refused(f"it has a statement that no kernel has: {_text(node)[:80]!r}")
            case ast.Attribute():
                self._check_attribute(node)
            case ast.Name(name):
                known = name in self._locals or name in self._kinds or name in _BUILTINS
                if not known and name not in ("True", "False", "None"):
                    raise _Refused(f"it uses the name {name[:80]!r}, which no kernel has")
            case ast.Call(ast.Name() | ast.Attribute()):
                pass
            case ast.Call():
                raise _Refused(f"it calls what it computes: {_text(node)[:80]!r}")
            case ast.expr():
                if not isinstance(node, _EXPRESSIONS):
                    raise _Refused(f"it has an expression that no kernel has: {_text(node)[:80]!r}")

    def _check_attribute(self, node: ast.Attribute) -> None:
        path = [node.attr]
        owner: ast.expr = node.value
        while isinstance(owner, ast.Attribute):
            path.insert(0, owner.attr)
            owner = owner.value
        kind = self._kinds.get(owner.id, "") if isinstance(owner, ast.Name) else ""
        if any(name.startswith("_") for name in path) or not _is_known_path(kind, path):
            raise _Refused(f"it uses {_text(node)[:80]!r}, which no kernel has")


def _is_known_path(kind: str, path: list[str]) -> bool:
    """Return whether a kernel may use this path of attributes of a name."""
    first, *rest = path
    if kind in ("", "constant"):
        return all(name in _METHODS for name in path)
    if kind == "triton":
        is_language = first == "language" and len(rest) == 1 and rest[0] not in _SUBMODULES
        return is_language or path == ["language"] or (first in _TRITON and not rest)
    if kind == "tl":
        library = ["extra", "cuda", "libdevice"]
        if path == ["math"] or path == library[: len(path)]:
            return True  # the beginning of a longer path, which is looked at as well
        if first in ("math", "extra"):
            known = path[:1] == ["math"] or path[:2] == library[:2]
            is_last = len(path) == (2 if first == "math" else 4 if path[:3] == library else 3)
            return known and is_last and path[-1] not in _SUBMODULES
    if kind in ("tl", "library", "helpers"):
        return first not in _SUBMODULES and all(name in _METHODS for name in rest)
    return False


def _walk_body(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from ast.walk(statement)
