"""Makes one page for each group of kernels: facts side by side, where they come from, their launch
configurations, and which texts the page shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfcli import units
from perfcli.model import Comparison, KernelFacts, KernelGroup, Origin

from .._rows.groups import list_changed, write_group
from .._rows.kernels import list_candidate_titles, write_blocks, write_candidate
from .._rows.places import parse_place
from .._screen.kernel import list_facts, write_operator
from .data import PageSource, PageTexts, _kernel_id, _page_id


@dataclass(frozen=True, slots=True)
class _FactRow:
    title: str
    cells: tuple[str, ...]
    """Of each kernel of the page, in order."""
    differs: bool


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the model, and what it became in this kernel."""

    location: str
    code: str
    operators: str
    modules: str


@dataclass(frozen=True, slots=True)
class _Configuration:
    config: str
    cells: tuple[str, ...]
    chosen: bool


@dataclass(frozen=True, slots=True)
class _PageKernel:
    """``key``: of its source in the page's data."""

    id: str
    side: str
    number: int
    name: str
    key: str
    lines: tuple[_Line, ...]
    configurations: tuple[_Configuration, ...]
    configuration_titles: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _ModelLines:
    of: str
    """``base 5``; empty where all kernels of the page compute these lines."""
    lines: tuple[_Line, ...]


@dataclass(frozen=True, slots=True)
class Page:
    id: str
    headline: str
    note: str
    matched: str
    kernels: tuple[_PageKernel, ...]
    facts: tuple[_FactRow, ...]
    models: tuple[_ModelLines, ...]
    pair: tuple[str, str]
    """Keys of the sources that are shown beside each other at first."""


def _pages(comparison: Comparison, check: int, root: str, texts: PageTexts) -> Iterator[Page]:
    """Yield a page for every group; what did not change is shown once, as the head has it."""
    changed = {id(group) for group in list_changed(comparison)}
    for number, group in enumerate(comparison.groups):
        sides = _kernels(comparison, group, both=id(group) in changed)
        kernels = tuple(
            _page_kernel(kernel, check, side, index, root, texts) for side, index, kernel in sides
        )
        rows = write_group(group, comparison)
        yield Page(
            id=_page_id(check, number),
            headline=rows.headline if id(group) in changed else "not changed",
            note=rows.note,
            matched=_matched(group),
            kernels=kernels,
            facts=_facts([kernel for _, _, kernel in sides]),
            models=tuple(_group_lines(kernels)),
            pair=_pair(sides, kernels),
        )


Sided = tuple[str, int, KernelFacts]


def _kernels(comparison: Comparison, group: KernelGroup, both: bool) -> list[Sided]:
    base = [("base", n, comparison.base.kernels[n]) for n in group.match.base]
    head = [("head", n, comparison.head.kernels[n]) for n in group.match.head]
    return [*base, *head] if both else head or base


def _matched(group: KernelGroup) -> str:
    match = group.match
    if not match.base or not match.head:
        return ""
    sure = "" if match.confidence >= 1 else f", confidence {units.percent(match.confidence)}"
    return f"matched by {match.method}{sure}"


def _page_kernel(
    kernel: KernelFacts, check: int, side: str, number: int, root: str, texts: PageTexts
) -> _PageKernel:
    key = _kernel_id(check, side, number)
    shown = kernel.shown
    texts.add(key, PageSource(kernel.name, side, number, kernel.language, kernel.source, shown))
    return _PageKernel(
        id=key,
        side=side,
        number=number,
        name=kernel.name,
        key=key,
        lines=tuple(_lines(kernel.origins, root)),
        configurations=tuple(
            _configuration(n, kernel, c is shown) for n, c in enumerate(kernel.candidates)
        ),
        configuration_titles=list_candidate_titles(kernel),
        notes=kernel.notes,
    )


def _group_lines(kernels: Sequence[_PageKernel]) -> Iterator[_ModelLines]:
    """Yield the model's lines, once for all kernels that have the same."""
    found: dict[tuple[_Line, ...], list[_PageKernel]] = {}
    for kernel in kernels:
        if kernel.lines:
            found.setdefault(kernel.lines, []).append(kernel)
    for lines, of in found.items():
        named = ", ".join(f"{kernel.side} {kernel.number}" for kernel in of)
        yield _ModelLines(named if len(of) < len(kernels) else "", lines)


# --- facts -----------------------------------------------------------------------------------


def _facts(kernels: Sequence[KernelFacts]) -> tuple[_FactRow, ...]:
    known = [dict(list_facts(kernel, kernel.shown)) for kernel in kernels]
    titles = dict.fromkeys(title for facts in known for title in facts)
    return tuple(_fact_row(title, known) for title in _in_order(titles, known))


def _in_order(titles: Mapping[str, None], known: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names in the order of the kernel that says most."""
    most = max((list(facts) for facts in known), key=len, default=[])
    return [*most, *(title for title in titles if title not in most)]


def _fact_row(title: str, known: Sequence[Mapping[str, str]]) -> _FactRow:
    cells = tuple(facts.get(title, "") for facts in known)
    return _FactRow(title, cells, len(set(cells)) > 1)


def _lines(origins: Sequence[Origin], root: str) -> Iterator[_Line]:
    found: dict[tuple[str, str], list[Origin]] = {}
    for origin in origins:
        found.setdefault((origin.location, origin.code), []).append(origin)
    for (location, code), of_line in found.items():
        where = parse_place(location, root)
        yield _Line(
            location=where.text if where else "",
            code=code,
            operators=", ".join(dict.fromkeys(write_operator(o) for o in of_line)),
            modules=", ".join(dict.fromkeys(o.module for o in of_line if o.module)),
        )


def _configuration(number: int, kernel: KernelFacts, chosen: bool) -> _Configuration:
    blocks = write_blocks(kernel.candidates[number])
    return _Configuration(blocks, write_candidate(number, kernel), chosen)


# --- which two sources -----------------------------------------------------------------------


def _pair(sides: Sequence[Sided], kernels: Sequence[_PageKernel]) -> tuple[str, str]:
    """Return the two kernels of base and head that have most work in common, or else move most."""
    keyed = [
        (side, kernel, page.key) for (side, _, kernel), page in zip(sides, kernels, strict=True)
    ]
    ours = [(kernel, key) for side, kernel, key in keyed if side == "base"]
    theirs = [(kernel, key) for side, kernel, key in keyed if side == "head"]
    if not ours or not theirs:
        return (ours[0][1] if ours else "", theirs[0][1] if theirs else "")
    pairs = ((a, b) for a in ours for b in theirs)
    best = max(pairs, key=lambda pair: _likeness(pair[0][0], pair[1][0]))
    return best[0][1], best[1][1]


def _likeness(base: KernelFacts, head: KernelFacts) -> tuple[int, int]:
    common = {origin.node for origin in base.origins} & {origin.node for origin in head.origins}
    return len(common), (base.bytes_moved or 0) + (head.bytes_moved or 0)
