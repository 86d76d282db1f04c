"""Hand-made judgements for tests of documents: one comparison, a gate of three checks, and one in
which every name comes from somebody who means harm."""

from __future__ import annotations

from dataclasses import replace

from handmade import ENVIRONMENT, kernel, run

from perfcli.diff.compare import compare
from perfcli.model import (
    Allowance,
    Comparison,
    Cure,
    Finding,
    FindingResult,
    Judged,
    Judgement,
    Limit,
    LimitResult,
    Origin,
    Provenance,
    Rule,
    Run,
    Variant,
)

ROOT = "/home/me/project"
RULES = (
    Rule("PC101", "register spills", "A kernel spills.\n\nWhat it sees: `spills`.\n"),
    Rule("PC403", "graph breaks", "Dynamo gave up.\n"),
)
OPTION = "triton.mix_order_reduction"
HOSTILE = (
    "triton_</script><img src=x onerror=alert(1)>",
    "a|b`c``d\\|e",
    "esc\x1b[31mred\x07",
    "two\nlines\r::error::gotcha",
    "::error file=x::gotcha %0A ##[error]gotcha",
    "@everybody #1 GH-12 :tada: $x$ 0123abcdef https://evil.example",
    "**bold** _it_ ![i](http://evil.example/i.png) [t](javascript:alert(1)) <!-- ",
    "]]><![CDATA[ &amp; &#64;me \"q\" 'q' \ufffe\u202e",
)


def origin(op: str, line: int, module: str = "blocks.0.norm", folder: str = ROOT) -> Origin:
    return Origin(
        f"{op}_{line}", f"aten.{op}", module, (8,), f"{folder}/models/gpt.py:{line}", f"x = {op}(x)"
    )


def sides() -> tuple[Run, Run]:
    """Three kernels: one that begins to spill, one that moves more, one that stays."""
    norm, add, kept = origin("rms_norm", 12), origin("add", 14), origin("gelu", 20, "mlp")
    base = [
        kernel("triton_red_fused_rms_norm_0", origins=(norm,), registers=40),
        kernel("triton_poi_fused_add_1", origins=(add,)),
        kernel("triton_poi_fused_gelu_2", origins=(kept,), text="same"),
    ]
    head = [
        kernel("triton_red_fused_rms_norm_0", origins=(norm,), registers=255, stack=368, text="n"),
        kernel("triton_poi_fused_add_1", origins=(add,), loads=3, read=2000, text="a"),
        kernel("triton_poi_fused_gelu_2", origins=(kept,), text="same"),
    ]
    variant = Variant(f"{OPTION}=true", {OPTION: True})
    return run(base, id="base-id", variant=Variant("default")), run(
        head, id="head-id", variant=variant, environment=replace(ENVIRONMENT, triton="3.9.0")
    )


def spills(kernel_name: str = "triton_red_fused_rms_norm_0", line: int = 12) -> Finding:
    return Finding(
        "PC101",
        "warning",
        f"{kernel_name} spills 92 words per thread",
        kernels=(0,),
        evidence=("255 registers, 368 B stack", "line 43: 92 STL, 92 LDL"),
        advice="try smaller fusions",
        cures=(Cure({OPTION: False}, "no mix-order kernels"),),
        metric="spilled_words",
        amount=92,
        origin=origin("rms_norm", line),
        source_lines={"43": "    tmp1 = tl.load(in_ptr1 + x0)"},
        appearance="new",
    )


def breaks() -> Finding:
    return Finding(
        "PC403",
        "error",
        f"1 graph break: item() in {ROOT}/models/gpt.py",
        evidence=(f"also {ROOT}/models/gpt.py:99  x.item()",),
        origin=Origin("", "", location=f"{ROOT}/models/gpt.py:98", code="if x.item():"),
        subject="item()",
        appearance="new",
    )


def fixed() -> Finding:
    return Finding(
        "PC204", "info", "triton_red_7 is split no more", appearance="gone", on_base=True
    )


def compared() -> Comparison:
    base, head = sides()
    found = (breaks(), spills(), fixed())
    return replace(compare(base, head), findings=found)


def plain(comparison: Comparison | None = None) -> Judgement:
    """What ``compare`` hands to documents."""
    comparison = comparison or compared()
    judged = Judged(
        name="",
        outcome="fail",
        reason=comparison.reason,
        comparison=comparison,
        provenance=Provenance("run", comparison.base.id, "2026-11-21", torch="2.13.0"),
    )
    return Judgement((judged,), "fail", comparison.reason, 1, rules=RULES, root=ROOT)


