"""Markdown: that it fits, and that nothing foreign in it becomes markup or mentions somebody."""

from __future__ import annotations

import functools
import random
import re
from dataclasses import replace
from importlib import import_module

import pytest
from handmade import kernel, run
from handmade_judgement import HOSTILE, gated, hostile, plain
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from perfcli.diff.compare import compare
from perfcli.loading import registry
from perfcli.model import Comparison, Document, Judgement

# Of a comment: action.yml puts a mark before it.
MOST = 65_536 - len("<!-- perfcli gate -->\n\n")

_text = import_module("perfcli.reports._markdown.text")
_fit = import_module("perfcli.reports._markdown.fit")
code, prose, summary = _text._quote_code, _text._quote_prose, _text._quote_summary
Section, fit = _fit.Section, _fit._fit


def rendered(judgement: Judgement, name: str = "markdown") -> str:
    return registry.load_declared("reports", name, Document).render(judgement)


@functools.cache
def parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"])


def inline(text: str) -> list[Token]:
    """All inline tokens."""
    return [child for token in parser().parse(text) for child in token.children or ()]


def seen(text: str) -> str:
    """What a reader sees: texts and code, without elements."""
    return "".join(t.content for t in inline(text) if t.type in ("text", "code_inline"))


# --- foreign text ------------------------------------------------------------------------------

OURS = re.compile(r"</?(code|details|summary)>")


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_foreign_is_markup(name: str) -> None:
    text = rendered(hostile(name))
    assert all(c.isprintable() or c == "\n" for c in text)
    in_code = False
    for token in (t for top in parser().parse(text) for t in [top, *(top.children or ())]):
        assert token.type not in ("link_open", "image", "em_open", "s_open")
        if token.type in ("html_inline", "html_block"):
            assert not re.sub(OURS, "", token.content).strip().startswith("<!")
            assert set(re.findall(r"<[^>]*>?", token.content)) <= {
                "<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>"
            }  # fmt: skip
            in_code = token.content == "<code>" or (in_code and token.content != "</code>")
        elif token.type == "text" and not in_code:
            # What GitHub takes for a mention, an issue, a commit, an emoji, a formula, a link.
            assert not re.search(r"@\w|#\d|GH-\d|:tada:|\$x|0123abcdef|://", token.content)


@pytest.mark.parametrize("name", HOSTILE)
def test_tables_keep_their_columns(name: str) -> None:
    """A bar in a name splits no cell: as many cells in each row as in the head."""
    width = None
    for token in parser().parse(rendered(hostile(name))):
        if token.type == "tr_open":
            cells = 0
        elif token.type in ("th_open", "td_open"):
            cells += 1
        elif token.type == "tr_close":
            assert width in (None, cells)
            width = cells
        elif token.type == "table_close":
            width = None
    source = [line for line in rendered(hostile(name)).splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in source if "loads |" in line or "| − 0" in line}) == 1


@given(st.text(max_size=40))
def test_code_shows_the_text(text: str) -> None:
    from perfcli import units

    shown = units.printable(text.replace("\n", "↵").replace("\t", " "))
    made = code(text)
    assert not made.strip("`") or shown.strip() in seen(f"x {made} y")
    assert not {t.type for t in inline(f"x {made} y")} - {"text", "code_inline", "html_inline"}


@given(st.text(alphabet="ab1 @#_*`|\\<>[]()!$&:-+~./\n", max_size=60))
def test_prose_has_no_markup(text: str) -> None:
    tops = parser().parse(prose(text))
    assert {t.type for t in tops} <= {"paragraph_open", "inline", "paragraph_close"}
    types = {t.type for top in tops for t in top.children or ()}
    assert types <= {"text", "code_inline", "html_inline"}
    # A code span loses its backticks: it is code, and they are not seen.
    squeezed = re.sub(r"[\s`]", "", seen(prose(text)).replace("↵", ""))
    assert squeezed == re.sub(r"[\s`]", "", text)


def test_our_own_words_stay_words() -> None:
    said = "spilled words 2 → 94: triton_red_3 fuses 2 kernels (17 loads, +3.1 % [2.2, 4.0])"
    assert prose(said) == (
        "spilled words 2 → 94: `triton_red_3` fuses 2 kernels (17 loads, +3.1 % `[2.2, 4.0]`)"
    )
    assert prose("try triton.max_reads=10, or none") == "try `triton.max_reads=10`, or none"
    assert summary("Kernels that changed, costliest first: 3") == (
        "Kernels that changed, costliest first: 3"
    )


# --- how much fits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (
            "at …/model.py:14 torch._dynamo.graph_break()",
            "at …/model.py:14 `torch._dynamo.graph_break()`",
        ),
        ("it is `torch._dynamo.graph_break()`.", "it is `torch._dynamo.graph_break()`."),
        ("(see `f(a, b)`)", "(see `f(a, b)`)"),
        ("(in torch._dynamo)", "(in `torch._dynamo`)"),
        ("a ` b `` c", "a <code>&#96;</code> b <code>&#96;&#96;</code> c"),
    ],
)
def test_code_in_prose_is_whole_and_has_no_backticks_to_see(text: str, written: str) -> None:
    assert prose(text) == written


