"""Plants mutations in the rooms that decide verdicts, and counts how many the tests catch.

python bench/mutants.py [--sample N | --sample all] [--room NAME ...] [--only PREFIX] [--seed N]
                        [--jobs N] [--reach FILE] [--out FILE]

The mutations are cosmic-ray's operators. Its own runner is not used: it writes each mutant into
the work tree and starts Python and pytest anew for it, and mutmut copies packages by their folder,
which perfcli's (kernels/, reports/ and scenarios/ beside perfcli/) are not found by. Here a process
that has imported numpy, scipy and pytest forks for each mutant, and its child imports the mutated
text in place of one module and runs the tests; no file is touched. What a test starts as a process
of its own imports the code as it is.

The fast tests (of these rooms and of the command line, without torch) are run once unmutated, to
note which of them call which function. A mutant is tested by those that call its function: first
the ones that mirror its module, then those of its room, then the others, the quick ones first,
until together they take longer than a limit; of a function that no test is noted for, those that
call another one of its room. With --reach the note is kept in a file and read from there.

A sample is drawn by seed, as many from each room as its share of all, each place in the code at
most once. Survivors are listed in the file --out; those that no test can catch, because they do
not change what the code does, stand in bench/mutants_equivalent.txt with the reason.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import itertools
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.txt")
BAR = 0.85

# What is mutated, and the tests beside it.
ROOMS = {
    "perfcli/diff": "tests/unit/diff",
    "perfcli/stats": "tests/unit/stats",
    "perfcli/gate": "tests/unit/gate",
    "perfcli/search": "tests/unit/search",
    "perfcli/facts/occupancy.py": "tests/unit/facts/test_occupancy.py",
    "perfcli/facts/binary/sass.py": "tests/unit/facts/test_sass.py",
    "perfcli/storing": "tests/unit/storing",
    "perfcli/predict": "tests/unit/predict",
}
FAST_TESTS = (
    *(f"tests/unit/{room}" for room in ("bisect", "diff", "facts", "gate", "interleave")),
    *(f"tests/unit/{room}" for room in ("predict", "search", "stats", "storing")),
    "tests/cli",
)
# How long the tests of one mutant may take when nothing is mutated.
SECONDS_OF_TESTS = 30.0
# These need names to put in, or remove what only a type checker reads.
OPERATORS_LEFT_OUT = ("VariableReplacer", "VariableInserter", "RemoveDecorator")
# These do the same: texts and small numbers are one object each.
SAME = ("_Eq_Is", "_NotEq_IsNot", "_Is_Eq", "_IsNot_NotEq")
SLOWDOWN_ALLOWED = 4.0

Place = tuple[int, int]
Reach = dict[str, tuple[float, frozenset[str]]]
"""Of each test its seconds and the functions that it calls."""


@dataclass(frozen=True, slots=True)
class Mutant:
    room: str
    file: str
    place: Place
    operator: str
    occurrence: int

    @property
    def name(self) -> str:
        return f"{self.file}:{self.place[0]}:{self.place[1]} {self.operator}"


@dataclass(frozen=True, slots=True)
class Planted:
    mutant: Mutant
    text: str
    """The whole mutated file."""
    was: str
    became: str
    """The line that changed."""

    @property
    def key(self) -> str:
        """What it changes, without line numbers, which move."""
        return f"{self.mutant.file} | {self.was} | {self.became}"


def main() -> int:
    options = _read_options()
    everything = {
        room: [each for each in _list_mutants(room) if each.file.startswith(options.only)]
        for room in options.room or ROOMS
    }
    chosen = list(_draw(everything, options.sample, options.seed))
    total = sum(map(len, everything.values()))
    print(f"{len(chosen)} of {total} mutants, seed {options.seed}", flush=True)
    _import_heavy()
    reach = _find_reach(Path(options.reach) if options.reach else None)
    _check_untouched(chosen, reach)
    survivors = []
    for planted, caught in _test_all(chosen, reach, options.jobs):
        if not caught:
            survivors.append(planted)
            print(f"survived: {planted.key}", flush=True)
    return _report(chosen, survivors, Path(options.out))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sample", default="400", help="how many mutants, or all")
    parser.add_argument("--room", action="append", choices=list(ROOMS))
    parser.add_argument("--only", default="", metavar="PREFIX", help="files that begin so")
    parser.add_argument("--reach", metavar="FILE", help="where it is kept which test calls what")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="build/mutants.txt")
    return parser.parse_args()


# --- the mutants -----------------------------------------------------------------------------


def _list_mutants(room: str) -> Iterator[Mutant]:
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.provider import OperatorProvider

    provider = OperatorProvider()
    names = [
        name for name in provider if name not in OPERATORS_LEFT_OUT and not name.endswith(SAME)
    ]
    start = ROOT / room
    for path in [start] if start.is_file() else sorted(start.rglob("[!_]*.py")):
        source = path.read_text(encoding="utf-8")
        unread = _find_unread(source)
        nodes = list(ast_nodes(get_ast(source)))
        for name in names:
            operator = provider[name]()
            places = [p[0] for node in nodes for p in operator.mutation_positions(node)]
            for occurrence, place in enumerate(places):
                if not any(first <= place < last for first, last in unread):
                    file = path.relative_to(ROOT).as_posix()
                    yield Mutant(room, file, place, name, occurrence)


def _find_unread(source: str) -> list[tuple[Place, Place]]:
    """Return the places that are never evaluated, only describe a type or only assert: annotations,
    the arguments of ``@dataclass``, ``strict`` of ``zip``, ``frozen`` of a class."""
    parts: list[Any] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.arg | ast.AnnAssign):
            parts.append(node.annotation)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "TypeAlias":
            parts.append(node.value)
        if isinstance(node, ast.FunctionDef):
            parts.append(node.returns)
        if isinstance(node, ast.ClassDef):
            parts += node.decorator_list
        if isinstance(node, ast.keyword) and node.arg in ("strict", "frozen"):
            parts.append(node.value)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.append(node)
    return [
        ((part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset))
        for part in parts
        if part is not None
    ]


def _draw(everything: dict[str, list[Mutant]], sample: str, seed: int) -> Iterator[Planted]:
    """Yield the mutants to test; with a sample, a place of the code comes once at most."""
    chance = random.Random(seed)
    total = sum(map(len, everything.values()))
    for mutants in everything.values():
        by_place: dict[tuple[str, Place], list[Mutant]] = {}
        for mutant in mutants:
            by_place.setdefault((mutant.file, mutant.place), []).append(mutant)
        if sample == "all":
            yield from filter(None, map(_mutate, mutants))
            continue
        if not mutants:
            continue
        wanted = max(1, round(int(sample) * len(mutants) / total))
        places = chance.sample(sorted(by_place), min(wanted, len(by_place)))
        for place in sorted(places):
            possible = by_place[place]
            found = map(_mutate, chance.sample(possible, len(possible)))
            yield from itertools.islice(filter(None, found), 1)


def _mutate(mutant: Mutant) -> Planted | None:
    """Return the file as it becomes, or nothing where that means the same or is no Python."""
    from cosmic_ray.ast import get_ast
    from cosmic_ray.mutating import MutationVisitor
    from cosmic_ray.operators.provider import OperatorProvider

    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    visitor = MutationVisitor(mutant.occurrence, OperatorProvider()[mutant.operator]())
    try:
        text: str = visitor.walk(get_ast(source)).get_code()
    except AttributeError:  # it can't replace an exception with a dot in its name
        return None
    try:
        trees = ast.parse(source), ast.parse(text)
        if ast.dump(trees[0]) == ast.dump(trees[1]) or len(set(map(_count_markers, trees))) > 1:
            return None
    except SyntaxError:
        return None
    pairs = itertools.zip_longest(source.splitlines(), text.splitlines(), fillvalue="")
    was, became = next(pair for pair in pairs if pair[0] != pair[1])
    return Planted(mutant, text, was.strip(), became.strip())


def _count_markers(tree: ast.AST) -> int:
    """Count the parameters that no name can be given for: ``*`` among parameters multiplies
    nothing, and is no operator to replace."""
    return sum(len(node.posonlyargs) for node in ast.walk(tree) if isinstance(node, ast.arguments))


# --- running ---------------------------------------------------------------------------------


def _import_heavy() -> None:
    """Import what every child would import, but nothing of perfcli."""
    for name in ("numpy", "scipy.stats", "scipy.optimize", "hypothesis", "_pytest.python"):
        importlib.import_module(name)
    for name in ("msgspec", "rich.table", "rich.progress", "typer", "jinja2", "yaml", "pandas"):
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds one module by its file and loads the mutated text."""

    def __init__(self, file: Path, text: str) -> None:
        self.file = str(file)
        self.text = text
        self.busy = False

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if self.busy or not name.startswith("perfcli.") or name.split(".")[-1] not in self.file:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        if spec is None or spec.origin != self.file:
            return None
        return importlib.util.spec_from_file_location(name, self.file, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.text, self.file, "exec")

    def get_source(self, fullname: str) -> str:
        return self.text

    def get_filename(self, fullname: str) -> str:
        return self.file


