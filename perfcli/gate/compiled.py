"""The checks of a configuration: which are meant, and their heads compiled."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.gate.checks import Check
from perfcli.gate.config import Config, _find, _read
from perfcli.loading.references import Reference, parse_reference
from perfcli.model import OptionValue, Run
from perfcli.names import suggestion
from perfcli.options import files
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import Obtained, compile_runs, warn_of_oversights
from perfcli.workflow.request import Question, Side, check_question


class NoKernels(PerfcliError):
    """A check of which no kernel is generated."""


def configured(path: Path | None, baseline: Path | None) -> Config:
    """Return the configuration that is meant, with the baseline that is."""
    from perfcli.diagnosis import rules

    found = path or _find(Path.cwd())
    config = _read(_shown(found), [rule.code for rule in rules()])
    options = (("--config", path and _shown(path)), ("--baseline", baseline and _shown(baseline)))
    typed = tuple(str(word) for option in options if option[1] is not None for word in option)
    return replace(config, baseline=baseline or config.baseline, typed=typed)


def _shown(path: Path) -> Path:
    """Return the path relative to the current folder where it is in or below it: what is shown has
    no places."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path


def chosen(config: Config, names: Sequence[str]) -> list[Check]:
    """Return the checks of these names, with or without their target; all where none is named.
    Raises PerfcliError for a name that none has."""
    if not names:
        return list(config.checks)
    found = []
    for name in names:
        meant = [check for check in config.checks if _is_meant(check.name, name)]
        if not meant:
            known = {n for c in config.checks for n in (c.name, c.name.rpartition("@")[0])}
            raise PerfcliError(f"{config.path} has no check {name!r}: {suggestion(name, known)}")
        found += [check for check in meant if check not in found]
    return found


def check_questions(config: Config, checks: Sequence[Check]) -> None:
    """Raise PerfcliError for a check whose file or parameters are wrong: a baseline that is
    missing would be made for nothing."""
    for check in checks:
        try:
            check_question(_asked(config, check)[0])
        except PerfcliError as error:
            raise PerfcliError(f"{check.name}: {error}", detail=error.detail) from error


def _is_meant(check: str, name: str) -> bool:
    return any(fnmatch.fnmatchcase(each, name) for each in (check, check.rpartition("@")[0]))


def _asked(config: Config, check: Check) -> tuple[Question, Side]:
    """Return the check as if it were typed."""
    reference = _read_here(config.folder, check.scenario)
    is_module = reference.script is not None and reference.script.module
    question = Question(
        scenario=reference.text,
        params=tuple(f"{name}={units.parameter(value)}" for name, value in check.params.items()),
        preset=check.preset,
        target=check.target,
        device=check.device,
        dynamic=check.dynamic,
        # The code of a CPU depends on it: not on how many cores the machine has.
        threads=1 if check.device == "cpu" else None,
        inputs=check.inputs,
        folder=str(config.folder.absolute()) if is_module else "",
    )
    return question, Side(_assign(config.folder, check.options))


def _assign(folder: Path, options: Mapping[str, OptionValue] | str) -> tuple[str, ...]:
    if isinstance(options, str):
        if not files.is_file(options):
            raise PerfcliError(f"options is a table, or a file that ends in .toml, not {options!r}")
        return (str(folder / options),)
    return units.settings(options)


def _read_here(folder: Path, text: str) -> Reference:
    """Return what a configuration names, a file by its path from here: there, it stands from the
    configuration's folder, in which a module is looked for. Raise PerfcliError for one at a git
    revision, which no change could make worse."""
    found = parse_reference(text, folder=folder)
    if found.revision:
        raise PerfcliError(
            f"scenario = {text!r}: a check is of the files that lie here, leave out "
            f"@{found.revision} (perfcli gate --base-rev {found.revision} compares with it)"
        )
    return found.move(os.path.relpath(folder / found.path)) if found.path else found


def compile_head(config: Config, check: Check, context: Context) -> Obtained:
    """Return the check's run, compiled or stored. Raises what compiling raises, and NoKernels where
    it made none."""
    question, side = _asked(config, check)
    (found,) = compile_runs(question, [side], context)
    _check_kernels(found.run, check)
    warn_of_oversights(found.run, context.notes)
    return found


def _check_kernels(run: Run, check: Check) -> None:
    """Raise NoKernels where there is nothing to hold against anything."""
    if not run.kernels:
        raise NoKernels(
            f"nothing to compare: {check.scenario} has no generated kernel "
            "(only extern operators, or nothing was compiled); take the check out, or give it a "
            "model of which kernels are generated"
        )
