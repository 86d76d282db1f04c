"""Generates code from the parent's side: one process per interpreter and environment that has torch
imported, and forks for each variant (``forking``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from perfcli.blobs import pack
from perfcli.compile.binaries.cache import Compiled
from perfcli.decoding import decode, decoder
from perfcli.errors import CompileFailed, PerfcliError, WorkerFailed
from perfcli.model import (
    Bundle,
    CompileRequest,
    Generated,
    KernelFacts,
    KernelsRequest,
    KernelText,
    Run,
)
from perfcli.worker import protocol
from perfcli.worker.channel import Channel, HeldWorker, Reply
from perfcli.worker.roles import Made
from perfcli.worker.starting import worker_environment
from perfcli.worker.weighing import _add_work

_TEXTS = decoder(dict[str, str])
_RUN = decoder(Run)


class WarmReply(Reply):
    number: int = 0
    code: str = ""
    unread: tuple[str, ...] = ()
    run: msgspec.Raw = msgspec.Raw(b"")
    blobs: msgspec.Raw = msgspec.Raw(b"")
    kernels: msgspec.Raw = msgspec.Raw(b"")


def _read_made(reply: WarmReply) -> Made:
    """Return what a reply to a variant says."""
    if reply.type == "error":
        return protocol.error(reply.kind, reply.message, reply.detail)
    bundle = Bundle(_RUN.decode(reply.run), _TEXTS.decode(reply.blobs))
    return Generated(reply.code, bundle, reply.unread)


def _join(facts: KernelFacts, made: Compiled | None) -> KernelFacts:
    """Return the kernel with its candidates. Raises CompileFailed where Triton refused it."""
    if made is None:
        return facts
    if made.error:
        raise CompileFailed(
            f"Triton could not compile {facts.name} of {facts.graph}: "
            f"{made.error.strip().splitlines()[0][:200]}",
            detail=made.error,
        )
    return replace(facts, candidates=made.candidates, alternatives=made.alternatives)


Place: TypeAlias = "tuple[str | None, tuple[tuple[str, str], ...]]"

MOST_TEMPLATES = 3
"""Interpreters and environments that are kept alive: each holds a torch in memory."""


class TemplateProcess:
    """Generates code as a ``roles.Generator``. ``timeout_seconds`` is from one reply to the
    next."""

    def __init__(self, timeout_seconds: float | None = None) -> None:
        self._timeout = timeout_seconds
        self._templates: dict[Place, WarmWorker] = {}

    def generate(
        self, requests: Sequence[CompileRequest], base: CompileRequest | None = None
    ) -> Iterator[tuple[int, Made]]:
        for part in dict.fromkeys(map(_part, requests)):
            own = {n: each for n, each in enumerate(requests) if _part(each) == part}
            common = base if base is not None and _part(base) == part else None
            yield from self._at_once(own, common)

    def _at_once(
        self, requests: Mapping[int, CompileRequest], base: CompileRequest | None
    ) -> Iterator[tuple[int, Made]]:
        """Generate requests of one part. Where the worker itself fails, or a process of it dies,
        what is missing is tried once more: what branches off ``base`` without it, others each in a
        fresh worker."""
        missing, numbers = dict(requests), list(requests)
        first = requests[numbers[0]]
        asked: dict[str, Any] = {"generate": list(requests.values())}
        if base is not None:
            asked = {"branch": {"base": base, "requests": list(requests.values())}}
        try:
            for reply in self._template(first).ask(asked):
                number = numbers[reply.number]
                if reply.type == "unread":
                    del missing[number]
                    continue
                made = _read_made(reply)
                if not isinstance(made, WorkerFailed):
                    del missing[number]
                    yield number, made
        except PerfcliError:
            self._end(first)
        except BaseException:
            # Replies that nobody read would be taken for those to the next question.
            self._end(first)
            raise
        if base is None:
            yield from ((number, self._alone(request)) for number, request in missing.items())
            return
        for some in _groups(missing, first.jobs):
            yield from self._at_once(some, None)

    def _alone(self, request: CompileRequest) -> Made:
        template = None
        try:
            template = WarmWorker(request, self._timeout)
            return next(_read_made(reply) for reply in template.ask({"alone": request}))
        except PerfcliError as error:
            return error
        finally:
            if template is not None:
                template.close()

    def with_binaries(
        self,
        kernels: Sequence[tuple[KernelFacts, KernelText]],
        request: CompileRequest,
        weighs: bool = False,
    ) -> tuple[KernelFacts, ...]:
        triton = [(facts, text) for facts, text in kernels if text.language == "triton"]
        if request.target is None or not triton:
            return tuple(facts for facts, _ in kernels)
        texts = tuple(text for _, text in triton)
        asked = KernelsRequest(texts, request.target, request.jobs, request.cache_dir, weighs)
        try:
            (reply,) = self._template(request).ask({"binaries": asked})
            reply.raise_error()
        except BaseException:
            self._end(request)
            raise
        found = decode(reply.kernels, list[Compiled])
        binaries = {text.source: made for text, made in zip(texts, found, strict=True)}
        joined = [(_join(facts, binaries.get(text.source)), text) for facts, text in kernels]
        if not weighs:
            return tuple(facts for facts, _ in joined)
        return tuple(
            _add_work(
                facts,
                {**binaries[text.source].blobs, facts.source: pack(text.source)},
                Path(request.cache_dir),
            )
            if text.source in binaries
            else facts
            for facts, text in joined
        )

    def close(self) -> None:
        for template in self._templates.values():
            template.close()
        self._templates.clear()

    def _template(self, request: CompileRequest) -> WarmWorker:
        place = _place(request)
        found = self._templates.pop(place, None)
        if found is None:
            while len(self._templates) >= MOST_TEMPLATES:
                self._templates.pop(next(iter(self._templates))).close()
            found = WarmWorker(request, self._timeout)
        self._templates[place] = found  # the last one: used most recently
        return found

    def _end(self, request: CompileRequest) -> None:
        template = self._templates.pop(_place(request), None)
        if template is not None:
            template.close()


class WarmWorker(HeldWorker):
    """Keeps one process that has torch imported for a request's device, target, interpreter and
    environment. Raises what it says of itself where it can't start."""

    def __init__(self, request: CompileRequest, timeout_seconds: float | None) -> None:
        self.timeout_seconds = timeout_seconds
        self._request = request
        super().__init__()

    def _begin(self) -> None:
        environment = worker_environment(self._request, self._folder)
        self._channel = Channel(self._request.variant.python, environment, self._folder)
        self._channel.doing = "importing torch"
        for _ in self.ask({"template": self._request}):
            pass

    def ask(self, question: Mapping[str, Any]) -> Iterator[WarmReply]:
        """Yield the replies up to ``done``. Raises WorkerFailed where it dies, hangs or talks
        nonsense, and what it says of itself where it can't even import torch."""
        channel = self._open()
        channel.send(protocol.encode(question))
        while True:
            channel.give(self.timeout_seconds)
            reply = channel.receive_as(WarmReply)
            if reply.type == "done":
                channel.doing = "generating code"
                return
            if "template" in question:
                raise protocol.error(reply.kind, reply.message, reply.detail)
            yield reply


def _place(request: CompileRequest) -> Place:
    """Return what decides, of all variants, in which process they can be compiled."""
    return request.variant.python, tuple(sorted(request.variant.env.items()))


def _part(request: CompileRequest) -> tuple[Place, str]:
    """Return what variants share that part from a common base."""
    return _place(request), request.folder


def _groups(
    requests: Mapping[int, CompileRequest], jobs: int
) -> Iterator[dict[int, CompileRequest]]:
    """Yield as many requests as are compiled at once: a worker that dies takes no more than those
    with it."""
    left = list(requests.items())
    size = max(jobs, 1)
    for start in range(0, len(left), size):
        yield dict(left[start : start + size])
