"""How long bisect-config searches the whole catalogue, and what it collapses to.

``python bench/bisect_catalogue.py --jobs 2`` searches gqa-transformer smoke, cold (nothing is
resumed; kernels that were compiled earlier are on disk, so a metric of the code says most).
``--verify`` then compiles every single change from the start, also those that were inferred not to
change the code because nobody reads their option, and says where the search had another code. For
docs/bisect.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from perfcli.bisect.file import FOLDER
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Generated, Variant
from perfcli.worker.template import TemplateProcess
from perfcli.workflow.request import build_request


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", default="gqa-transformer")
    parser.add_argument("--preset", default="smoke")
    parser.add_argument("--metric", default="loads")
    parser.add_argument("--direction", default="improve")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verify", action="store_true")
    asked = parser.parse_args()
    found, state, seconds = searched(asked)
    cost, changes = found["cost"], found["changes"]
    effects = found["improvement"]["effects"]
    alone = {effect["code"] for effect in effects}
    print(f"{len({c['option'] for c in changes})} options, {len(changes)} changes")
    print(
        f"{cost['compiled']} compiled, {cost['inferred']} inferred, {cost['failed']} failed; "
        f"{cost['classes']} classes of identical code, {len(alone - {None})} of them alone"
    )
    print(f"{seconds:.0f} s wall, {cost['seconds']:.0f} s searching, {asked.jobs} jobs")
    return wrong(asked, state, len(changes)) if asked.verify else 0


def searched(asked: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any], float]:
    """The document, the state, and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "perfcli", "bisect-config", asked.scenario]
        command += ["--preset", asked.preset, "-m", asked.metric, "-j", str(asked.jobs)]
        command += ["--direction", asked.direction, "--target", "h100", "--json", "found.json"]
        root = str(Path(__file__).parents[1])
        began = time.monotonic()
        subprocess.run(command, cwd=folder, check=True, env={**os.environ, "PYTHONPATH": root})
        seconds = time.monotonic() - began
        found = json.loads(Path(folder, "found.json").read_text())
        state = json.loads(Path(folder, FOLDER, f"{found['id']}.json").read_text())
        return found, state, seconds


def wrong(asked: argparse.Namespace, state: dict[str, Any], changes: int) -> int:
    """Compiles single changes from the start; 1 where the code, or the failure, is another."""
    # They are tried first, after what has no change.
    singles = state["tests"][: 1 + changes]
    misses = []
    for inferred, what in ((False, "as compiled from the start"), (True, "inferred as compiled")):
        tests = [test for test in singles if test["inferred"] == inferred]
        found = [t for t, code in compiled(asked, tests) if code != (t["code"] or t["failure"])]
        print(f"{len(tests) - len(found)} of {len(tests)} {what}")
        misses += found
    for test in misses:
        print(f"wrong: {test['settings']}")
    return 1 if misses else 0


def compiled(
    asked: argparse.Namespace, tests: list[dict[str, Any]]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Each with what it is compiled to, no process having anything in common with another."""
    scenario = registry.scenario(asked.scenario)
    base = build_request(
        asked.scenario,
        Variant("base"),
        params=registry.resolve_params(scenario, asked.preset, {}),
        target=targets.get("h100"),
        jobs=asked.jobs,
    )
    template = TemplateProcess()
    try:
        for start in range(0, len(tests), asked.jobs):
            batch = tests[start : start + asked.jobs]
            requests = [replace(base, variant=Variant("", test["settings"])) for test in batch]
            for number, made in template.generate(requests):
                yield batch[number], made.code if isinstance(made, Generated) else str(made)
    finally:
        template.close()


if __name__ == "__main__":
    sys.exit(main())
