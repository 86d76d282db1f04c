"""A kernel only copies: it computes nothing, and reads and writes all that it moves.

What it sees: pointwise kernels without any arithmetic, which put elements elsewhere (`clone`,
`contiguous`, `cat`, `pad`, `transpose`, `slice_scatter`, a cast), and by estimate take 2 % of the
step and 1 µs or more, all of one sort together. What the model's interface asks for, a copy of an
input that is returned or written in place, is none; nor, below 5 % and 2 µs, a copy whose result is
returned or the cast of an input.

Why it costs: a copy reads and writes memory for a result that was there already. Its whole time is
lost, and a launch: a padded product copied 67 MB (pytorch #193638), a dense block copies each
layer's result into one tensor (pytorch #185346), chunks assigned to slices copy the whole result
(pytorch #190342).

What to try: make the tensor where and how it is needed. One memory format for images
(`channels_last`); no `.contiguous()` before what does without; parts written into one tensor that
was allocated once, or joined once by `torch.cat` instead of slice by slice; `force_pointwise_cat`
(or more `max_pointwise_cat_inputs`) where a kernel reads what is joined; sizes that are multiples
of 16 bytes where a product is padded (`shape_padding`); weights kept in the dtype that they are
used in.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator

from perfcli import units
from perfcli.model import Buffer, Cost, Cure, Finding, KernelFacts, Origin, Rule, Run
from perfcli.predict.savings import estimate_saving
from perfcli.rules._evidence.dataflow import Dataflow
from perfcli.rules._evidence.words import origin_of
from perfcli.rules._evidence.worth import is_worth

_LEAST = (1e-6, 0.02)
_LEAST_OF_INTERFACE = (2e-6, 0.05)
"""Seconds of a step, and its part of it, of all copies of one sort together."""
_PAD, _SCATTER, _JOIN, _CAST = (
    "they pad",
    "a part is put into a copy of the whole",
    "they join tensors (cat)",
    "a cast to another dtype",
)
_LAYOUT = "another layout of the same elements"
_SAME = "the same elements in the same order"
_BY_WORD = {
    "constant_pad_nd": _PAD, "slice_scatter": _SCATTER, "select_scatter": _SCATTER,
    "cat": _JOIN, "stack": _JOIN,
}  # fmt: skip
_NO_COPY = (
    "index", "embedding", "gather", "scatter", "where", "mask", "tri", "eq", "ne", "lt", "le",
    "gt", "ge", "isnan", "isinf", "logical", "bitwise", "sign", "rand", "dropout", "bernoulli",
    "roll", "flip", "repeat", "upsample", "pool", "sort", "topk", "argmax", "argmin", "any", "all",
)  # fmt: skip
"""What counts as no arithmetic, and is none of these copies either."""
_PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "_scaled_mm", "linear", "matmul")


def _check(run: Run) -> Iterator[Finding]:
    sorts: dict[tuple[str, tuple[float, float], str], list[int]] = {}
    found = [n for n, kernel in enumerate(run.kernels) if _copies_only(kernel)]
    flow = Dataflow(run) if found else None
    for number in found:
        assert flow is not None
        kernel = run.kernels[number]
        least, sort = _least(flow, number), _sort_of(kernel)
        if least is not None:
            advice, cures = _mend(run, kernel, sort, _list_users(flow, number))
            mended = f"{advice} {[dict(cure.options) for cure in cures]}"
            sorts.setdefault((sort, least, mended), []).append(number)
    for (sort, least, _), numbers in sorts.items():
        seconds = sum(run.kernels[number].step_seconds or 0.0 for number in numbers)
        cost = estimate_saving(run, dict.fromkeys(numbers, ()), -seconds)
        if is_worth(cost, least[1], least[0]):
            assert flow is not None
            yield _finding(flow, numbers, sort, cost)


def _copies_only(kernel: KernelFacts) -> bool:
    """Return whether a kernel computes nothing: its source has no arithmetic, and none of its
    operators picks, compares or draws."""
    words = {word for origin in kernel.origins for word in _words_of(origin)}
    return (
        kernel.kind == "pointwise"
        and kernel.operations == 0
        and kernel.launches > 0
        and any(buffer.is_read for buffer in kernel.buffers)
        and not any(word.strip("_").startswith(_NO_COPY) for word in words)
    )


def _words_of(origin: Origin) -> tuple[str, str]:
    """Return the operator, ``cat`` of ``aten.cat.default``, and the node's name without its number:
    a node that was made of another operator goes by that one's name."""
    return origin.op.split(".")[1 if "." in origin.op else 0], origin.node


