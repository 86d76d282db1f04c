"""Trains a DLRM: embedding bags, bottom and top MLPs, and pairwise interaction of features."""

import argparse
import time

import numpy as np
import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description="Train Deep Learning Recommendation Model (DLRM)")
parser.add_argument("--arch-sparse-feature-size", type=int, default=64)
parser.add_argument("--arch-embedding-size", type=str, default="40000-20000-10000-5000-1000-500")
parser.add_argument("--arch-mlp-bot", type=str, default="13-512-256-64")
parser.add_argument("--arch-mlp-top", type=str, default="512-256-1")
parser.add_argument("--mini-batch-size", type=int, default=2048)
parser.add_argument("--num-indices-per-lookup", type=int, default=4)
parser.add_argument("--num-batches", type=int, default=10)
parser.add_argument("--learning-rate", type=float, default=0.01)
parser.add_argument("--print-freq", type=int, default=1)
args = parser.parse_args()


class DLRM_Net(nn.Module):
    def create_mlp(self, ln, sigmoid_layer):
        layers = nn.ModuleList()
        for i in range(len(ln) - 1):
            n, m = int(ln[i]), int(ln[i + 1])
            LL = nn.Linear(n, m, bias=True)
            W = np.random.normal(0.0, np.sqrt(2 / (m + n)), size=(m, n)).astype(np.float32)
            LL.weight.data = torch.tensor(W, requires_grad=True)
            LL.bias.data = torch.tensor(np.random.normal(0.0, np.sqrt(1 / m), size=m).astype(np.float32))
            layers.append(LL)
            layers.append(nn.Sigmoid() if i == sigmoid_layer else nn.ReLU())
        return nn.Sequential(*layers)

    def create_emb(self, m, ln):
        return nn.ModuleList([nn.EmbeddingBag(int(n), m, mode="sum") for n in ln])

    def __init__(self, m_spa, ln_emb, ln_bot, ln_top):
        super().__init__()
        self.emb_l = self.create_emb(m_spa, ln_emb)
        self.bot_l = self.create_mlp(ln_bot, -1)
        self.top_l = self.create_mlp(ln_top, len(ln_top) - 2)

    def interact_features(self, x, ly):
        batch_size, d = x.shape
        T = torch.cat([x] + ly, dim=1).view((batch_size, -1, d))
        Z = torch.bmm(T, torch.transpose(T, 1, 2))
        _, ni, nj = Z.shape
        li = torch.tensor([i for i in range(ni) for j in range(i)], device=x.device)
        lj = torch.tensor([j for i in range(nj) for j in range(i)], device=x.device)
        return torch.cat([x] + [Z[:, li, lj]], dim=1)

    def forward(self, dense_x, lS_o, lS_i):
        x = self.bot_l(dense_x)
        ly = [E(lS_i[k], lS_o[k]) for k, E in enumerate(self.emb_l)]
        return self.top_l(self.interact_features(x, ly))


class RandomDataset(torch.utils.data.Dataset):
    def __init__(self, dense, sizes, batch, lookups, batches):
        self.dense, self.sizes, self.batch = dense, sizes, batch
        self.lookups, self.batches = lookups, batches

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        generator = np.random.default_rng(index)
        X = torch.tensor(generator.random((self.batch, self.dense), dtype=np.float32))
        offsets = torch.arange(0, self.batch * self.lookups, self.lookups)
        lS_o = torch.stack([offsets for _ in self.sizes])
        lS_i = torch.stack([torch.from_numpy(generator.integers(0, n, self.batch * self.lookups)) for n in self.sizes])
        T = torch.tensor(np.round(generator.random((self.batch, 1), dtype=np.float32)))
        return X, lS_o, lS_i, T


np.random.seed(123)
torch.manual_seed(123)
device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
ln_bot = np.fromstring(args.arch_mlp_bot, dtype=int, sep="-")
ln_emb = np.fromstring(args.arch_embedding_size, dtype=int, sep="-")
num_fea = ln_emb.size + 1
num_int = (num_fea * (num_fea - 1)) // 2 + int(ln_bot[-1])
ln_top = np.fromstring(f"{num_int}-{args.arch_mlp_top}", dtype=int, sep="-")
data = RandomDataset(ln_bot[0], ln_emb, args.mini_batch_size, args.num_indices_per_lookup, args.num_batches)
loader = torch.utils.data.DataLoader(data, batch_size=None, shuffle=False, num_workers=0)
dlrm = DLRM_Net(args.arch_sparse_feature_size, ln_emb, ln_bot, ln_top).to(device)
loss_fn = nn.BCELoss(reduction="mean")
optimizer = torch.optim.SGD(dlrm.parameters(), lr=args.learning_rate)
forward = torch.compile(dlrm)
total_time, total_loss, total_samp = 0.0, 0.0, 0
for j, (X, lS_o, lS_i, T) in enumerate(loader):
    t1 = time.time()
    Z = forward(X.to(device), lS_o.to(device), lS_i.to(device))
    E = loss_fn(Z, T.to(device))
    L = E.detach().cpu().numpy()
    optimizer.zero_grad()
    E.backward()
    optimizer.step()
    torch.cuda.synchronize()
    total_time += time.time() - t1
    S, TT = Z.detach().cpu().numpy(), T.numpy()
    A = np.sum((np.round(S, 0) == TT).astype(np.uint8))
    mbs = T.shape[0]
    total_loss += L * mbs
    total_samp += mbs
    if (j + 1) % args.print_freq == 0:
        gT = 1000.0 * total_time / args.print_freq
        print(f"Finished training it {j + 1}/{len(loader)}, {gT:.2f} ms/it, loss {total_loss / total_samp:.6f}, accuracy {A / mbs * 100:3.3f} %")
        total_time, total_loss, total_samp = 0.0, 0.0, 0
