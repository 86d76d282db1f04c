"""Benchmarks a ResNet for inference: channels last, half precision, warm-up and timed runs."""

import argparse
import statistics

import torch
import torchvision

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="resnet18")
parser.add_argument("--batch", type=int, default=16)
parser.add_argument("--size", type=int, default=224)
parser.add_argument("--warmup", type=int, default=3)
parser.add_argument("--runs", type=int, default=20)
args = parser.parse_args()


def timed(fn):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    result = fn()
    end.record()
    torch.cuda.synchronize()
    return result, start.elapsed_time(end) / 1000


model = getattr(torchvision.models, args.model)(weights=None).cuda().half().eval()
model = model.to(memory_format=torch.channels_last)
images = torch.randn(args.batch, 3, args.size, args.size, device="cuda", dtype=torch.float16)
images = images.contiguous(memory_format=torch.channels_last)
compiled = torch.compile(model, options={"max_autotune": False, "epilogue_fusion": True})
stream = torch.cuda.Stream()
with torch.inference_mode(), torch.cuda.stream(stream):
    for _ in range(args.warmup):
        compiled(images)
    eager = [timed(lambda: model(images))[1] for _ in range(args.runs)]
    fast = [timed(lambda: compiled(images))[1] for _ in range(args.runs)]
stream.synchronize()
speedup = statistics.median(eager) / max(statistics.median(fast), 1e-9)
print(f"eager {statistics.median(eager) * 1e3:.2f} ms, compiled {statistics.median(fast) * 1e3:.2f} ms, {speedup:.2f}x")
labels = compiled(images).float().softmax(-1).topk(5).indices.cpu().numpy()
print(labels[0])
