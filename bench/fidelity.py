"""Holds perfcli's GPU-less kernels against a real GPU's: ``make fidelity`` on a machine with one.

Each case is compiled twice: on the device with nothing stood in for, and without it for the same
device's properties. Kernel sources must be equal text for text; registers, spilled words and
shared memory must equal what the driver reports for every candidate launch configuration. Public
architectures are held against it by architectures_on_device.py.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import runpy
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Bundle, Candidate, KernelFacts, Scalar, Target, Variant
from perfcli.worker.process import compile_in_process
from perfcli.workflow.request import build_request

CORNER_CASES = Path(__file__).with_name("corner_cases.py")
GROUPS = ("shipped", "corner cases")


@dataclass(frozen=True, slots=True)
class Case:
    group: str
    name: str
    scenario: str
    params: Mapping[str, Scalar]
    options: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False


@dataclass(slots=True)
class Outcome:
    """What one case showed. ``different`` and ``facts_different`` name what was not equal."""

    case: Case
    kernels: int = 0
    identical: int = 0
    name_only: int = 0
    different: list[str] = field(default_factory=list)
    candidates: int = 0
    equal_candidates: int = 0
    facts_different: list[str] = field(default_factory=list)
    externs_equal: bool = True
    seconds: float = 0.0
    error: str = ""
    sources: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)


def shipped_cases() -> Iterator[Case]:
    for name in registry.names("scenarios"):
        scenario = registry.scenario(name)
        modes = scenario.parameters["mode"].choices if "mode" in scenario.parameters else (None,)
        for preset in ("full", "smoke"):
            for mode in modes or (None,):
                params = dict(scenario.presets.get(preset, {}))
                if mode is not None:
                    params["mode"] = mode
                label = f"{name} {preset} {mode or ''}".strip()
                yield Case("shipped", label, name, params)
    gqa = "gqa-transformer"
    learned: dict[str, Scalar] = {"learned": True, "layers": 3, "mode": "training"}
    yield Case("shipped", "gqa learned", gqa, learned)
    off = {"triton.mix_order_reduction": False}
    yield Case("shipped", "gqa learned, mix-order off", gqa, learned, off)
    yield Case("shipped", "softmax dynamic", "softmax", {}, dynamic=True)
    yield Case("shipped", "softmax split", "softmax", {"rows": 4, "columns": 1048576})


def corner_cases() -> Iterator[Case]:
    functions = runpy.run_path(str(CORNER_CASES)).items()
    for name in sorted(n for n, f in functions if inspect.isfunction(f) and n[0] != "_"):
        for mode in ("forward", "training"):
            yield Case("corner cases", f"{name} {mode}", f"{CORNER_CASES}:{name}", {"mode": mode})


def run_case(case: Case, target: Target, jobs: int) -> Outcome:
    started = time.monotonic()
    outcome = Outcome(case)
    try:
        real = _compile(case, target, jobs, on_device=True)
        offline = _compile(case, target, jobs, on_device=False)
        _compare(real, offline, outcome)
    except PerfcliError as error:
        outcome.error = f"{error}\n{error.detail}"
    outcome.seconds = round(time.monotonic() - started, 1)
    print(_line(outcome), file=sys.stderr, flush=True)
    return outcome


def _compile(case: Case, target: Target, jobs: int, on_device: bool) -> Bundle:
    request = build_request(
        case.scenario,
        Variant("fidelity", case.options),
        params=case.params,
        target=target,
        dynamic=case.dynamic,
        jobs=jobs,
        on_device=on_device,
    )
    return compile_in_process(request, timeout_seconds=500)


def _compare(real: Bundle, offline: Bundle, outcome: Outcome) -> None:
    """Kernels of each graph direction as a multiset of texts: order and numbering of graphs may
    differ where a graph breaks."""
    outcome.kernels = len(real.run.kernels)
    outcome.environment = asdict(real.run.environment)
    outcome.externs_equal = _externs(real) == _externs(offline)
    left = list(offline.run.kernels)
    rest = []
    for kernel in real.run.kernels:
        twin = _take(left, kernel, lambda a, b: a.source == b.source)
        if twin is None:
            rest.append(kernel)
        else:
            outcome.identical += 1
            _compare_facts(kernel, twin, outcome)
    for kernel in rest:
        twin = _take(left, kernel, lambda a, b: a.source_hash == b.source_hash)
        if twin is None:
            outcome.different.append(f"{kernel.graph}: {kernel.name}")
        else:
            outcome.name_only += 1
            _compare_facts(kernel, twin, outcome)
    outcome.different += [f"only offline: {k.graph}: {k.name}" for k in left]
    if outcome.different:
        outcome.sources = {
            "real": {k.name: real.blobs[k.source] for k in rest},
            "offline": {k.name: offline.blobs[k.source] for k in left},
        }


def _take(kernels: list[KernelFacts], like: KernelFacts, equal: Any) -> KernelFacts | None:
    for index, kernel in enumerate(kernels):
        if _direction(kernel) == _direction(like) and equal(kernel, like):
            return kernels.pop(index)
    return None


def _direction(kernel: KernelFacts) -> str:
    return kernel.graph.split()[0]


def _externs(bundle: Bundle) -> Counter[str]:
    counted: Counter[str] = Counter()
    for call in bundle.run.externs:
        counted[call.op] += call.count
    return counted


def _compare_facts(real: KernelFacts, offline: KernelFacts, outcome: Outcome) -> None:
    ours = {_key(c): c for c in offline.candidates}
    for candidate in real.candidates:
        outcome.candidates += 1
        twin = ours.pop(_key(candidate), None)
        if twin is not None and _numbers(twin) == _numbers(candidate):
            outcome.equal_candidates += 1
        else:
            theirs = _numbers(candidate)
            found = _numbers(twin) if twin else "no such candidate"
            outcome.facts_different.append(f"{real.name} {_key(candidate)}: {theirs} / {found}")
    outcome.facts_different += [f"{real.name}: only offline {key}" for key in ours]


def _key(candidate: Candidate) -> str:
    return f"{sorted(candidate.config.items())} w{candidate.num_warps} s{candidate.num_stages}"


def _numbers(candidate: Candidate) -> tuple[Any, ...]:
    # The driver counts the words of the stack.
    words = None if candidate.stack_bytes is None else candidate.stack_bytes // 4
    return (candidate.registers, words, candidate.shared_bytes)


def _is_faithful(o: Outcome) -> bool:
    """A case without kernels or candidates shows nothing: it must not pass."""
    differs = o.error or o.different or o.facts_different or not o.externs_equal
    return not differs and o.kernels > 0 and o.candidates > 0


def _line(o: Outcome) -> str:
    text = (
        f"{o.case.name:44s} {o.identical + o.name_only:4d}/{o.kernels:<4d} bodies "
        f"({o.name_only} name only)  {o.equal_candidates:4d}/{o.candidates:<4d} candidates  "
        f"externs {'equal' if o.externs_equal else 'DIFFER'}  {o.seconds:6.1f} s"
    )
    return f"{text}  {o.error.splitlines()[0]}" if o.error else text


def write_report(path: Path, target: Target, outcomes: list[Outcome]) -> None:
    runs = [o.environment for o in outcomes if o.environment]
    report = {
        "environment": runs[0] if runs else {},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "target": asdict(target),
        "outcomes": [asdict(o) for o in outcomes],
    }
    path.write_text(json.dumps(report, indent=1, default=str))


def page(report: Mapping[str, Any]) -> str:
    """The report as docs/fidelity.md has it."""
    environment = report["environment"]
    lines = [
        "# Fidelity: the kernels of a GPU that is not there",
        "",
        f"`make fidelity` on {report['date'][:10]}, {report['target']['description']}, "
        f"torch {environment['torch']}, triton {environment['triton']}, "
        f"ptxas {environment['ptxas']}, Python {environment['python']}.",
        "",
        "Each case is compiled and run on the device with nothing stood in for, and compiled",
        "without it in another process. *Bodies* are kernel sources equal character by character,",
        "device properties and options in them included; *name only* are those of them that differ",
        "in nothing but the kernel's own name. *Candidates* are launch configurations whose",
        "registers, spilled words and shared memory equal what the driver reports once the binary",
        "is loaded. *Externs* says whether the operators without generated code, and how often",
        "each is called, are the same.",
        "",
        "| case | bodies | name only | candidates | externs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for o in report["outcomes"]:
        bodies = f"{o['identical'] + o['name_only']} of {o['kernels']}"
        candidates = f"{o['equal_candidates']} of {o['candidates']}"
        externs = "equal" if o["externs_equal"] else "differ"
        name = o["case"]["name"]
        if o["error"]:
            lines.append(f"| {name} | failed: {o['error'].splitlines()[0]} | | | |")
        else:
            lines.append(f"| {name} | {bodies} | {o['name_only']} | {candidates} | {externs} |")
    different = [(o["case"]["name"], d) for o in report["outcomes"] for d in o["different"]]
    lines += ["", "## Not identical", ""]
    lines += [f"* {case}: `{text}`" for case, text in different] or ["Nothing."]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("fidelity.json"))
    parser.add_argument("--page", type=Path, help="write the table as Markdown, docs/fidelity.md")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--group", choices=GROUPS)
    parser.add_argument("--parallel", type=int, default=max((os.cpu_count() or 2) // 2, 1))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if not targets.has_gpu():
        print("make fidelity needs a GPU: none found here", file=sys.stderr)
        return 2
    target = targets.this_gpu()
    cases = [*shipped_cases(), *corner_cases()]
    cases = [c for c in cases if options.only in c.name and options.group in (None, c.group)]
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(options.parallel) as threads:
        for outcome in threads.map(lambda c: run_case(c, target, options.jobs), cases):
            outcomes.append(outcome)
            write_report(options.out, target, outcomes)  # a stopped run keeps what it has
    if options.page is not None:
        options.page.write_text(page(json.loads(options.out.read_text())))
    print("\n".join(_line(o) for o in outcomes))
    for group in GROUPS:
        chosen = [o for o in outcomes if o.case.group == group]
        bodies = sum(o.kernels for o in chosen)
        same = sum(o.identical + o.name_only for o in chosen)
        failed = sum(bool(o.error) for o in chosen)
        print(f"{group}: {same} of {bodies} bodies, {failed} of {len(chosen)} cases failed")
    total = sum(o.candidates for o in outcomes)
    equal = sum(o.equal_candidates for o in outcomes)
    print(f"candidates with the driver's registers, spills and shared memory: {equal} of {total}")
    return 0 if outcomes and all(map(_is_faithful, outcomes)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
