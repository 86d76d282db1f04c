"""Judges results of a call against those of another: which of them lie how far off."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from perfcli import units
from perfcli.compile.building import Built, modules_of
from perfcli.measure import difference
from perfcli.measure.difference import Difference
from perfcli.measure.results import Results

OUTPUTS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 1e-4, "float64": 1e-7}
"""Tolerances for where the scenario names none: the largest error as a part of the reference's
largest value. They are about ``torch.testing.assert_close``'s relative tolerances (1.6e-2 for
bfloat16, 1e-3 for float16, 1e-7 for float64), and for float32 what Inductor's own benchmarks allow
(1e-4). A larger error is not wrong yet: it is held against eager's own error (``checking``)."""

GRADIENTS = {"bfloat16": 0.1, "float16": 0.05, "float32": 1e-3, "float64": 1e-6}
"""Relative L2 error of a gradient. Every layer of a backward rounds again, and sums of many
gradients cancel: far more than for outputs. A gradient that is wrong is off by its own size."""

INTEGERS = 0.02
"""Share of integers that may differ where they follow from rounded numbers (an ``argmax``)."""


def dtypes_at_work(built: Built, outputs: Iterable[Any]) -> set[str]:
    """Return names of all floating-point dtypes that round anything on the way to the outputs."""
    import torch
    from torch.utils import _pytree

    workload = built.workload
    inputs = _pytree.tree_leaves((workload.inputs, dict(workload.kwargs)))
    weights = [p for module in modules_of(workload.call) for p in module.parameters()]
    tensors = [t for t in (*inputs, *weights, *outputs) if isinstance(t, torch.Tensor)]
    found = {_name(t.dtype) for t in tensors if t.is_floating_point() or t.is_complex()}
    named = (built.params.get("dtype"), workload.autocast)
    return found | {str(n) for n in named if n in OUTPUTS}


def note_dtypes(call: Callable[..., Any], names: set[str]) -> Callable[..., Any]:
    """Return ``call``, which then adds to ``names`` the floating-point dtypes of all that it
    computes."""
    import torch
    from torch.utils import _pytree
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noting(TorchDispatchMode):  # type: ignore[misc]
        # Of other modes torch refuses to run such operators, and to compile what runs them.
        supports_higher_order_operators = True

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            return True

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **kwargs or {})
            for each in _pytree.tree_leaves(result):
                if isinstance(each, torch.Tensor) and each.is_floating_point():
                    names.add(_name(each.dtype))
            return result

    def noting(*args: Any, **kwargs: Any) -> Any:
        with Noting():
            return call(*args, **kwargs)

    return noting


def tolerance(table: Mapping[str, float], dtypes: Iterable[str]) -> float:
    """Return the coarsest tolerance of these dtypes; of dtypes that the table lacks (float8), two
    steps of their own precision. 0 where nothing is rounded: integers only."""
    return max((table.get(name, _steps(name)) for name in dtypes), default=0.0)


def output_tolerance(scenarios: Mapping[str, float], dtypes: set[str]) -> float:
    """Return the scenario's own where it names one of the dtypes, else the default."""
    table = scenarios if dtypes & scenarios.keys() else OUTPUTS
    return tolerance(table, dtypes & table.keys() or dtypes)


def _steps(name: str) -> float:
    import torch

    return float(2 * torch.finfo(getattr(torch, name)).eps)


def _name(dtype: Any) -> str:
    """Return the name of the real dtype: ``complex64`` is made of float32."""
    real = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
    name = str(dtype).removeprefix("torch.")
    return real.get(name, name)


What = Literal["output", "gradient", "changed"]
LEAST_GRADIENT = 1e-3
"""A gradient counts as at least this part of the largest one (root mean square): those that cancel
exactly on paper, as of a bias before a norm, are nothing but rounding."""


@dataclass(frozen=True, slots=True)
class ErrorLimits:
    output: float
    """Part of the reference's largest value."""
    gradient: float
    """Part of the gradient's L2 norm."""
    integer: float
    """Share of unequal elements."""


@dataclass(frozen=True, slots=True)
class Distance:
    """Holds the distance of one tensor from its reference."""

    name: str
    what: What
    error: float
    limit: float
    of: str = "largest value"
    odd: int = 0
    nan: int = 0
    count: int = 0
    problem: str = ""
    """Why there is nothing to measure: another shape, no tensor."""

    @property
    def key(self) -> tuple[What, str]:
        return self.what, self.name

    @property
    def suspicious(self) -> bool:
        return bool(self.problem or self.odd or self.error > self.limit)

    def told(self, against: str, allowed: float) -> str:
        """Return what is wrong, in one clause."""
        name = f"the gradient of {self.name}" if self.what == "gradient" else self.name
        if self.problem:
            return f"{name} {self.problem}"
        if self.odd:
            how = f"NaN in {self.nan:,}" if self.nan else f"not as finite in {self.odd:,}"
            return f"{name} is {how} of {self.count:,} elements where {against} is not"
        if self.of == "elements":
            return f"{name} differs in {self.error:.2%} of its elements from {against}"
        if math.isinf(self.error):
            return f"{name} is not zero everywhere, that of {against} is"
        off = _part(self.error)
        return (
            f"{name} is off by {off}{' of' if off.endswith('%') else ''} its {self.of}, "
            f"allowed: {_part(allowed)} (against {against})"
        )


