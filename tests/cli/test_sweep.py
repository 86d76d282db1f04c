"""perfcli sweep: combinations, what is reused, errors of single variants."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromium
import handmade
import pytest
from cli.conftest import Perfcli

from perfcli.console import output
from perfcli.console.notes import Notes
from perfcli.console.tally import watch
from perfcli.loading import registry
from perfcli.model import Document, Sweep, Swept
from perfcli.storing import store
from perfcli.sweep import run as sweep_run
from perfcli.sweep.pareto import rank
from perfcli.sweep.table import make_table
from perfcli.sweep.view import show_sweep
from perfcli.worker.roles import Progress
from perfcli.workflow.obtain import Obtained

LISTS = ("-p", "columns=1024,2048", "-o", "max_autotune=unset,true,false", "--json", "sweep.json")


@pytest.fixture(autouse=True)
def weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")


def read(path: str = "sweep.json") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(path).read_text())["variants"]
    return found


def test_every_combination_is_compiled_once_and_found_again(perfcli: Perfcli) -> None:
    result = perfcli("sweep", "softmax", "rmsnorm", *LISTS)
    assert (result.code, result.out.splitlines()[0]) == (0, "12 variants: 12 compiled")
    points = {(v["scenario"], v["params"]["columns"], v["options"]["max_autotune"]) for v in read()}
    assert len(points) == 12
    assert len({v["run"] for v in read()} & {each.header.id for each in store.runs()}) == 12
    again = perfcli("sweep", "softmax", "rmsnorm", "layernorm", *LISTS, "-q")
    assert again.out == "18 variants: 6 compiled, 12 stored before\n"


def test_an_error_of_one_variant_does_not_end_the_sweep(
    perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "compile:max_autotune")
    result = perfcli("sweep", "softmax", *LISTS)
    assert (result.code, result.err) == (3, "")
    assert result.out.splitlines()[0] == "6 variants: 2 compiled, 4 failed"
    first = "4 variants, the first columns=1024 max_autotune=true: Inductor could not compile"
    assert f"{first} forward 0 of softmax" in " ".join(result.out.split())
    assert [bool(v["error"]) for v in read()] == [False, True, True] * 2
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    assert perfcli("sweep", "softmax", *LISTS, "-q").out == (
        "6 variants: 4 compiled, 2 stored before\n"
    )


def test_ctrl_c_keeps_what_is_finished(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "interrupt:5")
    result = perfcli("sweep", "softmax", *LISTS)
    assert (result.code, result.complaint) == (
        *(130, "perfcli: interrupted; 5 runs are stored in .perfcli/runs"),
    )


def test_runs_of_one_name_are_told_apart(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "interrupt:2")
    told = perfcli("sweep", "softmax", "-p", "columns=1024,2048,4096").complaint
    first, second = (f"default columns={n} is stored as .perfcli/runs/" for n in (1024, 2048))
    assert told.startswith(f"perfcli: interrupted; {first}")
    assert f"; {second}" in told


def test_a_file_and_what_is_typed_beside_it(perfcli: Perfcli) -> None:
    Path("plan.toml").write_text("""
