"""Trains a GPT with Muon for its matrices and AdamW for the rest, in the manner of
modded-nanogpt."""

import os
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ITERATIONS, BATCH, LENGTH, VOCABULARY = 10, 4, 1024, 50304
LAYERS, HEADS, DIM = 3, 4, 512


@torch.compile
def zeropower_via_newtonschulz5(G, steps):
    assert G.ndim >= 2
    a, b, c = (3.4445, -4.7750, 2.0315)
    X = G.bfloat16()
    if G.size(-2) > G.size(-1):
        X = X.mT
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        A = X @ X.mT
        B = b * A + c * A @ A
        X = a * X + B @ X
    if G.size(-2) > G.size(-1):
        X = X.mT
    return X


class Muon(torch.optim.Optimizer):
    """Momentum orthogonalised by a Newton-Schulz iteration."""

    def __init__(self, params, lr=0.02, momentum=0.95, nesterov=True, ns_steps=5):
        defaults = dict(lr=lr, momentum=momentum, nesterov=nesterov, ns_steps=ns_steps)
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad
                state = self.state[p]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(g)
                buf = state["momentum_buffer"]
                buf.lerp_(g, 1 - group["momentum"])
                g = g.lerp_(buf, group["momentum"]) if group["nesterov"] else buf
                g = zeropower_via_newtonschulz5(g, steps=group["ns_steps"])
                scale = max(1, p.size(-2) / p.size(-1)) ** 0.5
                p.add_(g.type_as(p), alpha=-group["lr"] * scale)


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class CastedLinear(nn.Linear):
    def forward(self, x):
        return F.linear(x, self.weight.type_as(x))


