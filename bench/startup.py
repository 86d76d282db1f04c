"""``perfcli --help``: the median of nine starts must be at most 0.10 s, without importing torch.

python bench/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

BAR_SECONDS = 0.10


def main() -> int:
    help_command = [sys.executable, "-P", "-m", "perfcli", "--help"]
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
