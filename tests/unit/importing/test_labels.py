from __future__ import annotations

import pytest

from perfcli.importing.traces.labels import label_kernel


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("nvjet_tst_128x256_64x4_1x2_h_bz_NNT", "nvjet_tst_128x256_64x4_1x2_h_bz_NNT"),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
            "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>)",
            "at::native::vectorized_elementwise_kernel FillFunctor",
        ),
        (
            "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4>"
            "(cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4::Params)",
            "cutlass_80_tensorop_s1688gemm_64x64_16x6_nn_align4",
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
            "at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>>(int)",
            "at::native::elementwise_kernel direct_copy_kernel_cuda",
        ),
        (
            "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4>(float*)",
            "at::native::CatArrayBatchedCopy",
        ),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
         "ncclKernel_AllReduce_RING_LL_Sum_float"),
        ("", ""),
        ("<(", "<("),
    ],
)  # fmt: skip
def test_labels_leave_out_what_builds_differ_in(name: str, label: str) -> None:
    assert label_kernel(name) == label


def test_a_label_is_short() -> None:
    assert len(label_kernel("k" * 9000)) == 100
