"""The checks that a job with a GPU measures: those of the configuration, without its targets."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfcli.ci.files import WrittenFile, fill, put, quote
from perfcli.errors import PerfcliError

PLACE = Path("perfcli-gpu.toml")
_KEPT = ("name", "scenario", "preset")


def write_gpu_configuration(root: Path, configuration: Path) -> WrittenFile:
    """Write it beside the configuration, which is there.

    Raises PerfcliError where that can't be read.
    """
    try:
        document = tomllib.loads((root / configuration).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PerfcliError(f"can't read {configuration}: {error}") from error
    table = document.get("tool", {}).get("perfcli", document)
    checks = table.get("checks")
    found = [c for c in checks if isinstance(c, dict)] if isinstance(checks, list) else []
    if not found:
        return WrittenFile(f"no     {PLACE}: {configuration} has no checks")
    text = "\n".join("\n".join(["[[checks]]", *_list_lines(check), ""]) for check in found)
    return put(root, PLACE, fill("gpu.toml", {"@CHECKS@\n": text}), force=False)


def _list_lines(check: dict[str, Any]) -> Iterator[str]:
    for name in _KEPT:
        if isinstance(check.get(name), str):
            yield f"{name} = {quote(check[name])}"
    if check.get("dynamic") is True:
        yield "dynamic = true"
    for name in ("params", "options"):
        table = check.get(name)
        if isinstance(table, dict) and table:
            yield f"{name} = {_write_value(table)}"


def _write_value(value: object) -> str:
    """Return the value as TOML writes it, in a line.

    Raises PerfcliError for what no check has: dates.
    """
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{quote(k)} = {_write_value(v)}' for k, v in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_write_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return quote(value)
    raise PerfcliError(
        f"can't write {PLACE}: a check has {value}, where a text, a number or a truth value is "
        "expected"
    )
