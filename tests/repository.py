"""A git repository that a test fills."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(*arguments: str, folder: Path | str = ".") -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(folder), *own, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=clean)
    return done.stdout.strip()


def commit(text: str, folder: Path | str = ".") -> str:
    git("add", "--all", folder=folder)
    git("commit", "--quiet", "--message", text, folder=folder)
    return git("rev-parse", "HEAD", folder=folder)
