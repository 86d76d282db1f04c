"""A variant compiled as far as its code: what sources say of kernels, and one hash of it all."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any

from perfcli.compile import reads
from perfcli.compile.captured import Capture
from perfcli.compile.collecting import Report
from perfcli.compile.definition import Definition
from perfcli.compile.kernel_cache import Compiled
from perfcli.compile.pool import KernelResult, read_source
from perfcli.compile.session import Session, finish, set_options, trace
from perfcli.model import CompileRequest, Generated

# Where Inductor wrote the kernel: of its text, which is hashed itself, and of the cache folder.
_PLACE = re.compile(r"^# kernel path: .*$", re.MULTILINE)


def generate(request: CompileRequest, keep: tuple[Any, ...], report: Report) -> Generated:
    """Compiles the request as far as its code, where ``session.import_torch`` returned ``keep``;
    once per process. Raises as ``session.compile_request``."""
    set_options(request)
    session = Session(request, report, keep=keep)
    sources = Sources()
    with reads.watched() as watched:
        with session.phase("trace"):
            capture, built, traced = trace(session, sources)
        # A run notes the values of some options: that is no use of them.
        unread = watched.unread()
    bundle = finish(session, capture, built, traced, sources)
    return Generated(digest(capture), bundle, unread)


class Sources:
    """Stands in for ``pool.KernelPool``: what sources say, and no binaries."""

    def submit(self, definition: Definition) -> None:
        """Nothing is begun."""

    def done(self) -> int:
        return 0

    def total(self) -> None:
        return None

    def result(self, definition: Definition) -> KernelResult:
        facts, note = read_source(definition)
        return KernelResult(facts, Compiled((), {}), note)


def digest(capture: Capture) -> str:
    """SHA-256 of the generated modules of all graphs: kernels, what allocates for them and calls
    them, and how often a step calls each graph. Equal: the same code, as long as nothing that is
    decided when it runs differs."""
    found = hashlib.sha256()
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    for graph in capture.graphs:
        text = _PLACE.sub("", graph.text)
        if folder:
            text = text.replace(folder, "")
        found.update(f"{graph.facts.name}\0{graph.calls}\0{text}\0".encode())
    return found.hexdigest()
