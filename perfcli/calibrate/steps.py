"""Has steps of scenarios timed, kernel by kernel, and joins each kernel that ran to what it asks of
the GPU: the same source with the same launch configuration, compiled as if there were no GPU.
"""

from __future__ import annotations

import shutil
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path

from perfcli.calibrate.finished import append_finished, read_finished
from perfcli.console.notes import Notes
from perfcli.errors import Interrupted, OutOfMemory, PerfcliError
from perfcli.loading import registry
from perfcli.machine.scratch import make_scratch
from perfcli.model import Ask, Buffer, Candidate, KernelFacts, MeasuredLaunch, MeasureRequest, Run
from perfcli.predict.reuse import find_cold_shares
from perfcli.worker.live import LiveWorker, Starter
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job, list_edited
from perfcli.workflow.obtain import obtain
from perfcli.workflow.request import Question, Side, make_jobs

_STEPS, _WARM = 9, 3
_AT_ONCE = 8
"""Scenarios that are compiled at once; none is, while one is timed."""
_SMOKE = ("softmax",)
"""The scenarios of a smoke test."""


@dataclass(frozen=True, slots=True)
class _TimedKernel:
    """Holds one kernel of a step: what one launch asks for, and what it takes on average."""

    name: str
    candidate: Candidate
    """The launch configuration that ran."""
    buffers: tuple[Buffer, ...]
    cold: float
    """The part of its input that nothing before it in the step left in the L2 cache."""
    seconds: float


@dataclass(frozen=True, slots=True)
class _TimedStep:
    """Holds the kernels of one scenario."""

    scenario: str
    fingerprint: str
    sources: Mapping[str, str]
    """The user's files that it imported, with their SHA-256."""
    kernels: tuple[_TimedKernel, ...]
    left_out: int
    """Launches of generated kernels that could not be joined or counted."""


def _make_step_jobs(
    also: Sequence[str], python: str | None, jobs: int, context: Context, smoke: bool
) -> list[Job]:
    """Return what compiles the shipped scenarios and those of the user. Raises PerfcliError for a
    file that is not there."""
    shipped = _SMOKE if smoke else registry.names("scenarios")
    preset = "smoke" if smoke else "full"
    questions = [Question(name, preset=preset, device="cuda") for name in shipped]
    questions += [Question(name, device="cuda") for name in also]
    probe = context.choose_probe("cuda")
    side = Side(python=python)
    return [job for each in questions for job in make_jobs(each, [side], probe, jobs)]


def _time_steps(
    jobs: Sequence[Job],
    path: Path,
    cache_bytes: float,
    notes: Notes,
    report: Callable[[int, int], None],
) -> list[_TimedStep]:
    """Return the timed steps of these jobs, those of an earlier try included, which ``path`` keeps.
    What can't be compiled or run, or does not fit into memory, is left out with a warning. Raises
    PerfcliError where the file can't be written."""
    known = {each.fingerprint: each for each in read_finished(path, _TimedStep)}
    finished = {
        number: known[job.fingerprint]
        for number, job in enumerate(jobs)
        if job.fingerprint in known and not list_edited(known[job.fingerprint].sources)
    }
    left = [number for number in range(len(jobs)) if number not in finished]
    for start in range(0, len(left), _AT_ONCE):
        report(len(finished), len(jobs))
        several = left[start : start + _AT_ONCE]
        made = _time_several([jobs[number] for number in several], cache_bytes)
        for number, timed in zip(several, made, strict=True):
            if isinstance(timed, PerfcliError):
                notes.warn(f"{jobs[number].request.scenario} is left out: {timed}")
                continue
            finished[number] = timed
            append_finished(path, timed)
    report(len(finished), len(jobs))
    return [finished[number] for number in sorted(finished)]


def _time_several(jobs: Sequence[Job], cache_bytes: float) -> list[_TimedStep | PerfcliError]:
    """Return the timed step of each job, or why there is none: what does not fit into memory beside
    the others is tried again alone."""
    found = _time_batch(jobs, cache_bytes)
    for place, job in enumerate(jobs):
        if isinstance(found[place], OutOfMemory) and len(jobs) > 1:
            (found[place],) = _time_batch([job], cache_bytes)
    return found


