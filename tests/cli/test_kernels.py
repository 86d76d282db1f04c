"""``perfcli kernels``: the list, facts, check and bench, with made-up workers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from perfcli.machine import targets

CASES = "1,017 cases"
ROW_SUM = str(Path(__file__).parents[1] / "fixtures" / "kernels" / "row_sum.py")


def plan(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", f"1;{planted}")


# --- show ---------------------------------------------------------------------------------------


def test_the_list_names_every_family_with_operations_and_variants(perfcli: Any) -> None:
    result = perfcli("kernels")
    assert result.code == 0
    assert re.search(
        r"^column-sum +\S.*\n +computes column-sum\n +by pointers, tma$", result.out, re.M
    )


def test_one_family_has_formulas_variants_launches_and_reasons(perfcli: Any) -> None:
    result = perfcli("kernels", ROW_SUM)
    assert result.code == 0
    for expected in (
        "sum  y[i] = Σ_j x[i, j]",
        "one-row  The whole row in one tile.",
        "11 cases to check, 2 problems to time",
        "h100  NVIDIA H100 80GB HBM3, sm_90",
        "sum 32768 × 2048 bfloat16 · one-row",
        "  one-row 2048",
        "sum 4096 × 65536 float32 · looped",
    ):
        assert expected in result.out
    row = next(line for line in result.out.splitlines() if line.startswith("  row_sum "))
    assert row.split() == ["row_sum", "4", "32", "0", "16", "B", "100", "%", "2", "of", "3"]


def test_targets_are_shown_one_after_the_other(perfcli: Any) -> None:
    result = perfcli("kernels", ROW_SUM, "--target", "a100", "--target", "gfx942")
    assert re.findall(r"sm_\d+|gfx\d+", result.out) == ["sm_80", "gfx942"]
    result = perfcli("kernels", "--target", "a100")
    assert "column-sum" in result.out
    assert "sm_80" in result.out


def test_parameters_make_problems(perfcli: Any) -> None:
    result = perfcli(
        "kernels",
        ROW_SUM,
        "-p",
        "rows=8",
        "-p",
        "columns=1_024,4096",
        "-p",
        "dtype=fp16",
        "--json",
        "-",
    )
    document = json.loads(result.out)
    assert [each["problem"] for each in document["launches"]] == [
        {
            "operation": "sum",
            "rows": 8,
            "columns": columns,
            "dtype": "float16",
            "row_stride": None,
            "settings": {},
        }
        for columns in (1024, 4096)
    ]
    assert document["launches"][0]["plan"]["launches"][0]["constants"] == {"BLOCK": 1024}
    assert document["launches"][0]["compiled"][0]["facts"]["registers"] == 32


def test_settings_have_the_type_that_the_family_gives_them(perfcli: Any) -> None:
    result = perfcli("kernels", "column-sum", "-p", "inputs=7", "-p", "rows=64", "--json", "-")
    settings = [each["problem"]["settings"] for each in json.loads(result.out)["launches"]]
    assert {each["inputs"] for each in settings} == {7}


def test_every_variant_is_shown_once_on_request(perfcli: Any) -> None:
    result = perfcli("kernels", ROW_SUM, "--all-variants")
    assert re.findall(r"^sum (\d+) .* · (\S+)$", result.out, re.M) == [
        ("32768", "one-row"),
        ("32768", "looped"),
        ("4096", "looped"),
    ]


def test_a_variant_that_falls_back_is_said(perfcli: Any) -> None:
    result = perfcli("kernels", ROW_SUM, "--variant", "one_row")
    said = "looped instead of what was asked for (one-row takes up to 32768 columns, not 65536)"
    assert said in " ".join(result.out.split())


def test_spills_and_launches_that_do_not_compile(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, "spill=row_sum")
    result = perfcli("kernels", ROW_SUM)
    assert result.code == 0
    assert re.search(r"^  row_sum +4 +32 +6 ", result.out, re.M)
    plan(monkeypatch, "refuses=row_sum_looped")
    result = perfcli("kernels", ROW_SUM)
    assert result.code == 1
    assert "row_sum_looped does not compile for h100: ValueError: planted" in result.out
    result = perfcli("kernels", ROW_SUM, "--quiet")
    assert result.out == "2 plans, 2 launches: 0 spill, 1 cannot be launched\n"


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["colum-sum"], "no kernel family 'colum-sum': did you mean column-sum?"),
        (
            ["bnch", "column-sum"],
            "kernels bnch: expected check, bench or probe before",
        ),
        (["column-sum", "--target", "h20"], "no target 'h20': did you mean h200 or h100?"),
        (["column-sum", "--variant", "tna"], "column-sum has no variant 'tna': did you mean tma?"),
        (["column-sum", "-p", "row=4"], "column-sum has no parameter 'row': did you mean rows?"),
        (["column-sum", "-p", "rows=-4"], "parameter rows needs a whole number from 0 on"),
        (["column-sum", "-p", "rows"], "a parameter is written NAME=VALUE"),
        (["column-sum", "-p", "inputs=x"], "parameter inputs needs a whole number, not 'x'"),
        (["column-sum", "-p", "inputs=113"], "expected 1 to 112 inputs, found 113"),
        (["column-sum", "-p", "dtype=int8"], "expected a dtype of bfloat16"),
        (["column-sum", "-p", "operation=mean"], "column-sum has no operation 'mean'"),
        (["column-sum", "-p", "row-stride=5"], "a row stride of 5 is less than a row of"),
        (["--case", "nan"], "--case says nothing to kernels"),
        (["-p", "rows=4"], "-p says nothing to the list"),
        (["nowhere.py"], "nowhere.py does not exist"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    perfcli: Any, argv: list[str], complaint: str
) -> None:
    result = perfcli("kernels", *argv)
    assert result.code == 2
    assert complaint in result.complaint.replace("float32, float16, bfloat16", "bfloat16")


# --- check --------------------------------------------------------------------------------------


def test_cases_that_are_right_end_with_0(perfcli: Any) -> None:
    result = perfcli("kernels", "check", ROW_SUM)
    assert result.code == 0
    *_, last = result.out.splitlines()
    assert last == "row-sum: 11 cases through Triton's interpreter, planned for h100: 11 right"
    assert "sum 512 × 760 bfloat16 looped (of 8,192 rows)" in result.out
    assert "no GPU here" in result.err


def test_a_few_cases_of_each_kind_are_run_unless_all_are_asked_for(perfcli: Any) -> None:
    result = perfcli("kernels", "check", "softmax", "--json", "some.json")
    assert result.code == 0
    *_, last = result.out.splitlines()
    found = re.match(rf"softmax: (\d+) of {CASES} through", last)
    assert found is not None
    assert f"softmax: {found[1]} of {CASES}, each operation" in result.err
    assert "--all runs all" in result.err
    every = perfcli("kernels", "check", "softmax", "--all", "--json", "all.json")
    assert every.out.splitlines()[-1].startswith(f"softmax: {CASES} through")
    few, all_cases = (
        json.loads(Path(name).read_text())["families"][0] for name in ("some.json", "all.json")
    )
    assert (few["known_cases"], len(all_cases["cases"])) == (1017, 1017)
    assert 10 < len(few["cases"]) == int(found[1]) < 60

    def traits(cases: Any) -> set[tuple[str, ...]]:
        shown: set[tuple[str, ...]] = set()
        for each in cases:
            case, ran = each["case"], each["checked"]["variant"]
            shown |= {(case["problem"]["operation"], ran), ("data", case["data"])}
            shown |= {("layout", case["layout"]), ("dtype", case["problem"]["dtype"])}
        return shown

    assert traits(few["cases"]) == traits(all_cases["cases"])


def test_cases_that_are_named_are_all_run(perfcli: Any) -> None:
    result = perfcli("kernels", "check", "softmax", "--case", "nan")
    assert f" of {CASES}" not in result.out
    assert "--all" not in result.err
    assert perfcli("kernels", "bench", "softmax", "--all").code == 2


def test_a_wrong_case_is_told_with_place_error_and_tolerance(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, "wrong=3")
    result = perfcli("kernels", "check", ROW_SUM)
    assert result.code == 1
    first, *_ = result.out.splitlines()
    assert first == (
        "WRONG  sum 5 × 1023 float16 nan · one-row: y[3, 17] is 1.5, expected 1, error 1, "
        "tolerance 0.75 (12 of 100 elements)"
    )
    assert result.out.splitlines()[-1].endswith("10 right, 1 wrong")


def test_a_case_that_raises_is_a_failure_and_a_refusal_is_none(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, "failed=0")
    result = perfcli("kernels", "check", ROW_SUM, "--quiet")
    assert result.code == 1
    assert result.out.endswith("planned for h100: 10 right, 1 failed\n")
    assert result.err == ""
    plan(monkeypatch, "refused=0")
    result = perfcli("kernels", "check", ROW_SUM)
    assert result.code == 0
    assert "refused in 1 case: planted" in result.out


@pytest.mark.parametrize(
    ("argv", "count"),
    [
        (["--case", "looped"], 2),
        (["--case", "7x192"], 2),
        (["--case", "7 × 192 looped"], 1),
        (["--case", "nan", "--case", "infinite"], 2),
        (["--variant", "looped"], 11),
        (["-p", "rows=3", "-p", "columns=5,6"], 4),
        (["--target", "mi300x"], 11),
        (["--device", "cpu"], 11),
    ],
)
def test_cases_are_chosen(perfcli: Any, argv: list[str], count: int) -> None:
    result = perfcli("kernels", "check", ROW_SUM, *argv, "--json", "-")
    assert result.code == 0
    (family,) = json.loads(result.out)["families"]
    assert len(family["cases"]) == count


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ([ROW_SUM, "--case", "banana"], "no case of row-sum is like 'banana'"),
        ([ROW_SUM, "--device", "tpu"], "--device is cuda or cpu, not 'tpu'"),
        ([ROW_SUM, "--rounds", "4"], "--rounds says nothing to check"),
        ([ROW_SUM, "--target", "h100", "--target", "a100"], "one --target at a time"),
        ([ROW_SUM, "--device", "cuda", "--target", "h100"], "leave out --target"),
        ([ROW_SUM, "-p", "dtype=int8"], "nothing of row-sum was checked, every case is refused"),
    ],
)
def test_checks_that_cannot_be(perfcli: Any, argv: list[str], complaint: str) -> None:
    result = perfcli("kernels", "check", *argv)
    assert result.code == 2
    assert complaint in result.err.splitlines()[-1]


# --- bench --------------------------------------------------------------------------------------


def test_ours_is_shown_beside_the_copy_and_all_others(perfcli: Any) -> None:
    result = perfcli("kernels", "bench", "column-sum", "-p", "inputs=1", "-p", "columns=4096")
    assert result.code == 0
    # 65536 × 4096 float32 and a row of sums at 4 TB/s, ours 3 % slower
    assert "column-sum 65536 × 4096 float32 inputs=1 · 1.07 GB · 40 rounds" in result.out
    names = re.findall(r"^(\S+).*?[\d.]+ [µm]s +[\d.]+ TB/s", result.out, re.M)
    assert names[:5] == ["copy", "ours", "inductor-max-autotune", "inductor", "eager"]
    shares = dict(re.findall(r"^(copy|ours|eager) .*?([\d.]+) %", result.out, re.M))
    assert float(shares["copy"]) == 100
    assert float(shares["ours"]) == pytest.approx(100 / 1.03, abs=0.2)
    assert float(shares["eager"]) == pytest.approx(40, abs=0.1)
    (best, gain) = re.findall(r"(\S+) \d+ µs +(\+21\.\d+) %", result.out.split("best other")[1])[0]
    assert best == "inductor-max-autotune"
    assert float(gain) == pytest.approx(100 * (1.25 / 1.03 - 1), abs=0.2)


def test_json_has_every_second_and_the_svg_every_bar(perfcli: Any, tmp_path: Path) -> None:
    result = perfcli(
        "kernels", "bench", ROW_SUM, "--all-variants", "--against", "eager", "--rounds", "12",
        "--seed", "5", "--json", "b.json", "--svg", "b.svg",
    )  # fmt: skip
    assert result.code == 0
    document = json.loads((tmp_path / "b.json").read_text())
    assert (document["perfcli"], document["seed"]) == ("kernels-bench", 5)
    first, second = document["problems"]
    assert [c["name"] for c in first["contenders"]] == ["copy", "ours", "looped", "eager"]
    assert [c["name"] for c in second["contenders"]] == ["copy", "ours", "eager"]
    ours = first["contenders"][1]
    assert (ours["variant"], len(ours["seconds"])) == ("one-row", 12)
    assert ours["of_copy"]["low"] <= ours["of_copy"]["ratio"] <= ours["of_copy"]["high"]
    assert first["moved_bytes"] == 32768 * 2048 * 2 + 32768 * 4
    svg = (tmp_path / "b.svg").read_text()
    assert svg.count("<rect") == 1 + 3 + 2
    assert "ours (one-row)" in svg


def test_who_is_missing_is_said_and_the_rest_timed(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, "missing=inductor")
    result = perfcli("kernels", "bench", ROW_SUM, "-p", "rows=64")
    assert result.code == 0
    assert "inductor: inductor is not installed" in result.out


def test_a_worker_that_dies_costs_one_problem(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan(monkeypatch, "dies=0")
    result = perfcli("kernels", "bench", ROW_SUM, "--json", "-")
    assert result.code == 2
    assert "sum 32768 × 2048 bfloat16: the worker was killed by SIGSEGV" in result.err
    document = json.loads(result.out)
    assert len(document["problems"]) == len(document["failures"]) == 1


def test_without_a_gpu_it_is_refused_and_says_what_goes(
    perfcli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PERFCLI_FAKE")
    monkeypatch.setattr(targets, "has_gpu", lambda: False)
    result = perfcli("kernels", "bench", "column-sum")
    assert result.code == 2
    assert "bench needs a GPU, and there is none here: perfcli kernels check" in result.complaint


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--against", "triton"], "there is no contender 'triton'"),
        (["--against", "none", "--against", "eager"], "--against none goes with no other"),
        (["--target", "h100"], "--target says nothing to bench"),
        (["--device", "cpu"], "bench needs a GPU, --device cpu is none"),
        (["--svg", "nowhere/b.svg"], "there is no folder nowhere"),
        (["-p", "dtype=int8"], "row-sum takes"),
    ],
)
def test_benches_that_cannot_be(perfcli: Any, argv: list[str], complaint: str) -> None:
    result = perfcli("kernels", "bench", ROW_SUM, *argv)
    assert result.code == 2
    assert complaint in result.complaint
