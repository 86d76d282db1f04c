"""What a file's text already shows of what it builds."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.loading.builders import check_builder, find_silent, is_script
from perfcli.loading.inputs import read_inputs
from perfcli.model import Scalar

CLASS = """
import torch
from torch import nn

class MLP(nn.Module):
    def forward(self, x):
        return x
"""
INSTANCE = "from cls import MLP\nmodel = MLP()\nexample_inputs = (torch.randn(8),)\n"
PAIR = "import torch\nscenario = (torch.nn.Linear(4, 4), (torch.randn(8),))\n"
TRAIN = """
def main():
    def inner():
        return 1
    print(inner())

if __name__ == "__main__":
    main()
"""


def refused(
    text: str, folder: Path, name: str | None = None, given: Collection[str] = ()
) -> PerfcliError:
    file = folder / "model.py"
    file.write_text(text)
    with pytest.raises(PerfcliError) as raised:
        check_builder(str(file), name, given)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2
    return raised.value


@pytest.mark.parametrize(
    ("text", "returned"), [(CLASS, "MLP()"), (INSTANCE, "model"), (PAIR, "Model()")]
)
def test_a_file_without_functions_gets_one_to_copy(
    text: str, returned: str, tmp_path: Path
) -> None:
    error = refused(text, tmp_path)
    assert str(error).endswith("has no function that builds a model with its inputs")
    assert f"def build():\n    return {returned}, (torch.randn(8, 128),)" in error.detail
    compile(error.detail.partition("\n\n")[2], "template", "exec")
    named = "model.py:model --input x=SHAPE:DTYPE"
    assert (named in error.detail) is (text == INSTANCE)


def test_a_class_that_is_named(tmp_path: Path) -> None:
    error = refused(CLASS, tmp_path, "MLP")
    assert "model.py:MLP is a class: say what its forward() is called with, --input x=" in str(
        error
    )
    assert "model.py:MLP --input x=SHAPE:DTYPE\nor write a function" in error.detail


def test_a_main_that_returns_nothing_is_no_builder(tmp_path: Path) -> None:
    assert str(refused(TRAIN, tmp_path)).endswith("its inputs: main() returns nothing")
    assert find_silent(tmp_path / "model.py") == {"main"}


def test_a_function_of_tensors(tmp_path: Path) -> None:
    text = "def softmax_temp(x, temperature=1.0):\n    return torch.softmax(x / temperature, -1)\n"
    error = refused(text, tmp_path)
    assert "model.py:softmax_temp needs x: give -p x=VALUE where" in str(error)
    assert "return softmax_temp, (torch.randn(8, 128),)" in error.detail
    check_builder(str(tmp_path / "model.py"), "softmax_temp", ("x",))


@pytest.mark.parametrize(
    "text",
    [
        "def build(rows: int, *, wide: 'bool'):\n    return f, rows\n",  # can be typed
        "def build(rows=1):\n    yield rows\n",
        "@wrapped\ndef build():\n    make()\n",
        "def one(x):\n    return x\ndef two(x):\n    return x\n",  # which one is asked later
        "build = lambda: (f, ())\n",
        "from models import *\n",
        "from models import SCENARIO\n",
        "import perfcli\nwhole = perfcli.Scenario(1)\n",
        "if True:\n    def build():\n        return 1\n",
        "def broken(:\n",
    ],
)
def test_what_the_text_leaves_open_is_left_open(text: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(text)
    check_builder(str(file), None, ())
    check_builder(str(tmp_path / "missing.py"), None, ())


CALLED = """
import torch

class Net(torch.nn.Module):
    def __init__(self, config, width: int): ...
    def forward(self, x, mask=None): ...

class Plain(torch.nn.Module):
    def forward(self, x, *, scale): ...

def fn(a, b, /, c=1.0):
    return a * b + c

