"""Tells whether a user's file has anything to compile, by its text, before it is run."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.loading.inputs import GivenInput
from perfcli.loading.parameters import convert_typed
from perfcli.model import Parameter, Scalar
from perfcli.names import internal, public, suggestion

USUAL_NAMES = ("scenario", "build", "make", "make_model", "model", "main")
"""Which function is meant where a file has several and none is named, in this order."""
_SCALARS = {"bool", "int", "float", "str"}
_NO_TENSORS = _SCALARS - {"float"}
"""What no tensor is given for; a scale that is declared as a float may well be one."""
_WRITE = "write a function that returns what to compile and its inputs, for example:"


def check_builder(
    path: str,
    name: str | None,
    given: Collection[str],
    inputs: Sequence[GivenInput] = (),
    text: bytes | None = None,
) -> None:
    """Raise PerfcliError, with what to type and a function to copy, where the text already shows
    that nothing in the file builds a model with its inputs, that what does takes a tensor, or that
    the inputs that were typed are not those of the call. ``given`` are the parameters that were
    typed, or their names alone, ``text`` is that of the file where it is another one's than the one
    that is there. What the text leaves open shows when the file runs."""
    try:
        tree = ast.parse(Path(path).read_bytes() if text is None else text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    if _is_open(tree):
        return
    parameters = set(map(internal, given)) - {"mode"}
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    if name is None and inputs:
        return
    if name is not None:
        place, own = f"{path}:{name}", internal(name)
        named = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == own]
        if named:
            _check_class(place, named[0], parameters, inputs, tree)
            return
        chosen = functions.get(own)
        if chosen is None:
            _check_name(path, name, tree)
    else:
        public_ones = {n: f for n, f in functions.items() if not n.startswith("_")}
        chosen = _only(path, public_ones, tree)
        place = f"{path}:{chosen.name}" if chosen else path
    if chosen is not None and inputs:
        _check_call(place, f"{chosen.name}()", _list_arguments(chosen), parameters, inputs)
        _check_tensors(place, chosen, inputs)
    elif chosen is not None:
        _check_arguments(place, chosen, parameters)
        shown = place if name is not None else path
        _check_parameters(shown, chosen, given if isinstance(given, Mapping) else {}, tree)


def _check_name(path: str, name: str, tree: ast.Module) -> None:
    """Raise PerfcliError where nothing at the top of a file has this name."""
    top = symtable.symtable(ast.unparse(tree), path, "exec")
    made = {"globals", "exec", "setattr", "__getattr__"}  # names that no text shows
    known = {each.get_name() for each in top.get_symbols()}
    if internal(name) in known or made & known:
        return
    own = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    raise PerfcliError(f"{path} has no class, object or function {name!r}: {suggestion(name, own)}")


def _check_class(
    place: str,
    found: ast.ClassDef,
    parameters: Collection[str],
    inputs: Sequence[GivenInput],
    tree: ast.Module,
) -> None:
    """Raise PerfcliError for a class whose inputs are missing or wrong, or whose constructor needs
    what was not typed."""
    forward = _list_call(found)
    if not inputs:
        raise PerfcliError(
            f"{place} is a class: say what its forward() is called with, "
            f"{write_inputs(forward.required if forward else ())}",
            detail=_write_both(place.rpartition(":")[0], tree, found),
        )
    constructor = _find_method(found, "__init__")
    missing = [each for each in _list_required(constructor)[1:] if each.arg not in parameters]
    if missing:
        listed = " and ".join(public(each.arg) for each in missing)
        typed = " ".join(f"-p {public(each.arg)}=VALUE" for each in missing)
        raise PerfcliError(
            f"{place} is constructed with {listed}: give {typed} where that is a number or text; "
            "a class that is given objects needs a function that makes it",
            detail=write_template(f"{found.name}({', '.join(each.arg for each in missing)})"),
        )
    if forward is not None:
        _check_call(place, f"forward() of {found.name}", forward, (), inputs)


@dataclass(frozen=True, slots=True)
class CallArguments:
    """Says what a function is called with."""

    known: tuple[str, ...]
    required: tuple[str, ...]
    positional: int | None
    """How many positional arguments it takes; None: any number."""
    open: bool = False
    """Whether it takes keyword arguments of any name."""
    nameless: tuple[str, ...] = ()
    """Those that are given by their place alone."""


def write_inputs(names: Collection[str]) -> str:
    """Return what to type for arguments of these names: ``--input x=SHAPE:DTYPE``."""
    return " ".join(
        f"--input {name}=SHAPE:DTYPE" if name else "--input SHAPE:DTYPE" for name in names or ("x",)
    )


def _check_call(
    place: str,
    call: str,
    arguments: CallArguments,
    parameters: Collection[str],
    inputs: Sequence[GivenInput],
) -> None:
    """Raise PerfcliError where the inputs are not those that a call takes."""
    listed = f"{call} takes {', '.join(arguments.known) or 'nothing'}"
    names = [each.name for each in inputs if each.name]
    first = len(inputs) - len(names)
    unknown = [name for name in names if name not in arguments.known]
    if unknown and not arguments.open:
        near = suggestion(unknown[0], arguments.known)
        raise PerfcliError(f"--input {unknown[0]}: {listed}, no {unknown[0]}: {near}")
    if arguments.positional is not None and first > arguments.positional:
        raise PerfcliError(f"{units.plural(first, 'input')} without a name: {listed}")
    taken = {*arguments.known[:first], *names, *parameters}
    if twice := [name for name in names if name in arguments.known[:first]]:
        raise PerfcliError(f"--input {twice[0]} is given twice, by its name and as one without")
    if placed := [name for name in names if name in arguments.nameless]:
        raise PerfcliError(f"--input {placed[0]}: {call} takes it by its place: leave out the name")
    if missing := [name for name in arguments.required if name not in taken]:
        shown = write_inputs(["" if each in arguments.nameless else each for each in missing])
        raise PerfcliError(
            f"{place}: {listed}: add {shown} (a plain value without a dtype: {missing[0]}=2.0)"
        )


def _check_tensors(place: str, found: ast.FunctionDef, inputs: Sequence[GivenInput]) -> None:
    """Raise PerfcliError where a tensor is given for what is declared as a number or text: the
    function is most likely a builder, which takes no inputs."""
    own = found.args
    every = (*own.posonlyargs, *own.args, *own.kwonlyargs)
    declared = {each.arg: getattr(each.annotation, "id", "") for each in every}
    placed = iter(declared)
    for given in inputs:
        name = given.name or next(placed, "")
        kind = declared.get(name)
        if given.shape is not None and kind in _NO_TENSORS:
            raise PerfcliError(
                f"{place}: --input {given.text} gives a tensor for {name}, which is declared as "
                f"{kind}: if {found.name}() builds a model, give -p {public(name)}=VALUE and no "
                f"--input, else a plain value, --input {name}=VALUE"
            )


def find_silent(path: Path) -> set[str]:
    """Return the names of the functions at the top of a file that return nothing: no builders."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    return {n.name for n in body if isinstance(n, ast.FunctionDef) and not _returns(n)}


