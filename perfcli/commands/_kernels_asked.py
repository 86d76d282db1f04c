"""The options of ``perfcli kernels`` as typed, and which of them say nothing to what was asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from perfcli.commands._obtain import How, fake_plan
from perfcli.errors import PerfcliError
from perfcli.names import public


@dataclass(frozen=True, slots=True)
class Asked:
    """The options as typed."""

    targets: tuple[str, ...] = ()
    params: tuple[str, ...] = ()
    variant: str | None = None
    all_variants: bool = False
    cases: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    rounds: int | None = None
    budget: float | None = None
    svg: Path | None = None
    seed: int | None = None
    device: str | None = None
    python: str | None = None
    jobs: int | None = None
    timeout: float | None = None
    json: Path | None = None
    quiet: bool = False
    fake: bool = False

    @property
    def plan_of_fake(self) -> str:
        return fake_plan(How(fake=self.fake))

    def refuse(self, action: str, *names: str) -> None:
        """Raises PerfcliError where one of these options was given: it means nothing here."""
        for name in names:
            if getattr(self, name) not in (None, False, ()):
                option = _TYPED.get(name, f"--{public(name)}")
                raise PerfcliError(f"{option} says nothing to {action}: leave it out")


_TYPED = {"targets": "--target", "params": "-p", "cases": "--case"}