def _time_batch(jobs: Sequence[Job], cache_bytes: float) -> list[_TimedStep | PerfcliError]:
    """Return the timed step of each job, or why there is none. All are compiled before one is
    timed."""
    caches = make_scratch("caches-")
    threads = max(1, (jobs[0].request.jobs or 1) // len(jobs))
    with ThreadPoolExecutor(2 * len(jobs)) as pool:
        sides = [_ReadyStep(job, caches, threads) for job in jobs]
        try:
            runs = [pool.submit(_compile_alone, job, threads) for job in jobs]
            ready = [pool.submit(side.prepare) for side in sides]
            wait(runs)
            wait(ready)
            return [
                _time_ready(side, run, begun, cache_bytes)
                for side, run, begun in zip(sides, runs, ready, strict=True)
            ]
        finally:
            for side in sides:
                side.close()
            shutil.rmtree(caches, ignore_errors=True)


def _time_ready(
    side: _ReadyStep, run: Future[Run], begun: Future[None], cache_bytes: float
) -> _TimedStep | PerfcliError:
    try:
        begun.result()
        return side.time(run.result(), cache_bytes)
    except Interrupted:
        raise
    except PerfcliError as error:
        return error
    finally:
        side.close()  # its memory is what the next one may need


def _compile_alone(job: Job, threads: int) -> Run:
    """Return the run as it is compiled where there is no GPU."""
    few = replace(job, request=replace(job.request, jobs=threads))
    (obtained,) = obtain([few], Context(Notes(quiet=True)), keeps=False)
    return obtained.run


class _ReadyStep:
    """Holds a worker that runs a scenario's step on the GPU."""

    def __init__(self, job: Job, caches: Path, threads: int) -> None:
        self._job = job
        self._caches = caches
        self._threads = threads
        self._worker: LiveWorker | None = None
        self._launches: tuple[MeasuredLaunch, ...] = ()

    def prepare(self) -> None:
        """Compile, and run until it is warm. Raises what compiling and running raise."""
        asked = self._job.request
        variant = replace(asked.variant, env={"TORCHINDUCTOR_COMPILE_THREADS": str(self._threads)})
        compiled = replace(asked, variant=variant, on_device=True)
        request = MeasureRequest(compiled, "base", seed=1, check=False)
        worker = self._worker = Starter(self._caches)(request, lambda phase: None)
        self._launches = worker.prepare().launches

    def time(self, run: Run, cache_bytes: float) -> _TimedStep:
        """Return the timed step, its kernels joined to those of ``run``."""
        assert self._worker is not None
        steps = self._worker.turn(Ask("kernels", _STEPS, _WARM)).launches
        seconds = [statistics.median(times) for times in zip(*steps, strict=True)]
        kernels, left_out = _join_kernels(run, self._launches, seconds, cache_bytes)
        name, fingerprint = self._job.request.scenario, self._job.fingerprint
        return _TimedStep(name, fingerprint, run.sources, tuple(kernels), left_out)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _join_kernels(
    run: Run, launches: Sequence[MeasuredLaunch], seconds: Sequence[float], cache_bytes: float
) -> tuple[list[_TimedKernel], int]:
    """Return each kernel of a run with the configuration that ran and the average seconds of a
    launch, and how many launches of generated kernels could not be joined."""
    cold = find_cold_shares(run, cache_bytes)
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    left_out = 0
    for launch, taken in zip(launches, seconds, strict=True):
        if not launch.generated:
            continue
        found = _find_configuration(run.kernels, launch)
        if found is None:
            left_out += 1
        else:
            times[found].append(taken)
    kernels = []
    for (number, chosen), each in times.items():
        kernel = run.kernels[number]
        candidate = kernel.candidates[chosen]
        average = statistics.fmean(each)
        kernels.append(_TimedKernel(kernel.name, candidate, kernel.buffers, cold[number], average))
    return kernels, left_out


def _find_configuration(
    kernels: Sequence[KernelFacts], launch: MeasuredLaunch
) -> tuple[int, int] | None:
    """Return the kernel that a launch is of, by its source, and the configuration that ran, whose
    work was counted."""
    alike = [n for n, each in enumerate(kernels) if each.source_hash == launch.source_hash]
    alike.sort(key=lambda n: (kernels[n].graph, kernels[n].name) != (launch.graph, launch.name))
    told = dict(part.split("=", 1) for part in launch.config.split() if "=" in part)
    for number in alike[:1]:
        for place, candidate in enumerate(kernels[number].candidates):
            own = {
                **candidate.config,
                "num_warps": candidate.num_warps,
                "num_stages": candidate.num_stages,
            }
            is_same = told and all(told.get(name) == str(value) for name, value in own.items())
            if is_same and candidate.work is not None and not candidate.work.retries:
                return number, place
    return None