def is_script(path: Path) -> bool:
    """Return whether a file is to be run as it is: it has a main guard, or calls at its top what
    it compiles, and nothing in it builds a model for somebody else."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    guarded = any(_is_main_guard(node) for node in tree.body)
    if not guarded and not _runs_compiled(tree):
        return False
    if any(_can_bring_scenario(node) for node in ast.walk(tree)):
        return False
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    return not any(_is_builder(each, guarded) for each in functions)


def write_template(call: str = "Model()") -> str:
    """Return a function for users to copy, which builds ``call`` and its inputs."""
    return (
        f"{_WRITE}\n\n"
        f"def build():\n    return {call}, (torch.randn(8, 128),)  # with the shape of your inputs"
    )


def _is_main_guard(node: ast.stmt) -> bool:
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    return {"__name__", "__main__"} == {
        getattr(side, "id", None) or getattr(side, "value", None) for side in sides
    }


def _runs_compiled(tree: ast.Module) -> bool:
    """Return whether the file compiles something, and its top level has a loop, or calls what is
    compiled, or one of its functions."""
    if not any(_is_compile(node) for node in ast.walk(tree)):
        return False
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    called = {n.name for n in functions if any(map(_has_compile, n.decorator_list))}
    for node in tree.body:
        if isinstance(node, ast.For | ast.While | ast.With):
            return True
        if isinstance(node, ast.Assign) and _has_compile(node.value):
            called |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    own = called | {n.name for n in functions}
    return any(
        isinstance(call.func, ast.Name) and call.func.id in (own if top is call else called)
        for node in tree.body
        if isinstance(node, ast.Expr | ast.Assign)
        for top in (node.value,)
        for call in ast.walk(top)
        if isinstance(call, ast.Call)
    )


def _has_compile(node: ast.AST) -> bool:
    return any(_is_compile(each) for each in ast.walk(node))


def _is_compile(node: ast.AST) -> bool:
    """Return whether this is ``torch.compile`` or a module's ``compile``, called or not."""
    of = node.value if isinstance(node, ast.Attribute) and node.attr == "compile" else None
    return of is not None and getattr(of, "id", "") != "re"


