"""What one launch of a hand-written kernel does to memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfcli.facts.source import triton_facts
from perfcli.facts.specialized import specialized
from perfcli.facts.sweeps import joined
from perfcli.model import Scalar, SourceFacts


def launch_facts(
    source: str, name: str, constants: Mapping[str, Scalar]
) -> tuple[str, SourceFacts]:
    """The kernel's text as the launch compiles it, and its facts.

    Passes are those over whole rows: what the device may read again in a branch of its own (a
    fallback) does not count, nor do loads outside of the loops that read a buffer (the few elements
    before the first aligned address, one that is looked up).

    Raises:
        UnreadableSource: the text is no Python, or has no such function.
    """
    text = specialized(source, name, constants)
    facts = triton_facts(text, name)
    certain = triton_facts(joined(specialized(source, name, constants, only_certain=True)), name)
    every = triton_facts(joined(text), name)
    passes = {
        pointer: _passes(pointer, certain if pointer in certain.passes else every)
        for pointer in every.passes
    }
    # Whether maximum and sum are taken together is known of Inductor's library calls alone.
    return text, replace(facts, passes=passes, online_softmax=None)


def _passes(pointer: str, facts: SourceFacts) -> int:
    depths = {a.depth for a in facts.accesses if a.pointer == pointer and a.kind == "load"}
    return max(facts.passes[pointer] - (len(depths) > 1), 1)
