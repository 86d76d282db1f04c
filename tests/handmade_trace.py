"""Writes traces as torch.profiler does, of steps whose times are known: tests and
``bench/import_traces.py`` hold what perfcli reads against the same numbers."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

H200 = {
    "id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "computeMajor": 9,
    "computeMinor": 0, "numSms": 132, "regsPerMultiprocessor": 65536, "warpSize": 32,
    "sharedMemPerMultiprocessor": 233472, "maxThreadsPerMultiprocessor": 2048,
}  # fmt: skip


@dataclass(frozen=True)
class Traced:
    """Describes one launch of a step."""

    name: str
    micros: float
    operator: str = ""
    grid: tuple[int, ...] = (4096, 1, 1)
    block: tuple[int, ...] = (128, 1, 1)
    registers: int = 32
    shared: int = 0
    cat: str = "kernel"
    graph: str = ""
    backward: bool = False


@dataclass
class TraceWriter:
    """Writes the events of some steps one after the other."""

    launches: Sequence[Traced]
    steps: int = 5
    seed: int = 0
    noise: float = 0.002
    gap: float = 2.0
    """Microseconds between two launches on the device."""
    lag: float = 40.0
    """Microseconds from the host's launch to the device's."""
    marks: bool = True
    rank: int | None = None
    world_size: int | None = None
    device: Mapping[str, Any] | None = field(default_factory=lambda: dict(H200))
    extra: Sequence[Mapping[str, Any]] = ()
    first_step: int = 7

    def events(self) -> Iterator[dict[str, Any]]:
        """The host's events of a step, then the device's: the order in a real file differs."""
        chance = random.Random(self.seed)
        moment, number = 4545587604379.761, 1000
        for step in range(self.steps):
            began, later = moment, []
            for launch in self.launches:
                number += 1
                micros = launch.micros * (1 + self.noise * chance.gauss(0, 1))
                yield from self._host(launch, moment, number)
                later.append(self._device(launch, moment + self.lag, micros, number))
                moment += micros + self.gap
            if self.marks:
                name = f"ProfilerStep#{self.first_step + step}"
                yield _event("user_annotation", name, began, moment - began, 1)
                # On the device it spans kernels, and is none.
                yield _event("gpu_user_annotation", name, began + self.lag, moment - began, 7)
            yield from later
        yield from (dict(event) for event in self.extra)

    @staticmethod
    def _host(launch: Traced, moment: float, number: int) -> Iterator[dict[str, Any]]:
        thread = 2 if launch.backward else 1
        if launch.backward:
            name = "autograd::engine::evaluate_function: CompiledFunctionBackward"
            yield _event("cpu_op", name, moment - 0.2, 1.9, thread)
        if launch.graph:
            name = f"## Call CompiledFxGraph {launch.graph} ##"
            yield _event("user_annotation", name, moment - 0.1, 1.7, thread)
        if launch.operator:
            given = {"External id": number, "Input Dims": [[64, 64], [64]]}
            yield _event("cpu_op", launch.operator, moment, 1.5, thread, given)
        call = "cuLaunchKernelEx" if launch.cat == "kernel" else "cudaMemcpyAsync"
        given = {"External id": number, "cbid": 652, "correlation": number}
        yield _event("cuda_driver", call, moment + 0.5, 0.7, thread, given)

    @staticmethod
    def _device(launch: Traced, moment: float, micros: float, number: int) -> dict[str, Any]:
        given: dict[str, Any] = {"device": 0, "stream": 7, "correlation": number}
        if launch.cat == "kernel":
            given |= {
                "registers per thread": launch.registers, "shared memory": launch.shared,
                "grid": list(launch.grid), "block": list(launch.block),
                "est. achieved occupancy %": 100,
            }  # fmt: skip
        return _event(launch.cat, launch.name, moment, micros, 7, given) | {"pid": 0}

    def head(self) -> dict[str, Any]:
        found: dict[str, Any] = {"schemaVersion": 1}
        found["deviceProperties"] = [self.device] if self.device else []
        if self.rank is not None:
            world = {} if self.world_size is None else {"world_size": self.world_size}
            found["distributedInfo"] = {"backend": "nccl", "rank": self.rank, **world}
        return found

    def text(self) -> str:
        """The whole file, laid out as Kineto does."""
        events = ",\n".join(f"  {json.dumps(event)}" for event in self.events())
        head = json.dumps(self.head())[1:-1]
        return f'{{\n  {head},\n  "traceEvents": [\n{events}\n  ],\n  "traceName": "x.json"\n}}'

    def write(self, path: Path) -> Path:
        """Write the file, compressed if its name ends so."""
        data = self.text().encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data, 1) if path.suffix == ".gz" else data)
        return path

    def write_large(self, file: TextIO) -> int:
        """Write event by event; how many there are."""
        head = json.dumps(self.head())[1:-1]
        file.write(f'{{\n  {head},\n  "traceEvents": [\n')
        count = 0
        for count, event in enumerate(self.events(), 1):
            file.write(("" if count == 1 else ",\n") + json.dumps(event, indent=2))
        file.write('\n  ],\n  "traceName": "x.json"\n}')
        return count


def _event(
    cat: str, name: str, moment: float, micros: float, thread: int, given: Any = None
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 1, "tid": thread,
        "ts": round(moment, 3), "dur": round(micros, 3), "args": given or {},
    }  # fmt: skip


def training_step(slower: float = 1.0) -> list[Traced]:
    """A step of ten generated kernels in two graphs, three library operators and a copy;
    ``slower`` multiplies the time of the first backward reduction."""
    forward = [Traced(f"triton_poi_fused_add_{n}", 20.0 + n, graph="aaa") for n in range(4)]
    forward += [
        Traced("triton_red_fused_sum_4", 55.0, graph="aaa", grid=(512, 1, 1), registers=64),
        Traced(
            "nvjet_tst_128x256_64x4_1x2_h_bz_NNT", 200.0, "aten::mm", (132, 1, 1), (384, 1, 1), 168
        ),
    ]
    backward = [
        Traced(
            "triton_red_fused_mul_sum_0", 80.0 * slower, graph="bbb", backward=True, registers=255
        ),
        *(
            Traced(f"triton_poi_fused_mul_{n}", 30.0 + n, graph="bbb", backward=True)
            for n in range(1, 5)
        ),
        Traced(
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
            "std::array<char*, 1> >(int, at::native::FillFunctor<float>, std::array<char*, 1>)",
            3.0, "aten::fill_",
        ),
        Traced("Memcpy DtoD (Device -> Device)", 6.0, "aten::copy_", cat="gpu_memcpy"),
    ]  # fmt: skip
    return [*forward, *backward]
