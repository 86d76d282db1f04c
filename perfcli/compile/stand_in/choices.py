"""Answers which implementation of an operator is the fastest where there is no device to time
them (``max_autotune``): every template is compiled, its time estimated, and the least one wins.

Seen with torch 2.11 to 2.13.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from perfcli.compile.capture.definition import Definition, read_module
from perfcli.compile.capture.operator_calls import read_tensor
from perfcli.compile.capture.selections import KNOWN, config_of, kind_of, name_of
from perfcli.compile.stand_in.decisions import Assumptions
from perfcli.compile.stand_in.device import replace_attribute
from perfcli.facts.operator_work import count_operator_work
from perfcli.model import (
    Buffer,
    Candidate,
    Implementation,
    OperatorWork,
    Target,
    TimeEstimate,
    best_candidate,
)
from perfcli.predict.moved_bytes import estimate_bytes
from perfcli.predict.operators import estimate_call
from perfcli.predict.templates import (
    TemplateWork,
    count_host_seconds,
    describe_template,
    estimate_template,
)

CHOICES = "implementations of operators, timed on the device: taken as estimated (×{})"
FUSIONS = "fusions, timed on the device: taken as estimated (×{})"
SEARCH = (
    "launch configurations that coordinate descent would search for on the device: left where the "
    "search begins"
)
_WORK = "perfcli work"
_NO_ESTIMATE = "perfcli has no estimate of it"
_TOO_LARGE = "needs more shared memory, or registers, than a block can have"


Told = Callable[[int, int, float], None]
"""Hears how many kernels to choose from are compiled, of how many, and what processor time the
last one took."""


class Compiles(Protocol):
    """Compiles kernels."""

    def results(self, definitions: Sequence[Definition]) -> Iterable[Any]: ...


def install(pool: Compiles, target: Target, assumptions: Assumptions, told: Told) -> None:
    """Let estimates choose, for good. ``pool`` compiles what is estimated."""
    import torch._inductor.config as inductor
    from torch._inductor import autotune_process, ir, scheduler, select_algorithm
    from torch._inductor.codegen.triton import TritonScheduling

    if inductor.coordinate_descent_tuning:
        assumptions.counts[SEARCH] += 1
    answers = _Answers(pool, target, assumptions, told)
    cache = select_algorithm.AlgorithmSelectorCache
    replace_attribute(cache, "benchmark", _or_original(cache.benchmark, answers.time_choices))
    replace_attribute(cache, "lookup", _look_nothing_up)
    replace_attribute(cache, "make_precompile_fn", lambda *_, **__: lambda *_, **__: {})
    replace_attribute(
        TritonScheduling, "benchmark_codegened_module", _without_self(answers.time_module)
    )
    if hasattr(TritonScheduling, "benchmark_combo_kernel"):
        combination = _without_self(answers.time_combination)
        replace_attribute(TritonScheduling, "benchmark_combo_kernel", combination)
    swap = ir.MultiTemplateBuffer.swap_as_triton_caller
    replace_attribute(ir.MultiTemplateBuffer, "swap_as_triton_caller", answers.watch_swaps(swap))
    replace_attribute(autotune_process, "get_tuning_process_pool", lambda: None)
    for module in (select_algorithm, scheduler):
        # It differs in when things are timed, in processes of their own, not in what is chosen.
        if hasattr(module, "use_pipelined_autotuning"):
            replace_attribute(module, "use_pipelined_autotuning", lambda: False)


def _without_self(answer: Any) -> Any:
    return lambda _self, *args, **options: answer(*args, **options)


def _or_original(original: Any, answer: Any) -> Any:
    """Return ``answer`` for the device; what runs on the CPU is timed as ever."""

    @functools.wraps(original)
    def benchmark(
        self: Any, choices: Any, input_nodes: Any, layout: Any, *rest: Any, **options: Any
    ) -> Any:
        if layout.device.type != "cuda":
            return original(self, choices, input_nodes, layout, *rest, **options)
        return answer(choices, input_nodes, layout)

    return benchmark


def _look_nothing_up(
    _self: Any, choices: Any, _op: str, _inputs: str, benchmark: Any, *_: Any, **__: Any
) -> Any:
    """Ask anew each time: what is kept between processes was measured by somebody else."""
    return benchmark(choices) if benchmark else {}


class _Answers:
    """Answers in place of a device that times."""

    def __init__(
        self, pool: Compiles, target: Target, assumptions: Assumptions, told: Told
    ) -> None:
        self._pool, self._target, self._assumptions = pool, target, assumptions
        self._told = told
        self._done = self._total = 0
        self._compiled: set[str] = set()
        self._swapped: tuple[Any, Any] | None = None
        """The ``MultiTemplateBuffer`` and the choice of it that a module is generated for."""

    def time_choices(self, choices: Sequence[Any], nodes: Any, layout: Any) -> dict[Any, float]:
        """Return milliseconds of each choice, as Inductor wants them; infinity for those that can't
        win."""
        self._assumptions.counts[CHOICES] += 1
        reads = [read_tensor(node) for node in nodes]
        result = read_tensor(_Result(layout))
        tf32 = _may_use_tf32(reads)
        templates = [each for each in choices if kind_of(each) == "template"]
        made = dict(zip(map(id, templates), self._compile(templates), strict=True))
        timings: dict[Any, float] = {}
        for each in choices:
            if id(each) in made:
                known = self._judge_template(each, made[id(each)], reads, result, tf32)
            else:
                known = self._judge_others(each, reads, result, tf32)
            known = replace(known, host_seconds=count_host_seconds(known.kind, self._target))
            each.annotations[KNOWN] = known
            found = known.estimate
            timings[each] = _as_timed(found, known.host_seconds) if found else math.inf
        if all(map(math.isinf, timings.values())):
            others = [each for each in choices if id(each) not in made]
            timings[(others or list(choices))[0]] = 1.0
        return timings

    def _compile(self, templates: Sequence[Any]) -> list[Any]:
        definitions = []
        for each in templates:
            source = Path(each.bmreq.module_path).read_text(encoding="utf-8").strip()
            definitions.append(Definition(each.bmreq.kernel_name, "triton", source, "template"))
        return self._compile_all(definitions)

    def _compile_all(self, definitions: Sequence[Definition]) -> list[Any]:
        self._total += len(definitions)
        self._told(self._done, self._total, 0.0)
        found = []
        for definition, made in zip(definitions, self._pool.results(definitions), strict=True):
            found.append(made)
            self._done += 1
            took = 0.0 if definition.source in self._compiled else made.cpu_seconds
            self._compiled.add(definition.source)
            self._told(self._done, self._total, took)
        return found

    def _judge_template(
        self, choice: Any, made: Any, reads: Sequence[Buffer], result: Buffer, tf32: bool
    ) -> Implementation:
        config = config_of(choice)
        known = Implementation(name_of(choice), "template", config)
        if made.compiled.error:
            lines = made.compiled.error.strip().splitlines()
            return replace(known, left_out=f"did not compile: {lines[0][:160]}")
        candidate = best_candidate(made.compiled.candidates)
        if candidate is None:
            return replace(known, left_out="did not compile")
        known = replace(known, candidate=_plain(candidate))
        if not candidate.blocks_per_sm:
            return replace(known, left_out=_TOO_LARGE)
        work = describe_template(_operator_of(choice), reads, result, config, tf32)
        choice.annotations[_WORK] = work
        estimate = work and estimate_template(work, candidate, self._target)
        if not estimate:
            return replace(known, left_out=_NO_ESTIMATE)
        return replace(known, estimate=estimate)

    def _judge_others(
        self, choice: Any, reads: Sequence[Buffer], result: Buffer, tf32: bool
    ) -> Implementation:
        name, kind = name_of(choice), kind_of(choice)
        known = Implementation(name, kind, config_of(choice))
        work = _work_of(name, choice, reads, result, tf32)
        estimate = estimate_call(work, self._target) if work else None
        splits = _splits(name)
        if estimate and splits:  # their results are written, read again and added up
            summed = (splits * 4 + result.bytes / max(1, math.prod(result.shape))) * math.prod(
                result.shape
            )
            estimate = _add(estimate, estimate_bytes(summed, self._target))
        if estimate is None:
            return replace(known, left_out=_NO_ESTIMATE)
        return replace(known, estimate=estimate)

    # --- fusions ------------------------------------------------------------------------------

    def watch_swaps(self, original: Any) -> Any:
        """Wrap ``MultiTemplateBuffer.swap_as_triton_caller``, so that it is known for which choice
        a module was generated."""

        @contextlib.contextmanager
        def swap(buffer: Any, caller: Any) -> Iterator[None]:
            with original(buffer, caller):
                self._swapped = buffer, caller
                try:
                    yield
                finally:
                    self._swapped = None

        return swap

    def time_module(
        self, module: Any, n_spills_threshold: int = 8, *_: Any, **__: Any
    ) -> tuple[float, str]:
        """Return milliseconds of a kernel that was generated to be timed, and its file; infinity
        where it does not compile or spills more than Inductor accepts."""
        self._assumptions.counts[FUSIONS] += 1
        path = str(module.__file__)
        source = Path(path).read_text(encoding="utf-8")
        definition = read_module(source)
        if definition is None:
            return math.inf, path
        made = self._compile_all([definition])[0].compiled
        candidate = None if made.error else best_candidate(made.candidates)
        if candidate is None or not candidate.blocks_per_sm:
            return math.inf, path
        if (candidate.stack_bytes or 0) // 4 > n_spills_threshold:
            return math.inf, path
        estimate = self._estimate_module(source, candidate)
        if estimate is None:
            return math.inf, path
        host = count_host_seconds("template", self._target)
        return _as_timed(estimate, host), path

    def _estimate_module(self, source: str, candidate: Candidate) -> TimeEstimate | None:
        moved = _count_arguments(source)
        if self._swapped is None:
            return estimate_bytes(moved, self._target)
        buffer, choice = self._swapped
        work: TemplateWork | None = choice.annotations.get(_WORK)
        if work is None:
            return None
        fused = replace(work, moved=max(moved, work.moved / 2))
        estimate = estimate_template(fused, candidate, self._target)
        selecting = getattr(buffer, "_perfcli_selecting", None)
        if selecting is not None and estimate is not None:
            selecting.fused[selecting.find(choice)] = estimate
        return estimate

    def time_combination(self, nodes: Sequence[Any], *_: Any) -> tuple[float, float, list[str]]:
        """Return milliseconds of kernels that are launched as one, those of copying what they
        change, and their files."""
        self._assumptions.counts[FUSIONS] += 1
        moved = sum(node.get_read_write_buffers_sizes() for node in nodes)
        estimate = estimate_bytes(moved, self._target)
        return (estimate.seconds * 1e3 if estimate else math.inf), 0.0, []


_PART_OF_DEVICE = 1e-6
"""Of the device's time is added to what is timed: it decides where the host is timed for both."""


