"""The pytest plugin: a fixture ``kernels`` that says what torch.compile makes of a function.

Loaded into every pytest run of an environment that has perfcli: nothing but pytest and the
standard library is imported until a test asks for the fixture.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Unpack

    from perfcli.library import Kernels
    from perfcli.library.asking import CallOptions, InspectOptions

_CURRENT = pytest.StashKey["pytest.Item"]()
_SEEN = pytest.StashKey["list[Kernels]"]()
_OURS = f"{Path(__file__).parent}{os.sep}"
MOST_PARTS = 3
"""Kernels that a failed comparison names."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("perfcli", "kernels that torch.compile generates")
    group.addoption(
        "--perfcli-target",
        metavar="NAME",
        help="the GPU that the fixture kernels compiles for (default: ini perfcli_target, else "
        "the GPU of this machine, else h100)",
    )
    group.addoption(
        "--perfcli-full",
        action="store_true",
        help="show all kernels and all of their source where a test fails",
    )
    parser.addini("perfcli_target", "the GPU that the fixture kernels compiles for", default="")


@pytest.fixture(scope="session")
def kernels(request: pytest.FixtureRequest) -> Iterator[KernelsFixture]:
    """Compile a function for a GPU that need not be there, and say what its kernels are made of:
    ``k = kernels(fn, *args, target="h100"); assert k.spilled_words == 0``. See ``perfcli.inspect``.
    """
    _skip_without("torch")
    yield KernelsFixture(request.config)
    from perfcli.library import close

    close()


class KernelsFixture:
    """Inspects functions for tests: the fixture ``kernels`` returns it.

    Called with a function and its arguments.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def __repr__(self) -> str:
        return "<perfcli's kernels>"

    def __call__(
        self,
        fn: Callable[..., Any] | str | os.PathLike[str],
        *args: Any,
        kwargs: Mapping[str, Any] | None = None,
        **asked: Unpack[CallOptions],
    ) -> Kernels:
        """Call ``perfcli.inspect`` for ``fn(*args, **kwargs)``.

        The test's own module is sent as it is in this process; other modules are imported by the
        worker.
        """
        __tracebackhide__ = True
        from perfcli.errors import PerfcliError
        from perfcli.library import inspect
        from perfcli.library.asking import CallOptions
        from perfcli.library.speaking import check_names

        check_names("kernels", self.__call__, CallOptions, asked)
        if asked.get("device") != "cpu":
            _skip_without("triton")
        item = self._config.stash.get(_CURRENT, None)
        named = isinstance(fn, str | os.PathLike)
        own = () if named else (getattr(item, "module", None),)
        modules = (*own, *asked.get("by_value", ()))
        options: InspectOptions = {**asked, "jobs": _jobs()}
        options["by_value"] = [module for module in modules if module is not None]
        free = asked.get("target") is None and asked.get("device") is None
        if free and not (named and _is_stored(fn)):
            options["target"] = self._target()
        try:
            found = inspect(fn, args, kwargs, **options)
        except PerfcliError as error:
            if error.detail:
                error.add_note(error.detail)
            raise error.with_traceback(None) from None
        if item is not None:
            item.stash.setdefault(_SEEN, []).append(found)
        return found

    def _target(self) -> str | None:
        asked: str = self._config.getoption("--perfcli-target")
        usual: str = self._config.getini("perfcli_target")
        return asked or usual or None


def _is_stored(reference: object) -> bool:
    """Return whether it is a run's file or id: it was compiled for its own target."""
    return str(reference).endswith(".json") or str(reference)[:1].isdigit()


def _skip_without(package: str) -> None:
    if os.environ.get("PERFCLI_FAKE", "0") == "0" and importlib.util.find_spec(package) is None:
        pytest.skip(f"perfcli compiles kernels with {package}, which is not installed here")


def _jobs() -> int | None:
    """Return this process's part of the cores where pytest-xdist runs several of us."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return None if workers < 2 else max(len(os.sched_getaffinity(0)) // workers, 1)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    item.config.stash[_CURRENT] = item


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Shows the kernels below a failure of a test that asked for them, without perfcli's own
    frames."""
    used = any(isinstance(v, KernelsFixture) for v in getattr(item, "funcargs", {}).values())
    if used and call.excinfo is not None and not item.config.getoption("fulltrace", False):
        _hide_own_frames(call.excinfo.tb)
    outcome = yield
    report = outcome.get_result()
    if call.when == "call" and report.failed and (seen := _asked_for(item)):
        report.sections.append(("perfcli kernels", _shown(seen, item)))


def _hide_own_frames(entry: TracebackType | None) -> None:
    """Take perfcli's frames out of a traceback: a user looks for what their own line got wrong."""
    while entry is not None:
        while entry.tb_next is not None and _is_own(entry.tb_next):
            entry.tb_next = entry.tb_next.tb_next
        entry = entry.tb_next


def _is_own(entry: TracebackType) -> bool:
    path = entry.tb_frame.f_code.co_filename
    return path.startswith(_OURS) or path.endswith(f"{os.sep}contextlib.py")


def _asked_for(item: pytest.Item) -> list[Kernels]:
    """Return the kernels that the test asked for, or a fixture that it uses."""
    seen = list(item.stash.get(_SEEN, ()))
    for value in getattr(item, "funcargs", {}).values():
        if type(value).__name__ == "Kernels" and hasattr(value, "obtained"):
            seen += [] if any(value is known for known in seen) else [value]
    return seen


def _shown(seen: list[Kernels], item: pytest.Item) -> str:
    from perfcli.library.failure import section, write_report

    try:
        if item.config.getoption("--perfcli-full"):
            return section(seen, full=True)
        written = write_report(seen, item.config.rootpath, item.nodeid)
        return section(seen) + (f"all kernels: {written}\n" if written else "")
    except Exception as error:  # a test's own failure must be seen, whatever happens here
        return f"perfcli could not show the kernels: {type(error).__name__}: {error}"


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Return which kernels have most of a total that is not what a test expected, or why a
    comparison has its outcome."""
    said: Any = next((side for side in (left, right) if type(side).__name__ == "Said"), None)
    if said is not None and hasattr(said, "reason"):
        return [f"{str(left)!r} {op} {str(right)!r}", said.reason]
    total: Any = next((side for side in (left, right) if type(side).__name__ == "Total"), None)
    if total is None or not hasattr(total, "parts"):
        return None
    most = total.parts[:MOST_PARTS]
    lines = [f"{left} {op} {right}", total.metric.replace("_", " ")]
    lines += [f"  {part.value:,} in kernel {part.number}, {part.name}" for part in most]
    if len(total.parts) > MOST_PARTS:
        lines.append(f"  … and {len(total.parts) - MOST_PARTS} more kernels")
    return lines
