"""Trains a LightningModule that compiles its own model, with Lightning's Trainer."""

import argparse

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __init__(self, length=512):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.rand(length, 1, 28, 28, generator=generator)
        self.labels = torch.randint(10, (length,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class DigitsData(L.LightningDataModule):
    def __init__(self, batch_size):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage):
        self.train, self.val = Digits(), Digits(128)

    def train_dataloader(self):
        return DataLoader(self.train, self.batch_size, shuffle=True, num_workers=2, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val, self.batch_size, num_workers=2)


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm2 = nn.BatchNorm2d(2 * width)
        self.head = nn.Linear(2 * width, 10)

    def forward(self, x):
        x = F.silu(self.norm1(self.conv1(x)))
        x = F.silu(self.norm2(self.conv2(x)))
        return self.head(x.mean((2, 3)))


class LitDigits(L.LightningModule):
    def __init__(self, width=32, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.model = Encoder(width)

    def configure_model(self):
        self.model.compile()

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.1)
        self.log("train_loss", loss, prog_bar=True)
        self.log("train_acc", (logits.argmax(-1) == y).float().mean())
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self.model(x), y), sync_dist=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.lr, total_steps=self.trainer.estimated_stepping_batches
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--precision", default="bf16-mixed")
    options = parser.parse_args()
    L.seed_everything(7)
    trainer = L.Trainer(
        max_epochs=1,
        accelerator="gpu",
        devices=1,
        precision=options.precision,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        num_sanity_val_steps=2,
    )
    trainer.fit(LitDigits(), DigitsData(options.batch_size))
    print(trainer.callback_metrics)
