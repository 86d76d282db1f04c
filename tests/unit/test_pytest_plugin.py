"""The plugin in a pytest of its own, on made-up kernels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import perfcli

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parents[1]
PLUGIN = ("-p", "perfcli.pytest_plugin", "-p", "no:cacheprovider")
SPILLING = "triton_red_fused_add_mul_rms_norm_sum_0"
FAILING = """
    def test_spills(kernels):
        k = kernels(print, 1, options={"triton.mix_order_reduction_max_reads": 64})
        assert k.spilled_words == 0
"""


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "1")
    # Whether perfcli is installed with its entry point or not: it is named, once.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    # The perfcli that is tested, whichever is installed.
    monkeypatch.setenv("PYTHONPATH", str(Path(perfcli.__file__).parents[1]))


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess(*PLUGIN, *options, timeout=120)


def test_a_test_that_passes_shows_nothing(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_norm(kernels):
            k = kernels(print, 1, target="h100")
            assert k.spilled_words == 0
            assert k.loads <= 57
            k.assert_no_findings("PC1")
        """,
        "-rA",
    )
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*perfcli kernels*")


def test_a_failure_shows_kernels_and_source(pytester: pytest.Pytester) -> None:
    result = run(pytester, FAILING)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * assert 46 == 0",
            "E * spilled words",
            f"E * 46 in kernel 3, {SPILLING}",
            "*- perfcli kernels -*",
            "13 generated kernels, 13 launches, *46 spilled words*",
            f"3  {SPILLING}",
            "spilled words  46 *",
            "PC103 warning: *",
            " LDG  STG  LDL  STL*",
            f"*def {SPILLING}(*",
            "… and 12 kernels more; --perfcli-full shows all",
            "all kernels: .perfcli/pytest/test_a_failure_*.py-test_spills.txt",
        ]
    )
    text = result.stdout.str()
    assert text.count(" LDG  STG  LDL  STL") == 1
    (report,) = pytester.path.glob(".perfcli/pytest/*.txt")
    assert report.read_text().count(" LDG  STG  LDL  STL") == 13
    assert (pytester.path / ".perfcli" / ".gitignore").read_text() == "*\n"
    section = text[text.index("- perfcli kernels -") :]
    assert max(map(len, section.splitlines())) <= 110


def test_all_of_it(pytester: pytest.Pytester) -> None:
    result = run(pytester, FAILING, "--perfcli-full")
    result.stdout.no_fnmatch_line("*--perfcli-full*")
    assert result.stdout.str().count(" LDG  STG  LDL  STL") == 13


def test_an_outcome_says_why(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_same(kernels):
            spilling = {"triton.mix_order_reduction_max_reads": 64}
            k = kernels(print, 1, target="h100", options=spilling)
            assert k.compare(kernels(print, 1, target="h100")).outcome != "worse"

        def test_misspelt(kernels):
            kernels(print, 1, targt="h100")
        """,
    )
    result.stdout.fnmatch_lines(
        [
            "E * assert 'worse' != 'worse'",
            "E * spilled words 0 → 46: *",
            "E * TypeError: kernels() has no argument 'targt': did you mean 'target'?",
        ]
    )


def test_perfclis_own_frames_are_not_shown(pytester: pytest.Pytester) -> None:
    text = """
        SPILLING = {"triton.mix_order_reduction_max_reads": 64}

        def test_misspelt(kernels):
            kernels(print, 1, targt="h100")

        def test_worse(kernels):
            k = kernels(print, 1, target="h100", options=SPILLING)
            k.compare(kernels(print, 1, target="h100")).assert_not_worse()

        def test_findings(kernels):
            kernels(print, 1, target="h100", options=SPILLING).assert_no_findings("PC1")

        def test_unlike(kernels):
            kernels(print, 1, target="h100").compare(kernels(print, 1, target="a100"))

        def test_unknown(kernels):
            kernels(print, 1, device="cpu").spilled_words
    """
    result = run(pytester, text, "--tb=long")
    result.assert_outcomes(failed=5)
    said = result.stdout.str()
    places = re.findall(r"^(\S+\.py):\d+: ", said, re.M)
    assert set(places) == {"test_perfclis_own_frames_are_not_shown.py"}
    whole = run(pytester, text, "--full-trace", "-k", "misspelt")
    whole.stdout.fnmatch_lines(["*perfcli/library/speaking.py:*TypeError"])


def test_a_failure_elsewhere_shows_nothing(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_uses(kernels):
            kernels(print)

        def test_other():
            assert 1 == 2
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.no_fnmatch_line("*perfcli kernels*")


def test_kernels_of_a_wider_fixture_are_shown(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.fixture(scope="module")
        def of_print(kernels):
            return kernels(print)

        def test_loads(of_print):
            assert of_print.loads == 57

        def test_stores(of_print):
            assert 23 >= of_print.stores
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E * assert 23 >= 24", "E * stores", "E * and 12 more kernels", "*- perfcli kernels -*"]
    )


@pytest.mark.parametrize(
    ("ini", "options", "target"),
    [
        ("", (), "h100"),
        ("perfcli_target = a100", (), "a100"),
        ("perfcli_target = a100", ("--perfcli-target", "l40s"), "l40s"),
    ],
)
def test_the_target(
    pytester: pytest.Pytester, ini: str, options: tuple[str, ...], target: str
) -> None:
    pytester.makeini(f"[pytest]\n{ini}\n")
    text = f"""
        def test_target(kernels):
            assert kernels(print).run.target.name == {target!r}
            assert kernels(print, target="b200").run.target.name == "b200"
            assert kernels(print, device="cpu").run.target is None
    """
    run(pytester, text, *options).assert_outcomes(passed=1)


@pytest.mark.parametrize("package", ["torch", "triton"])
def test_what_is_missing_is_the_reason_to_skip(
    pytester: pytest.Pytester, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "0")
    pytester.makeconftest(
        f"""
        import importlib.util
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *a: None if name == {package!r} else found(name, *a)
        """
    )
    result = run(pytester, "def test_it(kernels):\n    kernels(print)\n", "-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"*perfcli compiles kernels with {package}, which is not *"])


def test_errors_are_one_line_with_the_users_frames(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFCLI_FAKE", "user:all")
    result = run(pytester, "def test_it(kernels):\n    kernels(print)\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E *UserCodeFailed: print raised ValueError: no such layer", "E *model.py*, line 7, *"]
    )
    result.stdout.no_fnmatch_line("*perfcli/library/*")


def test_with_xdist(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    result = run(
        pytester,
        """
        import pytest

        @pytest.mark.parametrize("n", range(4))
        def test_norm(kernels, n):
            assert kernels(print, n).stores == (24 if n else 0)
        """,
        *("-p", "xdist.plugin", "-n", "2"),
    )
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["E * stores", "*- perfcli kernels -*"])


def test_a_broken_report_does_not_hide_the_failure(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import perfcli.library.failure
        perfcli.library.failure.section = lambda *a, **k: 1 / 0
        """
    )
    result = run(pytester, FAILING)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E * 46 == 0", "perfcli could not show the kernels: ZeroDivisionError: *"]
    )


