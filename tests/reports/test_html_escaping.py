"""Names and texts of others come out of the HTML report as text, wherever they stand."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from handmade import kernel, run
from handmade_html import Page, rendered

from perfcli.diff.compare import compare
from perfcli.model import (
    Finding,
    Judged,
    Judgement,
    Limit,
    LimitResult,
    Origin,
    Provenance,
    Variant,
)

HOSTILE = {
    "closing script": ("</script><script>alert(1)</script>", "</script><script>alert(1)</script>"),
    "quotes": ("\" onmouseover='x' `${1}` &quot;", "\" onmouseover='x' `${1}` &quot;"),
    "markup": ("<img src=x onerror=alert(1)>&lt;b&gt;", "<img src=x onerror=alert(1)>&lt;b&gt;"),
    "comment": ("--><!--<svg/onload=x>]]>", "--><!--<svg/onload=x>]]>"),
    "template": ("{{ 7 * 7 }}{% raw %}", "{{ 7 * 7 }}{% raw %}"),
    "terminal": ("a\x1b[31mred\x07\r", "a�[31mred��"),
    "separators": ("a\u2028b\u2029c\x00", "a�b�c�"),
    "right to left": ("שלום \u202egnp.exe", "שלום �gnp.exe"),
    "long": ("n" * 4000, "n" * 4000),
}


def hostile(name: str) -> Judgement:
    """Everything that somebody else may name bears this name."""
    origin = Origin(name, name, name, (1,), f"{name}.py:3", name)
    given: dict[str, Any] = {
        "origins": (origin,),
        "graph": "forward 0",
        "notes": (name,),
        "text": name,
    }
    base = [kernel(f"a {name}", **given), kernel(name, "2"), kernel("triton_b", "3")]
    head = [kernel(f"c {name}", **{**given, "text": f"{name}2"}, stack=8),
            kernel(f"d {name}", "2", "3", read=10**6)]  # fmt: skip
    variant = Variant(name, {name: name})
    comparison = compare(run(base, scenario=name), run(head, scenario=name, variant=variant))
    finding = Finding("PC101", "error", name, (0,), (name,), name, origin=origin,
                      appearance="new", source_lines={"1": name})  # fmt: skip
    comparison = replace(
        comparison, reason=name, differences=(name,), findings=(finding,), besides=(name,)
    )
    given_texts = {k.source: f"x = 1  # {name}" for k in (*base, *head)}
    limit = LimitResult(Limit("loads", name), "broken", 1, 2, 1, 0, name, name)
    check = Judged(
        name, "fail", name, comparison, (limit,), (), Provenance("baseline", name, reason=name),
        texts=given_texts,
    )  # fmt: skip
    return Judgement((check,), "fail", name, 1, (name,), command=name)


@pytest.mark.parametrize("kind", HOSTILE)
def test_names_of_others_come_out_as_text(kind: str) -> None:
    name, shown = HOSTILE[kind]
    html = rendered(hostile(name))
    page = Page(html)
    assert page.faults == []
    tags = {tag for tag, _, _ in page.attributes}
    assert not tags & {"img", "b"}
    assert sum(tag == "script" for tag, _ in page.texts) == 2
    assert not [n for _, n, _ in page.attributes if n.startswith("on") or n == "src"]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u2028\u2029\u202a-\u202e\u2066-\u2069]", html)
    text = " ".join(page.text().split())
    said = " ".join(shown.split())
    assert text.count(said) > 10
    titles = [data for tag, data in page.texts if tag == "title"]
    assert kind == "long" or any(shown in title for title in titles)
    searched = [v for _, n, v in page.attributes if n == "data-search"]
    assert any(shown.lower() in v for v in searched)
    data = page.data()
    assert data["kernels"]["kernel-0-head-0"]["name"] == f"c {shown}"
    assert f"# {shown}" in data["texts"][0]


def test_other_peoples_texts_are_in_their_own_direction() -> None:
    html = rendered(hostile("שלום"))
    assert "<bdi" in html
    assert not re.search(r"<(?:h[1-4]|td|li)>[^<]*שלום", html)