def _sort_of(kernel: KernelFacts) -> str:
    words = [word for origin in kernel.origins for word in _words_of(origin)]
    for start, sort in _BY_WORD.items():
        if any(word.startswith(start) for word in words):
            return sort
    read, written = ({b.dtype for b in kernel.buffers if role(b)} for role in (_reads, _writes))
    if read != written:
        return _CAST
    return _SAME if _keeps_order(kernel) else _LAYOUT


def _keeps_order(kernel: KernelFacts) -> bool:
    """Return whether the elements lie one after the other as before: both tensors are contiguous,
    the dimensions of one are parts of the other's, and threads that are neighbours move
    neighbouring elements of both."""
    both = [b for b in kernel.buffers if b.is_read or b.is_written]
    if len(both) != 2 or not all(map(_is_dense, both)):
        return False
    one, two = (set(itertools.accumulate(buffer.shape, operator.mul)) for buffer in both)
    work = kernel.expected.work if kernel.expected else None
    accesses = (work.accesses if work else None) or ()
    along = all(list(a.steps.values()) == [a.element_bytes] for a in accesses)
    return (one <= two or two <= one) and bool(accesses) and along


def _is_dense(buffer: Buffer) -> bool:
    length = 1
    for size, stride in zip(reversed(buffer.shape), reversed(buffer.stride), strict=True):
        if size > 1 and stride != length:
            return False
        length *= size
    return True


def _reads(buffer: Buffer) -> bool:
    return buffer.is_read


def _writes(buffer: Buffer) -> bool:
    return buffer.is_written


def _least(flow: Dataflow, number: int) -> tuple[float, float] | None:
    """Return the seconds and the share from which on a copy is a finding; None where the model's
    interface asks for it."""
    kernel = flow.run.kernels[number]
    written = [b for b in kernel.buffers if b.is_written]
    if any(b.graph_input for b in written):
        return None  # an input is updated in place
    given = all(b.graph_input for b in kernel.buffers if b.is_read)
    returned = not _list_users(flow, number)
    if given and returned:
        return None
    cast = given and _sort_of(kernel) in (_CAST, _LAYOUT)
    return _LEAST_OF_INTERFACE if returned or cast else _LEAST


def _list_users(flow: Dataflow, number: int) -> list[str]:
    """Return the names of the kernels and operators that read what a kernel writes."""
    kernel = flow.run.kernels[number]
    names = [(kernel.graph, b.part_of or b.name) for b in kernel.buffers if b.is_written]
    readers = sorted({n for name in names for n in flow.readers.get(name, ())} - {number})
    called = [each.op for name in names for each in flow.calling.get(name, ())]
    return list(dict.fromkeys([*(flow.run.kernels[n].name for n in readers), *called]))