class _Calls:
    """A plugin of pytest that notes which functions of the mutated files each test calls; what a
    fixture of several tests calls counts for each of them."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, set[str]] = {}
        self.of_fixtures: dict[str, set[str]] = {}
        self.current: set[str] = set()
        self.failed: set[str] = set()
        self.roots = tuple(str(ROOT / room) for room in ROOMS)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self.roots):
            file = os.path.relpath(code.co_filename, ROOT)
            self.current.add(_name_function(file, code.co_qualname))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        outside, self.current = self.current, set()
        try:
            return (yield)
        finally:
            self.of_fixtures.setdefault(fixturedef.argname, set()).update(self.current)
            self.current = outside

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.current = set()
        started = time.perf_counter()
        sys.settrace(self._note)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self.seconds[item.nodeid] = time.perf_counter() - started
            shared = (self.of_fixtures.get(name, ()) for name in item.fixturenames)
            self.calls[item.nodeid] = self.current.union(*shared)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


def _name_function(file: str, qualified: str) -> str:
    """Name a function or method by its file; what is defined inside of it counts as itself."""
    return f"{file}::{qualified.partition('.<locals>')[0]}"


def _find_reach(kept: Path | None) -> Reach:
    """Run the fast tests once, in a child, or read what was noted when they were."""
    file = (kept or ROOT / "build/mutants-reach.json").resolve()
    if kept is None or not kept.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        _, status = os.waitpid(_fork(lambda: _write_reach(file)), 0)
        if status:
            raise SystemExit("the tests can't be run (MUTANTS_SHOW=1 shows why)")
    noted = json.loads(file.read_text(encoding="utf-8"))
    return {test: (seconds, frozenset(calls)) for test, (seconds, calls) in noted.items()}


def _write_reach(file: Path) -> int:
    """Write what each test calls; nothing for one that fails here, so that no mutant gets it."""
    calls = _Calls()
    code = _run_pytest(FAST_TESTS, ["--maxfail=20"], calls)
    noted = {
        test: (calls.seconds[test], [] if test in calls.failed else sorted(each))
        for test, each in calls.calls.items()
    }
    file.write_text(json.dumps(noted), encoding="utf-8")
    return 0 if code in (0, pytest.ExitCode.TESTS_FAILED) and len(calls.failed) < 20 else 1


class _Choice:
    """A plugin of pytest that keeps of the collected tests those that a mutant needs, in order."""

    def __init__(self, order: Sequence[str], known: Collection[str]) -> None:
        self.rank = {test: rank for rank, test in enumerate(order)}
        self.known = known

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = [each for each in items if each.nodeid in self.rank or each.nodeid not in self.known]
        items[:] = sorted(kept, key=lambda item: self.rank.get(item.nodeid, -1))


def _list_stages(mutant: Mutant, reach: Reach) -> Iterator[tuple[list[str], list[str]]]:
    """Yield files of tests to run one after the other, and which of the noted tests in them."""
    beside = ROOMS[mutant.room]
    stem = Path(mutant.file).stem
    mirrors = (
        [ROOT / beside] if beside.endswith(".py") else (ROOT / beside).rglob(f"test_{stem}.py")
    )
    nearest = sorted(path.relative_to(ROOT).as_posix() for path in mirrors)
    yield nearest, [t for t, each in reach.items() if each[1] and t.partition("::")[0] in nearest]
    function = _find_function(mutant)
    if not any(function in calls for _, calls in reach.values()):
        function = None  # it is new, or called otherwise, since that was noted
    left = SECONDS_OF_TESTS
    near: list[tuple[float, str]] = []
    far: list[tuple[float, str]] = []
    for test, (seconds, calls) in sorted(reach.items(), key=lambda each: each[1][0]):
        file = test.partition("::")[0]
        called = function in calls if function else _touch(calls, mutant)
        if file not in nearest and called:
            (near if file.startswith(beside) else far).append((seconds, test))
    for tests in (near, far):
        chosen = []
        for seconds, test in tests:
            left -= seconds
            if left > 0:
                chosen.append(test)
        yield sorted({test.partition("::")[0] for test in chosen}), chosen


def _touch(calls: Collection[str], mutant: Mutant) -> bool:
    """Tell whether one of the functions is in the file, or in the room of a file without any."""
    return any(each.startswith((f"{mutant.file}::", f"{mutant.room}/")) for each in calls)


def _find_function(mutant: Mutant) -> str | None:
    """Return the function or method that the mutant is in, or nothing for a module's own lines."""
    tree = ast.parse((ROOT / mutant.file).read_text(encoding="utf-8"))
    names = []
    inside: ast.AST | None = tree
    while inside is not None and not isinstance(inside, ast.FunctionDef):
        inside = next(
            (
                node
                for node in ast.iter_child_nodes(inside)
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
                and (node.lineno, 0) <= mutant.place < (node.end_lineno or 0, 1_000_000)
            ),
            None,
        )
        if inside is not None:
            names.append(inside.name)
    return _name_function(mutant.file, ".".join(names)) if inside is not None else None


