"""Describes one call of ``scaled_dot_product_attention`` on CUDA as plain data.

Everything that torch's C++ chooser looks at, and nothing else: no torch is needed to build one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum


class Backend(IntEnum):
    """Names the values of ``torch.nn.attention.SDPBackend`` (ATen/SDPBackend.h)."""

    ERROR = -1
    MATH = 0
    FLASH = 1
    EFFICIENT = 2
    CUDNN = 3
    OVERRIDEABLE = 4


DEFAULT_ORDER = (
    Backend.FLASH,
    Backend.EFFICIENT,
    Backend.MATH,
    Backend.CUDNN,
    Backend.OVERRIDEABLE,
)
"""``sdp_priority_order`` of ATen/Context.h, what a fresh process answers."""

ALL_BACKENDS = frozenset({Backend.MATH, Backend.FLASH, Backend.EFFICIENT, Backend.CUDNN})


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Holds what the chooser may know of a tensor; sizes, strides and offset count elements.

    A negative number is symbolic, and equal negative numbers are the same expression. A symbolic
    size is taken to be at least 2 (torch specialises 0 and 1), to differ from every constant,
    to respect every upper limit and to be divisible as required.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    """``bfloat16``, without ``torch.``."""
    requires_grad: bool = False
    storage_offset: int = 0

    def unsqueezed(self) -> TensorSpec:
        """Return the same tensor with a leading dimension of size 1."""
        stride = self.shape[0] * self.strides[0] if self.shape else 1
        return replace(self, shape=(1, *self.shape), strides=(stride, *self.strides))


@dataclass(frozen=True, slots=True)
class AttentionCall:
    """Describes a call, and the process and device that it would run in."""

    query: TensorSpec
    key: TensorSpec
    value: TensorSpec
    mask: TensorSpec | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    enable_gqa: bool = False
    is_nested: bool = False
    """Whether any of the three is a (strided) nested tensor."""
    capability: tuple[int, int] = (9, 0)
    torch_version: tuple[int, ...] = (2, 11, 0)
    cudnn_version: int = 91900
    """The version as ``torch.backends.cudnn.version()`` has it: 9.19.0 is 91900."""
    enabled: frozenset[Backend] = ALL_BACKENDS
    """What ``torch.backends.cuda.*_sdp_enabled`` answers."""
    priority: tuple[int, ...] = DEFAULT_ORDER
    """What ``torch._C._get_sdp_priority_order`` answers."""
    deterministic: bool = False
    """Deterministic algorithms demanded, not merely warned about."""
    grad_enabled: bool = True
    cudnn_deprioritized: bool = False
    """``TORCH_CUDNN_SDPA_DEPRIORITIZED=1`` in the environment."""

    @property
    def tensors(self) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        return (self.query, self.key, self.value)

    @property
    def needs_grad(self) -> bool:
        """Return ``input_requires_grad`` of sdp_utils_cpp.h; the mask does not count."""
        return self.grad_enabled and any(t.requires_grad for t in self.tensors)

    def since(self, version: tuple[int, int]) -> bool:
        """Return whether the call runs in this version of torch or a later one."""
        return self.torch_version >= version
