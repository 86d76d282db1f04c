"""Stands in for LSTM, GRU and RNN layers: Dynamo leaves them out of its graphs and cuDNN runs them,
so there is no generated code to see; what follows them needs outputs of the right shape and
history.

Seen with torch 2.11 to 2.15 (``torch._VF``, called by ``torch.nn.modules.rnn``).
"""

from __future__ import annotations

from typing import Any

from perfcli.compile.stand_in.decisions import RECURRENT, Assumptions
from perfcli.compile.stand_in.device import replace


def install(assumptions: Assumptions) -> None:
    import torch
    import torch._dynamo

    for name, states in (("lstm", 2), ("gru", 1), ("rnn_tanh", 1), ("rnn_relu", 1)):
        # Run eagerly, as cuDNN's is: Dynamo must not make kernels of the stand-in.
        replace(torch._VF, name, torch._dynamo.disable(_layer(states, assumptions)))


def _layer(states: int, assumptions: Assumptions) -> Any:
    """Return a stand-in with the arguments of ``torch._VF.lstm`` and its like, padded or packed."""

    def run(*args: Any) -> Any:
        import torch

        assumptions.counts[RECURRENT] += 1
        if isinstance(args[3], bool):
            data, hidden, weights = args[0], args[1], args[2]
            bidirectional = args[7]
        else:  # packed: data, batch_sizes, hidden, weights, …
            data, hidden, weights = args[0], args[2], args[3]
            bidirectional = args[8]
        first = hidden[0] if isinstance(hidden, tuple | list) else hidden
        features = first.shape[-1] * (2 if bidirectional else 1)
        # Every input takes part, so that gradients flow where they would.
        history = data.sum() + sum(w.sum() for w in weights) + first.sum()
        # Its layout, batch first or not, is that of the input.
        output = history.to(data.dtype) + torch.zeros(
            (*data.shape[:-1], features), dtype=data.dtype, device=data.device
        )
        final = tuple(state + history for state in _as_tuple(hidden)[:states])
        return (output, *final)

    return run


def _as_tuple(hidden: Any) -> tuple[Any, ...]:
    return tuple(hidden) if isinstance(hidden, tuple | list) else (hidden,)
