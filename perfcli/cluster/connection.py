"""Connects to a cluster, and says which machines it has."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from perfcli import units
from perfcli.errors import PerfcliError

CONNECT_SECONDS = 5.0
"""An address that does not answer by then has no cluster."""
HEALTH_SECONDS = 15.0
"""For importing Ray, and for an answer."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Says which cluster is meant."""

    address: str = ""
    """``HOST:PORT``, ``ray://HOST:PORT``, or ``auto`` for the one of this machine; empty: a local
    one is started."""


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """Describes one machine of the cluster; ``resources`` is what it has in all."""

    id: str
    name: str
    resources: Mapping[str, float]

    @property
    def memory_bytes(self) -> int:
        return int(self.resources.get("memory", 0))


def connect(cluster: Cluster) -> Any:
    """Return the module ``ray``, connected. A connection that is there already is used again.
    Raises PerfcliError where Ray is not installed, and where no cluster answers at the address."""
    try:
        import ray
    except ModuleNotFoundError:
        raise PerfcliError(
            "--executor ray needs Ray: install perfcli with its extra, perfcli[ray]"
        ) from None
    if ray.is_initialized():
        return ray
    _check_answers(cluster.address)
    _silence(ray)
    asked: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.address:
        asked["address"] = cluster.address
    else:
        asked |= {"include_dashboard": False, "address": "local"}
    try:
        with _kept_from_stdout(), _handlers_kept():
            ray.init(**asked)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = f"the cluster at {cluster.address}" if cluster.address else "a local cluster"
        reason = " ".join(str(error).split()).partition(". ")[0]
        raise PerfcliError(f"can't use {where}: {reason}") from error
    return ray


def _check_answers(address: str) -> None:
    """Raise PerfcliError where no cluster answers at an address. Another process asks, since Ray
    tries for half a minute and cannot be kept from writing to stderr meanwhile."""
    if not address or address in ("auto", "local"):
        return
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        raise PerfcliError(f"--address is HOST:PORT, ray://HOST:PORT or auto, not {address!r}")
    reason = ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
        if not address.startswith("ray://"):
            reason = _ask_health(address)
    except TimeoutError:
        reason = "no answer"
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if reason:
        raise PerfcliError(
            f"there is no Ray cluster at {address} ({reason}): start one there "
            "(ray start --head), or leave out --address for a local one"
        )


def _ask_health(address: str) -> str:
    """Return what keeps a cluster from being used; empty: nothing does."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "health-check", "--address", address]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=HEALTH_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return "what listens there is no Ray, or one that does not answer"
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.splitlines() if "mismatch" in line.lower()]
    return units.printable(lines[-1].strip()) if lines else "what listens there is no healthy Ray"


def _silence(ray: Any) -> None:
    """Keep Ray from printing what it hears of lost machines to stdout, where results go: ``Tasks``
    says it in a line. Seen in Ray 2.60; one that has it otherwise prints."""
    with contextlib.suppress(AttributeError):
        assert ray._private.worker.print_to_stdstream
        ray._private.worker.print_to_stdstream = lambda *_, **__: None


@contextlib.contextmanager
def _kept_from_stdout() -> Iterator[None]:
    """Send what Ray prints while it starts to stderr: stdout is for results."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Put back what ends a command: Ray takes SIGTERM for itself, and exits where perfcli would
    say what is stored."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, before)


def list_nodes(ray: Any) -> list[ClusterNode]:
    """Return the machines that are alive. Several that have one address are told apart by the
    beginning of their ids."""
    alive = [each for each in ray.nodes() if each["Alive"]]
    addresses = [each["NodeManagerAddress"] for each in alive]
    return [
        ClusterNode(
            each["NodeID"],
            address if addresses.count(address) == 1 else f"{address}/{each['NodeID'][:6]}",
            each["Resources"],
        )
        for each, address in zip(alive, addresses, strict=True)
    ]
