"""Tells whether both sides ran in the same place. What differs though nobody asked for it ends in
``NotComparable``: the times of the two sides would not answer what was asked.

Asked for are: all that comes with another interpreter (torch, triton, ptxas, python), variables
that a variant sets, and with an option that tunes, other launch configurations. Another GPU is
not asked for by saying which GPU each side runs on. What one side does not know is no difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfcli.errors import NotComparable, PerfcliError
from perfcli.model import Machine, MeasuredLaunch, Prepared, Variant

ASPECTS: Mapping[str, str] = {
    "gpu": "the device",
    "driver": "the driver",
    "clocks": "clock limits",
    "power-limit": "the power limit",
    "ecc": "ECC",
    "mig": "MIG",
    "torch": "torch",
    "triton": "triton",
    "ptxas": "ptxas",
    "python": "Python",
    "threads": "threads",
    "cpus": "cores",
    "layout": "the layout of memory",
    "variables": "environment variables",
    "autotune": "launch configurations of identical kernels",
    "machine": "the machine",
}
"""What ``--allow-env`` takes, and how it is called."""

_FACTS = {
    "max_sm_clock_mhz": "clocks",
    "max_memory_clock_mhz": "clocks",
    "governor": "clocks",
    "persistence": "clocks",
    "power_limit_watts": "power-limit",
    "ecc": "ecc",
    "mig": "mig",
    "cores": "cpus",
    "fixed_layout": "layout",
    "multiprocessors": "gpu",
    "memory_bytes": "gpu",
    "cuda": "torch",
}
_WITH_THE_INTERPRETER = ("torch", "triton", "ptxas", "python")
# Variables that set what Machine says in a field of its own.
_SETS = {
    "OMP_NUM_THREADS": "threads",
    "MKL_NUM_THREADS": "threads",
    "TRITON_PTXAS_PATH": "ptxas",
    "TRITON_PTXAS_BLACKWELL_PATH": "ptxas",
}
# Set by perfcli for each worker, or by Inductor for itself: they come with the interpreter.
_OWN = {"TORCHINDUCTOR_COMPILE_THREADS", "TORCHINDUCTOR_WORKER_START", "TRITON_PTXAS_PATH"}
_TUNING = ("tune", "tuning")


@dataclass(frozen=True, slots=True)
class _Difference:
    """Describes one difference. ``text``: ``the driver: 580.82 in the base, 570.10 in the
    head``."""

    aspect: str
    text: str


def check_allowed(allowed: Collection[str]) -> None:
    """Raise PerfcliError for a name that ``--allow-env`` does not know."""
    for name in allowed:
        if name not in ASPECTS:
            known = ", ".join(ASPECTS)
            raise PerfcliError(f"--allow-env takes {known}; got {name!r}")


def check(
    base: Prepared, head: Prepared, variants: tuple[Variant, Variant], allowed: Collection[str] = ()
) -> list[_Difference]:
    """Return differences that ``allowed`` lets pass, for the report. Raises NotComparable where
    there are others, with all of them and how to go on."""
    found = _differences(base, head, *variants)
    if refused := [difference for difference in found if difference.aspect not in allowed]:
        reasons = "; ".join(difference.text for difference in refused)
        aspects = dict.fromkeys(difference.aspect for difference in refused)
        way_out = " ".join(f"--allow-env {aspect}" for aspect in aspects)
        raise NotComparable(
            f"base and head did not run alike, so nothing was timed: {reasons}. Make them equal, "
            f"or compare all the same with {way_out}"
        )
    return found


def _differences(
    base: Prepared, head: Prepared, base_variant: Variant, head_variant: Variant
) -> list[_Difference]:
    """Return what differs between two workers and was not asked for by their variants."""
    asked = _asked_for(base_variant, head_variant)
    found = [
        *_of_fields(base.machine, head.machine),
        *_of_facts(base.machine, head.machine),
        *_of_variables(base.machine, head.machine, base_variant, head_variant),
        *_of_configurations(base.launches, head.launches),
    ]
    return [difference for difference in found if difference.aspect not in asked]


def _asked_for(base: Variant, head: Variant) -> set[str]:
    variables = _list_changed(base.env, head.env)
    asked = {_SETS[name] for name in variables if name in _SETS}
    if base.python != head.python:
        asked |= {*_WITH_THE_INTERPRETER, "autotune"}
    settings = [*_list_changed(base.options, head.options), *variables]
    if any(word in name.lower() for name in settings for word in _TUNING):
        asked.add("autotune")
    return asked


def _of_fields(base: Machine, head: Machine) -> Iterator[_Difference]:
    pairs: tuple[tuple[str, object, object], ...] = (
        ("gpu", base.device, head.device),
        ("driver", base.driver, head.driver),
        ("torch", base.torch, head.torch),
        ("triton", base.triton, head.triton),
        ("ptxas", base.ptxas, head.ptxas),
        ("python", base.python or None, head.python or None),
        ("threads", base.threads, head.threads),
        ("cpus", _list_cpus(base.cpus), _list_cpus(head.cpus)),
    )
    for aspect, one, other in pairs:
        if None not in (one, other) and one != other:
            yield _difference(aspect, ASPECTS[aspect], one, other)


def _of_facts(base: Machine, head: Machine) -> Iterator[_Difference]:
    for name in sorted(base.facts.keys() & head.facts.keys()):
        one, other = base.facts[name], head.facts[name]
        if None not in (one, other) and one != other:
            yield _difference(_FACTS.get(name, "machine"), name.replace("_", " "), one, other)


def _of_variables(
    base: Machine, head: Machine, base_variant: Variant, head_variant: Variant
) -> Iterator[_Difference]:
    own = {*_OWN, *base_variant.env, *head_variant.env}
    for name in _list_changed(base.variables, head.variables):
        if name not in own:
            one, other = base.variables.get(name, "unset"), head.variables.get(name, "unset")
            yield _difference("variables", name, one, other)


def _of_configurations(
    base: Sequence[MeasuredLaunch], head: Sequence[MeasuredLaunch]
) -> Iterator[_Difference]:
    ones, others = _configurations(base), _configurations(head)
    for source in ones:
        name, one = ones[source]
        _, other = others.get(source, (name, one))
        if one != other:
            what = f"the launch configuration of {name}, identical on both sides"
            yield _difference("autotune", what, " and ".join(one), " and ".join(other))


def _configurations(launches: Sequence[MeasuredLaunch]) -> dict[str, tuple[str, list[str]]]:
    """Return, for each source, a kernel's name and the configurations that it was launched with."""
    names: dict[str, str] = {}
    found: defaultdict[str, set[str]] = defaultdict(set)
    for launch in launches:
        if launch.generated and launch.source_hash and launch.config:
            names.setdefault(launch.source_hash, launch.name)
            found[launch.source_hash].add(launch.config)
    return {source: (names[source], sorted(found[source])) for source in names}


def _difference(aspect: str, what: str, base: object, head: object) -> _Difference:
    return _Difference(aspect, f"{what}: {_word(base)} in the base, {_word(head)} in the head")


def _word(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _list_cpus(cpus: Sequence[int]) -> str | None:
    return ", ".join(map(str, cpus)) or None


def _list_changed(base: Mapping[str, object], head: Mapping[str, object]) -> list[str]:
    missing = object()
    names = sorted({*base, *head})
    return [name for name in names if base.get(name, missing) != head.get(name, missing)]
