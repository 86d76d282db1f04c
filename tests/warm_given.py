"""A plugin for a pytest that a test starts: what its tests inspect is compiled in forks of the
process that has torch imported (``warm``), which the environment names."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from warm import FOLDER, RUN, WarmFork, WarmProcess

from perfcli.worker import given

_process = WarmProcess(Path(os.environ[FOLDER]), int(os.environ[RUN]))
vars(given)["WarmWorker"] = partial(WarmFork, _process)
