"""What torch.compile leaves behind, recorded: ``fixtures/wrappers/`` has modules that Inductor
wrote, by what they compute and the torch that wrote them; logs and folders are made of these."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfcli.compile.binaries.cache import Compiled
from perfcli.model import Candidate, KernelsRequest

_FOLDER = Path(__file__).parent / "fixtures" / "wrappers"
PREFIX = "V1123 03:04:39.788000 19007 torch/_inductor/graph.py:2745]"


def text_of(name: str) -> str:
    return (_FOLDER / f"{name}.txt").read_text()


def write_event(kind: str, payload: str | None = None, prefix: str = PREFIX, **data: Any) -> str:
    """Return the lines of an event as torch logs it: an artifact where ``kind`` begins with one."""
    is_artifact = kind.startswith("artifact ")
    named = {"artifact": {"name": kind[9:], "encoding": "string"}} if is_artifact else {kind: {}}
    if "metadata" in data:
        named = {kind: data.pop("metadata")}
    event = {**named, "frame_id": 0, "frame_compile_id": 0, "attempt": 0, **data}
    if payload is None:
        return f"{prefix} {json.dumps(event)}\n"
    event["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"{prefix} {json.dumps(event)}\n{lines}"


def write_debug_folder(folder: Path, codes: Mapping[str, str], version: str = "2.13.0+cpu") -> Path:
    """Write ``torch_compile_debug`` with a graph for each label, ``0_forward``."""
    run = folder / "torch_compile_debug" / "run_2026_11_23-pid_7" / "torchinductor"
    for number, (label, code) in enumerate(codes.items()):
        graph = run / f"model__{label}_{number}.{number}"
        graph.mkdir(parents=True)
        (graph / "output_code.py").write_text(code)
        runnable = (
            f"import torch\n# torch version: {version}\n# GPU Hardware Info: \n# NVIDIA H200 : 1 \n"
        )
        (graph / "fx_graph_runnable.py").write_text(runnable)
    return folder / "torch_compile_debug"


class CountingCompiler:
    """Makes binaries up: the first has 16 registers, each further one 16 more. Kernels whose text
    has one of ``broken`` do not compile."""

    def __init__(self, broken: Mapping[str, str] | None = None) -> None:
        self.asked: list[KernelsRequest] = []
        self._broken = broken or {}

    def built(self, request: KernelsRequest) -> Iterator[tuple[int, Compiled]]:
        self.asked.append(request)
        for number, kernel in enumerate(request.kernels):
            error = next((e for text, e in self._broken.items() if text in kernel.source), "")
            candidate = Candidate({"XBLOCK": 8}, 4, 1, registers=16 * number + 16, stack_bytes=0)
            yield number, Compiled((), {}, error) if error else Compiled((candidate,), {})
