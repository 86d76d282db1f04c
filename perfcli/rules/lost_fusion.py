"""Two kernels run where one would do, and pass on through memory what it would keep to itself.

What it sees: in one run,

* a kernel that reads what another one wrote, of the same points, with nothing in between that needs
  the one and is needed by the other, so that both could be one; and the reason is known: what
  Inductor's scheduler said (its `WhyNoFuse`, which the log artifact `fusion` shows), a `cat` that
  is put together in memory, dynamic sizes, another order of reading, a limit. Not what is written
  by atomics or where data says, which is complete only when the whole kernel is done; nor what is
  reduced along another axis than it is written (the gradient of a bias, the backward of a batch
  norm), unless `loop_ordering_after_fusion` is off, and then as a note;
* an operator of the user's own (`torch.library`), opaque to Inductor, that goes element by element
  or row by row over what a kernel wrote, and could be part of it. Products, attention and the like
  are not meant.

In a comparison: what was one kernel before is several now, or the other way round (fusion
overdone), and takes longer by estimate; not where the kernels also compute more: with the same
torch and options, operators that the base has not, or more calls of one. Only where it costs 1 µs
and 1 % of the step or more, in one run 2 %; the estimate knows what of it the L2 cache keeps.

Why it costs: what is passed on is written and read again, and each kernel is a launch. An opaque
quantisation after a norm costs a round trip of all activations in each layer (vLLM #37960); with
dynamic sizes a projection became several kernels (pytorch #181108); a softmax along the outer axis
is three (pytorch #93718).

What to try: the option that keeps them apart, at its default; `force_pointwise_cat`, or more
`max_pointwise_cat_inputs`, for a cat; static sizes where they do not vary; the operator written in
torch, or as a `torch.library.triton_op`; a reduction along the contiguous axis. Fused is not always
faster: the cost is what the estimate says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from perfcli import units
from perfcli.diff.added_work import adds_work
from perfcli.diff.arithmetic import is_heavy
from perfcli.model import (
    Comparison,
    Cost,
    Cure,
    Finding,
    KernelFacts,
    Match,
    OptionValue,
    Rule,
    Run,
)
from perfcli.predict.savings import estimate_loss, estimate_saving
from perfcli.rules._evidence.addresses import gathers, scatters, step_along
from perfcli.rules._evidence.dataflow import Called, Dataflow, Passing
from perfcli.rules._evidence.demands import computes, fewer_reads, fewer_writes
from perfcli.rules._evidence.splits import KERNEL_SECONDS, find_splits
from perfcli.rules._evidence.whole_reads import (
    ANY_REDUCTION,
    chunk_shape,
    points_of,
    reduced_elements,
    row_stride,
    rows_of,
)
from perfcli.rules._evidence.words import origin_of
from perfcli.rules._evidence.worth import is_worth

if TYPE_CHECKING:
    from perfcli.predict.savings import Edit

_LEAST_SHARE = 0.02
_LEAST_SHARE_OF_LOSS = 0.01
_FUSABLE = ("pointwise", "reduction", "persistent-reduction")
_OTHERS_SHARE = 1.05
"""How many times the elements that are passed on a kernel may read."""


@dataclass(frozen=True, slots=True)
class _Reason:
    """Says why two kernels are not one, and what helps."""

    text: str
    advice: str = ""
    options: Mapping[str, OptionValue] | None = None
    vague: bool = False
    """Whether it is not known that one kernel is the faster."""


# --- one run: two kernels ----------------------------------------------------------------------


def _check(run: Run) -> Iterator[Finding]:
    if not any(kernel.estimate for kernel in run.kernels):
        return
    flow = Dataflow(run)
    yield from _find_opaque(flow)
    done: set[int] = set()
    for passing in flow.list_passings():
        reason = _reason_of(run, passing)
        if reason is None or not done.isdisjoint((passing.writer, passing.reader)):
            continue
        if not _is_legal(run, passing) or flow.has_between(passing.writer, passing.reader):
            continue
        cost = _cost_of(run, passing)
        if is_worth(cost, _LEAST_SHARE):
            done.update((passing.writer, passing.reader))
            yield _say_pair(run, passing, reason, cost)


def _is_legal(run: Run, passing: Passing) -> bool:
    """Return whether a kernel could compute what it reads: pointwise, at each of its points once.
    Of a reduction only what has the same rows and columns is sure to be at hand. What is written by
    atomics or wherever data says is complete only when the whole kernel is done."""
    writer, reader = run.kernels[passing.writer], run.kernels[passing.reader]
    if writer.kind not in _FUSABLE or reader.kind not in _FUSABLE:
        return False
    if writer.unknown_sizes or reader.unknown_sizes:
        return False
    written = {buffer.argument for buffer in passing.written}
    if scatters(writer, written) or gathers(reader, {passing.read.argument}):
        return False
    elements, points = math.prod(passing.read.shape), points_of(reader) or 0
    if not points / _OTHERS_SHARE <= elements <= points * _OTHERS_SHARE:
        return False
    if writer.kind != "pointwise":
        same = sorted(writer.sizes.values()) == sorted(reader.sizes.values())
        after = reader.kind == "pointwise" and points_of(writer) == points
        return (same or after) and not _is_reordered(passing)
    sweeps = reader.source_facts.passes if reader.source_facts else {}
    return sweeps.get(passing.read.argument, 1) <= 1


def _is_reordered(passing: Passing) -> bool:
    return passing.written[0].stride != passing.read.stride


def _cost_of(run: Run, passing: Passing) -> Cost | None:
    """Return what one kernel saves: it does not read what is passed on, does not write it where
    nothing else needs it, and is one launch. Of a cat it computes every part at every point."""
    writer, reader = run.kernels[passing.writer], run.kernels[passing.reader]
    if reader.operations == 0 and passing.alone and reader.kind == "pointwise":
        # All that it does is to put elsewhere what the writer could have put there.
        return estimate_saving(run, {passing.reader: ()}, -(reader.step_seconds or 0.0))
    size = sum(buffer.bytes for buffer in passing.written)
    edits: dict[int, list[Edit]] = {
        passing.reader: [fewer_reads(max(0.0, 1 - passing.read.bytes / (reader.bytes_read or 1)))]
    }
    edits[passing.writer] = [computes(passing.parts)] if passing.parts > 1 else []
    if passing.alone:
        kept = max(0.0, 1 - size / (writer.bytes_written or 1))
        edits[passing.writer].append(fewer_writes(kept))
    cost = estimate_saving(run, edits, -KERNEL_SECONDS * reader.launches)
    told = _words_of_scheduler(run, passing)
    turned = _is_reordered(passing) or told.startswith(_MISMATCH)
    if cost is None or run.target is None or not turned:
        return cost
    # Strided stores or loads do not vanish: the one kernel has to read in the other order.
    passed_on = (size * passing.alone + passing.read.bytes) / run.target.bandwidth
    return _limit(cost, (passed_on + KERNEL_SECONDS) * reader.launches)


def _limit(cost: Cost, seconds: float) -> Cost:
    """Return the cost, which is no more than so many seconds."""
    part = min(1.0, seconds / cost.seconds) if cost.seconds > 0 else 1.0
    share = cost.share * part if cost.share is not None else None
    return Cost(cost.seconds * part, cost.low * part, cost.high * part, share)


def _say_pair(run: Run, passing: Passing, reason: _Reason, cost: Cost | None) -> Finding:
    writer, reader = run.kernels[passing.writer], run.kernels[passing.reader]
    told = _words_of_scheduler(run, passing)
    size = passing.read.bytes
    doubtful = passing.parts > 1 and (reader.kind != "pointwise" or _is_heavy(writer))
    return Finding(
        code=RULE.code,
        severity="info" if doubtful or reason.vague else "warning",
        headline=f"{writer.name} and {reader.name} could be one kernel (fusion lost): "
        f"{units.size(size)} go through memory",
        kernels=(passing.writer, passing.reader),
        evidence=(
            f"why they are not fused: {reason.text}",
            *([f"Inductor's scheduler says: {told}"] if told and told != reason.text else []),
            f"{passing.read.name} is written by the first and read by the second"
            + (", and by nothing else" if passing.alone else ""),
            *(
                ["what one kernel would gain is not known: it computes each part for all elements"]
                if doubtful
                else []
            ),
        ),
        advice=reason.advice if not reason.options else "",
        cures=(Cure(reason.options, "lets Inductor fuse the two"),) if reason.options else (),
        cost=None if doubtful else cost,
        metric="passed_bytes",
        amount=size * reader.launches,
        origin=origin_of(reader),
    )


def _is_heavy(kernel: KernelFacts) -> bool:
    return any(is_heavy(origin) for origin in kernel.origins)


# --- why ---------------------------------------------------------------------------------------

_MISMATCH = ("no shared data", "memory deps did not match", "numel/rnumel mismatch", "invalid tile")
_REORDERING = "loop_ordering_after_fusion"
_STATIC = (
    "keep sizes static that do not vary: dynamic=False, or mark_dynamic for one dimension alone"
)


def _words_of_scheduler(run: Run, passing: Passing) -> str:
    """Return why Inductor's scheduler did not fuse the two; empty where it did not say."""
    writer, reader = run.kernels[passing.writer], run.kernels[passing.reader]
    return (reader.refused or {}).get(writer.name, "")