def many(groups: int, name: str = "triton_per_fused__to_copy_add_native_layer_norm") -> Comparison:
    """Each kernel moves more than the base's: none of them is the same."""
    base = [kernel(f"{name}_{n}", str(n)) for n in range(groups)]
    head = [kernel(f"{name}_{n}", str(n), read=1000 + n + 100, text=f"t{n}") for n in range(groups)]
    found = replace(compare(run(base), run(head, id="head")), findings=())
    finding = plain().checks[0].comparison.findings[1]  # type: ignore[union-attr]
    return replace(found, findings=tuple(
        replace(finding, kernels=(n,), headline=f"{name}_{n} spills {n} words")
        for n in range(groups)
    ))  # fmt: skip


def test_a_large_comparison_fits_an_issue_and_says_what_it_leaves_out() -> None:
    text = rendered(plain(many(400)))
    assert MOST - 3000 < len(text) <= MOST  # no room is wasted
    left = re.search(r"Left out to fit: (\d+) findings, (\d+) kernel groups\.\n", text)
    assert left is not None
    shown = text.count("- **new warning PC101**"), text.count("**changed, forward 0**")
    assert (int(left[1]) + shown[0], int(left[2]) + shown[1]) == (400, 400)
    assert text.startswith("## WORSE")
    assert text.count("<details>") == text.count("</details>")
    assert "| **bytes moved** |" in text


def test_a_summary_is_measured_in_bytes() -> None:
    text = rendered(plain(many(4000, "größe_" * 12)), "github")
    assert 1024 * 1024 - 5000 < len(text.encode()) <= 1024 * 1024
    assert len(text) > MOST


def test_many_checks_fit() -> None:
    (check,) = plain().checks
    checks = tuple(replace(check, name=f"check {n}@h100") for n in range(600))
    text = rendered(replace(gated(), checks=checks))
    assert len(text) <= MOST
    rows = re.findall(r"\| WORSE \| `check (\d+)@h100` \|", text)
    assert rows == [str(n) for n in range(len(rows))]
    left = re.search(r"Left out to fit: (\d+) checks, .* (\d+) detailed checks", text)
    assert left is not None
    assert (int(left[1]) + len(rows), int(left[2]) + text.count("### WORSE")) == (600, 600)


def test_sections_stand_below_their_own_title() -> None:
    sections = []
    for chapter in range(1, 40):
        title = f"{chapter} " + "t" * (40 if chapter % 2 else 4) + "\n"
        sections.append(Section(chapter * 10, title, what="title", chapter=chapter))
        sections.append(Section(chapter * 10 + 1, f"{chapter} text\n", what="x", chapter=chapter))
    for most in range(700, 1500, 7):
        text = fit(sections, most, len, "Left out").split("\nLeft out")[0]
        titles = set(re.findall(r"^(\d+) t+$", text, re.M))
        assert set(re.findall(r"^(\d+) text$", text, re.M)) <= titles


@pytest.mark.parametrize("length", [10, 1000, 100_000])
def test_no_text_is_too_long(length: int) -> None:
    assert len(rendered(hostile("x" * length))) <= MOST
    assert len(rendered(hostile("|" * length))) <= MOST


def test_fit_takes_the_important_first_and_keeps_the_order() -> None:
    rows = tuple(f"{n:03}\n" for n in range(200))
    sections = [Section(2, "a\n", rows, "A\n", "detail"), Section(1, "b\n", rows, "B\n", "finding")]
    text = fit(sections, 1200, len, "Left out")
    assert len(text) <= 1200
    details, findings = text.partition("b\n")[0], text.partition("b\n")[2]
    assert details.startswith("a\n000\n001\n")
    assert findings.count("\n") > details.count("\n")
    numbers = re.search(r"Left out: (\d+) details, (\d+) findings\.", text)
    assert numbers is not None
    assert int(numbers[1]) == 200 - len(re.findall(r"^\d{3}$", details, re.M))
    assert int(numbers[2]) == 200 - len(re.findall(r"^\d{3}$", findings, re.M))


def test_everything_is_there_where_it_fits() -> None:
    sections = [Section(n, f"{n}\n", ("r\n",), what="x") for n in range(5)]
    random.Random(0).shuffle(sections)
    assert fit(sections, 10_000, len, "Left out") == "".join(f"{s.head}r\n" for s in sections)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("+7.1 % [+5.9, +8.3], allowance", "+7.1 % `[+5.9, +8.3]`, allowance"),
        ("−7.1 % [−8.3 %, −5.9 %]: a", "−7.1 % `[−8.3 %, −5.9 %]`: a"),
        ("it takes <1 % of the step", "it takes <1 % of the step"),
    ],
)
def test_intervals_and_bounds_stand_as_they_are(text: str, written: str) -> None:
    assert prose(text) == written
    (inline,) = [token for token in parser().parse(prose(text)) if token.type == "inline"]
    assert "".join(token.content for token in inline.children or ()) == text


@pytest.mark.parametrize("text", ["[+1, +2](http://evil.example)", "[+1, +2][a]", "<1b> <b>"])
def test_what_only_looks_like_an_interval_is_no_markup(text: str) -> None:
    (inline,) = [token for token in parser().parse(prose(text)) if token.type == "inline"]
    tags = {t.content for t in inline.children or () if t.type == "html_inline"}
    assert tags <= {"<code>", "</code>"}
    assert not [t for t in inline.children or () if t.type == "link_open"]
