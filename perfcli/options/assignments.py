"""Parses options as users write them: ``triton.mix_order_reduction=false``, ``TORCHINDUCTOR_X=0``.

Names in capitals are environment variables of the worker. Names are Inductor's own;
``dynamo.`` and ``functorch.`` lead to ``torch._dynamo.config`` and ``torch._functorch.config``.
Values are typed against the torch that will be used (``catalogue``), never against the parent's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfcli.errors import PerfcliError
from perfcli.model import Device, OptionValue, Variant
from perfcli.options import files, modes, patches, releases, types
from perfcli.options.catalogue import (
    UNKNOWN,
    Catalogue,
    InductorOption,
    default_text,
    load_catalogue,
)

__all__ = ["Catalogue", "find", "load_catalogue", "make_variant", "toggle"]

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_LONG_PREFIXES = {
    "torch._inductor.config.": "",
    "inductor.": "",
    "torch._dynamo.config.": "dynamo.",
    "torch._functorch.config.": "functorch.",
}
# Families whose every member is read by torch, so that a misspelt one can be caught.
_CHECKED_FAMILIES = ("TORCHINDUCTOR_", "TORCHDYNAMO_")
_READERS = ("_inductor", "_dynamo", "_functorch", "_logging", "utils", "_utils_internal.py")


@dataclass(frozen=True, slots=True)
class _Assignment:
    """Holds ``name=text``, not typed yet."""

    name: str
    text: str

    @property
    def is_variable(self) -> bool:
        """Return whether it sets an environment variable instead of an option."""
        return _VARIABLE.fullmatch(self.name) is not None


def _parse_assignment(text: str) -> _Assignment:
    """Split ``NAME=VALUE``; long module names are shortened to the form used everywhere. Raises
    PerfcliError where there is no ``=`` or no name."""
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise PerfcliError(
            f"an option is written NAME=VALUE, for example triton.mix_order_reduction=false, or "
            f"stands in FILE.toml; got {text!r}"
        )
    return _Assignment(_short(name), value.strip())


def _short(name: str) -> str:
    for long, short in _LONG_PREFIXES.items():
        if name.startswith(long):
            return short + name.removeprefix(long)
    return name


def find(catalogue: Catalogue, name: str) -> InductorOption:
    """Return the option called ``name``. Raises PerfcliError where this torch has none; the message
    names the torch versions that have it, why a patch does not fit, or the nearest names."""
    entry = catalogue.entries.get(_short(name))
    if entry is not None:
        return entry
    versions = releases.versions_having(_short(name))
    refusal = patches.explain_refusal(_short(name), catalogue.torch, catalogue.entries)
    if versions:
        having = f"torch {', '.join(versions)} {'has' if len(versions) == 1 else 'have'} it"
        refusal = f"{having}; {refusal}" if refusal else having
    if refusal:
        raise PerfcliError(f"torch {catalogue.torch} has no option {name!r}: {refusal}")
    if name.startswith(":"):
        raise PerfcliError(
            f"no option is called {name!r}: a parameter of one side is given by --a-param "
            f"{name[1:]}=VALUE or --b-param {name[1:]}=VALUE"
        )
    near = releases.nearest(_short(name), dict.fromkeys((*catalogue.entries, *patches.PATCHES)))
    hint = f"did you mean {' or '.join(near)}?" if near else "perfcli knobs PATTERN searches them"
    raise PerfcliError(f"torch {catalogue.torch} has no option {name!r}: {hint}")


def _parse_value(entry: InductorOption, text: str) -> OptionValue:
    """Return ``text`` as a value of the option's type. Raises PerfcliError where it is none; the
    message names the type."""
    try:
        value = types.convert(entry.type, text)
    except types.Unsettable:
        raise PerfcliError(
            f"{entry.name} takes a Python object ({entry.type}), which can't be written as text"
        ) from None
    except ValueError:
        raise PerfcliError(
            f"{entry.name} needs {types.describe(entry.type)}, got {text!r}"
        ) from None
    patch = patches.PATCHES[entry.name] if entry.note else None  # torch's own may mean more
    if patch and not patch.accepts(value):
        raise PerfcliError(f"{entry.name} needs {patch.values_in_words}, got {text!r}")
    return value


def make_variant(
    name: str, assignments: Iterable[str], catalogue: Catalogue, *, python: str | None = None
) -> Variant:
    """Return a variant from what stands on the command line; of two assignments the later one
    counts. ``FILE.toml`` stands for what that file sets; a mode of ``torch.compile``
    (``mode=max-autotune``) for what this torch says it does. Raises PerfcliError for an unknown
    option, a value of the wrong type, or a file that can't be read."""
    options: dict[str, OptionValue] = {}
    env: dict[str, str] = {}
    for assignment in map(_parse_assignment, _open_files(assignments)):
        if assignment.is_variable:
            _check_variable(catalogue, assignment)
            env[assignment.name] = assignment.text
        elif assignment.name == modes.MODE:
            options |= modes.expand_mode(assignment.text, catalogue.torch_dir)
        else:
            entry = find(catalogue, assignment.name)
            options[entry.name] = _parse_value(entry, assignment.text)
    return Variant(name, options, env, python)


