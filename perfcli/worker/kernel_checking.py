"""Cases that workers run one after the other, until every case has its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from perfcli.errors import WorkerFailed
from perfcli.model.kernel_work import CheckedCase, CheckRequest
from perfcli.worker.kernel_channel import Worker


class Checking:
    """``compiling`` hears how much is compiled ahead, and of how much."""

    def __init__(self, request: CheckRequest, compiling: Callable[[int, int], None]) -> None:
        self.left = dict(enumerate(request.cases))
        self._request = request
        self._compiling = compiling
        self._is_ahead = False

    def run(self, start: Callable[[], Worker]) -> Iterator[tuple[int, CheckedCase]]:
        """What one worker finds of the cases that are left. One that is lost on a GPU takes its
        case with it and no more; while it compiled ahead, it takes none: the next compiles each
        kernel where its case runs, so that it is known which one it was.

        Raises:
            WorkerFailed: a worker of the interpreter's died or hung.
        """
        numbers = list(self.left)
        asked = replace(self._request, cases=tuple(self.left.values()))
        worker = start()
        try:
            for place, checked in self._answers(worker, asked):
                del self.left[numbers[place]]
                yield numbers[place], checked
        except WorkerFailed as error:
            if self._request.runner == "interpreter" or not self.left:
                raise
            if not self._is_ahead:
                # One after the other: the first that has no answer is the one it died of.
                culprit = next(iter(self.left))
                plan = self.left.pop(culprit).plan
                died = CheckedCase("failed", plan.variant if plan else "", reason=str(error))
                yield culprit, died
        finally:
            worker.close()
        self._request = replace(self._request, target=None)

    def _answers(self, worker: Worker, asked: CheckRequest) -> Iterator[tuple[int, CheckedCase]]:
        self._is_ahead = asked.target is not None
        worker.doing("compiling kernels ahead" if self._is_ahead else "running cases")
        for reply in worker.ask({"check": asked}):
            if reply.type == "compiling":
                self._compiling(reply.number, reply.total)
            elif reply.type == "checking":
                self._is_ahead = False
                worker.doing("running cases")
            else:
                yield reply.number, worker.decoded(reply, CheckedCase)
