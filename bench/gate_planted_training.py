"""Regressions planted in the training step (tests/fixtures/gate/model.py)."""

from __future__ import annotations

from gate_planted_edit import edit

FILE = "model.py"
NORM = "return (x32 * scale).to(x.dtype) * self.weight"
SDPA = "mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)"
REPEATED = """        k = k.repeat_interleave(HEADS // KEY_HEADS, dim=1)
        v = v.repeat_interleave(HEADS // KEY_HEADS, dim=1)
"""
ROTATED = """        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
"""
TURNED = """    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)
"""
EMBEDDED = "x = self.embedding(tokens) * math.sqrt(DIM)"
LOSS = "loss = F.cross_entropy(logits.view(-1, VOCABULARY).float(), targets.view(-1))"
BLOCKS = """        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.norm(x)
"""

TRAINING = (
    edit(
        "residual-float32",
        "Keep the residual stream in float32",
        "bytes_moved",
        FILE,
        EMBEDDED,
        "x = self.embedding(tokens).float() * math.sqrt(DIM)",
        NORM,
        "return (x32 * scale).to(self.weight.dtype) * self.weight",
    ),
    edit(
        "print-in-features",
        "Log the features' mean",
        "graph_breaks",
        FILE,
        "        return self.norm(x)\n",
        '        x = self.norm(x)\n        print("features", x.mean().item())\n        return x\n',
    ),
    edit(
        "attention-by-hand",
        "Write attention out",
        "bytes_moved",
        FILE,
        SDPA,
        """scores = (q @ k.transpose(-1, -2)).float() * self.size**-0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = torch.softmax(scores.masked_fill(future, -torch.inf), -1).to(v.dtype) @ v""",
    ),
    edit(
        "explicit-mask",
        "Pass the causal mask as a tensor",
        "kernels",
        FILE,
        SDPA,
        """mask = torch.full((length, length), -torch.inf, dtype=q.dtype, device=q.device)
        mask = mask.triu(1).expand(batch, HEADS, length, length)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)""",
    ),
    edit(
        "rope-complex",
        "Rotate with complex numbers",
        "bytes_moved",
        FILE,
        TURNED,
        """    first, second = x.float().chunk(2, dim=-1)
    turned = torch.complex(first, second) * torch.complex(cos, sin)
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)
""",
    ),
    edit(
        "repeat-before-rotating",
        "Repeat keys before they are rotated",
        "bytes_moved",
        FILE,
        ROTATED + REPEATED,
        REPEATED + ROTATED,
    ),
    edit(
        "tables-per-head",
        "Keep rotary tables for each head",
        "bytes_moved",
        FILE,
        "    return angles.cos(), angles.sin()\n",
        "    angles = angles.expand(8, HEADS, length, dim // 2).contiguous()\n"
        "    return angles.cos(), angles.sin()\n",
        "k = rotate(k, cos, sin)",
        "k = rotate(k, cos[:, :KEY_HEADS], sin[:, :KEY_HEADS])",
    ),
    edit(
        "three-projections",
        "Project queries, keys and values one by one",
        "extern_calls",
        FILE,
        "qkv = self.qkv(x).view",
        "parts = self.qkv.weight.split((DIM, DIM // 4, DIM // 4))\n"
        "        qkv = torch.cat([F.linear(x, part) for part in parts], -1).view",
    ),
    edit(
        "one-hot-loss",
        "Write the loss with one-hot targets",
        "bytes_moved",
        FILE,
        LOSS,
        """wanted = F.one_hot(targets.view(-1), VOCABULARY)
        chosen = torch.log_softmax(logits.view(-1, VOCABULARY).float(), -1) * wanted
        loss = -chosen.sum() / targets.numel()""",
    ),
    edit(
        "loss-by-sample",
        "Average the loss over samples",
        "launches",
        FILE,
        LOSS,
        """parts = [F.cross_entropy(a.float(), b) for a, b in zip(logits, targets, strict=True)]
        loss = torch.stack(parts).mean()""",
    ),
    edit(
        "padding-token",
        "Add a padding token",
        "PC204",
        FILE,
        "VOCABULARY = 32_000",
        "VOCABULARY = 32_001",
    ),
    edit(
        "float32-model",
        "Train in float32",
        "bytes_moved",
        FILE,
        "model = LanguageModel().bfloat16()\n",
        "model = LanguageModel()\n",
    ),
    edit(
        "hidden-states",
        "Penalise the hidden states' size",
        "peak_memory_bytes",
        FILE,
        BLOCKS,
        """        states = []
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
            states.append(x.float())
        return self.norm(x) + 1e-6 * torch.stack(states).square().mean().to(x.dtype)
""",
    ),
    edit(
        "learned-mix",
        "Each block mixes its input with the embedding",
        "bytes_moved",
        FILE,
        "        self.mlp = MLP()\n",
        "        self.mlp = MLP()\n"
        "        self.mix = nn.Parameter(torch.tensor([[1.0], [0.0]]).repeat(1, DIM))\n"
        "        self.scales = nn.Parameter(torch.ones(2, DIM))\n",
        "    def forward(self, x, cos, sin):\n        x = x + self.attention",
        "    def forward(self, x, cos, sin, start):\n"
        "        x = self.mix[0] * x + self.mix[1] * start\n"
        "        x = x + self.scales[0] * self.attention",
        "return x + self.mlp(",
        "return x + self.scales[1] * self.mlp(",
        "        for block in self.blocks:\n            x = block(x, self.cos, self.sin)",
        "        start = x\n"
        "        for block in self.blocks:\n"
        "            x = block(x, self.cos, self.sin, start)",
    ),
    edit(
        "no-mix-order",
        "Switch off an option that was under suspicion",
        "bytes_moved",
        "pyproject.toml",
        'scenario = "model.py:training_step"\noptions = {}\n',
        'scenario = "model.py:training_step"\noptions = { "triton.mix_order_reduction" = false }\n',
    ),
)
