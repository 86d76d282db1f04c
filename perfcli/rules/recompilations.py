"""Dynamo compiles the same function again and again.

What it sees: how often Dynamo compiled each function of the model and which guard failed each time,
in one step and, with `--vary NAME=A,B,…`, in further calls with other sizes. It warns where Dynamo
reached its limit (`dynamo.recompile_limit`, 8), from which on the function runs without being
compiled, and where every further size compiled again. One compilation more is what automatic
dynamic shapes take: the second size makes the size a symbol, and the third fits.

Why it costs: a compilation takes seconds to minutes in the middle of a run, each compiled version
is checked by its guards before the next, and a function beyond the limit has no kernels at all.

What to try: a guard on a size that was compiled as a constant: `mark_dynamic`, or `dynamic=True`
(`--dynamic`). A guard on a number of the module: keep it in a tensor, or
`dynamo.allow_unspec_int_on_nn_module=true`. `TORCH_LOGS=recompiles` prints every one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from perfcli import units
from perfcli.model import Compilation, Cure, Finding, Origin, Recompilations, Rule, Run

_MOST_SAID = 3
"""Guards that the evidence names."""
_LEAST_SIZES = 3
"""Sizes that must each have been compiled: two always are."""
_INTEGER = "dynamo.allow_unspec_int_on_nn_module"
_AUTOMATIC = "dynamo.automatic_dynamic_shapes"


def _check(run: Run) -> Iterator[Finding]:
    found = run.recompilations
    if found is None:
        return
    every = (*found.first, *(each for call in found.varied for each in call.compilations))
    refused = [each for each in every if each.refused]
    functions = dict.fromkeys((each.function, each.location) for each in refused)
    for function in functions:
        of_it = [each for each in every if (each.function, each.location) == function]
        yield _write_refused(run, found, of_it)
    again = [call for call in found.varied if any(c.guard for c in call.compilations)]
    if again and not refused:
        yield _write_varied(run, found)
    if not found.varied:
        yield from _find_in_step(found.first, functions)


def _write_refused(run: Run, found: Recompilations, of_it: Sequence[Compilation]) -> Finding:
    first = next(each for each in of_it if each.refused)
    times = sum(not each.refused for each in of_it)
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{_name(first)} was compiled {units.plural(times, 'time')}, Dynamo's limit, and "
        f"runs without being compiled from there: {first.guard}",
        evidence=tuple(_list_guards(of_it)),
        advice=_advise(of_it),
        cures=_propose(run, of_it),
        metric="compilations",
        amount=times,
        origin=_find_origin(of_it),
        subject=f"limit {first.function}",
    )


def _write_varied(run: Run, found: Recompilations) -> Finding:
    """Return what the sizes of ``--vary`` made Dynamo compile."""
    compiled = [call for call in found.varied if call.compilations]
    again = [each for call in compiled for each in call.compilations]
    sizes = 1 + len(found.varied)
    every = len(compiled) == len(found.varied) and sizes >= _LEAST_SIZES
    names = ", ".join(found.first_params)
    values = [str(value) for value in found.first_params.values()]
    values += [" ".join(map(str, call.params.values())) for call in found.varied]
    dynamic = any(call.dynamic for call in found.varied)
    became = "then its sizes were dynamic" if dynamic and not every else "each size is its own"
    return Finding(
        code=RULE.code,
        severity="warning" if every else "info",
        headline=f"{names} = {', '.join(values)}: {units.plural(len(again), 'recompilation')}, "
        f"{became}",
        evidence=tuple(_list_guards(again)),
        advice=_advise(again) if every else "",
        cures=_propose(run, again),
        metric="compilations",
        amount=len(again),
        origin=_find_origin(again),
        subject=f"vary {names}",
    )


def _find_in_step(
    first: Sequence[Compilation], told: dict[tuple[str, str], None]
) -> Iterator[Finding]:
    """Yield the functions that one step alone compiles more often than the layers of a model that
    differ in a number or two."""
    counted = Counter((each.function, each.location) for each in first if each.guard)
    for function, times in counted.items():
        if times < _LEAST_SIZES or function in told:
            continue
        of_it = [each for each in first if (each.function, each.location) == function]
        yield Finding(
            code=RULE.code,
            severity="info",
            headline=f"one step compiles {_name(of_it[0])} {times + 1} times",
            evidence=tuple(_list_guards(of_it)),
            metric="compilations",
            amount=times + 1,
            origin=_find_origin(of_it),
            subject=f"step {function[0]}",
        )


def _name(compilation: Compilation) -> str:
    return compilation.function or "the model"


def _list_guards(compilations: Sequence[Compilation]) -> Iterator[str]:
    """Yield ``guard: s.k == 1 (model.py:9  s.k += 1)`` of the first ones."""
    guards = [each for each in compilations if each.guard]
    for each in guards[:_MOST_SAID]:
        where = each.guard_location or each.location
        said = f"{where}  {each.guard_code}".rstrip()
        yield f"guard failed: {each.guard}" + (f" ({said})" if said else "")
    if len(guards) > _MOST_SAID:
        yield f"and {units.plural(len(guards) - _MOST_SAID, 'more failed guard')}"


def _find_origin(compilations: Sequence[Compilation]) -> Origin | None:
    for each in compilations:
        if each.guard_location:
            return Origin("", "", location=each.guard_location, code=each.guard_code)
    place = next((each.location for each in compilations if each.location), "")
    return Origin("", "", location=place) if place else None


def _propose(run: Run, compilations: Sequence[Compilation]) -> tuple[Cure, ...]:
    """Propose the option for integers of a module, where one of them made a guard fail, and the one
    for sizes that were compiled as constants."""
    cures = []
    integers = any("==" in each.guard and each.guard_location for each in compilations)
    if integers and run.settings.get(_INTEGER) is False:
        cures.append(Cure({_INTEGER: True}, "compiles integers of a module as unknown"))
    if _is_of_sizes(compilations) and run.settings.get(_AUTOMATIC) is False:
        cures.append(Cure({_AUTOMATIC: True}, "compiles a size that changed as a symbol"))
    return tuple(cures)


def _is_of_sizes(compilations: Sequence[Compilation]) -> bool:
    return any("size mismatch" in each.guard for each in compilations[1:])


def _advise(compilations: Sequence[Compilation]) -> str:
    if compilations and "size mismatch" in compilations[-1].guard:
        return "mark the size dynamic (mark_dynamic, dynamic=True)"
    return "keep the number that changes in a tensor"


RULE = Rule("PC603", "recompilations", __doc__, of_run=_check)
