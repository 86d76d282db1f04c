"""Which launch configuration a kernel takes when one of the same text was tuned before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from perfcli.compile import tuning

TEXT = "inductor_meta={{'kernel_name': '{name}'}}\ndef {name}(x, XBLOCK):\n    pass  # {body}\n"


@dataclass(frozen=True)
class Config:
    kwargs: Mapping[str, int]
    num_warps: int = 4
    num_stages: int = 1


class Launcher:
    def __init__(self, xblock: int) -> None:
        self.config = Config({"XBLOCK": xblock})


class Tuner:
    """Stands for Inductor's ``CachingAutotuner``."""

    def __init__(self, folder: Path, name: str, blocks: tuple[int, ...], body: str = "") -> None:
        self.filename = str(folder / f"{name}.py")
        Path(self.filename).write_text(TEXT.format(name=name, body=body), encoding="utf-8")
        self.fn = SimpleNamespace(__name__=name)
        self.launchers = [Launcher(block) for block in blocks]


def taken(tuner: Any, folder: Path, seconds: Mapping[int, float]) -> tuple[int, bool]:
    """The block size that wins, and whether anything was measured."""
    measured = []

    def measure() -> dict[Any, float]:
        measured.append(True)
        return {each: seconds[each.config.kwargs["XBLOCK"]] for each in tuner.launchers}

    found = tuning._timings(tuner, folder / "tuned", measure)
    return min(found, key=found.__getitem__).config.kwargs["XBLOCK"], bool(measured)


def test_the_same_text_under_another_name_takes_what_the_first_took(tmp_path: Path) -> None:
    first = Tuner(tmp_path, "triton_poi_fused_add_23", (128, 256))
    second = Tuner(tmp_path, "triton_poi_fused_add_26", (128, 256))
    assert taken(first, tmp_path, {128: 1.0, 256: 1.1}) == (128, True)
    # Measured, it would have been the other one.
    assert taken(second, tmp_path, {128: 1.1, 256: 1.0}) == (128, False)


def test_a_choice_that_is_made_while_it_waits_is_taken(tmp_path: Path) -> None:
    first = Tuner(tmp_path, "triton_poi_fused_add_23", (128, 256))
    second = Tuner(tmp_path, "triton_poi_fused_add_26", (128, 256))

    @contextmanager
    def wait() -> Iterator[None]:
        assert taken(first, tmp_path, {128: 1.0, 256: 1.1}) == (128, True)
        yield

    def measure() -> dict[Any, float]:
        raise AssertionError("it is measured")

    found = tuning._timings(second, tmp_path / "tuned", measure, wait)
    assert [each.config.kwargs["XBLOCK"] for each in found] == [128]


def test_another_text_is_measured(tmp_path: Path) -> None:
    first = Tuner(tmp_path, "triton_poi_fused_add_0", (128, 256))
    other = Tuner(tmp_path, "triton_poi_fused_add_1", (128, 256), body="coordinate descent")
    assert taken(first, tmp_path, {128: 1.0, 256: 1.1}) == (128, True)
    assert taken(other, tmp_path, {128: 1.1, 256: 1.0}) == (256, True)


def test_a_configuration_that_is_not_there_is_no_choice(tmp_path: Path) -> None:
    first = Tuner(tmp_path, "triton_red_fused_0", (64, 128))
    other = Tuner(tmp_path, "triton_red_fused_1", (128, 256))
    assert taken(first, tmp_path, {64: 1.0, 128: 1.1}) == (64, True)
    assert taken(other, tmp_path, {128: 1.1, 256: 1.0}) == (256, True)


def test_a_kernel_without_a_file_is_measured(tmp_path: Path) -> None:
    tuner = Tuner(tmp_path, "triton_poi_fused_0", (128, 256))
    Path(tuner.filename).unlink()
    assert taken(tuner, tmp_path, {128: 1.1, 256: 1.0}) == (256, True)
    assert not (tmp_path / "tuned").exists()
