"""Reads, for the rules, what this torch had set and what Inductor counted while it compiled."""

from __future__ import annotations

from typing import Any

from perfcli.compile.patches import installed
from perfcli.model import OptionValue

WATCHED = (
    "online_softmax",
    "split_reductions",
    "unroll_reductions_threshold",
    "triton.persistent_reductions",
    "triton.cooperative_reductions",
    "triton.force_cooperative_reductions",
    "triton.multi_kernel",
    "triton.mix_order_reduction",
    "triton.mix_order_reduction_max_reads",
    "triton.mix_order_reduction_allow_multi_stages",
    "triton.mix_order_reduction_autotune_split_size",
    "triton.mix_order_reduction_initial_xblock",
    "triton.mix_order_reduction_non_strict_mode",
    "triton.mix_order_reduction_split_size",
    "triton.dynamic_disable_pipelining",
    "triton.nested_reduction",
    "triton.cudagraphs",
    "triton.coalesce_tiling_analysis",
    "triton.max_tiles",
    "triton.prefer_nd_tiling",
    "triton.spill_threshold",
    "triton.tile_reductions",
    "realize_acc_reads_threshold",
    "_realize_acc_reads_threshold_default",
    "realize_acc_reads_size_threshold",
    "realize_opcount_threshold",
    "realize_reads_threshold",
    "max_complex_pointwise_cat_inputs",
    "max_pointwise_cat_inputs",
    "max_pointwise_cat_inputs",
    "max_complex_pointwise_cat_inputs",
    "force_pointwise_cat",
    "force_shape_pad",
    "expand_dimension_for_pointwise_nodes",
    "layout_optimization",
    "max_fusion_size",
    "max_fusion_unique_io_buffers",
    "score_fusion_memory_threshold",
    "fusion_memory_timeline_peak_memory_increase_gb",
    "fusion_memory_timeline_peak_memory_pct_threshold",
    "loop_ordering_after_fusion",
    "loop_reindexing_after_fusion",
    "combo_kernels",
    "shape_padding",
    "comprehensive_padding",
    "padding_alignment_bytes",
    "padding_stride_threshold",
    "coordinate_descent_tuning",
    "max_autotune",
    "max_autotune_pointwise",
)
"""Inductor's options that rules speak of, in any of torch 2.8 to 2.15. From 2.13 on
``_realize_acc_reads_threshold_default`` counts where ``realize_acc_reads_threshold`` is None."""

WATCHED_OF_DYNAMO = (
    "capture_scalar_outputs",
    "capture_dynamic_output_shape_ops",
    "allow_unspec_int_on_nn_module",
    "automatic_dynamic_shapes",
    "recompile_limit",
)

_NOT_A_COUNT = {"num_bytes_accessed"}


def settings() -> dict[str, OptionValue]:
    """Return the values of the watched options, as they are now; options that this torch lacks are
    left out."""
    import torch._dynamo.config as dynamo
    import torch._inductor.config as inductor

    watched = (("", inductor, WATCHED), ("dynamo.", dynamo, WATCHED_OF_DYNAMO))
    found = {
        prefix + name: _value(config, name)
        for prefix, config, names in watched
        for name in names
        if name in config._config
    }
    plain = (bool, int, float, str, type(None))
    own = {name: value for name, value in found.items() if isinstance(value, plain)}
    return own | installed.settings()


def _value(config: Any, name: str) -> Any:
    for part in name.split("."):
        config = getattr(config, part)
    return config


def reset_counters() -> None:
    from torch._inductor import metrics

    metrics.reset()
    installed.reset_counters()


def counters() -> dict[str, int]:
    """Return Inductor's own counters since the reset, where they are not zero
    (``torch._inductor.metrics``), and those of patches."""
    from torch._inductor import metrics

    own = {
        name: value
        for name, value in sorted(vars(metrics).items())
        if type(value) is int and value > 0 and name not in _NOT_A_COUNT
    }
    return own | installed.counters()
