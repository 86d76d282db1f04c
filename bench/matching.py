"""Time to match two runs of 2000 kernels, on one core.

The bar: 2 s, whatever changed: nothing, every name and number of a node (another torch), or every
third kernel fused with its neighbour. A kernel has 12 nodes of its own, 3 that its layer's other
kernels recompute, and a layer has 20 kernels.

    python bench/matching.py [--kernels 2000]
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

from perfcli.diff.match import match
from perfcli.model import Candidate, KernelFacts, Origin

SECONDS = 2.0
PER_LAYER = 20
OPERATORS = ("mul", "add", "sub", "exp", "pow", "sum")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, default=2000)
    count: int = parser.parse_args().kernels
    base = [made_up(number) for number in range(count)]
    good = True
    for name, head, nodes_agree in mixes(base):
        started = time.process_time()
        matches = match(base, head, nodes_agree)
        seconds = time.process_time() - started
        good &= seconds <= SECONDS
        sys.stdout.write(
            f"matching {len(base)} with {len(head)} kernels, {name}: {seconds:.2f} s, "
            f"{len(matches)} matches (bar: {SECONDS:.0f} s): "
            f"{'good' if seconds <= SECONDS else 'MISSED'}\n"
        )
    return 0 if good else 1


def mixes(base: Sequence[KernelFacts]) -> list[tuple[str, list[KernelFacts], bool]]:
    written = [rewritten(kernel) for kernel in base]
    renamed = [made_up(number, first=7) for number in range(len(base))]
    return [
        ("the same", list(base), True),
        ("all rewritten", written, True),
        ("every third fused", fused(base), True),
        ("another torch, the same code", renamed, False),
        ("another torch, all rewritten", [rewritten(kernel) for kernel in renamed], False),
        ("another torch, every third fused", fused([rewritten(k) for k in renamed]), False),
    ]


def made_up(number: int, first: int = 0) -> KernelFacts:
    """``first``: what the numbers of nodes begin with."""
    layer, place = divmod(number, PER_LAYER)
    own = [
        Origin(
            f"{op}_{first + 2 * number + n}",
            f"aten.{op}.Tensor",
            f"blocks.{layer}.part_{place // 2}",
            (48, 2048, 512),
        )
        for op in OPERATORS
        for n in range(2)
    ]
    shared = [
        Origin(f"{op}_{first + layer}", f"aten.{op}.default", f"blocks.{layer}", (48, 2048, 1))
        for op in ("rsqrt", "mean", "convert")
    ]
    return coded(
        KernelFacts(
            name=f"triton_red_fused_add_mul_{number}",
            kind="reduction",
            language="triton",
            graph="backward 0" if layer % 2 else "forward 0",
            launches=1,
            origins=(*own, *shared),
            source="",
            source_hash="",
            source_facts=None,
        ),
        str(number),
    )


def coded(kernel: KernelFacts, text: str) -> KernelFacts:
    code = hashlib.sha256(text.encode()).hexdigest()
    candidate = Candidate({"XBLOCK": 1}, 4, 1, registers=32, stack_bytes=0, binary_hash=code)
    return replace(kernel, source_hash=code, candidates=(candidate,))


def rewritten(kernel: KernelFacts) -> KernelFacts:
    return coded(kernel, f"{kernel.source_hash} rewritten")


def fused(kernels: Sequence[KernelFacts]) -> list[KernelFacts]:
    """Of every three kernels the first two in one."""
    made = []
    for place in range(0, len(kernels), 3):
        first, *others = kernels[place : place + 3]
        if others and others[0].graph == first.graph:
            both = tuple(dict.fromkeys((*first.origins, *others[0].origins)))
            made.append(rewritten(replace(first, origins=both)))
            made += others[1:]
        else:
            made += [first, *others]
    return made


if __name__ == "__main__":
    sys.exit(main())
