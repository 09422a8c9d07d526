#!/usr/bin/python3
"""Which noise level suits which JPEG: noise_levels.py UPSCALE FOLDER ... [--model general-2x] [--quality 95 ...] [--sampling 420 ...]

The thresholds of noise=auto (engine/pipeline/choose_noise.cc) come from this table. Pictures are halved by bicubic, compressed by
libjpeg at each quality and sampling, and enlarged in `exact` at each level; the Y plane (BT.601) is compared without 2 px of every side.
A line gives the mean decibels without denoising and at each level, and on how many pictures each was best. Needs Debian's
python3-numpy and python3-pil. Judge by pictures that the model has not learnt from: Kodak's 24, the last of CLIC's.
"""
import argparse
import io
import pathlib
import subprocess
import tempfile

import numpy as np
from PIL import Image
from super_resolution_sets import psnr_db, read, resize

SAMPLINGS = {"444": 0, "422": 1, "420": 2}  # as PIL numbers them


def compressed(pixels: np.ndarray, quality: int, sampling: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling=SAMPLINGS[sampling])
    return file.getvalue()


def enlarged(upscale: str, model: str, level: int, small: pathlib.Path, results: pathlib.Path) -> None:
    subprocess.run([upscale, "image", "--local", "--quiet", "-m", model, "-s", "2", "-n", str(level), "-f", "png",
                    "--precision", "exact", "-i", small, "-o", f"{results}/"], check=True)


def measure(args: argparse.Namespace, quality: int, sampling: str, originals: dict[str, np.ndarray]) -> None:
    values = []  # of each level, the pictures' decibels
    with tempfile.TemporaryDirectory() as name:
        small = pathlib.Path(name) / "small"
        small.mkdir()
        for stem, pixels in originals.items():
            (small / f"{stem}.jpg").write_bytes(compressed(resize(pixels, 1 / 2), quality, sampling))
        for level in args.level:
            results = pathlib.Path(name) / str(level)
            enlarged(args.upscale, args.model, level, small, results)
            values.append([psnr_db(read(results / f"{stem}.png", 2), pixels, 2) for stem, pixels in originals.items()])
    best = np.bincount(np.argmax(values, axis=0), minlength=len(values))
    means = " ".join(f"{np.mean(level):6.2f}" for level in values)
    print(f"4:{sampling[1]}:{sampling[2]} {quality:3}  {means}   best {' '.join(f'{count:2}' for count in best)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("upscale")
    parser.add_argument("folder", type=pathlib.Path, nargs="+")
    parser.add_argument("--model", default="general-2x")
    parser.add_argument("--level", type=int, nargs="+", default=[-1, 1, 2, 3])
    parser.add_argument("--quality", type=int, nargs="+", default=[98, 95, 92, 90, 85, 80, 75, 70, 65, 60, 50, 40])
    parser.add_argument("--sampling", choices=SAMPLINGS, nargs="+", default=["420", "444"])
    args = parser.parse_args()
    paths = [path for folder in args.folder for path in sorted(folder.iterdir()) if path.suffix in (".png", ".webp", ".bmp")]
    originals = {path.stem: read(path, 2) for path in paths}
    print(f"{args.model}, {len(originals)} pictures: dB at levels {' '.join(map(str, args.level))}")
    for sampling in args.sampling:
        for quality in args.quality:
            measure(args, quality, sampling, originals)


if __name__ == "__main__":
    main()
