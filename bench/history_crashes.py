"""What becomes of a history whose writers are killed, write at once, or run out of disk.

A writer says each entry that it was told is added; one that was said and is not there is lost, and
one that is there twice is too many. Homes: a folder, SQLite, and with --s3 and --postgres a local
object store (moto) and a local server, both started here.

    python bench/history_crashes.py [--kills 200] [--writers 8] [--s3] [--postgres]
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from history_servers import start_postgres, start_s3

from perfcli.errors import PerfcliError
from perfcli.history.entry import Commit, Entry, Point, Subject
from perfcli.history.history import History
from perfcli.history.homes import open_home

RUN = os.urandom(20_000)
EACH, SHARED = 60, 20
"""Entries that each of several writers adds, and those that all of them add."""


def make_entry(who: int, number: int) -> Entry:
    return Entry(
        Subject("model.py", {"writer": who}),
        Commit(f"{number:040x}", depth=number + 1, repository="0" * 40),
        run="",
        points=(Point("static", "", "kernels", number),),
    )


def write_until_killed(place: str, who: int, told: int) -> None:
    """Add entries for ever, and tell each one that is added."""
    number = 0
    while True:
        history = History(open_home(place))
        content = RUN + f"{who} {number}".encode()
        entry = make_entry(who, number)
        history.add(entry, {hashlib.sha256(content).hexdigest(): content})
        os.write(told, f"{who} {number}\n".encode())
        number += 1


def fork(work: object, *arguments: object) -> int:
    """Return the process that calls a function and ends."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work(*arguments)  # type: ignore[operator]
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        os._exit(1)


def kill_writers(place: str, kills: int) -> str:
    told: set[tuple[int, int]] = set()
    pick = random.Random(0)
    for who in range(kills):
        reading, writing = os.pipe()
        pid = fork(write_until_killed, place, who, writing)
        os.close(writing)
        first = os.read(reading, 100)  # it has begun
        time.sleep(pick.uniform(0.0, 0.08))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        rest = first + b"".join(iter(lambda: os.read(reading, 65536), b""))  # noqa: B023
        os.close(reading)
        for line in rest.decode().splitlines():
            name, number = line.split()
            told.add((int(name), int(number)))
    return f"{kills} kills: {judge(place, told)}"


def judge(place: str, told: set[tuple[int, int]]) -> str:
    """Say how many entries are lost or twice, and that one more can be added."""
    warned: list[str] = []
    history = History(open_home(place), warned.append)
    there = collections.Counter(
        (int(each.entry.subject.params["writer"] or 0), int(each.entry.points[0].value))
        for each in history.entries()
    )
    lost = len(told - set(there))
    twice = sum(count > 1 for count in there.values())
    assert history.add(make_entry(10**6, 0))
    more = len(set(there) - told)
    return (
        f"{len(told)} told, {lost} lost, {twice} twice, {more} there untold, {len(warned)} damaged"
    )


def write_some(place: str, who: int) -> None:
    history = History(open_home(place))
    for number in range(EACH):
        history.add(make_entry(who, number))
        if number < SHARED:
            history.add(make_entry(-1, number))


def write_at_once(place: str, writers: int) -> str:
    pids = [fork(write_some, place, who) for who in range(writers)]
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    told = {(who, number) for who in range(writers) for number in range(EACH)}
    told |= {(-1, number) for number in range(SHARED)}
    return f"{writers} writers, {codes.count(0)} of them well: {judge(place, told)}"


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Yield a disk of a size. Mounting needs root."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_disk(folder: Path) -> str:
    with small_disk(folder, "1m") as disk:
        place, told, said = str(disk / "history"), set(), ""
        (disk / "ballast").write_bytes(bytes(300_000))
        for number in range(10_000):
            try:
                content = RUN + str(number).encode()
                digest = hashlib.sha256(content).hexdigest()
                History(open_home(place)).add(make_entry(0, number), {digest: content})
                told.add((0, number))
            except PerfcliError as error:
                said = str(error)
                break
        left = [path.name for path in disk.rglob(".*.tmp")]
        (disk / "ballast").unlink()
        return f"full disk ({said.split(':')[0]}): {judge(place, told)}, {len(left)} files left"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--postgres", action="store_true")
    asked = parser.parse_args()
    with ExitStack() as stack:
        above = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name, place in (("folder", above / "one"), ("SQLite", above / "one.db")):
            print(f"{name}: {kill_writers(str(place), asked.kills)}", flush=True)
        homes = {"folder": str(above / "two"), "SQLite": str(above / "two.db")}
        if asked.s3:
            homes["S3 (moto)"] = stack.enter_context(start_s3()) + "/history"
        if asked.postgres:
            homes["PostgreSQL"] = stack.enter_context(start_postgres())
        for name, home in homes.items():
            print(f"{name}: {write_at_once(home, asked.writers)}", flush=True)
        try:
            print(f"folder: {fill_disk(above / 'disk')}")
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"full disk: not tried, no disk could be mounted ({error})")


if __name__ == "__main__":
    main()