def _check_untouched(chosen: Sequence[Planted], reach: Reach) -> None:
    """Raise SystemExit where the tests of a room's first mutant fail without it."""
    first = {planted.mutant.room: planted for planted in reversed(chosen)}
    for room, planted in first.items():
        text = (ROOT / planted.mutant.file).read_text(encoding="utf-8")
        child = _fork(partial(_test, replace(planted, text=text), reach))
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"tests of {room} fail without a mutation (MUTANTS_SHOW=1 shows them)")


def _test_all(chosen: Sequence[Planted], reach: Reach, jobs: int) -> Iterator[tuple[Planted, bool]]:
    """Yield each mutant and whether a test fails with it; one that hangs is noticed, too."""
    waiting = list(reversed(chosen))
    running: dict[int, tuple[Planted, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            planted = waiting.pop()
            limit = 60 + SLOWDOWN_ALLOWED * SECONDS_OF_TESTS
            child = _fork(partial(_test, planted, reach))
            running[child] = planted, time.monotonic() + limit
        for child, (planted, until) in list(running.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                yield planted, status != 0
            elif time.monotonic() > until:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                yield planted, True
            else:
                continue
            del running[child]
        time.sleep(0.02)


def _fork(work: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()
            code = work()
        finally:
            os._exit(code)
    return child


def _test(planted: Planted, reach: Reach) -> int:
    for files, tests in _list_stages(planted.mutant, reach):
        if files and (stage := os.fork()) == 0:
            code = 99
            try:
                sys.meta_path.insert(0, _Finder(ROOT / planted.mutant.file, planted.text))
                code = _run_pytest(files, ["-x"], _Choice(tests, reach))
            finally:
                os._exit(0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else code)
        if files and os.waitpid(stage, 0)[1]:
            return 1
    return 0


def _run_pytest(tests: Sequence[str], more: Sequence[str], *plugins: object) -> int:
    if not os.environ.get("MUTANTS_SHOW"):
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    settings = [*more, "-q", "-n0", "-m", "not torch and not gpu", "-p", "no:cacheprovider"]
    # pytest's own import hook would come before ours.
    settings += ["--assert=plain", "-W", "ignore", "-o", "addopts=--import-mode=importlib"]
    return int(pytest.main([*settings, *tests], plugins=plugins))


# --- what is said ----------------------------------------------------------------------------


def _read_equivalent() -> set[str]:
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def _report(chosen: Sequence[Planted], survivors: Sequence[Planted], out: Path) -> int:
    equivalent = _read_equivalent()
    real = [planted for planted in survivors if planted.key not in equivalent]
    excused = len(survivors) - len(real)
    out.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{p.mutant.name}\n{p.key}\n\n" for p in real)
    out.write_text("".join(lines), encoding="utf-8")
    for room in ROOMS:
        among = [p for p in chosen if p.mutant.room == room and p.key not in equivalent]
        left = sum(p.mutant.room == room for p in real)
        if among:
            print(f"{room}: {len(among) - left} of {len(among)} caught")
    fair = len(chosen) - excused
    score = (fair - len(real)) / fair if fair else 1.0
    good = score >= BAR
    print(
        f"score {score:.1%} ({fair - len(real)} of {fair}; {excused} equivalent); bar {BAR:.0%}: "
        f"{'good' if good else 'MISSED'}; survivors in {out}"
    )
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
