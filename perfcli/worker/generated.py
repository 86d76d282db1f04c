"""Replies of a template, as what the parent asked for."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from perfcli.errors import CompileFailed
from perfcli.model import Bundle, Candidate, Generated, KernelFacts, Run
from perfcli.worker import protocol
from perfcli.worker.generator import Made

_TEXTS = msgspec.json.Decoder(dict[str, str])
_RUN = msgspec.json.Decoder(Run)


class Binaries(msgspec.Struct):
    candidates: tuple[Candidate, ...]
    alternatives: tuple[Candidate, ...] = ()
    error: str = ""


class Reply(msgspec.Struct):
    type: str
    number: int = 0
    code: str = ""
    unread: tuple[str, ...] = ()
    run: msgspec.Raw = msgspec.Raw(b"")
    blobs: msgspec.Raw = msgspec.Raw(b"")
    kernels: msgspec.Raw = msgspec.Raw(b"")
    kind: str = ""
    message: str = ""
    detail: str = ""


def made_of(reply: Reply) -> Made:
    """Of a reply to a variant."""
    if reply.type == "error":
        return protocol.error(reply.kind, reply.message, reply.detail)
    bundle = Bundle(_RUN.decode(reply.run), _TEXTS.decode(reply.blobs))
    return Generated(reply.code, bundle, reply.unread)


def joined(facts: KernelFacts, made: Binaries | None) -> KernelFacts:
    """With its candidates. Raises CompileFailed where Triton refused it."""
    if made is None:
        return facts
    if made.error:
        raise CompileFailed(
            f"Triton could not compile {facts.name} of {facts.graph}: "
            f"{made.error.strip().splitlines()[0][:200]}",
            detail=made.error,
        )
    return replace(facts, candidates=made.candidates, alternatives=made.alternatives)
