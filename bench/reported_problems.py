"""Publicly reported problems of torch.compile (bench/reported/), each asked of perfcli as its user
would: ``make reported``.

Three questions per report. Of good and bad side compared: is the bad one called worse, is the cause
named, at the top or at all, and the cure? Of the bad side alone: does ``explain`` name the cause?
Of the good twin alone: is ``explain`` silent? Cases with even numbers may be looked at while a rule
is written, those with odd ones may not, so both halves are counted apart.

What a case gave is kept at once in ``--work`` and taken from there while neither perfcli nor the
case has changed. Runs are perfcli's own: a changed rule does not compile anything again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from reported import Reported, Side
from reported_judged import Heard, Judged, Missing, judge
from reported_page import write_page, write_table

ROOT = Path(__file__).resolve().parents[1]
CASES = Path(__file__).with_name("reported")
TIMEOUT_SECONDS = 900
ALLOWED = ("scenario", "params", "mode", "dynamic")


def load_cases(only: Sequence[int] = (), half: str = "") -> dict[str, Reported]:
    """Return the cases by the name of their file, in the order of their numbers."""
    names = [path.stem for path in CASES.glob("*_*.py") if not path.stem.startswith("_")]
    chosen = {name: number_of(name) for name in names}
    if only:
        chosen = {name: number for name, number in chosen.items() if number in only}
    if half:
        chosen = {n: number for n, number in chosen.items() if number % 2 == (half == "odd")}
    ordered = sorted(chosen, key=lambda name: (chosen[name], name))
    return {name: import_module(f"reported.{name}").CASE for name in ordered}


def number_of(name: str) -> int:
    return int(name.rpartition("_")[2])


class Asking:
    """Asks perfcli in processes of its own; runs are stored in the working folder."""

    def __init__(self, work: Path, pythons: Mapping[str, str], address: str = "") -> None:
        self.work, self.pythons, self.address = work, pythons, address
        work.mkdir(parents=True, exist_ok=True)

    def call(self, *arguments: str, codes: Sequence[int] = (0,)) -> str:
        """Return what perfcli prints.

        Raises:
            Missing: it ended with another exit code.
        """
        environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
        paths = [str(ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        done = subprocess.run(
            [sys.executable, "-m", "perfcli", *arguments],
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        if done.returncode not in codes:
            told = [line for line in done.stderr.splitlines() if "perfcli:" in line]
            last = (told or done.stderr.strip().splitlines() or ["it said nothing"])[0]
            raise Missing(f"perfcli {arguments[0]} ended with {done.returncode}: {last}")
        return done.stdout

    @cache  # noqa: B019  # one object per program
    def can_vary(self) -> bool:
        return "--vary" in self.call("run", "--help")

    def compile(self, name: str, case: Reported, side: Side) -> str:
        """Return the id of the run."""
        given = ["run", f"{CASES / name}.py:{side.function}", "--quiet", "--target", case.target]
        for parameter, value in side.params.items():
            given += ["-p", f"{parameter}={_text(value)}"]
        for option, value in side.options.items():
            given += ["-o", f"{option}={_text(value)}"]
        given += ["--dynamic"] * side.dynamic
        if side.vary:
            if not self.can_vary():
                raise Missing("perfcli run has no --vary")
            for parameter, sizes in side.vary.items():
                given += ["--vary", f"{parameter}={','.join(map(str, sizes))}"]
        if side.torch:
            if side.torch not in self.pythons:
                raise Missing(f"torch {side.torch} is not installed: --python {side.torch}=PYTHON")
            given += ["--python", self.pythons[side.torch]]
        if self.address:
            given += ["--executor", "ray", "--address", self.address]
        return self.call(*given).strip().splitlines()[-1]

    def ask(self, name: str, case: Reported) -> Heard:
        good, bad = (self.compile(name, case, side) for side in (case.good, case.bad))
        path = self.work / f"{name}.compared.json"
        allowed = [word for aspect in ALLOWED for word in ("--allow", aspect)]
        report = self.call("compare", good, bad, *allowed, "--json", str(path), codes=(0, 1, 3, 4))
        return Heard(
            json.loads(path.read_text(encoding="utf-8")),
            report.strip().split("\n\n")[0],
            self._explain(bad),
            self._explain(good),
            self._count_kernels(good),
        )

    def _explain(self, run: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.call("explain", run, "--json", "-"))[
            "findings"
        ]
        return found

    def _count_kernels(self, run: str) -> int:
        stored = self.work / ".perfcli" / "runs" / f"{run}.json"
        return len(json.loads(stored.read_text(encoding="utf-8"))["run"]["kernels"])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


# --- results are kept ---------------------------------------------------------------------------


def judge_case(asking: Asking, name: str, case: Reported) -> Judged:
    """Return what the case gave, from the folder if nothing that decides it has changed. Whatever
    goes wrong belongs to this case alone."""
    kept = asking.work / f"{name}.json"
    identity = f"{_hash_code()} {_hash(CASES / f'{name}.py')} {sorted(asking.pythons.items())}"
    if kept.exists():
        known = json.loads(kept.read_text(encoding="utf-8"))
        if known.pop("identity") == identity:
            return Judged(**known)
    try:
        judged = judge(name, case, asking.ask(name, case))
    except Missing as missing:
        judged = Judged(name, missing=str(missing))
    except Exception as error:
        judged = Judged(name, missing=f"{type(error).__name__}: {error}")
    kept.write_text(json.dumps({"identity": identity, **asdict(judged)}), encoding="utf-8")
    return judged


@cache
def _hash_code() -> str:
    digest = hashlib.sha256()
    for path in sorted(_code()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _code() -> Iterator[Path]:
    for folder in ("perfcli", "reports"):
        yield from (ROOT / folder).rglob("*.py")
    yield from (CASES / "__init__.py", *Path(__file__).parent.glob("reported_*.py"))


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _release() -> str:
    """Return the release of torch that perfcli runs with."""
    return version("torch")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", type=int, nargs="+", default=[], help="numbers of issues")
    parser.add_argument("--half", choices=("even", "odd"), default="")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="cases at once")
    parser.add_argument("--python", action="append", default=[], metavar="RELEASE=PYTHON")
    parser.add_argument("--address", default="", help="compile on this Ray cluster, HOST:PORT")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "reported")
    parser.add_argument("--page", type=Path, help="also write a Markdown page")
    arguments = parser.parse_args()
    cases = load_cases(arguments.only, arguments.half)
    if not cases:
        parser.error("no case has these numbers")
    pythons = dict(each.split("=", 1) for each in arguments.python)
    asking = Asking(arguments.work.resolve(), pythons, arguments.address)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        judged = {}
        for one in pool.map(lambda item: judge_case(asking, *item), cases.items()):
            judged[one.name] = one
            print(f"{len(judged)}/{len(cases)} {one.line}", flush=True)
    print(write_table(cases, judged))
    if arguments.page:
        arguments.page.write_text(write_page(cases, judged, _release()), encoding="utf-8")
    return 1 if any(one.misled for one in judged.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
