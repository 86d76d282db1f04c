"""One real comparison with times on the CPU, through the command line and both worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from perfcli.storing import timings

pytestmark = pytest.mark.torch

# Precompiled headers take longer than the few kernels that would need them.
SHARED = "cpp_cache_precompile_headers=false"
# Kernels without vectors take more than twice as long: no noise hides that within two seconds.
COMMAND = (
    *("compare", "softmax", "--preset", "smoke", "--device", "cpu"),
    *("-a", SHARED, "-b", SHARED, "-b", "cpp.simdlen=1"),
    *("--budget", "2", "--seed", "7", "--json", "out.json"),
)


def test_a_side_without_vectors_is_slower(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "perfcli", *COMMAND],
        cwd=tmp_path,
        env={k: v for k, v in os.environ.items() if k != "PERFCLI_FAKE"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ended.returncode, ended.stdout.split()[:1]) == (1, ["SLOWER"]), ended.stderr

    timing = json.loads((tmp_path / "out.json").read_text())["timing"]
    step, joined = timing["step"], timing["joined"]
    assert timing["verdict"] == step["verdict"] == "slower"
    assert 1 < step["low"] <= step["ratio"] <= step["high"]
    assert joined["known"] == joined["launches"] >= 2

    measured = timings.read(tmp_path / timings.FOLDER / f"{timing['measurement']}.jsonl")
    steps = [r for r in measured.rounds if r.kind == "step"]
    assert step["rounds"] <= len(steps)
    assert measured.seed == 7
    assert {r.first for r in steps} == {"base", "head"}
    assert {p.side for p in measured.prepared} == {"base", "head"}
    for prepared in measured.prepared:
        assert prepared.check is not None
        assert not prepared.check.failure
        assert len(prepared.machine.cpus) == prepared.machine.threads == 1