def _reason_of(run: Run, passing: Passing) -> _Reason | None:
    """Return why the kernels are two; None where that is not known, or is as it should be."""
    if passing.parts:
        return _reason_of_cat(run, passing)
    told = _words_of_scheduler(run, passing)
    if not told:
        return None
    return _name_limit(run, told) or _name_mismatch(run, passing, told)


def _reason_of_cat(run: Run, passing: Passing) -> _Reason:
    text = "a cat is put together in memory, its parts are not inlined into what reads it"
    most = run.settings.get("max_pointwise_cat_inputs")
    if isinstance(most, int) and passing.parts > most:
        text = f"a cat of {passing.parts} parts, and max_pointwise_cat_inputs is {most}"
        return _Reason(text, options={"max_pointwise_cat_inputs": passing.parts})
    if run.settings.get("force_pointwise_cat") is False:
        return _Reason(text, options={"force_pointwise_cat": True})
    return _Reason(text, "compute with the parts, and join what comes of it")


def _name_limit(run: Run, told: str) -> _Reason | None:
    """Return the option that the scheduler's message is about."""
    limits: Mapping[str, tuple[str, OptionValue]] = {
        "exceeds max fusion": ("max_fusion_size", 64),
        "fusion_prevent_too_many_reads_and_writes": ("max_fusion_unique_io_buffers", None),
        "score_fusion_memory_threshold": ("score_fusion_memory_threshold", 10),
    }
    for start, (option, usual) in limits.items():
        if told.startswith(start):
            now = run.settings.get(option)
            if isinstance(now, int) and isinstance(usual, int) and now >= usual:
                usual = 2 * now
            return _Reason(f"the limit {option}, which is {now}", options={option: usual})
    return None


