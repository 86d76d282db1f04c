"""bisect-config with the fake executor: answers, limits, resuming, and bad input."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfcli.fake import executor
from perfcli.fake import run as made_up_run
from perfcli.machine.environment import Interpreter
from perfcli.model import Bundle, CompileRequest

MAX_READS = "triton.mix_order_reduction_max_reads"
MIX_ORDER = "triton.mix_order_reduction"
HARMLESS = ("online_softmax=false", "triton.multi_kernel=1", "max_fusion_size=32")
BISECT = ("bisect-config", "gqa-transformer", "-p", "layers=3", "-j", "1")
SPILLS = (*BISECT, "-m", "spills")


def bad(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--bad", setting)]


def good(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--good", setting)]


def document(path: str = "out.json") -> Any:
    found = json.loads(Path(path).read_text())
    assert (found["perfcli"], found["format"]) == ("bisection", 1)
    return found


def stored() -> list[Path]:
    return sorted(Path(".perfcli/bisect").glob("*.json"))


# --- answers -----------------------------------------------------------------------------------


def test_the_culprit_among_harmless_changes(perfcli: Any) -> None:
    result = perfcli(*SPILLS, *bad(*HARMLESS, f"{MAX_READS}=1000"), "--json", "out.json")
    assert result.code == 0
    assert f"to blame: {MAX_READS}=1000 (10)\n" in result.out
    assert "good 0 → bad 46\n4 options differ between the two\n" in result.out
    assert "   good + it: 46\n   bad − it: 0; proven both ways\n" in result.out
    assert "WORSE  spilled words 0 → 46" in result.out
    found = document()
    (culprit,) = found["culprits"]
    assert culprit["options"] == [{"option": MAX_READS, "good": 10, "bad": 1000}]
    assert (culprit["proven"], culprit["minimal"], culprit["interaction"]) == (True, True, False)
    assert culprit["good_with_it"]["value"] == 46
    assert culprit["bad_without_it"]["value"] == 0
    assert found["cost"]["classes"] == 2
    assert found["comparison"]["outcome"] == "worse"


def test_the_value_at_which_a_number_flips(perfcli: Any) -> None:
    result = perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"), "--json", "out.json")
    assert f"{MAX_READS}=10: 0 spilled words, =11: 46 spilled words; " in result.out
    (flip,) = document()["flips"]
    assert (flip["status"], flip["last_good"], flip["first_bad"]) == ("found", 10, 11)
    assert flip["compiled"] <= 12  # log2(990) + 2
    assert "flips" not in perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"), "--no-flip").out


def test_the_command_applies_the_cure(perfcli: Any) -> None:
    result = perfcli(*SPILLS, *bad("online_softmax=false", f"{MAX_READS}=1000"))
    (command,) = [line for line in result.out.splitlines() if " -a " in line]
    words = command.split()
    assert words[:4] == ["perfcli", "compare", "gqa-transformer", "-p"]
    cured = perfcli(*words[1:])
    assert cured.code == 0
    assert "spilled words 46 → 0" in cured.out


def test_options_that_are_bad_together_only(perfcli: Any) -> None:
    sides = [*good(f"{MIX_ORDER}=false"), *bad(f"{MAX_READS}=1000", "online_softmax=false")]
    result = perfcli(*SPILLS, *sides, "--json", "out.json")
    assert result.code == 0
    (culprit,) = document()["culprits"]
    assert culprit["interaction"]
    assert {option["option"] for option in culprit["options"]} == {MIX_ORDER, MAX_READS}
    assert culprit["dependencies"] == [{"option": MAX_READS, "needs": [MIX_ORDER]}]
    assert f"{MAX_READS}=1000 (10) does nothing without {MIX_ORDER}" in result.out


def test_sides_from_files(perfcli: Any) -> None:
    Path("bad.toml").write_text(
        'online_softmax = false\n"max_fusion_size" = 32\n'
        "[triton]\nmix_order_reduction_max_reads = 1000\n"
    )
    result = perfcli(*SPILLS, "--bad", "bad.toml", "-q")
    assert (result.code, result.out) == (0, f"to blame: {MAX_READS}=1000 (10)\n")


def test_the_catalogue_made_worse_and_better(perfcli: Any) -> None:
    result = perfcli(*SPILLS, "--json", "out.json")
    assert result.code == 0
    assert f"worst: 0 → 46 with {MAX_READS}=1000 (10)\n" in result.out
    found = document()
    assert len({change["option"] for change in found["changes"]}) >= 60
    effects = {(e["option"], e["bad"]): e for e in found["improvement"]["effects"]}
    assert effects[MAX_READS, 1000]["value"] == 46
    assert effects["online_softmax", False]["changes_code"] is False
    better = perfcli(*SPILLS, "--direction", "improve", "-q")
    assert better.out == "no option of the catalogue makes spilled words better than 0\n"


def test_the_runs_of_the_catalogues_ends_are_kept_apart(perfcli: Any) -> None:
    for _ in range(2):
        assert "WORSE  spilled words 0 → 46" in perfcli(*SPILLS).out
    same = perfcli("compare", "gqa-transformer", "-p", "layers=3", "-b", f"{MAX_READS}=1000")
    assert "WORSE  spilled words 0 → 46" in same.out


def test_the_catalogue_on_top_of_what_is_good(perfcli: Any) -> None:
    base = good(f"{MAX_READS}=1000")
    result = perfcli(*SPILLS, *base, "--direction", "improve", "--json", "out.json")
    assert result.code == 0
    improvement = document()["improvement"]
    assert (improvement["baseline"]["value"], improvement["answer"]["value"]) == (46, 0)


# --- on a clock --------------------------------------------------------------------------------


def test_a_timed_metric(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"1;ratio=1.1;only={MAX_READS}")
    options = ("-m", "time", "--device", "cpu", "--seed", "7", "--json", "out.json")
    result = perfcli(*BISECT, *options, *bad(f"{MAX_READS}=1000", *HARMLESS))
    assert result.code == 0, result.err
    found = document()
    (culprit,) = found["culprits"]
    assert [option["option"] for option in culprit["options"]] == [MAX_READS]
    assert culprit["good_with_it"]["value"] == pytest.approx(1.1, rel=0.01)
    assert found["ends"]["low"] < 1.1 < found["ends"]["high"] * 1.01
    assert found["cost"]["measured"] >= 2


def test_a_difference_within_the_noise_is_none(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"1;ratio=1.002;only={MAX_READS}")
    options = ("-m", "time", "--device", "cpu")
    result = perfcli(*BISECT, *options, *bad(f"{MAX_READS}=1000"))
    assert result.code == 3
    (line,) = [line for line in result.out.splitlines() if line.startswith("good is not better")]
    assert "ms and " in line
    assert "[" in line  # the interval


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-m", "time", "--target", "h100"), "--target h100 is no device"),
        (("-m", "spills", "--device", "cpu"), "there is no metric spills on the CPU"),
        (("-m", "device-time", "--device", "cpu"), "there is no metric device-time on the CPU"),
        (
            (
                "-m",
                "spill",
            ),
            "did you mean spills",
        ),
        (("-m", "loads", "--threads", "2"), "loads is not measured on a device"),
    ],
)
def test_metrics_that_are_not_there(perfcli: Any, options: tuple[str, ...], complaint: str) -> None:
    result = perfcli(*BISECT, *options, *bad(f"{MAX_READS}=1000"))
    assert result.code == 2
    assert complaint in result.complaint


# --- no answer ---------------------------------------------------------------------------------


def test_good_is_not_better_than_bad(perfcli: Any) -> None:
    result = perfcli(*SPILLS, *bad("online_softmax=false"))
    assert result.code == 3
    assert "good is not better than bad: 0 and 0, exact\n" in result.out
    assert "wrong way round" not in result.out


def test_good_and_bad_the_wrong_way_round(perfcli: Any) -> None:
    asked = (*SPILLS, *good(f"{MAX_READS}=1000"), *bad(f"{MAX_READS}=10"))
    result = perfcli(*asked, "-q")
    assert result.code == 3
    assert result.out == "good is not better than bad: 46 and 0, exact\n"
    result = perfcli(*asked)
    assert "are --good and --bad the wrong way round?\n" in result.out
    # Its ends are stored; bisect-config has no --fresh to propose.
    assert "nothing changed since run" in perfcli(*asked).err
    assert "--fresh" not in result.err


def test_json_that_cannot_be_written_is_said_at_once(perfcli: Any) -> None:
    result = perfcli(*SPILLS, *bad("online_softmax=false"), "--json", "nowhere/out.json")
    assert result.code == 2
    assert "can't write nowhere/out.json: there is no folder nowhere" in result.complaint
    assert not stored()


def test_nothing_differs(perfcli: Any) -> None:
    result = perfcli(*SPILLS, *bad(f"{MAX_READS}=10"))
    assert result.code == 2
    assert "nothing differs between the good and the bad side" in result.complaint


def test_direction_is_of_the_catalogue(perfcli: Any) -> None:
    result = perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"), "--direction", "improve")
    assert (result.code, "--direction is for the catalogue" in result.complaint) == (2, True)
    result = perfcli(*SPILLS, "--direction", "sideways")
    assert (result.code, "improve or worsen" in result.complaint) == (2, True)


def test_steps_of_scripts_are_not_timed(perfcli: Any) -> None:
    Path("train.py").write_text("import torch\nf = torch.compile(abs)\nf(1)\n")
    result = perfcli("bisect-config", "train.py --n 3", "-m", "time", "--device", "cpu")
    assert result.code == 2
    assert "steps of scripts are not timed: estimated-time" in result.complaint
    result = perfcli("bisect-config", "train.py --n 3", "-m", "spills", *bad(f"{MAX_READS}=1000"))
    assert f"to blame: {MAX_READS}=1000" in result.out
    assert "perfcli compare 'train.py --n 3' " in result.out


def test_no_variant_compiles(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "compile:all")
    result = perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"))
    assert result.code == 2
    assert result.complaint.startswith("perfcli: neither the good nor the bad side compiles: ")
    assert perfcli(*SPILLS).code == 2


def test_one_end_does_not_compile(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"compile:{MAX_READS}")
    result = perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"))
    assert result.code == 2
    assert result.complaint.startswith("perfcli: the bad side does not compile: Inductor could")


@pytest.mark.parametrize(("failure", "why"), [("compile", "no lowering"), ("killed", "signal 9")])
def test_a_change_without_an_answer_is_named(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch, failure: str, why: str
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"{failure}:online_softmax")
    result = perfcli(*SPILLS, "--json", "out.json")
    assert result.code == 0
    found = document()
    assert '{"online_softmax": false}' in found["failures"]
    assert why in found["failures"]['{"online_softmax": false}']
    assert found["cost"]["failed"] == len(found["failures"])
    assert "without an answer" in result.out


# --- limits and resuming -----------------------------------------------------------------------


def test_a_limit_and_going_on(perfcli: Any) -> None:
    asked = [*SPILLS, *bad(*HARMLESS, f"{MAX_READS}=1000"), "--json", "out.json"]
    result = perfcli(*asked, "--max-runs", "3")
    assert result.code == 3
    first = document()
    assert first["stopped"] == "after 3 runs (--max-runs)"
    assert f"--resume {first['id']} goes on" in result.out
    # Both ends compiled to the end would outlast what is left.
    assert "the two ends" not in result.out
    again = perfcli(*asked, "--resume", first["id"], "--no-flip")
    assert again.code == 0
    whole = document()
    assert whole["id"] == first["id"]
    assert whole["cost"]["compiled"] + 3 == compiled_at_once(perfcli, asked)


def compiled_at_once(perfcli: Any, asked: list[str]) -> int:
    perfcli(*asked, "--no-flip")
    found: int = document()["cost"]["compiled"]
    return found


def test_an_interrupted_search_is_kept(perfcli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [*SPILLS, *bad(*HARMLESS, f"{MAX_READS}=1000"), "--json", "out.json"]
    monkeypatch.setenv("PERFCLI_FAKE", "interrupt:3")
    result = perfcli(*asked)
    assert result.code == 130
    found = document()
    assert found["stopped"] == "interrupted"
    assert len(found["suspects"]) <= 4
    (path,) = stored()
    assert len(json.loads(path.read_text())["tests"]) == 3
    monkeypatch.setenv("PERFCLI_FAKE", "1")
    assert perfcli(*asked, "--resume", path.stem).code == 0


def test_only_searches_that_can_be_resumed_are_named(perfcli: Any) -> None:
    folder = Path(".perfcli/bisect")
    folder.mkdir(parents=True)
    for name in ("of-0123456789abcdef", "261123-000000-aaaa"):
        (folder / f"{name}.json").touch()
    asked = ("bisect-config", "softmax", "-m", "loads", *bad(f"{MAX_READS}=1000"))
    told = perfcli(*asked, "--resume", "zz").complaint
    assert told == "perfcli: no stored search 'zz': there are 261123-000000-aaaa"


def test_a_search_of_something_else_is_not_resumed(perfcli: Any) -> None:
    perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"))
    (path,) = stored()
    other = ("bisect-config", "gqa-transformer", "-p", "layers=2", "-m", "spills")
    result = perfcli(*other, *bad(f"{MAX_READS}=1000"), "--resume", path.stem)
    assert result.code == 4
    assert "is another search (parameter layers 3 there, 2 here): search" in result.complaint
    result = perfcli("bisect-config", "softmax", "-m", "loads", "--resume", str(path))
    assert result.code == 4
    assert "scenario gqa-transformer there, softmax here" in result.complaint
    assert "target" not in result.complaint


SPILLS_OF_MODEL = ("bisect-config", "model.py:build", "-j", "1", "-m", "spills")


@pytest.fixture
def imports_a_helper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Two files of the user: model.py, and helper.py, which it imports."""
    helper = tmp_path / "helper.py"
    helper.write_text("WIDTH = 1\n")
    (tmp_path / "model.py").write_text("from helper import WIDTH\ndef build(): return WIDTH\n")

    def made_up(request: CompileRequest) -> Bundle:
        bundle = made_up_run.make_up_run(request)
        digest = hashlib.sha256(helper.read_bytes()).hexdigest()
        return replace(bundle, run=replace(bundle.run, sources={str(helper): digest}))

    monkeypatch.setattr(executor, "make_up_run", made_up)
    return helper


