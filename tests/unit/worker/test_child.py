"""The worker's side, run in this process with pipes: whatever comes in, one reply goes out."""

from __future__ import annotations

import json
import os
import re
from typing import Any
from unittest.mock import Mock

import pytest

from perfcli.compile import session
from perfcli.errors import CompileFailed
from perfcli.loading.tracebacks import LAST_FRAMES
from perfcli.model import CompileRequest, Variant
from perfcli.worker import child
from perfcli.worker.protocol import encode

REQUEST = CompileRequest("softmax", {}, None, Variant("v"), "cpu", None)


@pytest.fixture(autouse=True)
def _stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "_exit_now", lambda: None)


def replies_to(line: bytes) -> list[dict[str, Any]]:
    request_read, request_write = os.pipe()
    reply_read, reply_write = os.pipe()
    with os.fdopen(request_write, "wb") as pipe:
        pipe.write(line)
    assert child.serve(request_read, reply_write) == 0
    with os.fdopen(reply_read, "rb") as pipe:
        return [json.loads(reply) for reply in pipe.read().splitlines()]


def request_line() -> bytes:
    return encode({"compile": REQUEST})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "JSONDecodeError: "),
        (b"hello\n", "JSONDecodeError: "),
        (b'{"compile": []}\n', "TypeError: CompileRequest is an object, not a list"),
        (b'{"compile": {"scenario": "softmax"}}\n', "TypeError: "),
        (b'{"compile": {"no_such_field": 1}}\n', "KeyError: 'no_such_field'"),
        (b'{"measure": {"no_such_field": 1}}\n', "KeyError: 'no_such_field'"),
    ],
)
def test_a_bad_request_gets_an_error_reply(
    line: bytes, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (reply,) = replies_to(line)
    assert reply["type"] == "error"
    assert reply["kind"] == "WorkerFailed"
    assert reply["message"].startswith(f"the worker failed: {reason}")
    assert "\n" not in reply["message"]
    assert reply["detail"].startswith("Traceback")
    # The log has it, too.
    assert "Traceback" in capfd.readouterr().err


def test_progress_then_the_error_as_it_was_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_request(request: CompileRequest, report: Any, told: Any) -> Any:
        assert request == REQUEST
        report("trace", 3, None)
        told("ptxas takes long")
        raise CompileFailed("no", detail="why")

    monkeypatch.setattr(session, "compile_request", compile_request)
    assert replies_to(request_line()) == [
        {"type": "progress", "phase": "trace", "done": 3, "total": None},
        {"type": "note", "message": "ptxas takes long"},
        {"type": "error", "kind": "CompileFailed", "message": "no", "detail": "why"},
    ]


def test_an_error_without_text_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "compile_request", Mock(side_effect=AssertionError))
    (reply,) = replies_to(request_line())
    assert reply["message"] == "the worker failed: AssertionError"


def test_an_error_of_the_users_code_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    def compile_request(request: CompileRequest, report: Any, told: Any) -> Any:
        raise ValueError("got 4\nand more")

    monkeypatch.setattr(session, "compile_request", compile_request)
    (reply,) = replies_to(request_line())
    assert reply["kind"] == "UserCodeFailed"
    assert reply["message"] == "the model failed while it ran: ValueError: got 4"
    files = re.findall(r'File "(.+?)"', reply["detail"])
    assert files == [__file__]


def test_an_error_of_ours_shows_its_end_and_debugging_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "compile_request", Mock(side_effect=KeyError("x")))
    (short,) = replies_to(request_line())
    assert short["detail"].count("  File") == LAST_FRAMES
    assert short["detail"].endswith("KeyError: 'x'")
    monkeypatch.setenv("PERFCLI_DEBUG", "1")
    (whole,) = replies_to(request_line())
    assert whole["detail"].count("  File") > LAST_FRAMES