def _name_mismatch(run: Run, passing: Passing, told: str) -> _Reason | None:
    writer, reader = run.kernels[passing.writer], run.kernels[passing.reader]
    if told.startswith(("intermediate", "Fusion will increase peak", "device mismatch")):
        return None
    if told.startswith(_MISMATCH) and _reduces_across(writer, reader, passing):
        # Nothing is in between that the model could do without.
        if writer.kind != "pointwise" or run.settings.get(_REORDERING) is not False:
            return None
        text = "the second reduces along another axis than the first goes"
        return _Reason(text, options={_REORDERING: True}, vague=True)
    if told.startswith(_MISMATCH) and (writer.dynamic_sizes or reader.dynamic_sizes):
        return _Reason("with dynamic sizes it is not known that both go the same way", _STATIC)
    if told.startswith(_MISMATCH):
        text = "the second reads in another order, or another view, than the first writes"
        if run.settings.get(_REORDERING) is False:
            return _Reason(text, options={_REORDERING: True})
        return _Reason(text, "let both work on one layout: drop the view or transpose in between")
    dtypes = {b.dtype for b in (*writer.buffers, *reader.buffers)}
    mixed = f" (dtypes {', '.join(sorted(dtypes))})" if "dtype" in told else ""
    return _Reason(told + mixed, "let both work on one layout, of one size and dtype")