def _finding(flow: Dataflow, numbers: list[int], sort: str, cost: Cost) -> Finding:
    run = flow.run
    slowest = sorted(numbers, key=lambda n: -(run.kernels[n].step_seconds or 0.0))
    kernels = [run.kernels[n] for n in slowest]
    first = kernels[0]
    users = _list_users(flow, slowest[0])
    for_whom = f" for {' and '.join(users[:2])}" if users else " that is returned"
    what = f"{first.name} only copies"
    if len(kernels) > 1:
        what = f"{first.name} and {units.plural(len(kernels) - 1, 'other kernel')} only copy"
    advice, cures = _mend(run, first, sort, users)
    given = sort == _CAST and all(b.graph_input for b in first.buffers if b.is_read)
    grave = (cost.share or 0.0) >= _LEAST_OF_INTERFACE[1] and not given
    moved = sum(kernel.step_bytes or 0 for kernel in kernels)
    return Finding(
        code=RULE.code,
        severity="warning" if grave else "info",
        headline=f"{what} {units.size(moved)}{for_whom if len(kernels) == 1 else ''}: {sort}",
        kernels=tuple(numbers),
        evidence=tuple(_describe(flow, number) for number in slowest[:_MOST_NAMED]),
        advice=advice,
        cures=cures,
        cost=cost,
        metric="copied_bytes",
        amount=moved,
        origin=origin_of(first),
    )


_MOST_NAMED = 4


def _describe(flow: Dataflow, number: int) -> str:
    """Return what a kernel copies, and what reads the copy."""
    kernel = flow.run.kernels[number]
    read, written = ([b for b in kernel.buffers if role(b)] for role in (_reads, _writes))
    users = _list_users(flow, number)
    used = f", read by {', '.join(users[:2])}" if users else ""
    from_, to = (", ".join(map(_lay_out, each[:2])) for each in (read, written))
    return f"{kernel.name}: {from_} → {to}{used}"


def _lay_out(buffer: Buffer) -> str:
    shape, stride = (" × ".join(map(str, numbers)) for numbers in (buffer.shape, buffer.stride))
    return f"{buffer.dtype} {shape} (strides {stride})"


def _mend(
    run: Run, kernel: KernelFacts, sort: str, users: list[str]
) -> tuple[str, tuple[Cure, ...]]:
    """Return what to do in the model, or options."""
    product = any(word in _PRODUCTS for user in users for word in user.split(".")[1:2])
    if sort == _PAD and product and run.settings.get("force_shape_pad") is True:
        return "", (Cure({"force_shape_pad": False}, "pads products only where that is faster"),)
    if sort == _PAD and product:
        return (
            "give the product sizes that are multiples of 16 bytes in the model: what is aligned "
            "is not padded, and unaligned ones are slower (shape_padding)",
            (),
        )
    if sort == _PAD:
        return "make the tensor with its padded size, and fill the rest once", ()
    if sort == _SCATTER:
        return "join the parts once with torch.cat instead of assigning them slice by slice", ()
    if sort == _JOIN:
        generated = bool(users) and all(user.startswith("triton_") for user in users)
        return _mend_cat(run, generated)
    if sort == _CAST:
        dtypes = sorted({b.dtype for b in kernel.buffers if b.is_written})
        return f"keep it in {' and '.join(dtypes)} instead of casting it in each step", ()
    if sort == _SAME and kernel.dynamic_sizes:
        return (
            "keep sizes static that do not vary (dynamic=False, mark_static): with dynamic ones "
            "Inductor does not see that a view would do",
            (),
        )
    if sort == _SAME:
        return "return or pass on a view instead of a copy", ()
    if any("convolution" in user for user in users):
        return "one memory format for all images and weights: channels_last", ()
    return (
        "make it in the layout that its reader takes: another order of dimensions where it is "
        "made, and no .contiguous() that is not needed",
        (),
    )


def _mend_cat(run: Run, generated: bool) -> tuple[str, tuple[Cure, ...]]:
    if generated and run.settings.get("force_pointwise_cat") is False:
        return "", (Cure({"force_pointwise_cat": True}, "lets what reads the cat read its parts"),)
    return (
        "let each part be written into its place of one tensor that is allocated once, or keep the "
        "parts apart",
        (),
    )


RULE = Rule("PC503", "copy-only kernel", __doc__, of_run=_check)
