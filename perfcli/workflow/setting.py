"""The options for measuring: is there something to measure on, and how."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.fake import measuring
from perfcli.interleave import environments
from perfcli.interleave.pair import PairPlan
from perfcli.machine import driver, environment, targets
from perfcli.model import Clocks, Device, MeasureRequest, SideName
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.request import Question, choose_device

BUDGET_SECONDS = 20.0
MOST_SECONDS = 1e6
"""Of a budget: eleven days."""
MOST_SEED = 2**63 - 1
_SEEDS = 2**31


@dataclass(frozen=True, slots=True)
class MeasuringOptions:
    """Holds the options as typed; None and empty is what nobody typed."""

    budget: float | None = None
    threads: int | None = None
    seed: int | None = None
    a_device: int | None = None
    b_device: int | None = None
    cuda_graph: bool = False
    flush_l2: bool = False
    allow_env: tuple[str, ...] = ()
    no_time: bool = False
    clocks: Clocks | None = None
    """Whose time decides; None: of both."""
    places: tuple[int, ...] = ()
    """The two GPUs, or cores, that base and head exchange half-way; empty: they share one."""

    @property
    def typed(self) -> list[str]:
        """Return the options that ask for a measurement."""
        values = {
            "--budget": self.budget is not None,
            "--threads": self.threads is not None,
            "--seed": self.seed is not None,
            "--a-device": self.a_device is not None,
            "--b-device": self.b_device is not None,
            "--cuda-graph": self.cuda_graph,
            "--flush-l2": self.flush_l2,
            "--allow-env": bool(self.allow_env),
            "--time": self.clocks is not None,
            "the second device of --device": bool(self.places),
        }
        return [name for name, given in values.items() if given]

    def refuse(self, reason: str) -> None:
        """Raise PerfcliError where anything was typed that needs a measurement."""
        if self.typed:
            raise PerfcliError(f"{reason}: leave out {', '.join(self.typed)}")


@dataclass(frozen=True, slots=True)
class Setting:
    """Says how both sides are measured."""

    asked: MeasuringOptions
    device: Device
    budget: float
    seed: int
    threads: int | None
    cpus: tuple[int, ...]
    fake: measuring.FakePlan | None = None

    @property
    def device_name(self) -> str:
        """Return what a measuring worker of the base will call its device."""
        if self.fake is not None:
            return measuring.DEVICE
        if self.device == "cpu":
            return environment.read_cpu_name()
        return driver.device_name(self.asked.a_device or 0)

    def plan(self, jobs: Sequence[Job]) -> PairPlan:
        """Return what is measured of a base's job and a head's."""
        base, head = jobs
        ours, theirs = self.asked.places or (self.asked.a_device, self.asked.b_device)
        return PairPlan(
            self._request(base, "base", ours),
            self._request(head, "head", theirs),
            self.budget,
            self.seed,
            exchanges=bool(self.asked.places),
        )

    def _request(self, job: Job, side: SideName, index: int | None) -> MeasureRequest:
        compiled = replace(job.request, on_device=self.device == "cuda")
        return MeasureRequest(
            compile=compiled,
            side=side,
            seed=self.seed,
            threads=self.threads,
            cpus=self.cpus if index is None or self.device == "cuda" else (index,),
            device_index=index if self.device == "cuda" else None,
            cuda_graph=self.asked.cuda_graph,
            flush_l2=self.asked.flush_l2,
            clocks=self.asked.clocks or "both",
        )


def settle(question: Question, asked: MeasuringOptions, context: Context) -> Setting | None:
    """Return how to measure; None where nothing is measured: without a device, or unwanted. Raises
    PerfcliError for options that contradict each other, numbers out of range, a device that is not
    there, and more threads than cores; before anything is compiled."""
    _check_range(asked)
    environments.check_allowed(asked.allow_env)
    if asked.no_time:
        asked.refuse("--no-time measures nothing")
        return None
    if question.target:
        asked.refuse(f"--target {question.target} compiles without a device, and measures nothing")
        return None
    device, _ = choose_device(question.device, question.target)
    if device == "cuda" and not targets.has_gpu():
        asked.refuse("no GPU here to measure on, and no --device cpu")
        return None
    _check(device, asked)
    if question.world > 1:
        _check_ranks(question.world, asked)
    plan = context.fake_plan
    fake = measuring.parse(plan)
    if plan and fake is None:
        return None
    if reason := _too_few(device, question.world, asked.threads or 1):
        asked.refuse(reason)
        context.notes.warn(f"not measured: {reason}")
        return None
    threads, cpus = _cores(asked.threads, question.world) if device == "cpu" else (None, ())
    return Setting(
        asked=asked,
        device=device,
        budget=asked.budget or BUDGET_SECONDS,
        seed=_choose_seed(asked),
        threads=threads,
        cpus=cpus,
        fake=fake,
    )


def settle_elsewhere(asked: MeasuringOptions, context: Context) -> Setting:
    """Return how to measure on one GPU of another machine. Raises PerfcliError for numbers out of
    range."""
    _check_range(asked)
    return Setting(
        asked=asked,
        device="cuda",
        budget=asked.budget or BUDGET_SECONDS,
        seed=_choose_seed(asked),
        threads=None,
        cpus=(),
        fake=measuring.parse(context.fake_plan),
    )


def _choose_seed(asked: MeasuringOptions) -> int:
    return asked.seed if asked.seed is not None else secrets.randbelow(_SEEDS)


def _check_range(asked: MeasuringOptions) -> None:
    if asked.budget is not None and not 0 < asked.budget <= MOST_SECONDS:
        raise PerfcliError(
            f"--budget {asked.budget:g}: a number of seconds up to {MOST_SECONDS:,.0f} is expected"
        )
    if asked.seed is not None and not 0 <= asked.seed <= MOST_SEED:
        raise PerfcliError(f"--seed {asked.seed}: a number from 0 to 2^63 − 1 is expected")


def _check(device: Device, asked: MeasuringOptions) -> None:
    if asked.places:
        _check_places(device, asked)
    if device == "cpu":
        for name in ("--a-device", "--b-device", "--cuda-graph", "--flush-l2"):
            if name in asked.typed:
                raise PerfcliError(f"{name} is about GPUs: leave it out with --device cpu")
        if asked.clocks == "device":
            raise PerfcliError("--time device is about GPUs: a CPU has one clock, the step's")
        return
    if asked.cuda_graph and asked.clocks == "device":
        raise PerfcliError(
            "--cuda-graph makes the step's time the device's own: leave out --time device, or "
            "--cuda-graph"
        )
    if asked.threads is not None:
        raise PerfcliError("--threads is about the CPU: leave it out, or give --device cpu")
    count = driver.device_count()
    for name, index in (("--a-device", asked.a_device), ("--b-device", asked.b_device)):
        if index is not None and not 0 <= index < count:
            there = "0 alone" if count == 1 else f"0 to {count - 1}"
            raise PerfcliError(f"{name} {index}: no such GPU, there is {there}")


def _check_places(device: Device, asked: MeasuringOptions) -> None:
    """Raise PerfcliError where base and head can't exchange these two devices."""
    typed = ",".join(f"{device}:{place}" for place in asked.places)
    fixed = {"--a-device": asked.a_device, "--b-device": asked.b_device, "--threads": asked.threads}
    if others := [name for name, value in fixed.items() if value is not None]:
        raise PerfcliError(f"--device {typed} gives each side one of both: leave out {others[0]}")
    here = range(driver.device_count()) if device == "cuda" else sorted(os.sched_getaffinity(0))
    if missing := [place for place in asked.places if place not in here]:
        word = "GPU" if device == "cuda" else "core"
        there = ", ".join(map(str, here)) or "none"
        raise PerfcliError(f"--device {typed}: no such {word} {missing[0]}, there is {there}")
    if device == "cuda":
        one, other = map(driver.device_name, asked.places)
        if one != other:
            raise PerfcliError(
                f"--device {typed}: {one} and {other} are of different kinds, for which the same "
                "code takes other times; name two GPUs of one kind, or one GPU for both sides"
            )


