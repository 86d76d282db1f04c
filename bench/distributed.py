"""Holds compiled models of several processes, and the times of collectives, against real GPUs.

    python bench/distributed.py device OUT.json     on a machine with 2 GPUs and NCCL
    python bench/distributed.py report OUT.json     anywhere
    python bench/distributed.py exchange OUT.json   on a machine with 2 GPUs
    python bench/distributed.py ranks OUT.json      on a machine with 2 GPUs and NCCL

``device`` times collectives alone, then has each model of distributed_models.py compiled and run
by as many processes as there are GPUs, and keeps rank 0's kernels and the collectives of one step
as the profiler saw them: those of graphs, of DDP's reducer and of FSDP2's hooks. Models are
compiled at the same time and profiled one after the other, each behind a long kernel, so that
neither another model nor the host is in the times.

``report`` compiles the same models without a GPU (``--world``) and compares bodies, launch
configurations, operators, graphs, the collectives with their bytes, how much of them ran beside
kernels, and the times with perfcli's estimates. Exits with 1 where bodies, graphs or collectives
differ.

``exchange`` has ``compare --device cuda:0,cuda:1`` compare models of two_clocks_models.py, and
``ranks`` has ``compare --world 2`` compare models of several processes: with themselves, which has
to be SAME, and with a head that moves so many more bytes that its step takes ``--planted`` percent
longer, which has to be SLOWER. Both write what each comparison said, and exit with 1 where one was
called what it is not; UNSURE is counted, and no error.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from architectures_on_device import _line, compare, describe

from perfcli.errors import PerfcliError
from perfcli.facts.collectives import is_collective_kernel
from perfcli.machine import environment, targets
from perfcli.model import Bundle, CompileRequest, Run, Variant
from perfcli.predict.step import estimate_run
from perfcli.worker import process
from perfcli.workflow.request import build_request

MODELS = Path(__file__).with_name("distributed_models.py")
CLOCKS = Path(__file__).with_name("two_clocks_models.py")
NAMES = ("collectives", "ddp", "fsdp2", "fsdp2_blocks", "tp", "dtensors")
SIZES = tuple(64 * 1024 * 4**power for power in range(8))
"""Bytes of the larger of a collective's input and output: 64 KiB to 1 GiB."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
# Of no use between two GPUs of one host, and not to be had on every machine.
QUIET = {
    "NCCL_NVLS_ENABLE": "0",
    "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
    "NVSHMEM_DISABLE_NVLS": "1",
}
OUTSIDE = "outside of graphs"
_PORT = 29600


def make_request(name: str, world: int, target: Any, on_device: bool, cache: str) -> CompileRequest:
    return build_request(
        f"{MODELS}:{name}",
        Variant("device" if on_device else "offline"),
        target=target,
        world=world,
        jobs=1,
        on_device=on_device,
        cache_dir=cache,
    )


# --- one rank of several ------------------------------------------------------------------------


