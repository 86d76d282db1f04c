"""Does the gate catch planted regressions, and does it let harmless edits pass?

A team's repository (tests/fixtures/gate: a training step, an encoder, a sampler, a quantiser) gets
a baseline once. Then each edit is applied to it alone, as a pull request would, and ``perfcli
gate`` runs as CI runs it. Caught means exit code 1, and that the number the edit is known to worsen
is worse in what was compiled, by at least as much as is said of it; passed means exit code 0.

    python bench/gate_planted.py [--smoke] [--only NAME …] [--markdown docs/gate-planted.md]

Exit code 1 where a planted regression is not caught or a harmless edit fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gate_planted_edit import Edit, apply, lay_out
from gate_planted_encoder import ENCODER
from gate_planted_harmless import HARMLESS
from gate_planted_rows import ROWS
from gate_planted_table import markdown, row
from gate_planted_training import TRAINING

PLANTED = (*TRAINING, *ENCODER, *ROWS)
# Of the checks that compile fastest, and these alone.
SMOKE = (
    "no-online-softmax", "bias-per-row", "float-copy", "no-splits", "by-row",
    "rename-function", "comments", "move-helper", "type-hints", "logging-outside",
)  # fmt: skip
SMOKE_CHECKS = ("sampler", "quantiser")
REPORT = "gate.json"
PER_KERNEL = ("load_bits", "occupancy")
"""Of which more is better, and which no total sums up."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one edit."""

    edit: Edit
    exit_code: int
    seconds: float
    by: tuple[str, ...] = ()
    """What failed, as the gate says it, gravest first."""
    before: float | None = None
    after: float | None = None
    """Of the metric that the edit worsens."""
    stderr: str = field(default="", repr=False)

    @property
    def right(self) -> bool:
        if not self.edit.metric:
            return self.exit_code == 0
        return self.exit_code == 1 and self.planted

    @property
    def planted(self) -> bool:
        """Whether the edit made its own number worse, whatever the gate thinks of it."""
        if self.before is None or self.after is None:
            return False
        less_is_worse = self.edit.metric in PER_KERNEL
        return self.after < self.before if less_is_worse else self.after > self.before


def perfcli(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "perfcli", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def prepared(folder: Path, checks: Sequence[str] = ()) -> None:
    """The repository with its baseline. Raises RuntimeError where that fails."""
    lay_out(folder)
    made = perfcli(folder, "baseline", "update", "--reason", "before any edit", "-q", *checks)
    if made.returncode:
        raise RuntimeError(f"no baseline:\n{made.stderr}")


def tried(edit: Edit, folder: Path, checks: Sequence[str] = ()) -> Outcome:
    lay_out(folder)
    apply(edit, folder)
    report = folder / REPORT
    report.unlink(missing_ok=True)
    begun = time.monotonic()
    done = perfcli(folder, "gate", "--quiet", "--json", REPORT, *checks)
    seconds = time.monotonic() - begun
    document = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    before, after = _numbers(edit, document)
    by = tuple(_reasons(document))
    return Outcome(edit, done.returncode, seconds, by, before, after, done.stderr)


def _reasons(document: dict[str, Any]) -> Iterator[str]:
    for check in document.get("checks", []):
        name = check["name"].partition("@")[0]
        if check["fault"]:
            yield f"{name}: {check['fault']}"
        for limit in check["limits"]:
            if limit["state"] == "broken":
                yield f"{name}: {limit['text']}"
        for finding in check["findings"]:
            if finding["state"] == "broken":
                yield f"{name}: {_said(check, finding)}"


def _said(check: dict[str, Any], finding: dict[str, Any]) -> str:
    said = check["comparison"]["findings"][finding["finding"]]
    return f"{said['code']} {said['headline']}"


def _numbers(edit: Edit, document: dict[str, Any]) -> tuple[float | None, float | None]:
    """The edit's metric on both sides: a total's sum over all checks, one kernel's, or how many
    findings of a rule the comparison says came and went."""
    comparisons = [c["comparison"] for c in document.get("checks", []) if c["comparison"]]
    if not edit.metric or not comparisons:
        return None, None
    if edit.metric in PER_KERNEL:
        return _of_a_kernel(edit.metric, document)
    if edit.metric.startswith("PC"):
        return _findings(edit.metric, comparisons)
    totals = [c["totals"][edit.metric] for c in comparisons if edit.metric in c["totals"]]
    return tuple(sum(t[side] or 0 for t in totals) for side in ("base", "head"))  # type: ignore[return-value]


def _of_a_kernel(metric: str, document: dict[str, Any]) -> tuple[float | None, float | None]:
    """Of the kernel that lost the largest part of it."""
    limits = [i for check in document["checks"] for i in check["limits"] if i["metric"] == metric]
    known = [(i["base"], i["head"]) for i in limits if i["base"] and i["head"] is not None]
    return min(known, key=lambda pair: pair[1] / pair[0], default=(None, None))


def _findings(code: str, comparisons: Sequence[dict[str, Any]]) -> tuple[float, float]:
    known = [f["appearance"] for c in comparisons for f in c["findings"] if f["code"] == code]
    before = sum(a in ("same", "worse", "better", "gone") for a in known)
    return float(before), float(sum(a != "gone" for a in known))


def chosen(arguments: argparse.Namespace) -> list[Edit]:
    every = {edit.name: edit for edit in (*PLANTED, *HARMLESS)}
    names = list(SMOKE) if arguments.smoke else arguments.only or list(every)
    unknown = [name for name in names if name not in every]
    if unknown:
        raise SystemExit(f"no edit {', '.join(unknown)}; there are {', '.join(every)}")
    return [every[name] for name in names]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these edits alone")
    parser.add_argument("--smoke", action="store_true", help="ten of the fastest")
    parser.add_argument("--checks", nargs="+", default=(), metavar="CHECK", help="these alone")
    parser.add_argument("--folder", type=Path, help="work there, and leave it")
    parser.add_argument("--markdown", type=Path, help="write the table")
    arguments = parser.parse_args(argv)
    edits = chosen(arguments)
    checks = SMOKE_CHECKS if arguments.smoke else arguments.checks
    with tempfile.TemporaryDirectory(prefix="perfcli-planted-") as made:
        folder = arguments.folder or Path(made)
        prepared(folder, checks)
        none = tried(Edit("none", "nothing", ()), folder, checks)
        print(row(none), flush=True)
        outcomes = []
        for edit in edits:
            outcomes.append(tried(edit, folder, checks))
            print(row(outcomes[-1]), flush=True)
            if outcomes[-1].exit_code not in (0, 1):
                print(outcomes[-1].stderr)
    if arguments.markdown:
        arguments.markdown.write_text(markdown(outcomes), encoding="utf-8")
    planted = [o for o in outcomes if o.edit.metric]
    harmless = [o for o in outcomes if not o.edit.metric]
    print(f"{sum(o.right for o in planted)} of {len(planted)} planted regressions caught")
    print(f"{sum(not o.right for o in harmless)} of {len(harmless)} harmless edits failed")
    return 0 if none.right and all(o.right for o in outcomes) else 1


if __name__ == "__main__":
    raise SystemExit(main())
