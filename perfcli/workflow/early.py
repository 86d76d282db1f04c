"""Takes a measurement as soon as both workers are ready, while its runs are still compiled: these
wait meanwhile. What is counted for the report comes after the rounds then, not before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcli.errors import Interrupted, PerfcliError
from perfcli.loading.references import parse_reference
from perfcli.model import Measurement, StepCode
from perfcli.workflow.bench import Bench, MeasuredScenario, measure
from perfcli.workflow.context import Context
from perfcli.workflow.fingerprint import Job
from perfcli.workflow.setting import Setting


class EarlyRounds:
    """Holds one such measurement; ``ids`` are those that the runs will have, by fingerprint."""

    def __init__(
        self,
        place: Bench,
        setting: Setting,
        jobs: Sequence[Job],
        context: Context,
        ids: Mapping[str, str],
    ) -> None:
        self._place, self._setting, self._jobs = place, setting, jobs
        self._context = context
        self._ids = [ids[job.fingerprint] for job in jobs]
        self._subject: MeasuredScenario | None = None
        self._is_decided = False
        self._found: Measurement | PerfcliError | None = None

    def is_due(self) -> bool:
        """Return whether both workers are ready, and generated different code: else it is for the
        runs to say whether there is anything to measure."""
        if self._is_decided:
            return False
        try:
            prepared = self._place.list_prepared()
        except PerfcliError:  # which is raised again where it is asked for
            self._is_decided = True
            return False
        if prepared is None:
            return False
        self._is_decided = True
        base, head = (each.code for each in prepared)
        if not base or not head or not base.sha or not head.sha or base.sha == head.sha:
            return False
        self._subject = self._describe(head)
        return True

    def comes_first(self) -> bool:
        """Return whether workers are generating code: what is measured is waited for."""
        return not self._is_decided and self._place.generates()

    def _describe(self, head: StepCode) -> MeasuredScenario:
        # Of a revision, the run is named as it was typed, not as it lies in its worktree.
        typed = self._jobs[1].request.scenario
        scenario = typed if parse_reference(typed).revision else head.scenario
        return MeasuredScenario(scenario, head.params, *self._ids)

    def run(self) -> None:
        """Measure. What goes wrong is raised by ``result``: the runs are compiled all the same."""
        assert self._subject is not None, "is_due said so"
        try:
            self._found = measure(
                self._subject, self._setting, self._jobs, self._context, self._place
            )
        except Interrupted:
            raise
        except PerfcliError as error:
            self._found = error

    def result(self) -> Measurement | None:
        """Return the measurement, where it was taken. Raises what ``bench.measure`` raises."""
        if isinstance(self._found, PerfcliError):
            raise self._found
        return self._found