def _is_builder(function: ast.FunctionDef, guarded: bool) -> bool:
    """Return whether a function looks as if it built a model with its inputs: by its name, or
    since it returns them. The ``main`` that a guard calls does not."""
    required = _list_required(function)
    if function.name.startswith("_") or not all(map(_is_scalar, required)):
        return False
    if function.name in USUAL_NAMES and not (guarded and function.name == "main"):
        return _returns(function)
    returned = (n.value for n in _own_statements(function) if isinstance(n, ast.Return))
    return any(
        isinstance(value, ast.Tuple)
        and len(value.elts) in (2, 3)
        and isinstance(value.elts[1], ast.Tuple | ast.List | ast.Dict)
        for value in returned
    )


def _write_both(path: str, tree: ast.Module, chosen: ast.ClassDef | None = None) -> str:
    """Return what to type for the file's modules, then a function to copy."""
    lines = []
    for found in [chosen] if chosen else _list_modules(tree):
        forward = _list_call(found)
        own = _list_required(_find_method(found, "__init__"))[1:]
        given = "".join(f" -p {public(each.arg)}=VALUE" for each in own)
        inputs = write_inputs(forward.required if forward else ())
        lines.append(f"    perfcli run {path}:{found.name}{given} {inputs}")
    objects = [] if chosen else _list_objects(tree)
    lines += [f"    perfcli run {path}:{name} {write_inputs(())}" for name in objects]
    if not lines:
        return write_template(_example(tree))
    shown = "\n".join(lines)
    example = "with a SHAPE such as 8,128,768 and a DTYPE such as bf16"
    call = f"{chosen.name}()" if chosen else _example(tree)
    return f"name its inputs, {example}:\n{shown}\nor {write_template(call)}"


def _list_modules(tree: ast.Module) -> list[ast.ClassDef]:
    classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
    return [n for n in classes if any("Module" in ast.unparse(base) for base in n.bases)]


def _list_objects(tree: ast.Module) -> list[str]:
    """Return the names at the top of a file that are given an object of some class."""
    made = [n for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.value, ast.Call)]
    return [
        target.id
        for node in made
        if ast.unparse(node.value.func).rpartition(".")[2][:1].isupper()  # type: ignore[attr-defined]
        for target in node.targets
        if isinstance(target, ast.Name)
    ]


