"""``[tool.perfcli]`` to begin with: added to pyproject.toml, or a perfcli.toml of its own."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfcli import units
from perfcli.ci.files import WrittenFile, check_inside, fill, put
from perfcli.errors import PerfcliError
from perfcli.options.files import quote
from perfcli.workflow.revision import run_git

PROJECT = Path("pyproject.toml")
OWN = Path("perfcli.toml")
BASELINE = "perfcli-baseline.toml"
MOST_FILES = 2000
BUILDERS = ("scenario", "build", "make", "make_model")
"""Names of functions that perfcli takes for a scenario without being told."""

EXAMPLE = """\
# An example that comes with perfcli; put a model of your own in its place: a function without
# arguments that returns (module or function, inputs), or (module, inputs, "training").
# {where}
# scenario = {hint}
name = "example"
scenario = "rmsnorm"
preset = "smoke"
"""
FOUND = """\
name = {name}
scenario = {scenario}
"""


def write_configuration(root: Path) -> WrittenFile:
    """Write the configuration where there is none; what is there is never touched."""
    if (root / OWN).exists():
        return WrittenFile(f"kept   {OWN}")
    check_inside(root, OWN)  # a link that leads nowhere
    path = root / PROJECT
    if not path.exists():
        return put(root, OWN, _drop_prefix(_fill_in(root)), force=False)
    try:
        old = path.read_bytes().decode("utf-8")
        document = tomllib.loads(old)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PerfcliError(f"can't read {PROJECT}: {error}") from error
    if "perfcli" in document.get("tool", {}):
        return WrittenFile(f"kept   {PROJECT}, which has [tool.perfcli]")
    return _append(root, path, old, document)


def _append(root: Path, path: Path, old: str, document: dict[str, object]) -> WrittenFile:
    """Append to what is there, with its line ends, or write a file of its own where TOML has no way
    to do that (``tool = { … }`` is closed)."""
    end = "\r\n" if "\r\n" in old else "\n"
    gap = "" if not old else end if old.endswith("\n") else end * 2
    new = old + gap + _fill_in(root).replace("\n", end)
    try:
        tool = tomllib.loads(new)["tool"]
    except tomllib.TOMLDecodeError:
        return put(root, OWN, _drop_prefix(_fill_in(root)), force=False)
    tool.pop("perfcli")
    if tool != document.get("tool", {}):
        return put(root, OWN, _drop_prefix(_fill_in(root)), force=False)
    check_inside(root, PROJECT)
    try:
        path.write_bytes(new.encode("utf-8"))
    except OSError as error:
        raise PerfcliError(f"can't write {PROJECT}: {error.strerror or error}") from error
    return WrittenFile(f"added  [tool.perfcli] to {PROJECT}", written=PROJECT)


def _fill_in(root: Path) -> str:
    candidates = list(_list_candidates(root))
    for path, name in candidates:
        if name:
            scenario = quote(f"{path.as_posix()}:{name}")
            check = FOUND.format(name=quote(units.printable(path.stem)), scenario=scenario)
            break
    else:
        check = EXAMPLE.format(**_suggest(candidates[0][0] if candidates else None))
    return fill("config.toml", {"@CHECK@\n": check})


def _suggest(path: Path | None) -> dict[str, str]:
    """Return what to write where: the file has a module, and no function that builds it yet."""
    name = path.as_posix() if path else "path/to/model.py"
    file = units.printable(name) if path else "a file of yours"
    where = f"Where {file} has no such function yet, write one, for example build(), and name it:"
    return {"where": where, "hint": quote(f"{name}:build")}


def _drop_prefix(text: str) -> str:
    """Return the text as perfcli.toml has it: without the prefix that pyproject.toml needs."""
    return text.replace("[tool.perfcli]\n", "").replace("[tool.perfcli.", "[")


def find_place(root: Path) -> Path:
    """Return where the configuration is, once it is written."""
    return OWN if (root / OWN).exists() else PROJECT


def list_next_steps(root: Path, written: Sequence[Path]) -> list[str]:
    """Return what is left to do: nothing where somebody configured it before and a baseline is
    there."""
    steps = []
    text = (root / find_place(root)).read_text(encoding="utf-8", errors="replace")
    if 'scenario = "rmsnorm"' in text:
        steps.append(f"name your own model in {find_place(root)}")
    files = [path.as_posix() for path in written]
    there = (find_place(root).as_posix(), BASELINE)
    files += [name for name in there if name not in files and _is_new(root, name)]
    if not (root / BASELINE).exists():
        steps.append('perfcli baseline update --reason "first baseline"')
        files.append(BASELINE)
    if files:
        steps.append(f"git add {' '.join(files)}, and commit")
    return steps


def _is_new(root: Path, name: str) -> bool:
    """Return whether a file is there that git does not know yet; False where there is no
    repository."""
    try:
        done = run_git(root, ("ls-files", "--error-unmatch", "--", name))
    except OSError:
        return False
    return done.returncode == 1 and (root / name).exists()


# --- models that the repository has ------------------------------------------------------------


def _list_candidates(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield files with a module of torch, and their function that is a scenario as it stands, or an
    empty name; files are read, never run."""
    for path in _list_python_files(root):
        try:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text) if "torch" in text else None
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            continue
        if tree is None:
            continue
        name = next((n.name for n in tree.body if _is_scenario(n)), "")  # type: ignore[attr-defined]
        if name or any(isinstance(n, ast.ClassDef) and _is_module(n) for n in tree.body):
            yield path.relative_to(root), name


def _list_python_files(root: Path) -> Iterator[Path]:
    """Yield the repository's own Python files in a settled order, without those of environments,
    builds and tests."""
    left, folders = MOST_FILES, [root]
    while folders and left:
        folder = folders.pop(0)
        try:
            entries = sorted(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.is_symlink():
                continue
            if entry.is_dir():
                if entry.name not in _OTHERS and not (entry / "pyvenv.cfg").exists():
                    folders.append(entry)
            elif entry.suffix == ".py" and left:
                left -= 1
                yield entry


_OTHERS = {"build", "dist", "node_modules", "site-packages", "tests", "test", "third_party", "venv"}


def _is_module(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("Module") for base in node.bases)


def _is_scenario(node: ast.stmt) -> bool:
    """Return whether the function looks like ``def build(): … return module, (inputs,)``"""
    if not isinstance(node, ast.FunctionDef) or node.name not in BUILDERS:
        return False
    arguments = node.args
    if len(arguments.defaults) < len(arguments.args) + len(arguments.posonlyargs):
        return False
    if any(default is None for default in arguments.kw_defaults):
        return False
    returned = [n.value for n in ast.walk(node) if isinstance(n, ast.Return)]
    return any(
        isinstance(value, ast.Tuple)
        and len(value.elts) in (2, 3)
        and isinstance(value.elts[1], ast.Tuple)
        for value in returned
    )
