"""Generates tokens with a static KV cache, prefill and decoding compiled by themselves, in the
manner of gpt-fast and vLLM."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--prompt", type=int, default=200)
parser.add_argument("--new-tokens", type=int, default=40)
parser.add_argument("--temperature", type=float, default=0.8)
parser.add_argument("--top-k", type=int, default=200)
parser.add_argument("--mode", default="default")
args = parser.parse_args()

DIM, LAYERS, HEADS, KV_HEADS, VOCABULARY, LENGTH = 512, 3, 8, 2, 32000, 512


class KVCache(nn.Module):
    def __init__(self, batch, length, heads, dim, dtype=torch.bfloat16):
        super().__init__()
        shape = (batch, heads, length, dim)
        self.register_buffer("k_cache", torch.zeros(shape, dtype=dtype))
        self.register_buffer("v_cache", torch.zeros(shape, dtype=dtype))

    def update(self, input_pos, k, v):
        self.k_cache[:, :, input_pos] = k
        self.v_cache[:, :, input_pos] = v
        return self.k_cache, self.v_cache


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def rotate(x, freqs):
    shaped = x.float().reshape(*x.shape[:-1], -1, 2)
    freqs = freqs.view(1, shaped.size(1), 1, shaped.size(3), 2)
    real = shaped[..., 0] * freqs[..., 0] - shaped[..., 1] * freqs[..., 1]
    imaginary = shaped[..., 1] * freqs[..., 0] + shaped[..., 0] * freqs[..., 1]
    return torch.stack([real, imaginary], -1).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = DIM // HEADS
        self.wqkv = nn.Linear(DIM, (HEADS + 2 * KV_HEADS) * self.head_dim, bias=False)
        self.wo = nn.Linear(DIM, DIM, bias=False)
        self.kv_cache = None

    def forward(self, x, freqs, mask, input_pos):
        b, t, _ = x.shape
        kv = KV_HEADS * self.head_dim
        q, k, v = self.wqkv(x).split([DIM, kv, kv], dim=-1)
        q = rotate(q.view(b, t, HEADS, self.head_dim), freqs).transpose(1, 2)
        k = rotate(k.view(b, t, KV_HEADS, self.head_dim), freqs).transpose(1, 2)
        v = v.view(b, t, KV_HEADS, self.head_dim).transpose(1, 2)
        k, v = self.kv_cache.update(input_pos, k, v)
        k = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        v = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.0)
        return self.wo(y.transpose(1, 2).contiguous().view(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(), RMSNorm(DIM), RMSNorm(DIM)
        self.w1 = nn.Linear(DIM, 4 * DIM, bias=False)
        self.w3 = nn.Linear(DIM, 4 * DIM, bias=False)
        self.w2 = nn.Linear(4 * DIM, DIM, bias=False)

    def forward(self, x, freqs, mask, input_pos):
        h = x + self.attention(self.norm1(x), freqs, mask, input_pos)
        y = self.norm2(h)
        return h + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.output = RMSNorm(DIM), nn.Linear(DIM, VOCABULARY, bias=False)

    def setup_caches(self, batch):
        head = DIM // HEADS
        for block in self.layers:
            block.attention.kv_cache = KVCache(batch, LENGTH, KV_HEADS, head)
        angles = torch.outer(torch.arange(LENGTH), 1.0 / 10000 ** (torch.arange(0, head, 2) / head))
        self.register_buffer("freqs", torch.stack([angles.cos(), angles.sin()], -1))
        self.register_buffer("causal_mask", torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool)))

    def forward(self, tokens, input_pos):
        mask = self.causal_mask[None, None, input_pos]
        freqs = self.freqs[input_pos]
        x = self.embeddings(tokens)
        for layer in self.layers:
            x = layer(x, freqs, mask, input_pos)
        return self.output(self.norm(x))


def sample(logits, temperature, top_k):
    logits = logits[:, -1].float() / max(temperature, 1e-5)
    values, _ = torch.topk(logits, min(top_k, logits.size(-1)))
    logits = torch.where(logits < values[:, -1:], -float("inf"), logits)
    probabilities = F.softmax(logits, dim=-1)
    noise = torch.empty_like(probabilities).exponential_(1)
    return torch.argmax(probabilities / noise, dim=-1, keepdim=True).to(dtype=torch.int)


def prefill(model, tokens, input_pos):
    return sample(model(tokens, input_pos), args.temperature, args.top_k)


def decode_one_token(model, token, input_pos):
    assert input_pos.shape[-1] == 1
    return sample(model(token, input_pos), args.temperature, args.top_k)


@torch.no_grad()
def generate(model, prompt, new_tokens):
    batch, length = prompt.shape
    output = torch.empty(batch, length + new_tokens, dtype=prompt.dtype, device=prompt.device)
    output[:, :length] = prompt
    token = prefill(model, prompt, torch.arange(length, device=prompt.device)).clone()
    output[:, length : length + 1] = token
    input_pos = torch.tensor([length], device=prompt.device, dtype=torch.int)
    for number in range(1, new_tokens):
        token = decode_one_token(model, token, input_pos).clone()
        output[:, length + number : length + number + 1] = token
        input_pos += 1
    return output


def main():
    torch.manual_seed(1234)
    device = "cuda"
    with torch.device("meta"):
        model = Transformer()
    model = model.to_empty(device=device).to(torch.bfloat16)
    with torch.device(device):
        model.setup_caches(args.batch)
    model = model.eval()
    global prefill, decode_one_token
    decode_one_token = torch.compile(decode_one_token, mode=args.mode, fullgraph=True)
    prefill = torch.compile(prefill, fullgraph=True, dynamic=True)
    prompt = torch.randint(0, VOCABULARY, (args.batch, args.prompt), device=device, dtype=torch.int)
    for number in range(-1, 2):
        torch.cuda.synchronize()
        t0 = time.perf_counter()
        tokens = generate(model, prompt, args.new_tokens)
        torch.cuda.synchronize()
        t = time.perf_counter() - t0
        if number == -1:
            print(f"Compilation time: {t:.2f} seconds")
            continue
        print(f"sample {number}: {tokens.shape}, {args.batch * args.new_tokens / t:.2f} tokens/sec")
    print(f"Memory used: {torch.cuda.max_memory_reserved() / 1e9:.02f} GB")


if __name__ == "__main__":
    main()
