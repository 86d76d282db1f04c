"""Imports and compares large traces, and holds what comes out against what was put in.

Two Chrome traces of about 269 MB are written (a million events each, 220 kernels, of which two get
slower), then ``perfcli compare`` is timed on both, with the memory of all of its processes. With
``--gz`` they are compressed.

    python bench/import_traces.py [--folder FOLDER] [--gz]

Checked: every launch is counted, each kernel's time is that of the trace to a part in ten thousand,
the two slower kernels are found, and no other.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, TextIO

KERNELS, STEPS = 220, 1500
SLOWER = {17: 2.0, 101: 1.10}
"""Kernel to how many times slower it gets."""
FOLDER = Path(__file__).parents[1]

_HOST = """  {{
    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1,
    "ts": {ts:.3f}, "dur": 4.1,
    "args": {{
      "External id": {n},"kernel_backend": "triton", "num_warps": 4, "grid": "grid(4096,)"
    }}
  }},
  {{
    "ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernelEx", "pid": 1, "tid": 1,
    "ts": {later:.3f}, "dur": 2.2,
    "args": {{
      "External id": {n}, "cbid": 652, "correlation": {n}
    }}
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7,
    "ts": {device:.3f}, "dur": {dur:.3f},
    "args": {{
      "External id": {n}, "device": 0, "context": 1, "stream": 7, "correlation": {n},
      "registers per thread": 32, "shared memory": 0, "grid": [{grid}, 1, 1], "block": [128, 1, 1]
    }}
  }},
"""
_MARK = """  {{
    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": 1, "tid": 1,
    "ts": {ts:.3f}, "dur": {dur:.3f}, "args": {{"Ev Idx": 0}}
  }},
"""


def write_trace(file: TextIO, seed: int, slower: dict[int, float]) -> dict[str, list[float]]:
    """Write one trace; the microseconds of every launch, by kernel."""
    chance = random.Random(seed)
    device = '{"id": 0, "name": "NVIDIA H200", "numSms": 132}'
    file.write(f'{{\n  "schemaVersion": 1,\n  "deviceProperties": [{device}],\n')
    file.write('  "traceEvents": [\n')
    moment, number = 4545587604379.761, 0
    truth: dict[str, list[float]] = {}
    for step in range(STEPS):
        began = moment
        for kernel in range(KERNELS):
            number += 1
            name = f"triton_poi_fused_add_mul_{kernel}"
            typical = (8 + kernel % 40) * slower.get(kernel, 1.0)
            micros = round(typical * (1 + 0.02 * chance.random()), 3)
            truth.setdefault(name, []).append(micros)
            file.write(
                _HOST.format(
                    name=name, ts=moment, later=moment + 1, device=moment + 20, dur=micros,
                    n=number, grid=64 * (kernel + 1),
                )
            )  # fmt: skip
            moment += micros + 1
        file.write(_MARK.format(step=step, ts=began, dur=moment - began))
    file.write('  {"ph": "i", "name": "Record Window End", "ts": 1.0}\n  ]\n}\n')
    return truth


def measure(command: list[str], folder: Path) -> tuple[float, int, int]:
    """Run a command; seconds, the most bytes of its processes together, and its exit code."""
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "COLUMNS": "120"}
    began = time.perf_counter()
    with (folder / "out.txt").open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out)
        most = 0
        while process.poll() is None:
            most = max(most, sum(map(_resident, _family(process.pid))))
            time.sleep(0.02)
    return time.perf_counter() - began, most, process.returncode


def _family(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(each for child in children for each in _family(int(child)))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def check(truths: list[dict[str, list[float]]], document: dict[str, Any]) -> list[str]:
    """What of the comparison is not what was put into the traces."""
    wrong = []
    groups = {group["name"]: group for group in document["timing"]["groups"]}
    if len(groups) != KERNELS:
        wrong.append(f"{len(groups)} kernels instead of {KERNELS}")
    for name, truth in truths[1].items():
        change = groups[name]
        expected = sum(truth) / sum(truths[0][name])
        if abs(change["ratio"] / expected - 1) > 2e-3:
            wrong.append(f"{name}: ratio {change['ratio']:.4f} instead of {expected:.4f}")
        planted = int(name.rpartition("_")[2]) in SLOWER
        if (change["verdict"] == "slower") != planted or change["verdict"] == "faster":
            wrong.append(f"{name}: {change['verdict']}")
    return wrong


def check_counts(truths: list[dict[str, list[float]]], folder: Path) -> list[str]:
    """What of the stored runs is not what was put in: launches, and seconds of each kernel."""
    wrong = []
    for truth, path in zip(
        truths, sorted((folder / ".perfcli" / "runs").glob("*.json")), strict=True
    ):
        run = json.loads(path.read_text())["run"]
        for kernel, work in zip(run["kernels"], run["observed"]["works"], strict=True):
            mean = sum(work["seconds"]) / len(work["seconds"])
            expected = 1e-6 * sum(truth[kernel["name"]]) / STEPS
            if kernel["launches"] != 1 or abs(mean / expected - 1) > 1e-3:
                wrong.append(f"{kernel['name']}: {kernel['launches']} × {mean} s, not {expected} s")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--gz", action="store_true")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="perfcli-traces-"))
    folder.mkdir(parents=True, exist_ok=True)
    names = ["base.json.gz", "head.json.gz"] if given.gz else ["base.json", "head.json"]
    truths = []
    for number, name in enumerate(names):
        with (gzip.open if given.gz else open)(folder / name, "wt") as file:
            truths.append(write_trace(file, number, SLOWER if number else {}))
        print(f"{name}: {(folder / name).stat().st_size / 1e6:.0f} MB")
    command = [
        sys.executable, "-c", "import sys; from perfcli.cli import main; sys.exit(main())",
        "compare", *names, "--json", "compared.json",
    ]  # fmt: skip
    seconds, most, code = measure(command, folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    document = json.loads((folder / "compared.json").read_text())
    wrong = [*check(truths, document), *check_counts(truths, folder)]
    print((folder / "out.txt").read_text().split("\n\n")[0])
    print(f"{used.ru_utime + used.ru_stime:.1f} s of processor time in all processes")
    print(f"{seconds:.1f} s, {most / 1e6:.0f} MB in all processes, exit code {code}")
    print("\n".join(wrong[:20]) or "all counts and changes are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
