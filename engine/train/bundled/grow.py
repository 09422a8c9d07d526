#!/usr/bin/python3
"""Writes a bundled network as one to go on from: with the enlarged image added, and with more layers that do nothing yet.

usage: grow.py MODEL.param DIR/NAME [--layers 1] [--scale 2] [--images IMAGES]

A network of plain convolutions carries the image through all of its layers, and whatever learning shakes there shakes the image.
So the last layer leaves the image away, found in what it reads by least squares over IMAGES/*.png, and the enlarged image is
added instead. `--layers` more before the last pass on what they read: PReLUs of slope 1 behind identities. A larger `--scale`
begins with each pixel's result in place of several.
"""

import argparse
import glob
import os

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import ncnn_graph
import start

CROPS, FITTED, CROP_PX = 160, 130, 64
REDUCTIONS = [Image.BOX, Image.BICUBIC, Image.LANCZOS]


class Conv:
    """A layer of a row: float64 weights [out, in, 3, 3] and bias, and the slopes behind it, [1] or [out]; none of the last."""

    def __init__(self, weights, bias, slopes=None):
        self.weights, self.bias, self.slopes = weights, bias, slopes

    def run(self, x):
        x = F.conv2d(x, self.weights, self.bias)
        return x if self.slopes is None else F.prelu(x, self.slopes)


def row_of(graph):
    """The convolutions of a bundled network; an assertion names what is none."""
    ends = ["PixelShuffle"], ["PixelShuffle", "Crop", "Interp", "BinaryOp"]
    others = [layer.kind for layer in graph.layers if layer.kind not in ("Input", "Split", "Convolution", "PReLU")]
    assert others in ends, f"{others} are not a bundled network's"
    row = []
    for layer in graph.layers:
        if layer.kind == "Convolution":
            assert layer.keys["1"] == "3" and layer.keys.get("9", "0") in ("0", "2"), layer.name
            slope = layer.leaky_slope()
            slopes = None if slope is None else torch.tensor([slope], dtype=torch.float64)
            row.append(Conv(torch.from_numpy(layer.weights.astype(np.float64)), torch.from_numpy(layer.bias.astype(np.float64)), slopes))
        elif layer.kind == "PReLU":
            row[-1].slopes = torch.from_numpy(layer.slope.astype(np.float64))
    assert len(row[-1].bias) == 3 * start.SCALE**2, f"its result is not {start.SCALE} times as large"
    return row


def small_crops(folder):
    """Parts of images that were reduced to 160 px, [1, 3, 64, 64]."""
    rng, paths = np.random.default_rng(0), sorted(glob.glob(f"{folder}/*.png"))
    for i in range(CROPS):
        image = Image.open(paths[rng.integers(len(paths))]).convert("RGB").resize((160, 160), REDUCTIONS[i % 3])
        at = 0 if i % 2 else 40
        pixels = np.asarray(image)[at:at + CROP_PX, at:at + CROP_PX]
        yield torch.from_numpy(pixels.copy()).double().permute(2, 0, 1)[None] / 255


@torch.no_grad()
def leave_image_away(row, folder):
    """Has the last of `row` give what the enlarged image lacks."""
    *head, last = row
    border, squares, products, errors = len(row), 0, 0, []
    for i, image in enumerate(small_crops(folder)):
        x = image
        for conv in head:
            x = conv.run(x)
        read = F.unfold(x, 3)[0].T
        read = torch.cat([read, torch.ones(len(read), 1).double()], 1)
        middle = image[0, :, border:-border, border:-border].reshape(3, -1).T
        if i < FITTED:
            squares, products = squares + read.T @ read, products + read.T @ middle
            continue
        if i == FITTED:
            ridge = 1e-6 * squares.diagonal().mean() * torch.eye(len(squares)).double()
            found = torch.linalg.solve(squares + ridge, products)
        errors.append(read @ found - middle)
    print(f"the image is found to {-10 * torch.log10(torch.cat(errors).square().mean()):.1f} dB")
    for out in range(len(last.bias)):
        channel = found[:, out // start.SCALE**2]
        last.weights[out] -= channel[:-1].view(last.weights.shape[1:])
        last.bias[out] -= channel[-1]


def repeat_pixels(last, scale):
    """Has `last` give pixels for `scale`, those of a square of scale / SCALE alike."""
    side = torch.arange(scale) * start.SCALE // scale
    phase = (side[:, None] * start.SCALE + side).flatten()
    channels = (torch.arange(3)[:, None] * start.SCALE**2 + phase).flatten()
    last.weights, last.bias = last.weights[channels], last.bias[channels]


def write(row, more_layers, writer):
    writer.image()
    *head, last = row
    channels = last.weights.shape[1]
    identity = torch.eye(channels).double()[:, :, None, None] * F.pad(torch.ones(1, 1), (1, 1, 1, 1)).double()
    head += [Conv(identity, torch.zeros(channels), torch.ones(channels))] * more_layers
    blob = "in_a"
    for i, conv in enumerate(head):
        one = len(conv.slopes) == 1
        writer.conv(blob, f"x{i}", conv.weights.flatten().tolist(), conv.bias.tolist(), conv.slopes.item() if one else None)
        blob = f"x{i}"
        if not one:
            writer.prelu(blob, f"p{i}", conv.slopes.tolist())
            blob = f"p{i}"
    writer.conv(blob, "last", last.weights.flatten().tolist(), last.bias.tolist())
    writer.shuffle_and_add_enlarged("last", "in_b")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.param")
    parser.add_argument("folder", help="of the model that is written; its name is the model's")
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--scale", type=int, default=start.SCALE)
    parser.add_argument("--images", metavar="IMAGES", help="of the training; for a network of plain convolutions")
    args = parser.parse_args()
    graph = ncnn_graph.Graph(args.model)
    row, is_plain = row_of(graph), all(layer.kind != "Interp" for layer in graph.layers)
    if is_plain:
        if not args.images:
            parser.error("a network of plain convolutions needs --images")
        leave_image_away(row, args.images)
    repeat_pixels(row[-1], args.scale)
    writer = start.Writer(1, args.scale)
    write(row, args.layers, writer)
    name = os.path.basename(os.path.dirname(os.path.abspath(args.model)))
    start.write_folder(writer, args.folder, f"{name}, the enlarged image added, and {args.layers} layers that do nothing yet; x{args.scale}.")


if __name__ == "__main__":
    main()
