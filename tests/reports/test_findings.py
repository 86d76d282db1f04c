"""How findings look, against golden files; ``PERFCLI_UPDATE_GOLDEN=1`` writes them anew."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest
from golden import check, screen, shown
from handmade import kernel, run

from perfcli.diff.metrics import _change
from perfcli.model import Comparison, Cure, ExternCall, Finding, Origin, Run, Trial, Variant

LIMIT = "triton.mix_order_reduction_max_reads"
FUSED = "triton_per_fused__to_copy__unsafe_view_add_div_expand_mul_pow_select_sum_view_17"
CURE = Cure({LIMIT: 10}, "keeps reductions with more reads apart")
NONE_AT_ALL = Cure({"triton.mix_order_reduction": False}, "no mix-order kernels")
DYNAMO = Cure({"dynamo.capture_scalar_outputs": True}, "captures what item() returns")
PLAIN = Cure({"triton.persistent_reductions": False})


def made() -> Run:
    kernels = [kernel("triton_poi_fused_add_0"), kernel(FUSED), kernel("triton_red_fused_sum_2")]
    return run(kernels, id="head-id", variant=Variant(f"{LIMIT}=1000"))


def findings(tried: bool = False) -> tuple[Finding, ...]:
    over_fused = Finding(
        "PC103",
        "error",
        f"{FUSED} fuses 17 reads into one mix-order pass and spills 92 words per thread",
        kernels=(1,),
        evidence=("17 reads, torch's limit is 10", "255 registers, 92 STL and 92 LDL"),
        advice="keep Inductor's read limit; what the fusion saves in bytes the spills cost in time",
        cures=(CURE, NONE_AT_ALL, PLAIN),
        metric="spilled_words",
        amount=92,
        origin=Origin(
            "sum_7", "aten.sum", "", (48,), "/home/me/project/models/gpt.py:31", "return x * self.w"
        ),
        source_lines={
            "43": "        tmp1 = tl.load(in_ptr1 + (r0_1 + 512*x0), None, "
            "eviction_policy='evict_first').to(tl.float32)",
            "112": "        tmp9 = tl.exp(tmp8)",
        },
    )
    spills = Finding(
        "PC101",
        "warning",
        f"{FUSED} spills 92 words per thread",
        kernels=(1,),
        evidence=("368 B of stack", "175 instructions in loops"),
        advice="fuse less",
        cures=(CURE,),
        metric="spilled_words",
        amount=92,
        explained_by="PC103",
    )
    breaks = Finding(
        "PC403",
        "info",
        "Dynamo gave up 12 times: Unsupported method call",
        evidence=("12 × Tensor.item()",),
        cures=(DYNAMO,),
        subject="item",
    )
    several = Finding(
        "PC104", "info", "2 kernels have few blocks", kernels=(0, 2), evidence=("12.5 %",)
    )
    found = (over_fused, spills, several, breaks)
    return tuple(map(_tried, found)) if tried else found


def _tried(finding: Finding) -> Finding:
    moved = _change("bytes_moved", 22.2e9, 23.82e9)
    swept = _change("bytes_swept", 22.2e9, 23.82e9)
    bound = _change("lower_bound_seconds", 6.63e-3, 7.11e-3)
    spilled = _change("spilled_words", 94, 2)
    memory = _change("peak_memory_bytes", 7.9e9, 8.1e9)
    costs = (spilled, moved, swept, bound)
    results = {
        LIMIT: Trial(CURE, "helps at a cost", 92, 2, costs),
        "triton.mix_order_reduction": Trial(
            NONE_AT_ALL, "helps at a cost", 92, 0, (*costs, memory)
        ),
        "triton.persistent_reductions": Trial(
            PLAIN, "does not help", 92, 92, reason="the same kernels are generated"
        ),
        "dynamo.capture_scalar_outputs": Trial(DYNAMO, "helps"),
    }
    return replace(finding, trials=tuple(results[next(iter(c.options))] for c in finding.cures))


def compared(tried: bool = True) -> Comparison:
    """New, worse, gone, better and the same."""
    appearances = ("new", "worse", "", "better")
    found = [
        replace(f, appearance=appearance)  # type: ignore[arg-type]
        for f, appearance in zip(findings(tried), appearances, strict=True)
    ]
    found.insert(3, replace(findings()[1], appearance="gone", on_base=True, severity="error"))
    found.append(replace(findings()[3], appearance="same"))
    base = replace(made(), id="base-id")
    return Comparison(base, made(), (), (), "worse", "x", (), tuple(found))


def of_comparison(width: int, colour: bool = False) -> str:
    places = [("base-id", ""), ("head-id", "")]
    text = shown(screen().comparison(compared(), places), width, colour)
    start = text.index("Findings")
    return text[start - text[:start][::-1].index("\n") :]


@pytest.mark.parametrize("width", [60, 100, 160])
def test_an_explanation(width: int) -> None:
    text = shown(screen().explanation(made(), findings(), "head-id"), width)
    check(f"explanation_{width}.txt", text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 100, 160])
def test_those_of_a_comparison(width: int) -> None:
    text = of_comparison(width)
    check(f"findings_{width}.txt", text)
    findings, _, _ = text.partition("2 findings on both sides")
    wrapped = [line for line in findings.splitlines() if not to_paste(line)]
    assert max(map(len, wrapped)) <= width
    assert findings.count(f'torch.compile(model, options={{"{LIMIT}": 10}})\n') == 1


def to_paste(line: str) -> bool:
    """Such a line is not wrapped."""
    return line.lstrip().startswith("to apply: ")


def test_colours() -> None:
    check("findings_colours.txt", of_comparison(100, colour=True))


@pytest.mark.parametrize("width", range(40, 200, 7))
def test_no_width_breaks_them(width: int) -> None:
    for tried in (False, True):
        text = shown(screen().explanation(made(), findings(tried)), width)
        words = max(len(word) for word in text.split())
        wrapped = [line for line in text.splitlines() if not to_paste(line)]
        assert max(map(len, wrapped)) <= max(width, words + 8)


def test_a_kernels_own() -> None:
    text = shown(screen().kernel_findings(made(), findings()[:2]))
    assert text.startswith("\nFindings\nerror PC103  1 triton_per_")
    assert "    hence warning PC101  it spills 92 words per thread\n" in text
    assert "368 B of stack" not in text


def of_run(*found: Finding) -> list[str]:
    return shown(screen().explanation(made(), found)).splitlines()[4:]


def test_a_consequence_stands_below_its_cause_even_if_it_is_graver() -> None:
    cause, spills = findings()[:2]
    lines = of_run(replace(spills, severity="error"), replace(cause, severity="warning"))
    assert lines[0].startswith("warning PC103  1 triton_per_")
    assert lines.count("    hence error PC101  it spills 92 words per thread") == 1


def test_a_finding_is_no_consequence_of_what_is_not_shown_with_it() -> None:
    cause, spills = findings()[:2]
    elsewhere = replace(cause, kernels=(0,))
    for shown_before in ((), (elsewhere,)):
        lines = of_run(*shown_before, spills)
        start = next(n for n, line in enumerate(lines) if line.startswith("warning PC101  1 "))
        assert lines[start + 1] == "    368 B of stack"


def test_findings_that_explain_each_other_are_both_shown() -> None:
    cause, spills = findings()[:2]
    text = "\n".join(of_run(replace(cause, explained_by="PC101"), spills))
    assert "PC103  1 triton_per_" in text
    assert "warning PC101  it spills 92 words per thread\n    368 B of stack" in text


def test_a_consequence_says_what_its_cause_does_not() -> None:
    cause, spills = findings()[:2]
    other = Cure({"max_autotune": True})
    (line,) = [x for x in of_run(cause, replace(spills, cures=(CURE, other))) if "hence" in x]
    assert line.endswith("it spills 92 words per thread; cure max_autotune=true")
    tried, left = findings(tried=True)[:2]
    useless = Trial(CURE, "does not help", 92, 91)
    text = " ".join(" ".join(of_run(tried, replace(left, trials=(useless,)))).split())
    assert f"; tried {LIMIT}=10: does not help: spilled words 92 → 91 …/models" in text


def test_the_second_finding_of_a_kernel_does_not_name_it_again() -> None:
    cause, spills = findings()[:2]
    lines = of_run(cause, replace(spills, explained_by=""))
    assert "warning PC101  it spills 92 words per thread" in lines


def test_evidence_about_a_line_stands_beside_it() -> None:
    spills = replace(
        findings()[1],
        evidence=("line 7: 40 STL, 0 LDL",),
        source_lines={"7": "    tmp1 = tl.exp(tmp0)", "9": "    tmp2 = tmp1"},
    )
    lines = of_run(spills)
    assert "    line 7: 40 STL, 0 LDL  tmp1 = tl.exp(tmp0)" in lines
    assert "        9  tmp2 = tmp1" in lines
    assert sum("tl.exp" in line for line in lines) == 1


def test_only_a_comparison_without_findings_has_no_heading() -> None:
    text = shown(screen().comparison(replace(compared(), findings=())))
    assert "Findings" not in text
    assert "head-id" not in of_comparison(100).replace("perfcli explain head-id", "")


def test_runs_that_are_not_stored_have_no_command() -> None:
    text = shown(screen().comparison(compared(), [("", ""), ("", "")]))
    assert "2 findings on both sides, 1 of them better\n" in text
    assert "perfcli explain" not in text
    alone = shown(screen().explanation(made(), findings()))
    assert "inspect-kernel" not in alone
    assert alone.endswith("Look closer\nperfcli rules PC103\n")


def test_an_option_that_perfcli_brings_is_applied_by_perfcli() -> None:
    trial = Trial(CURE, "helps", 92, 0, brought=(LIMIT,))
    finding = replace(findings()[0], trials=(trial,))
    text = " ".join(shown(screen().explanation(made(), [finding])).split())
    assert (
        "to apply: from perfcli.compile.patches.installed import install; "
        "install('triton.mix_order_reduction_max_reads', 10)"
    ) in text
    assert "torch.compile(" not in text


def test_a_run_without_kernels_is_not_one_without_findings() -> None:
    nothing = run([], externs=(ExternCall("aten.mm", "", 1),))
    for brief in (False, True):
        text = shown(screen().explanation(nothing, (), brief=brief))
        assert text.splitlines()[0] == (
            "torch.compile made no kernels: no graph was compiled; only library "
            "operators (1 × aten.mm)"
        )
    both = shown(screen().explanation(nothing, findings()[3:])).splitlines()
    assert both[0] == "1 note in 0 kernels"
    assert both[1].startswith("torch.compile made no kernels")


def test_without_findings_the_kernels_that_move_most_are_shown() -> None:
    sizes = (10**6, 4 * 10**6, 10**5, 2 * 10**6)
    kernels = [kernel(f"triton_{n}", read=r, written=0) for n, r in enumerate(sizes)]
    kernels[0] = replace(kernels[0], launches=3)
    doubt = Finding("PC901", "info", "1 of 4 kernels without known bytes", doubt=True)
    for found in ((), (doubt,)):
        lines = shown(screen().explanation(run(kernels), found, "head-id"), 60).splitlines()
        said = "generated kernels: 6 launches per step, 9.1 MB moved, lower-bound time 2.72 µs"
        assert said in " ".join(lines)
        rows = [line.split() for line in lines if "triton_" in line]
        assert rows == [
            ["1", "triton_1", "4", "MB", "44", "%"],
            ["0", "triton_0", "3", "MB", "33", "%"],
            ["3", "triton_3", "2", "MB", "22", "%"],
        ]
        closer = lines.index("Look closer")
        assert lines[closer + 1 : closer + 4] == [
            f"perfcli inspect-kernel head-id {number}" for number in (1, 0, 3)
        ]
    whole = shown(screen().explanation(made(), findings(), "head-id"))
    assert "launches per step" not in whole


def test_without_bytes_only_the_launches_are_known() -> None:
    unknown = [kernel("cpp_0", read=None, written=None, registers=None)]
    text = shown(screen().explanation(run(unknown), (), "head-id"))
    assert "\ngenerated kernels: 1 launch per step\n" in text
    assert "bytes" not in text


def test_advice_is_repeated_where_no_kernel_ties_findings_together() -> None:
    rows = import_module("perfcli.reports._rows.findings").list_rows
    one = Finding("PC402", "warning", "sum falls back", advice="write it in another way")
    other = replace(one, headline="sort falls back")
    assert [row.advice for row in rows([one, other], made())] == [one.advice] * 2
    about = replace(one, kernels=(0,))
    shown = rows([about, replace(about, headline="more")], made())
    assert [row.advice for row in shown] == [one.advice, ""]


def test_that_there_is_nothing_to_try_is_said() -> None:
    says = "no finding proposes a change to try"
    without = [replace(finding, cures=()) for finding in findings()]
    for found in (without, []):
        assert says in shown(screen().explanation(made(), found, tried=True))
        assert says in shown(screen().kernel_findings(made(), found, tried=True))
        assert says not in shown(screen().explanation(made(), found))
    assert says not in shown(screen().explanation(made(), findings(), tried=True))
    cures = replace(findings()[0], cures=(CURE,), appearance="same")
    of_both = replace(compared(), findings=(cures,))
    assert says in shown(screen().comparison(of_both, tried=True))
    new = replace(compared(), findings=(replace(cures, appearance="new"),))
    assert says not in shown(screen().comparison(new, tried=True))


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("bytes_moved", "bytes read twice 134 MB → 0 B"),
        ("bytes_swept", "bytes swept again 134 MB → 0 B"),
        ("spilled_words", "spilled words 134,000,000 → 0"),
    ],
)
def test_what_a_trial_counts_is_what_can_be_avoided(metric: str, said: str) -> None:
    """A kernel that reads 134 MB twice still moves bytes once it reads them once."""
    trial = Trial(Cure({"max_fusion_size": 128}), "helps", before=134e6, after=0.0)
    write_trial = import_module("perfcli.reports._screen.cures").write_trial
    assert write_trial(trial, metric) == (
        f"tried max_fusion_size=128: helps: {said}, time not measured"
    )
