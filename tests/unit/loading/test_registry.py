"""What is shipped is found by file name, without torch."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading import registry
from perfcli.machine import targets
from perfcli.model import Scenario

SHIPPED = [
    "accumulate", "column-sum", "cross-entropy", "gqa-transformer", "layernorm", "mix-order",
    "rmsnorm", "softmax",
]  # fmt: skip


def test_names_are_public_and_sorted() -> None:
    assert registry.names("scenarios") == SHIPPED


@pytest.mark.parametrize("name", ["gqa-transformer", "gqa_transformer"])
def test_dashes_and_underscores_are_equal(name: str) -> None:
    assert registry.scenario(name).name == "gqa-transformer"


@pytest.mark.parametrize("name", SHIPPED)
def test_every_scenario_is_named_like_its_file_and_has_both_presets(name: str) -> None:
    scenario = registry.load_declared("scenarios", name, Scenario)
    assert scenario.name == name
    assert scenario.question.endswith("?")
    assert {"smoke", "full"} <= set(scenario.presets)
    for preset in scenario.presets:
        registry.resolve_params(scenario, preset, {})
        assert set(scenario.presets[preset]) <= set(scenario.parameters)


@pytest.mark.parametrize(
    ("body", "found"), [("", "none"), ("A = Scenario('a', '', {}, {}, print)\nB = A\n", "A, B")]
)
def test_a_file_declares_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, found: str
) -> None:
    package = import_module("perfcli.scenarios")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    (tmp_path / "half_done.py").write_text(f"from perfcli.model import Scenario\n{body}")
    monkeypatch.delitem(sys.modules, "perfcli.scenarios.half_done", raising=False)
    with pytest.raises(PerfcliError) as raised:
        registry.scenario("half-done")
    assert str(raised.value) == (
        f"scenarios/half_done.py has to declare one Scenario, it declares {found}"
    )


def test_an_unknown_scenario_gets_the_nearest() -> None:
    with pytest.raises(PerfcliError) as raised:
        registry.scenario("gqa-tranformer")
    assert str(raised.value).startswith(
        "no scenario 'gqa-tranformer': did you mean gqa-transformer"
    )
    with pytest.raises(PerfcliError, match="no scenario 'x': known: accumulate, column-sum,"):
        registry.scenario("x")


def test_a_file_beside_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PerfcliError, match=r"did you mean the file mine\.py\?"):
        registry.scenario("mine")


def test_shipped_scenarios_are_declared_without_torch() -> None:
    program = (
        "import sys\n"
        "sys.modules['torch'] = sys.modules['triton'] = None\n"
        "from perfcli.loading import registry\n"
        "for name in registry.names('scenarios'):\n"
        "    registry.resolve_params(registry.scenario(name), 'smoke', {})\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


FAMILIES = Path(__file__).parents[2] / "fixtures" / "kernels"


def test_a_family_is_found_by_name_or_in_a_users_file() -> None:
    assert registry.family("column_sum").name == "column-sum"
    assert registry.family(str(FAMILIES / "row_sum.py")).name == "row-sum"


@pytest.mark.parametrize(
    ("reference", "complaint"),
    [
        ("colum-sum", r"no kernel family 'colum-sum': did you mean column-sum\?"),
        ("nowhere.py", "nowhere.py does not exist"),
        (str(FAMILIES / "row_sum_code.py"), "has to declare one KernelFamily, it declares 0"),
    ],
)
@pytest.mark.torch
def test_a_family_that_is_not_there_is_told(reference: str, complaint: str) -> None:
    with pytest.raises(PerfcliError, match=complaint):
        registry.family(reference)


def test_every_family_is_named_like_its_file_and_plans_its_own_problems() -> None:
    for name in registry.names("kernels"):
        family = registry.family(name)
        assert family.name == name
        assert family.cases
        variants = {variant.name for variant in family.variants}
        assert len(variants) == len(family.variants)
        for target in (*targets.TARGETS.values(), *targets.KERNEL_TARGETS.values()):
            for problem in family.benchmarks:
                assert problem.operation in family.operations
                plan = family.plan(problem, target, None)
                assert plan.variant in variants
                assert plan.launches
                assert plan.why
