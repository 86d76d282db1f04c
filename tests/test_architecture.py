"""The house rules that ARCHITECTURE.md states, held by a walk over the imports of every file."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("perfcli", "kernels", "scenarios", "reports")
FOUND_BY_NAME = ("kernels", "scenarios", "reports")

# A module or room imports only what stands in a line above its own, and its own room.
LAYERS = (
    "perfcli model errors units names blobs decoding",
    "predict",
    "facts diff search stats storing",
    "machine frames",
    "options loading",
    "rules",
    "operators",
    "diagnosis",
    "compile",
    "measure",
    "handwritten",
    "worker",
    "fake interleave checks",
    "cluster console",
    "importing",
    "workflow",
    "bisect calibrate gate history noise sweep workbench ci",
    "reproduce tune",
    "commands library",
    "cli pytest_plugin",
    "__main__",
)
LEVEL = {room: level for level, line in enumerate(LAYERS) for room in line.split()}
TORCH_ROOMS = ("compile", "measure", "handwritten", "kernels", "scenarios")
TORCH = {"torch", "triton", "sympy"}  # sympy comes with torch


@dataclass(frozen=True, slots=True)
class Import:
    target: str
    line: int
    in_function: bool


Imports = Mapping[str, tuple[Import, ...]]


@functools.cache
def find_files() -> Mapping[str, Path]:
    """Every module of ours, by its dotted name."""
    files = {
        ".".join(("perfcli", *path.relative_to(ROOT).with_suffix("").parts)): path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
    }
    return {
        name.replace("perfcli.perfcli", "perfcli").removesuffix(".__init__"): path
        for name, path in files.items()
    }


@functools.cache
def read_imports() -> Imports:
    """Every module of ours and what it imports."""
    return {
        name: tuple(_imports(name, path, path.read_text(encoding="utf-8"), find_files()))
        for name, path in find_files().items()
    }


def plant(file: str, text: str) -> Imports:
    """The same, as if a file had this text; it need not exist."""
    path = ROOT / file
    module = ".".join(("perfcli", *Path(file).with_suffix("").parts))
    module = module.replace("perfcli.perfcli", "perfcli")
    names = {**find_files(), module: path}
    return {**read_imports(), module: tuple(_imports(module, path, text, names))}


def _imports(module: str, path: Path, text: str, names: Mapping[str, Path]) -> Iterator[Import]:
    def walk(node: ast.AST, in_function: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(alias.name, child.lineno, in_function)
            elif isinstance(child, ast.ImportFrom):
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                base = child.module or ""
                if child.level:
                    parent = package.rsplit(".", child.level - 1)[0]
                    base = f"{parent}.{base}".rstrip(".")
                for alias in child.names:
                    full = f"{base}.{alias.name}"
                    yield Import(full if full in names else base, child.lineno, in_function)
            function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk(child, in_function or function)

    return walk(ast.parse(text), False)


def room(module: str) -> str:
    """``perfcli.facts.sass`` is in the room ``facts``; a module at the top is its own room."""
    return module.split(".")[1] if "." in module else module


def all_imports(imports: Imports) -> Iterator[tuple[str, Import, str]]:
    for module, found in imports.items():
        yield from ((module, i, f"{module}:{i.line} imports {i.target}") for i in found)


def upward(imports: Imports) -> list[str]:
    """Imports that do not point down."""
    return [
        text
        for module, i, text in all_imports(imports)
        if i.target.split(".")[0] == "perfcli"
        and not {room(module), room(i.target)} & set(FOUND_BY_NAME)
        and room(module) != room(i.target)
        and LEVEL[room(i.target)] >= LEVEL[room(module)]
    ]


def found_by_name(imports: Imports) -> list[str]:
    """Kernels, scenarios and reports that are imported by name, or import more than the model."""
    allowed = {"perfcli.model", "perfcli.errors", "perfcli.units"}
    return [
        text
        for module, i, text in all_imports(imports)
        if i.target.split(".")[0] == "perfcli"
        and room(module) != room(i.target)
        and (
            room(i.target) in FOUND_BY_NAME
            or (room(module) in FOUND_BY_NAME and i.target not in allowed)
        )
    ]


def cycles(imports: Imports) -> list[str]:
    graph = {
        module: {i.target for i in found if i.target in imports and i.target != module}
        for module, found in imports.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" → ".join(error.args[1])]
    return []


def torch_misplaced(imports: Imports) -> list[str]:
    """torch outside its rooms, or where importing what the registry finds imports it."""
    light = _imported_with(imports, (m for m in imports if _is_found(m)))
    return [
        text
        for module, i, text in all_imports(imports)
        if i.target.split(".")[0] in TORCH
        and not (
            room(module) in TORCH_ROOMS
            and (i.in_function or (room(module) in FOUND_BY_NAME and module not in light))
        )
    ]


def _is_found(module: str) -> bool:
    """Whether the registry finds it: a module or package right in its room, without ``_``."""
    parts = module.split(".")
    return len(parts) == 3 and parts[1] in FOUND_BY_NAME and not parts[2].startswith("_")


def _imported_with(imports: Imports, modules: Iterator[str]) -> set[str]:
    """The modules, and all that importing them imports."""
    todo, reached = list(modules), set()
    while todo:
        module = todo.pop()
        if module in imports and module not in reached:
            reached.add(module)
            todo += [i.target for i in imports[module] if not i.in_function]
    return reached


def strange_in_worker(imports: Imports) -> list[str]:
    """What the worker's interpreter may not have: all that a worker can reach is the standard
    library, ours, and torch with what it brings."""
    todo = ["perfcli.worker.child", *(m for m in imports if room(m) in ("scenarios", "kernels"))]
    reached: set[str] = set()
    while todo:
        module = todo.pop()
        if module not in reached and module in imports:
            reached.add(module)
            todo += [i.target for i in imports[module]]
    known = {*sys.stdlib_module_names, *TORCH, "perfcli"}
    return [
        text
        for module, i, text in all_imports(imports)
        if module in reached and i.target.split(".")[0] not in known
    ]


CHECKS = (upward, found_by_name, cycles, torch_misplaced, strange_in_worker)
Check = Callable[[Imports], list[str]]


@pytest.mark.parametrize("check", CHECKS)
def test_rule_holds(check: Check) -> None:
    assert check(read_imports()) == []


def test_every_module_has_a_layer() -> None:
    assert {room(m) for m in read_imports()} == {*LEVEL, *FOUND_BY_NAME}


@pytest.mark.parametrize(
    ("check", "file", "text"),
    [
        (upward, "perfcli/facts/planted.py", "from perfcli.rules import doubts"),
        (upward, "perfcli/units.py", "def f():\n    import perfcli.commands.run"),
        (found_by_name, "perfcli/commands/planted.py", "from perfcli.scenarios import softmax"),
        (found_by_name, "reports/planted.py", "from perfcli.storing.store import read"),
        (cycles, "perfcli/diff/overlap.py", "from perfcli.diff.match import match"),
        (cycles, "reports/_screen/tables.py", "from .. import terminal"),
        (torch_misplaced, "perfcli/facts/planted.py", "def f():\n    import triton"),
        (torch_misplaced, "perfcli/compile/planted.py", "import torch._inductor"),
        (torch_misplaced, "scenarios/planted.py", "from torch import nn"),
        (strange_in_worker, "perfcli/blobs.py", "import msgspec"),
        (strange_in_worker, "scenarios/planted.py", "from rich.text import Text"),
    ],
)
def test_a_planted_violation_is_found(check: Check, file: str, text: str) -> None:
    assert any(Path(file).stem in line for line in check(plant(file, text)))


# --- one verdict -----------------------------------------------------------------------------

CONCLUDES = Path("perfcli/diff/verdict/conclude.py")
VERDICT = {"outcome", "reason", "because"}


def verdicts_elsewhere(root: Path) -> list[str]:
    """Calls that give a comparison an outcome, a reason or a because, but for those of the file
    that concludes them."""
    files = (path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return [
        f"{path.relative_to(root)}:{call.lineno} {ast.unparse(call)}"
        for path in files
        if path.relative_to(root) != CONCLUDES
        for text in [path.read_text(encoding="utf-8")]
        if any(word in text for word in ("Comparison", *VERDICT))  # no call has none of them
        for function in _functions(ast.parse(text))
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and _sets_verdict(call, function)
    ]


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return {each.arg: ast.unparse(each.annotation) for each in every if each.annotation}


def _sets_verdict(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it makes a Comparison with a verdict, or replaces one's. What is replaced is told by
    its annotation, else by its name, else by its fields: of other classes some have an outcome."""
    given = {each.arg for each in call.keywords}
    if not VERDICT & given and len(call.args) <= 4:
        return False
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "Comparison":
        return True
    if name != "replace" or not VERDICT & given:
        return False
    what, annotations = ast.unparse(call.args[0]), _annotations(function)
    if what in annotations:
        return "Comparison" in annotations[what]
    return "comparison" in what or "because" in given or {"outcome", "reason"} <= given


