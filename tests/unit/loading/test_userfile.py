"""A user's file by path: what is picked from it, what is refused, whose traceback is shown."""

import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError, UserCodeFailed
from perfcli.loading import registry
from perfcli.loading.userfile import is_user_file, split

Write = Callable[[str, str], str]


@pytest.fixture(autouse=True)
def imports_undone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    return to


DECLARED = """
from perfcli.model import Parameter, Scenario, Workload
def build(params):
    return Workload(abs, (params["size"],))
A = Scenario("alpha-one", "why?", {"size": Parameter(4)}, {"smoke": {"size": 1}}, build)
"""
SECOND = 'B = Scenario("beta", "", {}, {}, build)\n'


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("model.py", ("model.py", None)),
        ("a/b.py:make", ("a/b.py", "make")),
        ("a:b/c.py", ("a:b/c.py", None)),
        ("a/b.txt:make", ("a/b.txt", "make")),
    ],
)
def test_a_reference_is_a_path_and_a_name(reference: str, expected: Any) -> None:
    assert split(reference) == expected
    assert is_user_file(reference)


@pytest.mark.parametrize("reference", ["softmax", "gqa-transformer", "softmax:x", "pyre"])
def test_a_name_is_no_path(reference: str) -> None:
    assert not is_user_file(reference)


def test_the_only_scenario_is_taken(write: Write) -> None:
    scenario = registry.scenario(write("m.py", DECLARED))
    assert scenario.name == "alpha-one"
    workload = registry.build(scenario, registry.resolve_params(scenario, "smoke", {}))
    assert workload.inputs == (1,)


@pytest.mark.parametrize("name", ["A", "alpha-one", "alpha_one"])
def test_a_scenario_by_its_variable_or_name(write: Write, name: str) -> None:
    path = write("m.py", DECLARED + SECOND)
    assert registry.scenario(f"{path}:{name}").name == "alpha-one"


def test_several_scenarios_must_be_named(write: Write) -> None:
    path = write("m.py", DECLARED + SECOND)
    with pytest.raises(
        PerfcliError, match=r"scenarios \(alpha-one, beta\): say which.*m.py:alpha-one"
    ):
        registry.scenario(path)


def test_a_bare_function_is_a_scenario(write: Write) -> None:
    path = write("m.py", 'def net(size=3, deep=False):\n    "Why?"\n    return abs, (size,)\n')
    scenario = registry.scenario(path)
    assert (scenario.name, scenario.question) == (path, "Why?")
    assert {n: p.default for n, p in scenario.parameters.items()} == {
        "size": 3,
        "deep": False,
        "mode": "forward",
    }
    params = registry.resolve_params(scenario, None, {"size": "5", "mode": "training"})
    workload = registry.build(scenario, params)
    assert (workload.call, workload.inputs, workload.mode) == (abs, (5,), "training")


def test_a_function_that_asks_for_the_mode_gets_it(write: Write) -> None:
    path = write("m.py", 'def net(mode="training"):\n    return abs, [mode]\n')
    scenario = registry.scenario(path)
    params = registry.resolve_params(scenario, None, {})
    assert registry.build(scenario, params).inputs == ("training",)
    assert registry.build(scenario, params).mode == "training"
    with pytest.raises(PerfcliError, match="one of forward, training"):
        registry.resolve_params(scenario, None, {"mode": "backward"})


@pytest.mark.torch
def test_a_dtype_is_a_parameter_that_is_typed_by_its_name(write: Write) -> None:
    torch = pytest.importorskip("torch")
    text = "import torch\ndef net(dtype: torch.dtype = torch.float32):\n    return abs, [dtype]\n"
    scenario = registry.scenario(write("m.py", text))

    def build(**typed: str) -> Any:
        params = registry.resolve_params(scenario, None, typed)
        return params["dtype"], registry.build(scenario, params).inputs

    assert build() == ("float32", (torch.float32,))
    assert build(dtype="bf16") == ("bf16", (torch.bfloat16,))
    assert build(dtype="torch.float16") == ("torch.float16", (torch.float16,))
    with pytest.raises(PerfcliError, match=r"dtype expects a dtype such as bfloat16 .*'half2'"):
        build(dtype="half2")


