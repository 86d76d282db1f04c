"""Runs somebody's program with options in force."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from perfcli.compile.applied import MARK, SETTINGS
from perfcli.console.notes import Notes
from perfcli.errors import PerfcliError
from perfcli.machine.scratch import make_scratch
from perfcli.model import Variant
from perfcli.options.catalogue import Catalogue

_START = """import importlib.util
spec = importlib.util.spec_from_file_location("_perfcli_applied", {path!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.begin({folder!r})
"""
_TAG = "TORCH_COMPILE_CACHE_KEY_TAG"
"""A part of the key of torch's caches of generated code, which do not know of patches."""


def list_patches(variant: Variant, catalogue: Catalogue) -> list[str]:
    """Return the options that perfcli patches into torch."""
    return [name for name in variant.options if catalogue.entries[name].note]


def run_program(
    command: Sequence[str], variant: Variant, patches: Sequence[str], notes: Notes
) -> int:
    """Return the exit code of a program with the variant's options in force, in it and in each
    Python that it starts; 128 and the signal's number where one ended it. Raises PerfcliError where
    it can't be started."""
    import perfcli.compile.applied as applied

    folder = make_scratch("apply-")
    try:
        options = {n: v for n, v in variant.options.items() if n not in patches}
        own = {name: variant.options[name] for name in patches}
        settings = {"options": options, "patches": own}
        (folder / SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
        text = _START.format(path=applied.__file__, folder=str(folder))
        (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
        environment = {**os.environ, **variant.env, "PYTHONPATH": _put_first(folder)}
        if own:
            environment[_TAG] = f"{environment.get(_TAG, '')}{json.dumps(own, sort_keys=True)}"
        code = _run(command, environment)
        if variant.options and not any(folder.glob(f"{MARK}*")):
            notes.warn(
                "no option was put in force: the program compiled nothing with torch, or starts "
                "Python with -I, -E or -S, which leave out PYTHONPATH"
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _put_first(folder: Path) -> str:
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    try:
        process = subprocess.Popen(list(command), env=environment)
    except OSError as error:
        raise PerfcliError(f"can't run {command[0]}: {error.strerror or error}") from error
    while True:
        try:
            code = process.wait()
        except KeyboardInterrupt:  # the program has got it, too, and says what it does with it
            continue
        return 128 - code if code < 0 else code
