"""What a script sees of a device that is not there: streams, events, memory, graphs, ranges."""

from __future__ import annotations

from typing import Any

import pytest

from perfcli.machine import targets

H100 = targets.get("h100")

pytestmark = pytest.mark.torch


def test_streams_take_work_and_are_done(device_calls: Any) -> None:
    assert device_calls["streams"] == {
        "is a stream": [True, True],
        "entered": True,
        "device": "cuda:0",
        "event is done": True,
        "stream is done": True,
        "default": True,
        "result": ["cuda:0", [4]],
        "priorities": [0, -5],
    }


def test_a_time_between_events_can_be_divided_by(device_calls: Any) -> None:
    assert device_calls["events"] == {"took": 1.0, "rate": 1000.0, "done": True}


def test_memory_is_the_targets_and_unused(device_calls: Any) -> None:
    memory = device_calls["memory"]
    assert memory["free"] == memory["total"] == memory["properties"] == H100.memory_bytes
    assert memory["used"] == [0, 0, 0, 0, 0]
    assert (memory["peak"], memory["retries"]) == (0, 0)
    assert (memory["summary"], memory["snapshot"]) == ("", [])


def test_what_a_graph_records_runs_once(device_calls: Any) -> None:
    assert device_calls["graphs"] == {
        "ran": ["recorded"],
        "result": ["cuda:0", [4]],
        "same class": True,
        "callable": [4],
        "recording": False,
    }


def test_ranges_run_what_they_surround(device_calls: Any) -> None:
    assert device_calls["ranges"] == ["forward", "decorated"]


def test_there_is_one_device(device_calls: Any) -> None:
    assert device_calls["device"] == {
        "device": "cuda:0",
        "count": [1, 1],
        "accelerator": "cuda",
        "available": [True, True],
        "states": 1,
        "peer": True,
        "clock": H100.clock_khz // 1000,
    }


def test_fast_paths_have_shapes(device_calls: Any) -> None:
    """An encoder's layer; attention with its weights, those of each head, and without them."""
    y, averaged, of_heads = [2, 6, 32], [2, 6, 6], [2, 4, 6, 6]
    assert device_calls["fast_paths"] == [y, y, averaged, y, of_heads, y, None]


def test_convolutions_are_laid_out_as_cudnn_does(device_calls: Any) -> None:
    """A result and both gradients have the channels last where image or weight has, as
    ``cudnn_conv_suggest_memory_format`` in ATen/native/ConvUtils.h says; never in float64."""
    first, last = "first first first", "last last last"
    assert device_calls["convolutions"] == {
        "first": first,
        "image": last,
        "weight": last,
        "volume": last,
        "line": first,
        "doubles": first,
        "without cuDNN": first,
    }