made = Plain()
"""


def refuse(folder: Path, name: str, given: Collection[str] = (), *inputs: str) -> PerfcliError:
    file = folder / "model.py"
    file.write_text(CALLED)
    with pytest.raises(PerfcliError) as raised:
        check_builder(str(file), name, given, read_inputs(inputs))
    assert "\n" not in str(raised.value)
    return raised.value


def test_a_name_that_is_not_in_the_file(tmp_path: Path) -> None:
    error = refuse(tmp_path, "Nett")
    assert str(error).endswith("has no class, object or function 'Nett': did you mean Net?")
    for text in ("globals()['x'] = 1\n", "def __getattr__(name): ...\n", "import x\n"):
        (tmp_path / "model.py").write_text(text)
        check_builder(str(tmp_path / "model.py"), "x", ())


def test_a_class_is_made_with_what_its_constructor_needs(tmp_path: Path) -> None:
    assert "return Net(), (torch" in refuse(tmp_path, "Net").detail
    error = refuse(tmp_path, "Net", ("width",), "8,64")
    assert "is constructed with config: give -p config=VALUE" in str(error)
    assert "return Net(config), (torch" in error.detail
    compile(error.detail.partition("\n\n")[2], "template", "exec")


@pytest.mark.parametrize(
    ("name", "inputs", "said"),
    [
        (
            "Plain",
            ["8"],
            "forward() of Plain takes x, scale: add --input scale=SHAPE:DTYPE (a",
        ),
        ("Plain", ["8", "9"], "2 inputs without a name: forward() of Plain takes x, scale"),
        ("Plain", ["y=8"], "--input y: forward() of Plain takes x, scale, no y"),
        ("Plain", ["8", "x=8"], "--input x is given twice, by its name and as one without"),
        ("fn", ["8"], "fn() takes a, b, c: add --input SHAPE:DTYPE (a plain"),
        ("fn", ["8", "b=8"], "--input b: fn() takes it by its place: leave out the name"),
    ],
)
def test_inputs_that_are_not_those_of_the_call(
    tmp_path: Path, name: str, inputs: list[str], said: str
) -> None:
    assert said in str(refuse(tmp_path, name, (), *inputs))


def test_a_tensor_for_a_number_names_the_parameter(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("def block(rows: int, scale: float = 1.0, *, n: int = 2): return abs, (1,)\n")
    for inputs, name in (["3,3"], "rows"), (["rows=3,3"], "rows"), (["rows=3", "n=3,3"], "n"):
        with pytest.raises(PerfcliError) as raised:
            check_builder(str(file), "block", (), read_inputs(inputs))
        assert str(raised.value).endswith(
            f"model.py:block: --input {inputs[-1]} gives a tensor for {name}, which is declared "
            f"as int: if block() builds a model, give -p {name}=VALUE and no --input, else a plain "
            f"value, --input {name}=VALUE"
        )
    check_builder(str(file), "block", (), read_inputs(["rows=3", "scale=3,3"]))


def test_a_file_may_have_another_encoding(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    text = "# -*- coding: latin-1 -*-\nNAME = 'caf\xe9'\nif __name__ == '__main__':\n    run()\n"
    file.write_bytes(text.encode("latin-1"))
    assert is_script(file)


BLOCK = "def block(rows: int = 128, scale=-0.5, like=None, *, flag=False):\n    return abs, (1,)\n"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"row": "4"}, "has no parameter 'row': did you mean rows?"),
        ({"rows": "abc"}, "parameter rows needs a whole number (int), not 'abc'"),
        ({"rows": "1", "scale": "x"}, "parameter scale needs a number (float), not 'x'"),
        ({"flag": "maybe"}, "parameter flag needs true or false (bool), not 'maybe'"),
    ],
)
def test_a_parameter_that_the_text_shows_to_be_wrong(
    given: dict[str, Scalar], said: str, tmp_path: Path
) -> None:
    assert str(refused(BLOCK, tmp_path, "block", given)).endswith(said)


def test_a_function_that_has_a_mode_of_its_own_lists_it_once(tmp_path: Path) -> None:
    text = "def block(rows=128, mode='forward'):\n    return abs, (1,)\n"
    said = str(refused(text, tmp_path, "block", {"zzz": "1"}))
    assert said.endswith("has no parameter 'zzz': known: mode, rows")


@pytest.mark.parametrize(
    "text",
    [
        BLOCK.replace("rows: int", "row: int"),
        "import functools\n" + BLOCK + "block = functools.partial(block, 1)\n",
        "import torch\n@torch.no_grad()\n" + BLOCK,
        BLOCK + "if True:\n    from fast import faster as block\n",
    ],
)
def test_a_parameter_that_the_text_leaves_open(text: str, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text(text)
    check_builder(str(file), "block", {"row": "4", "mode": "training", "like": "x"})