def _part(ratio: float) -> str:
    """Write a ratio as ``0.01 %``, and as ``14 times`` from two on."""
    if ratio >= 2:
        return f"{units.count(float(f'{ratio:.2g}'))} times"
    return f"{ratio * 100:.0f} %" if ratio >= 0.1 else f"{ratio * 100:.2g} %"


def distances(found: Results, expected: Results, limits: ErrorLimits) -> tuple[Distance, ...]:
    """Return the distance of everything that is expected: outputs, gradients, and what was changed
    in place."""
    return (
        *_outputs(found.outputs, expected.outputs, limits),
        *_gradients(found.gradients, expected.gradients, limits),
        *_compare_changed(found, expected, limits),
    )


def new_nan(found: Results, expected: Results) -> Iterator[Distance]:
    """Yield NaN where the expected tensor has none at all: wrong even where the numbers are
    random."""
    import torch

    for what, ours, theirs in (
        ("output", found.outputs, expected.outputs),
        ("gradient", found.gradients, expected.gradients),
    ):
        for name, value in ours.items():
            clean = name in theirs and not bool(torch.isnan(theirs[name]).any())
            nan = int(torch.isnan(value).sum()) if clean else 0
            if nan:
                yield Distance(name, what, 0.0, 0.0, odd=nan, nan=nan, count=value.numel())  # type: ignore[arg-type]


def _outputs(
    found: Mapping[str, Any], expected: Mapping[str, Any], limits: ErrorLimits
) -> Iterator[Distance]:
    for name in expected.keys() - found.keys():
        yield Distance(name, "output", 0.0, 0.0, problem="is missing, or no tensor")
    for name in found.keys() - expected.keys():
        yield Distance(name, "output", 0.0, 0.0, problem="is a tensor, which was not expected")
    yield from _values("output", found, expected, limits)


def _compare_changed(found: Results, expected: Results, limits: ErrorLimits) -> Iterator[Distance]:
    """Yield the distances of what was changed in place; what one side left as it was counts as it
    was."""
    names = (found.changed.keys() | expected.changed.keys()) & expected.before.keys()
    ours = {name: found.changed.get(name, found.before[name]) for name in names}
    theirs = {name: expected.changed.get(name, expected.before[name]) for name in names}
    return _values("changed", ours, theirs, limits)


def _values(
    what: What, found: Mapping[str, Any], expected: Mapping[str, Any], limits: ErrorLimits
) -> Iterator[Distance]:
    for name, theirs in expected.items():
        if name not in found:
            continue
        problem = mismatch(found[name], theirs)
        if problem:
            yield Distance(name, what, 0.0, 0.0, problem=problem)
        elif difference.is_comparable(found[name]) and difference.is_comparable(theirs):
            yield _distance(
                what, name, difference.measure_difference(found[name], theirs), theirs, limits
            )


def _distance(what: What, name: str, d: Difference, theirs: Any, limits: ErrorLimits) -> Distance:
    if difference.kind(theirs) in ("integer", "bool"):
        # One of a few may follow from rounding, whatever its share is.
        limit = max(limits.integer, 1 / max(1, d.count)) if limits.integer else 0.0
        return Distance(name, what, d.share, limit, "elements", count=d.count)
    return Distance(name, what, d.relative, limits.output, odd=d.odd, nan=d.nan, count=d.count)


def _gradients(
    found: Mapping[str, Any], expected: Mapping[str, Any], limits: ErrorLimits
) -> Iterator[Distance]:
    measured: dict[str, Difference] = {}
    for name, theirs in expected.items():
        ours = found.get(name)
        if ours is None:
            if bool(theirs.any()):
                yield Distance(name, "gradient", 0.0, 0.0, problem="is missing")
        elif problem := mismatch(ours, theirs):
            yield Distance(name, "gradient", 0.0, 0.0, problem=problem)
        elif difference.is_comparable(ours) and difference.is_comparable(theirs):
            measured[name] = difference.measure_difference(ours, theirs)
    least = LEAST_GRADIENT * max((d.rms for d in measured.values()), default=0.0)
    for name, d in measured.items():
        error = d.relative_norm(least)
        yield Distance(name, "gradient", error, limits.gradient, "norm", d.odd, d.nan, d.count)


def mismatch(ours: Any, theirs: Any) -> str:
    """Say that shape or kind of number differ; empty where both agree."""
    if tuple(ours.shape) != tuple(theirs.shape):
        return f"has shape {tuple(ours.shape)}, not {tuple(theirs.shape)}"
    kinds = difference.kind(ours), difference.kind(theirs)
    return f"is {kinds[0]} ({ours.dtype}), not {kinds[1]}" if kinds[0] != kinds[1] else ""


def worst(found: Sequence[Distance]) -> Distance | None:
    """Return the output that uses most of its limit; a gradient only where no output was
    compared."""
    outputs = [d for d in found if d.what == "output"] or list(found)
    return max(outputs, key=lambda d: d.error / d.limit if d.limit else d.error, default=None)