def test_runs_that_do_not_ask_are_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import sys

        def pytest_sessionfinish(session):
            heavy = {"torch", "triton", "rich", "msgspec", "numpy", "pandas", "perfcli.library"}
            assert not heavy & set(sys.modules), heavy & set(sys.modules)
        """
    )
    result = run(
        pytester,
        """
        import unittest

        class Total(int):
            pass

        class Case(unittest.TestCase):
            def test_case(self):
                self.assertEqual(1, 1)

        def test_fails():
            assert Total(1) == 2
        """,
    )
    result.assert_outcomes(passed=1, failed=1)
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_ones_own_fixture_of_that_name_comes_first(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest

        @pytest.fixture
        def kernels():
            return 3

        def test_mine(kernels):
            assert kernels == 3
        """,
    )
    result.assert_outcomes(passed=1)


@pytest.mark.torch
def test_real_kernels_of_a_test_module(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, warm_given: tuple[str, ...]
) -> None:
    """Functions of the test's own module, with what is patched there, and of one beside it."""
    if find_spec("torch") is None:  # pytester forgets what was imported here, torch can't
        pytest.skip("no torch")
    monkeypatch.setenv("PERFCLI_FAKE", "0")
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    pytester.makepyfile(
        layers="""
        import torch

        class Scale(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.empty(256))

            def forward(self, x):
                return x * self.weight
        """
    )
    result = run(
        pytester,
        """
        import sys
        import torch
        from layers import Scale

        ROWS = torch.empty(64, 256)

        def shifted(x):
            return x + 1

        def test_module(kernels):
            k = kernels(Scale(), ROWS, target="h100")
            assert (k.loads, k.stores, k.spilled_words) == (2, 1, 0)
            k.assert_no_findings("PC1")

        def test_patched(kernels, monkeypatch):
            monkeypatch.setattr(sys.modules[__name__], "shifted", lambda x, y: x + y)
            k = kernels(lambda x: shifted(x, x.t().contiguous().t()), ROWS, target="h100")
            assert k.loads == 1
            assert k.stores == 7
        """,
        *warm_given,
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["E * assert 1 == 7", "*- perfcli kernels -*", " LDG  STG  LDL  STL*", "*tl.store(*"]
    )


def test_importing_the_plugin_takes_no_time(tmp_path: Path) -> None:
    """Under 5 ms, in the best of some tries: others are busy on this machine as well."""
    code = (
        "import pytest, time; start = time.perf_counter(); import perfcli.pytest_plugin; "
        "print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-X", f"pycache_prefix={tmp_path}", "-c", code]
    environment = {"PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))}
    assert any(
        float(
            subprocess.run(
                command, check=True, capture_output=True, text=True, env=environment
            ).stdout
        )
        < 0.005
        for _ in range(6)
    )
