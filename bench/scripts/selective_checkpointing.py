"""Trains a transformer with selective activation checkpointing, and writes and resumes a
checkpoint on the way."""

import argparse
import os
import tempfile
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

KEPT = {torch.ops.aten.mm.default, torch.ops.aten.addmm.default}


def keep_products(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in KEPT else CheckpointPolicy.PREFER_RECOMPUTE


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, vocabulary, dim, layers, heads):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, tokens):
        x = self.embed(tokens)
        contexts = partial(create_selective_checkpoint_contexts, keep_products)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False, context_fn=contexts)
        return self.head(x)


def train_step(model, optimizer, tokens):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach(), norm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--save-every", type=int, default=1)
    parser.add_argument("--resume", default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_default_device("cuda")
    model = Model(16000, args.dim, args.layers, 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True)
    first, folder = 0, tempfile.mkdtemp()
    if args.resume and os.path.exists(args.resume):
        state = torch.load(args.resume, map_location="cuda", weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    model.compile(dynamic=False)
    for step in range(first, args.steps):
        tokens = torch.randint(16000, (8, 513))
        loss, norm = train_step(model, optimizer, tokens)
        print(f"{step}: loss {loss:.3f} norm {norm:.3f}")
        if not torch.isfinite(loss):
            raise FloatingPointError(f"step {step}: the loss is {loss}")
        if step % args.save_every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(state, os.path.join(folder, "last.pt"))


if __name__ == "__main__":
    main()