def test_what_an_edited_import_gave_is_not_reused(perfcli: Any, imports_a_helper: Path) -> None:
    asked = (*SPILLS_OF_MODEL, *bad(f"{MAX_READS}=1000", "online_softmax=false"))
    assert perfcli(*asked).code == 0
    (path,) = stored()
    again = perfcli(*asked, "--resume", path.stem, "--json", "out.json")
    assert (again.code, document()["cost"]["compiled"]) == (0, 0)
    imports_a_helper.write_text("WIDTH = 2\n")
    result = perfcli(*asked, "--resume", path.stem)
    assert result.code == 4
    assert f"{imports_a_helper} was edited after the search " in result.complaint
    assert "search anew without --resume" in result.complaint


@pytest.mark.torch
def test_an_import_that_torch_compiled_was_edited(
    perfcli: Any, tmp_path: Path, warm_workers: None, one_template: None
) -> None:
    helper = tmp_path / "helper_of_resume.py"
    helper.write_text("def combine(x):\n    return x.sin()\n")
    Path("model.py").write_text(
        "import torch\nfrom helper_of_resume import combine\n\n\n"
        "def f():\n    return combine, (torch.zeros(64),)\n"
    )
    loads = ("bisect-config", "model.py:f", "-m", "loads", "-j", "1")
    # Read while code is generated: stopped after one of the two, nothing else is compiled.
    asked = (*loads, *bad("triton.max_tiles=1"))
    result = perfcli(*asked, "--max-runs", "1")
    assert result.code == 3
    (path,) = stored()
    assert str(helper) in json.loads(path.read_text())["sources"], result.err
    helper.write_text("def combine(x):\n    return x.sin() + x.flip(0)\n")
    result = perfcli(*asked, "--resume", path.stem)
    assert (result.code, "helper_of_resume.py was edited" in result.complaint) == (4, True)


