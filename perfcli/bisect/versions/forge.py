"""Compiles versions as far as a search needs them, each class of code once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perfcli.bisect.forge import Forge
from perfcli.bisect.knowledge import Knowledge, _name_of
from perfcli.bisect.metrics import SearchMetric
from perfcli.bisect.space import Settings
from perfcli.bisect.versions.plan import VERSION, VersionPlan
from perfcli.errors import Interrupted, PerfcliError
from perfcli.model import CompileRequest
from perfcli.search.drive import Code
from perfcli.worker.roles import Generator


class VersionForge(Forge):
    """Knows versions by their settings, ``{"version": NAME}``. Nothing of a version is inferred
    from another: all that they have in common is the question."""

    def __init__(
        self,
        generator: Generator,
        plan: VersionPlan,
        metric: SearchMetric,
        known: Knowledge,
        changed: Callable[[], None],
    ) -> None:
        super().__init__(generator, plan.base.request, plan.space, metric, known, changed)
        self._plan = plan

    def request_of(self, settings: Settings) -> CompileRequest:
        return self._plan.requests[str(settings[VERSION])]

    def _infer(self, settings: Settings) -> None:
        """Infer nothing."""

    def _compiled(self, missing: dict[str, Settings]) -> Iterator[tuple[str, Code]]:
        """Yield codes by name. A version that can't even be checked out does not compile; the
        others are none the worse for it."""
        left = dict(missing)
        if not left:
            return
        try:
            for name, code in self._generated(missing, None):
                del left[name]
                yield name, code
        except Interrupted:
            raise
        except PerfcliError as error:
            if len(left) == 1:
                yield next(iter(left)), Code(None, str(error))
                return
            for name, settings in left.items():
                yield from self._compiled({name: settings})

    def _class(self, code: Code, settings: Settings) -> Code:
        """Return its class: what library operators take, and compiling, depends on torch."""
        found = super()._class(code, {})
        if found.name is None or self._plan.of_commits or not self.metric.is_timed:
            return found
        _, _, torch = str(settings[VERSION]).rpartition(" torch ")
        return Code(f"{found.name}-{torch}")

    def failures_by_version(self) -> dict[str, str]:
        """Return why versions that were asked for have no answer."""
        versions = (self._plan.good, *self._plan.versions)
        names = {_name_of({VERSION: version.name}): version.name for version in versions}
        return {names.get(name, name): why for name, why in self.failures.items()}
