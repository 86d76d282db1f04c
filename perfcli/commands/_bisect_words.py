"""Words that both kinds of answers share."""

from __future__ import annotations

from collections.abc import Sequence

from perfcli import units
from perfcli.bisect.space import NOT_SET
from perfcli.search.options import OptionChange
from perfcli.search.result import Dependency


def change(option: OptionChange) -> str:
    """``online_softmax=false (true)``."""
    return f"{typed(option.name, option.bad)} ({units.setting(option.good)})"


def typed(name: str, value: object) -> str:
    """``online_softmax=false``, or ``TORCHINDUCTOR_ONLINE_SOFTMAX not set``."""
    return f"{name} {NOT_SET}" if value == NOT_SET else f"{name}={units.setting(value)}"


def dependency(found: Dependency) -> str:
    needs = " or ".join(option.name for option in found.needs)
    return f"{change(found.option)} does nothing without {needs}"


def listed(options: Sequence[OptionChange], most: int = 6) -> str:
    more = f" and {len(options) - most} more" if len(options) > most else ""
    return ", ".join(map(change, options[:most])) + more


def stopped(reason: str) -> str:
    """``stopped after 5 s (--budget)``, or ``interrupted``."""
    return reason if reason == "interrupted" else f"stopped {reason}"
