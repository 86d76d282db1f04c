from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.options import assignments
from perfcli.options.catalogue import (
    UNKNOWN,
    Catalogue,
    InductorOption,
    _read_config,
    evaluate,
    load_catalogue,
)
from perfcli.options.patches import PATCHES

CONFIG = """
import os
import sys
from typing import Any, Literal, Optional, TYPE_CHECKING, Union
import torch
from torch._environment import is_fbcode
from torch.utils._config_module import Config, get_tristate_env

if TYPE_CHECKING:
    from torch._inductor.choices import InductorChoices


def fusion_default() -> SomeTypeNobodyKnows:
    if "TORCHINDUCTOR_FUSION" in os.environ:
        return os.environ.get("TORCHINDUCTOR_FUSION") == "1"
    elif is_fbcode():
        import torch._utils_internal
        return False
    else:
        return True


def needs_torch() -> None:
    import torch._inductor
    return True


# split reductions, and
# explain why
online_softmax = os.environ.get("TORCHINDUCTOR_ONLINE_SOFTMAX", "1") == "1"
debug = False  # type: ignore[x]
trailing = 3  # how many
fusion = fusion_default()
unknowable: bool = needs_torch()
fx_cache: bool = Config(
    justknob="a:b", env_name_default="TORCHINDUCTOR_D", env_name_force="TORCHINDUCTOR_F",
    default=True,
)
other_name: bool = Config(alias="torch._inductor.config.fx_cache")
remote: Optional[bool] = get_tristate_env("TORCHINDUCTOR_REMOTE")
seconds: int = int(os.environ.get("TORCHINDUCTOR_SECONDS", 60 * 5))
ratio = 1.5
pool: Literal["none", "all"] = os.environ.get("TORCHINDUCTOR_POOL", "none")
shape: tuple[int, int] = (1, 2)
sizes: list[int] = [1, 2]
names: Optional[list[str]] = None
mapping: dict[str, int] = {}
either: Union[bool, str] = True
hook: Optional["SomeCallable[[int], None]"] = None
graph_pass: torch.fx.CustomPass = None
path = os.environ.get("TORCHINDUCTOR_PATH", None)
_layout = "1" if not torch.version.hip else "0"
layout = os.environ.get("TORCHINDUCTOR_LAYOUT", _layout) == "1"
backends = "pad_mm" in os.environ.get("TORCHINDUCTOR_BACKENDS", "").split(",")
if is_fbcode():
    only_inside = 1
else:
    only_outside = 2


class triton:
    # the famous one
    mix_order_reduction = os.environ.get("TORCHINDUCTOR_MIX_ORDER", "1") == "1"
    limit: int = 10


class base:
    shared = 1
    own = 2
    _private = 3


@inherit_fields_from(base)
class child(base):
    own = 4


install_config_module(sys.modules[__name__])
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    """A torch of which only the configuration files exist."""
    for package, text in {
        "_inductor": CONFIG,
        "_dynamo": "recompile_limit = 8\n",
        "_functorch": "treat_parameters_as_free = True\n",
    }.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "config.py").write_text(text)
    (tmp_path / "version.py").write_text("__version__ = '2.11.0+cpu'\n")
    (tmp_path / "_inductor" / "codecache.py").write_text('x = "TORCHINDUCTOR_CACHE_DIR"\n')
    return load_catalogue(tmp_path)


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("online_softmax", "bool", True),
        ("trailing", "int", 3),
        ("fusion", "bool", True),
        ("unknowable", "bool", UNKNOWN),
        ("fx_cache", "bool", True),
        ("other_name", "bool", True),
        ("remote", "Optional[bool]", None),
        ("seconds", "int", 300),
        ("ratio", "float", 1.5),
        ("pool", "Literal['none', 'all']", "none"),
        ("shape", "tuple[int, int]", (1, 2)),
        ("path", "str | None", None),
        ("layout", "bool", True),
        ("backends", "bool", False),
        ("only_outside", "int", 2),
        ("triton.mix_order_reduction", "bool", True),
        ("triton.limit", "int", 10),
        ("child.shared", "int", 1),
        ("child.own", "int", 4),
        ("dynamo.recompile_limit", "int", 8),
        ("functorch.treat_parameters_as_free", "bool", True),
    ],
)
def test_names_types_and_defaults(catalogue: Catalogue, name: str, kind: str, value: Any) -> None:
    entry = catalogue.entries[name]
    assert (entry.name, entry.type, entry.value) == (name, kind, value)


def test_what_is_no_option_is_not_listed(catalogue: Catalogue) -> None:
    absent = {"only_inside", "fusion_default", "triton", "child._private", "os", "Config"}
    assert not absent & catalogue.entries.keys()
    assert catalogue.torch == "2.11.0+cpu"


@pytest.mark.parametrize(
    ("name", "variables", "flags"),
    [
        ("online_softmax", ("TORCHINDUCTOR_ONLINE_SOFTMAX",), True),
        ("fusion", ("TORCHINDUCTOR_FUSION",), True),
        ("fx_cache", ("TORCHINDUCTOR_F", "TORCHINDUCTOR_D"), True),
        ("remote", ("TORCHINDUCTOR_REMOTE",), True),
        ("seconds", ("TORCHINDUCTOR_SECONDS",), False),
        ("pool", ("TORCHINDUCTOR_POOL",), False),
        ("backends", ("TORCHINDUCTOR_BACKENDS",), False),
        ("debug", (), False),
    ],
)
def test_variables(
    catalogue: Catalogue, name: str, variables: tuple[str, ...], flags: bool
) -> None:
    entry = catalogue.entries[name]
    assert entry.env == variables
    assert entry.flags == (variables if flags else ())
    assert all(catalogue.variables[variable] is entry for variable in variables)


def test_comments_are_the_documentation(catalogue: Catalogue) -> None:
    assert catalogue.entries["online_softmax"].doc == "split reductions, and\nexplain why"
    assert catalogue.entries["trailing"].doc == "how many"
    assert catalogue.entries["debug"].doc == ""
    assert catalogue.entries["triton.mix_order_reduction"].doc == "the famous one"


def test_reading_never_imports(catalogue: Catalogue) -> None:
    """needs_torch() asks for torch; its option stays unknown instead."""
    assert catalogue.entries["unknowable"].value is UNKNOWN
    assert _read_config("import torch.nothing\nx = torch.nothing.y()")[0].value is UNKNOWN


def test_a_file_for_a_newer_python_says_so() -> None:
    with pytest.raises(PerfcliError, match=r"line 1: .*at least as new as torch's"):
        _read_config("def f(:\n")


def test_a_torch_without_its_files_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        PerfcliError, match=r"version.py: No such file .*is torch installed completely"
    ):
        load_catalogue(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        *[("bool", text, True) for text in ("true", "True", "1", "yes", "on")],
        *[("bool", text, False) for text in ("false", "FALSE", "0", "no", "off")],
        ("bool | None", "none", None),
        ("Optional[bool]", "1", True),
        ("int", "12", 12),
        ("int", "0x10", 16),
        ("int", "-1", -1),
        ("int | None", "None", None),
        ("float", "1", 1.0),
        ("float", "1e-3", 0.001),
        ("str", "a b", "a b"),
        ("str", "'12'", "12"),
        ("str | None", "none", None),
        ("str", "none", "none"),
        ("Union[bool, str]", "true", True),
        ("Union[bool, str]", "later", "later"),
        ("bool | Literal['a', 'b']", "b", "b"),
        ("Literal['none', 'all']", "none", "none"),
        ("Literal[0, 1, 2]", "2", 2),
        ("list[int]", "[1, 2]", [1, 2]),
        ("list[str]", "a, b", ["a", "b"]),
        ("list[str]", "", []),
        ("List[int]", "[]", []),
        ("list", "7", [7]),
        ("tuple[int, int]", "(1, 2)", [1, 2]),
        ("set[str]", "{'a'}", ["a"]),
        ("dict[str, int]", "{'a': 1}", {"a": 1}),
        ("dict[str, Any]", '{"a": [1, null]}', {"a": [1, None]}),
        ("Any", "true", True),
        ("Any", "12", 12),
        ("Any", "some text", "some text"),
        ("Optional[Callable[[int], int]]", "none", None),
    ],
)
def test_values(kind: str, text: str, value: Any) -> None:
    found = assignments._parse_value(InductorOption("x", kind, ""), text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "needs"),
    [
        ("bool", "maybe", "true or false"),
        ("bool", "2", "true or false"),
        ("int", "1.5", "a whole number"),
        ("int", "true", "a whole number"),
        ("int | None", "x", "a whole number or none"),
        ("float", "fast", "a number"),
        ("Literal['a', 'b']", "c", "a or b"),
        ("list[int]", "[1, 'a']", "a list"),
        ("list[int]", "[1", "a list"),
        ("tuple[int, int]", "(1, 2, 3)", "a list"),
        ("dict[str, int]", "a=1", "a mapping"),
        ("dict[str, int]", "{'a': 'b'}", "a mapping"),
    ],
)
def test_wrong_values_name_the_type(kind: str, text: str, needs: str) -> None:
    with pytest.raises(PerfcliError) as caught:
        assignments._parse_value(InductorOption("some.option", kind, ""), text)
    assert str(caught.value).startswith(f"some.option needs {needs}")
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("kind", ["Callable[[int], int] | None", "torch.fx.CustomPass"])
def test_objects_cannot_be_written(kind: str) -> None:
    with pytest.raises(PerfcliError, match="takes a Python object"):
        assignments._parse_value(InductorOption("hook", kind, ""), "print")


def test_a_variant_from_assignments(catalogue: Catalogue) -> None:
    variant = assignments.make_variant(
        "base",
        [
            "triton.mix_order_reduction=false",
            "TORCHINDUCTOR_ONLINE_SOFTMAX=0",
            "torch._dynamo.config.recompile_limit = 3",
            "inductor.trailing=1",
            "trailing=2",
            "MY_OWN=a=b",
        ],
        catalogue,
        python="/x/python",
    )
    assert variant.options == {
        "triton.mix_order_reduction": False,
        "dynamo.recompile_limit": 3,
        "trailing": 2,
    }
    assert variant.env == {"TORCHINDUCTOR_ONLINE_SOFTMAX": "0", "MY_OWN": "a=b"}
    assert (variant.name, variant.python) == ("base", "/x/python")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("trailing", "an option is written NAME=VALUE"),
        ("=3", "an option is written NAME=VALUE"),
        ("mix_order_reduction=1", r"no option .*did you mean triton\.mix_order_reduction\?"),
        ("onlin_softmax=1", r"did you mean online_softmax\?"),
        ("qqqqq=1", "perfcli knobs PATTERN"),
        (
            "triton.nested_reduction=1",
            r"torch 2\.11\.0\+cpu has no option .*: torch 2\.13\.0, 2\.14\.1, 2\.15\.0 have it",
        ),
        ("TORCHINDUCTOR_ONLINE_SOFTMAX=false", "needs 0 or 1, got 'false'"),
        ("TORCHINDUCTOR_SECONDS=soon", "TORCHINDUCTOR_SECONDS needs a whole number"),
        ("TORCHINDUCTOR_ONLINE_SOFTMX=1", r"did you mean TORCHINDUCTOR_ONLINE_SOFTMAX\?"),
    ],
)
def test_bad_assignments(catalogue: Catalogue, assignment: str, message: str) -> None:
    with pytest.raises(PerfcliError, match=message):
        assignments.make_variant("x", [assignment], catalogue)


def test_variables_that_torch_reads_elsewhere_are_fine(catalogue: Catalogue) -> None:
    variant = assignments.make_variant("x", ["TORCHINDUCTOR_CACHE_DIR=/tmp/c"], catalogue)
    assert variant.env == {"TORCHINDUCTOR_CACHE_DIR": "/tmp/c"}


def test_toggle(catalogue: Catalogue) -> None:
    entry = assignments.find(catalogue, "triton.mix_order_reduction")
    assert assignments.toggle(entry) == (True, False)
    with pytest.raises(PerfcliError, match=r"yes-or-no.*-a trailing=… -b trailing=…"):
        assignments.toggle(catalogue.entries["trailing"])
    with pytest.raises(PerfcliError, match=r"a whole number and its default is 0: give"):
        assignments.toggle(evaluate("multi", "int(os.environ.get('TORCHINDUCTOR_MULTI', '0'))"))
    with pytest.raises(PerfcliError, match="its default is not known"):
        assignments.toggle(catalogue.entries["unknowable"])


ASK_TORCH = """
import json
from torch._dynamo import config as dynamo
from torch._functorch import config as functorch
from torch._inductor import config as inductor
plain = (bool, int, float, str, type(None))
found = {}
for prefix, module in (("", inductor), ("dynamo.", dynamo), ("functorch.", functorch)):
    for name in module._config:
        value = getattr(module, name) if "." not in name else module._config[name].default
        found[prefix + name] = [value] if isinstance(value, plain) else None
