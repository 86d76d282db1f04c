"""Lists the options of later torch releases that perfcli brings to earlier ones
(``compile.backport``)."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Backport:
    """Describes one option, and where it applies. Releases are (major, minor)."""

    type: str
    doc: str
    origin: str
    """The release whose option it is."""
    first: tuple[int, int]
    last: tuple[int, int]
    needs: str
    """The option that switches what this one limits."""
    limits: str
    unlimited: int
    """The value that its own release takes for no limit, as in releases that lack the option."""

    @property
    def reach(self) -> str:
        """Return where it comes from and goes to, in words."""
        first, last = (".".join(map(str, end)) for end in (self.first, self.last))
        return f"perfcli brings torch {self.origin}'s to torch {first} to {last}"

    @property
    def note(self) -> str:
        return f"from perfcli: torch {self.origin}'s option, backported"


BACKPORTS: Mapping[str, _Backport] = {
    "triton.mix_order_reduction_max_reads": _Backport(
        type="int | None",
        doc="How many buffers a mix-order kernel may read after something more was fused into it."
        "\nnone or 0: any number, as in this torch. The default of torch 2.13 is 10.",
        origin="2.13",
        first=(2, 10),
        last=(2, 12),
        needs="triton.mix_order_reduction",
        limits="mix-order reduction",
        unlimited=0,
    )
}


def backports_for(version: str, options: Container[str]) -> dict[str, _Backport]:
    """Return what perfcli brings to the torch of this version, which has ``options`` of its own."""
    release = _release(version)
    return {
        name: backport
        for name, backport in BACKPORTS.items()
        if name not in options
        and backport.needs in options
        and release is not None
        and backport.first <= release <= backport.last
    }


def refusal(option: str, version: str) -> str:
    """Return why perfcli does not bring an option to a torch that lacks it; empty for options that
    it brings to none."""
    backport = BACKPORTS.get(option)
    if backport is None:
        return ""
    release = _release(version)
    if release is None:
        why = f"which release torch {version} is, is not known"
    elif release > backport.last:
        why = f"torch {version} is neither"
    else:
        why = f"torch {version} has no {backport.limits} to limit"
    return f"{backport.reach}; {why}"


def _release(version: str) -> tuple[int, int] | None:
    """Return (2, 11) for ``2.11.0+cu130``, also before a release, ``2.11.0a0+git1234567``."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
