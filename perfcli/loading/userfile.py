"""Loads a user's own scenario file: imports it by path, chooses its scenario, tells its errors as
theirs."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from perfcli.errors import PerfcliError
from perfcli.loading.builders import USUAL_NAMES, find_silent, write_inputs, write_template
from perfcli.loading.inputs import GivenInput, dtype_name
from perfcli.loading.printed import keep_output
from perfcli.loading.tracebacks import users_failure
from perfcli.model import Parameter, Scalar, Scenario
from perfcli.names import internal, suggestion

MODE = Parameter("forward", "what is compiled", ("forward", "training", "step"))
"""The mode of a function that does not ask for it."""
FORWARD_ONLY = (
    "require gradients, compiled forward only: give -p mode=training, or return "
    "(module, inputs, 'training')"
)
EXAMPLES: Mapping[str, Scalar] = {"bool": False, "int": 0, "float": 0.0, "str": ""}
"""A value of each type that an annotation may name."""


def _from_function(function: FunctionType, name: str) -> Scenario:
    """Return a scenario whose parameters are the function's keyword parameters with plain defaults,
    dtypes of torch or none, and ``mode``, which the function only gets if it asks for it."""
    declared = inspect.signature(function).parameters
    found = ((key, _parameter(each)) for key, each in declared.items())
    parameters = {key: parameter for key, parameter in found if parameter}
    wanted = set(parameters)
    parameters["mode"] = _mode(parameters["mode"]) if "mode" in wanted else MODE

    def build(params: Mapping[str, Scalar]) -> Any:
        given = {key: value for key, value in params.items() if key in wanted}
        return function(**_to_arguments(given, declared))

    return Scenario(
        name=name,
        question=(inspect.getdoc(function) or "").partition("\n")[0],
        parameters=parameters,
        presets={},
        build=build,
    )


def _from_callable(found: Any, name: str, inputs: Sequence[GivenInput]) -> Scenario:
    """Return a scenario that calls an object or a function with ``inputs``, or an object of a
    class. Its parameters are those of the constructor, or what the function is not given as an
    input."""
    taken = {each.name for each in inputs}
    positional = [each for each in inputs if not each.name]
    named = {each.name: each for each in inputs if each.name}
    parameters: dict[str, Parameter] = {}
    declared: Mapping[str, inspect.Parameter] = {}
    if isinstance(found, type | FunctionType):
        declared = inspect.signature(found).parameters
        if isinstance(found, FunctionType):
            taken |= set(list(declared)[: len(positional)])
        made = {key: _parameter(each) for key, each in declared.items() if key not in taken}
        parameters = {key: each for key, each in made.items() if each}
    defaults = {key: each.default for key, each in parameters.items() if not each.required}
    own = set(parameters)
    parameters["mode"] = _mode(parameters["mode"]) if "mode" in own else MODE

    def build(params: Mapping[str, Scalar]) -> Any:
        given = {
            key: value
            for key, value in params.items()
            if key in own and (key not in defaults or defaults[key] != value)
        }
        typed = _to_arguments(given, declared)
        if isinstance(found, type):
            return found(**typed), positional, named
        return found, positional, {**named, **typed}

    question = (inspect.getdoc(found) or "").partition("\n")[0]
    return Scenario(name, question, parameters, {}, build)


def _parameter(parameter: inspect.Parameter) -> Parameter | None:
    """Return the parameter, or None for what a user cannot type: a default that is an object,
    ``*args``."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return None
    if _is_required(parameter):
        return Parameter(EXAMPLES.get(_annotation_text(parameter.annotation)), required=True)
    if _is_dtype(parameter):
        return Parameter(str(parameter.default).removeprefix("torch."))
    scalar = isinstance(parameter.default, bool | int | float | str | None)
    return Parameter(parameter.default) if scalar else None


def _is_dtype(parameter: inspect.Parameter) -> bool:
    """Return whether the default is a dtype of torch, which is typed by its name."""
    kind = type(parameter.default)
    return (kind.__module__, kind.__name__) == ("torch", "dtype")


def _to_arguments(
    given: Mapping[str, Scalar], declared: Mapping[str, inspect.Parameter]
) -> dict[str, Any]:
    """Return what a function is called with: dtypes in place of their names."""
    return {
        key: _to_dtype(key, value) if _is_dtype(declared[key]) else value
        for key, value in given.items()
    }