def _reduces_across(writer: KernelFacts, reader: KernelFacts, passing: Passing) -> bool:
    """Return whether the second kernel reduces along another axis than the first goes: over rows,
    where that computes them one after the other, as for the gradients of a bias or of the weights
    of a norm."""
    if reader.kind not in ANY_REDUCTION:
        return False
    read, length = passing.read, reduced_elements(reader)
    step = step_along(reader, read.argument, "r0_")
    if writer.kind in ANY_REDUCTION:
        way = step_along(writer, passing.written[0].argument, "r0_")
        return reduced_elements(writer) != length or (None not in (step, way) and step != way)
    dimensions = sorted(zip(read.stride, read.shape, strict=True), reverse=True)
    lying = replace(
        read, shape=tuple(n for _, n in dimensions), stride=tuple(s for s, _ in dimensions)
    )
    whole = row_stride(reader, lying) is not None
    if step is None:
        # Sizes alone don't tell chunks of rows from chunks of columns.
        return not whole or rows_of(reader) == length
    chunked = chunk_shape(reader, lying, math.prod(lying.shape[:-1])) is not None
    return not (whole or chunked) or step * math.prod(read.shape) != read.bytes


# --- one run: an operator that Inductor can't look into ------------------------------------------

_TORCHS = ("aten", "prims", "extern_kernels", "inductor", "quantized", "c10d", "_c10d_functional",
           "torchvision", "mkldnn", "triton", "higher_order", "profiler", "fbgemm")  # fmt: skip
_HEAVY = ("mm", "gemm", "matmul", "linear", "attention", "attn", "flash", "mha", "sdpa", "conv",
          "moe", "sort", "topk", "scan", "fft", "reduce", "gather", "mla")  # fmt: skip


def _find_opaque(flow: Dataflow) -> Iterator[Finding]:
    run = flow.run
    seen: set[tuple[str, str]] = set()
    for called in flow.calls:
        if (called.graph, called.op) in seen or not _is_opaque(called.op):
            continue
        for name, buffer in called.pairs(written=False):
            writer = next(iter(flow.writers.get(name, ())), None)
            if writer is None or not _goes_along(called, buffer.shape):
                continue
            if scatters(run.kernels[writer], {b.argument for b in flow.writers[name][writer]}):
                continue
            cost = _cost_of_opaque(flow, called, writer, name)
            if is_worth(cost, _LEAST_SHARE):
                seen.add((called.graph, called.op))
                yield _say_opaque(run, called, writer, cost)
                break


def _is_opaque(op: str) -> bool:
    space, _, rest = op.replace("::", ".").removeprefix("torch.ops.").partition(".")
    return space not in _TORCHS and bool(rest) and not any(word in rest for word in _HEAVY)


def _goes_along(called: Called, shape: tuple[int, ...]) -> bool:
    """Return whether the operator may go row by row over a tensor: its results have the same rows,
    and what else it reads has the tensor's shape or can be spread over it, as no matrix can that it
    is multiplied by."""
    results = [b.shape for _, b in called.pairs(written=True)]
    others = [b.shape for _, b in called.pairs(written=False)]
    rows = shape[:-1]
    along = all(s[: len(rows)] == rows for s in results)
    return bool(results) and len(shape) > 1 and along and all(_spreads(s, shape) for s in others)


