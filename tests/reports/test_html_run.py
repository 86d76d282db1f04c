"""The HTML report of a run by itself, and how files are named in it."""

from __future__ import annotations

from dataclasses import replace

from handmade_html import Page, judgement, rendered, with_sources

from perfcli.diff.compare import compare
from perfcli.model import Finding, Judgement, Origin


def alone() -> Judgement:
    """A run by itself, as ``perfcli report RUN`` has it."""
    comparison, texts = with_sources()
    head = comparison.head
    finding = Finding("PC101", "warning", "it spills", (0,))
    both = replace(compare(head, head), reason="", outcome="same", findings=(finding,))
    given = judgement(both, texts)
    checks = (replace(given.checks[0], outcome="pass", reason="", alone=True),)
    return replace(given, checks=checks, outcome="pass", reason="")


def test_a_run_by_itself_has_no_verdict_and_nothing_to_compare() -> None:
    page = Page(rendered(alone()))
    text = " ".join(page.text().split())
    assert page.faults == []
    assert {link[1:] for link in page.links} - set(page.ids) == {"ata:,"}
    assert "1 warning in 3 kernels" in text
    assert "warning PC101 it spills" in text
    for word in ("SAME", "changed", "fused", "base", "verdict", "not changed", "same on both"):
        assert f" {word} " not in text, word
    curves = page.attributes.count(("path", "class", "curve head"))
    assert curves == 1


def test_files_are_named_relative_to_the_repository() -> None:
    comparison, texts = with_sources()
    location = "/home/ada/project/models/norm.py:3"
    origin = Origin("n", "aten.add", location=location, code="x + 1")
    worse = replace(comparison.head.kernels[0], origins=(origin,), notes=(f"see {location}",))
    head = replace(comparison.head, kernels=(worse, *comparison.head.kernels[1:]))
    finding = Finding("PC101", "error", f"{location} spills", (0,), (location,), origin=origin)
    comparison = replace(comparison, head=head, findings=(finding,), reason=f"{location} spills")
    texts = {name: f"# {location}\n{text}" for name, text in texts.items()}
    html = rendered(judgement(comparison, texts, root="/home/ada/project", warnings=(location,)))
    assert "/home/ada" not in html
    assert html.count("models/norm.py:3") >= 6
