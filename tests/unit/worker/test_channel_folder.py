"""Where a worker runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcli.errors import WorkerFailed
from perfcli.worker.channel import Channel


@pytest.mark.parametrize("given", [True, False])
def test_a_worker_runs_in_the_folder_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\npwd -P\n")
    python.chmod(0o755)
    channel = Channel(str(python), {}, tmp_path, current=str(other) if given else "")
    with pytest.raises(WorkerFailed) as caught:
        channel.receive()
    channel.close()
    assert caught.value.detail.splitlines()[-1] == str((other if given else tmp_path).resolve())
