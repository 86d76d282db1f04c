"""Says in one line what kept a script from being run, and what to do."""

from __future__ import annotations

import ast
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from perfcli.compile import tracing
from perfcli.compile.capture.captured import Capture
from perfcli.compile.ranks.group import has_group
from perfcli.compile.scripts.calls import CompileCalls, shorten_path
from perfcli.compile.stand_in.decisions import wants_device
from perfcli.errors import CompileFailed, PerfcliError, UserCodeFailed
from perfcli.loading.tracebacks import is_users, users_traceback
from perfcli.model import ScriptCommand

_HUBS = ("huggingface_hub", "requests", "urllib", "httpx", "aiohttp", "http")
_SIGNS_OF_HUB = ("couldn't connect to", "name resolution")
_JOINING = ("/torch/distributed/distributed_c10d.py", "/torch/distributed/rendezvous.py")
_OF_MODULES = {
    "parameters",
    "named_parameters",
    "to",
    "cuda",
    "half",
    "train",
    "eval",
    "state_dict",
}
_MOST_LINES = 5


def explain(error: BaseException, script: ScriptCommand, capture: Capture, printed: str) -> str:
    """Return a note where what was compiled until the script ended counts, empty where there is
    none; else raise what its failure means to the user. Raises PerfcliError."""
    if isinstance(error, PerfcliError):
        raise error
    place = _find_place(error)
    if isinstance(error, SystemExit):
        return _explain_exit(error.code, place, script, capture, printed)
    detail = users_traceback(error) + printed
    for look in _KNOWN:
        if reason := look(error):
            raise UserCodeFailed(f"{place} {reason}", detail=detail) from error
    told = tracing.attribute_failure(error, capture) if isinstance(error, Exception) else error
    inside = isinstance(told, CompileFailed)
    for look in () if inside and not _is_lacking_values(error) else _OUTSIDE:
        if reason := look(error):
            raise UserCodeFailed(f"{place} {reason}", detail=detail) from error
    if isinstance(told, CompileFailed):
        raise CompileFailed(f"{place}: {told}", detail=f"{told.detail}{printed}") from error
    raise UserCodeFailed(f"{place} failed: {tracing.state_reason(error)}", detail=detail) from error


def _explain_exit(
    code: Any, place: str, script: ScriptCommand, capture: Capture, printed: str
) -> str:
    failed = code not in (None, 0)
    said = f"exit code {code}" if isinstance(code, int) else f"exit code 1 ({code})"
    if capture.graphs:
        how = f" with {said}" if failed else ""
        return f"the script ended itself{how} at {place}: what it compiled until then counts"
    if failed:
        raise UserCodeFailed(
            f"{_name(script)} ended with {said} before it compiled anything, at {place}",
            detail=printed.strip(),
        )
    return ""


