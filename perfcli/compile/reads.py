"""Records which options are read while a variant is compiled: the others can't change its code.

Every access ``config.name`` or ``config.group.name`` passes ``ConfigModule.__getattr__`` (torch
2.11 to 2.15). What reads a whole module at once (``_get_dict`` and its like) is taken to have read
everything, but for torch's own logs and reproducers.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeAlias

from perfcli.compile.stand_in.device import replace_for_block

_REPORTS = {
    "get_patched_config_dict",  # what torch._dynamo.optimize notes of its backend
    "generate_config_string",  # the script that would reproduce a failure
    "_get_dynamo_config_for_logging",
    "_scrubbed_inductor_config_for_logging",
    "_functorch_config_for_logging",
}
"""Functions that read all options and never decide anything by them (torch 2.11 to 2.13)."""
_NEAR = 8
"""Frames above a reader among which such a function counts as its caller."""
_BULK = ("_get_dict", "save_config", "save_config_portable", "codegen_config", "get_hash")


Before: TypeAlias = "Callable[[str, str | None], None]"
"""Called with a module and an option of it (None: with all of them) that is about to be read or
set, when that can still be changed."""


class _Reads:
    """Records, by module, the options that were read; ``bulk`` names those that read a whole module
    at once."""

    def __init__(self) -> None:
        self.read: dict[str, set[str]] = {}
        self.bulk: list[str] = []
        self.inside = 0
        """Bulk readers that are running: what they read one by one is theirs."""

    def unread(self) -> tuple[str, ...]:
        """Return the options of Inductor, Dynamo and functorch, named as everywhere, whose value
        nobody asked for; none where somebody asked for all at once. An option that is another name
        of one that is not watched may have been read through that one."""
        if self.bulk:
            return ()
        # With the module's name, as aliases name their target.
        everywhere = {f"{module}.{name}" for module, names in self.read.items() for name in names}
        watched = {
            f"{config.__name__}.{name}" for config in modules().values() for name in config._config
        }
        safe = {"", *(watched - everywhere)}
        found = []
        for prefix, config in modules().items():
            read = self.read.get(config.__name__, set())
            found += [
                prefix + name
                for name, entry in config._config.items()
                if name not in read and target(entry) in safe
            ]
        return tuple(sorted(found))


def modules() -> dict[str, Any]:
    """Return the configuration modules by the prefix of their options' names."""
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config

    return {
        "": torch._inductor.config,
        "dynamo.": torch._dynamo.config,
        "functorch.": torch._functorch.config,
    }


def target(entry: Any) -> str:
    """Return the option that this one is another name of; most are none, and give an empty text."""
    return getattr(entry, "alias", None) or ""


@contextmanager
def watch_reads(before: Before = lambda module, name: None) -> Iterator[_Reads]:
    """Record what is read while the block runs."""
    from torch.utils._config_module import ConfigModule

    reads = _Reads()
    original, set_original = ConfigModule.__getattr__, ConfigModule.__setattr__
    names = {config.__name__ for config in modules().values()}

    @functools.wraps(original)
    def getattr_noted(self: Any, name: str) -> Any:
        module = self.__name__
        if module in names and not reads.inside:
            before(module, name)
            reads.read.setdefault(module, set()).add(name)
        return original(self, name)

    @functools.wraps(set_original)
    def setattr_noted(self: Any, name: str, value: Any) -> None:
        if self.__name__ in names:
            before(self.__name__, name)
        set_original(self, name, value)

    known = vars(ConfigModule)
    bulk = {
        name: _wrap_reader(known[name], name, names, reads, before)
        for name in _BULK
        if name in known
    }
    with replace_for_block(
        ConfigModule, __getattr__=getattr_noted, __setattr__=setattr_noted, **bulk
    ):
        yield reads


def _wrap_reader(method: Any, name: str, names: set[str], reads: _Reads, before: Before) -> Any:
    @functools.wraps(method)
    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.__name__ not in names:
            return method(self, *args, **kwargs)
        if not reads.inside and not _for_a_report(sys._getframe(1)):
            before(self.__name__, None)
            reads.bulk.append(f"{self.__name__}.{name}")
        reads.inside += 1
        try:
            return method(self, *args, **kwargs)
        finally:
            reads.inside -= 1

    return noted


def _for_a_report(frame: FrameType | None) -> bool:
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_code.co_name in _REPORTS:
            return True
        frame = frame.f_back
    return False
