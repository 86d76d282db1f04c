"""perfcli history on a repository of the user's, with the fake executor."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import chromium
import pytest
from handmade_history import BLOCK, entry, series
from msgspec import structs

from perfcli.history.commits import describe_commit
from perfcli.history.entry import Commit
from perfcli.history.history import History
from perfcli.history.homes import FolderHome
from perfcli.history.page import render_plots

MORE_READS = "triton.mix_order_reduction_max_reads=1000"
HOSTILE = "Fuse <script>alert(1)</script> \x1b[31m"


def commit(title: str) -> None:
    who = ["-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", title], check=True)


@pytest.fixture
def repository(perfcli: Any) -> Any:
    subprocess.run(["git", "init", "-q", "."], check=True)
    return perfcli


def add_run(perfcli: Any, *options: str) -> None:
    assert perfcli("run", "softmax", "--fresh", "-q", *options).code == 0
    newest = max(Path(".perfcli/runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    found = perfcli("history", "add", str(newest))
    assert (found.code, found.err[:6]) == (0, "added:"), found.err


@pytest.fixture
def grown(repository: Any) -> Any:
    """Four commits, of which the third makes a kernel spill."""
    for number in range(4):
        commit(HOSTILE if number == 2 else f"Change {number}")
        add_run(repository, *(["-o", MORE_READS] if number > 1 else []))
    return repository


def test_a_change_is_shown_with_its_commit_its_option_and_its_kernels(grown: Any) -> None:
    found = grown("history", "show", "softmax")
    assert found.code == 0
    assert re.search(r"spilled words +4 +46 +1, 0 → 46 at", found.out)
    assert re.search(r"worse +spilled words 0 → 46", found.out)
    assert re.search(r"commits +\w{12} Fuse <script>", found.out)
    assert re.search(r"differs +option triton\S+ none → 1000", found.out)
    assert re.search(r"kernels +\S+, \S+, \S+ → \S+ fused: .*spilled words 0 → 46", found.out)
    assert "\x1b" not in found.out + found.err


def test_check_fails_on_what_is_worse_and_passes_after_it(grown: Any) -> None:
    found = grown("history", "check")
    assert found.code == 1
    assert re.search(r"^WORSE +spilled words: 0 → 46 to its best$", found.out, re.M)
    since = subprocess.check_output(["git", "rev-parse", "HEAD~1"], text=True).strip()
    found = grown("history", "check", "--since", since[:12])
    assert (found.code, "WORSE" in found.out) == (0, False)
    subprocess.run(["git", "tag", "release"], check=True)
    for name in ("HEAD~1", "release~1"):
        again = grown("history", "check", "--since", name)
        assert (again.code, again.out) == (0, found.out)
    assert grown("history", "check", "--since", "HEAD").code == 3  # one point
    found = grown("history", "check", "--since", "nowhere")
    assert found.code == 2
    assert "--since nowhere: " in found.complaint
    assert "has no revision 'nowhere'" in found.complaint
    assert grown("history", "check", "--last", "1").code == 3


def test_since_takes_a_commit_without_an_entry(repository: Any) -> None:
    def ask(action: str, since: str) -> tuple[int, int]:
        found = repository("history", action, "--since", since, "--csv", "points.csv")
        text = Path("points.csv").read_text() if found.code != 3 else ""
        Path("points.csv").unlink(missing_ok=True)
        return found.code, text.count(",spilled_words,")

    for number in range(8):
        commit(f"Change {number}")
        if number % 2 == 0:
            add_run(repository)
    assert ask("show", "HEAD~2") == (0, 1)  # no entry of it: of Change 6 there is one
    assert ask("check", "HEAD~3") == (0, 2)
    assert ask("check", "HEAD~4") == (0, 2)
    assert ask("plot", "HEAD~6") == (0, 3)
    for action in ("show", "check", "plot"):
        found = repository("history", action, "--since", "HEAD")
        assert found.code == 3
        assert re.fullmatch(
            r"perfcli: --since HEAD \(\w{12}\): the history has no entry of this commit or a "
            "later one",
            found.complaint,
        )
    subprocess.run(["git", "checkout", "-q", "-b", "side", "HEAD~5"], check=True)
    commit("Aside")
    for _ in range(9):  # contains more commits than any entry, and is in none of them
        commit("Aside")
    assert ask("check", "side~9")[0] == 3
    found = repository("history", "check", "--since", "nowhere")
    assert (found.code, "has no revision 'nowhere'" in found.complaint) == (2, True)


def test_a_quiet_listing_is_one_line(grown: Any) -> None:
    found = grown("history", "show", "softmax", "-q", "--metric", "spilled_words")
    assert re.fullmatch(
        r"1 series of 1 scenario: 1 change point, the last of spilled words: 0 → 46 at \w{12} .*\n",
        found.out,
    )


def test_options_of_other_actions_are_refused(grown: Any) -> None:
    for words, says in (
        (("check", "--html", "x.html"), "--html is for history plot: leave it out of history ch"),
        (("show", "--commit", "HEAD"), "--commit is for history add: leave it out of history sh"),
    ):
        found = grown("history", *words)
        assert (found.code, says in found.complaint) == (2, True)


def test_quiet_drawings_and_checks_are_one_line(grown: Any) -> None:
    assert grown("history", "plot", "-q").out == grown("history", "show", "-q").out
    found = grown("history", "check", "-q")
    assert (found.code, len(found.out.splitlines())) == (1, 1)
    assert re.match(r"WORSE  \d of \d series: softmax .*: ", found.out), found.out
    passed = grown("history", "check", "-q", "--last", "2")
    assert passed.code == 0
    assert re.fullmatch(r"PASS   \d series no worse than at their best\n", passed.out)


def test_an_older_run_is_of_the_commit_that_had_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q", "."], check=True)
    for year in (2020, 2022, 2024):
        Path("model.py").write_text(f"YEAR = {year}")
        subprocess.run(["git", "add", "model.py"], check=True)
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{year}-01-01T00:00:00Z")
        commit(f"Year {year}")

    def name(content: str, created: str) -> tuple[str, bool]:
        sources = {str(tmp_path / "model.py"): hashlib.sha256(content.encode()).hexdigest()}
        found = describe_commit("", tmp_path, sources, created)
        return found.title, found.edited

    assert name("YEAR = 2022", "2023-05-01T00:00:00Z") == ("Year 2022", False)
    assert name("YEAR = 2020", "2021-05-01T00:00:00Z") == ("Year 2020", False)
    assert name("YEAR = 2024", "2021-05-01T00:00:00Z") == ("Year 2024", False)
    assert name("YEAR = 2020", "2023-05-01T00:00:00Z") == ("Year 2024", True)
    assert name("edited", "2019-05-01T00:00:00Z") == ("Year 2024", True)


def test_one_table_as_csv_and_json(grown: Any) -> None:
    found = grown("history", "show", "softmax", "--csv", "-", "--json", "history.json")
    lines = found.out.splitlines()
    assert lines[0].startswith(
        "number,subject,scenario,where,label,kind,kernel,metric,basis,point,value"
    )
    spilled = [line for line in lines if ",spilled_words," in line]
    assert [line.split(",")[10] for line in spilled] == ["0.0", "0.0", "46.0", "46.0"]
    document = json.loads(Path("history.json").read_text())
    (series,) = (s for s in document["series"] if s["metric"] == "spilled_words")
    assert series["changes"] == [{"index": 2, "before": 0, "after": 46, "p": None}]
    change = document["changes"][0]
    assert change["worse"]
    assert change["circumstances"] == ["option triton.mix_order_reduction_max_reads none → 1000"]


def test_a_drawing_in_a_pipe(grown: Any) -> None:
    found = grown("history", "plot", "softmax", "--metric", "spilled_words")
    assert re.search(r"^ *46\|.*\*", found.out, re.M)
    assert re.search(r"^ *0\|\*", found.out, re.M)


def test_a_measured_ratio_is_to_its_control(repository: Any, monkeypatch: Any) -> None:
    for number, ratio in enumerate(
        [1.0, 1.001, 0.999, 1.002, 1.0, 0.998, 1.05, 1.051, 1.049, 1.052]
    ):
        commit(f"Change {number}")
        monkeypatch.setenv("PERFCLI_FAKE", f"1;ratio={ratio}")
        words = ["-b", "triton.mix_order_reduction=false", "--device", "cpu", "--json", "c.json"]
        repository("compare", "softmax", *words, "-q", "--seed", str(number))
        assert repository("history", "add", "c.json").code == 0
    found = repository("history", "show", "softmax")
    told = re.search(r"worse +measured step time ([\d.]+) × → ([\d.]+) × \(\+[45]\.", found.out)
    assert told is not None
    assert [float(number) for number in told.groups()] == pytest.approx([1.0, 1.05], abs=0.004)
    assert "to       " in found.out
    assert "Change 6" in found.out
    found = repository("history", "check")
    assert found.code == 1
    assert "WORSE   measured step time: +" in found.out


def test_the_same_again_is_known_already(repository: Any) -> None:
    commit("one")
    add_run(repository)
    (run,) = Path(".perfcli/runs").iterdir()
    assert repository("history", "add", str(run)).err.startswith("known already:")
    shown = repository("history", "show", "--csv", "-").out.splitlines()
    assert len({line for line in shown if ",spilled_words," in line}) == 1


def test_two_variants_of_one_commit_need_a_label(repository: Any) -> None:
    commit("one")
    add_run(repository)
    repository("run", "softmax", "-q", "-o", MORE_READS)
    newest = max(Path(".perfcli/runs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    found = repository("history", "add", str(newest))
    assert found.code == 2
    assert "--label" in found.complaint
    assert repository("history", "add", str(newest), "--label", "more").code == 0


def test_merge_takes_over_what_is_missing(grown: Any) -> None:
    assert grown("history", "merge", ".perfcli/history", "--history", "copy").code == 0
    assert grown("history", "check", "--history", "copy").code == 1
    found = grown("history", "merge", ".perfcli/history", "--history", "copy")
    assert "took over 0 entries" in found.err


def fill(*values: float, target: str = "h100") -> None:
    """Make a history of estimated times without commits, an hour apart."""
    times = [f"2025-11-28T{10 + n}:00:00Z" for n in range(len(values))]
    subject = structs.replace(BLOCK, target=target)
    make = partial(
        entry, 0, subject=subject, kind="estimated", metric="estimated_seconds", basis="h100"
    )
    made = [
        structs.replace(make(value, created=time), commit=Commit())
        for value, time in zip(values, times, strict=True)
    ]
    adding = zip(made, times, strict=True)
    History(FolderHome(Path(".perfcli/history"))).add_all(adding, {})


def test_a_clock_that_went_back_is_a_warning(perfcli: Any) -> None:
    made = structs.replace(entry(1), commit=Commit())
    history = History(FolderHome(Path(".perfcli/history")))
    history.add_all([(made, "2025-11-28T00:00:00Z")], {})
    later = structs.replace(entry(2), commit=Commit())
    other = History(FolderHome(Path("other")))
    other.add_all([(later, "2024-11-28T00:00:00Z")], {})
    assert "clock" not in perfcli("history", "merge", "other").err
    assert "clock" not in perfcli("history", "show").err
    history.add_all([(structs.replace(entry(3), commit=Commit()), "2999-01-01T00:00:00Z")], {})
    told = perfcli("history", "show", "-q").err
    assert told.startswith(
        "warning: a clock went back: an entry was added at 2999-01-01T00:00:00, "
    )


def test_each_change_point_has_a_block(perfcli: Any) -> None:
    fill(58.4e-6, 68.4e-6, 58.4e-6, 68.4e-6)
    found = perfcli("history", "show", "model.py")
    assert re.search(r"estimated time +4 +68.4 us +3, ", found.out.replace("µ", "u"))
    assert re.findall(r"^(worse|better) ", found.out, re.M) == ["worse", "better", "worse"]
    assert len(re.findall(r"^  from ", found.out, re.M)) == 3


def test_points_without_commits_are_named_by_their_times(perfcli: Any) -> None:
    fill(58.4e-6, 68.4e-6)
    fill(58.4e-6, 58.4e-6, target="a100")
    found = perfcli("history", "show", "model.py").out
    assert "  from     2025-11-28 10:00:00 UTC\n  to       2025-11-28 11:00:00 UTC\n" in found
    plot = perfcli("history", "plot", "--html", "plot.html").out
    assert "2025-11-28 10:00:00 UTC" in plot
    page = Path("plot.html").read_text().partition('id="changes"')[2]
    assert "<h3>2025-11-28 11:00:00 UTC</h3>" in page
    assert ">model.py:block · forward · h100 · rows=8: estimated time</a>" in page


def test_a_gate_adds_the_number_of_the_run_not_of_its_baseline(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    Path("perfcli.toml").write_text('[[checks]]\nscenario = "softmax"\ntargets = ["h100"]\n')
    assert perfcli("baseline", "update", "--reason", "first").code == 0
    assert perfcli("gate", "--json", "gate.json").code == 0
    add_run(perfcli, "--target", "h100")
    assert perfcli("history", "add", "gate.json").code == 0
    found = perfcli("history", "show", "--json", "-", "--metric", "estimated_seconds").out
    (each,) = json.loads(found)["series"]
    first, second = (point["value"] for point in each["points"])
    assert first == second
    assert each["changes"] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["grow"], "one of add, show, plot, check, site, merge is expected"),
        (["show"], "there is no history in .perfcli/history: perfcli history add RUN begins one"),
        (["add"], "name stored runs"),
        (["add", "nowhere"], "no stored run 'nowhere'"),
        (["add", "other.json"], "JSON of another program"),
        (["add", "broken.json"], "is not JSON"),
        (["add", "empty.json"], "lacks what this version writes"),
        (["merge"], "name one history"),
        (["show", "--history", "/dev/full"], "/dev/full is not a folder: name one for the history"),
        (["add", "other.json", "--history", "other.json"], "JSON of another program"),
        (["merge", "other", "--history", "other.json"], "other.json is not a folder: name one"),
        (["show", "--history", "other.json/x"], "other.json is not a folder: name one"),
        (["show", "--history", "nosuch://x"], "there is no protocol nosuch: use s3"),
    ],
)
def test_mistakes_are_one_line(perfcli: Any, words: list[str], told: str) -> None:
    Path("other.json").write_text("{}")
    History(FolderHome(Path("other"))).add(entry(1))
    Path("broken.json").write_text("{")
    Path("empty.json").write_text('{"perfcli": "comparison"}')
    found = perfcli("history", *words)
    assert found.code == 2
    assert told in found.complaint


# --- pages ----------------------------------------------------------------------------------------


def test_the_site_is_linked_offline_and_small(grown: Any) -> None:
    assert grown("history", "site", "pages").code == 0
    pages = {path.name: path.read_text() for path in Path("pages").iterdir()}
    kinds = [name.partition("-")[0] for name in pages]
    assert kinds.count("scenario") == 1
    assert kinds.count("comparison") == 1
    assert kinds.count("kernel") == 6
    for name, text in pages.items():
        assert len(text.encode()) < 1_000_000
        assert "<script>alert" not in text
        assert "\x1b" not in text
        for link in re.findall(r'href="([^"#]+)', text):
            assert link in pages or link == "data:,", f"{name}: {link}"
    before = set(pages)
    assert grown("history", "site", "pages").code == 0
    assert {path.name for path in Path("pages").iterdir()} == before


def test_a_drawing_zooms_in_a_browser(grown: Callable[..., Any], browser: Any) -> None:
    grown("history", "plot", "softmax", "--html", "plot.html")
    tab = chromium.Tab(browser, Path("plot.html").resolve())
    count = "document.querySelector('.plot').querySelectorAll('.point').length"
    tab.page.wait_for_selector(".plot .point")
    assert tab.ask(count) == 4
    tab.page.locator(".plot svg").first.focus()
    for _ in range(3):
        tab.page.keyboard.press("+")
    assert tab.ask(count) < 4
    tab.page.keyboard.press("0")
    assert tab.ask(count) == 4
    box = tab.page.locator(".plot svg").first.bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 100)
    tip = tab.page.locator(".plot .tip").first.inner_text()
    assert "46" in tip
    assert tab.complaints == []
    tab.page.close()


def test_a_drawing_has_room_for_its_intervals(browser: Any, tmp_path: Path) -> None:
    found = series([1.0, 1.001, 0.999])
    wide = [
        sample._replace(point=structs.replace(sample.point, low=0.5, high=1.5))
        for sample in found.samples
    ]
    page = tmp_path / "plot.html"
    page.write_text(render_plots([[(replace(found, samples=tuple(wide)), [])]]), encoding="utf-8")
    tab = chromium.Tab(browser, page)
    tab.page.wait_for_selector(".plot .point")
    read = "(line) => ['y1', 'y2'].map((end) => +line.getAttribute(end))"
    for low, high in tab.ask(f"[...document.querySelectorAll('.plot .range')].map({read})"):
        assert 12 < high < low < 230
        assert low - high == pytest.approx(218 / 1.16, rel=0.01)
    tab.page.close()
