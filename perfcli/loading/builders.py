"""Tells whether a user's file has anything to compile, by its text, before it is run."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.names import internal, public

_SCALARS = {"bool", "int", "float", "str"}
_WRITE = "write a function that returns what to compile and its inputs, for example:"


def check_builder(path: str, name: str | None, given: Collection[str]) -> None:
    """Raise PerfcliError, with a function to copy, where the text already shows that nothing in
    the file builds a model with its inputs, or that what does takes a tensor. ``given`` are the
    names of the parameters that were typed. What the text leaves open shows when the file runs."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    if _is_open(tree):
        return
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    if name is not None:
        chosen = functions.get(internal(name))
        named = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == internal(name)]
        if named:
            raise _refused(f"{path}:{name} is a class, not a function that builds a model", tree)
    else:
        own = {n: f for n, f in functions.items() if not n.startswith("_")}
        chosen = _only(path, own, tree)
    if chosen is not None:
        _check_arguments(f"{path}:{chosen.name}", chosen, set(map(internal, given)))


def find_silent(path: Path) -> set[str]:
    """Return the names of the functions at the top of a file that return nothing: no builders."""
    try:
        body = ast.parse(path.read_text(encoding="utf-8")).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    return {n.name for n in body if isinstance(n, ast.FunctionDef) and not _returns(n)}


def write_template(call: str = "Model()") -> str:
    """Return a function for users to copy, which builds ``call`` and its inputs."""
    return (
        f"{_WRITE}\n\n"
        f"def build():\n    return {call}, (torch.randn(8, 128),)  # with the shape of your inputs"
    )


def _is_open(tree: ast.Module) -> bool:
    """Return whether the file can have what its top-level functions do not show: a declared
    Scenario, names from elsewhere, functions that are assigned or defined under a condition."""
    if any(_can_bring_scenario(node) for node in ast.walk(tree)):
        return True
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Lambda):
            return True
        inner = (n for n in ast.walk(node) if n is not node)
        compound = isinstance(node, ast.If | ast.Try | ast.With | ast.For)
        if compound and any(isinstance(n, ast.FunctionDef) for n in inner):
            return True
    return False


def _can_bring_scenario(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        names = [alias.name for alias in node.names]
        ours = (node.module or "").split(".")[0] == "perfcli"
        return ours or any(name == "*" or "scenario" in name.lower() for name in names)
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] == "perfcli" for alias in node.names)
    return "Scenario" in (getattr(node, "id", ""), getattr(node, "attr", ""))


def _only(
    path: str, functions: Mapping[str, ast.FunctionDef], tree: ast.Module
) -> ast.FunctionDef | None:
    """Return the function that is meant where none is named; None where several could be."""
    builders = [f for f in functions.values() if _returns(f)]
    if not builders:
        silent = " and ".join(f"{name}()" for name in functions)
        verb = "return" if len(functions) > 1 else "returns"
        what = f": {silent} {verb} nothing" if silent else ""
        raise _refused(f"{path} has no function that builds a model with its inputs{what}", tree)
    return builders[0] if len(builders) == 1 else None


def _check_arguments(name: str, function: ast.FunctionDef, given: Collection[str]) -> None:
    arguments = [*function.args.posonlyargs, *function.args.args]
    required = arguments[: len(arguments) - len(function.args.defaults)]
    required += [
        a
        for a, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        if default is None
    ]
    tensors = [a.arg for a in required if a.arg not in given and not _is_scalar(a)]
    if tensors:
        listed = " and ".join(map(public, tensors))
        typed = " ".join(f"-p {public(each)}=VALUE" for each in tensors)
        raise PerfcliError(
            f"{name} needs {listed}: give {typed} where that is a number or text; a function that "
            "takes tensors needs another one that makes them",
            detail=write_template(function.name),
        )


def _is_scalar(argument: ast.arg) -> bool:
    """Return whether its annotation says that it can be typed."""
    annotation = argument.annotation
    return annotation is not None and ast.unparse(annotation).strip("'\"") in _SCALARS


def _refused(message: str, tree: ast.Module) -> PerfcliError:
    return PerfcliError(message, detail=write_template(_example(tree)))


def _example(tree: ast.Module) -> str:
    """Return how the file's last module class is made, or the object that it made; else a name that
    anyone replaces."""
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    modules = [n for n in classes if any("Module" in ast.unparse(base) for base in n.bases)]
    if modules:
        return f"{modules[-1].name}()"
    assigned = [n for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    return ast.unparse(assigned[0].targets[0]) if assigned else "Model()"


def _returns(function: ast.FunctionDef) -> bool:
    """Return whether a call can give something: what decorators make of a function is not known,
    and one whose body is ``...``, or that does no more than raise, is still to be written."""
    stub = all(isinstance(n, ast.Pass | ast.Raise) or _is_constant(n) for n in function.body)
    if function.decorator_list or stub:
        return True
    return any(
        isinstance(n, ast.Yield | ast.YieldFrom)
        or (isinstance(n, ast.Return) and n.value is not None)
        for n in _own_statements(function)
    )


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _own_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield everything inside of a function but what belongs to functions and classes in it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(
            child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            yield child
            yield from _own_statements(child)
