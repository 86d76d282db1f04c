"""The comparisons of docs/examples/ on this machine's GPU.

    python bench/examples_on_device.py --out FOLDER [--first] [--together] CASE …

Each case runs in a folder of its own below the current one; its terminal report and its JSON go to
FOLDER. ``--first`` compiles all of them before anything is timed, several at a time; ``--together``
runs all cases at once, to look for failures only. ``--list`` names the cases.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOFTMAX = ("softmax", "-p", "rows=32768", "-p", "columns=50257")
SMALL = ("softmax", "-p", "rows=4096", "-p", "columns=50257")
ONLINE = ("-a", "online_softmax=true", "-b", "online_softmax=false")
GQA = ("gqa-transformer", "-p", "learned=true")
MIX_ORDER = ("-a", "triton.mix_order_reduction=true", "-b", "triton.mix_order_reduction=false")
THRESHOLD = "realize_acc_reads_size_threshold=268435456"
BUFFERS = "max_fusion_unique_io_buffers=4"
HALF = ("accumulate", "-p", "dtype=bfloat16")
# 45 GB in, 45 out: one process fits into 141 GB, two do not.
LARGE = ("softmax", "-p", "rows=450000", "-p", "columns=50304", *ONLINE)
HUGE = ("softmax", "-p", "rows=900000", "-p", "columns=50304", *ONLINE)

CASES: dict[str, Sequence[str]] = {
    "softmax": ("compare", *SOFTMAX, *ONLINE),
    "softmax-cuda-graph": ("compare", *SOFTMAX, *ONLINE, "--cuda-graph"),
    "gqa-transformer": ("compare", *GQA, *MIX_ORDER),
    "accumulate": ("compare", "accumulate", "--toggle", THRESHOLD),
    "accumulate-buffers": ("compare", "accumulate", "-b", BUFFERS, "-b", THRESHOLD),
    "accumulate-half": ("compare", *HALF, "-b", BUFFERS, "-b", THRESHOLD),
    "accumulate-threshold": ("compare", *HALF, "-a", BUFFERS, "-b", BUFFERS, "-b", THRESHOLD),
    "noise": ("noise", *SOFTMAX, "--pairs", "3", "--budget", "10"),
    "noise-slow": ("noise", *SOFTMAX, "--slow-head", "3", "--pairs", "1", "--budget", "10"),
    "noise-half": ("noise", *HALF, "--pairs", "3", "--budget", "10"),
    "busy": ("compare", *SMALL, *ONLINE, "--budget", "8"),
    "large": ("compare", *LARGE, "--budget", "5"),
    "huge": ("compare", *HUGE, "--budget", "5"),
    # small, to look for failures
    "small": ("compare", *SMALL, *ONLINE, "--budget", "5"),
    "small-graph": ("compare", *SMALL, *ONLINE, "--budget", "5", "--cuda-graph"),
    "small-gqa": ("compare", *GQA, *MIX_ORDER, "--preset", "smoke", "--budget", "5"),
    "small-noise": ("noise", *SMALL, "--pairs", "2", "--budget", "3"),
    "small-slow": ("noise", *SMALL, "--slow-head", "3", "--pairs", "1", "--budget", "3"),
}
NEIGHBOUR = """
import torch
x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
while True:
    for _ in range(50):
        y = x @ x
    torch.cuda.synchronize()
"""


@dataclass(frozen=True)
class Outcome:
    name: str
    code: int
    seconds: float
    report: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(f"{name:20} perfcli {' '.join(CASES[name])}" for name in CASES))
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.first:
        compiled = [name for name in arguments.cases if CASES[name][0] == "compare"]
        with ThreadPoolExecutor(6) as pool:
            for outcome in pool.map(lambda name: compile_only(name), compiled):
                show(outcome, lines=3)
    with ThreadPoolExecutor(8 if arguments.together else 1) as pool:
        for outcome in pool.map(lambda name: run(name, arguments.out), arguments.cases):
            show(outcome)


def compile_only(name: str) -> Outcome:
    command = [c for c in CASES[name] if c != "--cuda-graph"]
    if "--budget" in command:
        at = command.index("--budget")
        command[at : at + 2] = []
    return perfcli(name, [*command, "--device", "cuda", "--no-time", "-q"])


def run(name: str, out: Path) -> Outcome:
    if name != "busy":
        return kept(name, out)
    neighbour = subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    try:
        return kept(name, out)
    finally:
        neighbour.kill()
        neighbour.wait()


def kept(name: str, out: Path) -> Outcome:
    file = str(out.resolve() / f"{name}.json")
    done = perfcli(name, [*CASES[name], "--device", "cuda", "--json", file])
    (out / f"{name}.txt").write_text(done.report, encoding="utf-8")
    return done


def perfcli(name: str, command: Sequence[str]) -> Outcome:
    folder = Path(name.removesuffix("-cuda-graph"))  # the same runs
    folder.mkdir(exist_ok=True)
    path = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "110"}
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "perfcli", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    seconds = time.monotonic() - started
    said = f"{done.stdout}\n[stderr]\n{done.stderr}" if done.stderr else done.stdout
    return Outcome(name, done.returncode, seconds, said)


def show(done: Outcome, lines: int = 12) -> None:
    print(f"== {done.name}: exit {done.code}, {done.seconds:.0f} s", flush=True)
    print("\n".join(done.report.splitlines()[:lines]), flush=True)


if __name__ == "__main__":
    main()