def _spreads(small: tuple[int, ...], large: tuple[int, ...]) -> bool:
    pairs = zip(reversed(small), reversed(large), strict=False)
    return len(small) <= len(large) and all(one in (1, other) for one, other in pairs)


def _cost_of_opaque(
    flow: Dataflow, called: Called, writer: int, name: tuple[str, str]
) -> Cost | None:
    """Return what it saves if the kernel writes the operator's results instead of its input."""
    run = flow.run
    kernel = run.kernels[writer]
    extern = next((e for e in run.externs if (e.graph, e.op) == (called.graph, called.op)), None)
    if extern is None or extern.estimate is None or not kernel.bytes_written:
        return None
    passed = sum(b.bytes for b in flow.writers[name][writer])
    added = sum(b.bytes for _, b in called.pairs(written=True))
    returned = any(b.graph_output is not False for b in flow.writers[name][writer])
    alone = not flow.readers.get(name) and len(flow.calling[name]) == 1 and not returned
    gone = passed if alone else 0
    kept = max(0.0, 1 + (added - gone) / kernel.bytes_written)
    count = min(extern.count, kernel.launches)
    cost = estimate_saving(run, {writer: (fewer_writes(kept),)}, -extern.estimate.seconds * count)
    if cost is None:
        return None
    kernels = cost.seconds - extern.estimate.seconds * count
    return replace(
        cost,
        low=min(cost.low, kernels + extern.estimate.low * count),
        high=max(cost.high, kernels + extern.estimate.high * count),
    )


def _say_opaque(run: Run, called: Called, writer: int, cost: Cost | None) -> Finding:
    kernel = run.kernels[writer]
    read = sum(b.bytes for _, b in called.pairs(written=False))
    written = sum(b.bytes for _, b in called.pairs(written=True))
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{called.op} is opaque to Inductor (a custom operator), so that {kernel.name} "
        f"and it are two kernels: fusion lost",
        kernels=(writer,),
        evidence=(
            f"it reads {units.size(read)} and writes {units.size(written)}, of the same rows that "
            "the kernel has at hand",
            "its time is known by its bytes alone",
        ),
        advice=f"write {called.op} in torch, or as a torch.library.triton_op, so that Inductor "
        f"makes it part of {kernel.name}",
        cost=cost,
        metric="passed_bytes",
        amount=(read + written) * kernel.launches,
        origin=origin_of(kernel),
    )


# --- a comparison --------------------------------------------------------------------------------


def _compare(comparison: Comparison) -> Iterator[Finding]:
    known = [set(finding.kernels) for finding in _check(comparison.head)]
    for group in comparison.groups:
        match = group.match
        if not match.base or not match.head or len(match.base) == len(match.head):
            continue
        more = len(match.head) > len(match.base)
        if not more and match.relation != "fused":
            continue
        if more and any(kernels <= set(match.head) for kernels in known):
            continue  # the head alone shows it, with its reason
        if more and adds_work(comparison.base, comparison.head, match):
            continue  # kernels for what the base does not compute
        cost = estimate_loss(comparison.base, match.base, comparison.head, match.head)
        if is_worth(cost, _LEAST_SHARE_OF_LOSS):
            yield _say_group(comparison, match, cost, more)


def _say_group(comparison: Comparison, match: Match, cost: Cost | None, more: bool) -> Finding:
    base, head = comparison.base, comparison.head
    ours, theirs = match.select(base, head)
    loss = cost.seconds if cost else 0.0
    longer = (
        f"which {'take' if len(theirs) > 1 else 'takes'} {units.seconds(loss)} more of each step"
    )
    were, are = (_count(each) for each in (ours, theirs))
    reason = _reason_between(comparison, match, more)
    names = (", ".join(kernel.name for kernel in each[:3]) for each in (ours, theirs))
    moved = [sum(k.step_bytes or 0 for k in each) for each in (ours, theirs)]
    return Finding(
        code=RULE.code,
        severity="warning",
        headline=f"{were} became {are}, {longer}: fusion {'lost' if more else 'overdone'}, "
        f"{reason.text}",
        kernels=match.head,
        evidence=(
            " → ".join(names),
            f"they move {units.size(moved[0])} → {units.size(moved[1])}",
        ),
        advice=reason.advice if not reason.options else "",
        cures=(Cure(reason.options, "as in the base"),) if reason.options else (),
        cost=cost,
        origin=max((o for k in theirs if (o := origin_of(k))), key=lambda o: bool(o.location),
                   default=None),
        metric="kernels",
        amount=len(theirs) - len(ours) if more else None,
    )  # fmt: skip