def test_a_comparison_gets_its_verdict_in_one_place() -> None:
    assert verdicts_elsewhere(ROOT) == []


@pytest.mark.parametrize(
    "text",
    [
        'def f(comparison):\n    return replace(comparison, outcome="worse")',
        'def f(held: Comparison):\n    return dataclasses.replace(held, reason="")',
        "def f(pair):\n    return replace(pair.comparison, reason=pair.reason)",
        "def f():\n    return replace(made(), because=None)",
        'def f():\n    return replace(made(), outcome="same", reason="")',
        'def f():\n    return Comparison(base, head, totals, groups, outcome="same")',
        'def f():\n    return Comparison(base, head, totals, groups, "same", "")',
    ],
)
def test_a_planted_verdict_is_found(text: str, tmp_path: Path) -> None:
    planted = tmp_path / "perfcli" / "gate" / "planted.py"
    planted.parent.mkdir(parents=True)
    planted.write_text(text)
    assert len(verdicts_elsewhere(tmp_path)) == 1


def test_an_outcome_of_something_else_is_no_verdict(tmp_path: Path) -> None:
    planted = tmp_path / "perfcli" / "planted.py"
    planted.parent.mkdir(parents=True)
    planted.write_text(
        'def f(ruling: Ruling):\n    return replace(ruling, outcome="fail", reason="")\n'
        'def g():\n    return replace(change, outcome="same")\n'
    )
    assert verdicts_elsewhere(tmp_path) == []


