"""Proposes perfcli's patches of torch as cures."""

from __future__ import annotations

from perfcli.model import Cure, OptionValue, Run
from perfcli.options import patches


def propose_patch(run: Run, name: str, value: OptionValue, why: str) -> tuple[Cure, ...]:
    """Return the patch as a cure; nothing where it does not fit the run's torch, or is set."""
    fitting = patches.list_fitting(run.environment.torch, run.settings)
    return (Cure({name: value}, why),) if name in fitting else ()
