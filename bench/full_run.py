"""Times one variant of the full gqa-transformer (11 layers, learned, training): cold, with its
kernels cached, and when nothing changed; and the memory of parent and workers together.

Run it on an idle machine. Bars: 60 s, 25 s, 2 s on two cores; 3 GB.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

RUN = ["run", "gqa-transformer", "-p", "learned=true", "--target", "h100", "--quiet"]


def tree_bytes(pid: int) -> int:
    """Resident bytes of a process and all below it; shared pages are divided among their users
    (PSS of /proc/PID/smaps_rollup)."""
    total = 0
    for process in [pid, *descendants(pid)]:
        try:
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
        except (OSError, ProcessLookupError):
            continue  # it has just ended
    return total


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return found
    for child in map(int, children):
        found += [child, *descendants(child)]
    return found


def timed(arguments: list[str], folder: Path) -> tuple[float, int]:
    """Seconds of one command, and the most memory that its process tree took."""
    environment = {**os.environ, "PERFCLI_CACHE_DIR": str(folder / "cache")}
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "perfcli", *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    peak = 0
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.5):
            peak = max(peak, tree_bytes(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.monotonic() - started
    stop.set()
    watcher.join()
    if code != 0:
        raise SystemExit(f"perfcli {' '.join(arguments)} ended with {code}")
    return seconds, peak


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cold, cold_bytes = timed([*RUN, "--fresh"], folder)
        cached, cached_bytes = timed([*RUN, "--fresh"], folder)
        unchanged, _ = timed(RUN, folder)
    load = os.getloadavg()[0]
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, load {load:.1f}")
    print(f"cold       {cold:6.1f} s   (bar 60)")
    print(f"cached     {cached:6.1f} s   (bar 25)")
    print(f"unchanged  {unchanged:6.2f} s   (bar 2)")
    memory = max(cold_bytes, cached_bytes)
    print(f"memory     {memory / 1e9:6.2f} GB  (bar 3)")
    return 0 if cold <= 60 and cached <= 25 and unchanged <= 2 and memory <= 3e9 else 1


if __name__ == "__main__":
    raise SystemExit(main())
