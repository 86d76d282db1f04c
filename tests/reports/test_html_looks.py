"""The HTML report in a real browser: light and dark, on a phone, without scripts, and with hostile
names."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chromium import DESKTOP, PHONE, Tab, new_page, written
from handmade_html import judgement, with_sources
from handmade_judgement import gated

CHANGED = "kernel-0-head-0"


def test_light_and_dark(browser: Any, file: Path) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    dark = Tab(browser, file, scheme="dark", alone=True)
    light = Tab(browser, file, scheme="light", alone=True)
    colours = {dark.ask(background), light.ask(background)}
    assert len(colours) == 2
    light.page.locator("button.theme").click()
    assert light.ask(background) == dark.ask(background)
    light.page.reload()
    assert light.ask(background) == dark.ask(background)  # it is remembered
    light.page.locator("button.theme").click()
    assert light.ask(background) != dark.ask(background)
    for each in (dark, light):
        assert each.complaints == []
        each.page.close()


@pytest.mark.parametrize("anchor", ["", f"#{CHANGED}"])
def test_a_phone_scrolls_tables_and_not_the_page(browser: Any, file: Path, anchor: str) -> None:
    opened = Tab(browser, file, anchor, viewport=PHONE)
    assert opened.ask("document.scrollingElement.scrollWidth") <= PHONE["width"]
    panel = "document.getElementById('panel').scrollWidth"
    assert opened.ask(panel) <= PHONE["width"]
    assert opened.is_open == bool(anchor)
    assert opened.complaints == []
    opened.page.close()


def test_without_a_script_all_but_sources_is_there(browser: Any, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{file.as_uri()}#{CHANGED}")
    assert page.locator("table.kernels tbody tr").count() == 3
    shown = page.locator("article.kernel:visible")
    assert shown.count() == 1
    assert "triton_poi_fused_mul_7" in shown.locator("h2").inner_text()
    assert "Sources are shown with JavaScript only" in shown.inner_text()
    assert not page.locator("form.filter").is_visible()
    context.close()


CONTRAST = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = (c) => {
    const [r, g, b] = c.map((v) => v / 255)
      .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || !element.checkVisibility() || element.closest("svg")) continue;
    const pair = [light(parse(getComputedStyle(element).color)), light(behind(element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${element.className} ${node.textContent}`);
  }
  return bad;
}"""


BROKEN = """() => {
  const found = [];
  const cells = document.querySelectorAll(":is(.checks, .limits, .environment, .totals) bdi, .tag");
  for (const cell of cells) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const word of node.textContent.matchAll(/[^\\s_\\-\\/=]+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        if (range.getClientRects().length > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""
OUTSIDE = """() => [...document.querySelectorAll(":is(.checks, .limits, .kernels, .totals) td")]
  .filter(cell => cell.getBoundingClientRect().right > innerWidth).map(cell => cell.innerText)"""


@pytest.mark.parametrize("viewport", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_no_word_is_broken_and_no_number_out_of_sight(
    browser: Any, tmp_path: Path, viewport: dict[str, int]
) -> None:
    opened = Tab(browser, written(gated(), tmp_path), viewport=viewport)
    assert opened.ask(BROKEN) == []
    assert opened.ask(OUTSIDE) == []
    opened.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(browser: Any, file: Path, scheme: str) -> None:
    """Contrast of WCAG 2 AA, 4.5 to 1, on the page and on a kernel's."""
    opened = Tab(browser, file, scheme=scheme)
    assert opened.ask(CONTRAST) == []
    opened.ask(f"location.hash = '{CHANGED}'")
    opened.page.wait_for_function("document.getElementById('panel').open")
    assert opened.ask(CONTRAST) == []
    opened.page.close()


def test_names_of_others_do_nothing(browser: Any, tmp_path: Path) -> None:
    """Neither in the page nor in what the script makes of the data."""
    name = "</script><img src=x onerror=\"document.title='ran'\">\u202e`${1}`"
    comparison, texts = with_sources()
    worse = comparison.head.kernels[0]
    texts = {**texts, worse.source: texts[worse.source] + f"# {name}\n"}
    kernels = (replace(worse, name=name), *comparison.head.kernels[1:])
    comparison = replace(comparison, head=replace(comparison.head, kernels=kernels), reason=name)
    opened = Tab(browser, written(judgement(comparison, texts), tmp_path), f"#{CHANGED}")
    assert "onerror" in opened.page.locator("#panel .diff").inner_text()
    opened.page.locator("#panel button", has_text="Head").last.click()
    assert "# </script><img src=x onerror" in opened.page.locator("#panel .code").inner_text()
    assert opened.page.locator("img").count() == 0
    assert "ran" not in opened.page.title().split(":")[0]
    assert opened.complaints == []
    opened.page.close()


PIXELS = """async (picture) => {
  const image = new Image();
  image.src = "data:image/png;base64," + picture;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  // A row of pixels above the first text, up to the right edge.
  const start = Math.floor(image.width * 0.9);
  const row = context.getImageData(start, 8, image.width - start, 1).data;
  const colours = new Set();
  for (let n = 0; n < row.length; n += 4) colours.add(row.slice(n, n + 3).join());
  return [...colours];
}"""


@pytest.mark.parametrize("width", [1187, 1300])
def test_nothing_stands_beside_a_table_that_is_narrow(browser: Any, file: Path, width: int) -> None:
    """The shadow of what can be scrolled is covered to its last pixel where nothing can be."""
    opened = Tab(browser, file, viewport={"width": width, "height": 900})
    place = opened.page.locator(".scroll:has(table.totals)").first
    assert place.evaluate("e => e.scrollWidth === e.clientWidth")
    picture = base64.b64encode(place.screenshot()).decode()
    blank = new_page(browser)
    assert len(blank.evaluate(PIXELS, picture)) == 1
    blank.close()
    opened.page.close()
