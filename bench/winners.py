"""Says how often the expected winner among launch configurations is as fast as the fastest one.

    python bench/winners.py measure TIMES.json [SCENARIO …] [--limit SECONDS]
    python bench/winners.py report TIMES.json [--python PYTHON] [--target NAME]

``measure`` needs a GPU that nothing else uses. The scenarios are compiled on it, all at once. Then
one after the other times its kernels: all configurations that Inductor's autotuner would time,
interleaved in a random order, fifteen times, with the L2 cache flushed, by CUPTI. ``report`` needs
no GPU: it compiles the same scenarios (with the torch that measured) for what is expected.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parent)]

from estimate import MODELS, ROOT, call, list_architectures  # noqa: E402

ROUNDS = 15
FLUSHED = 256 << 20
CLOSE = (1.03, 1.10)
LEAST = 3.0
"""Microseconds: of shorter kernels it does not matter much."""


# --- on the GPU ------------------------------------------------------------------------------


def time_scenario(scenario: str) -> None:
    """Compile on the GPU, say so, wait for a line, and print the times of all configurations."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    from perfcli.console.notes import Notes
    from perfcli.measure import loaded_kernels
    from perfcli.measure import step as steps
    from perfcli.model import MeasureRequest
    from perfcli.workflow.context import Context
    from perfcli.workflow.request import Question, Side, make_jobs

    seen: dict[int, tuple[Any, list[Any], tuple[Any, ...]]] = {}

    def take_first(self: Any, *args: Any, **kwargs: Any) -> dict[Any, float]:
        if not kwargs:
            seen[id(self)] = self, list(self.launchers), tuple(map(describe, args))
        return {launcher: float(n) for n, launcher in enumerate(self.launchers)}

    CachingAutotuner.benchmark_all_configs = take_first
    (job,) = make_jobs(
        Question(scenario, device="cuda"), [Side()], Context(Notes(quiet=True)).choose_probe("cuda")
    )
    step = steps.prepare(MeasureRequest(job.request, "base", seed=1, check=False))
    hashes = {
        id(loaded_kernels._globals(graph).get(kernel.name)): kernel.definition.source_hash
        for graph in step.capture.graphs
        for kernel in graph.kernels.values()
    }
    print("ready", flush=True)
    sys.stdin.readline()
    limit = time.monotonic() + float(os.environ.get("LIMIT", "60"))
    found = []
    for number, (tuner, launchers, given) in seen.items():
        if time.monotonic() > limit:
            break
        if number in hashes and len(launchers) > 1:
            times = time_launchers(tuner, launchers, given)
            configs = [loaded_kernels._config(launcher.config) for launcher in launchers]
            found.append({"hash": hashes[number], "name": tuner.fn.__name__, "configs": configs,
                          "micros": times})  # fmt: skip
    print(json.dumps(found), flush=True)


def describe(value: Any) -> Any:
    """Return an argument so that it can be made again: integers keep their values, which may be
    indices."""
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype.is_floating_point:
        return value.dtype, tuple(value.shape), value.stride()
    return value.clone()


def make(described: Any) -> Any:
    import torch

    if isinstance(described, tuple):
        dtype, shape, stride = described
        made = torch.empty_strided(shape, stride, dtype=dtype, device="cuda")
        return made.normal_() if made.numel() else made
    return described


def time_launchers(
    tuner: Any, launchers: Sequence[Any], given: tuple[Any, ...]
) -> list[list[float]]:
    """Return microseconds of each configuration, by round; none of those that spill too much to be
    timed by the autotuner, and none where the profiler lost events."""
    import torch

    most = tuner.inductor_meta.get("spill_threshold", 16)
    timed = [n for n, each in enumerate(launchers) if (each.n_spills or 0) <= most]
    try:
        args = [make(each) for each in given]
        flushed = torch.zeros(FLUSHED, dtype=torch.int8, device="cuda")
        stream = torch.cuda.current_stream().cuda_stream
        for number in timed:
            launchers[number](*args, stream=stream)
        torch.cuda.synchronize()
        order = [n for _ in range(ROUNDS) for n in random.sample(timed, len(timed))]
        with torch.autograd.profiler.profile(
            use_cpu=False, use_device="cuda", use_kineto=True
        ) as profile:
            for number in order:
                tuner.reset_to_zero_args(*args)
                flushed.max()
                launchers[number](*args, stream=stream)
            torch.cuda.synchronize()
    except RuntimeError as error:
        print(f"{tuner.fn.__name__}: {error}", file=sys.stderr)
        return [[] for _ in launchers]
    name = tuner.fn.__name__
    events = [e for e in profile.kineto_results.events() if e.name() == name]
    events.sort(key=lambda each: each.start_ns())
    micros: list[list[float]] = [[] for _ in launchers]
    if len(events) == len(order):
        for number, event in zip(order, events, strict=True):
            micros[number].append(round(event.duration_ns() / 1e3, 3))
    return micros


# --- the parent ------------------------------------------------------------------------------


