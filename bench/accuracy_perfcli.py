"""One pair through perfcli's command line, as a user would type it."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from accuracy_records import Campaign, Pair

START_SECONDS = 900.0
"""For compiling both sides on a busy machine, beside the time for measuring."""


def command(campaign: Campaign, pair: Pair) -> list[str]:
    """``perfcli noise`` on one pair of workers."""
    scenario = campaign.scenario
    path, colon, name = scenario.partition(":")
    if Path(path).exists():
        scenario = f"{Path(path).absolute()}{colon}{name}"
    given = [part for assignment in campaign.params for part in ("-p", assignment)]
    slow = ["--slow-head", f"{campaign.planted:g}"] if campaign.planted else []
    return [
        *("noise", scenario, "--device", "cpu", "--preset", campaign.preset, *given),
        *("--pairs", "1", "--budget", f"{campaign.seconds:g}", *slow),
        *("--seed", str(pair.seed), "--json", "-"),
    ]


def measured(campaign: Campaign, pair: Pair) -> dict[str, Any]:
    """What perfcli says of a fresh pair. It runs in a folder of its own, and with a cache of the
    campaign's own, that holds compiled kernels: one pair alone never stores a noise floor."""
    with tempfile.TemporaryDirectory(prefix="perfcli-accuracy-") as folder:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", "perfcli", *command(campaign, pair)],
            cwd=folder,
            env={**os.environ, "PERFCLI_CACHE_DIR": _cache()},
            capture_output=True,
            text=True,
            timeout=START_SECONDS + campaign.seconds,
            check=False,
        )
    try:
        return said(json.loads(ended.stdout))
    except (ValueError, LookupError) as error:
        text = (ended.stderr or ended.stdout).strip()[-500:]
        return {"verdict": "failed", "why": f"exit {ended.returncode}, {error!r}: {text}"}


@functools.cache
def _cache() -> str:
    folder = tempfile.mkdtemp(prefix="perfcli-accuracy-cache-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def said(document: Mapping[str, Any]) -> dict[str, Any]:
    """The only pair of what ``perfcli noise --json`` writes. Raises LookupError where it has none,
    or not these fields."""
    (pair,) = document["pairs"] or [{}]
    found = {key: pair[key] for key in ("verdict", "ratio", "low", "high", "rounds", "seconds")}
    floor = document["used_floor"] or {}
    return {**found, "floor": floor.get("relative"), "why": pair["why"] or pair["stopped"]}
