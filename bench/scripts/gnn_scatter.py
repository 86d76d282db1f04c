"""Trains a graph attention network on a random graph, with its own scatter operators."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def scatter_sum(src, index, size):
    return src.new_zeros(size, *src.shape[1:]).index_add_(0, index, src)


def scatter_softmax(src, index, size):
    expanded = index.view(-1, 1).expand_as(src)
    peak = torch.full((size, src.size(1)), float("-inf"), device=src.device, dtype=src.dtype)
    peak = peak.scatter_reduce(0, expanded, src, reduce="amax", include_self=True)
    weight = (src - peak[index]).exp()
    return weight / (scatter_sum(weight, index, size)[index] + 1e-16)


class GATLayer(nn.Module):
    def __init__(self, inner, outer, heads):
        super().__init__()
        self.heads, self.outer = heads, outer
        self.lin = nn.Linear(inner, heads * outer, bias=False)
        self.att_src = nn.Parameter(torch.empty(heads, outer))
        self.att_dst = nn.Parameter(torch.empty(heads, outer))
        self.bias = nn.Parameter(torch.zeros(heads * outer))
        nn.init.xavier_uniform_(self.att_src)
        nn.init.xavier_uniform_(self.att_dst)

    def forward(self, x, edge_index):
        src, dst = edge_index
        nodes = x.size(0)
        h = self.lin(x).view(nodes, self.heads, self.outer)
        alpha = (h * self.att_src).sum(-1)[src] + (h * self.att_dst).sum(-1)[dst]
        alpha = scatter_softmax(F.leaky_relu(alpha, 0.2), dst, nodes)
        out = scatter_sum(h[src] * alpha.unsqueeze(-1), dst, nodes)
        return out.flatten(1) + self.bias


class GAT(nn.Module):
    def __init__(self, features, hidden, classes, heads=4):
        super().__init__()
        self.conv1 = GATLayer(features, hidden, heads)
        self.conv2 = GATLayer(hidden * heads, classes, 1)

    def forward(self, x, edge_index):
        x = F.dropout(F.elu(self.conv1(x, edge_index)), 0.5, self.training)
        return self.conv2(x, edge_index)


def make_graph(nodes, edges, features, classes):
    generator = np.random.default_rng(0)
    x = torch.from_numpy(generator.standard_normal((nodes, features), dtype=np.float32))
    edge_index = torch.from_numpy(generator.integers(0, nodes, (2, edges)))
    y = torch.from_numpy(generator.integers(0, classes, nodes))
    train_mask = torch.from_numpy(generator.random(nodes) < 0.3)
    return x, edge_index, y, train_mask


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=2708)
    parser.add_argument("--edges", type=int, default=10556)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(12)
    x, edge_index, y, train_mask = make_graph(args.nodes, args.edges, args.features, 7)
    train_index = train_mask.nonzero().squeeze(1)
    x, edge_index, y = x.to(device), edge_index.to(device), y.to(device)
    train_index = train_index.to(device)
    model = GAT(args.features, 16, 7).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, weight_decay=5e-4)

    @torch.compile
    def loss_of(x, edge_index, y, index):
        logits = model(x, edge_index)
        return F.cross_entropy(logits[index], y[index])

    for epoch in range(1, args.epochs + 1):
        model.train()
        optimizer.zero_grad()
        loss = loss_of(x, edge_index, y, train_index)
        loss.backward()
        optimizer.step()
        print(f"Epoch: {epoch:03d}, Loss: {float(loss):.4f}")


if __name__ == "__main__":
    main()
