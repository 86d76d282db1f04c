"""Gives kernels of libraries names that people read and that two builds share: without parameters,
templates and namespaces that say nothing."""

from __future__ import annotations

import re

_MOST = 100
# Wrappers that only the first template argument tells apart.
_WRAPPERS = re.compile(
    r"(?:cutlass::(?:Kernel2?|device_kernel)|cutlass_cudnn\w*::Kernel|.*::multi_tensor_apply_kernel|"
    r".*elementwise_kernel(?:_\w+)?|.*::reduce_kernel|.*::gpu_index_kernel)"
)
_PLAIN = re.compile(
    r"at|native|c10|detail|cuda|std|float|double|int|long|bool|unsigned|void|char|short|const|"
    r"anonymous|namespace|gpu_kernel_impl|gpu_kernel_impl_nocast|lambda|operator|func_wrapper_t|"
    r"ReduceOp|Array|TensorIterator(?:Base)?|(?:Trivial)?OffsetCalculator|memory|cutlass|gemm|"
    r"(?:Load|Store)With(?:out)?Cast|kernel|device|BFloat16|Half|complex|binary_internal|templates|"
    r"TensorListMetadata"
)
_WORD = re.compile(r"[A-Za-z_]\w*")
_RETURNED = re.compile(r"^(?:void|std::enable_if<[^()]*>::type)\s+")


def label_kernel(name: str) -> str:
    """Return ``at::native::reduce_kernel sum_functor`` of the name of a C++ template with all its
    arguments; other names as they are, cut where they are absurdly long."""
    plain = _RETURNED.sub("", name.strip()).replace("(anonymous namespace)::", "")
    base = re.split(r"[<(]", plain, maxsplit=1)[0].strip()
    if not base or " " in base or base == plain:
        # Not C++: ``Memcpy HtoD (Pinned -> Device)``, ``nvjet_tst_128x256_64x4_1x2_h_bz_NNT``.
        return plain[:_MOST]
    told = ""
    if _WRAPPERS.fullmatch(base):
        words = _WORD.findall(plain[len(base) :])
        told = next((word for word in words if not _PLAIN.fullmatch(word) and len(word) > 3), "")
    if base.startswith("cutlass::") and told:
        return told[:_MOST]
    return f"{base} {told}".strip()[:_MOST]
