"""``perfcli-gpu.toml``: the checks of the configuration, to be measured."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perfcli.commands._init_ci_files import Step, filled, put
from perfcli.errors import PerfcliError

PLACE = Path("perfcli-gpu.toml")
KEPT = ("name", "scenario", "preset")


def write(root: Path, configuration: Path) -> Step:
    """Beside the configuration, which is there. Raises PerfcliError where that can't be read."""
    try:
        document = tomllib.loads((root / configuration).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PerfcliError(f"can't read {configuration}: {error}") from error
    table = document.get("tool", {}).get("perfcli", document)
    checks = table.get("checks")
    found = [c for c in checks if isinstance(c, dict)] if isinstance(checks, list) else []
    if not found:
        return Step(f"no     {PLACE}: {configuration} has no checks")
    text = "\n".join("\n".join(["[[checks]]", *_lines(check), ""]) for check in found)
    return put(root, PLACE, filled("gpu.toml", {"@CHECKS@\n": text}), force=False)


def _lines(check: dict[str, Any]) -> Iterator[str]:
    for name in KEPT:
        if isinstance(check.get(name), str):
            yield f"{name} = {_value(check[name])}"
    params = check.get("params")
    if isinstance(params, dict) and params:
        inside = ", ".join(f"{_value(key)} = {_value(value)}" for key, value in params.items())
        yield f"params = {{ {inside} }}"


def _value(value: object) -> str:
    """A scalar as TOML writes it; its texts are JSON's, but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
