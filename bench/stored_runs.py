"""Time and memory of ``perfcli compare a.json b.json`` for two runs of 300 kernels.

The bar: 2 s and 300 MB for the whole command. The runs are made up; their texts are as long as
those of real kernels (source 6 kB, TTGIR 30 kB, PTX 60 kB, SASS 120 kB, two candidates each).

    python bench/stored_runs.py [--kernels 300]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from perfcli.blobs import blob_id, pack
from perfcli.machine import targets
from perfcli.model import (
    Access,
    Bundle,
    Candidate,
    Environment,
    GraphFacts,
    KernelFacts,
    Launch,
    LineCounts,
    Origin,
    Run,
    SourceFacts,
    Variant,
)
from perfcli.storing import store

SECONDS, MEGABYTES = 2.0, 300.0
LENGTHS = {"source": 6_000, "ttgir": 30_000, "ptx": 60_000, "sass": 120_000}
WORDS = [f"%{name}{n}" for name in ("r", "f", "tmp", "p") for n in range(400)]
WORDS += [
    "tl.load",
    "tl.store",
    "ld.global.v4.b32",
    "add.f32",
    "LDG.E.128",
    "STG.E",
    "HFMA2",
    "arith.mulf",
    "mask",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=300)
    count: int = parser.parse_args().kernels
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("a.json", "b.json")]
        for changed, path in enumerate(paths):
            store.write(made_up(count, changed=bool(changed)), path)
        sizes = ", ".join(f"{path.stat().st_size / 1e6:.1f} MB" for path in paths)
        seconds, megabytes = measure([sys.executable, "-P", "-m", "perfcli", "compare"], paths)
    good = seconds <= SECONDS and megabytes <= MEGABYTES
    sys.stdout.write(
        f"compare of two stored runs of {count} kernels ({sizes}): {seconds:.2f} s, "
        f"{megabytes:.0f} MB (bar: {SECONDS:.0f} s, {MEGABYTES:.0f} MB): "
        f"{'good' if good else 'MISSED'}\n"
    )
    return 0 if good else 1


def measure(command: list[str], paths: list[Path]) -> tuple[float, float]:
    """Wall seconds and peak resident megabytes of the command."""
    started = time.perf_counter()
    process = subprocess.Popen([*command, *map(str, paths)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    if code not in (0, 1):
        raise SystemExit(f"compare failed with exit code {code}")
    return seconds, usage.ru_maxrss / 1024


def made_up(count: int, changed: bool) -> Bundle:
    """A run of ``count`` kernels; in the changed one every third kernel is another."""
    blobs: dict[str, str] = {}
    kernels = tuple(_kernel(n, changed and n % 3 == 0, blobs) for n in range(count))
    run = Run(
        id="head" if changed else "base",
        created="2026-01-01T00:00:00Z",
        scenario="made-up",
        params={"kernels": count},
        mode="training",
        dynamic=False,
        device="cuda",
        target=targets.get("h100"),
        variant=Variant("head" if changed else "base"),
        environment=Environment("2.13.0", "3.7.1", "3.11", "12.8", "linux", "0"),
        kernels=kernels,
        launches=tuple(Launch(k.graph, k.name) for k in kernels),
        graphs=(GraphFacts("forward 0", "forward", 0, 20 * count),),
        externs=(),
    )
    return Bundle(run, blobs)


def _kernel(number: int, changed: bool, blobs: dict[str, str]) -> KernelFacts:
    random.seed(f"{number} {changed}")
    loads = random.randint(2, 12)
    source = _text("source", blobs)
    return KernelFacts(
        name=f"triton_red_fused_add_mul_rms_norm_{number}",
        kind="reduction",
        language="triton",
        graph="forward 0",
        launches=1,
        origins=tuple(
            Origin(f"mul_{20 * number + n}", "aten.mul.Tensor", f"blocks.{number}.mlp", (48, 2048))
            for n in range(20)
        ),
        source=source,
        source_hash=source,
        source_facts=SourceFacts(
            *(loads, loads, 2, 0, 0, 1, 1),
            accesses=tuple(Access("load", f"in_ptr{n}", 10 + n, 1, 1) for n in range(loads)),
            passes={f"in_ptr{n}": 1 for n in range(loads)},
            buffers_read=loads,
            buffers_written=2,
        ),
        bytes_read=loads * 10**8,
        bytes_written=2 * 10**8,
        lower_bound_seconds=1e-4,
        candidates=tuple(_candidate(warps, loads, blobs) for warps in (4, 8)),
    )


def _candidate(warps: int, loads: int, blobs: dict[str, str]) -> Candidate:
    made = Candidate(
        config={"XBLOCK": 1, "R0_BLOCK": 2048},
        num_warps=warps,
        num_stages=1,
        registers=random.randint(20, 255),
        stack_bytes=random.choice((0, 0, 0, 8, 64)),
        shared_bytes=1024,
        lines={str(n): LineCounts(1, 0, 0, 0) for n in range(10, 60)},
        occupancy=0.5,
    )
    sass = _text("sass", blobs)
    return replace(
        made,
        binary_hash=hashlib.sha256(sass.encode()).hexdigest(),
        ttgir=_text("ttgir", blobs),
        ptx=_text("ptx", blobs),
        sass=sass,
    )


def _text(kind: str, blobs: dict[str, str]) -> str:
    words = random.choices(WORDS, k=LENGTHS[kind] // 7)
    text = "\n".join(" ".join(words[n : n + 8]) for n in range(0, len(words), 8))
    blobs[blob_id(text)] = pack(text)
    return blob_id(text)


if __name__ == "__main__":
    raise SystemExit(main())
