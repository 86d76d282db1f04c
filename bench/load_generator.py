"""Keeps a machine busy in bursts, as neighbours on a shared machine do: ``python
bench/load_generator.py --seed 7``.

One or two processes, as the seed has it (or ``--processes``). Each alternates a burst and a pause,
both of 0.05 to 1 s, uniformly drawn. Every burst is, with equal chance, bound by the core
(arithmetic on small integers) or by memory (copies of 64 MiB, more than most caches hold). So a
process is busy half of the time. It ends when its standard input is closed: with whoever started
it, whatever way that ended; in a terminal by Ctrl-D.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

SHORTEST_SECONDS = 0.05
LONGEST_SECONDS = 1.0
COPY_BYTES = 64 << 20


def phases(seed: int) -> Iterator[tuple[str, float, float]]:
    """What a process does, without end: ``cpu`` or ``memory``, seconds of it, and the seconds of
    pause after it."""
    draw = random.Random(seed)
    while True:
        kind = draw.choice(("cpu", "memory"))
        busy, pause = (draw.uniform(SHORTEST_SECONDS, LONGEST_SECONDS) for _ in range(2))
        yield kind, busy, pause


def work(seed: int) -> None:
    """Bursts and pauses until the process is ended."""
    source, copy = bytearray(COPY_BYTES), bytearray(COPY_BYTES)
    for kind, busy, pause in phases(seed):
        until = time.monotonic() + busy
        while time.monotonic() < until:
            if kind == "cpu":
                sum(n * n for n in range(10_000))
            else:
                copy[:] = source
        time.sleep(pause)


@contextmanager
def load(seed: int, on: bool = True) -> Iterator[None]:
    """The generator as a process beside what is in the block; ``on`` False: nothing."""
    if not on:
        yield
        return
    command = [sys.executable, "-P", __file__, "--seed", str(seed)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield
            if process.poll() is not None:
                raise RuntimeError(f"the load generator ended early, with {process.returncode}")
        finally:
            process.kill()


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, choices=(1, 2), help="default: as the seed has it")
    arguments = parser.parse_args()
    processes = arguments.processes or random.Random(arguments.seed).choice((1, 2))
    second = processes == 2 and os.fork() == 0  # both read the same pipe, and see it closed
    threading.Thread(target=_end_with_input, daemon=True).start()
    work(2 * arguments.seed + second)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
