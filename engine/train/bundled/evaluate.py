#!/usr/bin/python3
"""Measures a model against bicubic and Lanczos-3 on the held-out images.

usage: evaluate.py MODEL HELDOUT_DIR [--scale 2] [--jpeg QUALITY] [--images OUT_DIR] [--each]

MODEL is a .param file; at a `--scale` beyond its own it runs several times. PSNR of the Y plane (BT.601,
16..235) of 8-bit images with 8 px cropped from every side, the mean over images; and the largest difference of a channel's
mean from the original's, in levels of 0..255, of the reduced image (what the reduction itself moved), of Lanczos-3 and of
the model.
"""

import argparse
import glob
import io
import os
import sys

import numpy as np
import torch
from PIL import Image

import ncnn_graph

CROP_PX = 8
KERNELS = {"box": Image.BOX, "bicubic": Image.BICUBIC, "lanczos": Image.LANCZOS}


def luma(pixels):
    return 16 + pixels.astype(np.float64) @ np.array([65.481, 128.553, 24.966]) / 255


def psnr_y(a, b):
    c = CROP_PX
    mse = np.mean((luma(a)[c:-c, c:-c] - luma(b)[c:-c, c:-c]) ** 2)
    return 10 * np.log10(255**2 / max(mse, 1e-6))


def to_u8(planes):
    return np.clip(np.rint(planes.permute(1, 2, 0).numpy() * 255), 0, 255).astype(np.uint8)


def measure(upscale, path, kernel, scale, jpeg_quality):
    """(dB of bicubic, Lanczos and the model; largest mean shift of a channel, reduced, Lanczos and the model; result)."""
    image = Image.open(path).convert("RGB")
    image = image.crop((0, 0, image.width // scale * scale, image.height // scale * scale))
    original = np.asarray(image)
    small = image.resize((image.width // scale, image.height // scale), kernel)
    if jpeg_quality:
        file = io.BytesIO()
        small.save(file, "JPEG", quality=jpeg_quality)
        small = Image.open(file)
    result = np.asarray(small)
    while len(result) < image.height:
        result = to_u8(upscale(result))
    assert result.shape == original.shape, f"passes of the model do not make x{scale}"
    bicubic, lanczos = (np.asarray(small.resize(image.size, k)) for k in (Image.BICUBIC, Image.LANCZOS))
    shifts = [np.abs(p.mean((0, 1)) - original.mean((0, 1))).max() for p in (np.asarray(small), lanczos, result)]
    return [psnr_y(p, original) for p in (bicubic, lanczos, result)], shifts, result


def upscale_by(model):
    """A function from uint8 [h, w, 3] to [3, scale * h, scale * w] in 0..1, in float32."""
    graph = ncnn_graph.Graph(model)
    return lambda pixels: graph.upscale(pixels, torch.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("heldout")
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--jpeg", type=int, help="compress the small side at this quality")
    parser.add_argument("--images", help="folder for the upscaled images")
    parser.add_argument("--each", action="store_true", help="a line per image")
    args = parser.parse_args()
    torch.set_num_threads(2)
    upscale = upscale_by(args.model)

    print("images  reduced by  n   bicubic  Lanczos-3  model   over bicubic  over Lanczos-3  worst image  mean shift of the reduced, Lanczos-3, model")
    for kind in ("photo", "text", "flat"):
        paths = sorted(glob.glob(os.path.join(args.heldout, kind, "*.png")))
        if not paths:
            sys.exit(f"{args.heldout}/{kind}: no .png")
        for name, kernel in KERNELS.items():
            rows, shifts = [], []
            for path in paths:
                decibel, shift, result = measure(upscale, path, kernel, args.scale, args.jpeg)
                rows.append(decibel)
                shifts.append(shift)
                if args.each:
                    print(f"  {os.path.basename(path):40} " + "  ".join(f"{d:6.2f}" for d in decibel))
                if args.images:
                    os.makedirs(args.images, exist_ok=True)
                    Image.fromarray(result).save(os.path.join(args.images, f"{kind}-{name}-{os.path.basename(path)}"))
            rows = np.array(rows)
            b, l, m = rows.mean(0)
            worst = (rows[:, 2] - rows[:, 1]).min()
            print(f"{kind:8}  {name:10} {len(rows):3}  {b:7.2f}  {l:9.2f}  {m:6.2f}  {m - b:12.2f}  {m - l:14.2f}  "
                  f"{worst:13.2f}  " + "  ".join(f"{shift:.3f}" for shift in np.max(shifts, axis=0)))


if __name__ == "__main__":
    main()
