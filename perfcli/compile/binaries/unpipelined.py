"""Repeats what Inductor does where no launch configuration fits into the device's shared memory: it
compiles the last one again without a pipeline, and launches that.

``CachingAutotuner._make_launchers`` and ``compile_by_disabling_pipelining`` (seen with torch 2.13;
2.11 and 2.12 give up). On a device the driver refuses the binary, here its size tells.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from perfcli.model import Target


def fits(result: Any, target: Target) -> bool:
    """Return whether the device has the shared memory that a ``CompileResult`` asks for."""
    return int(result.kernel.metadata.shared) <= target.shared_bytes_per_block_optin


def add_unpipelined(tuner: Any, target: Target) -> Iterator[Any]:
    """Add the configuration that is compiled again, if there is one, to the tuner's results, and
    yield it. Raises what Triton raises, as it would on the device."""
    last = tuner.compile_results[-1].config
    if (
        hasattr(tuner, "compile_by_disabling_pipelining")
        and tuner.inductor_meta.get("dynamic_disable_pipelining", True)
        and (last.num_stages > 1 or last.kwargs.get("NUM_STAGES", 1) > 1)
        and not any(fits(result, target) for result in tuner.compile_results)
    ):
        config = copy.deepcopy(last)
        config.num_stages = 1
        if "NUM_STAGES" in config.kwargs:
            config.kwargs["NUM_STAGES"] = 1
        result = tuner._precompile_config(config)
        tuner.compile_results.append(result)
        yield result
