"""Does a static gate of the same code write the same bytes, wherever and however often it runs?

Each time the repository of tests/fixtures/gate is laid out in another folder (deep, with spaces,
with other letters, below a link) and gated by another process, with another PYTHONHASHSEED, HOME,
TZ, LANG, TMPDIR and umask, in turns with and without git, --fresh, a cold cache and -j 1. What is
held against the first time: every document, what stands on stdout (with --github but for the
random word that GitHub asks for), and the baseline, updated and made from nothing.

    python bench/gate_repeat.py [--times 50] [--checks sampler quantiser experts]

Exit code 1 where a gate does not pass or a byte differs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gate_planted_edit import lay_out

CHECKS = ("sampler", "quantiser", "experts")
BASELINE = "perfcli-baseline.toml"
REASON = "first baseline"
DOCUMENTS = {
    "json": "gate.json",
    "markdown": "gate.md",
    "junit": "gate.xml",
    "sarif": "gate.sarif",
    "html": "gate.html",
}
FOLDERS = ("a", "b c/d", "déjà/vu", "x" * 60, "1/2/3/4/5/6/7/8", "it's;$HOME")
ZONES = ("UTC", "Asia/Tokyo", "America/St_Johns", "Pacific/Kiritimati")
LANGUAGES = ("C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8")
COLD_EVERY = 25
RANDOM_WORD = re.compile(rb"::[0-9a-f]{32}\b")
"""What ends GitHub's ``stop-commands``: nobody may guess it, so it alone differs."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is different this time."""

    folder: Path
    environment: Mapping[str, str]
    options: tuple[str, ...]
    umask: int
    git: bool


def surroundings(number: int, root: Path, cache: Path) -> Surroundings:
    """``number`` counts from 0; every 25th begins with an empty cache of kernels."""
    place = root / str(number)
    (place / "home").mkdir(parents=True)
    (place / "tmp").mkdir()
    folder = place / FOLDERS[number % len(FOLDERS)]
    if number % 7 == 3:  # the same folder, reached over a link
        (place / "real").mkdir()
        (place / "link").symlink_to(place / "real")
        folder = place / "link" / folder.name
    cold = number % COLD_EVERY == COLD_EVERY - 1
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(number * 7919 % 4_294_967_295),
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "TZ": ZONES[number % len(ZONES)],
        "LANG": LANGUAGES[number % len(LANGUAGES)],
        "LC_ALL": LANGUAGES[number % len(LANGUAGES)],
        "PERFCLI_CACHE_DIR": str(place / "cache" if cold else cache),
    }
    options = (
        *(("--fresh",) if number % 3 == 1 else ()),
        *(("-j", "1") if number % 5 == 2 else ()),
    )
    return Surroundings(folder, environment, options, (0o022, 0o077)[number % 2], number % 4 == 0)


def gated(where: Surroundings, checks: Sequence[str], baseline: Path) -> dict[str, bytes]:
    """Every output of one gate by name. Raises RuntimeError where it does not pass."""
    folder = where.folder
    lay_out(folder)
    if where.git:
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (folder / BASELINE).write_bytes(baseline.read_bytes())
    summary = folder / "summary.md"
    files = [part for name, file in DOCUMENTS.items() for part in (f"--{name}", file)]
    environment = {**where.environment, "GITHUB_STEP_SUMMARY": str(summary)}
    gate = ["gate", *files, *where.options, "--", *checks]
    found = {"stdout": _ran(gate, where, environment)}
    found |= {name: (folder / file).read_bytes() for name, file in DOCUMENTS.items()}
    annotated = _ran(["gate", "--github", "--", *checks], where, environment)
    found["stdout --github"] = RANDOM_WORD.sub(b"::WORD", annotated)
    found["summary"] = summary.read_bytes()
    _ran(["baseline", "update", "--reason", "nothing changed", "--", *checks], where, environment)
    found["baseline updated"] = (folder / BASELINE).read_bytes()
    new = ["baseline", "update", "--reason", REASON, "--baseline", "new.toml", "--", *checks]
    _ran(new, where, environment)
    found["baseline from nothing"] = (folder / "new.toml").read_bytes()
    return found


def _ran(arguments: Sequence[str], where: Surroundings, environment: Mapping[str, str]) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "perfcli", *arguments],
        cwd=where.folder,
        env=environment,
        umask=where.umask,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")
        raise RuntimeError(f"exit code {done.returncode} in {where.folder}:\n{said}")
    return done.stdout


def repeated(
    times: int, checks: Sequence[str], root: Path, cache: Path
) -> Iterator[dict[str, bytes]]:
    first = surroundings(0, root / "baseline", cache)
    lay_out(first.folder)
    update = ["baseline", "update", "--reason", REASON, "--", *checks]
    _ran(update, first, first.environment)
    for number in range(times):
        where = surroundings(number, root / "times", cache)
        yield gated(where, checks, first.folder / BASELINE)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--checks", nargs="+", default=CHECKS, metavar="CHECK")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write what differs there")
    arguments = parser.parse_args(argv)
    cache = Path(os.environ.get("PERFCLI_CACHE_DIR", Path.home() / ".cache" / "perfcli"))
    seen: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory(prefix="perfcli-repeat-") as made:
        every = repeated(arguments.times, arguments.checks, Path(made), cache)
        for number, outputs in enumerate(every, 1):
            print(f"\r{number} of {arguments.times}", end="", file=sys.stderr, flush=True)
            for name, data in outputs.items():
                digest = hashlib.sha256(data).hexdigest()
                counts = seen.setdefault(name, {})
                if digest not in counts and arguments.keep:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    file = f"{name.replace(' ', '-')}-{len(counts)}-of-{number}"
                    (arguments.keep / file).write_bytes(data)
                counts[digest] = counts.get(digest, 0) + 1
    print(file=sys.stderr)
    for name, counts in seen.items():
        digest, number = max(counts.items(), key=lambda item: item[1])
        print(
            f"{name:22} {digest[:16]}  {number} of {arguments.times} the same, {len(counts)} kinds"
        )
    return 0 if all(len(counts) == 1 for counts in seen.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
