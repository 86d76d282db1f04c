"""Generates text with Hugging Face's generate() and a static cache, the forward pass compiled."""

import argparse
import time

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, set_seed

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--prompt", type=int, default=64)
parser.add_argument("--new-tokens", type=int, default=16)
args = parser.parse_args()


def main():
    set_seed(0)
    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=32000,
        max_position_embeddings=1024,
    )
    model = LlamaForCausalLM(config).to("cuda", dtype=torch.bfloat16).eval()
    model.forward = torch.compile(model.forward, fullgraph=True)
    generation = GenerationConfig(
        max_new_tokens=args.new_tokens,
        do_sample=False,
        cache_implementation="static",
        disable_compile=True,
        pad_token_id=0,
        eos_token_id=2,
    )
    prompt = torch.randint(3, 32000, (args.batch, args.prompt), device="cuda")
    mask = torch.ones_like(prompt)
    for number in range(2):
        start = time.perf_counter()
        with torch.no_grad():
            out = model.generate(prompt, attention_mask=mask, generation_config=generation)
        torch.cuda.synchronize()
        tokens = (out.shape[1] - prompt.shape[1]) * out.shape[0]
        print(f"{number}: {out.shape} {tokens / (time.perf_counter() - start):.1f} tokens/s")
    print(out[0].tolist()[-8:])


if __name__ == "__main__":
    main()
