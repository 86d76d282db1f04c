"""Counts the steps of a script, ends it after the last one that is wanted, and says which calls of
its graphs make up that step.

With an optimizer, a step goes from one of its steps to the next: every forward and backward call
between them, however many micro-batches these are, and no evaluation before. Where there are
several, that of the one which steps least often counts. Without any, a step is one round of calls
of what was compiled.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from perfcli import units
from perfcli.compile.capture.captured import Capture, CapturedGraph
from perfcli.compile.capture.eager_operators import EagerOperator
from perfcli.loading.tracebacks import is_users

_PATIENCE = 8
"""Rounds of one optimizer, for each that is wanted, in which the others have to step, too."""
_MOST_CALLS = 32
"""Calls of one compiled callable after which a script without an optimizer ends."""
_MOST_CAUGHT = 100
"""Times that a script may go on though it was ended."""
_MOST_CALLS_UNTIL_STEP = 4096
"""The same where an optimizer was made and has not stepped yet: evaluation, accumulation."""


class ScriptEnded(BaseException):
    """Ends a script that has done all steps that are wanted. It is none of the errors that scripts
    catch."""


@dataclass(slots=True)
class _Event:
    who: int
    at: int
    """How many graphs had been called."""
    eager: int = 0
    """How many operators had run outside of graphs."""


@dataclass(slots=True)
class StepCounter:
    """Counts what ends a script that runs under ``watch_optimizers``."""

    capture: Capture
    wanted: int
    ended: bool = False
    optimizers: dict[int, Any] = field(default_factory=dict)
    """Those that were made, by their ids, which stay theirs."""
    steps: list[_Event] = field(default_factory=list)
    calls: list[_Event] = field(default_factory=list)
    order: list[CapturedGraph] | None = None
    """The calls of graphs until the script was ended; what its ``finally`` calls is not among
    them."""
    caught: int = 0
    """How often the script caught what ended it, and went on."""
    traced: set[int] = field(default_factory=set)
    """The compiled callables with a step of an optimizer in their graphs."""

    def enter(self, use: int) -> None:
        """Hear that a compiled callable is called. Raises ScriptEnded where it needn't be."""
        if self.ended:
            self._end()
        if self.calls and self.calls[-1].who in self.traced:
            self._finish_step(-1 - self.calls[-1].who)
        called = Counter(event.who for event in self.calls)
        most = _MOST_CALLS_UNTIL_STEP if self.optimizers else _MOST_CALLS
        if not self.steps and called[use] >= max(most, self.wanted):
            self._end()
        self.calls.append(_Event(use, len(self.capture.call_order)))

    def finish_step(self, optimizer: Any) -> None:
        """Hear that an optimizer has stepped. Raises ScriptEnded after the last step."""
        if self.ended:
            self._end()
        self.optimizers.setdefault(id(optimizer), optimizer)
        self._finish_step(id(optimizer))

    def finish_traced_step(self) -> None:
        """Hear that the step of an optimizer is traced into the callable that is being called."""
        if self.calls:
            self.traced.add(self.calls[-1].who)

    def _finish_step(self, who: int) -> None:
        now = len(self.capture.call_order), len(self.capture.eager)
        self.steps.append(_Event(who, *now))
        done = Counter(event.who for event in self.steps)
        # An optimizer whose step is part of compiled code never steps by itself.
        others = [done[key] for key in self.optimizers if done[key] or not self.traced]
        everyone = all(number >= self.wanted for number in (*others, *done.values()))
        if everyone or max(done.values()) >= _PATIENCE * self.wanted:
            self._end()

    def _end(self) -> None:
        if self.ended:
            self.caught += 1
            _leave_handlers(self.caught)
        else:
            self.ended, self.order = True, list(self.capture.call_order)
        raise ScriptEnded

    def describe(self) -> str:
        """Return which part of the script the run is."""
        done = Counter(event.who for event in self.steps)
        if not done:
            calls = units.plural(len(self.calls), "call")
            last = "the last round" if len({event.who for event in self.calls}) > 1 else "the last"
            return f"no optimizer was stepped: {last} of {calls} counts as the step"
        number = min(done.values())
        return (
            f"step {number} of the script, between two steps of its optimizer"
            if number > 1
            else "the first step"
        )

    def select(self) -> list[CapturedGraph]:
        """Return the calls of graphs of the last step, in order."""
        order = self.capture.call_order if self.order is None else self.order
        if self.steps:
            begin, end = _last_period(self.steps)
            return order[begin.at : end.at]
        return self._select_round(order)

    def select_eager(self) -> list[EagerOperator]:
        """Return what ran outside of graphs in the last step; nothing where no optimizer stepped,
        and no step has a beginning."""
        if not self.steps:
            return []
        begin, end = _last_period(self.steps)
        return self.capture.eager[begin.eager : end.eager]

    def _select_round(self, order: list[CapturedGraph]) -> list[CapturedGraph]:
        """Return the calls from one call of a callable to its next, before them the last call of
        each callable that is not among these."""
        if not self.calls:
            return list(order)
        last = self.calls[-1].who
        own = [number for number, event in enumerate(self.calls) if event.who == last]
        begin = own[-2] + 1 if len(own) > 1 else 0
        chosen = self.calls[begin:]
        seen = {event.who for event in chosen}
        ends = [*(event.at for event in self.calls[1:]), len(order)]
        earlier = {
            event.who: order[event.at : end]
            for event, end in zip(self.calls[:begin], ends, strict=False)
            if event.who not in seen
        }
        return [*(g for each in earlier.values() for g in each), *order[chosen[0].at :]]


