"""Lists what perfcli patches into an installed torch when it is told to, like an option
(``compile.patches``): options of later releases, and changes that no release has."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from perfcli import units
from perfcli.model import Device, OptionValue
from perfcli.options import types

_Release: TypeAlias = "tuple[int, int]"
"""Major and minor."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Describes one patch, where it fits, and what to say of it."""

    name: str
    """What it is set by: the name of torch's own option where a later release has one, else
    ``patch.NAME``."""
    type: str
    off: OptionValue
    """The default: nothing is patched."""
    does: str
    """One sentence."""
    doc: str
    """What else there is to know: what values mean."""
    origin: str
    """Where it comes from: ``torch 2.13, PR #179494``."""
    sources: tuple[str, ...]
    first: _Release
    last: _Release
    """The last release that it fits."""
    in_later: bool
    """Whether releases after the last have it by themselves."""
    needs: tuple[str, ...]
    """Torch's options without which there is nothing to patch."""
    values: tuple[OptionValue, ...]
    """Values worth trying, the most telling first."""
    verb: str
    unit: str
    """What it is counted by: it ``refused`` 3 times a ``fusion``."""
    counter: str
    """Under which name it is counted."""
    cpu: bool = False
    """Whether it also acts on the C++ that Inductor writes for the CPU."""

    @property
    def reach(self) -> str:
        """Return the releases that it fits: ``torch 2.10 to 2.12``."""
        first, last = (".".join(map(str, end)) for end in (self.first, self.last))
        return f"torch {first}" if first == last else f"torch {first} to {last}"

    @property
    def note(self) -> str:
        return f"perfcli's patch, from {self.origin}"

    def is_off(self, value: OptionValue) -> bool:
        """Return whether the value patches nothing: none, false or 0."""
        return not value

    @property
    def values_in_words(self) -> str:
        """Return ``a whole number from 0 up or none``."""
        return types.describe(self.type).replace("number", "number from 0 up")

    def accepts(self, value: OptionValue) -> bool:
        """Return whether the value has the patch's type and makes sense: there are no sizes and
        counts below zero."""
        if isinstance(value, int | float) and value < 0:
            return False
        try:
            return type(types.convert(self.type, units.setting(value))) is type(value)
        except ValueError:
            return False


_LISTED = (
    Patch(
        name="triton.mix_order_reduction_max_reads",
        type="int | None",
        off=0,
        does="Stops fusing into a mix-order kernel where it would read more buffers than this.",
        doc="none or 0: it may read any number, as in this torch. The default of torch 2.13 is 10.",
        origin="torch 2.13, PR #179494",
        sources=("https://github.com/pytorch/pytorch/pull/179494",),
        first=(2, 10),
        last=(2, 12),
        in_later=True,
        needs=("triton.mix_order_reduction",),
        values=(10, 5, 20),
        verb="refused",
        unit="fusion",
        counter="rejected_mix_order_reduction_fusion",
    ),
    Patch(
        name="patch.split_online_softmax",
        type="bool",
        off=False,
        does="Finds maximum and sum of a softmax in one sweep also where rows are split.",
        doc="Few long rows: three kernels and two reads of the input in place of five and three.",
        origin="torch 2.13, PR #184069",
        sources=(
            "https://github.com/pytorch/pytorch/pull/184069",
            "https://github.com/pytorch/pytorch/issues/153241",
        ),
        first=(2, 11),
        last=(2, 12),
        in_later=True,
        needs=("online_softmax", "split_reductions"),
        values=(True,),
        verb="split",
        unit="softmax reduction",
        counter="patch.split_online_softmax",
    ),
    Patch(
        name="patch.accumulated_reads_size",
        type="int | None",
        off=None,
        does="Keeps fusions from reading more than this many bytes at once, which all take memory.",
        doc="A kernel then needs less memory at its peak, and more of them run. Four times the size"
        "\nof a tensor lets three terms and their running sum be added at once. none: no limit.",
        origin="torch 2.9, PR #157563",
        sources=("https://github.com/pytorch/pytorch/pull/157563",),
        first=(2, 10),
        last=(2, 15),
        in_later=False,
        needs=("realize_acc_reads_size_threshold",),
        values=(1 << 30, 1 << 28),
        verb="refused",
        unit="fusion",
        counter="patch.accumulated_reads_size",
        cpu=True,
    ),
    Patch(
        name="patch.loop_peeling",
        type="bool",
        off=False,
        does="Reads the whole tiles of a reduction without a mask, and from 16-byte boundaries on.",
        doc="Rows whose length is no multiple of the tile; static and dynamic sizes.",
        origin="PR #179941, which was closed",
        sources=(
            "https://github.com/pytorch/pytorch/pull/179941",
            "https://github.com/pytorch/pytorch/issues/148402",
        ),
        first=(2, 11),
        last=(2, 13),
        in_later=False,
        needs=("triton.persistent_reductions",),
        values=(True,),
        verb="peeled",
        unit="kernel",
        counter="patch.loop_peeling",
    ),
    Patch(
        name="patch.recompute_half_inputs",
        type="bool",
        off=False,
        does="Holds rows of half precision as they are, not as float32, and longer ones.",
        doc="Rows of up to 4096 columns are held in registers.",
        origin="RFC #179711, PR #182671, which was closed",
        sources=(
            "https://github.com/pytorch/pytorch/issues/179711",
            "https://github.com/pytorch/pytorch/pull/182671",
        ),
        first=(2, 11),
        last=(2, 13),
        in_later=False,
        needs=("triton.persistent_reductions",),
        values=(True,),
        verb="rewrote",
        unit="kernel",
        counter="patch.recompute_half_inputs",
    ),
)

PATCHES: Mapping[str, Patch] = {patch.name: patch for patch in _LISTED}


def list_fitting(version: str, options: Container[str]) -> dict[str, Patch]:
    """Return the patches that fit the torch of this version, which has ``options`` of its own."""
    return {
        name: patch
        for name, patch in PATCHES.items()
        if name not in options and not _misfit(patch, version, options)
    }


def write_state(patch: Patch, version: str, options: Container[str]) -> str:
    """Return ``fits``, or why a patch is not for this torch."""
    return _misfit(patch, version, options) or "fits"


def acts_on(name: str, device: Device) -> bool:
    """Return whether a patch changes code for this kind of device."""
    return device != "cpu" or PATCHES[name].cpu


def explain_refusal(name: str, version: str, options: Container[str]) -> str:
    """Return why a patch is not for the torch of this version, which has ``options`` of its own:
    ``perfcli's patch is for torch 2.10 to 2.12, and torch 2.9.1 is too old``. It is empty for what
    is no patch, and for one that fits."""
    patch = PATCHES.get(name)
    misfit = _misfit(patch, version, options) if patch else ""
    return f"perfcli's patch is for {patch.reach}, and {misfit}" if patch and misfit else ""


def _misfit(patch: Patch, version: str, options: Container[str]) -> str:
    release = _release(version)
    if release is None:
        return f"which release torch {version} is, is not known"
    if release < patch.first:
        return f"torch {version} is too old"
    if release > patch.last:
        newer = "has it already" if patch.in_later else "is newer than what it was tried with"
        return f"torch {version} {newer}"
    missing = next((option for option in patch.needs if option not in options), "")
    return f"torch {version} has no {missing}, which it is built on" if missing else ""


def _release(version: str) -> _Release | None:
    """Return (2, 11) for ``2.11.0+cu130``, also before a release, ``2.11.0a0+git1234567``."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else None
