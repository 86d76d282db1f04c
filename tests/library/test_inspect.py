"""What ``perfcli.inspect`` gives back, on made-up kernels (``fake.run``): one forward and
four backward kernels per layer, three layers; with a read limit above 10 three of them are one
that spills 46 words."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import perfcli
from perfcli.errors import NotComparable, PerfcliError, UserCodeFailed
from perfcli.library import InspectOptions, Kernels
from perfcli.library.asking import CallOptions
from perfcli.library.by_name import Senders
from perfcli.library.speaking import _said_in_python

MAX_READS = "triton.mix_order_reduction_max_reads"
SPILLING = "triton_red_fused_add_mul_rms_norm_sum_0"


@pytest.fixture(autouse=True)
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1")
    monkeypatch.chdir(tmp_path)


def norm(x: object) -> object:
    return x


def plain() -> Kernels:
    return perfcli.inspect(norm, (1,), target="h100")


def spilling() -> Kernels:
    return perfcli.inspect(norm, (1,), target="h100", options={MAX_READS: 64})


def test_totals() -> None:
    k = plain()
    # Per layer 3 + 5 + 5 + 4 + 2 loads, 1 + 2 + 2 + 2 + 1 stores.
    assert (len(k), k.launches, k.loads, k.stores) == (15, 15, 3 * 19, 3 * 8)
    assert (k.spilled_words, k.extern_calls, k.graph_breaks) == (0, 36, 0)
    # Each load and store moves a bf16 matrix of 48 × 2048 by 512 once.
    assert k.bytes_moved == 3 * 27 * 2 * 48 * 2048 * 512
    assert k.lower_bound_seconds == pytest.approx(k.bytes_moved / 3.35e12)
    assert k.peak_memory_bytes == 4 * 10**9
    assert k.registers == max(each.registers or 0 for each in k)


def test_a_total_knows_its_kernels() -> None:
    words = spilling().spilled_words
    assert words == 46
    assert [(part.name, part.value) for part in words.parts] == [(SPILLING, 46)]
    assert type(words + 0) is int
    assert type(pickle.loads(pickle.dumps(words))) is int


def test_a_kernel() -> None:
    (spilled,) = (each for each in spilling() if each.spilled_words)
    assert (spilled.name, spilled.kind, spilled.number) == (SPILLING, "mix-order-reduction", 3)
    assert (spilled.loads, spilled.stores, spilled.registers) == (17, 5, 255)
    assert spilled.operators == ("aten.mul.Tensor", "aten.add.Tensor", "aten.sum.Tensor")
    assert {f.code for f in spilled.findings} >= {"PC101", "PC103"}
    assert f"def {SPILLING}" in spilled.code
    gutter, *lines = spilled.source.splitlines()
    assert gutter.split()[:4] == ["LDG", "STG", "LDL", "STL"]
    assert len(lines) == len(spilled.code.splitlines())
    assert SPILLING in spilled.report()


def test_it_is_a_sequence() -> None:
    k = plain()
    assert k[0].name == "triton_red_fused_rms_norm_0"
    assert [each.number for each in k[-2:]] == [13, 14]
    assert k[3] in k
    assert repr(k) == "<Kernels of norm for h100: 15 kernels>"


def test_no_findings() -> None:
    plain().assert_no_findings("PC1")
    k = spilling()
    k.assert_no_findings("PC2")
    k.assert_no_findings("PC1", severity="error")
    with pytest.raises(AssertionError) as caught:
        k.assert_no_findings("pc1")
    text = str(caught.value)
    assert f"PC101 warning: {SPILLING} spills 46 words" in text
    assert "try: options={'triton.mix_order_reduction_max_reads': 10}" in text
    with pytest.raises(AssertionError):
        k.assert_no_findings()


def test_a_code_that_no_rule_has() -> None:
    with pytest.raises(PerfcliError, match="no rule 'PC9X'"):
        plain().assert_no_findings("PC9X")


def test_compare() -> None:
    compared = spilling().compare(plain())
    assert (compared.outcome, compared.reason.split(":")[0]) == ("worse", "spilled words 0 → 46")
    assert spilling().compare(spilling()).outcome == "same"
    assert "WORSE" in compared.report()
    frame = compared.to_frame()
    assert frame["spilled_words_delta"].sum() == 46
    assert list(frame["relation"]).count("fused") == 1
    with pytest.raises(NotComparable, match="target"):
        plain().compare(perfcli.inspect(norm, target="a100"))
    allowed = plain().compare(perfcli.inspect(norm, target="a100"), allow=["target"])
    assert any("a100" in text for text in allowed.comparison.differences)


def test_not_worse() -> None:
    compared = spilling().compare(plain())
    assert repr(compared) == "<Compared: worse, spilled words 0 → 46>"
    with pytest.raises(AssertionError) as caught:
        compared.assert_not_worse()
    first, *more = str(caught.value).splitlines()
    assert first == f"worse: {compared.reason}"
    assert any(line.startswith("fused: ") and line.endswith(SPILLING) for line in more)
    assert "    spilled words 0 → 46" in more
    plain().compare(spilling()).assert_not_worse()
    plain().compare(plain()).assert_not_worse()
    assert type(pickle.loads(pickle.dumps(compared.outcome))) is str


def test_errors_are_in_the_words_of_python() -> None:
    with pytest.raises(NotComparable, match=r"anyway: allow=\('target',\)\)"):
        plain().compare(perfcli.inspect(norm, target="a100"))
    with pytest.raises(PerfcliError, match=r'^target="h100" is a GPU: leave out target or'):
        perfcli.inspect(norm, target="h100", device="cpu")
    text = "a (compare anyway: --allow target --allow mode); for example --target h100"
    assert _said_in_python(text) == (
        "a (compare anyway: allow=('target', 'mode')); for example target=\"h100\""
    )
    with pytest.raises(TypeError, match=r"inspect\(\) has no argument 'targt': .* 'target'\?"):
        perfcli.inspect(norm, targt="h100")  # type: ignore[call-arg]


def test_the_options_are_those_that_inspect_explains() -> None:
    """There is one typed set for ``inspect`` and the fixture; the docstring has all of it."""
    explained = re.findall(r"^        ([a-z_, ]+):", perfcli.inspect.__doc__ or "", re.MULTILINE)
    names = {name for each in explained for name in each.split(", ")}
    assert names == {"fn", "args", "kwargs", *InspectOptions.__annotations__}
    assert {*InspectOptions.__annotations__} - {*CallOptions.__annotations__} == {"jobs"}


def test_no_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match="there is no folder"):
        plain().save(tmp_path / "nowhere" / "x.json")
    assert not (tmp_path / "nowhere").exists()


def test_functions_of_two_names_are_compared() -> None:
    def other() -> None:
        """Made up like any other."""

    assert perfcli.inspect(other, target="h100").compare(plain()).outcome == "same"


def test_saved_and_read_again(tmp_path: Path) -> None:
    path = spilling().save(tmp_path / "base.json")
    again = perfcli.inspect(path)
    assert again.run == perfcli.inspect(str(path)).run
    assert (again.spilled_words, again[3].code) == (46, spilling()[3].code)
    assert again.save(tmp_path / "copy.json").read_bytes() == path.read_bytes()
    assert plain().compare(str(path)).outcome == "better"


def test_frame() -> None:
    frame = spilling().to_frame()
    assert frame.index.name == "number"
    assert len(frame) == 13
    assert frame["loads"].sum() == spilling().loads
    assert str(frame["registers"].dtype) == "Int64"
    row = frame.loc[3]
    assert (row["name"], row["spilled_words"], row["findings"]) == (
        SPILLING, 46, "PC103, PC101, PC102",
    )  # fmt: skip
    assert row["bytes_moved"] == row["bytes_read"] + row["bytes_written"]


def test_what_is_not_known_is_no_number() -> None:
    k = perfcli.inspect(norm, device="cpu")
    assert k.loads == 57
    assert k[0].registers is None
    assert k.to_frame()["registers"].isna().all()
    with pytest.raises(PerfcliError, match="spilled_words of norm is not known: 15 of its 15"):
        _ = k.spilled_words


def test_scenarios_by_name_and_file(tmp_path: Path) -> None:
    assert perfcli.inspect("gqa-transformer", target="h100", params={"layers": 1}).loads == 19
    file = tmp_path / "model.py"
    file.write_text("def build():\n    return None\n")
    assert perfcli.inspect(f"{file}:build", target="h100").loads == 57


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"fn": "softmax", "args": (1,)}, "leave out args"),
        ({"fn": norm, "preset": "smoke"}, "give the function its arguments"),
        ({"fn": 3}, "expected a function, a module or a name, got an int"),
        ({"fn": norm, "mode": "train"}, "mode is one of forward, training, step, not 'train'"),
        ({"fn": norm, "target": "h1000"}, "h1000"),
        ({"fn": norm, "options": {"no_such_option": 1}}, "no option 'no_such_option'"),
    ],
)
def test_what_makes_no_sense(given: dict[str, object], message: str) -> None:
    with pytest.raises(PerfcliError, match=message):
        perfcli.inspect(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [0, -1, 0.5, float("nan"), float("inf"), "5", True])
@pytest.mark.parametrize("fn", ["rmsnorm", abs])
def test_a_timeout_that_makes_no_sense(fn: Any, given: Any) -> None:
    with pytest.raises(PerfcliError) as raised:
        perfcli.inspect(fn, timeout=given)
    assert str(raised.value) == f"timeout takes a number of 1 or more, got {given!r}"


@pytest.mark.parametrize("given", [0, -1, 1.5, "2", True])
def test_jobs_that_make_no_sense(given: Any) -> None:
    with pytest.raises(PerfcliError) as raised:
        perfcli.inspect("rmsnorm", jobs=given)
    assert str(raised.value) == f"jobs takes a whole number of 1 or more, got {given!r}"


def test_the_users_own_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "user:all")
    with pytest.raises(UserCodeFailed, match="no such layer"):
        plain()


def test_names() -> None:
    class Block:
        def __call__(self) -> None:
            """What a module does."""

    names = [perfcli.inspect(fn, target="h100").run.scenario for fn in (lambda: 1, Block(), norm)]
    assert names == ["lambda", "Block", "norm"]
    assert perfcli.inspect(norm, name="mine", target="h100").run.scenario == "mine"


def test_importing_perfcli_is_light() -> None:
    code = (
        "import sys, perfcli; assert 'perfcli.library' not in sys.modules; perfcli.inspect; "
        "assert not {'torch', 'pandas', 'cloudpickle', 'rich'} & set(sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(perfcli.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_modules_of_a_package_that_only_this_process_knows_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest's importlib mode names test modules after folders that nobody can import."""
    (tmp_path / "inner.py").write_text("VALUE = 1\n")
    package = ModuleType("nowhere_else")
    package.__path__ = [str(tmp_path)]
    spec = spec_from_file_location("nowhere_else.inner", tmp_path / "inner.py")
    assert spec is not None
    inner = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "nowhere_else", package)
    monkeypatch.setitem(sys.modules, "nowhere_else.inner", inner)
    assert Senders().sent_whole("nowhere_else.inner")