def _as_timed(estimate: TimeEstimate, host_seconds: float) -> float:
    """Return the milliseconds that Inductor is expected to time: never fewer than the host
    takes."""
    timed = max(estimate.seconds, host_seconds) + _PART_OF_DEVICE * estimate.seconds
    return timed * 1e3


class _Result:
    """Gives a layout the face of a buffer."""

    def __init__(self, layout: Any) -> None:
        self._layout = layout

    def get_name(self) -> str:
        return ""

    def get_size(self) -> Any:
        return self._layout.size

    def get_stride(self) -> Any:
        return self._layout.stride

    def get_dtype(self) -> Any:
        return self._layout.dtype


def _plain(candidate: Candidate) -> Candidate:
    """Return a candidate without texts: those of the one that is chosen are kept with its
    kernel."""
    return replace(candidate, ttgir=None, ptx=None, sass=None, lines={})


def _may_use_tf32(reads: Sequence[Buffer]) -> bool:
    import torch

    plain = bool(reads) and reads[0].dtype == "float32"
    return plain and torch.get_float32_matmul_precision() != "highest"


def _operator_of(choice: Any) -> str:
    """Return the operator that a template computes, ``triton_mm`` without its first word."""
    return name_of(choice).removeprefix("triton_")


_SPLITS = re.compile(r"decompose_k_mm_(\d+)_split")


