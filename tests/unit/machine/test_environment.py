from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.machine import environment


def fake_interpreter(
    folder: Path,
    *,
    torch: str | None = "2.13.0+cpu",
    cuda: str | None = None,
    triton: str | None = "3.7.1",
) -> Path:
    """A Python whose only packages are folders that look like torch and triton."""
    packages = folder / "packages"
    if torch:
        (packages / "torch").mkdir(parents=True)
        (packages / "torch" / "__init__.py").write_text("raise SystemExit('torch was imported')")
        (packages / "torch" / "version.py").write_text(
            f"from typing import Optional\n__version__ = '{torch}'\n"
            f"cuda: Optional[str] = {cuda!r}\nhip: Optional[str] = None\n"
        )
        (packages / f"torch-{torch}.dist-info").mkdir()
    if triton:
        (packages / "triton").mkdir(parents=True)
        (packages / "triton" / "__init__.py").write_text(f'"""x"""\n__version__ = "{triton}"\n')
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{packages}" exec "{sys.executable}" -S "$@"\n', encoding="utf-8"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def test_probe_reads_versions_and_folders_without_importing(tmp_path: Path) -> None:
    python = fake_interpreter(tmp_path, torch="2.11.0+cu130", cuda="13.0", triton="3.6.0")
    found = environment.probe(str(python))
    assert (found.torch, found.cuda, found.triton) == ("2.11.0+cu130", "13.0", "3.6.0")
    assert found.torch_dir == tmp_path / "packages" / "torch"
    assert found.tools == tmp_path / "packages" / "triton" / "backends" / "nvidia" / "bin"
    assert found.version == sys.version.split()[0]


def test_a_cpu_build_has_no_cuda_version(tmp_path: Path) -> None:
    assert environment.probe(str(fake_interpreter(tmp_path))).cuda is None


def test_distributions_tell_installations_apart(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    one = environment.probe(str(fake_interpreter(tmp_path / "a")))
    same = environment.probe(str(fake_interpreter(tmp_path / "b")))
    other = environment.probe(str(fake_interpreter(tmp_path / "c", torch="2.13.1+cpu")))
    assert one.distributions == same.distributions != other.distributions


def test_no_interpreter() -> None:
    with pytest.raises(PerfcliError, match="no Python interpreter at '/no/such/python': give"):
        environment.probe("/no/such/python")


def test_a_program_that_is_no_python(tmp_path: Path) -> None:
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\necho hello; echo trouble >&2\n")
    script.chmod(0o755)
    with pytest.raises(PerfcliError, match=r"Python 3\.11 or newer") as caught:
        environment.probe(str(script))
    assert "trouble" in caught.value.detail


def test_a_file_that_cannot_be_executed(tmp_path: Path) -> None:
    script = tmp_path / "broken"
    script.write_text("no shebang, no ELF")
    script.chmod(0o755)
    with pytest.raises(PerfcliError, match="can't be started"):
        environment.probe(str(script))


def test_no_torch(tmp_path: Path) -> None:
    python = fake_interpreter(tmp_path, torch=None)
    with pytest.raises(PerfcliError, match=r"has no torch: install one there \(pip install"):
        environment.probe(str(python))


def test_a_stray_folder_called_torch_is_no_torch(tmp_path: Path) -> None:
    python = fake_interpreter(tmp_path, torch=None)
    (tmp_path / "packages" / "torch").mkdir()
    with pytest.raises(PerfcliError, match="has no torch"):
        environment.probe(str(python))


def test_no_triton_matters_only_to_those_who_need_it(tmp_path: Path) -> None:
    python = str(fake_interpreter(tmp_path, triton=None))
    with pytest.raises(PerfcliError, match=r"no triton.*pip install triton"):
        environment.probe(python)
    assert environment.probe(python, needs_triton=False).tools is None


def test_a_folder_of_a_virtual_environment_is_its_python(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    assert environment._find_python(str(tmp_path)) == str(tmp_path / "bin" / "python")


@pytest.mark.torch
def test_this_interpreter_in_process_and_from_outside_are_the_same() -> None:
    inside = environment.probe(None)
    outside = environment.probe(sys.executable)
    assert (inside.torch, inside.torch_dir) == (outside.torch, outside.torch_dir)
    assert (inside.triton, inside.version) == (outside.triton, outside.version)


@pytest.mark.parametrize(
    ("version", "tested"),
    [
        ("2.11.0+cu130", True),
        ("2.13.0+cpu", True),
        ("2.15.3", True),
        ("2.10.0", False),
        ("2.16.0a0+git1", False),
        ("3.0.0", False),
        ("nonsense", False),
    ],
)
def test_tested_range(version: str, tested: bool) -> None:
    assert environment._tested_torch(version) is tested
    assert bool(environment.torch_warning(version)) is not tested


def test_workers_see_nothing_that_the_caller_set_for_torch() -> None:
    caller = {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "1",
        "TORCH_HOME": "/models",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "TORCHINDUCTOR_ONLINE_SOFTMAX": "0",
        "TRITON_INTERPRET": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "x",
        "DISABLE_PTXAS_OPT": "1",
        "CI": "true",
    }
    cleaned = environment.clean_environment(caller, {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"})
    assert cleaned == {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "1",
        "TORCH_HOME": "/models",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1",
        "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
    }


def test_relevant_variables_are_those_that_can_change_code() -> None:
    environ = {
        "TRITON_INTERPRET": "1",
        "HOME": "/home/x",
        "CUDA_VISIBLE_DEVICES": "1",
        "TORCHINDUCTOR_CACHE_DIR": "/tmp/x",
        "OMP_NUM_THREADS": "4",
    }
    assert list(environment.relevant_variables(environ)) == [
        "CUDA_VISIBLE_DEVICES",
        "OMP_NUM_THREADS",
        "TRITON_INTERPRET",
    ]


def test_cache_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert environment.cache_dir({}) == tmp_path / ".cache" / "perfcli"
    assert environment.cache_dir({"XDG_CACHE_HOME": "/x"}) == Path("/x/perfcli")
    assert environment.cache_dir({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "perfcli"
    both = {"XDG_CACHE_HOME": "/x", "PERFCLI_CACHE_DIR": "/own"}
    assert environment.cache_dir(both) == Path("/own")
    assert environment.cache_dir({"PERFCLI_CACHE_DIR": "here"}) == Path(os.getcwd(), "here")
