"""The baseline's file on disk, and its checks as bases of a comparison."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from perfcli.errors import NotComparable, PerfcliError
from perfcli.gate.baseline import facts, file
from perfcli.gate.baseline.facts import _public
from perfcli.gate.baseline.file import FIRST, BaselineCheck, suggest_update
from perfcli.gate.baseline.fit import fit_entry
from perfcli.gate.baseline.reading import BaselineEntry
from perfcli.gate.config import BASELINE
from perfcli.model import Finding, Run

TOOLS = ("torch", "triton", "ptxas")
"""With another of these the same model becomes other code."""
MOST_BYTES = 16 << 20
"""Of the file, about 30,000 kernels."""


def read(path: Path, options: Sequence[str] = ()) -> dict[str, BaselineCheck]:
    """Return the checks of the baseline. Raises NotComparable where there is no file or it is newer
    than this perfcli, PerfcliError where it is broken; with the command that makes it, in which the
    ``options`` that were typed stand."""
    try:
        with path.open("rb") as source:
            content = source.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise PerfcliError(
                f"{path} is larger than {MOST_BYTES >> 20} MiB, which no baseline is; take it back "
                f"with git, or make it anew with {suggest_update(options)}"
            )
        text = content.decode()
    except FileNotFoundError:
        make = suggest_update(options, reason=FIRST)
        raise NotComparable(f"there is no baseline {path}: make it with {make}") from None
    except IsADirectoryError:
        raise PerfcliError(
            f"{path} is a folder: the baseline is a file, for example {path / BASELINE}"
        ) from None
    except UnicodeDecodeError as error:
        raise PerfcliError(
            f"{path} is not text: {error}; take it back with git, or make it anew with "
            f"{suggest_update(options)}"
        ) from error
    except OSError as error:
        raise PerfcliError(f"can't read {path}: {error.strerror or error}") from error
    return file._read(text, str(path), options)


def _write(path: Path, checks: Mapping[str, BaselineCheck]) -> None:
    """Write the file whole or not at all, through a link into what it points to; its mode stays.
    Raises PerfcliError where it can't be written."""
    temporary = None
    try:
        path = path.resolve()
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(file._text(checks))
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as error:
        raise PerfcliError(f"can't write {path}: {error.strerror or error}") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def entry(
    path: Path, checks: Mapping[str, BaselineCheck], name: str, options: Sequence[str] = ()
) -> BaselineEntry:
    """Return one check. Raises NotComparable, with what makes it, where the baseline lacks it."""
    if name in checks:
        return checks[name].entry()
    short = name.rpartition("@")[0]
    others = sorted(known for known in checks if known.rpartition("@")[0] == short)
    has = f" (it has {', '.join(others)})" if others else ""
    raise NotComparable(
        f"{path} has no check {name}{has}: take it in with {suggest_update(options, name)}"
    )


def base(
    entry: BaselineEntry, head: Run, name: str, allow: Collection[str], options: Sequence[str] = ()
) -> tuple[Run, tuple[Finding, ...]]:
    """Return the run that the head is compared with, and its findings. Raises NotComparable where
    the baseline comes from other compilers or another target."""
    ours, theirs = entry.run.environment, head.environment
    differ = [
        f"{tool} {getattr(ours, tool) or 'none'} instead of {getattr(theirs, tool) or 'none'}"
        for tool in TOOLS
        if tool not in allow and _public(getattr(ours, tool)) != _public(getattr(theirs, tool))
    ]
    target = facts.described_target(head)
    if "target" not in allow and entry.target != target:
        differ.append(f"target {entry.target or 'none'} instead of {target or 'none'}")
    if differ:
        names = [text.split()[0] for text in differ]
        raise NotComparable(
            f"the baseline of {name} is of another {' and '.join(names)}: {', '.join(differ)}; "
            f"make it anew with {suggest_update(options, name, names[0])}, or compare "
            f"anyway: {' '.join(f'--allow {each}' for each in names)}"
        )
    return fit_entry(entry, head)