def allowance() -> Allowance:
    return Allowance("*add*", "bytes_moved", "the new bias is read", "ann", "2027-01-31", 4000)


def limits() -> tuple[LimitResult, ...]:
    spilled = Limit("spilled_words", most=2)
    moved = Limit("bytes_moved", kernel="*", growth_share=0.01)
    peak = Limit("peak_memory_bytes", growth_share=0.01)
    return (
        LimitResult(spilled, "broken", 0, 92, 2, text="spilled words 0 → 92, at most 2"),
        LimitResult(
            moved,
            "allowed",
            1500,
            2500,
            1515,
            1,
            "triton_poi_fused_add_1",
            "bytes moved 1.5 kB → 2.5 kB, at most 1.51 kB",
            allowance(),
        ),
        LimitResult(
            moved,
            "kept",
            1500,
            1500,
            1515,
            2,
            "triton_poi_fused_gelu_2",
            "bytes moved 1.5 kB, at most 1.51 kB",
        ),
        LimitResult(
            moved,
            "broken",
            1500,
            2500,
            1515,
            0,
            "triton_red_fused_rms_norm_0",
            "bytes moved 1.5 kB → 2.5 kB, at most 1.51 kB",
        ),
        LimitResult(peak, "unknown", None, None, None, text="peak memory is not known"),
    )


def gated() -> Judgement:
    """A check that fails, one that can't tell, one that passes, one that could not be made."""
    base = Provenance("baseline", "perfcli-baseline.txt", "2026-11-01", "first one", "abc123")
    comparison = compared()
    ours, theirs = comparison.base, replace(sides()[0], id="again-id")
    same = compare(ours, theirs)
    checks = (
        Judged("quiet@h100", "pass", "5 limits kept", same, (limits()[2],), provenance=base),
        Judged(
            "norm@h100",
            "fail",
            "2 limits are broken",
            comparison,
            limits(),
            (FindingResult(0, "broken"), FindingResult(1, "allowed", allowance())),
            base,
        ),
        Judged(
            "timed@cpu",
            "unsure",
            "the step's interval is too wide",
            same,
            (limits()[4],),
            provenance=base,
        ),
        Judged("broken@h100", "fault", "", provenance=base, fault="models/gpt.py does not import"),
    )
    return Judgement(
        checks,
        "fail",
        "norm@h100: 2 limits are broken",
        1,
        warnings=("the exception for *mul* has expired on 2026-10-01 (ann)",),
        command="perfcli gate",
        rules=RULES,
        root=ROOT,
    )


def hostile(name: str) -> Judgement:
    """``name`` wherever a name of the user's can stand."""
    where = Origin(f"n {name}", f"aten.{name}", name, (8,), f"{ROOT}/{name}.py:12", name)
    base = kernel(name, origins=(where,))
    head = kernel(name, origins=(where,), loads=9, read=9000, stack=368, text="other")
    found = Finding(
        "PC101",
        "error",
        f"{name} spills 92 words",
        kernels=(0,),
        evidence=(name,),
        advice=name,
        cures=(Cure({OPTION: name}, name),),
        origin=where,
        source_lines={"1": name},
        appearance="new",
        subject=name,
    )
    gave_up = {name: 2}
    ours, theirs = (
        run(
            [made],
            id=id,
            scenario=f"models/{name}.py:{name}",
            variant=Variant(name, {name: 1}),
            notes=(name,),
            graph_breaks=breaks,
        )
        for made, id, breaks in ((base, "base-id", {}), (head, "head-id", gave_up))
    )
    comparison = replace(
        compare(ours, theirs), findings=(found, replace(found, appearance="gone", on_base=True))
    )
    allowed = Allowance(name, name, name, name, "2027-01-01")
    result = LimitResult(
        Limit("spilled_words", kernel=name, most=2),
        "broken",
        0,
        92,
        2,
        0,
        name,
        f"{name} 0 → 92",
        None,
    )
    excepted = replace(result, state="allowed", allowance=allowed)
    judged = Judged(
        name,
        "fail",
        name,
        comparison,
        (result, excepted),
        (FindingResult(0, "broken"),),
        Provenance("baseline", name, "2026-11-01", name, name),
    )
    fault = Judged(name, "fault", "", fault=name)
    return Judgement((judged, fault), "fail", name, 1, (name,), f"perfcli gate {name}", RULES, ROOT)
