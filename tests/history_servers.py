"""A real object store and a real database server for histories, started on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_SECONDS = 60.0
BUCKET = "perfcli"
_POSTGRES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


class NotHere(Exception):
    """What a server needs is not installed."""


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise NotHere("the server did not come up")


@contextmanager
def _served(command: list[str], port: int, **settings: object) -> Iterator[None]:
    """Run a server until the block ends."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, **settings)  # type: ignore[call-overload]
    try:
        _wait_for(port, process)
        yield
    finally:
        # On SIGTERM, PostgreSQL waits until the last client is gone.
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def start_s3() -> Iterator[str]:
    """Yield the URL of a bucket in an object store that runs here (moto), and tell clients of this
    process and its children where it is. Raises NotHere."""
    try:
        import boto3
        import moto.server  # noqa: F401
        import s3fs  # noqa: F401
    except ImportError as error:
        raise NotHere(f"{error.name} is not installed") from error
    port = _free_port()
    told = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    before = {name: os.environ.get(name) for name in told}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _served(command, port):
        os.environ.update(told)
        try:
            boto3.client("s3").create_bucket(Bucket=BUCKET)
            yield f"s3://{BUCKET}"
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value


@contextmanager
def start_postgres() -> Iterator[str]:
    """Yield the URL of a database in a PostgreSQL server that runs here. Raises NotHere."""
    try:
        import psycopg  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError as error:
        raise NotHere(f"{error.name} is not installed") from error
    places = [p for pattern in _POSTGRES for p in sorted(Path("/").glob(pattern[1:]))]
    found = shutil.which("initdb") or next(map(str, (p / "initdb" for p in places)), "")
    if not found:
        raise NotHere("PostgreSQL is not installed")
    port = _free_port()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "data"
        # The server refuses to run as root.
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        if user:
            shutil.chown(made, "nobody")
        arguments = ["-D", str(folder), "-U", "perfcli", "-A", "trust", "-N"]
        made_well = subprocess.run([found, *arguments], capture_output=True, cwd=made, **user)  # type: ignore[call-overload]
        if made_well.returncode != 0:
            raise NotHere(f"initdb failed: {made_well.stderr.decode()[-200:]}")
        server = [
            *(str(Path(found).resolve().with_name("postgres")), "-D", str(folder)),
            *("-p", str(port), "-k", made, "-c", "listen_addresses=127.0.0.1"),
        ]
        with _served(server, port, cwd=made, **user):
            yield f"postgresql://perfcli@127.0.0.1:{port}/postgres"
