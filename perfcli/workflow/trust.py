"""Decides what a stored run may start when it is compiled again.

Its file is data that anyone may have written: the programs that it names are started only where the
command line names them too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from perfcli.errors import PerfcliError
from perfcli.loading import registry, userfile
from perfcli.model import Run, Variant

FLAG = "--trust-run"
_PLAIN = (bool, int, float, type(None))


def _check_trusted(run: Run, asked: Variant | None) -> None:
    """Raise PerfcliError where compiling the run again would start or read what only its file
    names. ``asked`` is the variant that the command line asks for, None for a run by its name."""
    if foreign := next(_foreign(run, asked), None):
        raise PerfcliError(
            f"compiling the run again would use {foreign}, which only its file names: give {FLAG} "
            "if you trust that file"
        )


def _needs_trust(run: Run) -> bool:
    """Return whether the run, once it is read from its file, is compiled again with the flag
    only."""
    return next(_foreign(run, None), None) is not None


def _foreign(run: Run, asked: Variant | None) -> Iterator[str]:
    variant, known = run.variant, asked or Variant("")
    if variant.python not in (None, os.path.abspath(sys.executable), known.python):
        yield f"the program {variant.python}"
    for name, value in variant.env.items():
        if known.env.get(name) != value:
            yield f"the variable {name}"
    for name, option in variant.options.items():
        # A number or a yes can't name a compiler or a library; cpp.cxx is a text.
        if not isinstance(option, _PLAIN) and known.options.get(name) != option:
            yield f"the text {name}={option}"
    if asked is None and registry.is_user_file(run.scenario):
        path = Path(userfile.split(run.scenario)[0])
        if not path.resolve().is_relative_to(Path.cwd()):
            yield f"the program {path}, outside this folder"