def _leave_handlers(times: int) -> None:
    """Make each line that the script runs next raise ScriptEnded as well, one after the other: it
    catches all exceptions and goes on. A script that catches even these is stopped."""
    if times > _MOST_CAUGHT:
        sys.stderr.write("the script catches BaseException wherever it ends: catch Exception\n")
        sys.stderr.flush()
        os._exit(1)

    def is_of_script(frame: Any) -> bool:
        return is_users(SimpleNamespace(filename=frame.f_code.co_filename))  # type: ignore[arg-type]

    def end(frame: Any, event: str, _argument: Any) -> Any:
        if event == "line":
            raise ScriptEnded  # with which Python takes this function out
        return end if is_of_script(frame) else None

    def trace_from(frame: Any) -> None:
        while frame is not None:
            if is_of_script(frame):
                frame.f_trace = end
            frame = frame.f_back
        sys.settrace(end)

    def go_on(frame: Any, event: str, _argument: Any) -> None:
        if event == "return":
            trace_from(frame.f_back)

    sys.setprofile(go_on)
    trace_from(sys._getframe(1))


def _last_period(steps: list[_Event]) -> tuple[_Event, _Event]:
    """Return the last two steps, or the beginning and the only one, of the optimizer that stepped
    least often, of several such the last one."""
    number = Counter(event.who for event in steps)
    rarest = min(reversed(steps), key=lambda event: number[event.who]).who
    own = [event for event in steps if event.who == rarest]
    return own[-2] if len(own) > 1 else _Event(rarest, 0), own[-1]


@contextmanager
def watch_optimizers(counter: StepCounter) -> Iterator[None]:
    """Count the steps of all optimizers while the block runs.

    Seen with torch 2.11 to 2.13: the global hooks of ``torch.optim`` run after every ``step``, of
    subclasses as well; inside of what is compiled, Dynamo traces them.
    """
    import torch
    from torch.optim import optimizer

    note = torch._dynamo.assume_constant_result(_ignore_result(counter.finish_traced_step))

    def stepped(self: Any, _args: Any, _kwargs: Any) -> None:
        if torch.compiler.is_compiling():
            note()
        else:
            counter.finish_step(self)

    made = optimizer.Optimizer.__init__

    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        counter.optimizers[id(self)] = self

    optimizer.Optimizer.__init__ = make
    handle = optimizer.register_optimizer_step_post_hook(stepped)
    try:
        yield
    finally:
        handle.remove()
        optimizer.Optimizer.__init__ = made


def _ignore_result(function: Callable[[], None]) -> Callable[[], bool]:
    def call() -> bool:
        function()
        return True

    return call