def time_collectives(seconds: float) -> list[dict[str, Any]]:
    """Return the median microseconds of each collective and size, called back to back."""
    import torch
    import torch.distributed as dist

    began = time.monotonic()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    found: list[dict[str, Any]] = []
    for size in SIZES:
        n = size // 2  # halves
        whole = torch.ones(n, dtype=torch.bfloat16, device="cuda")
        other, part = torch.empty_like(whole), torch.empty_like(whole[: n // world])
        calls = {
            "all_reduce": lambda t=whole: dist.all_reduce(t),
            "all_gather": lambda o=other, t=part: dist.all_gather_into_tensor(o, t),
            "reduce_scatter": lambda o=part, t=whole: dist.reduce_scatter_tensor(o, t),
            "all_to_all": lambda o=other, t=whole: dist.all_to_all_single(o, t),
        }
        for name in COLLECTIVES:
            # Every rank has to stop at the same place.
            late = torch.tensor([float(time.monotonic() - began > seconds)], device="cuda")
            dist.all_reduce(late)
            if late.item():
                return found
            times = _time(calls[name], 5, 30)
            found.append({"name": name, "bytes": size, "world": world, "micros": times})
    return found


def _time(call: Any, before: int, number: int) -> list[float]:
    """Return the 10th, 50th and 90th percentile in microseconds. What the host needs is hidden
    behind a long kernel, as it is in a step."""
    import torch

    for _ in range(before):
        call()
    torch.cuda.synchronize()
    torch.cuda._sleep(20_000_000)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(number + 1)]
    marks[0].record()
    for mark in marks[1:]:
        call()
        mark.record()
    torch.cuda.synchronize()
    micros = sorted(a.elapsed_time(b) * 1e3 for a, b in itertools.pairwise(marks))
    return [micros[len(micros) // 10], statistics.median(micros), micros[-len(micros) // 10]]


def compile_model(name: str, cache: str, folder: Path) -> dict[str, Any]:
    """Compile and run a model as this rank does, then profile one more step when it is its turn."""
    from perfcli.compile import on_device, session

    kept: list[Any] = []
    original = on_device.trace

    def trace(request: CompileRequest) -> Any:
        kept[:] = original(request)
        return tuple(kept)

    on_device.trace = trace
    world = int(os.environ["WORLD_SIZE"])
    request = make_request(name, world, targets.this_gpu(), True, cache)
    bundle = session.compile_request(request, lambda *_: None)
    (folder / f"{name}.{os.environ['RANK']}.compiled").touch()
    while not (folder / f"{name}.turn").exists():  # ended from outside when time is up
        time.sleep(0.05)
    return describe(bundle) | {"step": profile_step(*kept)}


def profile_step(capture: Any, built: Any, traced: Any) -> dict[str, Any]:
    """Return the collectives of one step as kernels that ran, in order, and the time of these, of
    all other kernels, and of both together. What the host needs is hidden behind a long kernel,
    and a collective behind that has all ranks begin at once."""
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile

    from perfcli.compile import tracing

    def step() -> None:
        tracing.call_compiled(built.workload, traced.compiled, capture)
        torch.cuda.synchronize()

    for _ in range(3):  # DDP makes its buckets anew after the first
        step()
    together = torch.zeros(1, device="cuda")
    dist.barrier()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        torch.cuda._sleep(100_000_000)  # 50 ms at 2 GHz
        dist.all_reduce(together)
        step()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        seen.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    return read_step([e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")])


def read_step(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a step's events on the device say of its collectives, without the long kernel
    before it and the collective behind that."""
    events = sorted(events, key=lambda e: float(e["ts"]))
    if any("spin_kernel" in e["name"] for e in events):
        first = next(filter(_is_collective, events))
        begin = float(first["ts"]) + float(first["dur"])
        events = [e for e in events if float(e["ts"]) >= begin]
    sent = list(filter(_is_collective, events))
    others = [e for e in events if e not in sent]
    found = []
    for event in sent:
        args = {k: v for k, v in event["args"].items() if k[0].isupper() or k == "dtype"}
        found.append({"name": event["name"], "micros": float(event["dur"]), "args": args})
    spans = [
        [(float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in of] for of in (sent, others)
    ]
    alone = [measure_union(each) for each in spans]
    both = measure_union([*spans[0], *spans[1]])
    return {"collectives": found, "micros": alone[0], "kernels": alone[1], "both": both}


def _is_collective(event: dict[str, Any]) -> bool:
    return event["cat"] == "kernel" and is_collective_kernel(event["name"])


def measure_union(spans: list[tuple[float, float]]) -> float:
    """Return how much time at least one of the spans covers."""
    covered, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        covered += max(end - max(begin, until), 0.0)
        until = max(until, end)
    return covered


_KINDS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "all_to_all": "all_to_all",
    "broadcast": "broadcast",
}
_ELEMENT = {"Float": 4, "BFloat16": 2, "Half": 2, "Int": 4, "Long": 8, "Byte": 1, "Double": 8}


def name_kernels(step: dict[str, Any]) -> list[str]:
    """Return ``all_gather 33562624`` for each collective that ran: the bytes of the larger side."""
    found = []
    for each in step["collectives"]:
        args = each["args"]
        said = str(args.get("Collective name", each["name"])).lower()
        kind = next((kind for part, kind in _KINDS.items() if part in said), said)
        elements = max(int(args.get(f"{side} msg nelems", 0)) for side in ("In", "Out"))
        found.append(f"{kind} {elements * _ELEMENT.get(str(args.get('dtype')), 1)}")
    return found


def name_counted(run: Run) -> list[str]:
    """Return the same of the collectives that were counted without a GPU."""
    calls = {(extern.graph, extern.op): extern.calls for extern in run.externs}
    found = []
    for launch in run.launches:
        call = None if launch.call is None else calls[launch.graph, launch.name][launch.call]
        work = call.work if call else None
        if call and work and work.family == "collective" and work.variant != "wait":
            sides = Counter({"input": 0})
            for buffer in call.buffers:
                sides[buffer.role] += buffer.bytes
            found.append(f"{work.variant} {max(sides.values())}")
    return found


def be_rank(options: argparse.Namespace) -> int:
    """Do what one rank does; rank 0 writes what came of it."""
    if options.name == "timings":
        result: Any = time_collectives(options.seconds)
    else:
        try:
            result = compile_model(options.name, options.cache, options.file.parent)
        except PerfcliError as error:
            result = {"error": str(error), "detail": error.detail or ""}
    if os.environ["RANK"] == "0":
        options.file.write_text(json.dumps(result))
    sys.stdout.flush()
    os._exit(0)  # NCCL's threads may wait for a rank that has gone


# --- all ranks ----------------------------------------------------------------------------------


def run_ranks(name: str, number: int, world: int, folder: Path, limit: float, cache: str) -> Any:
    """Run one process for each rank, and return what rank 0 found."""
    file = folder / f"{name}.json"
    command = [sys.executable, __file__, "rank", str(file), "--name", name, "--cache", cache]
    command += ["--seconds", str(limit / 2)]
    processes = []
    for rank in range(world):
        ranks = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
        ranks |= {"MASTER_PORT": _PORT + number}
        env = os.environ | QUIET | {k: str(v) for k, v in ranks.items()}
        env |= {
            "MASTER_ADDR": "127.0.0.1",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / f"{name}{rank}"),
        }
        log = (folder / f"{name}.{rank}.log").open("w")
        processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))
    until = time.monotonic() + limit
    try:
        for each in processes:
            each.wait(max(until - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        pass
    finally:
        for each in processes:
            each.kill()
    if file.is_file():
        return json.loads(file.read_text())
    said = (folder / f"{name}.0.log").read_text()[-3000:]
    return {"error": f"rank 0 wrote nothing within {limit:.0f} s", "detail": said}


def let_take_turns(
    pending: dict[str, Future[Any]], folder: Path, world: int, seconds: float
) -> None:
    """Have models profiled one after the other, once all are compiled or so many seconds are
    over."""
    until = time.monotonic() + seconds

    def is_compiled(name: str) -> bool:
        ready = all((folder / f"{name}.{rank}.compiled").exists() for rank in range(world))
        return ready or pending[name].done()

    while time.monotonic() < until and not all(map(is_compiled, pending)):
        time.sleep(0.1)
    for name in sorted(pending, key=lambda name: not is_compiled(name)):
        (folder / f"{name}.turn").touch()
        pending[name].result()


def measure(options: argparse.Namespace) -> int:
    """Measure everything on this machine's GPUs."""
    import torch

    began = time.monotonic()
    world = torch.cuda.device_count()
    names = options.names or NAMES
    cache = str(environment.cache_dir())
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        timings = run_ranks("timings", 0, world, folder, 45, cache)
        print(f"timings after {time.monotonic() - began:.0f} s", flush=True)
        left = options.seconds - (time.monotonic() - began)
        with ThreadPoolExecutor(len(names)) as threads:
            pending = [
                threads.submit(run_ranks, name, number, world, folder, left, cache)
                for number, name in enumerate(names, 1)
            ]
            let_take_turns(dict(zip(names, pending, strict=True)), folder, world, 0.7 * left)
            models = {name: each.result() for name, each in zip(names, pending, strict=True)}
    document = {
        "torch": torch.__version__,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "gpu": torch.cuda.get_device_name(),
        "target": asdict(targets.this_gpu()),
        "world": world,
        "timings": timings,
        "models": models,
    }
    options.file.write_text(json.dumps(document))
    for name, found in models.items():
        said = found.get("error") or (
            f"{len(found['kernels'])} kernels, {found['graphs']} graphs, "
            f"{len(found['step']['collectives'])} NCCL"
        )
        print(f"{name:14s} {said}"[:300])
    print(f"{len(timings)} timings, done after {time.monotonic() - began:.0f} s")
    return 0


# --- two GPUs compared ---------------------------------------------------------------------------

# Reads nothing, and makes the head a way of its own: equal code is not measured else.
NO_CHANGE = ("-b", "PERFCLI_SAME=1")
BYTES_OF_EXTRA = 8
"""That the added kernel moves for each float: it reads and writes it."""


def compare_pairs(options: argparse.Namespace) -> int:
    """Have ``perfcli compare`` judge equal sides, and unequal ones."""
    device, names = options.device, options.names
    if options.what == "exchange":
        how = ["--device", f"{device}:0,{device}:1"]
        names = names or ("softmax", "rmsnorm-training", "transformer")
        models = {name: [f"{CLOCKS}:build", "-p", f"name={name}"] for name in names}
    else:
        how = ["--device", device, "--world", "2"]
        models = {name: [f"{MODELS}:{name}"] for name in names or ("ddp", "fsdp2")}
    found: list[dict[str, Any]] = []
    for seed, (name, model) in itertools.product(range(options.pairs), models.items()):
        common = [*model, *how, "--seed", str(seed), "--budget", str(options.budget)]
        same = run_compare([*common, *NO_CHANGE], options.budget)
        found.append({"name": name, "planted": 0.0, **same})
        if same["seconds"] and same["copy"]:
            floats = int(options.planted / 100 * same["seconds"] * same["copy"] / BYTES_OF_EXTRA)
            slower = run_compare([*common, "--b-param", f"extra={floats}"], options.budget)
            found.append({"name": name, "planted": options.planted, **slower})
        options.file.write_text(json.dumps(found, indent=1) + "\n")
    wrong = 0
    for each in found:
        right = "slower" if each["planted"] else "same"
        wrong += each["verdict"] not in (right, "unsure")
    print(f"{len(found)} comparisons: {dict(Counter(each['verdict'] for each in found))}")
    print(f"{wrong} are called what they are not")
    return int(wrong > 0 or not found)


def run_compare(arguments: list[str], budget: float) -> dict[str, Any]:
    """Return what one comparison says of its times."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made) / "out.json"
        command = [sys.executable, "-P", "-m", "perfcli", "compare", *arguments, "-q"]
        began = time.monotonic()
        done = subprocess.run(
            [*command, "--json", str(file)],
            env=os.environ | QUIET,
            capture_output=True,
            text=True,
            timeout=budget + 600,
        )
        took = time.monotonic() - began
        timing = json.loads(file.read_text())["timing"] if file.is_file() else None
    print(f"{done.stdout.strip() or done.stderr.strip()[-300:]} ({took:.0f} s)", flush=True)
    if timing is None:
        return {"verdict": "failed", "seconds": None, "copy": None, "said": done.stderr[-2000:]}
    change = timing["device"] if timing["clock"] == "device" else timing["step"]
    return {
        "verdict": timing["verdict"],
        "seconds": change["base"],
        "copy": timing["sides"]["base"]["copy_bandwidth"],
        "change": change,
        "measured": timing["seconds"],
        "took": took,
        "notes": timing["notes"],
    }


# --- compared with what is said without a GPU ----------------------------------------------------


def report(options: argparse.Namespace) -> int:
    """Print how bodies, collectives and times compare; end with 1 where bodies differ."""
    measured = json.loads(options.file.read_text())
    target = targets.get(options.target)
    _print_times(measured, target)
    wrong = 0
    for name in options.names or measured["models"]:
        device = measured["models"][name]
        try:
            bundle = _compile_offline(name, measured["world"], target, options.python)
            offline: dict[str, Any] = describe(bundle)
        except PerfcliError as error:
            offline = {"error": str(error)}
        # The capture on the device hears of no collectives outside of graphs: the profiler does.
        offline["externs"] = [e for e in offline.get("externs", []) if OUTSIDE not in str(e)]
        compared = compare(name, "", {"device": device, "offline": offline})
        wrong += compared.equal < compared.kernels or bool(compared.error)
        print(_line(compared))
        for text in (*compared.differs, *(body[0] for body in compared.bodies)):
            print(f"    {text}")
        if not compared.error:
            wrong += _compare_graphs(device, offline)
            wrong += _compare_steps(device["step"], bundle.run)
    return int(wrong > 0)


def _compile_offline(name: str, world: int, target: Any, python: str | None) -> Bundle:
    cache = str(environment.cache_dir())
    request = make_request(name, world, target, False, cache)
    if python:
        from dataclasses import replace

        request = replace(request, variant=Variant("offline", python=python))
    return process.compile_in_process(request, timeout_seconds=500)


def _print_times(measured: dict[str, Any], target: Any) -> None:
    from perfcli.facts.collectives import count_collective
    from perfcli.predict.operators import estimate_call

    print("collective      bytes      measured   estimated (interval), µs")
    errors, inside = [], 0
    for row in measured["timings"]:
        work = count_collective(row["name"], row["bytes"], row["world"])
        estimate = estimate_call(work, target)
        assert estimate is not None
        micros = row["micros"][1]
        errors.append(abs(math.log(estimate.seconds * 1e6 / micros)))
        inside += estimate.low * 1e6 <= micros <= estimate.high * 1e6
        low, at, high = (1e6 * s for s in (estimate.low, estimate.seconds, estimate.high))
        size = f"{row['bytes'] / 1024:9.0f} K"
        print(f"{row['name']:15s}{size} {micros:10.1f} {at:10.1f} ({low:.1f} to {high:.1f})")
    print(
        f"{inside} of {len(errors)} within the interval; median error "
        f"{math.expm1(statistics.median(errors)):.0%}"
    )


def _compare_graphs(device: dict[str, Any], offline: dict[str, Any]) -> bool:
    """Print whether both sides have as many graphs, split for the same reasons, and return whether
    they have not."""
    theirs, ours = ((side["graphs"], sorted(side["breaks"])) for side in (device, offline))
    print(f"    {theirs[0]} graphs" + (": equal" if theirs == ours else f" {theirs} / {ours}"))
    return bool(theirs != ours)


def _compare_steps(step: dict[str, Any], run: Run) -> bool:
    """Print the kernels of NCCL in one step beside the collectives that perfcli counts, and return
    whether they differ."""
    ran, counted = name_kernels(step), name_counted(run)
    lost, more = Counter(ran) - Counter(counted), Counter(counted) - Counter(ran)
    order = "in the same order" if ran == counted else "in another order"
    same = f"all counted, {order}" if not lost and not more else "DIFFERENT"
    print(f"    {len(ran)} collectives ran: {same}")
    if lost or more:
        print(f"    only ran {dict(lost)}; only counted {dict(more)}")
    hidden = step["micros"] + step["kernels"] - step["both"]
    print(f"    measured: collectives {step['micros']:.0f} µs, {hidden:.0f} beside kernels")
    time = estimate_run(run).collectives
    if time is not None:
        print(f"    estimated: {time.seconds * 1e6:.0f} µs, at best {time.hidden * 1e6:.0f}")
    return bool(lost or more)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("device", "report", "exchange", "ranks", "rank"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--names", nargs="*")
    parser.add_argument("--seconds", type=float, default=140)
    parser.add_argument("--target", default="h200")
    parser.add_argument("--python", help="the interpreter that compiles without a GPU")
    parser.add_argument("--name", default="", help="of one rank: what it does")
    parser.add_argument("--cache", default="")
    parser.add_argument("--pairs", type=int, default=5, help="of each model")
    parser.add_argument("--planted", type=float, default=3.0, help="percent")
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--device", default="cuda", help="cpu: two cores, to try this program")
    options = parser.parse_args()
    do = {"device": measure, "report": report, "rank": be_rank}
    return do.get(options.what, compare_pairs)(options)


if __name__ == "__main__":
    raise SystemExit(main())