def test_the_packages_are_the_folders() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = {
        ".".join(("perfcli", *path.parent.relative_to(ROOT).parts)).replace(
            "perfcli.perfcli", "perfcli"
        )
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert set(project["tool"]["setuptools"]["packages"]) == folders


def test_the_command_line_starts_light() -> None:
    code = "import sys, perfcli.cli as c; c.application()\n"
    code += "for name in c.NAMES: __import__('perfcli.commands.' + c.name_module(name))\n"
    code += "print(*sys.modules)"
    command = [sys.executable, "-P", "-c", code]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert not {"torch", "triton", "rich", "msgspec", "numpy", "scipy"} & set(loaded)
    assert "perfcli.commands.compare" in loaded


# --- one place for a request ------------------------------------------------------------------

REQUESTS = "perfcli/workflow/request.py: build_request"


def constructions(root: Path, name: str) -> list[str]:
    """Every ``file: function`` outside the tests that calls a class by its name, once for each
    call."""
    found = []
    for folder in (*FOLDERS, "bench"):
        for path in sorted((root / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if name not in text:
                continue
            where = path.relative_to(root).as_posix()
            found += [f"{where}: {f}" for f in _callers(ast.parse(text), name, "module")]
    return found


def _callers(node: ast.AST, name: str, inside: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            called = child.func
            known = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if known == name:
                yield inside
        here = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            here = child.name
        yield from _callers(child, name, here)


def test_a_request_is_made_in_one_place() -> None:
    assert constructions(ROOT, "CompileRequest") == [REQUESTS]


@pytest.mark.parametrize("call", ["CompileRequest()", "model.CompileRequest(scenario=name)"])
def test_a_second_place_is_found(call: str, tmp_path: Path) -> None:
    planted = tmp_path / "bench" / "planted.py"
    planted.parent.mkdir()
    planted.write_text(f"def ask():\n    return [{call}]\n")
    assert constructions(tmp_path, "CompileRequest") == ["bench/planted.py: ask"]


# --- the map --------------------------------------------------------------------------------------

# Not in this repository: the user's own, torch's, or made at run time.
FOREIGN = {"sdp_utils.cpp", "inductor/", ".perfcli/runs/ID.json", ".perfcli/bisect/ID.json"}


def named_paths(page: Path) -> Iterator[tuple[str, bool]]:
    """Yield each path in backticks, and whether it exists: in the root, in perfcli/, or in one of
    the folders that the heading above it names."""
    rooms = [ROOT, ROOT / "perfcli"]
    folders: list[Path] = []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            folders = [ROOT / named for named in re.findall(r"`([^`]+/)`", line)]
        for path in re.findall(
            r"`([\w.-]+(?:/[\w.-]*)*(?:\.(?:py|cpp|toml|json|html|md)|/))`", line
        ):
            if "NAME" not in path and path not in FOREIGN:
                yield path, any((room / path).exists() for room in (*rooms, *folders))


@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_it_names_is_there(page: str) -> None:
    paths = list(named_paths(ROOT / page))
    assert len(paths) > 10
    assert [path for path, there in paths if not there] == []


def test_the_map_names_every_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rooms = {
        path.parent.relative_to(ROOT).as_posix() for path in ROOT.glob("perfcli/*/__init__.py")
    }
    assert [room for room in sorted(rooms) if f"`{room}/`" not in text] == []


# One file of many alike: the heading of their room says it all.
ALIKE = ("perfcli/commands/", "perfcli/rules/", "perfcli/fake/", "perfcli/model/", "kernels/")


def test_the_map_names_every_file_of_a_room() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./-]+\.py)`", text))
    files = [
        path.relative_to(ROOT).as_posix()
        for room in ("perfcli", "reports")
        for path in ROOT.glob(f"{room}/*/**/*.py")
        if path.name != "__init__.py"
    ]
    ends = {file: {file, *(file.split("/", n)[-1] for n in range(1, 5))} for file in files}
    inside = [file for file in files if "/attention/" not in file and not file.startswith(ALIKE)]
    assert [file for file in sorted(inside) if not ends[file] & named] == []


def test_the_map_shows_the_layers() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", text.replace("\\", ""), re.M)
    assert [row for _, row in rows] == [", ".join(line.split()) for line in LAYERS]