def _check_ranks(world: int, asked: MeasuringOptions) -> None:
    """Raise PerfcliError for options that a process group can't have: each rank has its own GPU,
    and waits for others in the middle of a step."""
    names = ("--a-device", "--b-device", "--cuda-graph", "the second device of --device")
    if typed := [name for name in names if name in asked.typed]:
        raise PerfcliError(f"--world {world} has one GPU for each rank: leave out {typed[0]}")


def _too_few(device: Device, world: int, threads: int) -> str:
    """Return why so many ranks can't be measured here; empty where they can."""
    if world == 1:
        return ""
    here = driver.device_count() if device == "cuda" else len(os.sched_getaffinity(0)) // threads
    if world <= here:
        return ""
    word = "a GPU" if device == "cuda" else units.plural(threads, "core")
    there = units.plural(here, "rank")
    return f"--world {world} needs {word} for each rank, and this machine has enough for {there}"


def _cores(threads: int | None, world: int = 1) -> tuple[int, tuple[int, ...]]:
    """Return the cores to pin to: one for each rank unless more are asked for, and the last ones,
    since interrupts and most of what else runs take the first."""
    usable = sorted(os.sched_getaffinity(0))
    wanted = threads or 1
    if wanted > len(usable):
        cores = units.plural(len(usable), "core")
        raise PerfcliError(f"--threads {wanted}: only {cores} can be used here")
    return wanted, tuple(usable[-wanted * world :])


def why_not(jobs: Sequence[Job], setting: Setting) -> str:
    """Return why these can't be measured though the device is there; empty where they can."""
    for job in jobs:
        if job.request.script is not None:
            return f"{job.request.scenario} is a script, and steps of scripts are not timed"
    if setting.fake is not None or setting.device == "cpu":
        return ""
    for job in jobs:
        if job.interpreter.cuda is None:
            python = job.request.variant.python or "this Python"
            return f"torch {job.interpreter.torch} of {python} is a build without CUDA"
    return ""