def _to_dtype(name: str, value: Scalar) -> Any:
    torch = sys.modules["torch"]  # whose dtype is the default
    found = getattr(torch, dtype_name(str(value)), None)
    if not isinstance(found, torch.dtype):
        raise PerfcliError(f"{name} expects a dtype such as bfloat16 or fp32, got {value!r}")
    return found


def _annotation_text(annotation: Any) -> str:
    """Return ``int``, whether the file evaluates its annotations or not."""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _mode(own: Parameter) -> Parameter:
    default = own.default if own.default in MODE.choices else MODE.default
    return Parameter(default, MODE.help, MODE.choices, own.required)


def _is_required(parameter: inspect.Parameter) -> bool:
    """Return whether a function cannot be called without it."""
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variadic


Declared = TypeVar("Declared")

SUFFIX = ".py"


def is_user_file(reference: str) -> bool:
    """Return whether a scenario is meant by path (``model.py``, ``a/b.py:name``), not by name."""
    path, _ = split(reference)
    return path.endswith(SUFFIX) or "/" in path


def split(reference: str) -> tuple[str, str | None]:
    """Split ``path/to/file.py:name`` into path and name; the name is None where there is none."""
    path, colon, name = reference.rpartition(":")
    if colon and (path.endswith(SUFFIX) or "/" in path) and "/" not in name:
        return path, name
    return reference, None


def load_user_scenario(reference: str, inputs: Sequence[GivenInput] = ()) -> Scenario:
    """Import the file anew and pick the scenario or function that the reference means; with
    ``inputs``, the class, object or function that is called with them. Raises UserCodeFailed where
    the file does not import; ``detail`` is its part of the traceback. Raises PerfcliError where
    there is no such file or name, or several could be meant."""
    path, name = split(reference)
    file = Path(path)
    if not file.is_file() or file.suffix != SUFFIX:
        what = "is not a Python file" if file.exists() else "does not exist"
        raise PerfcliError(f"{path} {what}: expected path/to/file.py or path/to/file.py:name")
    module = _import_file(file)
    if inputs:
        return _from_callable(*_pick_callable(module, path, name), inputs)
    return _pick_named(module, path, name) if name is not None else _pick_only(module, path)


def load_user_declared(path: str, kind: type[Declared]) -> Declared:
    """Import the file anew and take the one ``kind`` that it declares. Raises UserCodeFailed where
    the file does not import. Raises PerfcliError where there is no such file, or it declares none
    or several."""
    file = Path(path)
    if not file.is_file():
        raise PerfcliError(f"{path} does not exist: expected path/to/file.py")
    values = vars(_import_file(file)).values()
    found = list({id(value): value for value in values if isinstance(value, kind)}.values())
    if len(found) != 1:
        raise PerfcliError(f"{path} has to declare one {kind.__name__}, it declares {len(found)}")
    return found[0]


def _import_file(file: Path) -> ModuleType:
    """Run a file as a module that can import its siblings, inspect itself and be pickled.

    It gets a name of its own, so that ``model.py`` of two folders do not mix; inside a package
    it gets its full dotted name, so that relative imports work. Importing again runs it again.
    """
    file = file.resolve()
    name, root = _module_name(file)
    for folder in (str(root), str(file.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PerfcliError(f"{file} cannot be imported: expected a Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with keep_output() as printed:
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[name]
            raise users_failure(f"{file.name} does not import", error, printed.tell()) from error
    return module


def _module_name(file: Path) -> tuple[str, Path]:
    parts, folder = [file.stem], file.parent
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) > 1:
        return ".".join(parts), folder
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:8]
    return f"{file.stem}_{digest}", folder


# --- which of the file's definitions ------------------------------------------------------------


def _scenarios(module: ModuleType) -> dict[str, Scenario]:
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, Scenario) and not name.startswith("_")
    }


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    """Return public functions that the file itself defines."""
    return {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, FunctionType)
        and not name.startswith("_")
        and value.__module__ == module.__name__
    }


def _select_ready(functions: Mapping[str, FunctionType]) -> dict[str, FunctionType]:
    """Return the functions that can be called without arguments."""
    return {
        name: function
        for name, function in functions.items()
        if not any(_is_required(p) for p in inspect.signature(function).parameters.values())
    }


