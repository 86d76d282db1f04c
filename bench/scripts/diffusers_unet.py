"""Trains a conditional UNet of diffusers on noise, in the shape of train_text_to_image.py."""

import argparse
import copy
import math

import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel, compute_snr


def parse_args():
    parser = argparse.ArgumentParser(description="Simple example of a training script.")
    parser.add_argument("--resolution", type=int, default=256)
    parser.add_argument("--train_batch_size", type=int, default=4)
    parser.add_argument("--max_train_steps", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=1e-4)
    parser.add_argument("--snr_gamma", type=float, default=5.0)
    parser.add_argument("--use_ema", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    return parser.parse_args()


def main():
    args = parse_args()
    device, weight_dtype = torch.device("cuda"), torch.bfloat16
    torch.manual_seed(0)
    noise_scheduler = DDPMScheduler(num_train_timesteps=1000, beta_schedule="scaled_linear")
    unet = UNet2DConditionModel(
        sample_size=args.resolution // 8,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(64, 128),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=128,
        attention_head_dim=8,
        norm_num_groups=16,
    )
    ema_unet = EMAModel(copy.deepcopy(unet).parameters(), model_cls=UNet2DConditionModel, model_config=unet.config)
    unet.to(device).train()
    if args.use_ema:
        ema_unet.to(device)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=args.learning_rate, betas=(0.9, 0.999), weight_decay=1e-2)
    lr_scheduler = get_scheduler("constant", optimizer=optimizer, num_warmup_steps=0)
    compiled = torch.compile(unet)
    print(f"***** Running training *****\n  batch {args.train_batch_size}, {unet.num_parameters()} parameters")
    train_loss = 0.0
    for global_step in range(args.max_train_steps):
        side = args.resolution // 8
        latents = torch.randn(args.train_batch_size, 4, side, side).to(device, dtype=weight_dtype)
        latents = latents * 0.18215
        noise = torch.randn_like(latents)
        timesteps = torch.randint(0, noise_scheduler.config.num_train_timesteps, (latents.shape[0],), device=device)
        timesteps = timesteps.long()
        noisy_latents = noise_scheduler.add_noise(latents, noise, timesteps)
        encoder_hidden_states = torch.randn(args.train_batch_size, 77, 128, device=device, dtype=weight_dtype)
        if noise_scheduler.config.prediction_type == "epsilon":
            target = noise
        else:
            target = noise_scheduler.get_velocity(latents, noise, timesteps)
        with torch.autocast("cuda", dtype=weight_dtype):
            model_pred = compiled(noisy_latents, timesteps, encoder_hidden_states, return_dict=False)[0]
        snr = compute_snr(noise_scheduler, timesteps)
        weights = torch.stack([snr, args.snr_gamma * torch.ones_like(timesteps)], dim=1).min(dim=1)[0] / snr
        loss = F.mse_loss(model_pred.float(), target.float(), reduction="none")
        loss = (loss.mean(dim=list(range(1, len(loss.shape)))) * weights).mean()
        train_loss += loss.item()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), args.max_grad_norm)
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        if args.use_ema:
            ema_unet.step(unet.parameters())
        logs = {"step_loss": loss.detach().item(), "lr": lr_scheduler.get_last_lr()[0]}
        print(global_step, logs)
        if math.isnan(train_loss):
            raise RuntimeError("the loss is not a number")


if __name__ == "__main__":
    main()
