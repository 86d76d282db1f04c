"""Builds small convolutional networks in training, for comparing two builds of one torch.

    for f in resnet resnet32 resnet_amp depthwise unet volume line last dilated; do
      perfcli compare bench/convolutions.py:$f --a-python CPU_BUILD --b-python CUDA_BUILD
    done

All kernels are expected to be identical: a CPU build lacks cuDNN, which decides how the results of
convolutions lie in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from perfcli.model import Workload


def _train(
    model: nn.Module, *shape: int, dtype: torch.dtype = torch.bfloat16, autocast: str | None = None
) -> Workload:
    inputs = (torch.randn(*shape).to(dtype),)
    return Workload(model.to(dtype).train(), inputs, mode="training", autocast=autocast)


class _Block(nn.Module):  # type: ignore[misc]  # torch may not be there
    def __init__(self, channels: int, wider: int, stride: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, wider, 3, stride, 1, bias=False),
            nn.BatchNorm2d(wider),
            nn.ReLU(),
            nn.Conv2d(wider, wider, 3, 1, 1, bias=False),
            nn.BatchNorm2d(wider),
        )
        self.shortcut = nn.Sequential(
            nn.Conv2d(channels, wider, 1, stride, bias=False), nn.BatchNorm2d(wider)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def _resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        _Block(64, 64),
        _Block(64, 128, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(128, 1000),
    )


def resnet() -> Any:
    """Return two residual blocks in bfloat16."""
    return _train(_resnet(), 8, 3, 64, 64)


def resnet32() -> Any:
    """Return two residual blocks in float32."""
    return _train(_resnet(), 8, 3, 64, 64, dtype=torch.float32)


def resnet_amp() -> Any:
    """Return two residual blocks under autocast."""
    return _train(_resnet(), 8, 3, 64, 64, dtype=torch.float32, autocast="bfloat16")


def depthwise() -> Any:
    """Return convolutions of each channel and of groups of channels."""
    layers = (
        nn.Conv2d(32, 32, 7, 1, 3, groups=32),
        nn.GroupNorm(8, 32),
        nn.SiLU(),
        nn.Conv2d(32, 64, 1),
        nn.GELU(),
        nn.Conv2d(64, 64, 3, 1, 1, groups=4),
    )
    return _train(nn.Sequential(*layers), 4, 32, 32, 32)


def unet() -> Any:
    """Return a way down and up again: a transposed convolution, upsampling."""
    layers = (
        nn.Conv2d(3, 32, 3, 1, 1),
        nn.GroupNorm(8, 32),
        nn.SiLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.SiLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.SiLU(),
        nn.Upsample(scale_factor=2),
        nn.Conv2d(32, 3, 3, 1, 1),
    )
    return _train(nn.Sequential(*layers), 4, 3, 32, 32)


def volume() -> Any:
    """Return convolutions in three dimensions."""
    layers = (
        nn.Conv3d(3, 16, 3, 1, 1),
        nn.BatchNorm3d(16),
        nn.ReLU(),
        nn.Conv3d(16, 32, 3, 2, 1),
        nn.ReLU(),
    )
    return _train(nn.Sequential(*layers), 2, 3, 8, 32, 32)


def line() -> Any:
    """Return convolutions in one dimension."""
    layers = (
        nn.Conv1d(16, 64, 5, 2, 2),
        nn.GELU(),
        nn.Conv1d(64, 64, 3, 1, 1, groups=64),
        nn.BatchNorm1d(64),
        nn.GELU(),
        nn.ConvTranspose1d(64, 32, 4, 2, 1),
    )
    return _train(nn.Sequential(*layers), 4, 16, 512)


def last() -> Any:
    """Return convolutions whose image and weights have the channels last."""
    layers = (
        nn.Conv2d(16, 64, 3, 1, 1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1, 1),
    )
    model = nn.Sequential(*layers).to(torch.bfloat16, memory_format=torch.channels_last)
    images = torch.randn(4, 16, 32, 32).to(torch.bfloat16, memory_format=torch.channels_last)
    return Workload(model.train(), (images,), mode="training")


def dilated() -> Any:
    """Return a dilated convolution and bilinear upsampling."""
    layers = (
        nn.Conv2d(16, 64, 3, 1, 2, dilation=2),
        nn.ReLU(),
        nn.Conv2d(64, 21, 1),
        nn.Upsample(scale_factor=4, mode="bilinear"),
    )
    return _train(nn.Sequential(*layers), 4, 16, 32, 32)
