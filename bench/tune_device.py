"""Compiles variants of a model on a GPU and times them: the part of ``tune.py`` with torch."""

from __future__ import annotations

import contextlib
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from cures_on_device import forget_gradients, patched
from torch.profiler import record_function
from torch.utils._pytree import tree_leaves
from tune_models import Model

from perfcli.measure.events import STEP, read, split_steps
from perfcli.measure.profiling import profile_steps
from perfcli.measure.turnstile import Turnstile

SEED = 20261123
STEPS = 4
"""Steps of a turn, under the profiler."""
ROUNDS, ROUNDS_OF_ENDS = 5, 12
"""Turns of each single option; of the chosen options and the device's own searches."""


@dataclass
class Ready:
    """A compiled variant, and what was measured of it."""

    step: Callable[[], None]
    prepare_seconds: float
    error: float = 0.0
    """The largest difference of a result from the default's, as a part of the largest there."""
    generated: list[float] = field(default_factory=list)
    all: list[float] = field(default_factory=list)


@contextlib.contextmanager
def lend(model: Model, turnstile: str) -> Iterator[Device]:
    """``turnstile``: a file that all processes share who use the device, which take turns when they
    choose launch configurations."""
    import torch._dynamo.config as dynamo

    # All variants stay compiled, each as another backend of one function.
    dynamo.recompile_limit = dynamo.accumulated_recompile_limit = 10_000
    dynamo.fail_on_recompile_limit_hit = True
    torch.manual_seed(SEED)
    with torch.device("cuda"):
        workload = model.build()
    yield Device(workload, Turnstile(turnstile, torch.cuda.synchronize))


