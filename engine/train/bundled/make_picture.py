#!/usr/bin/python3
"""Draws the picture of the README, deploy/demo/quality.png: a part of a held-out drawing at half its size, enlarged.

usage: make_picture.py HELDOUT_DIR OUT.png

Above by Lanczos-3, fast-2x and general-2x, below, after JPEG of quality 50, by Lanczos-3, general-2x and its third level; each
pixel of the results is shown as four.
"""

import argparse
import io
import os

import numpy as np
from PIL import Image

import evaluate

DRAWING, PART = "flat/turkey_platter_01_with_fruit_and_vegitables_01.png", (28, 160, 160, 256)
ZOOM, GAP_PX, QUALITY = 2, 4, 50
BUNDLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../model/bundled")


def by_lanczos(small):
    return small.resize((small.width * 2, small.height * 2), Image.LANCZOS)


def by(model):
    upscale = evaluate.upscale_by(os.path.join(BUNDLED, model))
    return lambda small: Image.fromarray(evaluate.to_u8(upscale(np.asarray(small))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("heldout")
    parser.add_argument("out")
    args = parser.parse_args()
    drawing = Image.open(os.path.join(args.heldout, DRAWING)).convert("RGB")
    drawing = drawing.crop((0, 0, drawing.width // 2 * 2, drawing.height // 2 * 2))
    clean = drawing.resize((drawing.width // 2, drawing.height // 2), Image.BICUBIC)
    file = io.BytesIO()
    clean.save(file, "JPEG", quality=QUALITY)
    general = by("general-2x/model.param")
    rows = [(clean, [by_lanczos, by("fast-2x/model.param"), general]),
            (Image.open(file), [by_lanczos, general, by("general-2x/noise3.param")])]
    width, height = (ZOOM * (PART[axis + 2] - PART[axis]) for axis in (0, 1))
    picture = Image.new("RGB", (3 * width + 2 * GAP_PX, 2 * height + GAP_PX), "white")
    for y, (small, enlargers) in enumerate(rows):
        for x, enlarge in enumerate(enlargers):
            part = enlarge(small).crop(PART).resize((width, height), Image.NEAREST)
            picture.paste(part, (x * (width + GAP_PX), y * (height + GAP_PX)))
    picture.save(args.out, optimize=True)


if __name__ == "__main__":
    main()
