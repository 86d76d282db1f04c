"""What is said of a device that is full."""

from __future__ import annotations

import pytest

from perfcli.errors import OutOfMemory
from perfcli.measure.step import out_of_memory
from perfcli.model import CompileRequest, Variant

TORCH_SAYS = (
    "CUDA out of memory. Tried to allocate 84.33 GiB. GPU 0 has a total capacity of 139.80 GiB of "
    "which 54.95 GiB is free. Including non-PyTorch memory, this process has 84.84 GiB memory in "
    "use. Of the allocated memory 84.33 GiB is allocated by PyTorch"
)


def test_how_much_was_free_is_told_in_whole_sentences() -> None:
    request = CompileRequest("softmax", {}, None, Variant("default"), "cuda", None)
    with pytest.raises(OutOfMemory) as raised, out_of_memory("head", request):
        raise RuntimeError(TORCH_SAYS)
    assert str(raised.value) == (
        "the head's softmax does not fit into memory: CUDA out of memory. Tried to allocate "
        "84.33 GiB. GPU 0 has a total capacity of 139.80 GiB of which 54.95 GiB is free"
    )
