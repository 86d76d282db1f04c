"""Holds what perfcli expects of max-autotune against what a GPU measures.

    python bench/modes.py measure OUT.json      on a machine with a GPU (minutes)
    python bench/modes.py report OUT.json       anywhere

``measure`` compiles each case of bench/modes_cases.py twice with what the mode
max-autotune-no-cudagraphs sets: on the device, where Inductor times every implementation (one
process at a time does), and without it. ``report`` says whether the lists of implementations are
equal, whether registers, spills and shared memory are, how well estimates rank what was timed, and
how much slower the expected winner is than the measured one.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import msgspec  # noqa: E402

from perfcli.model import Run, Selection, Target, Variant  # noqa: E402

CASES = Path(__file__).with_name("modes_cases.py")
NAMES = (
    "block",
    "small_products",
    "other_products",
    "large_products",
    "decode",
    "gated",
    "batches",
    "convolutions",
    "attention",
)
OPTIONS = {"max_autotune": True, "coordinate_descent_tuning": True}
LIMITS = {"device": 95.0, "offline": 80.0}
"""Seconds that one side of a case may take; MODES_LIMIT sets another number for both."""
CLOSE = (0.05, 0.10, 0.25)


# --- measure ----------------------------------------------------------------------------------


def compile_one(name: str, on_device: bool, jobs: int, out: Path) -> None:
    """Compile a case in this process and write its run."""
    from perfcli.compile.session import compile_request
    from perfcli.workflow.request import build_request

    if on_device:
        _take_turns(out.with_name("lock"))
    _use_packaged_ptxas()
    target = msgspec.json.decode(os.environ["MODES_TARGET"], type=Target)
    request = build_request(
        f"{CASES}:{name}",
        Variant("modes", OPTIONS),
        target=target,
        jobs=jobs,
        on_device=on_device,
        params={},
    )
    started = time.monotonic()
    run = compile_request(request, lambda *_: None).run
    seconds = {"seconds": round(time.monotonic() - started, 1)}
    out.write_bytes(msgspec.json.encode([seconds, run], enc_hook=str))


def _use_packaged_ptxas() -> None:
    """Use the same assembler on both sides: kernels have a hash of it in their texts."""
    from perfcli.compile.binaries.assembler import select_ptxas

    select_ptxas()


def _take_turns(lock: Path) -> None:
    """Let one process at a time measure on the device."""
    from torch._inductor.select_algorithm import AlgorithmSelectorCache

    original = AlgorithmSelectorCache.benchmark

    def benchmark(*args: Any, **kwargs: Any) -> Any:
        with lock.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            return original(*args, **kwargs)

    AlgorithmSelectorCache.benchmark = benchmark


def measure(out: Path, names: Sequence[str], sides: Sequence[str]) -> None:
    from perfcli.machine import targets

    target = targets.this_gpu() if targets.has_gpu() else targets.get("h200")
    jobs = max(2, (os.cpu_count() or 2) // 2)
    found: dict[str, Any] = {name: {} for name in names}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        for side in sides:
            starts = [_Start(Path(scratch), side, name, jobs, target) for name in names]
            with ThreadPoolExecutor(len(names)) as threads:
                for name, data in zip(names, threads.map(_compile_in_process, starts), strict=True):
                    found[name][side] = data
            out.write_text(json.dumps(found))


class _Start(NamedTuple):
    scratch: Path
    side: str
    name: str
    jobs: int
    target: Target


def _compile_in_process(start: _Start) -> Any:
    """Return the seconds and the run of a case, or what its process said at last."""
    file = start.scratch / f"{start.side}-{start.name}.json"
    log = file.with_suffix(".log")
    environment = {
        **os.environ,
        "MODES_TARGET": msgspec.json.encode(start.target).decode(),
        "TORCHINDUCTOR_CACHE_DIR": f"{file}.inductor",
        "TRITON_CACHE_DIR": f"{file}.triton",
        "TORCHINDUCTOR_COMPILE_THREADS": str(start.jobs) if start.side == "device" else "1",
    }
    command = [sys.executable, __file__, start.side, start.name, str(start.jobs), str(file)]
    with log.open("w") as stream:
        running = subprocess.Popen(
            command, stdout=stream, stderr=stream, env=environment, start_new_session=True
        )
        limit = float(os.environ.get("MODES_LIMIT") or LIMITS[start.side])
        try:
            running.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
            stream.write(f"stopped after {limit:g} s\n")
    if file.exists():
        return json.loads(file.read_bytes())
    return {"error": log.read_text()[-3000:]}


# --- report -----------------------------------------------------------------------------------


def report(path: Path) -> int:
    found = json.loads(path.read_text())
    rows = list(_rows(found))
    print(f"{'case':15s} {'operator':14s} {'operands':44s} {'n':>3s} {'facts':>7s} {'rank':>5s} "
          f"{'loss':>6s} {'expected':>9s} {'measured':>9s}")  # fmt: skip
    for row in rows:
        print(
            f"{row['case']:15s} {row['operator']:14s} {row['operands'][:44]:44s} {row['n']:3d} "
            f"{row['equal']:3d}/{row['known']:<3d} {row['rank']:5.2f} {row['loss']:6.1%} "
            f"{row['expected']:>9s} {row['measured']:>9s}"
        )
    for name, sides in found.items():
        for side, data in sides.items():
            if isinstance(data, dict):
                print(f"{name} {side} failed: {data['error'][-600:]}")
        bodies = _equal_bodies(sides)
        if bodies:
            print(f"{name}: {bodies[0]} of {bodies[1]} kernels equal")
    if rows:
        ranks, losses = [r["rank"] for r in rows], [r["loss"] for r in rows]
        close = ", ".join(f"within {b:.0%}: {sum(x <= b for x in losses)}" for b in CLOSE)
        print(
            f"{len(rows)} lists of choices, {sum(r['same'] for r in rows)} equal offline; facts of "
            f"{sum(r['equal'] for r in rows)} of {sum(r['known'] for r in rows)} templates equal; "
            f"median rank correlation {statistics.median(ranks):.2f}; expected winner {close}"
        )
    return 0 if rows else 1


def _run_of(data: Any) -> Run | None:
    return msgspec.convert(data[1], Run) if isinstance(data, list) else None


def _rows(found: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, sides in found.items():
        device, offline = (_run_of(sides.get(side)) for side in ("device", "offline"))
        if device is None or offline is None:
            continue
        for real in device.selections:
            like = [s for s in offline.selections if (s.operator, s.operands) == _key(real)]
            if like:
                yield {"case": name, **_compare(real, like[0])}
            else:
                print(f"{name}: {real.operator} {real.operands} only on the device")


def _key(selection: Selection) -> tuple[Any, ...]:
    return selection.operator, selection.operands


def _compare(real: Selection, offline: Selection) -> dict[str, Any]:
    ours = {_name(each): each for each in offline.implementations}
    theirs = {_name(each): each for each in real.implementations}
    facts = [
        (_facts(each), _facts(ours[name]))
        for name, each in theirs.items()
        if each.kind == "template" and name in ours and each.candidate is not None
    ]
    timed = [
        (name, each.measured_seconds, ours[name].estimate.seconds)  # type: ignore[union-attr]
        for name, each in theirs.items()
        if each.measured_seconds and name in ours and ours[name].estimate
    ]
    best = min((t for _, t, _ in timed), default=math.nan)
    expected = min(timed, key=lambda each: each[2], default=("", math.nan, 0.0))
    fastest = min(timed, key=lambda each: each[1], default=("", math.nan, 0.0))
    return {
        "operator": real.operator,
        "operands": " × ".join(real.operands),
        "n": len(theirs),
        "same": set(ours) == set(theirs),
        "known": len(facts),
        "equal": sum(a == b for a, b in facts),
        "rank": _correlate([t for _, t, _ in timed], [e for *_, e in timed]),
        "loss": expected[1] / best - 1,
        "expected": _short(expected[0]),
        "measured": _short(fastest[0]),
        "times": timed,
    }


def _name(each: Any) -> str:
    return f"{each.name} {sorted(each.config.items())}"


def _short(name: str) -> str:
    return name.split(" ")[0].removeprefix("triton_")[:9]


def _facts(each: Any) -> tuple[Any, ...] | None:
    known = each.candidate
    return known and (known.registers, (known.stack_bytes or 0) // 4, known.shared_bytes)


def _correlate(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's rank correlation."""
    if len(a) < 3:
        return math.nan
    first, second = (_ranks(each) for each in (a, b))
    return statistics.correlation(first, second)


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    for rank, number in enumerate(order):
        ranks[number] = float(rank)
    return ranks


def _equal_bodies(sides: Mapping[str, Any]) -> tuple[int, int] | None:
    runs = [_run_of(sides.get(side)) for side in ("device", "offline")]
    if None in runs:
        return None
    left = [k.source_hash for k in runs[1].kernels]  # type: ignore[union-attr]
    equal = 0
    for kernel in runs[0].kernels:  # type: ignore[union-attr]
        if kernel.source_hash in left:
            left.remove(kernel.source_hash)
            equal += 1
    return equal, len(runs[0].kernels)  # type: ignore[union-attr]


def main() -> int:
    if len(sys.argv) == 5 and sys.argv[1] in ("device", "offline"):
        compile_one(sys.argv[2], sys.argv[1] == "device", int(sys.argv[3]), Path(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("measure", "report"))
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--sides", default="device,offline")
    options = parser.parse_args()
    if options.what == "measure":
        measure(options.file, options.names, options.sides.split(","))
    return report(options.file)


if __name__ == "__main__":
    raise SystemExit(main())