print(json.dumps(found))
"""


@pytest.mark.torch
def test_the_installed_torch_agrees() -> None:
    """The same names, and the same default wherever one was worked out without importing."""
    from perfcli.machine.environment import clean_environment, probe

    done = subprocess.run(
        [sys.executable, "-c", ASK_TORCH],
        capture_output=True,
        text=True,
        check=True,
        env=clean_environment(os.environ, {}),
    )
    real = json.loads(done.stdout.splitlines()[-1])
    entries = load_catalogue(probe(None).torch_dir).entries
    # What perfcli brings to it stands in the catalogue, too.
    mine = {name: entry for name, entry in entries.items() if name in real or name not in PATCHES}
    real = {n: v for n, v in real.items() if not n.endswith("TYPE_CHECKING")}
    assert set(real) == set(mine)
    wrong = {
        name: (mine[name].value, value[0])
        for name, value in real.items()
        if value is not None and mine[name].value is not UNKNOWN and mine[name].value != value[0]
    }
    assert wrong == {}
    unknown = [name for name, entry in mine.items() if entry.value is UNKNOWN]
    assert len(unknown) < 12


# --- perfcli's patches ----------------------------------------------------------------------

MAX_READS = "triton.mix_order_reduction_max_reads"
SWITCH = "class triton:\n    mix_order_reduction = True\n"


def torch_of(folder: Path, version: str, inductor: str = SWITCH) -> Catalogue:
    """A torch of which only the configuration files exist."""
    for package, text in {"_inductor": inductor, "_dynamo": "", "_functorch": ""}.items():
        (folder / package).mkdir()
        (folder / package / "config.py").write_text(text)
    (folder / "version.py").write_text(f"__version__ = '{version}'\n")
    return load_catalogue(folder)


@pytest.mark.parametrize(
    "version", ["2.10.0", "2.11.0+cu130", "2.12.1", "2.11.0a0+git1234567", "2.12.0.dev20260301"]
)
def test_the_read_limit_is_brought_to_releases_without_it(tmp_path: Path, version: str) -> None:
    catalogue = torch_of(tmp_path, version)
    entry = assignments.find(catalogue, MAX_READS)
    assert entry.note == "perfcli's patch, from torch 2.13, PR #179494"
    assert (entry.type, entry.value, entry.env) == ("int | None", 0, ())
    limited = assignments.make_variant("v", [f"{MAX_READS}=10"], catalogue)
    assert limited.options == {MAX_READS: 10}
    assert assignments.defaults(limited, catalogue) == {}
    unlimited = assignments.make_variant("v", [f"{MAX_READS}=0"], catalogue)
    assert unlimited.options == assignments.defaults(unlimited, catalogue) == {MAX_READS: 0}
    none = assignments.make_variant("v", [f"{MAX_READS}=none"], catalogue)
    assert none.options == {MAX_READS: None}
    with pytest.raises(PerfcliError, match="needs a whole number or none, got 'many'"):
        assignments.make_variant("v", [f"{MAX_READS}=many"], catalogue)
    with pytest.raises(PerfcliError, match="needs a whole number from 0 up or none, got '-5'"):
        assignments.make_variant("v", [f"{MAX_READS}=-5"], catalogue)


def test_torchs_own_read_limit_stays_torchs(tmp_path: Path) -> None:
    own = torch_of(tmp_path, "2.13.0", SWITCH + "    mix_order_reduction_max_reads = 10\n")
    entry = assignments.find(own, MAX_READS)
    assert (entry.note, entry.type, entry.value) == ("", "int", 10)
    assert assignments.make_variant("v", [f"{MAX_READS}=-1"], own).options == {MAX_READS: -1}


@pytest.mark.parametrize(
    ("version", "inductor", "why"),
    [
        ("2.9.1+cpu", "", "torch 2.9.1+cpu is too old"),
        (
            "2.10.0a0+git1",
            "",
            "torch 2.10.0a0+git1 has no triton.mix_order_reduction, which it is built on",
        ),
        ("2.13.0.dev20260401", SWITCH, "torch 2.13.0.dev20260401 has it already"),
        ("nightly", SWITCH, "which release torch nightly is, is not known"),
    ],
)
def test_where_the_read_limit_does_not_apply(
    tmp_path: Path, version: str, inductor: str, why: str
) -> None:
    with pytest.raises(PerfcliError) as caught:
        assignments.find(torch_of(tmp_path, version, inductor), MAX_READS)
    assert str(caught.value) == (
        f"torch {version} has no option '{MAX_READS}': torch 2.13.0, 2.14.1, 2.15.0 have it; "
        f"perfcli's patch is for torch 2.10 to 2.12, and {why}"
    )


def test_a_misspelt_patch_is_recognised(tmp_path: Path) -> None:
    """Also where it does not fit."""
    for name, version in (("patch.split_softmax", "2.13.0"), ("split_online_softmax", "2.11.0")):
        folder = tmp_path / version
        folder.mkdir()
        with pytest.raises(PerfcliError, match=r"did you mean patch.split_online_softmax\?"):
            assignments.find(torch_of(folder, version), name)


def test_the_read_limit_is_refused_for_the_cpu(tmp_path: Path) -> None:
    catalogue = torch_of(tmp_path, "2.11.0", SWITCH + "trailing = 3\n")
    limited = assignments.make_variant("v", [f"{MAX_READS}=10"], catalogue)
    assignments.check_device(limited, catalogue, "cuda")
    with pytest.raises(
        PerfcliError, match=r"is a patch of Triton kernels, and --device cpu makes none"
    ):
        assignments.check_device(limited, catalogue, "cpu")
    assignments.check_device(
        assignments.make_variant("v", ["trailing=4"], catalogue), catalogue, "cpu"
    )


@pytest.mark.parametrize(
    ("assignment", "is_default"),
    [
        ("trailing=3", True),
        ("trailing=4", False),
        ("debug=false", True),
        ("debug=true", False),
        ("remote=none", True),
        ("unknowable=true", False),  # not known without torch
        ("ratio=1.5", True),
    ],
)
def test_options_set_to_their_default(
    catalogue: Catalogue, assignment: str, is_default: bool
) -> None:
    variant = assignments.make_variant("v", [assignment], catalogue)
    assert (assignments.defaults(variant, catalogue) == variant.options) is is_default
