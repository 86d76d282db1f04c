"""tune with the fake executor: what is chosen, what is not, and who takes the file."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcli.machine import targets
from perfcli.options import performance
from perfcli.predict import step
from perfcli.search.question import OptionChange
from perfcli.tune import view
from perfcli.tune.answer import Ratio, Share, Tried, Tuned

MAX_READS = "triton.mix_order_reduction_max_reads"
MIX_ORDER = "triton.mix_order_reduction"
OVER_FUSED = ("-o", f"{MAX_READS}=1000")
"""The fake executor makes up a kernel that spills, which takes 3.07 ms in place of 0.567 ms."""
TUNE = ("tune", "softmax", "--target", "h200")


@pytest.fixture(autouse=True)
def few_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search a tenth of the catalogue: the fake executor knows two options."""
    names = {
        *(MIX_ORDER, MAX_READS, "online_softmax", "split_reductions", "max_fusion_size"),
        *("use_fast_math", "assume_aligned_inputs", "cpp.use_decompose_tanh"),
        *("cpp_wrapper", "coordinate_descent_tuning", "max_autotune_pointwise"),
    }
    few = tuple(knob for knob in performance.load() if knob.name in names)
    monkeypatch.setattr(performance, "load", lambda: few)


@pytest.fixture
def weighed(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Estimates times: made-up kernels have work."""
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    return perfcli


def document(path: str = "out.json") -> Any:
    found = json.loads(Path(path).read_text())
    assert (found["perfcli"], found["format"]) == ("tuned", 1)
    return found


def test_one_option_that_gains_it_all(weighed: Any) -> None:
    files = ["--output", "tuned.toml", "--json", "out.json", "--html", "out.html"]
    files += ["--csv", "out.csv"]
    result = weighed(*TUNE, *OVER_FUSED, *files)
    assert result.code == 0
    assert "default 4.9 ms · " in result.out
    chosen = f"{MIX_ORDER}=true {MAX_READS}=5"
    assert f"FASTER by estimate, −51.0 % [−55.2, −46.4]: {chosen}\n" in result.out
    assert f"   {MAX_READS}=5: alone −51.0 % [−55.2, −46.4]\n" in result.out
    only_here = "max_autotune_pointwise, coordinate_descent_tuning"
    assert f"not tried, as only a GPU can judge them: {only_here}\n" in result.out
    assert f'torch.compile(model, options={{"{MIX_ORDER}": True, "{MAX_READS}": 5}})' in result.out
    found = document()
    assert found["options"] == {MIX_ORDER: True, MAX_READS: 5}
    # 2.401 of 4.902 ms, as compare has it.
    assert found["against_default"]["ratio"] == pytest.approx(2.401 / 4.902, rel=1e-3)
    assert found["default_seconds"] == pytest.approx(4.902e-3, rel=1e-3)
    (share,) = found["shares"]
    assert (share["option"], share["value"], share["alters"]) == (MAX_READS, 5, "")
    assert share["alone"] == share["on_top"] == found["against_default"]
    assert Path("out.html").read_text().count("softmax")
    first, second = csv.DictReader(Path("out.csv").read_text().splitlines())
    assert (first["options"], first["chosen"], first["count"]) == (chosen, "True", "1")
    assert float(first["estimated_ratio"]) == found["against_default"]["ratio"]
    assert (second["chosen"], second["measured_ratio"]) == ("False", "")


def test_what_is_known_when_it_stops_is_recommended(
    weighed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = [replace(k, helped=k.values if k.name == MAX_READS else ()) for k in performance.load()]
    monkeypatch.setattr(performance, "load", lambda: few)
    result = weighed(*TUNE, *OVER_FUSED, "--max-runs", "8", "--json", "out.json")
    assert result.code == 3
    found = document()
    assert found["stopped"] == "after 8 runs (--max-runs)"
    assert (found["verdict"], found["options"][MAX_READS]) == ("faster", 5)
    assert "the same command goes on from there" in result.out


def test_a_search_of_launches_that_is_asked_for_is_no_change(weighed: Any) -> None:
    asked = ("-o", "max_autotune_pointwise=true")
    result = weighed(*TUNE, *OVER_FUSED, *asked, "--json", "out.json")
    found = document()
    assert found["options"] == {"max_autotune_pointwise": True, MIX_ORDER: True, MAX_READS: 5}
    assert all(each["estimated"] for each in found["tried"])
    assert found["tried"][0]["estimated"] == found["against_default"]
    assert "not tried, as only a GPU can judge them: coordinate_descent_tuning\n" in result.out


def test_others_take_the_file(weighed: Any) -> None:
    weighed(*TUNE, *OVER_FUSED, "--output", "tuned.toml", "-q")
    compare = ("compare", "softmax", "--target", "h200")
    faster = weighed(*compare, "-a", f"{MAX_READS}=1000", "-b", "tuned.toml", "-q")
    assert faster.out.startswith("FASTER  estimated kernels 4.902 → 2.401 ms, −51.0 %")
    listed = weighed("apply", "tuned.toml")
    assert listed.out == (
        f'torch.compile(model, options={{"{MIX_ORDER}": True, "{MAX_READS}": 5}})\n'
    )
    check = '[[checks]]\nscenario = "softmax"\ntarget = "h200"\noptions = '
    Path("perfcli.toml").write_text(f'{check}"tuned.toml"\n')
    assert weighed("baseline", "update", "--reason", "tuned").code == 0
    assert weighed("gate").code == 0
    Path("perfcli.toml").write_text(f'{check}"tuned.json"\n')
    result = weighed("gate")
    assert result.code == 2
    assert "ends in .toml, not 'tuned.json'" in result.out + result.err


def test_what_was_found_against_another_default_is_no_answer(weighed: Any) -> None:
    result = weighed(*TUNE)
    assert result.code == 0
    assert "SAME: nothing is faster than the default; 1 of 2 single changes not" in result.out
    again = weighed(*TUNE, *OVER_FUSED, "-q")
    assert again.out.startswith("FASTER by estimate, −51.0 %")


def test_where_nothing_is_faster_the_file_sets_nothing(weighed: Any) -> None:
    result = weighed(*TUNE, "--output", "tuned.toml", "--html", "out.html", "--json", "out.json")
    assert result.code == 0
    assert "nothing is chosen: there is no comparison to write" in result.err
    assert not Path("out.html").exists()
    assert Path("tuned.toml").read_text().startswith("[options]\n\n[tuned]\n")
    assert "\ntuned.toml sets nothing\n" in result.err
    assert document()["verdict"] == "default"
    assert weighed("apply", "tuned.toml").out.startswith("# nothing to set")


def test_what_changes_results_is_left_out(weighed: Any) -> None:
    weighed(*TUNE, "--json", "out.json", "-q")
    left_out = document()["left_out"]
    assert "use_fast_math" in left_out["numerics"]
    assert "assume_aligned_inputs" in left_out["assumptions"]
    few = document()["searched"]["options"]
    both = ("--allow", "numerics", "--allow", "assumptions")
    weighed(*TUNE, *both, "--json", "out.json", "-q")
    found = document()
    assert found["left_out"] == {}
    assert found["searched"]["options"] == few + sum(map(len, left_out.values()))


def test_on_the_cpu_all_is_measured(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1;ratio=0.9;noise=0.002;only=cpp_wrapper")
    result = perfcli("tune", "softmax", "--device", "cpu", "--json", "out.json")
    assert result.code == 0
    found = document()
    assert (found["verdict"], found["source"]) == ("faster", "measured")
    assert found["options"] == {"cpp_wrapper": True}
    assert found["against_default"]["ratio"] == pytest.approx(0.9, abs=0.005)


@pytest.mark.parametrize(("ratio", "verdict"), [("0.9", "faster"), ("1.04", "default")])
def test_on_a_gpu_a_measurement_decides(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, ratio: str, verdict: str
) -> None:
    """The estimate says −51 % all the while."""
    monkeypatch.setattr(targets, "has_gpu", lambda: True)
    monkeypatch.setattr(targets, "this_gpu", lambda: targets.get("h200"))
    plan = f"weighed;ratio={ratio};device={ratio};noise=0.001;busy=0.9"
    monkeypatch.setenv("PERFCLI_FAKE", plan)
    result = perfcli("tune", "softmax", *OVER_FUSED, "--best", "1", "--json", "out.json")
    found = document()
    assert (found["verdict"], found["source"]) == (verdict, "measured")
    assert result.code == 0
    first = found["tried"][0]
    assert first["estimated"]["ratio"] == pytest.approx(2.401 / 4.902, rel=1e-3)
    assert first["measured"]["ratio"] == pytest.approx(float(ratio), abs=0.005)
    beyond = [set(each["options"]) - set(first["options"]) for each in found["tried"]]
    assert beyond == [set(), {"max_autotune_pointwise"}, {"coordinate_descent_tuning"}]


def test_a_search_that_was_stopped_says_so(weighed: Any) -> None:
    result = weighed(*TUNE, "--max-runs", "2")
    assert result.err.startswith("8 options with 14 values to try: compiling without any\n")
    assert result.code == 3
    assert "UNSURE: nothing that is surely faster was found before it stopped\n" in result.out
    assert "stopped after 2 runs (--max-runs): the same command goes on from there\n" in result.out
    assert weighed(*TUNE).code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--allow", "numeric"), "can't allow 'numeric': did you mean numerics?"),
        (("--output", "tuned.json"), "--output tuned.json: a name that ends in .toml is expected"),
        (("--output", "nosuch/x.toml"), "can't write nosuch/x.toml: there is no folder nosuch"),
        (("-o", "nosuch.toml"), "can't read nosuch.toml: No such file or directory"),
        (("--device", "cpu"), "--target h200 is a GPU: leave out --target or --device cpu"),
        (("--measure-budget", "5"), "--target h200 compiles without a device"),
    ],
)
def test_bad_input(weighed: Any, words: tuple[str, ...], message: str) -> None:
    result = weighed(*TUNE, *words)
    assert result.code == 2
    assert message in result.complaint


def test_a_target_without_constants(weighed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "calibration_for", lambda target: None)
    result = weighed(*TUNE)
    assert result.code == 2
    assert "the time of a step is not known on h200: no GPU like it" in result.complaint


def test_a_gain_that_is_not_sure_is_not_chosen(weighed: Any, monkeypatch: Any) -> None:
    """The estimate says −51 % still, and that it may be off by a factor of nine."""
    monkeypatch.setattr(step, "_half_width", lambda *_: 2.2)
    result = weighed(*TUNE, *OVER_FUSED, "--output", "tuned.toml")
    assert result.code == 3
    assert "UNSURE: something may be faster, and nothing surely is; keep" in result.out
    assert f"   {MIX_ORDER}=true {MAX_READS}=5: −51 % [−86, +76] by estimate\n" in result.out
    text = Path("tuned.toml").read_text()
    assert f'[options]\n"{MAX_READS}" = 1000\n' in text
    Path("tuned.toml").write_text(text.replace(f'"{MAX_READS}" = 1000\n', ""))
    listed = weighed("apply", "tuned.toml").out
    assert listed == "# nothing to set: tune found nothing that is surely faster than the default\n"


def test_a_default_that_does_not_compile(weighed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "compile:all")
    result = weighed(*TUNE)
    assert result.code == 2
    (line,) = result.complaint.splitlines()
    assert "can't compile the model as it is (" in line
    assert "LoweringException" in line


def test_a_model_that_raises_shows_where(weighed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "user:all")
    for _ in range(2):  # nothing of it is kept: the file may be mended by then
        result = weighed(*TUNE)
        assert result.code == 2
        assert 'File "model.py", line 7, in forward\nValueError: no such layer' in result.err
    monkeypatch.setenv("PERFCLI_FAKE", "weighed")
    assert weighed(*TUNE).code == 0


def test_what_is_looked_at_is_named_for_what_it_is() -> None:
    first, second, third = (OptionChange(name, False, True) for name in ("a", "b", "c"))
    both = {"a": True, "b": True}
    failures = {json.dumps({"c": True}): "Inductor could not compile it"}
    found = Tuned(
        *("id", "x", "x", "2.11", "h200", "faster", "estimated", both),
        shares=tuple(Share(change, None, None) for change in (first, second)),
        tried=(
            Tried(both, frozenset({first.key, second.key})),
            Tried({"b": True}, frozenset({second.key}), Ratio(0.9, 0.8, 1.0)),
            Tried({"c": True}, frozenset({third.key}), Ratio(0.95, 0.9, 1.0)),
        ),
        failures=failures,
        stopped="interrupted",
    )
    lines = view.report_lines(found)
    at = lines.index("smaller sets of the chosen options:")
    assert lines[at + 1].startswith("   b=true: ")
    assert lines[at + 2] == "not chosen:"
    assert lines[at + 3].startswith("   c=true: ")
    at = lines.index("1 variant without an answer:")
    assert lines[at + 1] == "   c=true: Inductor could not compile it"
    assert lines[-1] == "interrupted: the same command goes on from there"
    many = replace(found, failures={json.dumps({"c": n}): "" for n in range(4)})
    assert "4 variants without an answer (--json has all)" in view.report_lines(many)


def test_progress_names_one_variant_a_line(weighed: Any) -> None:
    told = weighed(*TUNE).err
    assert "online_softmax=false: " in told
    assert "without any change, " not in told


def test_report_and_page_say_why_compare_is_less_sure(weighed: Any, monkeypatch: Any) -> None:
    """tune's interval is narrower than that of compare, which includes no change here."""
    monkeypatch.setattr(step, "_half_width", lambda *_: 0.9)
    files = ("--markdown", "out.md", "--html", "out.html", "--json", "out.json")
    result = weighed(*TUNE, *OVER_FUSED, *files)
    assert result.code == 0
    verdict = f"by estimate, −51 % [−71, −17]: {MIX_ORDER}=true {MAX_READS}=5"
    why = "compare shows a wider interval, −51 % [−80, +20] (UNSURE): it has to fit any two runs"
    assert f"FASTER {verdict}\n" in result.out
    assert why in " ".join(result.out.split())
    assert "docs/tune.md, How sure an estimate is" in " ".join(result.out.split())
    page = Path("out.html").read_text()
    assert "<title>FASTER: softmax@h200" in page
    assert page.index("by estimate, −51 % [−71, −17]") < page.index(why) < page.index(">UNSURE<")
    title, said, note, *rest = filter(None, Path("out.md").read_text().splitlines())
    assert title == "## FASTER `softmax@h200`"
    assert said.startswith("by estimate, −51 % `[−71, −17]`: ")
    assert note.startswith("compare shows a wider interval, −51 % `[−80, +20]` (UNSURE): ")
    assert rest[0] == "### UNSURE `softmax@h200`"
    assert document()["compared"]["verdict"] == "unsure"


def test_a_search_that_was_stopped_keeps_the_files_that_are_there(weighed: Any) -> None:
    before = '[options]\n"max_fusion_size" = 8\n'
    Path("tuned.toml").write_text(before)
    Path("out.html").write_text("of another target")
    files = ("--output", "tuned.toml", "--html", "out.html", "--markdown", "out.md")
    stopped = weighed(*TUNE, *files, "--max-runs", "2", "-q")
    assert stopped.code == 3
    assert Path("tuned.toml").read_text() == before
    kept = "tuned.toml is as it was before: the search was stopped, and chose nothing"
    assert f"warning: {kept}\n" in stopped.err
    older = "no comparison to write; from an earlier command there is still out.html\n"
    assert older in stopped.err
    ended = weighed(*TUNE, *files)
    assert ended.code == 0
    assert "tuned.toml sets nothing\n" in ended.err
    assert Path("tuned.toml").read_text().startswith("[options]\n\n[tuned]\n")


def test_what_is_not_estimated_is_counted_and_told_in_one_wording(weighed: Any) -> None:
    result = weighed(*TUNE, "--csv", "out.csv")
    why = "not estimated: its code does no less"
    rows = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    failures = [row["failure"] for row in rows if row["failure"]]
    assert failures == [f"{why} (it moves 14.8 % more bytes)"]
    assert f"{MIX_ORDER}=false: {why} · " in result.err
    same = "SAME: nothing is faster than the default; 1 of 2 single changes not estimated"
    assert same in result.out
    # What the search goes by is no estimate, and is not shown as one.
    assert "online_softmax=false: likely at most 2.4 ms · " in result.err
