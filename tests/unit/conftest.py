"""Real compilations: each distinct request runs once in a run of the tests, in a process that has
torch imported already."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from warm import WarmProcess, make_request

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Bundle, CompileRequest, Run, Variant
from perfcli.worker.process import ProcessExecutor

MODELS = Path(__file__).parents[1] / "fixtures" / "models"
TIMEOUT_SECONDS = 300

Compile = Callable[..., Run]


@pytest.fixture(scope="session")
def compile_bundle(
    cache_of_the_run: Path, once: Callable[..., Bundle], warm_process: WarmProcess
) -> Callable[..., Bundle]:
    """Compiles a shipped scenario or a file of ``fixtures/models``; target None is the CPU. With
    a cache of its own, in a fresh process and whether or not it was compiled before."""

    @functools.cache
    def compiled(
        scenario: str,
        target: str | None = "h100",
        *,
        preset: str | None = None,
        params: tuple[tuple[str, Any], ...] = (),
        options: tuple[tuple[str, Any], ...] = (),
        dynamic: bool = False,
        varied: tuple[tuple[tuple[str, Any], ...], ...] = (),
        world: int = 1,
        cache: Path | None = None,
    ) -> Bundle:
        request = CompileRequest(
            scenario=str(MODELS / scenario) if ".py" in scenario else scenario,
            params=dict(params),
            preset=preset,
            variant=Variant("v", options=dict(options)),
            device="cuda" if target else "cpu",
            target=targets.get(target) if target else None,
            dynamic=dynamic,
            varied=tuple(map(dict, varied)),
            world=world,
            jobs=1,  # other tests have the other cores, and each process would read binaries anew
            cache_dir=str(cache or cache_of_the_run),
        )
        if cache is not None:
            ((_, made),) = ProcessExecutor(TIMEOUT_SECONDS).compile([request], lambda _: None)
            if isinstance(made, PerfcliError):
                raise made
            return made
        return once(_key(request), lambda: warm_process.compile(request))

    return compiled


def _key(request: CompileRequest) -> str:
    """Return the same text for the same question, however its parameters are spelled. Who gives the
    mode gets other notes."""
    if request.scenario not in registry.names("scenarios"):
        return repr(request)
    scenario = registry.scenario(request.scenario)
    params = registry.resolve_params(scenario, request.preset, request.params)
    spelled = replace(request, preset=None, params=dict(sorted(params.items())))
    return f"{spelled} {'mode' in request.params}"


@pytest.fixture(scope="session")
def compile_run(compile_bundle: Callable[..., Bundle]) -> Compile:
    def compiled(*args: Any, **kwargs: Any) -> Run:
        return compile_bundle(*args, **kwargs).run

    return compiled


@pytest.fixture(scope="session")
def device_calls(warm_process: WarmProcess, cache_of_the_run: Path) -> Any:
    """Returns what ``fixtures/device_calls.py`` sees of an H100 that is not there."""
    request = make_request(cache_of_the_run)
    return warm_process.call(request, MODELS.parent / "device_calls.py")
