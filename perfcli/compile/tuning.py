"""Gives identical kernels the launch configuration that was measured best for the first of them.

Inductor keeps what it tuned by the kernel's file, and the name in it has the kernel's number: a
kernel that comes one place later is tuned again, and so is one whose best configuration was made
up while it was compiled (a smaller R0_BLOCK). Configurations that are about as fast then win by
chance, on one side of a comparison and not on the other. Seen with torch 2.11.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from perfcli.compile.capture.definition import strip_name
from perfcli.compile.stand_in.device import replace_for_block
from perfcli.storing.whole import write_whole

_TUNED = "perfcli-tuned"


@contextmanager
def share_choices(
    folder: Path, alone: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Iterator[None]:
    """Let a kernel whose choice is made take, while the block runs, what one of the same text took
    before, in this process or another that shares ``folder``. Others are timed in the context that
    ``alone`` makes, in which no such process times anything."""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    original = CachingAutotuner.benchmark_all_configs

    def benchmark_all_configs(self: Any, *args: Any, **kwargs: Any) -> Mapping[Any, float]:
        return _timings(self, folder, lambda: original(self, *args, **kwargs), alone)

    with replace_for_block(CachingAutotuner, benchmark_all_configs=benchmark_all_configs):
        yield


def choices_folder() -> Path:
    """Return a folder that processes with the same Inductor cache share, and that goes with it."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir()) / _TUNED


def _timings(
    tuner: Any,
    folder: Path,
    measure: Callable[[], Mapping[Any, float]],
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Mapping[Any, float]:
    """Return the seconds of each launcher, of which the least is taken, or those of the launcher
    alone that is known to be best. ``measure`` is called where nothing is known, and what it finds
    is kept."""
    text = _text(tuner)
    if text is None:
        with alone():
            return measure()
    kept = folder / hashlib.sha256(text.encode()).hexdigest()
    if known := _find_known(tuner, kept):
        return known
    with alone():
        if known := _find_known(tuner, kept):  # while this one waited
            return known
        found = measure()
        if found:
            best = _plain(min(found, key=found.__getitem__).config)
            write_whole(kept, json.dumps(best).encode())
        return found


def _find_known(tuner: Any, kept: Path) -> Mapping[Any, float]:
    known = _read(kept)
    matching = (each for each in tuner.launchers if known and _plain(each.config) == known)
    return dict.fromkeys(islice(matching, 1), 0.0)


def _text(tuner: Any) -> str | None:
    """Return the kernel's file without its own name, or None where there is no such file."""
    try:
        source = Path(tuner.filename).read_text(encoding="utf-8")
        return strip_name(source, tuner.fn.__name__)
    except (OSError, AttributeError, TypeError):
        return None


def _plain(config: Any) -> dict[str, Any]:
    values = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
    return {name: value for name, value in values.items() if isinstance(value, int | str)}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
