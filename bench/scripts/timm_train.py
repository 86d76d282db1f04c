"""Trains an image model with timm's parts, in the shape of timm's own train.py."""

import argparse
import logging
import time
from collections import OrderedDict
from contextlib import suppress
from functools import partial

import torch
import torch.nn as nn
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models import create_model, model_parameters
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, ModelEmaV3, NativeScaler, accuracy, random_seed, setup_default_logging
from torch.utils.data import DataLoader, Dataset

_logger = logging.getLogger("train")
parser = argparse.ArgumentParser(description="PyTorch ImageNet Training")
parser.add_argument("--model", default="resnet18")
parser.add_argument("--img-size", type=int, default=128)
parser.add_argument("--num-classes", type=int, default=100)
parser.add_argument("-b", "--batch-size", type=int, default=32)
parser.add_argument("--opt", default="adamw")
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("--weight-decay", type=float, default=0.05)
parser.add_argument("--sched", default="cosine")
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--workers", type=int, default=4)
parser.add_argument("--amp-dtype", default="float16")
parser.add_argument("--channels-last", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--clip-grad", type=float, default=1.0)
parser.add_argument("--mixup", type=float, default=0.2)
parser.add_argument("--model-ema", action=argparse.BooleanOptionalAction, default=True)
parser.add_argument("--log-interval", type=int, default=1)
parser.add_argument("--torchcompile", nargs="?", const="inductor", default="inductor")
parser.add_argument("--drop-path", type=float, default=None)


class SyntheticImages(Dataset):
    def __init__(self, length, size, classes):
        self.length, self.size, self.classes = length, size, classes

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        image = torch.rand(3, self.size, self.size, generator=generator)
        return (image - 0.5) / 0.25, index % self.classes


def main():
    setup_default_logging()
    args = parser.parse_args()
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
    device = torch.device("cuda")
    amp_dtype = getattr(torch, args.amp_dtype)
    random_seed(42, 0)
    extra = {} if args.drop_path is None else {"drop_path_rate": args.drop_path}
    model = create_model(args.model, pretrained=False, num_classes=args.num_classes, **extra)
    _logger.info(f"Model {args.model} created, {sum(m.numel() for m in model.parameters())} params")
    model.to(device=device)
    if args.channels_last:
        model.to(memory_format=torch.channels_last)
    optimizer = create_optimizer_v2(
        model, opt=args.opt, lr=args.lr, weight_decay=args.weight_decay, momentum=0.9
    )
    amp_autocast = partial(torch.autocast, device_type=device.type, dtype=amp_dtype)
    loss_scaler = NativeScaler(device=device.type) if amp_dtype == torch.float16 else None
    model_ema = ModelEmaV3(model, decay=0.9998, device="cpu" if False else device) if args.model_ema else None
    if args.torchcompile:
        model = torch.compile(model, backend=args.torchcompile)
    eval_model = model
    mixup_fn = Mixup(mixup_alpha=args.mixup, label_smoothing=0.1, num_classes=args.num_classes)
    train_set = SyntheticImages(args.batch_size * 8, args.img_size, args.num_classes)
    eval_set = SyntheticImages(args.batch_size * 2, args.img_size, args.num_classes)
    loader_train = DataLoader(
        train_set, args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=True, drop_last=True,
        persistent_workers=True,
    )
    loader_eval = DataLoader(eval_set, args.batch_size, num_workers=args.workers, pin_memory=True)
    train_loss_fn = SoftTargetCrossEntropy().to(device=device)
    validate_loss_fn = nn.CrossEntropyLoss().to(device=device)
    lr_scheduler, num_epochs = create_scheduler_v2(
        optimizer, sched=args.sched, num_epochs=args.epochs, updates_per_epoch=len(loader_train)
    )
    try:
        for epoch in range(num_epochs):
            train_metrics = train_one_epoch(
                epoch, model, loader_train, optimizer, train_loss_fn, args, device, lr_scheduler,
                amp_autocast, loss_scaler, model_ema, mixup_fn,
            )
            eval_metrics = validate(eval_model, loader_eval, validate_loss_fn, device, amp_autocast)
            _logger.info(f"epoch {epoch}: {train_metrics} {eval_metrics}")
            if lr_scheduler is not None:
                lr_scheduler.step(epoch + 1, eval_metrics["top1"])
    except KeyboardInterrupt:
        pass


def train_one_epoch(
    epoch, model, loader, optimizer, loss_fn, args, device, lr_scheduler, amp_autocast, loss_scaler, model_ema, mixup_fn
):
    losses_m, update_time_m = AverageMeter(), AverageMeter()
    model.train()
    update_start_time = time.time()
    num_updates = epoch * len(loader)
    for batch_idx, (input, target) in enumerate(loader):
        input, target = input.to(device, non_blocking=True), target.to(device, non_blocking=True)
        if mixup_fn is not None:
            input, target = mixup_fn(input, target)
        if args.channels_last:
            input = input.contiguous(memory_format=torch.channels_last)
        with amp_autocast():
            output = model(input)
            loss = loss_fn(output, target)
        if loss_scaler is not None:
            loss_scaler(
                loss, optimizer, clip_grad=args.clip_grad, clip_mode="norm",
                parameters=model_parameters(model), need_update=True,
            )
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad)
            optimizer.step()
        optimizer.zero_grad()
        num_updates += 1
        if model_ema is not None:
            model_ema.update(model, step=num_updates)
        torch.cuda.synchronize()
        losses_m.update(loss.item() * 1, input.size(0))
        update_time_m.update(time.time() - update_start_time)
        update_start_time = time.time()
        if batch_idx % args.log_interval == 0:
            lr = sum(group["lr"] for group in optimizer.param_groups) / len(optimizer.param_groups)
            _logger.info(
                f"Train: {epoch} [{batch_idx}/{len(loader)}] Loss: {losses_m.val:#.3g} ({losses_m.avg:#.3g}) "
                f"Time: {update_time_m.val:.3f}s, {input.size(0) / update_time_m.val:>7.2f}/s LR: {lr:.3e}"
            )
        if lr_scheduler is not None:
            lr_scheduler.step_update(num_updates=num_updates, metric=losses_m.avg)
    return OrderedDict([("loss", losses_m.avg)])


def validate(model, loader, loss_fn, device, amp_autocast=suppress):
    losses_m, top1_m, top5_m = AverageMeter(), AverageMeter(), AverageMeter()
    model.eval()
    with torch.inference_mode():
        for input, target in loader:
            input, target = input.to(device), target.to(device)
            input = input.contiguous(memory_format=torch.channels_last)
            with amp_autocast():
                output = model(input)
                loss = loss_fn(output, target)
            acc1, acc5 = accuracy(output, target, topk=(1, 5))
            losses_m.update(loss.item(), input.size(0))
            top1_m.update(acc1.item(), output.size(0))
            top5_m.update(acc5.item(), output.size(0))
    return OrderedDict([("loss", losses_m.avg), ("top1", top1_m.avg), ("top5", top5_m.avg)])


if __name__ == "__main__":
    main()
