"""apply: a program gets the options in each Python that it starts; torch is made up."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CONFIG = """
import sys, types
class Config(types.ModuleType):
    def __setattr__(self, name, value):
        self._config[name] = value
module = sys.modules[__name__]
module._config = {options}
module.__class__ = Config
"""
SHOW = "import torch._inductor.config as c, json; json.dump(c._config, open('shown', 'w'))"


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A torch that has configurations and nothing else, in the folder where Python looks first."""
    folder = tmp_path / "site"
    for name in ("_inductor", "_dynamo"):
        package = folder / "torch" / name
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
    (folder / "torch/__init__.py").touch()
    options = {"online_softmax": True, "triton.max_tiles": None, "max_fusion_size": 64}
    (folder / "torch/_inductor/config.py").write_text(CONFIG.replace("{options}", repr(options)))
    text = CONFIG.replace("{options}", "{'assume_static_by_default': True}")
    (folder / "torch/_dynamo/config.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def tuned(tmp_path: Path) -> str:
    lines = ['"online_softmax" = false', '"triton.max_tiles" = 2', '"TORCHINDUCTOR_X" = "1"']
    lines[2:] = ['"dynamo.assume_static_by_default" = false']
    path = tmp_path / "tuned.toml"
    path.write_text("\n".join(["[options]", *lines, "", "[tuned]", 'scenario = "x"', ""]))
    return path.name


def test_the_lines_to_paste(perfcli: Any, tuned: str) -> None:
    assert perfcli("apply", tuned).out == (
        'torch.compile(model, options={"online_softmax": False, "triton.max_tiles": 2})\n'
        "torch._dynamo.config.assume_static_by_default = False\n"
    )


def test_a_program_has_the_options(perfcli: Any, torch: Path, tuned: str) -> None:
    result = perfcli("apply", tuned, "--", sys.executable, "-c", SHOW)
    assert (result.code, result.err) == (0, "")
    shown = json.loads(Path("shown").read_text())
    assert shown == {"online_softmax": False, "triton.max_tiles": 2, "max_fusion_size": 64}


def test_so_has_a_python_that_it_starts(perfcli: Any, torch: Path, tuned: str) -> None:
    show = SHOW.replace("_inductor", "_dynamo")
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {show!r}], check=True)"
    assert perfcli("apply", tuned, "--", sys.executable, "-c", inner).code == 0
    assert json.loads(Path("shown").read_text()) == {"assume_static_by_default": False}


def test_a_sitecustomize_of_the_users_runs_as_well(perfcli: Any, torch: Path, tuned: str) -> None:
    (torch / "sitecustomize.py").write_text("open('mine', 'w')")
    assert perfcli("apply", tuned, "--", sys.executable, "-c", SHOW).code == 0
    assert Path("mine").exists()
    assert json.loads(Path("shown").read_text())["triton.max_tiles"] == 2


def test_the_exit_code_is_the_programs(perfcli: Any, torch: Path, tuned: str) -> None:
    assert perfcli("apply", tuned, "--", sys.executable, "-c", f"{SHOW}; exit(7)").code == 7
    kill = "import os; os.kill(os.getpid(), 9)"
    assert perfcli("apply", tuned, "--", sys.executable, "-c", kill).code == 137


def test_a_program_without_torch_is_told(perfcli: Any, torch: Path, tuned: str) -> None:
    result = perfcli("apply", tuned, "--", sys.executable, "-c", "pass")
    assert result.code == 0
    assert "no option was put in force: the program compiled nothing with torch" in result.err


@pytest.mark.parametrize("text", ["", '[options]\n\n[tuned]\nverdict = "unsure"\n'])
def test_a_file_that_sets_nothing_warns_of_nothing(perfcli: Any, torch: Path, text: str) -> None:
    Path("own.toml").write_text(text)
    result = perfcli("apply", "own.toml", "--", sys.executable, "-c", "pass")
    assert (result.code, result.err) == (0, "")
    if not text:
        assert perfcli("apply", "own.toml").out == "# nothing to set: own.toml sets no option\n"


def test_an_option_that_the_programs_torch_lacks_is_told(perfcli: Any, torch: Path) -> None:
    Path("own.toml").write_text("split_reductions = false\n")
    # perfcli itself looks at the torch that is installed, which has it.
    command = shlex.join([sys.executable, "-c", SHOW])
    perfcli("apply", "own.toml", "--", "sh", "-c", f"{command} 2> told")
    expected = "perfcli apply: this torch has no option split_reductions: left out\n"
    assert Path("told").read_text() == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("online_softmax=false",), "a file that ends in .toml is expected"),
        (("nosuch.toml",), "can't read nosuch.toml: No such file or directory"),
        (("tuned.toml", "--", "./nosuch"), "can't run ./nosuch: No such file or directory"),
    ],
)
def test_bad_input(perfcli: Any, tuned: str, words: tuple[str, ...], message: str) -> None:
    result = perfcli("apply", *words)
    assert result.code == 2
    assert message in result.complaint


def test_an_unknown_option(perfcli: Any) -> None:
    Path("own.toml").write_text("online_softmx = false\n")
    assert "did you mean online_softmax" in perfcli("apply", "own.toml").complaint


@pytest.mark.torch
def test_torch_compiles_with_options_and_patches(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "import torch._inductor.config as config\n"
        "import torch._inductor.compile_fx\n"
        "from perfcli.compile.patches import installed\n"
        "print(config.split_reductions, config.triton.max_tiles, installed.settings())\n"
        "print(torch.compiler.config.cache_key_tag)\n"
    )
    file = tmp_path / "tuned.toml"
    options = ["split_reductions = false", '"triton.max_tiles" = 1', '"patch.loop_peeling" = true']
    file.write_text("\n".join(options))
    command = [sys.executable, "-m", "perfcli", "apply", str(file), "--", sys.executable]
    result = subprocess.run([*command, str(program)], check=True, capture_output=True, text=True)
    assert result.stdout == (
        "False 1 {'patch.loop_peeling': True}\n{\"patch.loop_peeling\": true}\n"
    )
