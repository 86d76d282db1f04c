"""Whose frames are shown of an error, and whose fault it is."""

from __future__ import annotations

import json
import linecache
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import perfcli
from perfcli.errors import UserCodeFailed
from perfcli.loading import tracebacks

OURS = str(Path(perfcli.__file__).parent / "measure" / "made_up.py")
USERS = "/home/me/model.py"


def function(file: str, text: str, **names: Any) -> Callable[[], object]:
    """A function ``f`` whose code says it is from this file."""
    scope: dict[str, Any] = dict(names)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)
    made: FunctionType = scope["f"]
    return made


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except Exception as error:
        # The frame of this file is none of the user's.
        return error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    raise AssertionError("nothing was raised")


def through(inner: Callable[[], object], file: str, name: str) -> Callable[[], object]:
    return function(file, f"def f():\n    return inner()  # {name}\n", inner=inner)


def frames(detail: str) -> list[str]:
    return [line.split('"')[1] for line in detail.splitlines() if line.startswith("  File")]


def test_a_step_that_raises_shows_the_users_frames_alone() -> None:
    failing = function(USERS, "def f():\n    raise ValueError('got 4')\n")
    for name in ("forward", "call", "again"):
        failing = through(through(failing, USERS, name), OURS, name)
    error = raised(failing)
    assert set(frames(tracebacks.show(error))) == {USERS}
    assert tracebacks.show(error).endswith("ValueError: got 4")
    assert tracebacks.is_users_fault(error)


def test_where_no_frame_is_the_users_the_last_ones_are_shown() -> None:
    failing = function(OURS, "def f():\n    return {}['key']\n")
    for number in range(9):
        failing = through(failing, OURS, str(number))
    error = raised(failing)
    lines = tracebacks.show(error).splitlines()
    assert frames(tracebacks.show(error)) == [OURS] * tracebacks.LAST_FRAMES
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "KeyError: 'key'"
    assert len(lines) <= 8
    assert not tracebacks.is_users_fault(error)


def test_a_fault_of_ours_below_the_users_code_is_ours() -> None:
    failing = through(function(OURS, "def f():\n    return 1 / 0\n"), USERS, "forward")
    assert not tracebacks.is_users_fault(raised(through(failing, OURS, "step")))


def test_pythons_own_frames_are_nobodys() -> None:
    error = raised(through(lambda: json.loads("{"), OURS, "ours"))
    files = frames(tracebacks.users_traceback(error))
    assert files == [__file__]  # the lambda
    error = raised(function(OURS, "def f():\n    import json\n    json.loads('{')\n"))
    assert frames(tracebacks.users_traceback(error)) == []
    assert not tracebacks.is_users_fault(error)


def test_generated_code_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/inductor")
    for file in ("/tmp/inductor/ab/cab.py", "<eval_with_key>.3", "<frozen runpy>"):
        assert not tracebacks.is_users_fault(raised(function(file, "def f():\n    1 / 0\n")))


def test_installed_packages_are_the_users() -> None:
    """Of those the model may be made."""
    python = Path(json.__file__).parents[1]
    package = str(python / "site-packages" / "models" / "net.py")
    assert tracebacks.is_users_fault(raised(function(package, "def f():\n    1 / 0\n")))


def test_an_error_is_one_line_and_the_users_part() -> None:
    error = raised(through(function(USERS, "def f():\n    1 / 0\n"), OURS, "ours"))
    told = tracebacks.users_failure("the model failed", error)
    assert isinstance(told, UserCodeFailed)
    assert str(told) == "the model failed: ZeroDivisionError: division by zero"
    assert frames(told.detail) == [USERS]


# As torch 2.11 writes it.
OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2048.00 GiB. GPU 0 has a total capacity of 139.80 GiB "
    "of which 134.46 GiB is free. Process 2952 has 4.70 GiB memory in use. Including non-PyTorch "
    "memory, this process has 640.00 MiB memory in use. Of the allocated memory 120.00 MiB is "
    "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but "
    "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
)


def test_an_error_of_memory_says_what_was_asked_for_and_what_there_is() -> None:
    told = str(tracebacks.users_failure("it failed", MemoryError(OF_MEMORY)))
    assert told == (
        "it failed: MemoryError: CUDA out of memory. Tried to allocate 2048.00 GiB. GPU 0 has a "
        "total capacity of 139.80 GiB of which 134.46 GiB is free."
    )


# As torch 2.13 writes it, shortened.
OF_DYNAMO = """RuntimeError when making fake tensor call
  Explanation: Dynamo failed to run FX node with fake tensors: (FakeTensor(...,
               requires_grad=True)): got RuntimeError('a and b')
  Hint: Your code may result in an error when running in eager.

  Developer debug context:

 For more details about this graph break, please visit: https://example.org/gb4315.html

from user code:
   File "raises.py", line 3, in f
    def f(x, w): return (x @ w).relu()

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do this).
"""


def test_dynamos_advice_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERFCLI_DEBUG", raising=False)
    try:
        raise ValueError("kept") from RuntimeError(OF_DYNAMO)
    except ValueError as error:
        told = tracebacks.users_traceback(error)
        monkeypatch.setenv("PERFCLI_DEBUG", "1")
        assert "Hint: Your code" in tracebacks.users_traceback(error)
    assert [line.strip() for line in told.splitlines() if line][:6] == [
        "RuntimeError: RuntimeError when making fake tensor call",
        "from user code:",
        'File "raises.py", line 3, in f',
        "def f(x, w): return (x @ w).relu()",
        "The above exception was the direct cause of the following exception:",
        "Traceback (most recent call last):",
    ]
    assert told.endswith("\nValueError: kept")
