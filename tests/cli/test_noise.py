"""perfcli noise with made-up workers: what is shown, what is stored, and the exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfcli.machine import driver, targets
from perfcli.machine import noise_floors as floors
from perfcli.stats.floor import bound
from perfcli.storing import timings

Plan = Callable[[str], None]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """What the made-up workers do."""
    return lambda text: monkeypatch.setenv("PERFCLI_FAKE", f"1;{text}")


@pytest.fixture
def noise(perfcli: Any, planned: Plan) -> Any:
    planned("noise=0.003")
    return lambda *argv: perfcli("noise", "rmsnorm", "--device", "cpu", "--seed", "1", *argv)


def test_identical_variants_are_the_same_and_give_a_floor(noise: Any) -> None:
    result = noise()
    assert result.code == 0
    assert result.out.splitlines()[2].split("  ")[0] == "pair"
    assert result.out.count("SAME") == 3
    ((path, known),) = floors.load_floors()
    assert known is not None
    (floor,) = known.floors
    shown = result.out.replace("\n", " ")
    assert f"noise floor {floor.relative * 100:.3g} %: 99 % sure" in shown
    assert path.name in result.out.replace("\n", "")
    assert floor.relative == bound([pair.ratio for pair in floor.pairs if pair.ratio])
    assert len({pair.ratio for pair in floor.pairs}) == 3
    assert [pair.seed for pair in floor.pairs] == [1, 2, 3]


def test_both_clocks_of_a_gpu_have_a_floor(
    perfcli: Any, planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "device_count", lambda: 1)
    monkeypatch.setattr(targets, "this_gpu", lambda: targets.get("h100"))
    planned("noise=0.002;busy=0.4")
    result = perfcli("noise", "rmsnorm", "--device", "cuda", "--pairs", "2", "--json", "n.json")
    assert result.code == 0
    rows = [line.split()[:2] for line in result.out.splitlines() if line[:2] in ("1 ", "2 ")]
    assert rows == [["1", "device"], ["1", "step"], ["2", "device"], ["2", "step"]]
    document = json.loads(Path("n.json").read_text())
    ratios = [pair["device"]["ratio"] for pair in document["pairs"]]
    assert document["device_floor"] == bound(ratios)
    assert document["floor"] == bound([pair["step"]["ratio"] for pair in document["pairs"]])
    ((_, known),) = floors.load_floors()
    assert known is not None
    assert known.floors[0].device_relative == document["device_floor"]
    planted = ("noise", "rmsnorm", "--device", "cuda", "--pairs", "1", "--slow-head", "3")
    assert perfcli(*planted).code == 1
    assert perfcli(*planted, "--time", "step").code == 1


def test_json_has_each_pair_and_the_floor(noise: Any) -> None:
    document = json.loads(noise("--pairs", "4", "--json", "-").out)
    ((_, known),) = floors.load_floors()
    assert document["perfcli"] == "noise"
    assert known is not None
    assert document["floor"] == known.floors[0].relative
    assert document["class"] == known.name
    assert document["planted"] is None
    assert len(document["pairs"]) == 4
    for pair in document["pairs"]:
        assert pair["low"] < pair["ratio"] < pair["high"]
        assert pair["verdict"] == "same"
        assert pair["rounds"] >= 30


def test_json_has_the_preset_that_was_typed(noise: Any) -> None:
    assert json.loads(noise("--json", "-").out)["preset"] is None
    document = json.loads(noise("--preset", "smoke", "--json", "-").out)
    assert document["preset"] == "smoke"
    assert document["params"]["rows"] < 32768


def test_a_floor_of_uncertain_pairs_says_so(noise: Any, planned: Plan) -> None:
    assert noise().err.count("warning") == 0
    planned("noise=0.04")
    result = noise("--budget", "2", "--json", "noise.json")
    ((_, known),) = floors.load_floors()
    assert known is not None
    (floor,) = known.floors
    unsure = sum(pair.verdict == "unsure" for pair in floor.pairs)
    assert unsure > 0
    warning = (
        f"warning: the floor of {floor.relative * 100:.3g} % is high because {unsure} of 3 pairs "
        "are uncertain (UNSURE): a longer --budget (2 s now) or a quieter machine makes them "
        "surer; perfcli noise --forget rmsnorm removes it"
    )
    assert warning in result.err.splitlines()
    # Also where nothing but the result is wanted.
    assert "warning: the floor of " in noise("--budget", "2", "--quiet").err
    # One pair stores no floor, however uncertain.
    assert "warning: the floor" not in noise("--budget", "2", "--pairs", "1").err


def test_pairs_that_are_all_uncertain_store_no_floor(noise: Any, planned: Plan) -> None:
    planned("noise=0.3")
    result = noise("--budget", "0.1", "--pairs", "2", "--json", "noise.json")
    assert result.code == 3
    assert result.out.count("UNSURE") == 3
    last = " ".join(result.out.split()).partition("no floor is stored: ")[2]
    assert last == (
        "every pair is UNSURE; a longer --budget (0.1 s now) or a quieter machine makes them surer"
    )
    document = json.loads(Path("noise.json").read_text())
    assert document["floor"] is document["stored"] is None
    assert floors.load_floors() == []
    assert "warning" not in result.err


def test_raw_values_of_each_pair_are_kept(noise: Any) -> None:
    pairs = json.loads(noise("--pairs", "2", "--json", "-").out)["pairs"]
    for pair in pairs:
        raw = timings.read(timings.FOLDER / f"{pair['measurement']}.jsonl")
        assert len([r for r in raw.rounds if r.kind == "step"]) == pair["rounds"]
        assert raw.stopped == pair["stopped"] == "precise enough"
        assert raw.seed == pair["seed"]


def test_a_planted_change_is_found_and_nothing_is_stored(noise: Any) -> None:
    result = noise("--slow-head", "3", "--pairs", "2", "--json", "noise.json")
    assert result.code == 1
    assert "planted +3 % in the head, estimated +" in result.out
    assert result.out.rstrip().endswith("SLOWER")
    document = json.loads(Path("noise.json").read_text())
    assert document["planted"] == pytest.approx(0.03)
    assert document["floor"] is document["stored"] is None
    for pair in document["pairs"]:
        assert pair["verdict"] == "slower"
        assert pair["ratio"] == pytest.approx(1.03, abs=0.004)
    assert floors.load_floors() == []


def test_a_planted_change_below_the_floor_is_not_called_slower(noise: Any) -> None:
    result = noise("--slow-head", "1.5", "--pairs", "1")
    assert result.code == 3
    assert "UNSURE" in result.out
    assert "pair 1 is unsure:" in result.out
    assert noise("--slow-head", "0.2", "--pairs", "1").code == 0


def test_the_stored_floor_decides_from_then_on(noise: Any, planned: Plan) -> None:
    assert noise("--slow-head", "3", "--pairs", "1").code == 1
    planned("noise=0.04")
    assert noise("--budget", "2").code == 0
    ((_, known),) = floors.load_floors()
    assert known is not None
    assert known.floors[0].relative > 0.03
    planned("noise=0.003")
    result = noise("--slow-head", "3", "--pairs", "1", "--json", "-")
    assert json.loads(result.out)["used_floor"]["relative"] == known.floors[0].relative
    # No more SLOWER, but not SAME either: two sides 3 % apart never are.
    assert result.code == 3


def test_a_high_floor_ends_no_pair_early(noise: Any, planned: Plan) -> None:
    planned("noise=0.04")
    noise("--budget", "2")
    first = json.loads(noise("--budget", "2", "--json", "-").out)
    assert {pair["stopped"] for pair in first["pairs"]} == {"budget spent"}


def test_one_pair_proves_no_floor(noise: Any) -> None:
    result = noise("--pairs", "1")
    assert result.code == 0
    assert "no floor is stored: one pair" in result.out
    assert floors.load_floors() == []


def test_the_same_seed_gives_the_same_result(noise: Any) -> None:
    def ratios(*argv: str) -> list[float]:
        document = json.loads(noise(*argv, "--json", "-").out)
        return [pair["ratio"] for pair in document["pairs"]]

    assert ratios() == ratios()


def test_quiet_is_the_result_alone(noise: Any) -> None:
    result = noise("--quiet")
    assert result.err == ""
    assert result.out.startswith("noise floor ")


def test_list_and_forget(noise: Any, perfcli: Any) -> None:
    assert "no noise floors in " in perfcli("noise", "--show").out
    noise()
    perfcli("noise", "softmax", "--device", "cpu")
    shown = perfcli("noise", "--show")
    assert shown.code == 0
    assert [line.split()[2] for line in shown.out.splitlines()[1:]] == ["rmsnorm", "softmax"]
    document = json.loads(perfcli("noise", "--show", "--json", "-").out)
    assert len(document["files"][0]["holds"]["floors"]) == 2
    assert "1 noise floor of softmax removed" in perfcli("noise", "softmax", "--forget").out
    assert len(perfcli("noise", "--show").out.splitlines()) == 2
    assert "1 noise floor removed" in perfcli("noise", "--forget").out
    assert floors.load_floors() == []


def test_ctrl_c_shows_what_is_there_and_stores_no_floor(noise: Any, planned: Plan) -> None:
    planned("noise=0.003;fail=interrupt:head:10")
    result = noise("--json", "noise.json")
    assert result.code == 130
    assert result.complaint == "perfcli: interrupted after 0 of 3 pairs; no floor is stored"
    assert "1 pair of 3: no floor is stored" in result.out
    (pair,) = json.loads(Path("noise.json").read_text())["pairs"]
    assert (pair["stopped"], pair["rounds"]) == ("interrupted", 7)
    assert floors.load_floors() == []
    assert len(list(timings.FOLDER.iterdir())) == 1


def test_ctrl_c_before_anything_was_measured(noise: Any, planned: Plan) -> None:
    planned("fail=interrupt:base:prepare")
    result = noise()
    assert result.code == 130
    assert result.out == ""
    assert list(timings.FOLDER.iterdir()) == []


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        ("dies:head:5", 2, "the head's worker was killed by SIGKILL"),
        ("wrong:base:prepare", 1, "the base's outputs are wrong"),
        ("oom:head:prepare", 2, "--preset smoke"),
    ],
)
def test_failures_of_workers(
    noise: Any, planned: Plan, failure: str, code: int, message: str
) -> None:
    planned(f"fail={failure}")
    result = noise()
    assert result.code == code
    assert message in result.complaint
    assert floors.load_floors() == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "what is to be measured?"),
        (["--show", "--forget"], "give one of them"),
        (["nonsense", "--device", "cpu"], "nonsense"),
        (["rmsnorm", "--device", "tpu"], "--device is cuda or cpu"),
        (["rmsnorm", "--device", "cpu", "--threads", "9999"], "--threads 9999: only"),
        (["rmsnorm", "--device", "cpu", "-p", "rows"], "NAME=VALUE"),
    ],
)
def test_what_users_get_wrong(perfcli: Any, planned: Plan, argv: list[str], message: str) -> None:
    planned("")
    result = perfcli("noise", *argv)
    assert result.code == 2
    assert message in result.complaint


@pytest.mark.parametrize("argv", [["--pairs", "0"], ["--slow-head", "-3"], ["--budget", "0"]])
def test_numbers_out_of_range(perfcli: Any, argv: list[str]) -> None:
    assert perfcli("noise", "rmsnorm", *argv).code == 2


def test_without_a_gpu_the_cpu_is_measured(
    perfcli: Any, planned: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfcli.machine.targets.has_gpu", lambda: False)
    planned("noise=0.003")
    document = json.loads(perfcli("noise", "rmsnorm", "--json", "-").out)
    assert (document["device"], document["threads"]) == ("cpu", 1)
    assert len(document["machine"]["cpus"]) == 1


def test_a_floor_that_cannot_be_stored_is_an_error(noise: Any, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    result = noise()
    assert result.code == 2
    assert "can't write" in result.complaint
