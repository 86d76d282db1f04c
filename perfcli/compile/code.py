"""Compiles a variant as far as its code: what sources say of kernels, and one hash of it all."""

from __future__ import annotations

import ast
import hashlib
import os
import re
from typing import Any

from perfcli.compile import reads, tracing
from perfcli.compile.binaries.cache import Compiled
from perfcli.compile.binaries.pool import KernelResult, read_source
from perfcli.compile.branching import Alone, Branches
from perfcli.compile.capture.captured import Capture
from perfcli.compile.capture.collecting import Report
from perfcli.compile.capture.definition import Definition, read_definition, strip_comments
from perfcli.compile.session import Session, finish, trace, trace_script
from perfcli.compile.stand_in.decisions import Assumptions
from perfcli.model import CompileRequest, Generated, Workload

# Where Inductor wrote the kernel, which depends on the cache folder and on the text that is hashed
# itself; and how many graphs this process has compiled.
_COMMENTS = re.compile(r"^# (kernel path|AOT ID): .*$", re.MULTILINE)
_WORD = re.compile(r"\w+")


def generate(
    request: CompileRequest, keep: tuple[Any, ...], report: Report, branches: Branches | None = None
) -> Generated:
    """Compile the request as far as its code, where ``session.import_torch`` returned ``keep``;
    call it once per process. Raises as ``session.compile_request``.

    ``branches`` (with the same request as their base): other processes return from here as well,
    each with its own variant's code. In those ``branching.Missed`` may be raised.
    """
    import torch

    tracing.set_options(request.variant.options)
    branches = branches or Branches(request, {}, Alone())
    branches.begin()
    session = Session(request, report, keep=keep, explains=False)
    sources = _Sources()
    try:
        # The engine's threads would not survive a fork.
        with reads.watch_reads(branches.before) as watched:
            with session.phase("trace"), torch.autograd.set_multithreading_enabled(False):
                follow = trace_script if request.script else trace
                capture, built, traced = follow(session, sources)
            # A run notes the values of some options: that is no use of them.
            unread = watched.unread()
    finally:
        branches.end()
    session.request = branches.request
    bundle = finish(session, capture, built, traced, sources)
    return Generated(_digest(capture), bundle, unread)


def warm_up(request: CompileRequest) -> None:
    """Compile a small function for the request's device, so that patterns, lowerings and printers
    are loaded: a sixth of what a small model takes. It is for inference only: autograd's threads
    must not start."""
    import torch
    from torch._subclasses import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.device(request.device):
        matrix = torch.empty(64, 64)

    def small(x: Any) -> Any:
        y = torch.nn.functional.silu(x @ x)
        return y.softmax(-1).sum(0), y.T.contiguous()

    tracing.trace_offline(Workload(small, (matrix,)), mode, Capture(), False, Assumptions())
    torch._dynamo.reset()


class _Sources:
    """Stands in for ``pool.KernelPool`` with what sources say and no binaries."""

    def submit(self, definition: Definition) -> None:
        """Begin nothing."""

    def begin(self) -> None:
        """Begin nothing."""

    def done(self) -> int:
        return 0

    def total(self) -> None:
        return None

    def result(self, definition: Definition) -> KernelResult:
        facts, note = read_source(definition)
        return KernelResult(facts, Compiled((), {}), note)


def _digest(capture: Capture) -> str:
    """Return the SHA-256 of the generated modules of all graphs: kernels, what allocates for them
    and calls them, and how often a step calls each graph. Equal hashes mean the same code, as long
    as nothing that is decided at run time differs. Comments are no code, nor are the names of
    kernels: Inductor numbers kernels by their texts, and comments alone make two of one."""
    found = hashlib.sha256()
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "")
    for graph in capture.graphs:
        text = _COMMENTS.sub("", graph.text)
        if folder:
            text = text.replace(folder, "")
        text = _with_kernels_by_content(text)
        found.update(f"{graph.facts.name}\0{graph.calls}\0{text}\0".encode())
    return found.hexdigest()


def _with_kernels_by_content(text: str) -> str:
    """Return a generated module without comments and without the definitions of its kernels, whose
    calls are by their hash; as it is where it is not Python."""
    try:
        module = ast.parse(text)
    except SyntaxError:
        return text
    lines: list[str | None] = list(text.splitlines())
    hashes: dict[str, str] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            made = read_definition(node.value)
            if made is not None:
                hashes[node.targets[0].id] = f"kernel_{made.source_hash}"
                end = node.end_lineno or node.lineno
                lines[node.lineno - 1 : end] = [None] * (end - node.lineno + 1)
    rest = strip_comments("\n".join(line for line in lines if line is not None))
    return _WORD.sub(lambda found: hashes.get(found[0], found[0]), rest)
