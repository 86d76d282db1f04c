"""A pair of warm workers through pyperf, hyperfine and pytest-benchmark, as these are shipped: all
of the base first, then all of the head. What a tool prints, or its exit code, is the verdict."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accuracy_ask import DOOR, STEPS
from accuracy_setup import Tools
from accuracy_workers import Door

HERE = Path(__file__).parent
PYPERF_VALUES = 100
"""A side takes about so many times pyperf's ``--min-time``: 20 processes, each with one value to
warm up and three that count, of one to two times that. 10 s make its default of 0.1 s."""
HYPERFINE_RUNS = 20
WELCH_LEVEL = 0.05
CALL_SECONDS = 0.050
"""Of steps in one call that pytest-benchmark times: the way there and back is little of it."""
FAIL = ("mean:5%", "median:5%")
REGRESSED = re.compile(r"Field '(\w+)' has failed PercentageRegressionCheck")

Said = list[tuple[str, dict[str, Any]]]
"""Names of tools with what they said: verdict, ratio, seconds."""


def pyperf(doors: Sequence[Door], seconds: float, folder: Path, tools: Tools) -> Said:
    """``python accuracy_pyperf.py --min-time T``, for each side, then ``pyperf compare_to -v``."""
    started = time.monotonic()
    files = [folder / f"{door.side}.json" for door in doors]
    for door, file in zip(doors, files, strict=True):
        script = [tools.python, str(HERE / "accuracy_pyperf.py"), "-q", "-o", str(file)]
        inherit = ["--inherit-environ", f"{DOOR},{STEPS}"]
        _run([*script, "--min-time", str(seconds / 2 / PYPERF_VALUES), *inherit], door)
    taken = time.monotonic() - started
    names = [str(file) for file in files]
    text = _run([tools.python, "-m", "pyperf", "compare_to", "-v", *names]).stdout
    base, head = (_pyperf_mean(file) for file in files)
    verdict = "none"
    if "Significant (" in text:
        verdict = "slower" if "slower" in text else "faster"
    elif "Not significant" not in text and "not significant" not in text:
        raise RuntimeError(f"pyperf compare_to says neither: {text}")
    return [(tools.pyperf, _said(verdict, head / base, taken))]


def _pyperf_mean(file: Path) -> float:
    runs = json.loads(file.read_text())["benchmarks"][0]["runs"]
    values = [value for run in runs for value in run.get("values", ())]
    return float(sum(values) / len(values))


def hyperfine(doors: Sequence[Door], seconds: float, folder: Path, tools: Tools) -> Said:
    """``hyperfine --runs 20 --warmup 1 BASE HEAD``, each command the steps of a twentieth of the
    side's time, and the rule of its ``scripts/welch_ttest.py``: different where p < 0.05."""
    from scipy.stats import ttest_ind

    steps = max(1, round(seconds / 2 / HYPERFINE_RUNS / _step_seconds(doors)))
    commands = [
        f"echo {steps} > {d.folder}/ask; read said seconds < {d.folder}/answer; test $said = done"
        for d in doors
    ]
    out = folder / "hyperfine.json"
    started = time.monotonic()
    options = ["--runs", str(HYPERFINE_RUNS), "--warmup", "1", "--export-json", str(out)]
    _run([tools.hyperfine_program, *options, *commands])
    taken = time.monotonic() - started
    base, head = (result["times"] for result in json.loads(out.read_text())["results"])
    ratio = (sum(head) / len(head)) / (sum(base) / len(base))
    different = float(ttest_ind(base, head, equal_var=False).pvalue) < WELCH_LEVEL
    verdict = "none" if not different else "slower" if ratio > 1 else "faster"
    return [(tools.hyperfine, _said(verdict, ratio, taken))]


def pytest_benchmark(doors: Sequence[Door], seconds: float, folder: Path, tools: Tools) -> Said:
    """``pytest --benchmark-save=base``, then the same for the head with
    ``--benchmark-compare-fail`` for the mean and the median, both at 5 %."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [tools.python, "-m", "pytest", "-q", "-c", str(folder / "pytest.ini")]
    command += ["--rootdir", str(folder), "-p", "no:cacheprovider"]
    command += [str(HERE / "accuracy_pytest.py"), f"--benchmark-storage=file://{folder}/stored"]
    command += [f"--benchmark-max-time={seconds / 2}"]
    base, head = doors
    calls = {STEPS: str(max(1, round(CALL_SECONDS / _step_seconds(doors))))}
    started = time.monotonic()
    _run([*command, "--benchmark-save=base"], base, calls)
    # Given twice, the last one alone counts (5.3.1).
    fail = ["--benchmark-compare-fail", *FAIL]
    save = ["--benchmark-save=head", "--benchmark-compare=0001"]
    ended = _run([*command, *save, *fail], head, calls, may_fail=True)
    taken = time.monotonic() - started
    regressed = set(REGRESSED.findall(ended.stdout + ended.stderr))
    if ended.returncode != bool(regressed):
        raise RuntimeError(f"pytest ended with {ended.returncode}: {ended.stdout[-2000:]}")
    stats = [_pytest_stats(folder / "stored", name) for name in ("base", "head")]
    said: Said = []
    for rule, name in zip(FAIL, tools.pytest_benchmark, strict=True):
        field = rule.partition(":")[0]
        verdict = "slower" if field in regressed else "none"
        said.append((name, _said(verdict, stats[1][field] / stats[0][field], taken)))
    return said


def _pytest_stats(stored: Path, name: str) -> dict[str, float]:
    (file,) = stored.glob(f"*/*_{name}.json")
    return dict(json.loads(file.read_text())["benchmarks"][0]["stats"])


def _step_seconds(doors: Sequence[Door]) -> float:
    """One number for both sides: they do the same work."""
    return min(door.step_seconds for door in doors)


def _said(verdict: str, ratio: float, seconds: float) -> dict[str, Any]:
    return {"verdict": verdict, "ratio": round(ratio, 6), "seconds": round(seconds, 2)}


def _run(
    command: Sequence[str],
    door: Door | None = None,
    extra: dict[str, str] | None = None,
    *,
    may_fail: bool = False,
) -> subprocess.CompletedProcess[str]:
    own = {DOOR: str(door.folder)} if door else {}
    environment = {**os.environ, **own, **(extra or {}), "PYTHONPATH": str(HERE)}
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if ended.returncode and not may_fail:
        sys.stderr.write(ended.stdout + ended.stderr)
        raise RuntimeError(f"{command[0]} ended with {ended.returncode}")
    return ended
