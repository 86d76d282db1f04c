"""The text of a kernel as Inductor writes it, with two launch configurations."""

KERNEL = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties
triton_helpers.set_driver_to_gpu()

@triton_heuristics.pointwise(
    size_hints={'x': 4096},
    filename=__file__,
    triton_meta={'signature': {'x': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'},
                 'device': DeviceProperties(type='cuda', index=0, multi_processor_count=132, cc=90),
                 'constants': {}, 'configs': [{(0,): [['tt.divisibility', 16]]}]},
    inductor_meta={'grid_type': 'Grid1D', 'kernel_name': 'double', 'mutated_arg_names': ['x'],
                   'num_load': 1, 'num_reduction': 0, 'autotune_hints': set()},
    min_elem_per_thread=0
)
@triton.jit
def double(x, xnumel, XBLOCK: tl.constexpr):
    index = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    tl.store(x + index, tl.load(x + index, index < xnumel) * 2, index < xnumel)
"""
