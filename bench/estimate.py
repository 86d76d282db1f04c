"""Says how good estimated times are on a GPU: measures architectures with several options each, and
holds their kernels and pairs of options against the estimates.

    python bench/estimate.py measure OUT.json.xz [--files FILE.py …] [--options OPT=VAL …]
    python bench/estimate.py report OUT.json.xz … [--corpus FINISHED.jsonl]

``measure`` needs the GPU: each variant is compiled as if it were not there (``perfcli run``), and
compiled and timed on it by torch's profiler. Kernels are joined by name, grid, block and registers.
``report`` needs no GPU. With more than one architecture it also fits the constants without each of
them in turn, from neutral ones (``--corpus``: and from the corpus of ``perfcli calibrate``, a file
in its cache folder).
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import lzma
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from perfcli.model import Candidate, EstimatedChange, KernelFacts, Run  # noqa: E402

MODELS = ROOT / "bench" / "estimate_models.py"
OPTIONS = ("split_reductions=false", "triton.persistent_reductions=false", "combo_kernels=true")
DEFAULT = "default"
STEPS = 9
LEAST, SHORT = 3.0, 1.5
"""Microseconds: shorter launches are not judged, and shorter ones still not fitted."""
NEUTRAL = {
    "launch": 0.822, "dram": 4.548e6, "l2_hit": 4.2326e6, "l2": 13.89e6, "l2_to_sm": 55.4,
    "line": 0.9526, "norm": 4.0, "norm_waiting": 2.5, "issue": 1.027, "special": 0.9226,
    "shared": 2.787, "stall": 1.397, "round": 713.5, "atomic": 3.34e-6, "contended": 0.002,
    "local": 3.0e6, "partial": 4.238, "store_sector": 0.355, "conversion": 0.987,
    "block": 0.000534, "block_warp": 2.86e-5, "fragment": 6.488, "request": 0.392,
    "store_cache_bytes": 11.77e6, "cache_bytes": 24e6, "round_hit": 0.4985,
    "write_through": 1.0727, "code": 1.468, "code_cached": 2500.0, "wave": 36.0,
    "conflict": 2.84, "unmerged": 1.14, "load_sector": 0.0327, "latency_line": 0.8726,
    "latency_issue": 0.0539, "bank": 1.0, "latency_bank": 0.05, "round_l1": 60.0,
    "code_stall": 1.0,
}  # fmt: skip
"""Where a fit starts that must know nothing of what it is tested on: those of an earlier model."""


@dataclass(frozen=True)
class Timed:
    """Holds one kernel, or library operator, as the profiler saw it."""

    name: str
    graph: str
    generated: bool
    micros: float
    """Of one launch, the median over steps."""
    launches: int
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    registers: int = 0


@dataclass(frozen=True)
class Variant:
    """Holds one architecture with one option, compiled without the GPU and timed on it."""

    model: str
    option: str
    run: Run
    timed: tuple[Timed, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    def total(self, *, generated: bool) -> float:
        """Return the microseconds of a step, without what is launched elsewhere."""
        return sum(t.micros * t.launches for t in self.timed if t.generated or not generated)


# --- on the GPU ------------------------------------------------------------------------------


def measure(out: Path, files: Sequence[Path], options: Sequence[str], at_once: int) -> None:
    """Compile and time all variants; whatever is finished is written after each."""
    from perfcli.machine import targets

    target = targets.this_gpu().name
    names = [(file, name) for file in files for name in list_architectures(file)]
    asked = [(file, name, option) for option in (DEFAULT, *options) for file, name in names]
    started = time.monotonic()
    found: list[Variant] = []
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(at_once) as pool:
        jobs = [
            pool.submit(make_variant, Path(scratch) / str(number), *each, target)
            for number, each in enumerate(asked)
        ]
        for job, (_, name, option) in zip(jobs, asked, strict=True):
            try:
                found.append(job.result())
            except Exception as error:  # one that fails takes no other with it
                print(f"{name} {option}: {error}", flush=True)
                continue
            out.write_bytes(lzma.compress(msgspec.json.encode(found), preset=1))
            print(f"{name} {option}: {time.monotonic() - started:.0f} s", flush=True)


def list_architectures(file: Path) -> tuple[str, ...]:
    """Return the tuple ``ARCHITECTURES`` of a file, read without running it."""
    import ast

    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and "ARCHITECTURES" in map(ast.unparse, node.targets):
            return tuple(ast.literal_eval(node.value))
    raise SystemExit(f"{file} has no ARCHITECTURES = (…)")


def make_variant(folder: Path, file: Path, name: str, option: str, target: str) -> Variant:
    from perfcli.storing import store

    folder.mkdir()
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "2",
    }
    scenario = f"{file}:{name}"
    asked = [] if option == DEFAULT else ["-o", option]
    offline = ["-m", "perfcli", "run", scenario, "--target", target, "-j", "2", "-q", *asked]
    timing = [str(Path(__file__).resolve()), "time", scenario, option]
    started = time.monotonic()
    call(offline, folder, {**environment, "CUDA_VISIBLE_DEVICES": ""})
    compiled = time.monotonic()
    timed = json.loads(call(timing, folder, environment).splitlines()[-1])
    (path,) = (folder / ".perfcli" / "runs").glob("*.json")
    seconds = {"offline": compiled - started, "timing": time.monotonic() - compiled}
    return Variant(
        name, option, store.read(path), msgspec.convert(timed, tuple[Timed, ...]), seconds
    )


def call(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=dict(environment),
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])
    return done.stdout


def time_variant(scenario: str, option: str) -> None:
    """Compile on the GPU, and print what its launches take. Several of these may compile at once,
    but one alone tunes or times."""
    import torch
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    from perfcli.console.notes import Notes
    from perfcli.measure import step as steps
    from perfcli.measure.profiling import StepProfiler
    from perfcli.model import MeasureRequest
    from perfcli.workflow.context import Context
    from perfcli.workflow.request import Question, Side, make_jobs

    lock = (Path(tempfile.gettempdir()) / "estimate-gpu.lock").open("w")
    tune = CachingAutotuner.benchmark_all_configs

    def tune_alone(self: Any, *given: Any, **named: Any) -> Any:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return tune(self, *given, **named)
        finally:
            torch.cuda.synchronize()
            fcntl.flock(lock, fcntl.LOCK_UN)

    CachingAutotuner.benchmark_all_configs = tune_alone
    side = Side(() if option == DEFAULT else (option,))
    question = Question(scenario, device="cuda")
    (job,) = make_jobs(question, [side], Context(Notes(quiet=True)).choose_probe("cuda"))
    step = steps.prepare(MeasureRequest(job.request, "base", seed=1, check=False))
    fcntl.flock(lock, fcntl.LOCK_EX)
    step.warm()
    profiler = StepProfiler(step)
    times = profiler.times(STEPS)
    totals: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for launch, seconds in zip(profiler.launches, zip(*times, strict=True), strict=True):
        key = (launch.name, launch.graph, launch.generated, launch.grid, launch.block)
        totals[(*key, launch.registers or 0)].append(statistics.median(seconds) * 1e6)
    found = [
        Timed(name, where, made, statistics.fmean(each), len(each), grid, block, registers)
        for (name, where, made, grid, block, registers), each in totals.items()
    ]
    print(json.dumps([asdict(each) for each in found]))


# --- the report ------------------------------------------------------------------------------


@dataclass
class Row:
    """Holds one kernel of one variant, measured, with the configuration that ran."""

    variant: Variant
    kernel: KernelFacts
    number: int
    micros: float
    launches: int
    candidate: Candidate | None
    cold: float


def load(paths: Sequence[Path]) -> list[Variant]:
    """Return all variants of these files."""
    return [
        variant
        for path in paths
        for variant in msgspec.json.decode(lzma.decompress(path.read_bytes()), type=list[Variant])
    ]


def list_rows(variants: Sequence[Variant]) -> Iterator[Row]:
    """Yield the kernels that are on both sides, each once."""
    from perfcli.predict.calibration import calibration_for
    from perfcli.predict.reuse import find_cold_shares

    for variant in variants:
        assert variant.run.target is not None
        calibration = calibration_for(variant.run.target)
        assert calibration is not None
        cold = find_cold_shares(variant.run, calibration.constants["cache_bytes"])
        timed = join(variant)
        for number, kernel in enumerate(variant.run.kernels):
            if number in timed:
                seen = timed[number]
                chosen = find_candidate(kernel, seen)
                yield Row(variant, kernel, number, seen.micros, seen.launches, chosen, cold[number])


def join(variant: Variant) -> dict[int, Timed]:
    """Return timed kernels by their place in the run: by graph and name, else by a name that is
    there once."""
    kernels = variant.run.kernels
    places = {(k.graph, k.name): n for n, k in enumerate(kernels)}
    names: dict[str, list[int]] = defaultdict(list)
    for place, kernel in enumerate(kernels):
        names[kernel.name].append(place)
    found: dict[int, Timed] = {}
    for each in variant.timed:
        number: int | None = places.get((each.graph, each.name))
        if number is None and len(names[each.name]) == 1:
            number = names[each.name][0]
        if number is not None and number not in found:
            found[number] = each
    return found


def find_candidate(kernel: KernelFacts, seen: Timed) -> Candidate | None:
    """Return the first configuration with the grid, block and registers that ran."""
    for candidate in kernel.candidates:
        work = candidate.work
        if work is None or list(work.grid) != list(seen.grid):
            continue
        allotted = -(-(candidate.registers or 0) // 8) * 8
        threads = math.prod(seen.block)
        if work.warps * 32 == threads and allotted == -(-seen.registers // 8) * 8:
            return candidate
    return None


def report(paths: Sequence[Path], corpus: Path | None) -> None:
    variants = load(paths)
    rows = list(list_rows(variants))
    every = sum(t.generated for v in variants for t in v.timed)
    known = sum(row.candidate is not None for row in rows)
    print(f"{len(variants)} variants, {every} generated kernels timed, {len(rows)} joined by name, "
          f"{known} with the configuration that ran\n")  # fmt: skip
    show_estimates(rows)
    show_models([row for row in rows if row.candidate is not None], corpus)
    show_pairs(variants)


def show_estimates(rows: Sequence[Row]) -> None:
    """Print how good estimates are as perfcli gives them: of the expected winner, with its
    interval."""
    from perfcli.predict.step import estimate_run

    variants = {id(row.variant): row.variant for row in rows}
    runs = {key: estimate_run(variant.run) for key, variant in variants.items()}
    errors: dict[str, list[float]] = defaultdict(list)
    simple: dict[str, list[float]] = defaultdict(list)
    inside: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        estimate = runs[id(row.variant)].kernels[row.number].estimate
        if estimate is None or row.micros < LEAST:
            continue
        target = row.variant.run.target
        assert target is not None
        moved = (row.kernel.bytes_read or 0) + (row.kernel.bytes_written or 0)
        for name in (row.variant.model, estimate.kind, "all"):
            errors[name].append(estimate.seconds * 1e6 / row.micros - 1)
            simple[name].append(moved / target.bandwidth * 1e6 / row.micros - 1)
            inside[name].append(estimate.low * 1e6 <= row.micros <= estimate.high * 1e6)
    columns = ("n", "median / p90 %", "bias %", "in 90 % interval", "bytes ÷ bandwidth")
    print(f"| kernels ≥ 3 µs, configuration not known | {' | '.join(columns)} |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in sorted(errors, key=lambda n: (n == "all", "," in n, n)):
        bias = statistics.median(errors[name])
        covered = statistics.fmean(inside[name])
        print(f"| {name} | {len(errors[name])} | {spread(errors[name])} | {bias:+.1%} "
              f"| {covered:.0%} | {spread(simple[name])} |")  # fmt: skip
    print()


def spread(errors: Sequence[float]) -> str:
    """Write the median and 90th percentile in percent, or a dash where there are none."""
    if not len(errors):
        return "–"
    sizes = sorted(abs(error) * 100 for error in errors)
    p90 = sizes[min(math.ceil(0.9 * len(sizes)), len(sizes)) - 1]
    return f"{statistics.median(sizes):.1f} / {p90:.0f}"


def show_models(rows: Sequence[Row], corpus: Path | None) -> None:
    """Print how good estimates of the configuration that ran are: with the constants in use, and
    with constants that were fitted to the other architectures."""
    import numpy as np

    from perfcli.calibrate import fit
    from perfcli.predict.calibration import calibration_for

    rows = [row for row in rows if row.micros >= SHORT]
    models = sorted({row.variant.model for row in rows})
    target = rows[0].variant.run.target
    assert target is not None
    inuse = calibration_for(target)
    assert inuse is not None
    samples = sample(rows, target.sm_count)
    extra = read_corpus(corpus, target) if corpus else None
    start = replace(inuse, constants={**inuse.constants, **NEUTRAL}, derived="nothing")
    which = np.array([models.index(row.variant.model) for row in rows])
    weighed = fit.estimate_micros(samples, inuse.constants, inuse)[1] / samples.micros - 1
    held = np.full(len(rows), np.nan)
    for number in range(len(models)) if len(models) > 1 else ():
        training = samples.take(which != number)
        joined = fit.join_samples(training, extra) if extra else training
        weights = np.where(np.arange(len(joined.micros)) < len(training.micros), 1.0, 0.6)
        constants = fit.fit_constants(joined, start, weights, drawn=0.005)
        out = which == number
        held[out] = fit.estimate_micros(samples.take(out), constants, start)[1]
        held[out] = held[out] / samples.micros[out] - 1
    print("| kernels ≥ 3 µs, configuration known | n | constants in use % | fitted without it % |")
    print("| --- | --- | --- | --- |")
    long = samples.micros >= LEAST
    for number, model in (*enumerate(models), (-1, "all")):
        chosen = long & ((which == number) | (number < 0))
        without = spread(held[chosen]) if len(models) > 1 else "–"
        print(f"| {model} | {chosen.sum()} | {spread(weighed[chosen])} | {without} |")
    print()


def sample(rows: Sequence[Row], sms: int) -> Any:
    import numpy as np

    from perfcli.calibrate.fit import Samples
    from perfcli.predict.launch import demand_of, stack

    demands = [
        demand_of(row.candidate.work, row.candidate, row.kernel.buffers, sms, row.cold)
        for row in rows
        if row.candidate is not None and row.candidate.work is not None
    ]
    micros = np.array([row.micros for row in rows])
    names = tuple(row.kernel.name for row in rows)
    return Samples(stack(demands), micros, names, np.full(len(rows), False))


def read_corpus(path: Path, target: Any) -> Any:
    from perfcli.calibrate.finished import read_finished
    from perfcli.calibrate.fit import _list_samples
    from perfcli.calibrate.measuring import _TimedCase
    from perfcli.predict.calibration import calibration_for

    start = calibration_for(target)
    assert start is not None
    return _list_samples(list(read_finished(path, _TimedCase)), start)


def show_pairs(variants: Sequence[Variant]) -> None:
    """Print what estimates say of all pairs of options of one architecture whose code differs."""
    found = list(list_pairs(variants))
    if not found:
        return
    said = [(e, real) for e, real in found if e.verdict in ("slower", "faster")]
    right = sum((e.verdict == "slower") == (real > 1) for e, real in said)
    same = [real for e, real in found if e.verdict == "same"]
    known = [(e, r) for e, r in found if e.low is not None and e.high is not None]
    moved = [(e.low, r, e.high) for e, r in known if e.low != e.high]
    covered = sum(low <= r <= high for low, r, high in moved if low and high)
    print(f"{len(found)} pairs of options; speaks {len(said)}, sign right {right}")
    for least in (0.05, 0.2):
        real = [e for e, r in found if abs(math.log(r)) >= math.log(1 + least)]
        told = sum(e.verdict in ("slower", "faster") for e in real)
        print(f"real changes ≥ {least:.0%}: it says so in {told} of {len(real)}")
    wrong = sum(abs(math.log(r)) >= math.log(1.05) for r in same)
    print(f"SAME {len(same)}, of them ≥ 5 % different {wrong}")
    print(f"80 % interval covers {covered} of {len(moved)}")
    for e, r in sorted(said, key=lambda each: abs(math.log((each[0].ratio or 1) / each[1])))[-5:]:
        print(f"  farthest: estimated {e.ratio:.3f}, measured {r:.3f}, {e.verdict}")


def list_pairs(variants: Sequence[Variant]) -> Iterator[tuple[EstimatedChange, float]]:
    from perfcli.diff.compare import compare

    models: dict[str, list[Variant]] = defaultdict(list)
    for variant in variants:
        models[variant.model].append(variant)
    for several in models.values():
        for one, other in itertools.combinations(several, 2):
            codes = [[k.source_hash for k in v.run.kernels] for v in (one, other)]
            if codes[0] == codes[1] or min(map(covered, (one, other))) < 0.95:
                continue
            change = compare(one.run, other.run).estimate
            if change is not None:
                parts = None in change.base.externs or None in change.head.externs
                totals = [v.total(generated=parts) for v in (one, other)]
                yield change, totals[1] / totals[0]


def covered(variant: Variant) -> float:
    """Return the part of the generated kernels' time that was joined."""
    joined = sum(seen.micros * seen.launches for seen in join(variant).values())
    return joined / max(variant.total(generated=True), 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("out", type=Path)
    one.add_argument("--files", type=Path, nargs="+", default=[MODELS])
    one.add_argument("--options", nargs="*", default=OPTIONS)
    one.add_argument("--at-once", type=int, default=6)
    one = commands.add_parser("report")
    one.add_argument("files", type=Path, nargs="+")
    one.add_argument("--corpus", type=Path)
    one = commands.add_parser("time")
    one.add_argument("scenario")
    one.add_argument("option")
    given = parser.parse_args()
    if given.command == "measure":
        files = [file.resolve() for file in given.files]
        measure(given.out.resolve(), files, given.options, given.at_once)
    elif given.command == "report":
        report(given.files, given.corpus)
    else:
        time_variant(given.scenario, given.option)


if __name__ == "__main__":
    main()