def _splits(name: str) -> int:
    found = _SPLITS.match(name)
    return int(found[1]) if found else 0


def _work_of(
    name: str, choice: Any, reads: Sequence[Buffer], result: Buffer, tf32: bool
) -> OperatorWork | None:
    arguments = {**dict(getattr(choice, "kwargs", {})), "tf32": tf32}
    operator = {"bias_addmm": "addmm", "conv1x1_via_mm": "convolution"}.get(name, name)
    splits = _splits(name)
    if splits:
        operator, reads = "bmm", _split(reads, splits)
        result = replace(result, shape=(splits, *result.shape), stride=(0, *result.stride))
    if operator == "addmm" and reads and 0 in reads[0].stride:
        size = reads[0].bytes // max(1, math.prod(reads[0].shape))
        n = result.shape[-1]
        bias = replace(reads[0], shape=(n,), stride=(1,), bytes=n * size)
        reads = [bias, *reads[1:]]
    if operator == "convolution":
        reads, arguments = reads[:2], {**_CONVOLUTION, **arguments}
    return count_operator_work(f"aten.{operator}", reads, [result], _numbers(arguments))


_CONVOLUTION: Mapping[str, Any] = {
    "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "transposed": False,
    "output_padding": (0, 0), "groups": 1,
}  # fmt: skip


def _numbers(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: [int(n) for n in value] if isinstance(value, list | tuple) else value
        for name, value in arguments.items()
        if isinstance(value, bool | int | float | list | tuple)
    }


def _split(reads: Sequence[Buffer], splits: int) -> list[Buffer]:
    """Return the operands of a product as those of a batch of products along its inner
    dimension."""
    left, right = reads[:2]
    (m, k), n = left.shape, right.shape[-1]
    part = k // splits
    return [
        replace(left, shape=(splits, m, part), stride=(part * left.stride[1], *left.stride)),
        replace(right, shape=(splits, part, n), stride=(part * right.stride[0], *right.stride)),
    ]


def _add(one: TimeEstimate, other: TimeEstimate | None) -> TimeEstimate:
    if other is None:
        return one
    return replace(
        one,
        seconds=one.seconds + other.seconds,
        low=one.low + other.low,
        high=one.high + other.high,
    )


_ARGUMENT = re.compile(r"rand_strided\(\((?P<size>[^)]*)\).*?dtype=torch\.(?P<dtype>\w+)\)")


def _count_arguments(source: str) -> int:
    """Return the bytes of all tensors that a kernel generated to be timed is given, as its
    ``get_args`` makes them."""
    import torch

    total = 0
    for found in _ARGUMENT.finditer(source):
        sizes = [int(n) for n in found["size"].split(",") if n.strip()]
        total += math.prod(sizes) * getattr(torch, found["dtype"]).itemsize
    return total
