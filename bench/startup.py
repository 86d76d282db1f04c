"""``perfcli --help``: the median of nine starts must be at most 0.10 s, without importing torch.
With --warm: what a process that ``perfcli warm`` keeps saves, and that a stored run is shown again
within 1.5 s.

python bench/startup.py [--warm]
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BAR_SECONDS = 0.10
BAR_AGAIN_SECONDS = 1.5
PERFCLI = [sys.executable, "-P", "-m", "perfcli"]


def main() -> int:
    return measure_warm() if "--warm" in sys.argv[1:] else measure_help()


def measure_warm() -> int:
    """Compile a scenario five times each way, in turns, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        run = ["run", "softmax", "--target", "h100", "--quiet"]
        call(folder, [*run, "--fresh"])  # fills the caches of kernels and of bytecode
        call(folder, ["warm", "start", "--quiet"])
        try:
            ways = {
                "compiled, a fresh process": ([*run, "--fresh"], "0"),
                "compiled, a kept process": ([*run, "--fresh"], "1"),
                "stored, nothing changed": (run, "1"),
            }
            turns = [{name: call(folder, *way) for name, way in ways.items()} for _ in range(5)]
        finally:
            call(folder, ["warm", "stop", "--quiet"])
    for name in ways:
        wall, processor = (
            statistics.median(each) for each in zip(*(t[name] for t in turns), strict=True)
        )
        sys.stdout.write(f"{name}: {wall:.2f} s, {processor:.2f} s of processor time waited for\n")
    again = statistics.median(turn[name][0] for turn in turns)
    good = again <= BAR_AGAIN_SECONDS
    sys.stdout.write(f"bar {BAR_AGAIN_SECONDS} s: {'good' if good else 'MISSED'}\n")
    return 0 if good else 1


def call(folder: str, arguments: list[str], warm: str = "1") -> tuple[float, float]:
    """Return the seconds that a command took, and those of processors that it and its children
    took: not those of what the kept process forks."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    environment = {**os.environ, "PERFCLI_WARM": warm}
    subprocess.run(
        [*PERFCLI, *arguments], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used


def measure_help() -> int:
    help_command = [*PERFCLI, "--help"]
    seconds = []
    for _ in range(10):
        started = time.perf_counter()
        subprocess.run(help_command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - started)
    median = statistics.median(seconds[1:])  # the first one writes bytecode
    code = (
        "import sys, perfcli.cli as c; c.main(['--help']); raise SystemExit('torch' in sys.modules)"
    )
    torch = subprocess.run([sys.executable, "-P", "-c", code], check=False).returncode != 0
    good = median <= BAR_SECONDS and not torch
    sys.stdout.write(
        f"perfcli --help: {median:.3f} s (median of 9; bar {BAR_SECONDS} s), "
        f"torch {'imported' if torch else 'not imported'}: {'good' if good else 'MISSED'}\n"
    )
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
