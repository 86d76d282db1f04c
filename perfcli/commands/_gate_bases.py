"""What the heads are compared with, as it was typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfcli.commands._gate_order import Compared, Order
from perfcli.errors import PerfcliError


@dataclass(frozen=True, slots=True)
class Wish:
    baseline: Path | None = None
    revision: str | None = None
    python: str | None = None
    allow_env: tuple[str, ...] = ()
    no_time: bool = False

    @property
    def pair(self) -> bool:
        """Whether the base is compiled here."""
        return self.revision is not None or self.python is not None

    def check(self) -> None:
        """Raises PerfcliError for options that contradict each other."""
        if self.pair and self.baseline is not None:
            raise PerfcliError("--baseline is a base already: leave out --base-rev, --base-python")
        if not self.pair and (self.allow_env or self.no_time):
            option = "--allow-env" if self.allow_env else "--no-time"
            raise PerfcliError(
                f"{option}: a baseline has no times: leave it out, or give --base-rev"
            )

    def command(self, checks: Sequence[str], typed: Sequence[str] = ()) -> str:
        """What makes it again. ``typed``: options that mean other files."""
        words = ["perfcli", "gate", *checks, *typed]
        words += ["--base-rev", self.revision] if self.revision else []
        words += ["--base-python", self.python] if self.python else []
        return shlex.join(words)


@contextmanager
def base_of(wish: Wish, order: Order) -> Iterator[Compared]:
    """What compares a check with its base. Raises PerfcliError and NotComparable where there is
    no base at all."""
    if not wish.pair:
        from perfcli.commands._gate_baseline import with_baseline

        yield with_baseline(order)
        return
    from perfcli.commands._gate_pair import Base, with_base
    from perfcli.commands._gate_revision import checked_out

    if wish.revision is None:
        yield with_base(Base(None, wish.python))
        return
    with checked_out(wish.revision, order.config.folder) as revision:
        yield with_base(Base(revision, wish.python))
