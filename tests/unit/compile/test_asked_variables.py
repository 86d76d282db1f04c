"""Which variables of the environment are those that a user's code asked for."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from perfcli.compile.asked_variables import AskedVariables

pytestmark = pytest.mark.torch


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> AskedVariables:
    pytest.importorskip("torch")
    for name in ("__getitem__", "__setitem__", "__delitem__", "__iter__"):
        # Set to what it is, so that it is that again behind the test.
        monkeypatch.setattr(type(os.environ), name, getattr(type(os.environ), name))
    monkeypatch.setenv("BATCH", "8")
    monkeypatch.setenv("OWN", "1")
    return AskedVariables()


def _give_through_a_name() -> Any:
    env = os.environ
    return env["BATCH"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: os.environ["BATCH"],
        lambda: os.environ.get("BATCH", "4"),
        lambda: os.getenv("BATCH"),
        lambda: "BATCH" in os.environ,
        lambda: os.environ.setdefault("BATCH", "16"),
        lambda: [os.environ[name] for name in os.environ if name == "BATCH"],
        _give_through_a_name,
    ],
)
def test_every_way_to_ask(asked: AskedVariables, ask: Callable[[], Any]) -> None:
    assert ask()
    assert asked.list_variables() == {"BATCH": hashlib.sha256(b"8").hexdigest()}


def test_what_is_not_set_counts_and_what_the_code_sets_does_not(asked: AskedVariables) -> None:
    assert os.getenv("ABSENT") is None
    os.environ["OWN"] = "2"
    assert os.environ["OWN"] == "2"
    os.environ["BATCH"] = os.environ["BATCH"] + "0"
    sha = hashlib.sha256(b"8").hexdigest()
    assert asked.list_variables() == {"ABSENT": "", "BATCH": sha}


def test_what_nobody_names(asked: AskedVariables) -> None:
    """Copies of all, what Python asks for itself, perfcli's own, and what every run knows."""
    assert {**os.environ}["BATCH"] == os.environ.copy()["BATCH"] == "8"
    assert dict(os.environ.items())["BATCH"] == "8"
    tempfile.gettempdir()
    for name in ("TMPDIR", "PERFCLI_CACHE_DIR", "TORCH_LOGS", "PYTHONHASHSEED"):
        os.getenv(name)
    assert asked.list_variables() == {}


def test_what_compiled_code_asks_for(asked: AskedVariables) -> None:
    import torch

    def scale(x: Any) -> Any:
        return x * int(os.environ.get("BATCH", "4"))

    compiled = torch.compile(scale, fullgraph=True, backend="eager")
    assert compiled(torch.ones(1)).item() == 8
    assert set(asked.list_variables()) - {"BATCH"} <= _OF_PACKAGES
    assert "BATCH" in asked.list_variables()


_OF_PACKAGES = {
    "NETWORKX_AUTOMATIC_BACKENDS",
    "NETWORKX_BACKEND_PRIORITY",
    "NETWORKX_CACHE_CONVERTED_GRAPHS",
    "NETWORKX_FALLBACK_TO_NX",
    "NETWORKX_WARNINGS_TO_IGNORE",
    "_NETWORKX_BUILDING_DOCS_",
}
"""Read by what torch imports while it compiles."""