class Rotary(nn.Module):
    def __init__(self, dim, max_seq_len):
        super().__init__()
        angular_freq = (1 / 1024) ** torch.linspace(0, 1, steps=dim // 4, dtype=torch.float32)
        angular_freq = torch.cat([angular_freq, angular_freq.new_zeros(dim // 4)])
        theta = torch.outer(torch.arange(max_seq_len, dtype=torch.float32), angular_freq)
        self.cos = nn.Buffer(theta.cos(), persistent=False)
        self.sin = nn.Buffer(theta.sin(), persistent=False)

    def forward(self, x):
        cos = self.cos[None, : x.size(-3), None, :]
        sin = self.sin[None, : x.size(-3), None, :]
        x1, x2 = x.to(dtype=torch.float32).chunk(2, dim=-1)
        return torch.cat((x1 * cos + x2 * sin, x1 * (-sin) + x2 * cos), 3).type_as(x)


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv_w = nn.Parameter(torch.empty(3, dim, dim).uniform_(-0.03, 0.03))
        self.lambdas = nn.Parameter(torch.tensor([0.5, 0.5]))
        self.rotary = Rotary(dim // heads, LENGTH)
        self.c_proj = CastedLinear(dim, dim, bias=False)
        self.c_proj.weight.detach().zero_()

    def forward(self, x, ve):
        B, T, D = x.shape
        qkv = F.linear(x, self.qkv_w.flatten(end_dim=1).type_as(x))
        q, k, v = qkv.view(B, T, 3 * self.heads, D // self.heads).chunk(3, dim=-2)
        q, k = self.rotary(norm(q)), self.rotary(norm(k))
        v = self.lambdas[0] * v + self.lambdas[1] * ve.view_as(v)
        q, k, v = (t.transpose(1, 2).to(x.dtype) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, D))


class MLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c_fc = CastedLinear(dim, 4 * dim, bias=False)
        self.c_proj = CastedLinear(4 * dim, dim, bias=False)
        self.c_proj.weight.detach().zero_()

    def forward(self, x):
        return self.c_proj(F.relu(self.c_fc(x)).square())


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn, self.mlp = CausalSelfAttention(dim, heads), MLP(dim)
        self.lambdas = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, x, ve, x0):
        x = self.lambdas[0] * x + self.lambdas[1] * x0
        x = x + self.attn(norm(x), ve)
        return x + self.mlp(norm(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, DIM)
        self.value_embed = nn.Embedding(VOCABULARY, DIM)
        self.blocks = nn.ModuleList([Block(DIM, HEADS) for _ in range(LAYERS)])
        self.lm_head = CastedLinear(DIM, VOCABULARY, bias=False)
        self.skip_weights = nn.Parameter(torch.ones(LAYERS // 2))

    def forward(self, inputs, targets):
        ve = self.value_embed(inputs)
        x = x0 = norm(self.embed(inputs))
        skips = []
        for number, block in enumerate(self.blocks):
            if number >= LAYERS - len(self.skip_weights):
                x = x + self.skip_weights[number - LAYERS] * skips.pop()
            x = block(x, ve, x0)
            if number < len(self.skip_weights):
                skips.append(x)
        logits = self.lm_head(norm(x)).float()
        logits = 30 * torch.sigmoid(logits / 7.5)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def data_generator(batch, length):
    tokens = torch.randint(VOCABULARY, (batch * (length + 1) * 4,), dtype=torch.int64)
    pos = 0
    while True:
        if pos + batch * length + 1 >= len(tokens):
            pos = 0
        buf = tokens[pos : pos + batch * length + 1]
        inputs = buf[:-1].to(device="cuda", dtype=torch.int32, non_blocking=True)
        targets = buf[1:].to(device="cuda", dtype=torch.int64, non_blocking=True)
        pos += batch * length
        yield inputs.view(batch, length), targets.view(batch, length)


def get_lr(it):
    t = 1 - it / ITERATIONS
    return min(t / 0.4, 1.0)


assert torch.cuda.is_available()
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
torch.empty(1, device="cuda", requires_grad=True).backward()
torch.manual_seed(0)
model = GPT().cuda()
for m in model.modules():
    if isinstance(m, nn.Embedding):
        m.bfloat16()
hidden = [p for n, p in model.blocks.named_parameters() if p.ndim >= 2]
embed = [p for n, p in model.named_parameters() if "embed" in n]
scalars = [p for p in model.parameters() if p.ndim < 2]
head = [model.lm_head.weight]
groups = [dict(params=head, lr=0.008), dict(params=embed, lr=0.6), dict(params=scalars, lr=0.04)]
optimizer1 = torch.optim.Adam(groups, betas=(0.8, 0.95), eps=1e-10, fused=True)
optimizer2 = Muon([p for p in hidden if p.ndim == 2], lr=0.05, momentum=0.95)
optimizer3 = torch.optim.AdamW([p for p in hidden if p.ndim != 2], lr=1e-3)
optimizers = [optimizer1, optimizer2, optimizer3]
for opt in optimizers:
    for group in opt.param_groups:
        group["initial_lr"] = group["lr"]
model = torch.compile(model, dynamic=False)
training_time_ms = 0
train_loader = data_generator(BATCH, LENGTH)
torch.cuda.synchronize()
t0 = time.perf_counter()
for step in range(ITERATIONS + 1):
    if step == ITERATIONS:
        model.eval()
        with torch.no_grad():
            val_loss = sum(model(*next(train_loader)) for _ in range(2)) / 2
        print(f"step:{step} val_loss:{val_loss:.4f}")
        break
    inputs, targets = next(train_loader)
    model(inputs, targets).backward()
    for opt in optimizers:
        for group in opt.param_groups:
            group["lr"] = group["initial_lr"] * get_lr(step)
    for opt in optimizers:
        opt.step()
    model.zero_grad(set_to_none=True)
    approx = training_time_ms + 1000 * (time.perf_counter() - t0)
    print(f"step:{step + 1}/{ITERATIONS} train_time:{approx:.0f}ms step_avg:{approx / (step + 1):.2f}ms")
print(f"peak memory allocated: {torch.cuda.max_memory_allocated() // 1024 // 1024} MiB")
