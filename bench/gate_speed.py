"""How long a static gate of three scenarios takes: gqa-transformer smoke, rmsnorm and softmax.

    cold       no kernel was ever compiled here
    warm       the model changed, its kernels are known: all is traced again (--fresh)
    unchanged  nothing changed: stored runs

    python bench/gate_speed.py [--most 60] [--times 3] [--no-cold]

Exit code 1 where the median of the warm ones takes longer than ``--most`` seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CONFIGURATION = """\
targets = ["h100"]

[[checks]]
scenario = "gqa-transformer"
preset = "smoke"

[[checks]]
scenario = "rmsnorm"

[[checks]]
scenario = "softmax"
"""


@dataclass(frozen=True, slots=True)
class Taken:
    wall_seconds: float
    processor_seconds: float
    said: str


def perfcli(folder: Path, cache: Path, *arguments: str) -> Taken:
    """Raises RuntimeError where it does not end with 0."""
    environment = {**os.environ, "PERFCLI_CACHE_DIR": str(cache)}
    begun, used = time.monotonic(), _processor_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "perfcli", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    wall, processor = time.monotonic() - begun, _processor_seconds() - used
    if done.returncode:
        raise RuntimeError(f"exit code {done.returncode}:\n{done.stdout}{done.stderr}")
    return Taken(wall, processor, done.stdout.partition("\n")[0])


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def two_cores() -> str:
    """Pinned where there are more; how many it is."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:2])
    return f"{len(cores[:2])} of {len(cores)} cores, load {os.getloadavg()[0]:.1f} before"


def show(name: str, taken: Sequence[Taken]) -> float:
    """One line; the median in seconds."""
    wall = statistics.median(t.wall_seconds for t in taken)
    processor = statistics.median(t.processor_seconds for t in taken)
    each = ", ".join(f"{t.wall_seconds:.1f}" for t in taken)
    print(f"{name:10} {wall:6.1f} s  ({processor:.1f} s of processor time; {each})", flush=True)
    return wall


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=float, default=60.0, help="seconds for a warm one")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--no-cold", action="store_true", help="with this machine's cache")
    arguments = parser.parse_args(argv)
    print(two_cores())
    with tempfile.TemporaryDirectory(prefix="perfcli-speed-") as made:
        folder = Path(made)
        (folder / "perfcli.toml").write_text(CONFIGURATION, encoding="utf-8")
        cache = folder / "cache"
        if arguments.no_cold:
            cache = Path(os.environ.get("PERFCLI_CACHE_DIR", Path.home() / ".cache" / "perfcli"))
        first = perfcli(folder, cache, "baseline", "update", "--reason", "speed", "--quiet")
        show("first" if arguments.no_cold else "cold", [first])
        warm = [perfcli(folder, cache, "gate", "--fresh") for _ in range(arguments.times)]
        median = show("warm", warm)
        show("unchanged", [perfcli(folder, cache, "gate") for _ in range(arguments.times)])
        print(warm[-1].said)
    return 0 if median <= arguments.most else 1


if __name__ == "__main__":
    raise SystemExit(main())
