"""Which imported files are the user's."""

from __future__ import annotations

import hashlib
import json  # of the standard library
import sys
from pathlib import Path

import pytest

import perfcli.loading.registry
from perfcli.compile.session import list_user_sources
from perfcli.loading import userfile

assert json
assert perfcli.loading.registry


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sibling_layers.py").write_text("WIDTH = 8\n")
    (tmp_path / "never_imported.py").write_text("")
    file = tmp_path / "model.py"
    file.write_text("import sibling_layers\n\ndef scenario():\n    return abs, (1,)\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    userfile.load_user_scenario(str(file))
    return tmp_path


def test_the_file_and_what_it_imports(project: Path) -> None:
    mine = {p: h for p, h in list_user_sources().items() if Path(p).is_relative_to(project)}
    assert mine == {
        str(project / name): hashlib.sha256((project / name).read_bytes()).hexdigest()
        for name in ("model.py", "sibling_layers.py")
    }


def test_neither_perfcli_nor_what_is_installed(project: Path) -> None:
    perfcli.loading.registry.scenario("softmax")
    bench = Path(__file__).parents[3] / "bench"  # which other tests import as a user's files
    names = {Path(p).name for p in list_user_sources() if not Path(p).is_relative_to(bench)}
    assert not names & {"registry.py", "softmax.py", "__init__.py", "decoder.py"}
    assert not any("site-packages" in p for p in list_user_sources())


def test_generated_code_is_nobodys(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(project))
    assert not any(Path(p).is_relative_to(project) for p in list_user_sources())


def test_a_file_that_is_gone(project: Path) -> None:
    (project / "sibling_layers.py").unlink()
    assert str(project / "sibling_layers.py") not in list_user_sources()


def test_hardly_a_path_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed is known by its text: there are thousands of modules."""
    resolved: list[Path] = []
    resolve = Path.resolve

    def count(path: Path, strict: bool = False) -> Path:
        resolved.append(path)
        return resolve(path, strict)

    monkeypatch.setattr(Path, "resolve", count)
    list_user_sources()
    assert not any("site-packages" in str(path) for path in resolved if path.suffix == ".py")


def test_a_link_to_what_is_installed_is_not_the_users(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "linked.py").symlink_to(pytest.__file__)
    module = type(sys)("linked")
    module.__file__ = str(project / "linked.py")
    monkeypatch.setitem(sys.modules, "linked", module)
    bench = Path(__file__).parents[3] / "bench"
    sources = [Path(p) for p in list_user_sources() if not Path(p).is_relative_to(bench)]
    assert not any(path.name in ("linked.py", "__init__.py") for path in sources)
