"""Regressions planted in the encoder (tests/fixtures/gate/encoder.py)."""

from __future__ import annotations

from gate_planted_edit import edit

FILE = "encoder.py"
SOFTMAX = "weights = torch.softmax(scores + bias, dim=-1)"
POOL = "        return pooled(self.norm(x), present)\n"
GELU = 'F.gelu(self.widen(self.second_norm(x)), approximate="tanh")'
MEAN = "    mean = (x * weight).sum(1) / weight.sum(1)\n"
PLACES = "places = torch.arange(tokens.shape[1], device=tokens.device)"

ENCODER = (
    edit(
        "softmax-by-hand",
        "Write the softmax out, with the largest score's place",
        "bytes_swept",
        FILE,
        SOFTMAX,
        """scores = scores + bias
        largest, _ = scores.max(-1, keepdim=True)
        raised = torch.exp((scores - largest).float())
        weights = (raised / raised.sum(-1, keepdim=True)).to(scores.dtype)""",
    ),
    edit(
        "float32-scores",
        "Attend in float32",
        "bytes_moved",
        FILE,
        "q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)",
        "q, k, v = qkv.float().permute(2, 0, 3, 1, 4).unbind(0)",
        "self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))",
        "self.out((weights @ v).to(x.dtype).transpose(1, 2).reshape(batch, length, WIDTH))",
    ),
    edit(
        "pool-by-sentence",
        "Pool sentence by sentence",
        "launches",
        FILE,
        POOL,
        "        x = self.norm(x)\n"
        "        pairs = zip(x.split(1), present.split(1), strict=True)\n"
        "        return torch.cat([pooled(one, there) for one, there in pairs])\n",
    ),
    edit(
        "drop-absent",
        "Pool only the words that are there",
        "graph_breaks",
        FILE,
        MEAN,
        "    mean = torch.stack([x[i][present[i]].mean(0) for i in range(x.shape[0])])\n",
    ),
    edit(
        "trim-padding",
        "Cut what no sentence of the batch reaches",
        "graph_breaks",
        FILE,
        POOL,
        "        longest = int(present.sum(1).max())\n"
        "        return pooled(self.norm(x)[:, :longest], present[:, :longest])\n",
    ),
    edit(
        "pool-uncompiled",
        "Keep pooling out of the compiler",
        "graph_breaks",
        FILE,
        "def pooled(x, present):",
        "@torch.compiler.disable\ndef pooled(x, present):",
    ),
    edit(
        "own-gelu",
        "Use our GELU operator",
        "extern_calls",
        FILE,
        GELU,
        "own_gelu(self.widen(self.second_norm(x)))",
        "class Layer(nn.Module):",
        """@torch.library.custom_op("team::gelu", mutates_args=())
def own_gelu(x: torch.Tensor) -> torch.Tensor:
    return F.gelu(x, approximate="tanh")


@own_gelu.register_fake
def _(x):
    return torch.empty_like(x)


class Layer(nn.Module):""",
    ),
    edit(
        "positions-counted",
        "Count positions over the words that are there",
        "peak_memory_bytes",
        FILE,
        PLACES,
        "places = present.long().cumsum(1) - 1",
    ),
    edit(
        "float32-encoder",
        "Embed in float32",
        "bytes_moved",
        FILE,
        "model = Encoder().bfloat16().eval()",
        "model = Encoder().eval()",
    ),
    edit(
        "keep-weights",
        "Return each layer's attention",
        "peak_memory_bytes",
        FILE,
        "return self.out((weights @ v)",
        "self.seen = weights.float()\n        return self.out((weights @ v)",
        POOL,
        "        return pooled(self.norm(x), present), [layer.seen for layer in self.layers]\n",
    ),
    edit(
        "odd-sentences",
        "Sentences of up to 511 words",
        "PC204",
        FILE,
        "LENGTH = 512",
        "LENGTH = 511",
    ),
)
