"""The tools that perfcli is held against, in a virtual environment that holds nothing else.

pyperf and pytest-benchmark come from the package index. hyperfine is a program of its own: the one
on the PATH, else Debian's, unpacked into the environment's folder.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("accuracy-requirements.txt")


@dataclass(frozen=True, slots=True)
class Tools:
    """Where they are, and their names with versions as tables have them."""

    python: str
    hyperfine_program: str
    pyperf: str
    hyperfine: str
    pytest_benchmark: tuple[str, str]


def tools_in(folder: Path) -> Tools:
    """Those of the environment, which is made where it is missing."""
    folder = folder.absolute()
    python = str(folder / "bin" / "python")
    if not Path(python).exists():
        _output([sys.executable, "-m", "venv", str(folder)])
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    _output([*pip, "install", "--quiet", "-r", str(REQUIREMENTS)])
    program = shutil.which("hyperfine") or _debian_hyperfine(folder)
    pinned = dict(
        line.split("==") for line in REQUIREMENTS.read_text().splitlines() if "==" in line
    )
    pytest_benchmark = f"pytest-benchmark {pinned['pytest-benchmark']}"
    return Tools(
        python=python,
        hyperfine_program=program,
        pyperf=f"pyperf {pinned['pyperf']}",
        hyperfine=f"{_output([program, '--version']).strip()} + Welch",
        pytest_benchmark=(f"{pytest_benchmark} mean:5%", f"{pytest_benchmark} median:5%"),
    )


def _debian_hyperfine(folder: Path) -> str:
    program = folder / "hyperfine" / "usr" / "bin" / "hyperfine"
    if not program.exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg")):
            raise SystemExit("hyperfine is not on the PATH, and not to be had here: install it")
        _output(["apt-get", "download", "--quiet", "hyperfine"], folder)
        (package,) = folder.glob("hyperfine_*.deb")
        _output(["dpkg", "-x", str(package), str(folder / "hyperfine")])
    return str(program)


def _output(command: list[str], folder: Path | None = None) -> str:
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
