from __future__ import annotations

import gzip
import itertools
import json
from importlib import resources
from typing import Any

import pytest

from perfcli.errors import PerfcliError
from perfcli.options import releases as knobs


def test_encoding_keeps_every_release() -> None:
    """Whatever went in comes out: an option that comes, changes, goes and comes back."""
    releases = {
        "2.10.0": {"a": "1", "b": "2"},
        "2.9.1": {"a": "0"},
        "2.11.0": {"b": "2"},
        "2.12.0": {"a": "1", "b": "3"},
    }
    data: dict[str, Any] = knobs.encode(releases)
    assert data["versions"] == ["2.9.1", "2.10.0", "2.11.0", "2.12.0"]
    assert data["options"] == {
        "a": {"2.9.1": "0", "2.10.0": "1", "2.11.0": None, "2.12.0": "1"},
        "b": {"2.10.0": "2", "2.12.0": "3"},
    }


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    data: dict[str, Any] = knobs.encode(
        {"2.9.1": {"a": "0", "x": "1"}, "2.10.0": {"a": "1", "y": "2"}, "2.11.0": {"a": "1"}}
    )
    loaded = knobs._KnobData(tuple(data["versions"]), data["options"])
    monkeypatch.setattr(knobs, "load", lambda: loaded)


def test_changes_between_two_releases(small: None) -> None:
    assert knobs.changes("2.9.1", "2.10.0") == [
        knobs.KnobChange("a", "default changed", "0", "1"),
        knobs.KnobChange("y", "added", None, "2"),
        knobs.KnobChange("x", "removed", "1", None),
    ]
    assert knobs.changes("2.10.0", "2.10.0") == []


def test_changes_backwards_are_the_mirror(small: None) -> None:
    there, back = knobs.changes("2.9.1", "2.11.0"), knobs.changes("2.11.0", "2.9.1")
    assert sorted((c.name, c.after, c.before) for c in back) == sorted(
        (c.name, c.before, c.after) for c in there
    )


def test_versions_having(small: None) -> None:
    assert knobs.versions_having("a") == ("2.9.1", "2.10.0", "2.11.0")
    assert knobs.versions_having("y") == ("2.10.0",)
    assert knobs.versions_having("nothing") == ()
    assert (knobs.since("a"), knobs.since("y"), knobs.since("nothing")) == ("≤2.9.1", "2.10.0", "")


def test_an_unknown_release_names_the_known(small: None) -> None:
    with pytest.raises(PerfcliError, match=r"torch '1.0': known are 2.9.1, 2.10.0, 2.11.0"):
        knobs.changes("1.0", "2.10.0")
    assert knobs.known_release("2.10") == knobs.known_release("2.10.0+cu130") == "2.10.0"


def test_shipped_data_says_what_release_notes_say() -> None:
    """Mix-order reductions came in 2.10, on by default; their read limit of 10 in 2.13."""
    assert knobs.load().versions == (
        *("2.8.0", "2.9.1", "2.10.0", "2.11.0"),
        *("2.12.1", "2.13.0", "2.14.1", "2.15.0"),
    )
    assert knobs.since("triton.mix_order_reduction") == "2.10.0"
    assert knobs.since("triton.mix_order_reduction_max_reads") == "2.13.0"
    assert knobs.defaults("2.13.0")["triton.mix_order_reduction_max_reads"] == "10"
    assert all(knobs.since(o) == "≤2.8.0" for o in ("online_softmax", "max_autotune"))
    added = {c.name for c in knobs.changes("2.11.0", "2.13.0") if c.kind == "added"}
    assert "triton.mix_order_reduction_max_reads" in added


def test_shipped_data_is_small_and_minimal() -> None:
    raw = resources.files("perfcli").joinpath("data/knobs.json").read_bytes()
    assert len(raw) < 60_000
    assert len(gzip.compress(raw)) < 16_000
    for history in json.loads(raw)["options"].values():
        values = list(history.values())
        assert values[0] is not None
        assert all(a != b for a, b in itertools.pairwise(values))


def test_nearest_knows_forgotten_prefixes_and_typos() -> None:
    names = ["triton.mix_order_reduction", "triton.cudagraphs", "online_softmax", "cpp.threads"]
    assert knobs.nearest("mix_order_reduction", names) == ["triton.mix_order_reduction"]
    assert knobs.nearest("onlin_softmax", names) == ["online_softmax"]
    assert knobs.nearest("cudagraph", names) == ["triton.cudagraphs"]
    assert knobs.nearest("something_else_entirely", names) == []


@pytest.mark.torch
def test_the_installed_release_is_in_the_data_as_it_is() -> None:
    from perfcli.machine.environment import probe
    from perfcli.options.catalogue import load_catalogue

    catalogue = load_catalogue(probe(None).torch_dir)
    release = catalogue.torch.partition("+")[0]
    if release not in knobs.load().versions:
        pytest.skip(f"torch {release} is not in the data")
    mine = {n: e.default for n, e in catalogue.entries.items()}
    mine = {n: d for n, d in mine.items() if not n.startswith(("dynamo.", "functorch.", "patch."))}
    assert mine == knobs.defaults(release)
