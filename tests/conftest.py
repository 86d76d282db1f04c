"""What the workers of one run share: a cache of compiled kernels, and what takes long."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from once import compute_once, find_run_folder
from rewriting import rewrite_asserts
from warm import Templates, WarmFork, WarmKernels, WarmProcess, make_request

from perfcli.worker.process import ProcessExecutor
from perfcli.worker.roles import Compiled

# What is collected stays until the end: nobody need look through it, now or while tests run.
gc.disable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Runs before xdist's, which starts the workers."""
    # As `make test` does: hundreds of processes import torch, and would parse it each time.
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        sys.dont_write_bytecode = False
    # Threads of several workers that wait for one another take the cores from those that work:
    # tensors of tests are small.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if processes := getattr(session.config.option, "numprocesses", None):
        rewrite_asserts(session.config, processes)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


_MANY = 200
"""Modules that one import brings along: torch is two thousand of them, with 400,000 objects."""
_kept = 0
"""The modules that nobody looks through any more."""


def pytest_runtest_teardown() -> None:
    """What tests import stays until the end as well: to look through torch takes half a second."""
    global _kept
    if len(sys.modules) > _kept + _MANY:
        gc.freeze()
        _kept = len(sys.modules)


# How fast a machine makes examples up says nothing about what is tested.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return find_run_folder(tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_run(run_folder: Path) -> Iterator[Path]:
    """The cache folder of every test that sets no other: never the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERFCLI_CACHE_DIR", str(run_folder / "cache"))
        # Nothing depends on a calibration that somebody made on this machine.
        patch.setenv("PERFCLI_CONFIG_DIR", str(run_folder / "config"))
        patch.delenv("PERFCLI_CALIBRATION", raising=False)
        yield run_folder / "cache"


@pytest.fixture(scope="session", autouse=True)
def templates_compiled_once() -> Iterator[None]:
    """A page's templates are compiled for each folder that files are named in, as every test has
    one; to the same code."""
    from jinja2 import Environment

    compiled: dict[tuple[Any, ...], Any] = {}
    make = Environment.compile

    def compile_once(environment: Environment, *given: Any) -> Any:
        if given not in compiled:
            compiled[given] = make(environment, *given)
        return compiled[given]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "compile", compile_once)
        yield


@pytest.fixture(scope="session")
def once(run_folder: Path) -> Callable[[str, Callable[[], Any]], Any]:
    """Computes what a key names, once in a run."""
    return partial(compute_once, run_folder)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One for all tests: two in a process would not start."""
    import chromium

    yield from chromium.started()


@pytest.fixture(scope="session")
def warm_process(run_folder: Path) -> WarmProcess:
    return WarmProcess(run_folder)


@pytest.fixture
def warm_workers(monkeypatch: pytest.MonkeyPatch, warm_process: WarmProcess) -> None:
    """Commands compile for real, in forks of that process instead of workers of their own."""

    def compile_warm(_: ProcessExecutor, *asked: Any) -> Iterator[tuple[int, Compiled]]:
        return warm_process.compile_each(*asked)

    monkeypatch.delenv("PERFCLI_FAKE", raising=False)
    monkeypatch.setattr(ProcessExecutor, "compile", compile_warm)


@pytest.fixture
def warm_kernels(
    monkeypatch: pytest.MonkeyPatch, warm_process: WarmProcess, cache_of_the_run: Path
) -> None:
    """Hand-written kernels are compiled in forks of that process as well."""
    start = partial(WarmKernels, warm_process, make_request(cache_of_the_run))
    monkeypatch.setattr("perfcli.worker.kernels._Worker", start)


@pytest.fixture
def warm_given(
    monkeypatch: pytest.MonkeyPatch, warm_process: WarmProcess, cache_of_the_run: Path
) -> tuple[str, ...]:
    """Options for a pytest that a test starts, with which it compiles in forks of that process."""
    for name, value in warm_process.prepare(make_request(cache_of_the_run)).items():
        monkeypatch.setenv(name, value)
    return ("-p", "warm_given")


@pytest.fixture(scope="session")
def kept_templates(cache_of_the_run: Path) -> Iterator[Templates]:
    kept = Templates()
    yield kept
    kept.close()


@pytest.fixture
def templates(
    monkeypatch: pytest.MonkeyPatch, kept_templates: Templates, warm_process: WarmProcess
) -> Templates:
    """Processes that generate code, each a fork of one that has torch imported."""
    monkeypatch.setattr("perfcli.worker.template.WarmWorker", partial(WarmFork, warm_process))
    return kept_templates


@pytest.fixture
def one_template(monkeypatch: pytest.MonkeyPatch, templates: Templates) -> None:
    """Commands generate code in processes that outlive them."""
    lent = SimpleNamespace(
        generate=templates.generate, with_binaries=templates.with_binaries, close=lambda: None
    )
    monkeypatch.setattr("perfcli.worker.template.TemplateProcess", lambda _: lent)
