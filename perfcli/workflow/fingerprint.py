"""A request and its identity: one hash of everything that decides a run, known before compiling."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from perfcli.loading.references import find_file, split_revision
from perfcli.machine import environment
from perfcli.machine.environment import Interpreter
from perfcli.machine.own_code import hash_code
from perfcli.model import CompileRequest, Run
from perfcli.predict.calibration import name_operators


@dataclass(frozen=True, slots=True)
class Job:
    """A request and the fingerprint of everything that is known to decide its result."""

    request: CompileRequest
    fingerprint: str
    interpreter: Interpreter


def make_job(request: CompileRequest, interpreter: Interpreter) -> Job:
    return Job(request, _fingerprint(request, interpreter), interpreter)


def _fingerprint(request: CompileRequest, interpreter: Interpreter) -> str:
    """Return the SHA-256 of everything that decides a run and is known before compiling. What a
    user's file imports and asks for is not known yet: ``list_edited`` and ``list_set_anew`` check
    that afterwards."""
    variant = request.variant
    document = identify(request, interpreter) | {
        "options": dict(variant.options),
        "env": dict(variant.env),
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def identify(request: CompileRequest, interpreter: Interpreter) -> dict[str, Any]:
    """Return what decides the runs of all variants of a request, as plain data for JSON."""
    variables = environment.relevant_variables(os.environ)
    if not request.on_device:
        # Compiled as if no GPU were here: which of them are visible changes nothing.
        variables.pop("CUDA_VISIBLE_DEVICES", None)
    return {
        "scenario": request.scenario,
        "file": _hash_scenario(request.scenario),
        "params": dict(request.params),
        "preset": request.preset,
        "device": request.device,
        "target": asdict(request.target) if request.target else None,
        # A worker decides by the times of library operators what it pads.
        "operators": name_operators(request.target) if request.target else "",
        "dynamic": request.dynamic,
        "threads": request.threads,
        **({"world": request.world} if request.world > 1 else {}),
        **({"varied": [dict(each) for each in request.varied]} if request.varied else {}),
        **({"script": _identify_script(request)} if request.script else {}),
        **({"inputs": list(request.inputs)} if request.inputs else {}),
        "python": interpreter.version,
        "torch": interpreter.torch,
        "triton": interpreter.triton,
        "distributions": interpreter.distributions,
        "variables": environment.clean_environment(variables, {}),
        "perfcli": hash_code(),
    }


def _identify_script(request: CompileRequest) -> dict[str, Any]:
    """Return what decides what a script does, apart from the files that it reads: its arguments
    and the folder that it runs in."""
    assert request.script is not None
    script = request.script
    return {
        **asdict(script),
        "file": "" if script.module else _hash_file(os.path.join(request.folder, script.path)),
        "folder": request.folder or os.getcwd(),
        "on_device": request.on_device,
    }


def list_edited(sources: Mapping[str, str]) -> list[str]:
    """Return the files that no longer have the SHA-256 that they had when a run imported them."""
    return [path for path, digest in sources.items() if _hash_file(path) != digest]


def list_set_anew(run: Run) -> list[str]:
    """Return the variables that no longer have the value that they had when a run's code asked for
    them."""
    now = environment.clean_environment(os.environ, run.variant.env)
    asked = run.asked_variables.items()
    return [name for name, sha in asked if environment.hash_value(now.get(name)) != sha]


def _hash_scenario(reference: str) -> str:
    """Return the SHA-256 of a user's file. Shipped ones are part of perfcli's own code, and what a
    file is at a revision its commit says."""
    path = find_file(reference)
    return _hash_file(path) if path and not split_revision(reference)[1] else ""


def _hash_file(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""  # whoever needs the file says what is wrong with it