@pytest.mark.torch
def test_a_class_gets_a_dtype_and_not_its_name(write: Write) -> None:
    torch = pytest.importorskip("torch")
    text = "import torch\nclass Net:\n    def __init__(self, dtype=torch.float32):\n"
    text += "        self.dtype = dtype\n    def __call__(self, x):\n        return x\n"
    scenario = registry.scenario(write("m.py", text) + ":Net", ["4:bf16"])
    params = registry.resolve_params(scenario, None, {"dtype": "bf16"})
    made: Any = scenario.build(params)
    assert made[0].dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("returned", "inputs", "kwargs", "mode"),
    [
        ("abs, [1, 2]", (1, 2), {}, "forward"),
        ("abs, 7", (7,), {}, "forward"),
        ("abs, {'x': 1}", (), {"x": 1}, "forward"),
        ("abs, (1,), {'x': 2}", (1,), {"x": 2}, "forward"),
        ("abs, (1,), 'training'", (1,), {}, "training"),
    ],
)
def test_what_a_function_may_return(
    write: Write, returned: str, inputs: Any, kwargs: dict[str, Any], mode: str
) -> None:
    scenario = registry.scenario(write("m.py", f"def net():\n    return {returned}\n"))
    workload = registry.build(scenario, registry.resolve_params(scenario, None, {}))
    assert (workload.inputs, dict(workload.kwargs), workload.mode) == (inputs, kwargs, mode)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("None", "it returned nothing"),
        ("abs", "it returned a builtin_function_or_method"),
        ("(abs,)", "it returned a tuple of 1"),
        ("abs, (), 3", "its third item is an int"),
        ("3, ()", "'int' cannot be called"),
        ("abs, (), 'train'", "mode 'train' is none of"),
    ],
)
def test_what_a_function_must_not_return(write: Write, returned: str, told: str) -> None:
    scenario = registry.scenario(write("m.py", f"def net():\n    return {returned}\n"))
    with pytest.raises(UserCodeFailed) as raised:
        registry.build(scenario, {})
    assert told in str(raised.value)
    assert "expected (module or function, inputs)" in str(raised.value)


def test_imported_private_and_demanding_functions_are_no_candidates(write: Write) -> None:
    text = (
        "from os.path import join\n"
        "def _hidden(): pass\n"
        "def layer(width): pass\n"
        "def net(*args, size=1, **more):\n    return abs, (size,)\n"
    )
    scenario = registry.scenario(write("m.py", text))
    assert set(scenario.parameters) == {"size", "mode"}


def test_a_usual_name_is_preferred(write: Write) -> None:
    text = "def other(): return abs, (1,)\ndef make(): return abs, (2,)\n"
    assert registry.build(registry.scenario(write("m.py", text)), {}).inputs == (2,)


def test_several_functions_must_be_named(write: Write) -> None:
    path = write("m.py", "def one(): return abs, (1,)\ndef two(): return abs, (2,)\n")
    with pytest.raises(PerfcliError, match=r"functions \(one, two\): say which one.*m.py:one$"):
        registry.scenario(path)
    assert registry.build(registry.scenario(f"{path}:two"), {}).inputs == (2,)


def test_a_wrong_name_gets_the_nearest(write: Write) -> None:
    path = write("m.py", "def llama(): return abs, (1,)\n")
    with pytest.raises(PerfcliError, match=r"no scenario or function 'lama': did you mean llama\?"):
        registry.scenario(f"{path}:lama")


@pytest.mark.parametrize(
    ("argument", "given", "value"),
    [
        ("n", "5", 5),
        ("n", "0.5", 0.5),
        ("n", "true", True),
        ("n", "text", "text"),
        ("n: int", "5", 5),
        ("n: 'float'", "5", 5.0),
        ("n: bool", "1", True),
        ("n: str", "5", "5"),
        ("*, n: list[int] | None", "5", 5),
    ],
)
@pytest.mark.parametrize("name", ["", ":net"])
def test_an_argument_without_a_default_is_given(
    write: Write, argument: str, given: str, value: Any, name: str
) -> None:
    scenario = registry.scenario(write("m.py", f"def net({argument}): return abs, [n]\n") + name)
    params = registry.resolve_params(scenario, None, {"n": given})
    (found,) = registry.build(scenario, params).inputs
    assert (found, type(found)) == (value, type(value))


def test_an_argument_without_a_default_must_be_given(write: Write) -> None:
    path = write("m.py", "def net(width: int, n_heads, depth=2): return abs, (1,)\n")
    scenario = registry.scenario(f"{path}:net")
    with pytest.raises(PerfcliError, match=r"width and n-heads: give -p width=VALUE -p n-heads="):
        registry.resolve_params(scenario, None, {"depth": 3})
    with pytest.raises(PerfcliError, match=r"value for width: give -p width=VALUE, or a default"):
        registry.resolve_params(scenario, None, {"n-heads": "3"})
    with pytest.raises(PerfcliError, match="width needs a whole number"):
        registry.resolve_params(scenario, None, {"n-heads": "3", "width": "wide"})


def test_a_file_without_functions(write: Write) -> None:
    with pytest.raises(PerfcliError, match="no Scenario and no public function"):
        registry.scenario(write("m.py", "x = 1\ndef _hidden(): pass\n"))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(PerfcliError, match=r"does not exist: expected path/to/file\.py"):
        registry.scenario(str(tmp_path / "none.py"))
    with pytest.raises(PerfcliError, match="is not a Python file"):
        registry.scenario(str(tmp_path))


