"""Every finding that the rules raise over all scenarios, presets, modes and targets, and over each
toggle compared with the default options, held against what a person said of each
(bench/rules_judged.toml), as a page: ``make rules-audit``.

Compiled runs are kept in ``--runs`` so that changed rules are audited in seconds. Ends with 1 where
a finding is judged wrong, has not been judged, a scenario does not keep its promise
(``Scenario.expects``), or something does not compile.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perfcli import diagnosis, units
from perfcli.diff.compare import compare
from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import environment, targets
from perfcli.model import Expectation, Finding, Run, Scenario, Variant
from perfcli.storing import runfile
from perfcli.worker.process import compile_in_process
from perfcli.workflow.request import build_request

JUDGED = Path(__file__).with_name("rules_judged.toml")
TIMEOUT_SECONDS = 1800
FIRST_TARGET = "h100"
"""The target on which the full sizes of scenarios are also compiled with each of their toggles."""


@dataclass(frozen=True, slots=True)
class Case:
    """One compilation."""

    scenario: str
    target: str
    preset: str = "full"
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    dynamic: bool = False

    def __hash__(self) -> int:
        return hash(self.file_name)

    @property
    def what(self) -> str:
        """Everything but the target, in words."""
        settings = [f"{n}={v}" for n, v in {**self.params, **self.options}.items()]
        return " ".join([self.scenario, self.preset, *settings, *["dynamic"] * self.dynamic])

    @property
    def file_name(self) -> str:
        digest = hashlib.sha256(f"{self.what} {self.target}".encode()).hexdigest()[:12]
        return f"{self.scenario}-{self.preset}-{self.target}-{digest}.json"


# --- what is compiled ------------------------------------------------------------------------


def cases(chosen: Sequence[str]) -> Iterator[Case]:
    """Each scenario in each preset and mode, and as its promises have it, for each target; and,
    for one target, with dynamic shapes and each toggle."""
    for name in registry.names("scenarios"):
        scenario = registry.scenario(name)
        for target in chosen:
            for preset in scenario.presets:
                yield Case(name, target, preset)
                yield from (Case(name, target, preset, {"mode": m}) for m in _other_modes(scenario))
            for promise in scenario.expects:
                yield replace(_promised(scenario, promise), target=target)
                if promise.compared:
                    yield replace(_default_of(scenario, promise), target=target)
        yield Case(name, FIRST_TARGET, dynamic=True)
        for toggle in scenario.toggles:
            option, _, value = toggle.partition("=")
            yield Case(name, FIRST_TARGET, options={option: _value(option, value)})


def _other_modes(scenario: Scenario) -> list[Any]:
    mode = scenario.parameters.get("mode")
    return [choice for choice in mode.choices if choice != mode.default] if mode else []


def _value(option: str, text: str) -> Any:
    """A toggle without a value switches off what is on by default."""
    try:
        return json.loads(text) if text else False
    except ValueError:
        return text


def _promised(scenario: Scenario, promise: Expectation) -> Case:
    return Case(
        scenario.name,
        promise.target,
        promise.preset,
        promise.params,
        promise.options,
        promise.dynamic,
    )


def _default_of(scenario: Scenario, promise: Expectation) -> Case:
    return Case(
        scenario.name, promise.target, promise.preset, promise.params, dynamic=promise.dynamic
    )


def compiled(case: Case, folder: Path, jobs: int, cache: str) -> Run | str:
    """The run, compiled or from the folder; or why there is none."""
    path = folder / case.file_name
    if path.exists():
        return runfile.read(path)
    scenario = registry.scenario(case.scenario)
    request = build_request(
        case.scenario,
        Variant("audit", case.options),
        params=registry.resolve_params(scenario, case.preset, case.params),
        target=targets.get(case.target),
        dynamic=case.dynamic,
        jobs=jobs,
        cache_dir=cache,
    )
    try:
        bundle = compile_in_process(request, TIMEOUT_SECONDS)
    except PerfcliError as error:
        return str(error).splitlines()[0]
    runfile.write(bundle, path)
    return bundle.run


# --- what is found ---------------------------------------------------------------------------


@dataclass(slots=True)
class Seen:
    """Equal findings on several targets, one row of the page."""

    code: str
    severity: str
    what: str
    kernel: str
    headline: str
    evidence: tuple[str, ...]
    targets: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return f"{self.code} {self.what} {self.kernel}"


def findings(runs: Mapping[Case, Run]) -> list[Seen]:
    """Of one run, and what only its comparison with the default options shows, both ways. Another
    severity is another finding."""
    seen: dict[tuple[str, ...], Seen] = {}
    for case, run in runs.items():
        found = [(case.what, finding, run) for finding in diagnosis.explain(run)]
        base = runs.get(replace(case, options={})) if case.options else None
        if base:
            found += _between(f"{case.what} against default", base, run)
            found += _between(f"default against {case.what}", run, base)
        for what, finding, named in found:
            kernel = _stems(finding, named)
            one = Seen(
                finding.code, finding.severity, what, kernel, finding.headline, finding.evidence
            )
            known = seen.setdefault((one.key, one.severity), one)
            if case.target not in known.targets:
                known.targets.append(case.target)
    return sorted(seen.values(), key=lambda s: (s.code, s.what, s.kernel, s.severity))


def _between(what: str, base: Run, head: Run) -> list[tuple[str, Finding, Run]]:
    if not base.kernels and not head.kernels:
        return []
    found = diagnosis.diagnose(compare(base, head)).findings
    return [(what, f, base if f.on_base else head) for f in found if not f.appearance]


def _stems(finding: Finding, run: Run) -> str:
    """Names of the kernels without their numbers, which move with every change elsewhere."""
    names = {re.sub(r"(_\d+)+$", "", run.kernels[n].name) for n in finding.kernels}
    return ", ".join(sorted(names)) or finding.subject


def verdicts() -> dict[str, str]:
    """Patterns over ``CODE what kernel`` to what was said of it, the first that fits."""
    return dict(tomllib.loads(JUDGED.read_text(encoding="utf-8"))["judged"])


def verdict(seen: Seen, said: Mapping[str, str]) -> str:
    return next((v for pattern, v in said.items() if re.search(pattern, seen.key)), "")


def promises(runs: Mapping[Case, Run]) -> Iterator[tuple[str, str, str, bool]]:
    """Each promise: what, the codes promised, the codes raised, kept."""
    for name in registry.names("scenarios"):
        scenario = registry.scenario(name)
        for promise in scenario.expects:
            case = _promised(scenario, promise)
            needed = {case, _default_of(scenario, promise)} if promise.compared else {case}
            if not needed <= runs.keys():
                continue
            raised = _raised(case, runs, promise, scenario)
            promised = " ".join(sorted(promise.codes)) or "none"
            what = f"{case.what} {case.target}" + (" against default" * promise.compared)
            yield what, promised, " ".join(raised) or "none", raised == sorted(promise.codes)


def _raised(
    case: Case, runs: Mapping[Case, Run], promise: Expectation, scenario: Scenario
) -> list[str]:
    if not promise.compared:
        return sorted({f.code for f in diagnosis.explain(runs[case])})
    base = runs[_default_of(scenario, promise)]
    found = diagnosis.diagnose(compare(base, runs[case])).findings
    return sorted({f.code for f in found if f.appearance in ("", "new", "worse")})


# --- the page --------------------------------------------------------------------------------


def page(
    runs: Mapping[Case, Run], failures: Mapping[Case, str], seen: Sequence[Seen], judged: list[str]
) -> str:
    torch = sorted({run.environment.torch for run in runs.values()})
    kernels = sum(len(run.kernels) for run in runs.values())
    wrong = sum(text.startswith("wrong") for text in judged)
    unjudged = sum(not text for text in judged)
    lines = [
        "# What the rules say, and whether it is true",
        "",
        "Made by `make rules-audit`. Every shipped scenario in every preset and mode for every "
        f"target, with each of its toggles and with dynamic shapes for {FIRST_TARGET}: "
        f"{len(runs)} runs, {units.count(kernels)} kernels, torch {', '.join(torch)}, "
        f"{datetime.now(UTC):%Y-%m-%d}. "
        f"{len(seen)} different findings: {wrong} wrong, {unjudged} not looked at.",
        "",
        "## Promises of the scenarios",
        "",
        "| compiled | promised | raised | kept |",
        "| --- | --- | --- | --- |",
        *(f"| {w} | {p} | {r} | {'yes' if k else '**no**'} |" for w, p, r, k in promises(runs)),
        "",
    ]
    by_code: dict[str, list[tuple[Seen, str]]] = defaultdict(list)
    for one, said in zip(seen, judged, strict=True):
        by_code[one.code].append((one, said))
    for rule in diagnosis.rules():
        found = by_code.get(rule.code, [])
        lines += [f"## {rule.code} {rule.title}", ""]
        lines += _table(found) if found else ["Not raised.", ""]
    if failures:
        lines += ["## Not compiled", ""]
        lines += [f"* {c.what}, {c.target}: {_cell(why)}" for c, why in failures.items()] + [""]
    return "\n".join(lines)


def _table(found: Sequence[tuple[Seen, str]]) -> list[str]:
    lines = ["| compiled | targets | finding | judged |", "| --- | --- | --- | --- |"]
    for one, said in found:
        text = "<br>".join([f"{one.severity}: {one.headline}", *one.evidence])
        row = (one.what, ", ".join(one.targets), text, said or "**not looked at**")
        lines.append("| " + " | ".join(map(_cell, row)) + " |")
    return [*lines, ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=Path, default=Path(".perfcli/rules-audit"))
    parser.add_argument("--page", type=Path, default=Path("docs/rules-audit.md"))
    parser.add_argument("--targets", default=",".join(targets.TARGETS))
    parser.add_argument("--only", default="", help="cases whose words hold this text")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cache", default=str(environment.cache_dir()))
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    runs: dict[Case, Run] = {}
    failures: dict[Case, str] = {}
    listed = dict.fromkeys(cases(arguments.targets.split(",")))
    wanted = [case for case in listed if arguments.only in case.what]
    for number, case in enumerate(wanted, 1):
        print(f"{number}/{len(wanted)}  {case.what}  {case.target}", flush=True)
        result = compiled(case, arguments.runs, arguments.jobs, arguments.cache)
        if isinstance(result, Run):
            runs[case] = result
        else:
            failures[case] = result
            print(f"    {result}", flush=True)
    seen = findings(runs)
    said = verdicts()
    judged = [verdict(one, said) for one in seen]
    arguments.page.write_text(page(runs, failures, seen, judged), encoding="utf-8")
    broken = [row for row in promises(runs) if not row[3]]
    bad = [text for text in judged if not text or text.startswith("wrong")]
    print(f"{len(seen)} findings, {len(bad)} wrong or not looked at; {len(broken)} broken promises")
    return 1 if bad or broken or failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