def test_an_import_edited_during_the_search_is_not_reused(
    perfcli: Any, imports_a_helper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up, edited = vars(executor)["make_up_run"], iter(range(100))

    def edit(request: CompileRequest) -> Bundle:
        imports_a_helper.write_text(f"WIDTH = {min(next(edited), 1)}\n")
        bundle: Bundle = made_up(request)
        return bundle

    monkeypatch.setattr(executor, "make_up_run", edit)
    asked = (*SPILLS_OF_MODEL, *bad(f"{MAX_READS}=1000", "online_softmax=false"))
    perfcli(*asked)
    (path,) = stored()
    result = perfcli(*asked, "--resume", path.stem)
    assert (result.code, "helper.py was edited" in result.complaint) == (4, True)


def test_an_edited_model_is_another_search(perfcli: Any) -> None:
    Path("model.py").write_text("def build(): return 1\n")
    asked = (*SPILLS_OF_MODEL, *bad(f"{MAX_READS}=1000"))
    assert perfcli(*asked).code == 0
    (path,) = stored()
    Path("model.py").write_text("def build(): return 2\n")
    result = perfcli(*asked, "--resume", path.stem)
    assert result.code == 4
    assert "is another search (file " in result.complaint


def test_a_variable_of_the_machine_is_part_of_a_search(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", "/usr/local/cuda-12")
    perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"))
    (path,) = stored()
    monkeypatch.setenv("CUDA_HOME", "/usr/local/cuda-13")
    result = perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"), "--resume", path.stem)
    assert result.code == 4
    assert (
        "is another search (variable CUDA HOME /usr/local/cuda-12 there, /usr/local/cuda-13 here)"
        in result.complaint
    )


def test_another_build_of_torch_is_another_search(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"))
    (path,) = stored()
    interpreter = executor.fake_interpreter

    def rebuilt(python: str | None = None) -> Interpreter:
        return replace(interpreter(python), distributions="other wheels")

    monkeypatch.setattr(executor, "fake_interpreter", rebuilt)
    result = perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"), "--resume", path.stem)
    assert result.code == 4
    assert "(distributions fake there, other wheels here)" in result.complaint


def test_what_is_no_search_is_not_resumed(perfcli: Any) -> None:
    Path("strange.json").write_text('{"perfcli": "comparison"}')
    result = perfcli(*SPILLS, "--resume", "strange.json")
    assert (result.code, "is no search of bisect-config" in result.complaint) == (2, True)
    result = perfcli(*SPILLS, "--resume", "260101-000000-none")
    assert (result.code, "no stored search" in result.complaint) == (2, True)


def test_another_metric_goes_on_with_the_same_code(perfcli: Any) -> None:
    perfcli(*SPILLS, *bad(f"{MAX_READS}=1000"), "--no-flip")
    (path,) = stored()
    asked = [*BISECT, "-m", "loads", *good(f"{MAX_READS}=1000"), *bad(f"{MIX_ORDER}=false")]
    result = perfcli(*asked, "--resume", path.stem, "--json", "out.json")
    assert result.code == 0, result.err


def test_the_estimated_time_is_bisected_without_a_device(perfcli: Any) -> None:
    result = perfcli(
        *(*BISECT, "-m", "estimated-time", "--target", "h200"),
        *bad(f"{MIX_ORDER}=false", *HARMLESS),
    )
    assert result.code == 0
    assert f"to blame: {MIX_ORDER}=false" in result.out