def _count(kernels: list[KernelFacts]) -> str:
    return "one kernel" if len(kernels) == 1 else units.plural(len(kernels), "kernel")


def _reason_between(comparison: Comparison, match: Match, more: bool) -> _Reason:
    """Return what of the two runs is behind it: options, dynamic sizes, a cat, a split."""
    base, head = comparison.base, comparison.head
    differ = sorted({*base.variant.options, *head.variant.options})
    back = {
        name: base.settings[name]
        for name in differ
        if name in base.settings and base.settings[name] != head.settings.get(name)
    }
    cats = [_has_cat(run, numbers) for run, numbers in ((base, match.base), (head, match.head))]
    changed = _CATS.get((cats[0], cats[1], more), "")
    if back:
        by = f"by {', '.join(back)}"
        return _Reason(f"{changed}, {by}" if changed else by, options=back)
    if more and _count_graphs(base, match.base) < _count_graphs(head, match.head):
        return _broken_between(base, head)
    if head.dynamic and not base.dynamic:
        return _Reason("sizes are dynamic now", _STATIC)
    if more and any({s.first, s.second} <= set(match.head) for s in find_splits(head)):
        return _Reason(
            "the reduction is split into two stages",
            "reduce along the contiguous axis: .contiguous() or a transpose before it",
        )
    if more and cats[0]:
        cure = {"force_pointwise_cat": True} if "force_pointwise_cat" in head.settings else None
        return _Reason(changed or _CATS[True, False, True], "inline the cat", cure)
    if changed:
        return _Reason(changed, "keep it in memory: max_pointwise_cat_inputs below its parts")
    told = _told_among(head, match.head) if more else ""
    if told:
        return _Reason(f"Inductor's scheduler says: {told}", "let both work on one layout")
    if base.environment.torch != head.environment.torch:
        versions = f"torch {base.environment.torch} → {head.environment.torch}"
        return _Reason(f"with {versions}", "compare the options of both releases")
    return _Reason("reason unknown", "look for what changed at this line of the model")


def _count_graphs(run: Run, numbers: tuple[int, ...]) -> int:
    return len({run.kernels[n].graph for n in numbers})


def _broken_between(base: Run, head: Run) -> _Reason:
    """Return that the kernels are in different graphs now, with the break if it is the only new
    one."""
    known = {place for places in base.break_places.values() for place in places}
    new = [p for places in head.break_places.values() for p in places if p not in known]
    where = f" at {PurePath(new[0].location).name}" if len(new) == 1 else ""
    return _Reason(
        f"since a graph break{where} lies between them", "remove the break (PC403 says why it is)"
    )


_CATS = {
    (True, False, True): "the cat is put together in memory",
    (False, True, False): "the cat is inlined into the kernel that reads it",
}
"""Whether base and head have a cat in these kernels, and whether these are more now."""


def _has_cat(run: Run, numbers: tuple[int, ...]) -> bool:
    return any(o.node.startswith("cat") for n in numbers for o in run.kernels[n].origins)


def _told_among(run: Run, numbers: tuple[int, ...]) -> str:
    names = {run.kernels[n].name for n in numbers}
    told = (
        reason
        for n in numbers
        for writer, reason in (run.kernels[n].refused or {}).items()
        if writer in names
    )
    return next(told, "")


RULE = Rule(
    "PC501",
    "fusion lost",
    __doc__,
    explains=("PC503",),
    of_run=_check,
    of_comparison=_compare,
)
