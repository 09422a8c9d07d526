#!/usr/bin/python3
"""Y-PSNR on folders of images as papers give it (Set5, Set14): super_resolution_sets.py UPSCALE --model NAME ... [--scale 2] FOLDER ...

UPSCALE is the client; it runs a server of its own. Images are cropped to multiples of the scale, reduced by it as MATLAB's imresize
does (bicubic, antialiased) and enlarged in `exact`; the Y plane (BT.601, 16..235) is compared without as many px of every side as
the scale, and the decibels' mean taken. Needs Debian's python3-numpy and python3-pil. Nothing may be trained or chosen by these sets.
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np
from PIL import Image


def cubic(x: np.ndarray) -> np.ndarray:
    """Keys's kernel, a = -1/2."""
    x = np.abs(x)
    return np.where(x <= 1, 1.5 * x**3 - 2.5 * x**2 + 1, np.where(x <= 2, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2, 0))


def resize_lines(pixels: np.ndarray, factor: float) -> np.ndarray:
    """uint8 pixels, the first axis `factor` times as long: beyond the edges lies the mirrored image."""
    size = pixels.shape[0]
    stretch = min(factor, 1)  # a wider kernel makes images smaller
    centres = (np.arange(round(size * factor)) + 0.5) / factor - 0.5
    taps = np.floor(centres - 2 / stretch).astype(int)[:, None] + np.arange(round(4 / stretch) + 2)
    weights = cubic((centres[:, None] - taps) * stretch)
    weights /= weights.sum(1, keepdims=True)
    mirrored = np.mod(taps, 2 * size)
    mirrored = np.where(mirrored < size, mirrored, 2 * size - 1 - mirrored)
    return np.clip(np.floor(np.einsum("ot,ot...->o...", weights, pixels[mirrored].astype(np.float64)) + 0.5), 0, 255).astype(np.uint8)


def resize(pixels: np.ndarray, factor: float) -> np.ndarray:
    """uint8 [h, w, c], as imresize(pixels, factor, 'bicubic'): rounded after lines, and after columns."""
    return resize_lines(resize_lines(pixels, factor).swapaxes(0, 1), factor).swapaxes(0, 1)


def luma(pixels: np.ndarray) -> np.ndarray:
    return 16 + pixels.astype(np.float64) @ np.array([65.481, 128.553, 24.966]) / 255


def psnr_db(pixels: np.ndarray, original: np.ndarray, shaved_px: int) -> float:
    inner = np.s_[shaved_px:-shaved_px, shaved_px:-shaved_px]
    return 10 * np.log10(255**2 / np.mean((luma(pixels)[inner] - luma(original)[inner]) ** 2))


def read(path: pathlib.Path, scale: int) -> np.ndarray:
    pixels = np.asarray(Image.open(path).convert("RGB"))
    return pixels[: pixels.shape[0] // scale * scale, : pixels.shape[1] // scale * scale]


def measure(upscale: str, models: list[str], scale: int, folder: pathlib.Path) -> None:
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".bmp", ".jpg", ".tif"))
    originals = {path.stem + ".png": read(path, scale) for path in paths}
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        (work / "small").mkdir()
        smaller = {file: resize(pixels, 1 / scale) for file, pixels in originals.items()}
        for file, pixels in smaller.items():
            Image.fromarray(pixels).save(work / "small" / file)
        results = {"bicubic": {file: resize(pixels, scale) for file, pixels in smaller.items()}}
        for model in models:
            subprocess.run([upscale, "image", "--local", "--quiet", "-m", model, "-s", str(scale), "--precision", "exact",
                            "-i", work / "small", "-o", f"{work / model}/"], check=True)
            results[model] = {file: read(work / model / file, scale) for file in originals}
    for way, pixels in results.items():
        values = [psnr_db(pixels[file], original, scale) for file, original in originals.items()]
        print(f"{folder.name:10} {way:16} {np.mean(values):6.2f} dB  mean of {len(values)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("upscale")
    parser.add_argument("folder", type=pathlib.Path, nargs="+")
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--scale", type=int, default=2)
    args = parser.parse_args()
    for folder in args.folder:
        measure(args.upscale, args.model, args.scale, folder)


if __name__ == "__main__":
    main()
