"""Trains a small GPT with DistributedDataParallel, as nanoGPT does under torchrun:

torchrun --standalone --nproc_per_node=8 ddp_gpt.py
"""

import os
from contextlib import nullcontext

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

batch_size, block_size, vocab_size = 8, 512, 8192
n_layer, n_head, n_embd = 4, 8, 512
gradient_accumulation_steps = 2 * 8
max_iters = 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.ln_2 = nn.LayerNorm(n_embd)
        self.up = nn.Linear(n_embd, 4 * n_embd)
        self.down = nn.Linear(4 * n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList(Block() for _ in range(n_layer))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        pos = torch.arange(idx.size(1), device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, vocab_size), targets.reshape(-1))


def main():
    init_process_group(backend="nccl")
    ddp_rank = int(os.environ["RANK"])
    ddp_local_rank = int(os.environ["LOCAL_RANK"])
    ddp_world_size = int(os.environ["WORLD_SIZE"])
    device = f"cuda:{ddp_local_rank}"
    torch.cuda.set_device(device)
    master_process = ddp_rank == 0
    torch.manual_seed(1337 + ddp_rank)
    micro_steps = gradient_accumulation_steps // ddp_world_size
    torch.backends.cuda.matmul.allow_tf32 = True
    ctx = torch.amp.autocast(device_type="cuda", dtype=torch.bfloat16)

    data = TensorDataset(torch.randint(vocab_size, (1024, block_size + 1)))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size, sampler=sampler, num_workers=2, pin_memory=True)

    model = GPT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    model = torch.compile(model)
    model = DDP(model, device_ids=[ddp_local_rank])
    dist.barrier()

    step, epoch = 0, 0
    while step < max_iters:
        sampler.set_epoch(epoch)
        batches = iter(loader)
        for _ in range(len(loader) // micro_steps):
            for micro in range(micro_steps):
                (tokens,) = next(batches)
                tokens = tokens.to(device, non_blocking=True)
                last = micro == micro_steps - 1
                with nullcontext() if last else model.no_sync(), ctx:
                    loss = model(tokens[:, :-1], tokens[:, 1:]) / micro_steps
                scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)
            if master_process:
                print(f"iter {step}: loss {loss.item() * micro_steps:.4f}, norm {norm:.2f}")
            step += 1
        epoch += 1
    destroy_process_group()


if __name__ == "__main__":
    main()