def _pick_named(module: ModuleType, path: str, name: str) -> Scenario:
    scenarios, functions = _scenarios(module), _functions(module)
    for attribute, value in scenarios.items():
        if internal(name) in (internal(attribute), internal(value.name)):
            return value
    found = getattr(module, internal(name), None)
    if isinstance(found, FunctionType):
        return _from_function(found, f"{path}:{name}")
    if callable(found):
        what, call = ("a class", f"{name}()") if isinstance(found, type) else ("an object", name)
        raise PerfcliError(
            f"{path}:{name} is {what}, which makes no inputs: say what it is called with, "
            f"{write_inputs(_name_arguments(found))}",
            detail=write_template(call),
        )
    if found is not None:
        raise PerfcliError(
            f"{path}:{name} is a {type(found).__name__}, and no function that builds a model with "
            "its inputs, no class and no object to call",
            detail=write_template(),
        )
    known = [*(s.name for s in scenarios.values()), *functions, *_list_models(module)]
    raise PerfcliError(f"{path} has no scenario or function {name!r}: {suggestion(name, known)}")


def _list_models(module: ModuleType) -> dict[str, type]:
    """Return the public classes with a ``forward`` that the file itself defines."""
    return {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type)
        and hasattr(value, "forward")
        and value.__module__ == module.__name__
        and not key.startswith("_")
    }


def _pick_callable(module: ModuleType, path: str, name: str | None) -> tuple[Any, str]:
    """Return what is called with inputs, and its name. Raises PerfcliError where there is none, or
    several could be meant."""
    models, functions = _list_models(module), _functions(module)
    if name is not None:
        found = getattr(module, internal(name), None)
        if callable(found) and not isinstance(found, Scenario):
            return found, f"{path}:{name}"
        known = [*models, *functions]
        wrong = f"no class, object or function {name!r}: {suggestion(name, known)}"
        if isinstance(found, Scenario):
            wrong = f"a scenario {name!r}, which makes its own inputs: leave out --input"
        raise PerfcliError(f"{path} has {wrong}")
    found_here: Mapping[str, Any] = models or functions
    if len(found_here) != 1:
        what = f"several ({', '.join(sorted(found_here))})" if found_here else "none"
        example = next(iter(found_here), "Net")
        raise PerfcliError(
            f"--input is for a class, an object or a function, and {path} has {what}: name one, "
            f"for example {path}:{example}"
        )
    ((_, only),) = found_here.items()
    return only, path


def _name_arguments(found: Any) -> list[str]:
    """Return the arguments that a call needs; none where nobody knows."""
    called = getattr(found, "forward", None) or (None if isinstance(found, type) else found)
    try:
        parameters = list(inspect.signature(called).parameters.values()) if called else []
    except (TypeError, ValueError):
        return []
    skipped = isinstance(found, type)
    return [each.name for each in parameters[skipped:] if _is_required(each)]


def _pick_only(module: ModuleType, path: str) -> Scenario:
    scenarios, functions = _scenarios(module), _functions(module)
    if len({id(value) for value in scenarios.values()}) == 1:
        return next(iter(scenarios.values()))
    if scenarios:
        raise _ambiguous(path, "scenarios", [s.name for s in scenarios.values()])
    silent = find_silent(Path(path))
    functions = {name: f for name, f in functions.items() if name not in silent}
    functions = _select_ready(functions) or functions
    usual = [name for name in USUAL_NAMES if name in functions]
    chosen = list(functions) if len(functions) == 1 else usual
    if chosen:
        return _from_function(functions[chosen[0]], path)
    if functions:
        raise _ambiguous(path, "functions", list(functions), _tell_called(module, path, functions))
    raise PerfcliError(
        f"{path} declares no Scenario and no public function that builds a model with its inputs",
        detail=write_template(),
    )


def _tell_called(module: ModuleType, path: str, builders: Collection[str]) -> str:
    """Return which of a file's classes and functions have to be called with inputs; empty where
    there are none."""
    others = {name: f for name, f in _functions(module).items() if name not in builders}
    called = {**_list_models(module), **others}
    if not called:
        return ""
    first = next(iter(called))
    return (
        f"; {' and '.join(sorted(called))} can be called with --input, {path}:{first} "
        f"{write_inputs(_name_arguments(called[first]))}"
    )


def _ambiguous(path: str, what: str, names: list[str], others: str = "") -> PerfcliError:
    return PerfcliError(
        f"{path} has several {what} ({', '.join(sorted(names))}): say which one, for example "
        f"{path}:{names[0]}{others}"
    )