preset = "smoke"
[[sweep]]
scenario = ["softmax", "rmsnorm"]
target = ["h100", "a100"]
[sweep.param]
columns = [512, 1024]
[[sweep]]
scenario = "layernorm"
option = { max_autotune = ["unset", true] }
""")
    result = perfcli("sweep", "plan.toml", "--json", "sweep.json")
    assert (result.code, result.out.splitlines()[0]) == (0, "10 variants: 10 compiled")
    assert {v["target"] for v in read() if v["scenario"] == "softmax"} == {"h100", "a100"}
    result = perfcli("sweep", "plan.toml", "softmax", "--target", "h200", "--json", "sweep.json")
    assert {(v["scenario"], v["target"]) for v in read()} == {("softmax", "h200")}


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ((), "no scenario: name some, or write"),
        (("softmax", "-p", "columns"), "parameter is written NAME=A,B,…; got 'columns'"),
        (("softmax", "-p", "columns=1,,2"), "parameter columns has an empty value"),
        (("softmax", "-p", "columns=1,1"), "parameter columns has 1 twice"),
        (("softmax", "-p", "columns=1", "-p", "columns=2"), "columns is given twice"),
        (("softmax", "-p", "colums=1,2"), "colums"),
        (("softmax", "gelu"), "no scenario 'gelu'"),
        (("softmax", "model.py:net"), "there is no file model.py"),
        (("nothing.toml",), "can't read nothing.toml: No such file"),
        (("bad.toml",), "bad.toml is not TOML"),
        (("key.toml",), "key.toml: sweep[0]: no key 'scenarios'"),
        (("key.toml", "bad.toml"), "one file at a time"),
    ],
)
def test_what_is_typed_wrong_is_one_line(
    perfcli: Perfcli, typed: tuple[str, ...], says: str
) -> None:
    Path("bad.toml").write_text("a = [")
    Path("key.toml").write_text('[[sweep]]\nscenarios = "softmax"\n')
    result = perfcli("sweep", *typed)
    assert result.code == 2
    assert says in result.complaint


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (("--target", "h10,a100"), "h10"),
        (("--preset", "smoke", "-p", "columns=1024,abc"), "columns needs a whole number (int)"),
        (("-o", "max_autotune=true,perhaps"), "max_autotune"),
        (("-o", "max_autotun=unset,true"), "max_autotun"),
    ],
)
def test_a_wrong_value_among_right_ones_is_refused_at_once(
    perfcli: Perfcli, typed: tuple[str, ...], says: str
) -> None:
    result = perfcli("sweep", "softmax", *typed)
    assert (result.code, result.out) == (2, "")
    assert says in result.complaint
    assert store.runs() == []
    alone = [word.replace("1024,", "").replace(",a100", "") for word in typed]
    alone = [word.replace("true,", "").replace("unset,", "") for word in alone]
    assert perfcli("run", "softmax", *alone).complaint == result.complaint


def test_what_one_scenario_of_several_lacks_is_its_own_failure(perfcli: Perfcli) -> None:
    result = perfcli("sweep", "softmax", "rmsnorm", "-p", "stride=0,1", "--target", "h100")
    assert result.code == 3
    head, _, title, *_ = result.out.splitlines()
    assert head == "4 variants: 2 compiled, 2 failed"
    assert title.split()[:3] == ["scenario", "stride", "time"]


def test_a_failure_alone_makes_no_column(perfcli: Perfcli) -> None:
    result = perfcli("sweep", "softmax", "gqa-transformer", "-p", "columns=1024,2048")
    assert result.code == 3
    title = result.out.splitlines()[2].split()
    assert title[:3] == ["scenario", "columns", "time"]


def test_too_many_are_refused_before_any_is_made(perfcli: Perfcli) -> None:
    many = ",".join(map(str, range(1, 201)))
    result = perfcli("sweep", "softmax", "-p", f"rows={many}", "-p", f"columns={many}")
    assert (result.code, "40,000 variants are more than 20,000" in result.complaint) == (2, True)


def test_the_front_is_what_nothing_beats_in_both() -> None:
    """By hand: of (1, 9), (2, 4), (2, 5), (3, 4) and (4, 1), (2, 5) and (3, 4) are beaten."""
    pairs = [(1, 9), (2, 4), (2, 5), (3, 4), (4, 1)]
    variants = [
        Swept("s", options={"o": n}, seconds=time, metrics={"peak_memory_bytes": memory})
        for n, (time, memory) in enumerate(pairs)
    ]
    ranked = rank([*variants, Swept("t", seconds=5.0, metrics={"peak_memory_bytes": 1.0})])
    assert [each.pareto for each in ranked] == [True, True, False, False, True, None]
    assert [each.ratio for each in ranked] == [1, 2, 2, 3, 4, 1]


def test_its_tables_and_its_page(perfcli: Perfcli, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas

    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    written = ("--csv", "s.csv", "--parquet", "s.parquet", "--html", "s.html")
    assert perfcli("sweep", "softmax", *LISTS, *written).code == 0
    frame = pandas.read_parquet("s.parquet")
    assert list(frame["param.columns"]) == [1024] * 3 + [2048] * 3
    assert str(frame["param.columns"].dtype) == "Int64"
    text = Path("s.csv").read_text()
    assert "\n0,1024,unset,softmax," in text
    assert list(frame["option.max_autotune"]) == ["unset", "true", "false"] * 2
    assert list(frame["seconds"]) == [v["seconds"] for v in read()]
    assert list(pandas.read_csv("s.csv", index_col="number").columns) == list(frame.columns)
    page = Path("s.html").read_text(encoding="utf-8")
    assert "http://" not in page
    assert "https://" not in page
    assert [title in page for title in ("Heat map", "Time over columns", "Pareto front")] == [
        *(True, True, True)
    ]


@pytest.mark.parametrize(
    ("values", "kind", "written"),
    [
        (("1", "2048"), "Int64", "1,2048"),
        ((1, 2), "Int64", "1,2"),
        (("0.5", "2"), "Float64", "0.5,2.0"),
        ((1.5, 2), "Float64", "1.5,2.0"),
        (("1", "inf"), "Float64", "1.0,inf"),
        (("1", str(2**70)), "Float64", "1.0,1.1805916207174113e+21"),
        (("1", "auto"), "string", "1,auto"),
        ((True, 1), "string", "true,1"),
    ],
)
def test_the_type_of_an_axis_is_that_of_its_values(
    values: tuple[Any, ...], kind: str, written: str
) -> None:
    swept = Sweep(tuple(Swept("s", {"n": value}) for value in values))
    frame = make_table(swept).to_frame(swept.variants)
    assert str(frame["param.n"].dtype) == kind
    lines = frame[["param.n"]].to_csv(index=False, header=False).split()
    assert ",".join(lines) == written


def sweep_of(times: dict[str, float]) -> Sweep:
    """One workload for each letter, compiled in the ways that stand behind it: ``a1``."""
    variants = [
        Swept(name[0], options={"o": name[1:]}, seconds=seconds) for name, seconds in times.items()
    ]
    return Sweep(rank(variants))


def test_the_colours_of_the_heat_map_are_ratios_to_the_first_of_the_row() -> None:
    found = sweep_of({"a1": 1e-3, "a2": 0.7e-3, "a3": 1.02e-3, "b1": 2e-3, "b2": 2.3e-3})
    render = registry.load_declared("reports", "sweep", Document).render
    cells = re.findall(r'<td class="(heat-\d)?">([^<]*)(?:<small>([\d.]+))?', render(found))
    assert cells == [
        *(("heat-3", "1 ms", "1.00"), ("heat-0", "700 µs", "0.70"), ("heat-3", "1.02 ms", "1.02")),
        *(("heat-3", "2 ms", "1.00"), ("heat-5", "2.3 ms", "1.15"), ("", "", "")),
    ]


def test_equal_curves_are_one_with_all_names() -> None:
    seconds = {"a": 1.0, "b": 1.00001, "c": 1.1}
    variants = tuple(
        Swept("s", {"n": n}, {"o": way}, seconds=n * factor)
        for way, factor in seconds.items()
        for n in (1, 2)
    )
    page = registry.load_declared("reports", "sweep", Document).render(Sweep(variants))
    keys = re.findall(r"<li class=.line-.*?</li>", page)
    names = [re.sub(r"<[^>]*>", "", key) for key in keys if "o=" in key]
    assert names[:2] == ["s o=a, s o=b (equal)", "s o=c"]


def test_points_that_hide_each_other_are_named_together() -> None:
    memory = {"peak_memory_bytes": 1000.0}
    more = {"peak_memory_bytes": 2000.0}
    variants = [
        Swept(name, {}, {"o": way}, seconds=seconds, metrics=metrics)
        for name, last in (("a", 3e-3), ("b", 3.0001e-3), ("c", 1.5e-3))
        for way, seconds, metrics in (("x", 2e-3, memory), ("y", last, more))
    ]
    page = registry.load_declared("reports", "sweep", Document).render(Sweep(rank(variants)))
    front = page.partition('id="front"')[2].partition('id="variants"')[0]
    assert "memory, relative to the first variant</text>" in front
    assert "time, relative to the first variant</text>" in front
    keys = re.findall(r"<li class=.line-.*?</li>", front)
    assert [re.sub(r"<[^>]*>", "", key) for key in keys] == ["a, b (equal)", "c"]
    first = "; ".join(f"{name} o=x: 2 ms, 1 kB" for name in "abc")
    last = "a o=y: 3 ms, 2 kB; b o=y: 3 ms, 2 kB"
    titles = re.findall(r"<title>(.*?)</title>", front)
    assert titles == [first, last, first, "c o=y: 1.5 ms, 2 kB"]


def test_of_very_many_that_look_alike_a_few_are_named() -> None:
    variants = [
        Swept("s", {"n": n}, {"o": way}, seconds=n, metrics={"peak_memory_bytes": 1000.0})
        for n in range(1, 2001)
        for way in "xy"
    ]
    ranked = rank(variants)
    assert {(each.ratio, each.pareto) for each in ranked} == {(1.0, True)}
    page = registry.load_declared("reports", "sweep", Document).render(Sweep(ranked))
    front = page.partition('id="front"')[2].partition('id="variants"')[0]
    assert "s n=11, s n=12 and 1,988 more (equal)" in re.sub(r"<[^>]*>", "", front)
    assert max(map(len, re.findall(r"<title>(.*?)</title>", front))) < 1000


def test_long_names_of_options_wrap_in_the_heads_of_columns(browser: Any, tmp_path: Path) -> None:
    long = "triton." + "coordinatedescent" * 4
    variants = tuple(Swept("s", {}, {long: n}, seconds=1.0 + n) for n in range(4))
    page = tmp_path / "sweep.html"
    render = registry.load_declared("reports", "sweep", Document).render
    page.write_text(render(Sweep(variants)), encoding="utf-8")
    tab = chromium.Tab(browser, page)
    overlapping = tab.ask(
        """(() => { const heads = [...document.querySelectorAll(".heat thead th .name")];
        const boxes = heads.map((head) => head.getBoundingClientRect());
        return boxes.slice(1).filter((box, n) => box.left < boxes[n].right).length; })()"""
    )
    assert overlapping == 0
    tab.page.close()


def test_names_of_others_are_no_markup() -> None:
    hostile = "<script>alert(1)</script>\x1b[31m"
    variants = (
        Swept(hostile, {hostile: hostile}, {hostile: hostile}, seconds=1e-3),
        Swept(hostile, error=hostile),
    )
    page = registry.load_declared("reports", "sweep", Document).render(Sweep(variants))
    assert "<script" not in page
    assert "\x1b" not in page
    assert "\x1b" not in output.render(show_sweep(Sweep(variants), 0))


def test_progress_counts_what_is_done_and_where(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfcli.console.tally.PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr("perfcli.console.tally.FIRST_GAP_SECONDS", 0.0)
    with watch([f"n={n}" for n in range(7)], Notes(quiet=False)) as tell:
        for number in range(4):
            tell(Progress(number, "done", place=f"10.0.0.{number % 2 + 1}"))
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("4 of 7 compiled (10.0.0.1: 2, 10.0.0.2: 2), about 0 s left (")


def test_a_sum_of_rounded_seconds_has_no_more_digits() -> None:
    parts = {"trace": 4.001, "kernels": 9.077, "wrapper": 0.001}
    assert len(repr(sum(parts.values()))) > 10  # what adding them leaves behind
    made = replace(handmade.run([]), compile_seconds=parts)
    found = sweep_run._finish(Swept("s"), Obtained(made, None))
    assert repr(found.compile_seconds) == "13.079"