def _open_files(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        if files.is_file(text):
            yield from files.read_file(Path(text))
        else:
            yield text


def check_device(variant: Variant, catalogue: Catalogue, device: Device) -> None:
    """Refuse patches of Triton's kernels on the CPU. Raises PerfcliError where the device is the
    CPU, for which Inductor writes C++."""
    for name in variant.options:
        if catalogue.entries[name].note and not patches.acts_on(name, device):
            raise PerfcliError(
                f"{name} is a patch of Triton kernels, and --device cpu makes none: leave it out, "
                "or compile for a GPU with --target"
            )


def defaults(variant: Variant, catalogue: Catalogue) -> dict[str, OptionValue]:
    """Return those of a variant's options that are set to what they are anyway."""
    found: dict[str, OptionValue] = {}
    for name, value in variant.options.items():
        default = catalogue.entries[name].value
        if type(value) is type(default) and value == default:
            found[name] = value
    return found


def _check_variable(catalogue: Catalogue, assignment: _Assignment) -> None:
    name, text = assignment.name, assignment.text
    entry = catalogue.variables.get(name)
    if entry is not None:
        if name in entry.flags and text not in ("0", "1"):
            raise PerfcliError(
                f"{name} needs 0 or 1, got {text!r}: torch takes anything else for 0"
            )
        if types.is_number(entry.type) and text:
            _parse_value(InductorOption(name, entry.type, entry.default), text)
    elif name.startswith(_CHECKED_FAMILIES) and not _read_somewhere(catalogue.torch_dir, name):
        near = releases.nearest(name, catalogue.variables)
        hint = f": did you mean {' or '.join(near)}?" if near else ""
        raise PerfcliError(f"torch {catalogue.torch} reads no variable {name}{hint}")


def _read_somewhere(torch_dir: Path, variable: str) -> bool:
    """Return whether any of torch's compiler sources names the variable. Slow (a second), so only
    for variables that no configuration file reads."""
    pattern = re.compile(rf"\b{variable}\b".encode())
    for reader in _READERS:
        root = torch_dir / reader
        for path in root.rglob("*.py") if root.is_dir() else [root]:
            if path.is_file() and pattern.search(path.read_bytes()):
                return True
    return False


def toggle(entry: InductorOption) -> tuple[OptionValue, OptionValue]:
    """Return base and head of a yes-or-no option: its default, and the other. Raises PerfcliError
    where it is no yes-or-no option, or its default is not known without torch."""
    value: Any = entry.value
    if isinstance(value, bool):
        return value, not value
    why = (
        "its default is not known" if value is UNKNOWN else f"its default is {default_text(entry)}"
    )
    raise PerfcliError(
        f"--toggle is for yes-or-no options; {entry.name} needs "
        f"{types.describe(entry.type)} and {why}: give both sides with "
        f"-a {entry.name}=… -b {entry.name}=…"
    )
