"""What stands in for module conversion and for names that a torch may lack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from handmade import H100

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402

from perfcli.compile.stand_in.device import _convert_module, _device_properties, replace_attribute  # noqa: E402
from perfcli.errors import CompileFailed  # noqa: E402

pytestmark = pytest.mark.torch


class Tied(nn.Module):
    buffer: Any

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.second.weight.requires_grad_(False)
        self.register_buffer("buffer", torch.ones(3))
        self.register_buffer("same", self.buffer)
        self.register_parameter("nothing", None)


@pytest.mark.parametrize("fake", [False, True])
def test_converted_in_place(fake: bool) -> None:
    with FakeTensorMode() if fake else torch.device("cpu"):
        model = Tied()
        before = model.first.weight
        assert _convert_module(model, lambda t: t.to(torch.bfloat16)) is model
    assert model.first.weight is before
    assert model.second.weight is model.first.weight
    assert isinstance(model.first.weight, nn.Parameter)
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert not model.first.weight.requires_grad
    assert model.first.bias.requires_grad
    assert model.first.bias.is_leaf
    assert model.buffer.dtype is torch.bfloat16
    assert model.same is model.buffer
    assert model.nothing is None


def test_what_does_not_change_stays_the_same_object() -> None:
    model = Tied()
    before = dict(model.named_parameters())
    _convert_module(model, lambda t: t)
    assert all(p is before[name] for name, p in model.named_parameters())


def test_without_recursion_only_the_module_itself() -> None:
    model = Tied()
    _convert_module(model, lambda t: t.double(), recurse=False)
    assert model.buffer.dtype is torch.float64
    assert model.first.weight.dtype is torch.float32


def test_a_name_that_this_torch_lacks_is_told() -> None:
    owner = SimpleNamespace(__name__="torch.cuda", there=1)
    replace_attribute(owner, "there", 2)
    assert owner.there == 2
    with pytest.raises(CompileFailed, match=r"has no torch\.cuda\.not_there") as raised:
        replace_attribute(owner, "not_there", 2)
    assert "\n" not in str(raised.value)


def test_device_properties_are_the_targets() -> None:
    properties = _device_properties(H100)
    assert (properties.major, properties.minor) == (9, 0)
    assert properties.multi_processor_count == 132
    assert properties.L2_cache_size == 50 * 2**20
    assert properties.shared_memory_per_block_optin == 227 * 1024
