"""Plants mutations in the rooms that decide verdicts, and counts how many the tests catch.

python bench/mutants.py [--sample N | --sample all] [--room NAME ...] [--seed N] [--out FILE]

The mutations are cosmic-ray's operators. Its own runner is not used: it writes each mutant into
the work tree and starts Python and pytest anew for it, and mutmut copies packages by their folder,
which perfcli's (kernels/, reports/ and scenarios/ beside perfcli/) are not found by. Here a process
that has imported numpy, scipy and pytest forks for each mutant, and its child imports the mutated
text in place of one module and runs the tests of that module's room; no file is touched. What a
test starts as a process of its own imports the code as it is.

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
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.txt")
BAR = 0.85

# What is mutated, and the tests that have to notice; the module's own run first.
ROOMS = {
    "perfcli/diff": ("tests/unit/diff", "tests/cli/test_compare.py"),
    "perfcli/stats": ("tests/unit/stats",),
    "perfcli/gate": (
        "tests/unit/gate",
        "tests/cli/test_gate.py",
        "tests/cli/test_gate_messages.py",
    ),
    "perfcli/search": ("tests/unit/search",),
    "perfcli/facts/occupancy.py": ("tests/unit/facts/test_occupancy.py",),
    "perfcli/facts/binary/sass.py": ("tests/unit/facts/test_sass.py",),
    "perfcli/storing": ("tests/unit/storing",),
}
# These need names to put in, or remove what only a type checker reads.
OPERATORS_LEFT_OUT = ("VariableReplacer", "VariableInserter", "RemoveDecorator")
# These do the same: texts and small numbers are one object each, and zip's ``strict`` asserts what
# holds.
SAME = ("_Eq_Is", "_NotEq_IsNot", "_Is_Eq", "_IsNot_NotEq")
SLOWDOWN_ALLOWED = 4.0

Place = tuple[int, int]


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
    everything = {room: list(_list_mutants(room)) for room in options.room or ROOMS}
    chosen = list(_draw(everything, options.sample, options.seed))
    total = sum(map(len, everything.values()))
    print(f"{len(chosen)} of {total} mutants, seed {options.seed}", flush=True)
    _import_heavy()
    seconds = {room: _time_untouched(room) for room in everything}
    survivors = []
    for planted, caught in _test_all(chosen, seconds, options.jobs):
        if not caught:
            survivors.append(planted)
            print(f"survived: {planted.key}", flush=True)
    return _report(chosen, survivors, Path(options.out))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sample", default="400", help="how many mutants, or all")
    parser.add_argument("--room", action="append", choices=list(ROOMS))
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
    the arguments of ``@dataclass``, ``strict`` of ``zip``."""
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
        if isinstance(node, ast.keyword) and node.arg == "strict":
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
    text: str = visitor.walk(get_ast(source)).get_code()
    try:
        if ast.dump(ast.parse(text)) == ast.dump(ast.parse(source)):
            return None
    except SyntaxError:
        return None
    pairs = itertools.zip_longest(source.splitlines(), text.splitlines(), fillvalue="")
    was, became = next(pair for pair in pairs if pair[0] != pair[1])
    return Planted(mutant, text, was.strip(), became.strip())


# --- running ---------------------------------------------------------------------------------


def _import_heavy() -> None:
    """Import what every child would import, but nothing of perfcli."""
    for name in (
        "numpy",
        "scipy.stats",
        "scipy.optimize",
        "hypothesis",
        "pytest",
        "_pytest.python",
    ):
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


def _time_untouched(room: str) -> float:
    started = time.perf_counter()
    _, status = os.waitpid(_start(room, None), 0)
    if status:
        raise SystemExit(f"the tests of {room} fail without a mutation (MUTANTS_SHOW=1 shows them)")
    return time.perf_counter() - started


def _test_all(
    chosen: Sequence[Planted], seconds: dict[str, float], jobs: int
) -> Iterator[tuple[Planted, bool]]:
    """Yield each mutant and whether a test fails with it; one that hangs is noticed, too."""
    waiting = list(reversed(chosen))
    running: dict[int, tuple[Planted, float]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            planted = waiting.pop()
            limit = 30 + SLOWDOWN_ALLOWED * seconds[planted.mutant.room]
            running[_start(planted.mutant.room, planted)] = planted, time.monotonic() + limit
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


def _start(room: str, planted: Planted | None) -> int:
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.setsid()
            code = _test(room, planted)
        finally:
            os._exit(code)
    return child


def _test(room: str, planted: Planted | None) -> int:
    import pytest

    if not os.environ.get("MUTANTS_SHOW"):
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    tests = list(ROOMS[room])
    if planted is not None:
        file = ROOT / planted.mutant.file
        sys.meta_path.insert(0, _Finder(file, planted.text))
        nearest = (ROOT / "tests/unit").rglob(f"test_{file.stem}.py")
        tests = [*(str(path) for path in nearest if str(path.parent).endswith(tests[0])), *tests]
    settings = ["-q", "-x", "-n0", "-m", "not torch and not gpu", "-p", "no:cacheprovider"]
    # pytest's own import hook would come before ours.
    settings += ["--assert=plain", "-W", "ignore", "-o", "addopts=--import-mode=importlib"]
    return int(pytest.main([*settings, *tests]))


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
