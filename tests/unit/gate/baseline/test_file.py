"""The baseline's file: what goes in comes out, and what is renamed stays the same text."""

from __future__ import annotations

import re
import stat
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from handmade import candidate, kernel, origins, run
from handmade_estimate import weighed_kernel, weighed_run

from perfcli.diff.compare import compare
from perfcli.errors import NotComparable, PerfcliError
from perfcli.gate.baseline import committed, facts, file
from perfcli.gate.baseline import file as toml
from perfcli.gate.baseline.reading import Made
from perfcli.model import Buffer, Comparison, ExternCall, Finding, KernelFacts, Origin, Run, Variant

MADE = Made("2026-11-22", "first baseline", "abc123")


def text_of(head: Run, findings: tuple[Finding, ...] = ()) -> str:
    return file._text({"norm@h100": file.BaselineCheck(MADE, facts._plain(head, findings))})


def block(layer: int, number: int, **more: Any) -> KernelFacts:
    """A kernel of one layer of a model, as tracing numbers it."""
    shape = (48, 2048, 512)
    nodes = tuple(
        Origin(f"{op}_{number}", f"aten.{op}.Tensor", f"blocks.{layer}.norm", shape)
        for op in ("mul", "add")
    )
    name = f"triton_red_fused_add_mul_{number}"
    return kernel(name, origins=nodes, text=f"layer {layer}", **more)


def test_numbers_stand_in_a_line_and_texts_below_each_other() -> None:
    assert toml._outer([1, 2]) == "[1, 2]"
    assert toml._outer([]) == "[]"
    assert toml._outer(["a", "b"]) == '[\n    "a",\n    "b",\n]'


def test_an_option_without_a_value_is_none() -> None:
    assert facts._option(None) == "none"
    assert facts._option(5) == 5


