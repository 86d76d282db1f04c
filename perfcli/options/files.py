"""Reads and writes files of options: TOML, as ``perfcli tune --output`` writes them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from perfcli import units
from perfcli.errors import PerfcliError
from perfcli.model import OptionValue

OPTIONS, ABOUT = "options", "tuned"
"""Tables: what is set; where it comes from, which is for people."""


def is_file(text: str) -> bool:
    """Return whether a text that stands in the place of ``OPT=VAL`` names a file of options."""
    return text.endswith(".toml") and ("=" not in text or Path(text).is_file())


def read_verdict(path: Path) -> str:
    """Return tune's verdict on what a file sets, which only people are told; empty where the file
    has none. Raises PerfcliError as ``read_file``."""
    about = read_toml(path).get(ABOUT)
    return str(about.get("verdict", "")) if isinstance(about, dict) else ""


def read_file(path: Path) -> list[str]:
    """Return what a file sets, each as ``NAME=VALUE``. ``"triton.x" = 1`` and ``[triton]`` with ``x
    = 1`` are the same; where there is a table ``options``, it holds all of them. Raises
    PerfcliError where the file can't be read, is not TOML, or has a value that no option takes."""
    document = read_toml(path)
    table = document.get(OPTIONS, {}) if document.keys() & {OPTIONS, ABOUT} else document
    if not isinstance(table, dict):
        raise PerfcliError(f"{path}: {OPTIONS} is a table of options, not {table!r}")
    strange = sorted(document.keys() - {OPTIONS, ABOUT}) if table is not document else []
    if strange:
        raise PerfcliError(f"{path}: {strange[0]} stands outside of [{OPTIONS}]: put it there")
    return [f"{name}={units.setting(value)}" for name, value in _flatten(table, path)]


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's content. Raises PerfcliError where it can't be read, or is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PerfcliError(f"{path} is not TOML: {error}") from error


def _flatten(table: Mapping[str, Any], path: Path, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, path, f"{prefix}{name}.")
        elif isinstance(value, bool | int | float | str | list):
            yield prefix + name, value
        else:
            raise PerfcliError(f"{path}: {prefix}{name} is no value that an option can have")


def write_options(options: Mapping[str, OptionValue], about: Mapping[str, object]) -> str:
    """Return the text of a file that sets ``options``. ``about`` says what they were found for."""
    lines = [f"[{OPTIONS}]", *_lines(options), "", f"[{ABOUT}]", *_lines(about)]
    return "\n".join(lines) + "\n"


def _lines(table: Mapping[str, object]) -> Iterator[str]:
    for name, value in table.items():
        # TOML knows no null; what perfcli reads for it is the word.
        known = "none" if value is None else value
        yield f"{quote(name)} = {quote(known) if isinstance(known, str) else json.dumps(known)}"


def quote(text: str) -> str:
    """Return a text as a basic string of TOML: with JSON's escapes, and that of DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
