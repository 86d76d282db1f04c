"""Fine-tunes a causal language model with LoRA, by peft."""

import argparse

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, get_linear_schedule_with_warmup, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--rank", type=int, default=8)
parser.add_argument("--batch_size", type=int, default=4)
parser.add_argument("--max_length", type=int, default=256)
parser.add_argument("--lr", type=float, default=3e-4)
parser.add_argument("--num_epochs", type=int, default=1)


def collate(features):
    length = max(len(each) for each in features)
    input_ids = torch.full((len(features), length), 0, dtype=torch.long)
    attention_mask = torch.zeros((len(features), length), dtype=torch.long)
    for row, each in enumerate(features):
        input_ids[row, : len(each)] = torch.tensor(each)
        attention_mask[row, : len(each)] = 1
    labels = input_ids.masked_fill(attention_mask == 0, -100)
    return {"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}


def main():
    args = parser.parse_args()
    set_seed(11)
    device = "cuda"
    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=32000,
        max_position_embeddings=1024,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    peft_config = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=args.rank,
        lora_alpha=16,
        lora_dropout=0.05,
        target_modules=["q_proj", "v_proj"],
    )
    model = get_peft_model(model, peft_config)
    model.print_trainable_parameters()
    generator = torch.Generator().manual_seed(0)
    samples = [torch.randint(3, 32000, (args.max_length,), generator=generator).tolist() for _ in range(64)]
    loader = DataLoader(samples, shuffle=True, collate_fn=collate, batch_size=args.batch_size, pin_memory=True)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=args.lr)
    total = len(loader) * args.num_epochs
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=2, num_training_steps=total)
    model = model.to(device)
    model.train()
    compiled = torch.compile(model)
    for epoch in range(args.num_epochs):
        total_loss = 0
        for step, batch in enumerate(loader):
            batch = {k: v.to(device) for k, v in batch.items()}
            outputs = compiled(**batch)
            loss = outputs.loss
            total_loss += loss.detach().float()
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            print(f"{epoch=} {step=} loss={loss.item():.4f} ppl={torch.exp(loss.detach()).item():.1f}")
        print(f"{epoch=}: train_ppl={torch.exp(total_loss / len(loader))}")


if __name__ == "__main__":
    main()