def test_a_file_that_does_not_import(write: Write) -> None:
    write("sibling.py", "def broken():\n    raise ValueError('no such layer')\n")
    path = write("m.py", "import sibling\n\nsibling.broken()\n")
    with pytest.raises(UserCodeFailed) as raised:
        registry.scenario(path)
    assert str(raised.value) == "m.py does not import: ValueError: no such layer"
    files = [line for line in raised.value.detail.splitlines() if line.startswith("  File")]
    assert [line.split('"')[1].rpartition("/")[2] for line in files] == ["m.py", "sibling.py"]
    assert raised.value.detail.endswith("ValueError: no such layer")


def test_a_file_with_a_syntax_error(write: Write) -> None:
    with pytest.raises(UserCodeFailed, match=r"m\.py does not import: SyntaxError") as raised:
        registry.scenario(write("m.py", "def net(:\n"))
    assert 'm.py", line 1' in raised.value.detail


def test_a_file_that_exits(write: Write) -> None:
    with pytest.raises(UserCodeFailed, match="does not import: SystemExit: 3"):
        registry.scenario(write("m.py", "import sys\nsys.exit(3)\n"))


def test_a_function_that_raises(write: Write) -> None:
    text = (
        "def deeper():\n    return {}['key']\n"
        "def net():\n    try:\n        deeper()\n"
        "    except KeyError as e:\n        raise RuntimeError('bad\\nmore') from e\n"
    )
    scenario = registry.scenario(write("m.py", text) + ":net")
    with pytest.raises(UserCodeFailed) as raised:
        try:
            raise PerfcliError("what we did before")
        except PerfcliError:
            registry.build(scenario, {})
    assert str(raised.value).endswith("m.py:net does not build: RuntimeError: bad")
    detail = raised.value.detail
    assert "KeyError" in detail
    assert "in deeper" in detail
    assert "perfcli" not in detail
    assert "what we did before" not in detail


def test_modules_of_two_folders_do_not_mix(write: Write) -> None:
    one = registry.scenario(write("one/m.py", "def net(a=1): return abs, (1,)\n"))
    two = registry.scenario(write("two/m.py", "def net(b=1): return abs, (1,)\n"))
    assert (set(one.parameters), set(two.parameters)) == ({"a", "mode"}, {"b", "mode"})


def test_a_file_is_run_again_each_time(write: Write) -> None:
    path = write("m.py", "def net(a=1): return abs, (1,)\n")
    registry.scenario(path)
    write("m.py", "def net(a=1, renamed=2): return abs, (1,)\n")
    assert "renamed" in registry.scenario(path).parameters


def test_what_a_file_defines_can_be_pickled(write: Write) -> None:
    text = (
        "from dataclasses import dataclass\n"
        "@dataclass\nclass Config:\n    size: int = 1\n"
        "def net(): return abs, (Config(),)\n"
    )
    (config,) = registry.build(registry.scenario(write("m.py", text)), {}).inputs
    assert pickle.loads(pickle.dumps(config)) == config


def test_relative_imports_work_inside_a_package(write: Write) -> None:
    write("zoo/__init__.py", "")
    write("zoo/layers.py", "SIZE = 6\n")
    path = write("zoo/m.py", "from .layers import SIZE\ndef net(): return abs, (SIZE,)\n")
    assert registry.build(registry.scenario(path), {}).inputs == (6,)


def test_a_name_of_something_else(tmp_path: Path) -> None:
    file = tmp_path / "tup.py"
    file.write_text("scenario = (abs, (1,))\nclass Net:\n    def forward(self): ...\n")
    with pytest.raises(PerfcliError, match=r"tup\.py:scenario is a tuple, and no function that"):
        registry.scenario(f"{file}:scenario")
    with pytest.raises(PerfcliError, match="no scenario or function 'Nett': did you mean Net"):
        registry.scenario(f"{file}:Nett")


def test_what_needs_inputs_is_named_beside_several_builders(write: Write) -> None:
    text = (
        "def naive(): return abs, (1,)\ndef smart(): return abs, (2,)\n"
        "class Mixer:\n    def forward(self, x, scale=1.0): return x\n"
        "def rope(q, cos): return q * cos\n"
    )
    path = write("m.py", text)
    with pytest.raises(PerfcliError) as raised:
        registry.scenario(path)
    assert str(raised.value).endswith(
        "has several functions (naive, smart): say which one, for example "
        f"{path}:naive; Mixer and rope can be called with --input, {path}:Mixer "
        "--input x=SHAPE:DTYPE"
    )