def measure(out: Path, scenarios: Sequence[str], limit: float) -> None:
    """Compile all, time one after the other, and write what came of it."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / str(number) for number in range(len(scenarios))]
        workers = [start(*each, limit) for each in zip(folders, scenarios, strict=True)]
        ready = ["ready\n" in iter(worker.stdout.readline, "") for worker in workers]
        # Nothing else uses the GPU from here on.
        for scenario, worker, folder, is_ready in zip(
            scenarios, workers, folders, ready, strict=True
        ):
            said, _ = worker.communicate("go\n")
            if not is_ready or worker.returncode:
                print(f"{scenario} failed: {(folder / 'log').read_text()[-300:]}", flush=True)
                continue
            found[scenario] = json.loads(said.splitlines()[-1])
            print(f"{scenario}: {len(found[scenario])} kernels", flush=True)
            out.write_text(json.dumps(found))


def join_all(path: Path, python: str, target: str) -> list[dict[str, Any]]:
    """Return the kernels of all scenarios with what is expected of them."""
    found = []
    for scenario, timed in json.loads(path.read_text()).items():
        here = scenario if ":" not in scenario else str(ROOT / "bench" / Path(scenario).name)
        with tempfile.TemporaryDirectory() as folder:
            run = compile_offline(Path(folder), here, target, python)
        found += [{"scenario": scenario, **each} for each in join(run, timed)]
    return found


def prepare_environment(folder: Path, limit: float) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_COMPILE_THREADS": "4",
        "LIMIT": str(limit),
    }


def start(folder: Path, scenario: str, limit: float) -> Any:
    folder.mkdir()
    command = [sys.executable, str(Path(__file__).resolve()), "time", scenario]
    return subprocess.Popen(
        command, cwd=folder, env=prepare_environment(folder, limit), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=(folder / "log").open("w"),
    )  # fmt: skip


def compile_offline(folder: Path, scenario: str, target: str, python: str) -> Any:
    """Return the run with its estimates."""
    from perfcli.predict.step import estimate_run
    from perfcli.storing import store

    environment = {**prepare_environment(folder, 0), "CUDA_VISIBLE_DEVICES": ""}
    chosen = ["--python", python] if python else []
    call(["-m", "perfcli", "run", scenario, "--target", target, "-q", *chosen], folder, environment)
    (path,) = (folder / ".perfcli" / "runs").glob("*.json")
    return estimate_run(store.read(path))


def join(run: Any, timed: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each kernel that was timed and has an estimate, with the microseconds that are expected
    of each configuration, in the order in which they were timed. Kernels are joined by their
    source; one that was compiled by another installation has another hash in it, and goes by its
    name and configurations."""
    known = [kernel for kernel in run.kernels if kernel.estimate]
    for each in timed:
        alike = [k for k in known if k.source_hash == each["hash"]] or [
            k
            for k in known
            if k.name == each["name"]
            and set(map(describe_config, k.candidates)) == {*each["configs"]}
        ]
        if len({kernel.source_hash for kernel in alike}) != 1:
            continue
        kernel = alike[0]
        texts = {describe_config(c): number for number, c in enumerate(kernel.candidates)}
        numbers = [texts.get(text) for text in each["configs"]]
        expected = kernel.estimate.candidates
        if kernel.estimate.candidate in numbers:
            yield {
                **each,
                "kind": kernel.estimate.kind,
                "winner": numbers.index(kernel.estimate.candidate),
                "expected": [expected[n] * 1e6 if n in expected else None for n in numbers],
            }


def describe_config(candidate: Any) -> str:
    """Return a launch configuration as ``loaded_kernels`` writes it."""
    own = {"num_warps": candidate.num_warps, "num_stages": candidate.num_stages}
    return " ".join(f"{name}={value}" for name, value in {**candidate.config, **own}.items())


def report(kernels: Sequence[dict[str, Any]]) -> None:
    """Print how far the expected winner, and the first configuration, are from the fastest."""
    rows: list[tuple[dict[str, Any], float, float, float]] = []
    for each in kernels:
        medians = [statistics.median(times) if times else None for times in each["micros"]]
        known = [median for median in medians if median is not None]
        if len(known) > 1 and medians[each["winner"]] is not None:
            fastest = min(known)
            first = next(median for median in medians if median is not None)
            rows.append((each, fastest, medians[each["winner"]] / fastest, first / fastest))
    columns = [
        f"{who} within {round((close - 1) * 100)} %"
        for close in CLOSE
        for who in ("expected winner", "first configuration")
    ]
    print(f"| kernels | n | {' | '.join(columns)} |")
    print("| --- | --- |" + " --- |" * 2 * len(CLOSE))
    for name, least in (("all", 0.0), (f"≥ {LEAST:g} µs", LEAST)):
        some = [row for row in rows if row[1] >= least]
        shares = [
            f"{statistics.fmean((row[2], row[3])[which] <= close for row in some):.1%}"
            if some
            else "–"
            for close in CLOSE
            for which in (0, 1)
        ]
        print(f"| {name} | {len(some)} | {' | '.join(shares)} |")
    for each, fastest, ratio, _ in sorted(rows, key=lambda row: -row[2])[:5]:
        print(f"  {each['name']} ({each['scenario']}): {ratio:.2f} × {fastest:.1f} µs")


def main() -> None:
    from perfcli.loading import registry

    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("out", type=Path)
    one.add_argument("scenarios", nargs="*")
    one.add_argument("--limit", type=float, default=20.0)
    one = commands.add_parser("report")
    one.add_argument("times", type=Path)
    one.add_argument("--python", default="")
    one.add_argument("--target", default="h200")
    one = commands.add_parser("time")
    one.add_argument("scenario")
    given = parser.parse_args()
    if given.command == "time":
        time_scenario(given.scenario)
    elif given.command == "report":
        report(join_all(given.times, given.python, given.target))
    else:
        models = [f"{MODELS}:{name}" for name in list_architectures(MODELS)]
        names = given.scenarios or [*registry.names("scenarios"), *models]
        measure(given.out.resolve(), names, given.limit)


if __name__ == "__main__":
    main()
