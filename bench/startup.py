"""``perfcli --help``: the median of nine starts must be at most 0.10 s, without importing torch.
With --warm: what a process that ``perfcli warm`` keeps saves, and that a stored run is shown again
within 1.5 s. With --pairs: how long it takes from the command to the first round of a measurement,
for models of two layers and sizes that were never compiled here, then once more; each phase in
seconds, and the medians, that of the first times at most 12 s on a GPU. Both sides
differ in an option that changes some kernels.

python bench/startup.py [--warm | --pairs [cuda|cpu] [FILE.json] [--names A,B] [--within SECONDS]
                                  [--times first,again] [--stop]]

FILE.json is written after each start; no start begins after so many seconds. --stop: each command
is interrupted once it has measured its first round.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BAR_SECONDS = 0.10
BAR_AGAIN_SECONDS = 1.5
PERFCLI = [sys.executable, "-P", "-m", "perfcli"]


BAR_PAIR_SECONDS = 12.0
MODELS = Path(__file__).with_name("start_models.py")
NAMES = ("transformer", "olmo", "residual", "graph")
OPTIONS = {"cuda": "split_reductions=false", "cpu": "max_fusion_size=2"}
SIZES = {"cuda": (), "cpu": ("-p", "length=32", "-p", "width=64")}


def main() -> int:
    if "--pairs" in sys.argv[1:]:
        parser = argparse.ArgumentParser()
        parser.add_argument("--pairs", nargs="*")
        parser.add_argument("--names", default=",".join(NAMES))
        parser.add_argument("--within", type=float, default=float("inf"))
        parser.add_argument("--times", default="first,again")
        parser.add_argument("--stop", action="store_true")
        asked = parser.parse_args()
        given: list[str] = asked.pairs
        device, file = [*given, *("cuda", "")[len(given) :]]
        names, times = asked.names.split(","), asked.times.split(",")
        return measure_pairs(device, file, names, times, asked.within, asked.stop)
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


def measure_pairs(
    device: str, file: str, names: list[str], times: list[str], within: float, stops: bool
) -> int:
    """Time each model in a folder of its own."""
    began = time.monotonic()
    found: dict[str, dict[str, object]] = {}
    totals: dict[str, list[float]] = {time_: [] for time_ in times}
    batch = 3 + int(time.time()) % 97  # kernels of a size that nobody has compiled here
    with tempfile.TemporaryDirectory() as folder:
        # Fills the cache of bytecode: what is measured has never been compiled, torch has.
        training = ["-p", "mode=training", "--preset", "smoke", "--device", device]
        call(folder, ["run", "softmax", *training, "--quiet"])
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            for time_ in totals:
                if time.monotonic() - began > within:
                    break
                model = f"{MODELS}:{name}"
                sizes = [*SIZES[device], "-p", f"batch={batch}"]
                more = ["-b", OPTIONS[device], "--device", device, "--budget", "0.5"]
                command = ["compare", model, *sizes, *more, "--fresh", "--quiet"]
                start = watch_start(folder, command, stops)
                if not start:
                    sys.stdout.write(f"\n{name}, {time_}: not measured, the code is the same\n")
                    continue
                totals[time_].append(start["seconds"])
                found[f"{name}, {time_}"] = start
                show(f"{name}, {time_}", start)
                if file:
                    Path(file).write_text(json.dumps({"pairs": found}, indent=1))
    if not totals[times[0]]:
        sys.stdout.write("\nnothing was measured\n")
        return 1
    medians = {time_: statistics.median(seconds) for time_, seconds in totals.items() if seconds}
    for time_, median in medians.items():
        sys.stdout.write(f"\n{time_}: median {median:.1f} s, most {max(totals[time_]):.1f} s")
    good = medians[times[0]] <= BAR_PAIR_SECONDS
    sys.stdout.write(f"\nbar {BAR_PAIR_SECONDS:g} s: {'good' if good else 'MISSED'}\n")
    if file:
        Path(file).write_text(json.dumps({"medians": medians, "pairs": found}, indent=1))
    return 0 if good else 1


def show(name: str, start: dict[str, Any]) -> None:
    """Write the phases of one start."""
    sys.stdout.write(f"\n{name}: {start['seconds']:.1f} s\n")
    for phase in start["phases"]:
        at = "" if phase["at"] is None else f"{phase['at']:6.2f}"
        used = phase.get("processor_seconds")
        shown = "" if used is None else f"{used:6.2f}"
        line = f"{at:6}  {phase['seconds']:6.2f}  {shown:6}  {phase['name']}"
        sys.stdout.write(f"  {phase['of']:8}{line}\n")
    known = (phase for phase in start["phases"] if phase["at"] is not None)
    rest = start["seconds"] - max(phase["at"] + phase["seconds"] for phase in known)
    sys.stdout.write(f"  {'':14}  {rest:6.2f}  {'':6}  until the command's clock runs\n")
    for seconds in start["compile_seconds"]:
        shown = ", ".join(f"{phase} {took:.2f}" for phase, took in seconds.items())
        sys.stdout.write(f"  a run was compiled: {shown}\n")
    sys.stdout.flush()


def watch_start(folder: str, arguments: list[str], stops: bool) -> dict[str, Any]:
    """Return the seconds until a command has measured its first round, the phases until then, and
    the seconds until its end; nothing where it found the same code on both sides. ``stops``: it is
    interrupted after its first round."""
    timings, runs = (Path(folder, ".perfcli", name) for name in ("timings", "runs"))
    earlier = set(runs.glob("*.json"))
    known = set(timings.glob("*.jsonl"))
    started = time.perf_counter()
    log = Path(folder, "log")
    with log.open("wb") as opened:
        command = subprocess.Popen([*PERFCLI, *arguments], cwd=folder, stdout=opened, stderr=opened)
        lines: dict[str, Any] = {}
        while "round" not in lines:
            ended = command.poll() is not None
            for path in set(timings.glob("*.jsonl")) - known:
                *whole, _ = path.read_bytes().split(b"\n")
                for line in whole:
                    lines.update(json.loads(line))
            if ended and "round" not in lines:
                if command.returncode not in (0, 1, 3):
                    raise SystemExit(f"nothing was measured:\n{log.read_text()}")
                return {}
            time.sleep(0.01)
        seconds = time.perf_counter() - started
        if stops:
            command.send_signal(signal.SIGINT)
        command.wait()
    return {
        "seconds": seconds,
        "whole": time.perf_counter() - started,
        "phases": lines.get("start", []),
        "compile_seconds": [
            json.loads(path.read_text())["run"]["compile_seconds"]
            for path in sorted(set(runs.glob("*.json")) - earlier)
        ],
    }


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