def test_everybody_may_read_a_new_file_and_the_mode_of_an_old_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "baseline.toml"
    committed._write(path, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    committed._write(path, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "value",
    [
        'a "quoted" \\ text\nof two lines\t\x7f\x1b[31m',
        "",
        [1, "a", True],
        {"a b": 1, "": {"x": []}, "c": 1.5e-12},
        ["</script>", "é"],
        [{"in": "blocks.*", "n": 2}],
    ],
)
def test_what_is_written_is_read(value: Any) -> None:
    text = "\n".join(toml._pairs({"key": value, "an.other key": value}))
    assert tomllib.loads(text) == {"key": value, "an.other key": value}


def test_a_file_that_is_read_is_written_again_byte_by_byte() -> None:
    spilling = kernel(
        "big_1", "mul", stack=368, candidates=(candidate(4, stack_bytes=368),), finishing_bytes=700
    )
    head = run(
        [block(0, 3), block(1, 4), spilling],
        peak=10**9,
        externs=(ExternCall("aten.mm", "forward 0", 4), ExternCall("aten.mm", "backward 0", 1)),
        graph_breaks={"a\nreason": 2},
        params={"rows": 32, "dtype": "bfloat16", "learned": True},
    )
    finding = Finding("PC101", "warning", "…", (2,), metric="spilled_words", amount=92)
    text = text_of(head, (finding, Finding("PC403", "warning", "…", subject="a\nreason")))
    checks = file._read(text, "file")
    assert file._text(checks) == text
    entry = checks["norm@h100"].entry()
    assert entry.made == MADE
    assert entry.run.graph_breaks == head.graph_breaks
    assert set(entry.run.externs) == set(head.externs)
    assert sorted(k.spilled_words or 0 for k in entry.run.kernels) == [0, 0, 92]
    assert sorted(k.finishing_bytes for k in entry.run.kernels) == [0, 0, 700]
    found, broken = entry.findings
    assert (found.code, found.metric, found.amount) == ("PC101", "spilled_words", 92)
    assert entry.run.kernels[found.kernels[0]].spilled_words == 92
    assert broken.subject == "a\nreason"


def test_other_numbers_of_kernels_and_nodes_change_nothing() -> None:
    early = run([block(0, 3), block(1, 4)])
    late = run([block(0, 7), block(1, 12)])
    assert text_of(early) == text_of(late)


def test_another_order_of_kernels_changes_nothing() -> None:
    assert text_of(run([block(0, 3), block(1, 4)])) == text_of(run([block(1, 3), block(0, 4)]))


def test_one_fact_is_one_line() -> None:
    before = text_of(run([block(0, 3), block(1, 4)])).splitlines()
    after = text_of(run([block(0, 3), block(1, 4, loads=3)])).splitlines()
    differ = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert differ == [("loads = 4", "loads = 5"), ("loads = 2", "loads = 3")]  # total, kernel


def test_layers_that_do_the_same_are_one_line() -> None:
    both = replace(block(0, 3), origins=(*block(0, 3).origins, *block(1, 4).origins))
    assert facts._plain(run([both]), ())["kernels"][0]["operators"] == [
        {
            "in": "blocks.*.norm",
            "layers": "0-1",
            "shape": [48, 2048, 512],
            "ops": "add.Tensor, mul.Tensor",
        }
    ]


def test_who_makes_what_a_kernel_reads() -> None:
    def buffer(name: str, role: Any) -> Buffer:
        return Buffer("x", name, role, "float32", (1,), (1,), 4)

    one = kernel("sum_0", buffers=(buffer("buf0", "output"),))
    two = kernel("sum_1", buffers=(buffer("buf0", "input"), buffer("buf1", "output")))
    tables = facts._plain(run([one, two]), ())["kernels"]
    assert sorted(table.get("reads", []) for table in tables) in ([[], ["sum"]], [[], ["sum#2"]])
    entry = file._read(text_of(run([one, two])), "file")["norm@h100"].entry()
    made = {b.name: k.name for k in entry.run.kernels for b in k.buffers if b.is_written}
    read = {k.name: made[b.name] for k in entry.run.kernels for b in k.buffers if b.is_read}
    assert list(read.items()) in ([("sum#2", "sum")], [("sum", "sum#2")])


def test_another_build_python_or_perfcli_is_no_change() -> None:
    head = run([block(0, 3)])
    other = replace(head.environment, torch="2.13.0+cpu", python="3.12.1", perfcli="9")
    plain = facts._plain(head, ())
    assert facts._unchanged(plain, facts._plain(replace(head, environment=other), ()))
    newer = replace(head.environment, torch="2.14.0")
    assert not facts._unchanged(plain, facts._plain(replace(head, environment=newer), ()))
    assert not facts._unchanged(plain, facts._plain(run([block(0, 3, loads=9)]), ()))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("format = 1\n[checks", PerfcliError, "is not TOML"),
        ("x = 1", PerfcliError, "no baseline of perfcli"),
        ('format = 1\nchecks = "x"', PerfcliError, "no baseline of perfcli"),
        ("format = 2", NotComparable, "has format 2, this perfcli reads up to 1"),
        ('format = 1\n[checks.a]\ncreated = "x"', PerfcliError, "check a is broken"),
        ("format = 1\n[checks.a]\nreason = 'x'", PerfcliError, "'created' is missing"),
        ("format = 1\n[checks]\na = 3", PerfcliError, "check a is broken"),
    ],
)
def test_what_is_no_baseline(text: str, error: type[PerfcliError], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        file._read(text, "perfcli-baseline.toml")
    assert "perfcli-baseline.toml" in str(caught.value)


def test_a_line_that_somebody_broke_names_the_check() -> None:
    text = text_of(run([kernel("a", origins=origins("mul"))])).replace("launches = 1", "x = 1", 2)
    with pytest.raises(PerfcliError, match=r"check norm@h100 is broken \('launches' is missing\)"):
        file._read(text, "file")


# --- estimated times -------------------------------------------------------------------------


def compared_with_file(text: str, head: Run) -> Comparison:
    entry = file._read(text, "baseline.toml")["norm@h100"].entry()
    base, _ = committed.base(replace(entry, target=facts.described_target(head)), head, "norm", ())
    return compare(base, head, ["scenario"])


def test_a_baseline_keeps_estimated_times_for_the_next_comparison() -> None:
    """The second head's changed kernel has twice the blocks of the first: about twice its time."""
    kept = weighed_kernel("triton_poi_fused_kept_0", "1")
    text = text_of(weighed_run(kept, weighed_kernel("triton_poi_fused_neg_1", "2")))
    same = compared_with_file(
        text, weighed_run(kept, weighed_kernel("triton_poi_fused_neg_1", "2"), id="head")
    )
    assert same.estimate is not None
    assert same.estimate.verdict == "same"
    more = weighed_kernel("triton_poi_fused_neg_1", "2", blocks=8192, text="other")
    slower = compared_with_file(text, weighed_run(kept, more, id="head"))
    assert slower.estimate is not None
    (group,) = slower.estimate.groups
    assert group.head / group.base == pytest.approx(2, rel=0.15)
    assert slower.estimate.ratio == pytest.approx(1.5, rel=0.15)
    assert (slower.outcome, slower.estimate.verdict) == ("worse", "slower")


def test_estimates_of_other_constants_are_not_compared() -> None:
    head = weighed_run(weighed_kernel("triton_poi_fused_neg_1", "2"))
    text = text_of(head)
    with_others = re.sub('estimated_with = ".*"', 'estimated_with = "0123456789ab"', text)
    assert with_others != text
    assert compared_with_file(with_others, head).estimate is None


def test_a_baseline_of_before_has_no_estimates_and_counts_decide() -> None:
    head = weighed_run(weighed_kernel("triton_poi_fused_neg_1", "2", blocks=8192, text="other"))
    text = text_of(
        replace(weighed_run(weighed_kernel("triton_poi_fused_neg_1", "2")), weighed=False)
    )
    assert "estimated" not in text
    found = compared_with_file(text, head)
    assert found.estimate is None
    assert found.reason.startswith("bytes moved")


def test_options_and_what_else_a_run_was_made_with() -> None:
    plain = facts._plain(run([block(0, 3)]), ())
    assert not {"options", "externs", "graph_breaks", "findings", "threads"} & set(plain)
    variant = Variant("x", {"b.c": None, "a": 3})
    made = facts._plain(run([block(0, 3)], variant=variant, threads=4), ())
    assert made["options"] == {"a": 3, "b.c": "none"}
    assert list(made["options"]) == ["a", "b.c"]
    assert made["threads"] == 4


def test_a_check_that_the_baseline_lacks_names_those_of_other_targets() -> None:
    checks = dict.fromkeys(("norm@a100", "norm@cpu", "other@h100"), file.BaselineCheck(MADE, {}))
    with pytest.raises(NotComparable) as caught:
        committed.entry(Path("b.toml"), checks, "norm@h100")
    assert str(caught.value) == (
        "b.toml has no check norm@h100 (it has norm@a100, norm@cpu): take it in with "
        'perfcli baseline update norm@h100 --reason "…"'
    )
    with pytest.raises(NotComparable) as caught:
        committed.entry(Path("b.toml"), checks, "new@h100")
    assert str(caught.value).startswith("b.toml has no check new@h100: take it in with ")


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    with pytest.raises(PerfcliError, match=r"can.t read .*: Too many levels of symbolic links"):
        committed.read(loop)
    with pytest.raises(PerfcliError, match="is a folder: the baseline is a file, for example"):
        committed.read(tmp_path)
    with pytest.raises(NotComparable, match="there is no baseline"):
        committed.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(PerfcliError, match="is not text: "):
        committed.read(tmp_path / "bytes.toml")


def test_a_file_larger_than_any_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(run([block(0, 3)]))
    path = tmp_path / "b.toml"
    path.write_text(text)
    monkeypatch.setattr(committed, "MOST_BYTES", len(text.encode()))
    assert list(committed.read(path)) == ["norm@h100"]
    path.write_text(f"{text}\n")
    with pytest.raises(PerfcliError, match="is larger than 0 MiB, which no baseline is"):
        committed.read(path)


def test_a_run_comes_back_as_far_as_it_is_kept() -> None:
    head = run([block(0, 3, launches=2)], peak=7)
    entry = file._read(text_of(head), "file")["norm@h100"].entry()
    (graph,) = entry.run.graphs
    assert graph == replace(head.graphs[0], nodes=0)
    assert len(entry.run.launches) == 2
    assert (entry.run.id, entry.run.target, entry.run.threads) == ("", None, None)
    assert entry.run.environment.platform == ""
    assert (entry.run.params, entry.run.mode, entry.run.dynamic) == (
        {"rows": 32},
        "training",
        False,
    )
