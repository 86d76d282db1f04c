"""Compiles one side of a comparison as the stored run on the other side was compiled, in all that
was not typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.loading.builders import check_builder
from perfcli.loading.inputs import join_inputs
from perfcli.loading.references import Reference, join_words, parse_reference
from perfcli.model import Run, Scalar, Variant
from perfcli.names import public
from perfcli.workflow.context import Context
from perfcli.workflow.obtain import list_foreign
from perfcli.workflow.request import Question, Side, read_reference

_HARMLESS = re.compile(r"[\w.,=+-]*")
"""An argument of a script that names no file of another folder, and no command."""


def adopt(question: Question, side: Side, run: Run, context: Context) -> tuple[Question, Side]:
    """Return what is asked of the side that is compiled, with what nobody typed as the stored run
    has it. What only a run's file names is started by nobody who does not trust it."""
    text = side.scenario or question.scenario
    taken = [*_take_place(question, run), *_take_workload(question, side, run, text)]
    adopted = question
    for each in taken:
        adopted = replace(adopted, **each)
    own = _take_arguments(_take_variant(side, run, context), run, text, context)
    if said := " ".join(_describe(question, adopted, side, own)):
        context.notes.say(f"{text}: compiled as run {run.id} was, with {said}")
    return adopted, own


def _take_place(question: Question, run: Run) -> Iterator[dict[str, Any]]:
    """Yield where it is compiled for, and how."""
    if question.target is None and question.device is None:
        if run.device == "cpu":
            yield {"device": "cpu"}
        elif run.target:
            yield {"target": run.target.name}
    if run.dynamic:
        yield {"dynamic": True}
    if question.world == 1 and run.world > 1:
        yield {"world": run.world}
    if question.threads is None and run.device == "cpu":
        yield {"threads": run.threads}


def _take_workload(question: Question, side: Side, run: Run, text: str) -> Iterator[dict[str, Any]]:
    """Yield what is compiled: parameters, inputs, steps, in so far as it has them."""
    reference = read_reference(text)
    if reference.script is not None:
        if question.steps is None and run.script is not None:
            yield {"steps": run.script.steps}
        return
    is_same = _is_same(reference, run)
    varied = _write_varied(run) if is_same and question.vary is None else None
    if question.preset is None:
        gone = {name for name in (varied or question.vary or "").partition("=")[:1] if name}
        params = run.params if is_same else _choose_shared(reference, run)
        kept = [f"{k}={units.setting(v)}" for k, v in params.items() if k not in gone]
        # Of two with one name, the last one counts.
        yield {"params": (*kept, *question.params)}
    if varied:
        yield {"vary": varied}
    if run.inputs and (is_same or _needs_inputs(reference, question, side)):
        yield {"inputs": join_inputs(run.inputs, question.inputs)}


def _take_arguments(side: Side, run: Run, text: str, context: Context) -> Side:
    """Return the side with the run's arguments behind its script, where it is the same script and
    none were typed."""
    own, script = read_reference(text).script, run.script
    if own is None or script is None or own.arguments or not script.arguments:
        return side
    names = [(each.module, PurePath(each.path).name) for each in (own, script)]
    if names[0] != names[1]:
        return side
    if not context.trust and not all(map(_HARMLESS.fullmatch, script.arguments)):
        context.notes.warn(
            f"run {run.id} was called with {shlex.join(script.arguments)}, which is not taken "
            "over: only its file names it (type it as well, or give --trust-run)"
        )
        return side
    return replace(side, scenario=join_words(text, script.arguments))


def _is_same(reference: Reference, run: Run) -> bool:
    """Return whether this is what the run is of, perhaps at another revision or in another
    folder."""
    try:
        other = parse_reference(run.scenario)
    except PerfcliError:  # a run of other origin
        return False
    if reference.kind == "scenario":
        return public(reference.text) == public(run.scenario)
    names = [(each.kind, PurePath(each.path).name, each.name) for each in (reference, other)]
    return names[0] == names[1]


def _write_varied(run: Run) -> str | None:
    """Return ``--vary`` as it was typed for the run."""
    found = run.recompilations
    if found is None or not found.varied or len(found.first_params) != 1:
        return None
    ((name, first),) = found.first_params.items()
    values = [first, *(call.params[name] for call in found.varied)]
    return f"{name}={','.join(map(units.setting, values))}"


def _choose_shared(reference: Reference, run: Run) -> Mapping[str, Scalar]:
    """Return the run's parameters that something else has, too: of a user's file, only whether it
    trains is known without running it."""
    if reference.kind == "file":
        return {"mode": run.mode} if run.mode != "forward" else {}
    declared = registry.scenario(reference.text).parameters
    return {
        name: value
        for name, value in run.params.items()
        if name in declared
        and type(value) is type(declared[name].default)
        and (not declared[name].choices or value in declared[name].choices)
    }


def _needs_inputs(reference: Reference, question: Question, side: Side) -> bool:
    """Return whether the file's text shows that nothing can be compiled without inputs."""
    if question.inputs or side.inputs or reference.kind != "file" or reference.revision:
        return False
    typed: Collection[str] = [text.partition("=")[0] for text in (*question.params, *side.params)]
    if not Path(reference.path).is_file():
        return False
    try:
        check_builder(reference.path, reference.name, typed)
    except PerfcliError:
        return True
    return False


def _take_variant(side: Side, run: Run, context: Context) -> Side:
    """Return the side with the run's options and interpreter beneath its own."""
    foreign = list(list_foreign(run, Variant("")))
    if foreign and not context.trust:
        context.notes.warn(
            f"run {run.id} was compiled with {foreign[0]}, which is not taken over: only its file "
            "names it (type it as well, or give --trust-run)"
        )
    trusted = context.trust or not foreign
    variant = run.variant
    typed = {text.partition("=")[0].strip() for text in side.assignments}
    options = [
        f"{name}={units.setting(value)}"
        for name, value in (*variant.options.items(), *(variant.env.items() if trusted else ()))
        if name not in typed and (trusted or isinstance(value, bool | int | float | None))
    ]
    python = side.python or (variant.python if trusted else None)
    return replace(side, assignments=(*options, *side.assignments), python=python)


def _describe(before: Question, after: Question, side: Side, own: Side) -> Iterator[str]:
    """Yield what was taken over, as it would be typed."""
    typed = side.scenario or before.scenario
    if own.scenario and own.scenario != typed:
        yield own.scenario.removeprefix(typed).strip()
    for name in ("target", "device", "vary", "steps"):
        if getattr(before, name) != getattr(after, name):
            yield f"--{name} {getattr(after, name)}"
    if after.dynamic and not before.dynamic:
        yield "--dynamic"
    if after.world != before.world:
        yield f"--world {after.world}"
    yield from (f"-p {text}" for text in after.params if text not in before.params)
    yield from (f"--input {text}" for text in after.inputs if text not in before.inputs)
    yield from (text for text in own.assignments if text not in side.assignments)
    if own.python != side.python:
        yield f"python {own.python}"
