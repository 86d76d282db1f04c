"""Pages for tests: judgements by hand, and what a page consists of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

from handmade import digest, kernel, run

from perfcli.diff.compare import compare
from perfcli.loading import registry
from perfcli.model import (
    Comparison,
    Document,
    GraphFacts,
    Judged,
    Judgement,
    LineCounts,
    Provenance,
    Variant,
)

CELLS = {"td", "th", "dt", "dd", "li", "p", "summary"}
VOID = {"meta", "link", "input", "br", "wbr", "img", "hr"}


def judgement(
    comparison: Comparison, texts: Mapping[str, str] | None = None, **more: Any
) -> Judgement:
    """A comparison that nobody put limits on."""
    check = Judged(
        "", "fail", comparison.reason, comparison, provenance=Provenance("run", "x"),
        texts=texts or {},
    )  # fmt: skip
    return Judgement((check,), "fail", comparison.reason, 1, **more)


def rendered(given: Judgement) -> str:
    return registry.load_declared("reports", "html", Document).render(given)


# --- a comparison with sources ----------------------------------------------------------------


def source(name: str, loads: int) -> str:
    """A pointwise kernel as Inductor writes it: ``loads`` values, added up and squared."""
    lines = ["import triton", "import triton.language as tl", "", "@triton.jit"]
    pointers = ", ".join(f"in_ptr{n}" for n in range(loads))
    lines += [f"def {name}({pointers}, out_ptr0, xnumel, XBLOCK : tl.constexpr):"]
    lines += ["    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]"]
    lines += ["    xmask = xindex < xnumel", "    x0 = xindex"]
    lines += [f"    tmp{n} = tl.load(in_ptr{n} + (x0), xmask)" for n in range(loads)]
    lines += [f"    tmp{loads + n} = tmp{loads + n - 1 if n else 0} + tmp{n + 1}"
              for n in range(loads - 1)]  # fmt: skip
    last = 2 * loads - 2
    lines += [f"    tmp{last + 1} = tmp{last} * tmp{last}"]
    lines += [f"    tl.store(out_ptr0 + (x0), tmp{last + 1}, xmask)"]
    return "\n".join(lines) + "\n"


def with_sources(base_loads: int = 3, head_loads: int = 5) -> tuple[Comparison, dict[str, str]]:
    """One kernel that changed and now spills at line 9, two fused into one, one that stayed."""
    texts: dict[str, str] = {}

    def made(name: str, loads: int, *nodes: str, **more: Any) -> Any:
        text = source(name, loads)
        texts[digest(text)] = text
        # each value after the first is added to the sum, which is squared
        more |= {"sizes": {"x": 1000}, "operations": 1000 * loads}
        return kernel(name, *nodes, loads=loads, text=text, **more)

    kept = made("triton_poi_fused_kept_9", 2, "9")
    base = [
        made("triton_poi_fused_mul_1", base_loads, "1"),
        made("triton_poi_fused_add_2", 2, "2", read=5000),
        made("triton_poi_fused_sub_3", 2, "3"),
        kept,
    ]
    worse = made("triton_poi_fused_mul_7", head_loads, "1", stack=48, registers=255)
    lines = {"9": LineCounts(4, 0, 6, 12, "spilled here")}
    worse = replace(worse, candidates=(replace(worse.candidates[0], lines=lines),))
    head = [worse, made("triton_poi_fused_add_sub_8", 4, "2", "3", read=3000), kept]
    graphs = [(GraphFacts("forward 0", "forward", 0, 10, 900, live),)
              for live in ((100, 900, 300), (100, 500, 700, 300))]  # fmt: skip
    variant = Variant("triton.x=1", {"triton.x": 1})
    comparison = compare(
        run(base, id="base-id", graphs=graphs[0]),
        run(head, id="head-id", variant=variant, graphs=graphs[1]),
    )
    return comparison, texts


# --- what a page consists of ------------------------------------------------------------------


@dataclass
class Page(HTMLParser):
    """Elements, attributes and text, as a browser gets them; ``faults``: tags that do not close."""

    html: str
    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []
        self.feed(self.html)
        self.close()
        self.faults += [f"<{tag}> is never closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self._open.append(tag)
        self._note(tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self._open[-1:]}")
        else:
            self._open.pop()
        if tag in CELLS:
            self.texts.append((tag, " "))

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def text(self, *tags: str) -> str:
        """Of these elements; without any, all that people see."""
        wanted = (d for t, d in self.texts if (t in tags if tags else t not in ("script", "style")))
        return "".join(wanted)

    def data(self) -> Any:
        return json.loads(next(d for tag, d in self.texts if tag == "script"))
