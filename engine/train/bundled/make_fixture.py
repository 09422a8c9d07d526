#!/usr/bin/python3
"""Writes the image and the expected output that the C++ tests compare with.

usage: make_fixture.py MODEL.param OUT_DIR

OUT_DIR/input.png    37 x 29 RGB, drawn by program
OUT_DIR/MODEL.npy    float32 [3, 58, 74], not clamped; computed in float64 from the weights as stored
"""

import argparse
import os

import numpy as np
from PIL import Image, ImageDraw

import ncnn_graph

WIDTH_PX, HEIGHT_PX = 37, 29


def draw():
    """A colour ramp with noise, hard edges that run into the border, thin lines and a disc."""
    y, x = np.mgrid[0:HEIGHT_PX, 0:WIDTH_PX]
    ramp = np.stack([x * 255 / (WIDTH_PX - 1), y * 255 / (HEIGHT_PX - 1), 127 + 127 * np.sin(x * 0.7 + y * 0.3)], -1)
    noise = np.random.default_rng(7).integers(-20, 21, ramp.shape)
    noise[:, WIDTH_PX // 2:] = 0
    image = Image.fromarray(np.clip(ramp + noise, 0, 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    pen.rectangle((0, 0, 6, 4), fill=(255, 255, 255))
    pen.rectangle((30, 22, 36, 28), fill=(0, 0, 0))
    pen.line((0, 28, 20, 12), fill=(255, 0, 0))
    pen.line((18, 0, 36, 6), fill=(0, 0, 255), width=2)
    pen.ellipse((20, 9, 29, 18), fill=(250, 220, 40), outline=(20, 20, 20))
    return image


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    image = draw()
    image.save(os.path.join(args.out, "input.png"), optimize=True)
    output = ncnn_graph.Graph(args.model).upscale(np.asarray(image))
    name = os.path.splitext(os.path.basename(args.model))[0]
    np.save(os.path.join(args.out, name + ".npy"), output.numpy().astype("<f4"))


if __name__ == "__main__":
    main()
