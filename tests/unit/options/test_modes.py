"""What a mode of torch.compile stands for, read from torch's text."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.options import assignments
from perfcli.options.catalogue import Catalogue, evaluate
from perfcli.options.modes import expand_mode

TEXT = '''
import torch
raise RuntimeError("this text is read, never run")
light_options = {"fallback_by_default": True}


def list_mode_options(mode=None, dynamic=None):
    """Returns what modes set."""
    mode_options: dict[str, dict[str, bool]] = {
        "default": {},
        "lite": light_options,
        "reduce-overhead": {"triton.cudagraphs": True},
    }
    return mode_options[mode] if mode else mode_options
'''


@pytest.fixture
def torch_dir(tmp_path: Path) -> Path:
    (tmp_path / "_inductor").mkdir()
    (tmp_path / "_inductor" / "__init__.py").write_text(TEXT)
    return tmp_path


def test_a_mode_sets_what_torch_says(torch_dir: Path) -> None:
    assert expand_mode("reduce-overhead", torch_dir) == {"triton.cudagraphs": True}
    assert expand_mode("lite", torch_dir) == {"fallback_by_default": True}
    assert expand_mode("default", torch_dir) == {}


def test_a_mode_that_this_torch_lacks_is_named(torch_dir: Path) -> None:
    with pytest.raises(PerfcliError, match="no mode 'reduce-overheat': did you mean reduce-over"):
        expand_mode("reduce-overheat", torch_dir)


def test_a_torch_that_says_it_otherwise(torch_dir: Path) -> None:
    (torch_dir / "_inductor" / "__init__.py").write_text("def list_mode_options(): ...")
    with pytest.raises(PerfcliError, match="set their options one by one"):
        expand_mode("default", torch_dir)


def test_the_later_of_a_mode_and_an_option_counts(torch_dir: Path) -> None:
    option = evaluate("triton.cudagraphs", "False")
    known = Catalogue("2.13.0", torch_dir, {option.name: option}, {})
    off, mode = "triton.cudagraphs=false", "mode=reduce-overhead"
    assert assignments.make_variant("", [mode], known).options == {"triton.cudagraphs": True}
    assert assignments.make_variant("", [mode, off], known).options == {"triton.cudagraphs": False}
    assert assignments.make_variant("", [off, mode], known).options == {"triton.cudagraphs": True}


@pytest.mark.torch
@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_the_installed_torch_says_the_same_when_asked(mode: str) -> None:
    import torch
    import torch._inductor

    folder = Path(torch.__file__).parent
    assert expand_mode(mode, folder) == torch._inductor.list_mode_options(mode)