class Device:
    """Holds one model's default, and what was found of its variants."""

    def __init__(self, workload: Any, turnstile: Turnstile) -> None:
        self.workload = workload
        self.turnstile = turnstile
        self.default: Ready | None = None
        self.found: dict[str, Any] = {}
        self.gradient: torch.Tensor | None = None
        self.right: list[torch.Tensor] = []
        """The default's results: what it returns and all gradients."""
        self._order = random.Random(SEED)

    def prepare_default(self) -> None:
        self.default = self._prepare("default", {}, searches=False)

    def try_variant(
        self, label: str, options: Mapping[str, Any], *, is_end: bool, searches: bool
    ) -> None:
        """Compile a variant and time it in turns with the default, in more of them where it
        ``is_end``. One variant that fails must not lose the others."""
        try:
            one = self._prepare(label, options, searches)
            self.found[label] = self._compare(one, ROUNDS_OF_ENDS if is_end else ROUNDS)
            print(label, self.found[label], file=sys.stderr, flush=True)
        except Exception as error:
            self.found[label] = {"failure": f"{type(error).__name__}: {error}"[:300]}
            print(label, self.found[label]["failure"], file=sys.stderr, flush=True)
        torch.cuda.empty_cache()

    def _prepare(self, label: str, options: Mapping[str, Any], searches: bool) -> Ready:
        """Compile a variant. One that ``searches`` on the device for long shares it: most of that
        is compiling, for which others would wait."""
        began, waited = time.monotonic(), self.turnstile.waited
        results: list[torch.Tensor] = []
        with chosen(options):
            step = self._compiled(None if "dynamo.assume_static_by_default" in options else False)
            with contextlib.nullcontext() if searches else self._taking_turns():
                for kept in ([], [], results):
                    step(kept)
                differs = _differ(self.right or results, results)
        self.right = self.right or results
        seconds = time.monotonic() - began - (self.turnstile.waited - waited)
        print(f"{label}: {seconds:.1f} s, error {differs:.1e}", file=sys.stderr, flush=True)
        return Ready(lambda: step([]), seconds, differs)

    @contextlib.contextmanager
    def _taking_turns(self) -> Iterator[None]:
        """Share the device in the block once there is code; Inductor times alone what it times."""
        try:
            with self.turnstile.generating():
                yield
        finally:
            self.turnstile.leave()

    def _compiled(self, dynamic: bool | None) -> Callable[[list[torch.Tensor]], None]:
        """Return a step that appends its results to a list."""
        import torch._inductor.compile_fx as inductor

        workload = self.workload
        training = workload.mode == "training"

        def backend(graph: Any, inputs: Any) -> Any:
            """One of its own per variant: Dynamo keeps compiled code by backend."""
            return inductor.compile_fx(graph, inputs)

        call = torch.compile(workload.call, backend=backend, dynamic=dynamic)
        kind = workload.autocast and getattr(torch, workload.autocast)

        def step(results: list[torch.Tensor]) -> None:
            scope = torch.autocast("cuda", dtype=kind) if kind else contextlib.nullcontext()
            with scope, torch.set_grad_enabled(training):
                out = call(*workload.inputs, **workload.kwargs)
            outputs = [each for each in tree_leaves(out) if isinstance(each, torch.Tensor)]
            results += [each.detach() for each in outputs]
            if training:
                # The gradients of ones are nothing but roundings where rows are normalised.
                out.backward(self._gradient(out))
                results += [each.grad for each in _leaves(workload) if each.grad is not None]
                forget_gradients(workload)

        return step

    def _gradient(self, out: torch.Tensor) -> torch.Tensor:
        """Return the same random gradient for all variants."""
        if self.gradient is None:
            self.gradient = torch.randn_like(out)
        return self.gradient

    def _compare(self, one: Ready, rounds: int) -> dict[str, Any]:
        """Return the times of a variant, and the default's at the same time, seconds of a step."""
        assert self.default is not None
        base = Ready(self.default.step, self.default.prepare_seconds)
        with self.turnstile.alone():
            began = time.monotonic()
            turns = [each for _ in range(rounds) for each in self._order.sample([base, one], 2)]
            self._time(turns)
            seconds = time.monotonic() - began
        return {
            "prepare_seconds": one.prepare_seconds,
            "timing_seconds": seconds,
            "error": one.error,
            "default_prepare_seconds": base.prepare_seconds,
            "default_generated": statistics.median(base.generated),
            "default_all": statistics.median(base.all),
            "default_spread": statistics.pstdev(base.generated),
            "generated": statistics.median(one.generated),
            "all": statistics.median(one.all),
            "spread": statistics.pstdev(one.generated),
        }

    def _time(self, turns: Sequence[Ready]) -> None:
        """Time all turns under one profiler: it takes longer to start than a turn.

        Raises RuntimeError where it lost events twice.
        """
        for one in {id(each): each for each in turns}.values():  # caches, clocks
            one.step()
        for _ in range(2):
            torch.cuda.synchronize()
            with profile_steps(on_device=True, facts=False) as profiler:
                for one in turns:
                    for _ in range(STEPS):
                        with record_function(STEP):
                            one.step()
                            torch.cuda.synchronize()
            events = read(profiler.kineto_results.events())
            seen = split_steps(events, True, lambda name: name.startswith("triton_"))
            if len(seen) == STEPS * len(turns):
                break
        else:
            raise RuntimeError(f"{len(seen)} of {STEPS * len(turns)} steps seen")
        for number, one in enumerate(turns):
            kernels = [k for step in seen[number * STEPS : (number + 1) * STEPS] for k in step]
            one.generated.append(sum(k.seconds for k in kernels if k.generated) / STEPS)
            one.all.append(sum(k.seconds for k in kernels) / STEPS)


def _leaves(workload: Any) -> Iterator[torch.Tensor]:
    if hasattr(workload.call, "parameters"):
        yield from workload.call.parameters()
    yield from (each for each in workload.inputs if isinstance(each, torch.Tensor))


def _differ(right: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> float:
    """Return the largest difference as a part of the largest value, of the tensor that differs
    most."""
    errors = [0.0 if len(right) == len(found) else math.inf]
    for one, other in zip(right, found, strict=False):
        most = one.abs().max().item() or 1.0
        error = (one.float() - other.float()).abs().max().item() / most
        errors.append(math.inf if math.isnan(error) else error)
    return max(errors)


@contextlib.contextmanager
def chosen(options: Mapping[str, Any]) -> Iterator[None]:
    """Compiles with options; those that this torch lacks are perfcli's patches."""
    import torch._dynamo.config as dynamo
    import torch._functorch.config as functorch
    import torch._inductor.config as inductor

    homes = {"dynamo.": dynamo, "functorch.": functorch}
    own: dict[str, Any] = {}
    patches: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        for name, value in options.items():
            prefix = next((each for each in homes if name.startswith(each)), "")
            if prefix:
                home: Any = homes[prefix]
                stack.enter_context(home.patch({name.removeprefix(prefix): value}))
            elif name in inductor._config:
                own[name] = value
            else:
                patches[name] = value
        # Its key does not know of patches.
        stack.enter_context(inductor.patch({**own, "fx_graph_cache": False}))
        stack.enter_context(functorch.patch({"enable_autograd_cache": False}))
        stack.enter_context(patched(patches))
        yield