def _find_method(found: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    methods = (n for n in found.body if isinstance(n, ast.FunctionDef) and n.name == name)
    return next(methods, None)


def _list_call(found: ast.ClassDef) -> CallArguments | None:
    """Return what a call of the class's objects takes; None where that is inherited."""
    method = _find_method(found, "forward") or _find_method(found, "__call__")
    return _list_arguments(method, bound=True) if method else None


def _list_arguments(function: ast.FunctionDef, bound: bool = False) -> CallArguments:
    """Return what a function takes, without ``self`` where it is ``bound``."""
    own = function.args
    positional = [a.arg for a in (*own.posonlyargs, *own.args)][bound:]
    return CallArguments(
        (*positional, *(a.arg for a in own.kwonlyargs)),
        tuple(a.arg for a in _list_required(function))[bound:],
        None if own.vararg else len(positional),
        own.kwarg is not None,
        tuple(a.arg for a in own.posonlyargs)[bound:],
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
        raise PerfcliError(
            f"{path} has no function that builds a model with its inputs{what}",
            detail=_write_both(path, tree),
        )
    return builders[0] if len(builders) == 1 else None


def _check_arguments(name: str, function: ast.FunctionDef, given: Collection[str]) -> None:
    required = _list_required(function)
    tensors = [a.arg for a in required if a.arg not in given and not _is_scalar(a)]
    if tensors:
        listed = " and ".join(map(public, tensors))
        typed = " ".join(f"-p {public(each)}=VALUE" for each in tensors)
        raise PerfcliError(
            f"{name} needs {listed}: give {typed} where that is a number or text, "
            f"{write_inputs(tensors)} for a function that is called with tensors",
            detail=write_template(function.name),
        )


def _check_parameters(
    place: str, function: ast.FunctionDef, given: Mapping[str, Scalar], tree: ast.Module
) -> None:
    """Raise PerfcliError, as when the file runs, for a parameter that a function does not have, and
    for a value that is not of the type of its default. What decorators, assignments or
    imports make of the function is not known."""
    again = any(_binds(node, function.name) for node in ast.walk(tree))
    if again or function.decorator_list:
        return
    known = _list_defaults(function)
    for typed, value in given.items():
        name = internal(typed)
        if name not in known and name != "mode":
            near = suggestion(typed, {*map(public, known), "mode"})
            raise PerfcliError(f"{place} has no parameter {typed!r}: {near}")
        if name != "mode" and (default := known[name]) is not None:
            convert_typed(name, value, Parameter(default))


def _binds(node: ast.AST, name: str) -> bool:
    """Return whether a part of the text gives a name a meaning, or may, other than by ``def``."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name) == name for alias in node.names)
    if isinstance(node, ast.Global):
        return name in node.names
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _list_defaults(function: ast.FunctionDef) -> dict[str, Scalar]:
    """Return the default of each argument that is given by name; None where the text does not say
    its type."""
    own = function.args
    positional = [*own.posonlyargs, *own.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(own.defaults))
    pairs = [
        *zip(positional, [*missing, *own.defaults], strict=True),
        *zip(own.kwonlyargs, own.kw_defaults, strict=True),
    ]
    return {a.arg: _read_scalar(default) for a, default in pairs if a not in own.posonlyargs}


def _read_scalar(default: ast.expr | None) -> Scalar:
    try:
        value = ast.literal_eval(default) if default is not None else None
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, bool | int | float | str) else None


def _list_required(function: ast.FunctionDef | None) -> list[ast.arg]:
    """Return the arguments that have no default."""
    if function is None:
        return []
    arguments = [*function.args.posonlyargs, *function.args.args]
    required = arguments[: len(arguments) - len(function.args.defaults)]
    return required + [
        a
        for a, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        if default is None
    ]


def _is_scalar(argument: ast.arg) -> bool:
    """Return whether its annotation says that it can be typed."""
    annotation = argument.annotation
    return annotation is not None and ast.unparse(annotation).strip("'\"") in _SCALARS


def _example(tree: ast.Module) -> str:
    """Return how the file's last module class is made, or the object that it made; else a name that
    anyone replaces."""
    if modules := _list_modules(tree):
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
