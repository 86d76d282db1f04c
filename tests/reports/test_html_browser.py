"""The HTML report in a real browser: its table, and the pages of kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chromium import Tab, written
from handmade_html import judgement, with_sources

CHANGED = "kernel-0-head-0"
ROWS = "[...document.querySelectorAll('table.kernels tbody tr')]"


def test_it_is_interactive_once_it_is_loaded(tab: Tab) -> None:
    """The script runs before the page is loaded: what it set up is there. How long that takes is
    measured by bench/html_report.py."""
    assert tab.page.locator("form.filter").is_visible()
    assert tab.ask("document.querySelector('form.filter output').textContent") == "3 of 3 rows"


def test_the_policy_stops_everything_else(browser: Any, file: Path) -> None:
    """A script, a style and a picture that somebody smuggled in do nothing."""
    html = file.read_text(encoding="utf-8")
    smuggled = (
        "<script>document.title = 'ran'</script><p id=x style='color: red'>x</p>"
        "<img src='http://127.0.0.1:9/x.png' onerror=\"document.title = 'ran'\"></main>"
    )
    path = file.with_name("smuggled.html")
    path.write_text(html.replace("</main>", smuggled), encoding="utf-8")
    opened = Tab(browser, path)
    assert opened.page.title().startswith("WORSE")
    assert opened.ask("getComputedStyle(document.getElementById('x')).color") != "rgb(255, 0, 0)"
    assert len([text for text in opened.complaints if "Content Security Policy" in text]) >= 3
    opened.page.close()


# --- the table ---------------------------------------------------------------------------------


def test_rows_are_sorted_by_any_column_and_back(tab: Tab) -> None:
    came = tab.rows()
    column = tab.page.locator("table.kernels thead button", has_text="regs")
    head = tab.page.locator("th[data-key]", has_text="regs")
    column.click()
    assert head.get_attribute("aria-sort") == "descending"
    registers = (
        "[...document.querySelectorAll('table.kernels tbody tr')].map(r => +r.cells[6].dataset.v)"
    )
    assert tab.ask(registers) == [255, 32, 32]
    column.click()
    assert tab.ask(registers) == [32, 32, 255]
    column.click()
    assert (tab.rows(), head.get_attribute("aria-sort")) == (came, None)
    tab.page.locator("table.kernels thead button", has_text="kernel").click()
    assert tab.rows() == sorted(came)


def test_rows_are_sorted_by_how_much_they_changed(tab: Tab) -> None:
    tab.page.get_by_label("sort by change").check()
    tab.page.locator("table.kernels thead button", has_text="bytes").click()
    deltas = (
        "[...document.querySelectorAll('table.kernels tbody tr')].map(r => +r.cells[7].dataset.d)"
    )
    found = tab.ask(deltas)
    assert found == sorted(found, reverse=True)
    assert found[-1] == 3500 - 5500 - 1500


def test_rows_are_filtered_by_words_and_by_what_became_of_them(tab: Tab) -> None:
    tab.page.keyboard.press("/")
    tab.page.keyboard.type("KEPT poi")
    assert tab.rows() == ["triton_poi_fused_kept_9"]
    assert tab.page.locator("form.filter output").inner_text() == "1 of 3 rows"
    tab.page.keyboard.press("Escape")  # browsers clear a search field
    assert len(tab.rows()) == 3
    tab.page.locator("form.filter select").select_option("*changed")
    assert len(tab.rows()) == 2
    tab.page.locator("form.filter select").select_option("fused")
    assert tab.rows() == ["triton_poi_fused_add_2"]


# --- a kernel's page ---------------------------------------------------------------------------


def test_a_kernels_page_opens_shows_the_difference_and_closes(tab: Tab) -> None:
    assert not tab.is_open
    link = tab.page.locator(f"table.kernels a[href='#{CHANGED}']")
    link.focus()
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_function("document.getElementById('panel').open")
    rows = tab.page.locator("#panel .diff tbody tr")
    added = tab.page.locator("#panel .diff .text.add")
    assert rows.count() > 80 and added.count() >= 40
    first = tab.page.locator("#panel .diff tr[data-change]", has_text="def ").first
    assert first.locator("mark").count() >= 2
    assert "triton_poi_fused_mul_7" in first.locator(".add mark").first.inner_text()
    tab.page.keyboard.press("Escape")
    tab.page.wait_for_function("!document.getElementById('panel').open")
    assert tab.ask("location.hash") == ""
    assert tab.ask("document.activeElement.getAttribute('href')") == f"#{CHANGED}"


def test_the_source_stands_beside_what_its_lines_became(tab: Tab) -> None:
    tab.ask(f"location.hash = '{CHANGED}'")
    tab.page.locator("#panel button", has_text="Head").last.click()
    lines = tab.page.locator("#panel .code tbody tr")
    spilling = lines.nth(8)  # line 9
    assert "spill" in (spilling.get_attribute("class") or "")
    assert spilling.locator(".gutter").inner_text().split() == ["4", "6", "12"]
    assert spilling.locator(".text").inner_text() == "    tmp0 = tl.load(in_ptr0 + (x0), xmask)"
    assert lines.count() == 8 + 60 + 59 + 2


def test_the_back_button_and_links_to_a_kernel(tab: Tab, browser: Any, file: Path) -> None:
    tab.page.locator("table.kernels a").first.click()
    tab.page.wait_for_function("document.getElementById('panel').open")
    tab.page.go_back()
    tab.page.wait_for_function("!document.getElementById('panel').open")
    tab.page.go_forward()
    tab.page.wait_for_function("document.getElementById('panel').open")
    other = Tab(browser, file, "#kernel-0-base-2")
    assert other.is_open
    assert other.page.locator("#panel select").count() == 1  # two of the base, one of the head
    assert other.page.locator("#panel .title.now").inner_text().split() == [
        "base", "2", "triton_poi_fused_sub_3",
    ]  # fmt: skip
    other.page.locator("#panel button", has_text="Next").click()
    other.page.wait_for_function("location.hash !== '#kernel-0-base-2'")
    assert other.complaints == []
    other.page.close()


def test_a_thousand_lines_are_compared_quickly(browser: Any, tmp_path: Path) -> None:
    path = written(judgement(*with_sources(400, 500)), tmp_path)
    opened = Tab(browser, path)
    took = opened.ask(f"""() => {{
        const start = performance.now();
        location.hash = '{CHANGED}';
        return new Promise(done => {{
            const look = () => document.querySelector('#panel .diff')
                ? done(performance.now() - start) : requestAnimationFrame(look);
            look();
        }});
    }}""")
    assert took < 20_000  # 0.4 s on an idle machine
    assert opened.complaints == []
    opened.page.close()
