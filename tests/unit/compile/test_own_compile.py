"""What its author has compiled is called as it is, with the settings that it was given."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from perfcli.compile.own_compile import holds_compiled
from perfcli.model import CompiledCall, Run

COMPILED = torch.compile(abs, backend="eager")


class Holder(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part


def _through_file(x: torch.Tensor) -> torch.Tensor:
    return COMPILED(x)


def test_what_is_found_compiled() -> None:
    inner = nn.Linear(2, 2)
    inner.compile(backend="eager")
    module = torch.compile(nn.Linear(2, 2), backend="eager")
    for call in (
        module,
        inner,
        Holder(module),
        Holder(inner).forward,
        COMPILED,
        lambda x: inner(x),
        _through_file,
    ):
        assert holds_compiled(call)


def test_what_is_not() -> None:
    plain = nn.Linear(2, 2)
    disabled = torch.compiler.disable(lambda x: x)
    for call in (plain, Holder(plain), lambda x: plain(x), abs, disabled):
        assert not holds_compiled(call)


def test_settings_in_words() -> None:
    call = CompiledCall("Net", "model.py:3", "max-autotune", {"a.b": 1}, False, True, "inductor")
    assert call.settings == (
        "mode='max-autotune', options={'a.b': 1}, dynamic=False, fullgraph=True"
    )
    assert CompiledCall("Net", "model.py:3").settings == ""


@pytest.mark.torch
def test_options_of_the_model_beat_those_of_the_variant(compile_run: Callable[..., Run]) -> None:
    """One operator per kernel where the model says so; the two layers are compiled apart."""
    whole = compile_run("own_compile.py:whole", options=(("max_fusion_size", 64),))
    (call,) = whole.compiled
    assert (call.name, dict(call.options)) == ("Net", {"max_fusion_size": 1})
    assert call.graphs == ("inference 0",)
    plain = compile_run("own_compile.py:plain", options=(("max_fusion_size", 64),))
    assert plain.compiled == ()
    assert len(whole.kernels) > len(plain.kernels) == 1
