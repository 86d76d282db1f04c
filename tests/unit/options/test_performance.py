from __future__ import annotations

import re
from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

from perfcli.errors import PerfcliError
from perfcli.machine.environment import probe
from perfcli.options import performance, releases
from perfcli.options.catalogue import MODULES, Catalogue, InductorOption, load_catalogue
from perfcli.options.listing import accepts
from perfcli.options.performance import PerformanceKnob

ROOT = Path(__file__).parents[3]

GOOD = """
[[knob]]
name = "b"
values = [4, 16]
does = "Does something."
acts = "kernels"
devices = "gpu"
documented = false
since = "2.10.0"
range = [2, 64]
sources = ["https://example.org/b"]

[[knob]]
name = "a"
values = [true]
does = "Does something else."
acts = "run"
devices = "both"
documented = true
since = "≤2.8.0"
until = "2.12.1"
needs_device = true
sources = ["https://example.org/a"]
"""


def entry(name: str, kind: str, value: object) -> InductorOption:
    return InductorOption(name, kind, repr(value), value)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> tuple[PerformanceKnob, ...]:
    found = performance._parse(GOOD)
    monkeypatch.setattr(performance, "load", lambda: found)
    return found


# --- the reader -------------------------------------------------------------------------------


def test_parsing_keeps_order_types_and_fields() -> None:
    b, a = performance._parse(GOOD)
    assert (b.name, b.values, b.range, b.until, b.only_with) == ("b", (4, 16), (2, 64), None, {})
    assert (a.name, a.values, a.until, a.needs_device) == ("a", (True,), "2.12.1", True)
    assert (b.is_static, a.is_static) == (True, False)
    assert [k.acts_on("cuda") for k in (b, a)] == [True, True]
    assert [k.acts_on("cpu") for k in (b, a)] == [False, True]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[knob]]", "[[knobs]]", "expected tables [[knob]] and nothing else"),
        ('name = "b"', 'name = "b', "Illegal character '\\n' (at line 3, column 10)"),
        ('name = "b"', "", "knob 1: Object missing required field `name`"),
        ('name = "b"', 'name = "a"', "listed twice: a"),
        ('acts = "kernels"', 'acts = "kernel"', "b: Invalid enum value 'kernel' - at `$.acts`"),
        ('devices = "gpu"', 'device = "gpu"', "b: no field is called device"),
        ("documented = false", "documented = 0", "b: Expected `bool`, got `int`"),
        ("values = [4, 16]", "values = []", "b: values is empty"),
        ("values = [4, 16]", "values = [4, 4]", "b: values has one twice"),
        ("values = [4, 16]", "values = [4, 65]", "b: values lie outside of range"),
        ("range = [2, 64]", "range = [64, 64]", "b: range is not from low to high"),
        ("range = [2, 64]", "range = [2]", "b: Expected `array` of length 2, got 1"),
        ("something.", "something", "b: does is no sentence"),
        ('"2.10.0"', '"new"', "b: since is no release"),
        ('"2.12.1"', '"2.7.0"', "a: until is before since"),
        ('"https://example.org/b"', '"see the code"', "b: sources needs addresses"),
        ('["https://example.org/b"]', "[]", "b: sources needs addresses"),
        ("needs_device = true", "only_with = { a = true }", "a: only_with names the knob itself"),
    ],
)
def test_a_bad_file_is_named_with_knob_and_field(old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(PerfcliError) as caught:
        performance._parse(GOOD.replace(old, new), "my.toml")
    assert str(caught.value).startswith("my.toml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value).replace("\\n", "")


def test_values_below_a_range_switch_a_limit_off() -> None:
    (b, _) = performance._parse(GOOD.replace("values = [4, 16]", "values = [0, -1, 2, 64]"))
    assert b.values == (0, -1, 2, 64)


# --- what a torch has of it ---------------------------------------------------------------------


def test_releases_from_since_to_until(two: tuple[PerformanceKnob, ...]) -> None:
    def names(version: str) -> list[str]:
        return [knob.name for knob in two if knob.exists_in(version)]

    assert names("2.7.1") == []
    assert names("2.8.0") == names("2.9.1") == ["a"]
    assert names("2.10.0+cu130") == names("2.12.9") == ["b", "a"]
    assert names("2.13.0") == ["b"]


def test_a_torch_is_asked_for_defaults_and_types(two: tuple[PerformanceKnob, ...]) -> None:
    entries = {"b": entry("b", "int | None", 16), "c": entry("c", "bool", True)}
    (choice,) = performance.for_torch(entries)
    assert (choice.knob, choice.entry, choice.values) == (two[0], entries["b"], (4,))
    assert performance.list_missing(entries) == (two[1],)
    with pytest.raises(PerfcliError, match=r"b needs true or false in this torch, and 4 is to be"):
        performance.for_torch({"b": entry("b", "bool", True)})


def test_usable_ones_act_on_the_device_and_show_without_it(
    two: tuple[PerformanceKnob, ...],
) -> None:
    choices = performance.for_torch({"a": entry("a", "bool", False), "b": entry("b", "int", 1)})

    def names(device: str, has_device: bool) -> list[str]:
        found = performance.select_usable(
            choices, "cuda" if device == "gpu" else "cpu", has_device=has_device
        )
        return [choice.knob.name for choice in found]

    assert names("gpu", True) == ["b", "a"]
    assert names("gpu", False) == ["b"]
    assert names("cpu", True) == ["a"]
    assert names("cpu", False) == []
    done = [replace(choice, values=()) for choice in choices]
    assert performance.select_usable(done, "cuda", has_device=True) == ()


# --- the shipped list ---------------------------------------------------------------------------


def test_the_shipped_list_is_long_enough_and_has_documented_options_first() -> None:
    shipped = performance.load()
    inductor = [k for k in shipped if not k.name.startswith(("dynamo.", "functorch."))]
    assert len(inductor) >= 60
    assert len({knob.name for knob in shipped}) == len(shipped)
    documented = [knob.documented for knob in shipped]
    assert documented == sorted(documented, reverse=True)
    text = (ROOT / "docs" / "knobs.md").read_text(encoding="utf-8")
    assert f"{len(shipped)} options, {len(inductor)} of them Inductor's" in text
    static = [k for k in inductor if k.is_static and not k.needs_device and k.acts_on("cuda")]
    assert len(static) >= 60


def test_options_that_act_when_the_step_runs() -> None:
    assert performance.acts_on_running("triton.cudagraphs")
    assert performance.acts_on_running("dynamo.cache_size_limit")
    assert not performance.acts_on_running("triton.mix_order_reduction")
    # What the hand-kept list says of these options agrees with their names.
    for knob in performance.load():
        if "cudagraph" in knob.name:
            assert knob.acts == "run", knob.name


def test_the_releases_are_those_of_the_shipped_history() -> None:
    versions = releases.load().versions
    for knob in performance.load():
        having = releases.versions_having(knob.name)
        if not having:
            assert knob.name.startswith(("dynamo.", "functorch."))
            continue
        assert knob.since == releases.since(knob.name), knob.name
        assert knob.until == (None if having[-1] == versions[-1] else having[-1]), knob.name
        assert [v for v in versions if knob.exists_in(v)] == list(having), knob.name


def test_what_goes_along_exists() -> None:
    for knob in performance.load():
        for partner in knob.only_with:
            assert releases.versions_having(partner), f"{knob.name}: {partner}"


def test_one_sentence_each() -> None:
    for knob in performance.load():
        assert knob.does[0].isupper() or knob.does[0].isdigit()
        assert "\n" not in knob.does
        assert len(knob.does) <= 160, knob.name
        assert ". " not in knob.does, knob.name


def test_numbers_to_try_have_the_range_that_they_lie_in() -> None:
    """Modes that are written as numbers (0 never, 1 mostly, 2 always) have none."""
    modes = {
        "triton.multi_kernel",
        "combo_kernel_allow_mixed_sizes",
        "combo_kernels_autotune",
        "cpp.simdlen",
    }
    for knob in performance.load():
        numeric = any(type(value) in (int, float) for value in knob.values)
        assert (knob.range is not None) == (numeric and knob.name not in modes), knob.name


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(probe(None, needs_triton=False).torch_dir)


@pytest.mark.torch
def test_the_installed_torch_has_what_its_release_has(catalogue: Catalogue) -> None:
    expected = {k.name for k in performance.load() if k.exists_in(catalogue.torch)}
    brought = {name for name, e in catalogue.entries.items() if e.note}
    found = {choice.knob.name for choice in performance.for_torch(catalogue.entries)}
    assert found - brought == expected - brought
    assert len(found) >= 60


@pytest.mark.torch
def test_the_installed_torch_accepts_every_value(catalogue: Catalogue) -> None:
    for choice in performance.for_torch(catalogue.entries):
        assert choice.values, f"{choice.knob.name}: only its default"
        for value in choice.knob.values:
            assert accepts(choice.entry, value), f"{choice.knob.name}={value!r}"
        for partner, value in choice.knob.only_with.items():
            assert accepts(catalogue.entries[partner], value), f"{partner}={value!r}"
        for end in choice.knob.range or ():
            assert accepts(choice.entry, end), f"{choice.knob.name}: {end!r}"


@pytest.mark.torch
def test_sources_and_comments_are_those_of_torch_2_13(catalogue: Catalogue) -> None:
    """The line that a source names assigns the option; ``documented``: a comment stands by it."""
    if not catalogue.torch.startswith("2.13.0"):
        pytest.skip(f"sources name lines of torch 2.13.0, this is {catalogue.torch}")
    files = {
        package: (catalogue.torch_dir / package / "config.py").read_text().splitlines()
        for package in MODULES.values()
    }
    for knob in performance.load():
        known = catalogue.entries.get(knob.name)
        if known is None:
            continue
        assert knob.documented == bool(known.doc), knob.name
        named = re.search(r"/v2\.13\.0/torch/(\w+)/config\.py#L(\d+)$", knob.sources[0])
        assert named, knob.name
        line = files[named[1]][int(named[2]) - 1]
        own = knob.name.rpartition(".")[2]
        assert re.match(rf"\s*{own}\s*[:=]", line), f"{knob.name}: {line!r}"


def test_the_file_is_small() -> None:
    path = resources.files("perfcli").joinpath(performance.FILE)
    assert len(path.read_bytes()) < 80_000


@pytest.mark.parametrize(
    ("name", "alters"),
    [
        ("use_fast_math", "numerics"),
        ("emulate_precision_casts", "numerics"),
        ("fallback_random", "numerics"),
        ("cpp.enable_unsafe_math_opt_flag", "numerics"),
        ("freezing", "assumptions"),
        ("assert_indirect_indexing", "assumptions"),
        ("split_reductions", ""),
        ("online_softmax", ""),
    ],
)
def test_what_alters_more_than_speed_is_marked(name: str, alters: str) -> None:
    (knob,) = (knob for knob in performance.load() if knob.name == name)
    assert knob.alters == alters


def test_what_is_set_along_marks_an_option_as_well() -> None:
    alters = {knob.name: knob.alters for knob in performance.load()}
    missed = [
        knob.name
        for knob in performance.load()
        if not knob.alters and any(alters.get(other) for other in knob.only_with)
    ]
    assert missed == []
