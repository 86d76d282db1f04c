"""Checks what this machine has and lacks of what perfcli needs, and says what to do about it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perfcli import units
from perfcli.compile.stand_in import shim
from perfcli.errors import PerfcliError
from perfcli.machine import driver, environment, targets
from perfcli.machine.environment import Interpreter
from perfcli.storing import store

Status = Literal["ok", "warning", "failed"]
TOOLS = ("ptxas", "cuobjdump", "nvdisasm")
GB = 1e9


@dataclass(frozen=True, slots=True)
class _Check:
    """Holds one line: what was looked at, what was found, and what to do if that is not good."""

    name: str
    status: Status
    found: str
    advice: str = ""


def render(checks: list[_Check], *, color: bool = False) -> str:
    """Return the checks as lines; advice stands below the line it belongs to."""
    width = max(len(check.name) for check in checks)
    colors = {"ok": "32", "warning": "33", "failed": "31"}
    lines = []
    for check in checks:
        status = f"{check.status:8}"
        if color:
            status = f"\x1b[{colors[check.status]}m{status}\x1b[0m"
        lines.append(f"{status} {check.name:{width}}  {check.found}")
        if check.advice:
            lines.append(f"{'':8} {'':{width}}  → {check.advice}")
    failed = sum(check.status == "failed" for check in checks)
    warnings = sum(check.status == "warning" for check in checks)
    lines.append(f"{units.plural(failed, 'problem')}, {units.plural(warnings, 'warning')}")
    return "\n".join(lines) + "\n"


def examine(python: str | None, environ: Mapping[str, str]) -> Iterator[_Check]:
    """Yield all checks in order; one that fails does not keep the others from running."""
    cache = environment.cache_dir(environ)
    try:
        interpreter = environment.probe(python, needs_triton=False)
    except PerfcliError as error:
        found, _, advice = str(error).partition(": ")
        yield _Check("torch", "failed", found, advice)
        yield _check_compiler(built=False)
    else:
        yield _Check("python", "ok", f"{interpreter.version} ({interpreter.path})")
        yield _check_torch(interpreter)
        yield _check_triton(interpreter)
        yield from (_check_tool(interpreter, name) for name in TOOLS if interpreter.tools)
        library = shim.library_path(
            shim.TorchInstallation(interpreter.torch_dir, interpreter.torch), cache
        )
        yield _check_compiler(built=library.exists())
        yield _check_shim(library)
    yield _check_folder("cache folder", cache, "set PERFCLI_CACHE_DIR to a folder that can")
    yield _check_folder("run folder", store.FOLDER, store.OTHERWISE)
    yield _check_gpu()
    yield _check_disk(cache)
    yield _check_memory()
    yield from _check_variables(environ)


def _check_torch(interpreter: Interpreter) -> _Check:
    build = f"CUDA {interpreter.cuda} build" if interpreter.cuda else "CPU build"
    warning = environment.torch_warning(interpreter.torch)
    if warning:
        return _Check("torch", "warning", f"{interpreter.torch}, {build}", warning)
    return _Check("torch", "ok", f"{interpreter.torch}, {build}, tested")


def _check_triton(interpreter: Interpreter) -> _Check:
    if interpreter.triton is None:
        advice = f"{interpreter.path} -m pip install triton (--device cpu works without)"
        return _Check("triton", "failed", "not installed", advice)
    return _Check("triton", "ok", interpreter.triton)


def _check_tool(interpreter: Interpreter, name: str) -> _Check:
    """Check that a program of the triton wheel is there and runs."""
    path = (interpreter.tools or Path()) / name
    version = _first_line_with("release", [str(path), "--version"])
    if version is None:
        advice = f"reinstall triton: {interpreter.path} -m pip install --force-reinstall triton"
        return _Check(name, "failed", f"{path} is missing or does not run", advice)
    return _Check(name, "ok", version.partition("release ")[2] or version)


def _check_compiler(*, built: bool) -> _Check:
    compiler = shim.compiler()
    version = _first_line_with("", [compiler, "--version"]) if compiler else None
    if version is not None:
        return _Check("C++ compiler", "ok", f"{version} ({compiler})")
    found = f"{compiler} does not run" if compiler else "none of $CXX, g++, c++, clang++"
    advice = "install one (apt-get install g++) or set CXX"
    if built:
        advice += "; the shim is built already, only --device cpu and another torch need it"
    return _Check("C++ compiler", "warning" if built else "failed", found, advice)


def _check_shim(library: Path) -> _Check:
    if library.exists():
        return _Check("device shim", "ok", f"built ({library})")
    return _Check("device shim", "ok", "not built yet: the first compilation does it (2 s)")


def _check_folder(name: str, folder: Path, otherwise: str) -> _Check:
    """Check that files can be made in a folder, or in the nearest one above it that exists."""
    if obstacle := store.find_obstacle(folder):
        return _Check(name, "failed", obstacle, otherwise)
    if not folder.exists():
        return _Check(name, "ok", f"{folder} (not made yet)")
    return _Check(name, "ok", f"{folder}, {units.size(_size(folder))}")


def _check_gpu() -> _Check:
    if not targets.has_gpu():
        text = "there is none: with --target everything works, but times are estimated"
        return _Check("GPU", "ok", f"{text} instead of measured")
    gpu = targets.this_gpu()
    version = driver.driver_version() or "unknown"
    return _Check("GPU", "ok", f"{gpu.description} ({gpu.arch}), driver {version}")


def _check_disk(folder: Path) -> _Check:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    found = f"{units.size(free)} free at {place}"
    if free < 2 * GB:
        status: Status = "failed" if free < 0.2 * GB else "warning"
        return _Check("disk", status, found, "compiled kernels need about 1 GB: free some")
    return _Check("disk", "ok", found)


def _check_memory(meminfo: Path = Path("/proc/meminfo")) -> _Check:
    available = environment.available_memory(meminfo)
    if available is None:
        return _Check("memory", "warning", "not known")
    found = f"{units.size(available)} available"
    if available < 3 * GB:
        return _Check("memory", "warning", found, "two workers need up to 3 GB: use --jobs 1")
    return _Check("memory", "ok", found)


def _check_variables(environ: Mapping[str, str]) -> Iterator[_Check]:
    """Yield the variables that would change the code, and that workers are not given."""
    everything = environment.relevant_variables(environ)
    kept = environment.clean_environment(everything, {})
    for name in everything.keys() - kept.keys():
        advice = f"workers don't see it; to compare with it use -a or -b {name}={environ[name]}"
        yield _Check("variable", "warning", f"{name} is set", advice)


def _size(folder: Path) -> int:
    """Return bytes of all files below a folder; what vanishes meanwhile does not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except OSError:
                continue
    return total


def _first_line_with(word: str, command: list[str]) -> str | None:
    """Return the first line of a program's output that holds a word, or None where it does not
    run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return next((line for line in done.stdout.splitlines() if word in line), None)
