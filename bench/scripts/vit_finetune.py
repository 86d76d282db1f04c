"""Fine-tunes the head and last blocks of torchvision's ViT in half precision with GradScaler."""

import argparse
import time

import numpy as np
import torch
import torchvision
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2


class Pictures(Dataset):
    """Pictures of noise, decoded and augmented as those of a folder are."""

    def __init__(self, length, size):
        self.length = length
        self.transform = v2.Compose(
            [
                v2.ToImage(),
                v2.RandomResizedCrop(size, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.ToDtype(torch.float32, scale=True),
                v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
            ]
        )

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        pixels = np.random.default_rng(index).integers(0, 255, (160, 160, 3), dtype=np.uint8)
        return self.transform(Image.fromarray(pixels)), index % 10


def build_model(size):
    model = torchvision.models.VisionTransformer(
        image_size=size, patch_size=16, num_layers=4, num_heads=4, hidden_dim=256, mlp_dim=1024
    )
    for name, parameter in model.named_parameters():
        parameter.requires_grad = "layer_2" in name or "layer_3" in name or "heads" in name
    model.heads = nn.Sequential(nn.Linear(256, 10))
    return model


def train_one_epoch(model, criterion, optimizer, loader, device, epoch, scaler, scheduler):
    model.train()
    total, correct, seen = 0.0, 0, 0
    for number, (image, target) in enumerate(loader):
        start = time.time()
        image, target = image.to(device, non_blocking=True), target.to(device, non_blocking=True)
        with torch.cuda.amp.autocast(enabled=scaler is not None):
            output = model(image)
            loss = criterion(output, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() >= before:
            scheduler.step()
        total += loss.item() * image.shape[0]
        correct += (output.argmax(1) == target).sum().item()
        seen += image.shape[0]
        speed = image.shape[0] / (time.time() - start)
        lr = optimizer.param_groups[0]["lr"]
        print(f"[{epoch}:{number}] loss {total / seen:.4f} acc@1 {100 * correct / seen:.1f} lr {lr:.2e} {speed:.1f} img/s")


@torch.inference_mode()
def evaluate(model, criterion, loader, device):
    model.eval()
    losses = [criterion(model(image.to(device)), target.to(device)).item() for image, target in loader]
    return sum(losses) / len(losses)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    device = torch.device("cuda")
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    train = DataLoader(Pictures(256, args.size), args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True, drop_last=True)
    test = DataLoader(Pictures(64, args.size), args.batch_size, num_workers=args.workers, pin_memory=True)
    model = build_model(args.size).to(device)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.11)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(parameters, lr=0.03, momentum=0.9, weight_decay=1e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.033, total_iters=4)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[4])
    scaler = torch.cuda.amp.GradScaler()
    model = torch.compile(model)
    best = float("inf")
    for epoch in range(args.epochs):
        train_one_epoch(model, criterion, optimizer, train, device, epoch, scaler, scheduler)
        loss = evaluate(model, criterion, test, device)
        print(f"Test: {loss:.4f}")
        best = min(best, loss)


if __name__ == "__main__":
    main()
