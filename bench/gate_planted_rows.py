"""Regressions planted in sampling, quantising and blending (tests/fixtures/gate)."""

from __future__ import annotations

from gate_planted_edit import edit

SAMPLING = "sampling.py"
QUANTISE = "quantise.py"
EXPERTS = "experts.py"
CONFIGURATION = "pyproject.toml"
SOFTMAX = "    return torch.softmax(scaled, dim=-1)\n"
ROUNDED = "    return torch.round(values / scale).to(torch.int8), scale\n"
SUM = """    total = torch.zeros_like(query, dtype=torch.float32)
    for number, output in enumerate(outputs):
        total = total + gates[:, number, None] * output.float()
"""
MEASURED = "return values.abs().amax(dim=0), values.square().mean(dim=0).sqrt()"

ROWS = (
    edit(
        "softmax-in-steps",
        "Write the softmax out",
        "bytes_swept",
        SAMPLING,
        SOFTMAX,
        "    raised = torch.exp(scaled - scaled.max(-1, keepdim=True).values)\n"
        "    return raised / raised.sum(-1, keepdim=True)\n",
    ),
    edit(
        "new-token",
        "Add a token",
        "PC204",
        SAMPLING,
        "VOCABULARY = 128_256",
        "VOCABULARY = 128_257",
    ),
    edit(
        "scaled-too",
        "Return the scaled logits as well",
        "bytes_moved",
        SAMPLING,
        SOFTMAX,
        "    return torch.softmax(scaled, dim=-1), scaled\n",
    ),
    edit(
        "float64-weights",
        "Draw from float64",
        "bytes_moved",
        SAMPLING,
        SOFTMAX,
        "    return torch.softmax(scaled, dim=-1).double()\n",
    ),
    edit(
        "bias-per-row",
        "A bias for each row",
        "bytes_moved",
        SAMPLING,
        "bias = torch.randn(VOCABULARY, dtype=torch.bfloat16)",
        "bias = torch.randn(VOCABULARY, dtype=torch.bfloat16).repeat(2048, 1)",
    ),
    edit(
        "finite-check",
        "Refuse logits that are not finite",
        "graph_breaks",
        SAMPLING,
        SOFTMAX,
        "    if not torch.isfinite(scaled).all():\n"
        '        raise ValueError("logits are not finite")\n' + SOFTMAX,
    ),
    edit(
        "nucleus",
        "Sort the weights",
        "extern_calls",
        SAMPLING,
        SOFTMAX,
        "    return torch.softmax(scaled, dim=-1).sort(-1, descending=True).values\n",
    ),
    edit(
        "dynamic-vocabulary",
        "Vocabularies of any size",
        "bytes_swept",
        SAMPLING,
        "    return weights, (logits, bias, 0.7)\n",
        "    torch._dynamo.mark_dynamic(logits, 1)\n"
        "    torch._dynamo.mark_dynamic(bias, 0)\n"
        "    return weights, (logits, bias, 0.7)\n",
    ),
    edit(
        "no-splits",
        "Do not split reductions",
        "PC205",
        CONFIGURATION,
        'scenario = "quantise.py:activations"\n',
        'scenario = "quantise.py:activations"\noptions = { split_reductions = false }\n',
    ),
    edit(
        "percentile",
        "Scale by a percentile",
        "extern_calls",
        QUANTISE,
        "scale = values.abs().amax(dim=-1, keepdim=True) / LEVELS",
        "ranked = values.abs().sort(-1).values\n"
        "    scale = ranked[:, -ranked.shape[-1] // 1000].unsqueeze(-1) / LEVELS",
    ),
    edit(
        "by-row",
        "Quantise row by row",
        "launches",
        QUANTISE,
        "    return (*quantised(x), *statistics(x))\n",
        "    rows = [quantised(row) for row in x.split(1)]\n"
        "    values, scales = (torch.cat(part) for part in zip(*rows, strict=True))\n"
        "    return values, scales, *statistics(x)\n",
    ),
    edit(
        "float-copy",
        "Return the values as well",
        "bytes_moved",
        QUANTISE,
        ROUNDED,
        "    return torch.round(values / scale), scale\n",
    ),
    edit(
        "transposed",
        "Activations with channels first",
        "loads",
        QUANTISE,
        "torch.randn(4, 4_194_304, dtype=torch.bfloat16)",
        "torch.randn(4_194_304, 4, dtype=torch.bfloat16).t()",
        "values = x.view(-1, CHANNELS).float()",
        "values = x.reshape(-1, CHANNELS).float()",
    ),
    edit(
        "standard-deviation",
        "The deviation instead of the root of the mean square",
        "loads",
        QUANTISE,
        MEASURED,
        "return values.abs().amax(dim=0), values.std(dim=0)",
    ),
    edit(
        "error-too",
        "Return the error of quantising",
        "bytes_moved",
        QUANTISE,
        ROUNDED,
        "    rounded = torch.round(values / scale)\n"
        "    error = (rounded * scale - values).square().mean()\n"
        "    return rounded.to(torch.int8), scale, error\n",
    ),
    edit(
        "median",
        "The median of each channel",
        "extern_calls",
        QUANTISE,
        MEASURED,
        "return values.abs().amax(dim=0), values.median(dim=0).values",
    ),
    edit(
        "no-online-softmax",
        "Switch off an option that was under suspicion",
        "bytes_swept",
        CONFIGURATION,
        'scenario = "sampling.py:sampler"\n',
        'scenario = "sampling.py:sampler"\noptions = { online_softmax = false }\n',
    ),
    edit(
        "gates-by-likeness",
        "Weigh experts by their likeness to the query",
        "spilled_words",
        EXPERTS,
        "import torch\n",
        "import functools\n\nimport torch\n",
        SUM,
        """    wanted = query.float()
    likeness = [(wanted * output.float()).sum(-1, keepdim=True) for output in outputs]
    largest = functools.reduce(torch.maximum, likeness)
    raised = [torch.exp(each - largest) for each in likeness]
    total = torch.zeros_like(query, dtype=torch.float32)
    for each, output in zip(raised, outputs, strict=True):
        total = total + each / sum(raised) * output.float()
""",
    ),
    edit(
        "stacked",
        "Blend with one product",
        "extern_calls",
        EXPERTS,
        SUM,
        "    every = torch.stack(outputs, 1).float()\n"
        "    total = torch.bmm(gates[:, None], every).squeeze(1)\n",
    ),
    edit(
        "padded-outputs",
        "Experts write into padded rows",
        "load_bits",
        EXPERTS,
        "torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16) for _",
        "torch.randn(TOKENS, WIDTH + 1, dtype=torch.bfloat16)[:, 1:] for _",
    ),
)
