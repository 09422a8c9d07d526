#!/usr/bin/python3
"""Trains a model of net.py's table on the pairs of make_dataset.py for a given time.

usage: train.py MODEL DATA OUT.pt --minutes 60
       train.py MODEL DATA OUT.pt --minutes 60 --start OTHER.pt       from another model of its shape
       train.py MODEL DATA OUT.pt --minutes 60 --start OTHER.param    from a plain one of as many layers, no wider

The learning rate follows a cosine over the wall-clock budget, so the run ends on time whatever else the machine does.
OUT.pt holds {"model", "net", "ema", "step"} and is rewritten every few minutes.
"""

import argparse
import copy
import io
import math
import os
import time

import numpy as np
import torch
from PIL import Image

import export_ncnn
import net as nets

PATCH_PX = 62  # low-resolution side, halo included
VALIDATION = 384  # the last pairs of the data set, never trained on
LOG_WEIGHT = 0.1  # for the logarithm of each patch's squared error
LEAST_ERROR = 1e-6  # beyond 60 dB a patch is good enough
MEAN_WEIGHT = 2.0  # for the error of each patch's mean colour
FINAL_RATE, WARMUP_STEPS = 2e-6, 100


def through_jpeg(rng, pixels, quality):
    """`pixels` after JPEG at a random quality of the range, with or without reduced chroma."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=int(rng.integers(quality[0], quality[1] + 1)),
                                 subsampling=int(rng.choice([0, 2])))
    return np.asarray(Image.open(file))


def batch_of(rng, hr, lr, chosen, model):
    """The pairs `chosen` as float tensors (x, target), with flips, transposition, colour and brightness symmetries."""
    batch = len(chosen)
    pad = model.shape.pad_px
    inner = PATCH_PX - 2 * pad
    x = np.empty((batch, PATCH_PX, PATCH_PX, 3), np.uint8)
    y = np.empty((batch, 2 * inner, 2 * inner, 3), np.uint8)
    for i, n in enumerate(chosen):
        r, c = rng.integers(0, lr.shape[1] - PATCH_PX + 1, 2)
        x[i] = lr[n, r:r + PATCH_PX, c:c + PATCH_PX]
        if model.jpeg_quality:
            x[i] = through_jpeg(rng, x[i], model.jpeg_quality)
        r, c = 2 * (r + pad), 2 * (c + pad)
        y[i] = hr[n, r:r + 2 * inner, c:c + 2 * inner]
    colors = rng.permutation(3)
    flips = [a for a in (1, 2) if rng.random() < 0.5]
    transpose = rng.random() < 0.5
    invert = rng.random() < 0.3
    border = [rng.random() < 0.08 for _ in range(2)]

    def tensor(a):
        a = np.flip(a, flips)[..., colors]
        a = a.transpose(0, 2, 1, 3) if transpose else a
        t = torch.from_numpy(np.ascontiguousarray(a)).permute(0, 3, 1, 2).float() / 255
        return 1 - t if invert else t

    x, y = tensor(x), tensor(y)
    # Some batches see the replicated border of an image instead of its inside.
    if border[0]:
        x[..., :pad] = x[..., pad:pad + 1]
    if border[1]:
        x[..., :pad, :] = x[..., pad:pad + 1, :]
    return x, y


@torch.no_grad()
def validate(net, hr, lr, jpeg_quality):
    """Mean PSNR (dB, RGB) over the validation pairs."""
    pad = net.shape.pad_px
    layers = [(k.float(), b.float()) for k, b in net.folded()]
    rng = np.random.default_rng(0)
    total = 0.0
    for i in range(len(hr) - VALIDATION, len(hr), 32):
        small = lr[i:i + 32]
        if jpeg_quality:
            small = np.stack([through_jpeg(rng, p, jpeg_quality) for p in small])
        x = torch.from_numpy(small).permute(0, 3, 1, 2).float() / 255
        y = torch.from_numpy(hr[i:i + 32, 2 * pad:-2 * pad, 2 * pad:-2 * pad]).permute(0, 3, 1, 2).float() / 255
        mse = ((nets.run_plain(layers, x).clamp(0, 1) - y) ** 2).mean((1, 2, 3))
        total += (-10 * torch.log10(mse.clamp_min(1e-6))).sum().item()
    return total / VALIDATION


def save(path, name, net, ema, step):
    torch.save({"model": name, "net": net.state_dict(), "ema": ema.state_dict(), "step": step}, path + ".tmp")
    os.replace(path + ".tmp", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=nets.MODELS)
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--start", help="checkpoint or .param to start from")
    parser.add_argument("--bfloat16", action="store_true", help="faster on CPUs with AMX; finish in float32")
    parser.add_argument("--peak-rate", type=float, default=1.5e-3)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--photographs", type=float, default=0.6, help="fraction of every batch, in the mean")
    parser.add_argument("--ema-decay", type=float, default=0.999)
    parser.add_argument("--seed", type=int, default=0, help="another one for a run that goes on from the last")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--log-every-s", type=float, default=120)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    hr, lr = np.load(f"{args.data}/hr.npy"), np.load(f"{args.data}/lr.npy")
    count = len(hr) - VALIDATION
    photo = np.load(f"{args.data}/photo.npy")[:count]
    odds = np.where(photo, args.photographs / photo.sum(), (1 - args.photographs) / (~photo).sum())

    model = nets.MODELS[args.model]
    net = nets.Net(model.shape)
    step = 0
    if args.start and args.start.endswith(".param"):
        net.start_as(export_ncnn.read_ncnn(args.start))
    elif args.start:
        net.load_state_dict(torch.load(args.start)["ema"])
    ema = copy.deepcopy(net)
    trained = [p for p in net.parameters() if p.requires_grad]
    averaged = [p for p in ema.parameters() if p.requires_grad]
    adam = torch.optim.Adam(trained, lr=args.peak_rate, betas=(0.9, 0.99))
    start = last_log = time.time()
    budget_s = args.minutes * 60
    running = 0.0
    print(f"pairs {count}, start {validate(net, hr, lr, model.jpeg_quality):.3f} dB", flush=True)
    while True:
        part = (time.time() - start) / budget_s
        if part >= 1:
            break
        cosine = FINAL_RATE + (args.peak_rate - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * part))
        for group in adam.param_groups:
            group["lr"] = cosine * min(1.0, (step + 1) / WARMUP_STEPS)
        x, y = batch_of(rng, hr, lr, rng.choice(count, args.batch, p=odds), model)
        x = x.contiguous(memory_format=torch.channels_last)
        with torch.cpu.amp.autocast(enabled=args.bfloat16, dtype=torch.bfloat16):
            out = net(x)
        error = out.float() - y
        loss = LOG_WEIGHT * torch.log((error**2).mean((1, 2, 3)) + LEAST_ERROR).mean()
        loss = loss + MEAN_WEIGHT * error.mean((2, 3)).abs().mean()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.5)
        adam.step()
        step += 1
        with torch.no_grad():
            decay = min(args.ema_decay, (1 + step) / (10 + step))
            torch._foreach_mul_(averaged, decay)
            torch._foreach_add_(averaged, trained, alpha=1 - decay)
        running += 0.02 * (loss.item() - running) if step > 1 else loss.item()
        if time.time() - last_log > args.log_every_s:
            save(args.out, args.model, net, ema, step)
            print(f"{(time.time() - start) / 60:6.1f} min  step {step}  loss {running:.5f}  "
                  f"validation {validate(ema, hr, lr, model.jpeg_quality):.3f} dB", flush=True)
            last_log = time.time()
    save(args.out, args.model, net, ema, step)
    print(f"done: step {step}, validation {validate(ema, hr, lr, model.jpeg_quality):.3f} dB", flush=True)


if __name__ == "__main__":
    main()