def _find_place(error: BaseException) -> str:
    """Return ``file:line`` of the innermost frame of the user's own."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if is_users(frame) and not frame.filename.startswith("<")
    ]
    own = [frame for frame in frames if "/site-packages/" not in frame.filename] or frames
    return f"{shorten_path(own[-1].filename)}:{own[-1].lineno}" if own else "the script"


def _name(script: ScriptCommand) -> str:
    return f"-m {script.path}" if script.module else script.path


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else ""


# --- what is known to go wrong: the rest of a sentence that begins with the place ----------------


def _is_reading(error: BaseException) -> str:
    if not isinstance(error, EOFError) or str(error) != "EOF when reading a line":  # of input()
        return ""
    return "reads standard input, which is empty here: give the script an argument instead"


def _is_asking_hub(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        module, text = type(cause).__module__.split(".")[0], str(cause).lower()
        if (module in _HUBS and isinstance(cause, Exception)) or any(
            sign in text for sign in _SIGNS_OF_HUB
        ):
            return (
                f"asks a hub or another host for something ({_first_line(error)}): download it "
                "first, or build the model from its configuration; values do not matter"
            )
        cause = cause.__cause__ or cause.__context__
    return ""


def _is_joining(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if has_group() or not frames or not frames[-1].filename.endswith(_JOINING):
        return ""
    return (
        f"joins other processes ({_first_line(error)}), and a script is run as one: give the "
        "number of its ranks with --world N, or run it without init_process_group"
    )


_OF_TORCHRUN = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)


def _is_reading_rank(error: BaseException) -> str:
    if not isinstance(error, KeyError) or error.args[:1] not in [(n,) for n in _OF_TORCHRUN]:
        return ""
    return (
        f"reads the variable {error.args[0]}, which torchrun sets: give the number of ranks with "
        "--world N; only rank 0 is run"
    )


def _is_importing(error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return (
        f"imports {error.name}, which is not installed for this interpreter: install it, or name "
        "one that has it with --python"
    )


def _is_lacking_values(error: BaseException) -> str:
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
    )

    text = tracing.state_reason(error)  # Dynamo's own words name fake tensors whatever failed
    if isinstance(error, DataDependentOutputException | DynamicOutputShapeException):
        what = f"the values of a tensor of the device ({error.func})"
    elif not _is_raised_by_torch(error):
        return ""  # an error of the script's own, with a tensor in its text
    elif "data pointer" in text or "FakeTensor" in text or "fake tensor" in text.lower():
        what = f"the memory of a tensor of the device ({text})"
    else:
        return ""
    return (
        f"needs {what}, and nobody has them without one: leave that line out (an option of the "
        "script), or run it with --device cuda"
    )


def _is_raised_by_torch(error: BaseException) -> bool:
    """Return whether torch raised an error: its Python, or its C++ where the user's code called
    that."""
    frames = traceback.extract_tb(error.__traceback__)
    of_cpp = isinstance(error, RuntimeError | TypeError | BufferError)
    return of_cpp or not frames or not is_users(frames[-1])


def _is_asking_device(error: BaseException) -> str:
    if not wants_device(error):
        return ""
    reason = _first_line(error).partition(" This could be because")[0].removesuffix(".")
    return (
        f"asks the device for what nothing stands in for ({reason}): leave that line "
        "out (an option of the script), or run it with --device cuda"
    )


_KNOWN: tuple[Callable[[BaseException], str], ...] = (
    _is_reading,
    _is_asking_hub,
    _is_joining,
    _is_reading_rank,
    _is_importing,
)
_OUTSIDE: tuple[Callable[[BaseException], str], ...] = (_is_lacking_values, _is_asking_device)


# --- nothing was compiled ------------------------------------------------------------------------


def refuse_nothing_compiled(
    script: ScriptCommand, capture: Capture, calls: CompileCalls, printed: str
) -> None:
    """Raise UserCodeFailed, with what could be compiled, where the script compiled nothing."""
    if capture.graphs:
        return
    name = _name(script)
    if calls.uses:
        number = min(calls.called, default=0)
        use = calls.uses[number].call
        backend = f" with backend={use.backend}" if use.backend != "inductor" else ""
        if not calls.called:
            why = "what it returned was never called"
        elif backend:
            why = "only the backend inductor makes kernels"
        else:
            why = _name_skipped(calls.uses[number].compiled)
        raise UserCodeFailed(
            f"{name} compiles {use.name} at {use.place}{backend}, and no kernel came of it: {why}",
            detail=printed.strip(),
        )
    main = getattr(sys.modules["__main__"], "__file__", script.path)
    lines = list(_list_calls(Path(main)))
    could = f": what could be compiled is called at {', '.join(lines)}" if lines else ""
    raise UserCodeFailed(
        f"{name} never compiles anything{could} (model = torch.compile(model))",
        detail=printed.strip(),
    )


def _name_skipped(compiled: Any) -> str:
    """Return why Dynamo made no graph of what was called."""
    module = getattr(compiled, "__self__", compiled)  # nn.Module.compile() gives its own call
    inner = getattr(module, "module", module)  # of DistributedDataParallel and its like
    if not type(inner).__module__.startswith("torch.nn."):
        return "Dynamo skipped all of it (TORCH_LOGS=dynamo says more)"
    what = f"nn.{type(inner).__name__}"
    what = what if inner is module else f"{type(module).__name__}({what})"
    return (
        f"Dynamo compiles no function of torch.nn by itself, and skips {what}; compile a module of "
        "a class of your own that calls it"
    )


def _list_calls(path: Path) -> Iterator[str]:
    """Yield ``train.py:30 model(x)`` for calls of what looks like a module: a name that is given
    one, or that something is asked of that modules have."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    classes = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        if any("Module" in ast.unparse(base) for base in node.bases)
    }
    modules = {
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in _OF_MODULES
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_makes(each, classes) for each in _chain(node)):
            modules |= set(map(ast.unparse, node.targets))
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in modules
    ]
    for node in sorted(found, key=lambda each: each.lineno)[:_MOST_LINES]:
        yield f"{shorten_path(str(path))}:{node.lineno} {ast.unparse(node)[:60]}"


def _chain(assigned: ast.Assign) -> Iterator[ast.Call]:
    """Yield the calls of ``Net(8).to(device).half()``, the last one first."""
    value: ast.AST = assigned.value
    while isinstance(value, ast.Call):
        yield value
        value = value.func.value if isinstance(value.func, ast.Attribute) else value.func


def _makes(call: ast.Call, classes: Collection[str]) -> bool:
    """Return whether a call makes a module: ``nn.Linear(8, 8)``, ``Net()`` of a class of the
    file, ``AutoModel.from_pretrained(…)``."""
    name = ast.unparse(call.func)
    of, _, last = name.rpartition(".")
    made = of.split(".")[-1] == "nn" and last[:1].isupper()
    return made or name in classes or last in ("from_pretrained", "from_config", "create_model")
