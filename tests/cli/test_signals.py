"""What CI sends when it cancels a job is an interrupt."""

from __future__ import annotations

import os
import signal

import pytest

from perfcli import cli


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_cancelled_job_is_interrupted(number: signal.Signals) -> None:
    before = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGHUP)}
    try:
        cli._end_like_an_interrupt()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)
