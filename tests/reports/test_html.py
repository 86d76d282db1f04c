"""The HTML report as text: what it says, that it is whole, and that nothing gets out of it."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import handmade_timing
import pytest
from handmade_html import Page, judgement, rendered, with_sources

from perfcli.model import Allowance, Judged, Judgement, Limit, LimitResult, Provenance


def plain() -> Judgement:
    return judgement(*with_sources(), command="perfcli compare norm -b triton.x=1")


def measured() -> Judgement:
    return judgement(handmade_timing.conclude_timed(*handmade_timing.gpu()))


def gate() -> Judgement:
    """One check with limits against a baseline, one that failed, one of another revision."""
    comparison, texts = with_sources()
    allowance = Allowance("*", "loads", "known, see issue 12", "ada", "2026-12-31")
    limits = (
        LimitResult(Limit("stores"), "kept", 3, 3, 4, text="stores 3, at most 4"),
        LimitResult(Limit("loads"), "allowed", 9, 11, 9, text="loads 9 → 11", allowance=allowance),
        LimitResult(
            Limit("spilled_words", "triton_*", 0), "broken", 0, 12, 0, 0,
            "triton_poi_fused_mul_7", "spilled words 0 → 12, at most 0",
        ),
    )  # fmt: skip
    baseline = Provenance("baseline", "base.toml", "2026-11-22", "first one", "0123456789abcdef")
    checks = (
        Judged("norm@h100", "fail", "spills", comparison, limits, (), baseline, texts=texts),
        Judged("soft@a100", "fault", "", fault="soft does not build: ValueError: no"),
        Judged("rms@h100", "pass", "same", handmade_timing.cpu_runs(),
               provenance=Provenance("revision", "main")),
    )  # fmt: skip
    return Judgement(checks, "fault", "1 of 3 failed", 2, ("the allowance of ada expired",))


def nothing() -> Judgement:
    check = Judged("norm@h100", "fault", "no baseline", fault="no baseline: perfcli baseline")
    return Judgement((check,), "fault", "no baseline", 4)


PAGES: dict[str, Callable[[], Judgement]] = {
    "plain": plain, "measured": measured, "gate": gate, "nothing": nothing,
}  # fmt: skip


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest) -> Page:
    return Page(rendered(PAGES[request.param]()))


def test_every_element_is_closed_and_every_link_leads_somewhere(page: Page) -> None:
    assert page.faults == []
    assert len(page.ids) == len(set(page.ids))
    missing = [link for link in page.links if link[1:] not in page.ids]
    assert missing == ["data:,"]  # instead of a favicon
    named = [v for _, name, v in page.attributes if name in ("aria-labelledby", "for")]
    assert set(named) <= set(page.ids)


def test_nothing_is_loaded_and_nothing_else_runs(page: Page) -> None:
    """The policy names the style and the script by what they are, and allows no others."""
    style, (data, script) = page.text("style"), [d for t, d in page.texts if t == "script"]
    assert data.startswith("{")

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    policy = next(v for _, n, v in page.attributes if n == "content" and "default-src" in v)
    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src 'sha256-{digest(style)}'",
        f"script-src 'sha256-{digest(script)}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    names = {name for _, name, _ in page.attributes}
    assert not {name for name in names if name == "style" or name.startswith("on")}
    assert "src" not in names
    assert "http" not in style + script
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp|import\(|eval|innerHTML", style + script)


def test_what_it_says() -> None:
    text = " ".join(Page(rendered(plain())).text().split())
    for said in (
        "WORSE spilled words 0 → 12: triton_poi_fused_mul_7",
        "Made by perfcli compare norm -b triton.x=1",
        "spilled words 0 12 +12",
        "fused 2 → 1, forward 0",
        "base at most 900 B, head at most 700 B (Inductor's estimate: 900 B)",
        "Derived from the schedule",
        "head triton.x=1 · torch 2.13.0",
        "1 kernel did not change",
    ):
        assert said in text, said


def test_a_gate_shows_its_checks_limits_and_where_the_base_comes_from() -> None:
    text = " ".join(Page(rendered(gate())).text().split())
    broken, allowed, kept = (text.index(w) for w in ("broken tri", "allowed tot", "kept tot"))
    assert broken < allowed < text.index("1 limit kept") < kept
    places = [text.index(each) for each in ("soft@a100 soft", "norm@h100 spills", "rms@h100 same")]
    assert places == sorted(places)  # errors first, what passes last
    for said in (
        "ERROR 1 of 3 failed",
        "FAIL norm@h100 spills",
        "ERROR soft@a100 soft does not build: ValueError: no",
        "Base: baseline base.toml of 2026-11-22 at 0123456789ab (first one)",
        "Base: revision main",
        "loads 9 → 11; allowed (ada, until 2026-12-31): known, see issue 12",
        "spilled words 0 → 12, at most 0",
        "the allowance of ada expired",
    ):
        assert said in text, said


def test_measured_times_have_bars_with_intervals() -> None:
    page = Page(rendered(measured()))
    text = " ".join(page.text().split())
    assert "SLOWER step 12.31 → 12.70 ms, +3.2 % [+2.6, +3.7], floor 1 %" in text
    bars = [
        v
        for tag, name, v in page.attributes
        if tag == "line" and (name, v) == ("class", "interval")
    ]
    assert len(bars) == 4  # the step, and all with a ratio; what is new has none
    assert "the band is the noise floor of 1 %" in text


def test_sources_are_there_once_and_lines_know_their_instructions() -> None:
    comparison, texts = with_sources()
    data = Page(rendered(judgement(comparison, texts))).data()
    assert sorted(data["texts"]) == sorted(text.rstrip("\n") for text in texts.values())
    worse = data["kernels"]["kernel-0-head-0"]
    assert (worse["name"], worse["lines"]) == ("triton_poi_fused_mul_7", {"9": [4, 0, 6, 12]})
    assert data["kernels"]["kernel-0-head-2"]["text"] is not None
    without = Page(rendered(judgement(comparison))).data()
    assert without["texts"] == []
    assert without["kernels"]["kernel-0-head-0"]["text"] is None


def test_the_same_judgement_gives_the_same_bytes_in_another_process() -> None:
    code = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[1] + '/tests']\n"
        "from handmade_html import *\n"
        "sys.stdout.write(hashlib.sha256(rendered(judgement(*with_sources())).encode()).hexdigest())"
    )
    root = str(Path(__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", f"import hashlib\n{code}", root],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd="/",
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs.pop().decode() == hashlib.sha256(rendered(
        judgement(*with_sources())).encode()).hexdigest()  # fmt: skip


def test_checks_of_one_name_are_numbered() -> None:
    one = plain()
    text = rendered(Judgement((one.checks[0], one.checks[0]), "fail", "x", 1))
    assert re.findall(r'<a href="#check-\d">([^<]*)</a>', text) == [
        "rmsnorm@h100 (1)", "rmsnorm@h100 (2)",
    ]  # fmt: skip


def test_lines_of_the_model_that_several_kernels_share_stand_once() -> None:
    """The kernel with node 1 is on both sides; 2 and 3 are kernels of the base, one of the head."""
    text = rendered(plain())
    titles = re.findall(r"<summary>(Lines of the model[^<]*)</summary>", text)
    assert titles.count("Lines of the model") == 2  # of the changed kernel, and of the kept one
    assert sorted(t for t in titles if t != "Lines of the model") == [
        "Lines of the model, base 1",
        "Lines of the model, base 2",
        "Lines of the model, head 1",
    ]
