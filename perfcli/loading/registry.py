"""Finds kernels, scenarios and reports by file name, and a user's scenario by path.

The core never imports these packages by name: ``scenarios/gqa_transformer.py`` is the scenario
``gqa-transformer``, and the file says so by declaring one ``Scenario``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, TypeVar, get_args

from perfcli.errors import PerfcliError, UserCodeFailed
from perfcli.loading.inputs import read_inputs
from perfcli.loading.parameters import resolve_params
from perfcli.loading.printed import keep_output
from perfcli.loading.tracebacks import users_failure
from perfcli.loading.userfile import MODE, is_user_file, load_user_declared, load_user_scenario
from perfcli.model import KernelFamily, Mode, Scalar, Scenario, Workload
from perfcli.names import internal, public, suggestion

__all__ = [
    "build",
    "family",
    "is_user_file",
    "load_declared",
    "names",
    "resolve_params",
    "scenario",
]

Declared = TypeVar("Declared")

EXPECTED = (
    "expected (module or function, inputs), where inputs is a tuple, a list, a "
    "dict of keyword arguments, or one tensor"
)


def names(package: str) -> list[str]:
    """Return public names of what the files of ``perfcli.<package>`` declare, sorted."""
    return list(_list_names(*import_module(f"perfcli.{package}").__path__))


@functools.cache
def _list_names(*folders: str) -> tuple[str, ...]:
    found = (m.name for m in iter_modules(folders))
    return tuple(sorted(public(name) for name in found if not name.startswith("_")))


def load_declared(package: str, name: str, kind: type[Declared]) -> Declared:
    """Return the one ``kind`` that ``<package>/<name>.py`` declares; dashes and underscores are
    equal. Raises PerfcliError where there is no such file, with the nearest names, or it
    declares none or several."""
    known = names(package)
    if public(name) not in known:
        raise PerfcliError(f"no {package.removesuffix('s')} {name!r}: {suggestion(name, known)}")
    module = import_module(f"perfcli.{package}.{internal(name)}")
    found = {attribute: v for attribute, v in vars(module).items() if isinstance(v, kind)}
    if len(found) != 1:
        raise PerfcliError(
            f"{package}/{internal(name)}.py has to declare one {kind.__name__}, "
            f"it declares {', '.join(found) or 'none'}"
        )
    return next(iter(found.values()))


def scenario(reference: str, inputs: Sequence[str] = ()) -> Scenario:
    """Return a shipped scenario by name, or a user's by ``path/to/file.py[:name]``. ``inputs``, as
    they were typed, are what a user's class, object or function is called with: the workload has
    a ``GivenInput`` for each, and no tensors yet.

    A user's file is run each time, so only worker processes should ask for one. Raises
    UserCodeFailed where the user's file does not import and PerfcliError where there is no such
    scenario."""
    if is_user_file(reference):
        return load_user_scenario(reference, read_inputs(inputs))
    if public(reference) not in names("scenarios") and Path(f"{reference}.py").is_file():
        raise PerfcliError(f"no scenario {reference!r}: did you mean the file {reference}.py?")
    return load_declared("scenarios", reference, Scenario)


def family(reference: str) -> KernelFamily:
    """Return shipped hand-written kernels by name, or a user's by the path of the file that
    declares one ``KernelFamily``. Raises UserCodeFailed where the user's file does not import and
    PerfcliError where there is no such family."""
    if reference.endswith(".py"):
        return load_user_declared(reference, KernelFamily)
    if public(reference) not in (known := names("kernels")):
        raise PerfcliError(f"no kernel family {reference!r}: {suggestion(reference, known)}")
    return load_declared("kernels", reference, KernelFamily)


def build(scenario: Scenario, params: Mapping[str, Scalar]) -> Workload:
    """Return what the scenario builds, a bare ``(module or function, inputs)`` turned into a
    workload. Raises UserCodeFailed where building raised (``detail`` has the user's frames), or
    gave neither."""
    with keep_output() as printed:
        try:
            result: Any = scenario.build(params)
        except PerfcliError:
            raise
        except (Exception, SystemExit) as error:
            raise users_failure(f"{scenario.name} does not build", error, printed.tell()) from error
    workload = result if isinstance(result, Workload) else _workload(scenario, params, result)
    if not callable(workload.call):
        raise _wrong(scenario, f"{type(workload.call).__name__!r} cannot be called")
    if workload.mode not in (modes := get_args(Mode)):
        raise _wrong(scenario, f"mode {workload.mode!r} is none of {', '.join(modes)}")
    return workload


def _workload(scenario: Scenario, params: Mapping[str, Scalar], result: Any) -> Workload:
    """Make a workload of ``(call, inputs)`` or ``(call, inputs, keyword arguments or mode)``."""
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise _wrong(scenario, f"it returned {_describe(result)}")
    call, inputs, *rest = result
    mode: Any = params.get("mode", "forward")
    kwargs: dict[str, Any] = dict(inputs) if isinstance(inputs, Mapping) else {}
    for extra in rest:
        if isinstance(extra, str):
            mode = extra
        elif isinstance(extra, Mapping):
            kwargs.update(extra)
        else:
            raise _wrong(scenario, f"its third item is {_describe(extra)}, not keyword arguments")
    said = any(isinstance(extra, str) for extra in rest)
    is_default = not said and scenario.parameters.get("mode", MODE) is MODE
    return Workload(call, _positional(inputs), kwargs, mode, mode_is_default=is_default)


def _positional(inputs: Any) -> tuple[Any, ...]:
    if isinstance(inputs, Mapping):
        return ()
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


def _describe(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    kind = type(value).__name__
    article = "an" if kind[0].lower() in "aeiou" else "a"
    return "nothing" if value is None else f"{article} {kind}"


def _wrong(scenario: Scenario, what: str) -> UserCodeFailed:
    return UserCodeFailed(f"{scenario.name} does not build: {what}; {EXPECTED}")
