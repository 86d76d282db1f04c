"""Graphs that Inductor would build in C++: a package of AOTInductor, made and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from warm import WarmProcess

from perfcli.machine import targets
from perfcli.model import CompileRequest, ScriptCommand, Variant

PROGRAM = """
import os
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(256, 512)

    def forward(self, x):
        return {"y": torch.softmax(self.up(x), -1)}


def main():
    model, x = Net().cuda().eval(), torch.randn(128, 256, device="cuda")
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
        path = os.path.abspath("net.pt2")
        assert torch._inductor.aoti_compile_and_package(exported, package_path=path) == path
        loaded = torch._inductor.aoti_load_package(path)
        y = loaded(x)["y"]
        assert (tuple(y.shape), y.dtype, y.device.type) == ((128, 512), torch.float32, "cuda")


if __name__ == "__main__":
    main()
"""


@pytest.mark.torch
def test_a_package_is_compiled_loaded_and_called(
    cache_of_the_run: Path, warm_process: WarmProcess, tmp_path: Path
) -> None:
    file = tmp_path / "export.py"
    file.write_text(PROGRAM)
    run = warm_process.compile(
        CompileRequest(
            scenario=str(file),
            params={},
            preset=None,
            variant=Variant("", {"triton.cudagraphs": True}),
            device="cuda",
            target=targets.get("h200"),
            jobs=2,
            cache_dir=str(cache_of_the_run),
            folder=str(tmp_path),
            script=ScriptCommand(str(file), module=False, arguments=()),
        )
    ).run
    (kernel,) = run.kernels
    assert "softmax" in kernel.name
    assert kernel.launches == 1
    assert kernel.candidates
    assert [(extern.op, extern.count) for extern in run.externs] == [("aten.addmm.out", 1)]
    assert any("the C++ around kernels is not generated" in note for note in run.notes)
    assert (tmp_path / "net.pt2").stat().st_size > 0
