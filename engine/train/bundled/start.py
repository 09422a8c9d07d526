#!/usr/bin/python3
"""Writes the model that a training begins with: `upscale-train --models DIR --start NAME` goes on from there.

usage: start.py DIR/NAME [--channels 48] [--layers 6 | --blocks 7] [--seed 1]

A network whose result is the nearest enlargement and a little noise. A 3x3 convolution from RGB, then either
`--layers` more, each followed by a LeakyReLU and near the identity, or residual blocks of two (LeakyReLU between, the block's
input added); one to 12 channels, a pixel shuffle, plus the enlarged input.

Convolutions are valid: each takes a pixel of every side.
"""

import argparse
import array
import json
import math
import os
import random
import struct

SLOPE = 0.1
SCALE = 2


class Writer:
    """Lines of .param and bytes of .bin, as engine/model/ncnn_exporter.cc writes them."""

    def __init__(self, seed, scale=SCALE):
        self.scale = scale
        self.lines, self.blobs, self.bin, self.random = [], 0, b"", random.Random(seed)
        self.convolutions = 0

    def layer(self, kind, inputs, outputs, params=""):
        self.lines.append(" ".join([kind, f"l{len(self.lines)}", str(len(inputs)), str(len(outputs)), *inputs, *outputs,
                                    params]).strip())
        self.blobs += len(outputs)

    def image(self):
        """The network's input, twice."""
        self.layer("Input", [], ["in"])
        self.layer("Split", ["in"], ["in_a", "in_b"])

    def conv(self, blob, out, weights, bias, slope=None):
        activation = "" if slope is None else f" 9=2 -23310=1,{slope}"
        self.layer("Convolution", [blob], [out], f"0={len(bias)} 1=3 5=1 6={len(weights)}{activation}")
        self.bin += struct.pack("<I", 0) + array.array("f", weights).tobytes() + array.array("f", bias).tobytes()
        self.convolutions += 1

    def prelu(self, blob, out, slopes):
        self.layer("PReLU", [blob], [out], f"0={len(slopes)}")
        self.bin += array.array("f", slopes).tobytes()

    def new_conv(self, blob, out, inputs, outputs, gain, slope=None):
        """Weights of He's deviation for the slope after it, times `gain`; no bias."""
        deviation = gain * math.sqrt(2 / (1 + (slope or 1) ** 2) / (inputs * 9))
        self.conv(blob, out, [self.random.gauss(0, deviation) for _ in range(inputs * outputs * 9)], [0] * outputs, slope)

    def near_identity(self, blob, out, channels):
        """A convolution with LeakyReLU that passes its input on, and 0.3 of He's deviation for a ReLU beside."""
        deviation = 0.3 * math.sqrt(2 / (channels * 9))
        weights = [self.random.gauss(0, deviation) for _ in range(channels * channels * 9)]
        for c in range(channels):
            weights[(c * channels + c) * 9 + 4] += 1
        self.conv(blob, out, weights, [0] * channels, SLOPE)

    def cropped(self, blob, out, px):
        self.layer("Crop", [blob], [out], f"-23309=2,{px},{px} -23310=2,{-px},{-px} -23311=2,1,2")

    def add(self, a, b, out):
        self.layer("BinaryOp", [a, b], [out], "0=0")

    def block(self, blob, out, channels, gain):
        """`blob` plus two convolutions of it, the second one's weights times `gain`."""
        self.layer("Split", [blob], [f"{blob}a", f"{blob}b"])
        self.new_conv(f"{blob}a", f"{blob}y", channels, channels, 1, SLOPE)
        self.new_conv(f"{blob}y", f"{blob}z", channels, channels, gain)
        self.cropped(f"{blob}b", f"{blob}c", 2)
        self.add(f"{blob}z", f"{blob}c", out)

    def shuffle_and_add_enlarged(self, blob, image):
        """The end of a network: `blob` in the place of pixels, plus the middle of `image`."""
        self.layer("PixelShuffle", [blob], ["detail"], f"0={self.scale}")
        self.cropped(image, "middle", self.convolutions)
        self.layer("Interp", ["middle"], ["enlarged"], f"0=1 1={self.scale} 2={self.scale}")
        self.add("detail", "enlarged", "out")


def write_new(writer, channels, layers, blocks):
    writer.image()
    writer.new_conv("in_a", "x0", 3, channels, 1, SLOPE if layers else None)
    for i in range(layers):
        writer.near_identity(f"x{i}", f"x{i + 1}", channels)
    for i in range(blocks):
        writer.block(f"x{i}", f"x{i + 1}", channels, 0.1)
    writer.new_conv(f"x{layers + blocks}", "last", channels, 3 * writer.scale**2, 0.01)
    writer.shuffle_and_add_enlarged("last", "in_b")


def write_folder(writer, folder, description):
    """The model that `writer` has, and its card."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.param"), "w", encoding="ascii") as file:
        file.write("\n".join(["7767517", f"{len(writer.lines)} {writer.blobs}", *writer.lines]) + "\n")
    with open(os.path.join(folder, "model.bin"), "wb") as file:
        file.write(writer.bin)
    card = {
        "name": os.path.basename(os.path.normpath(folder)), "family": "espcn", "version": 1, "format": "ncnn",
        "scale": writer.scale, "noise_levels": [-1], "files": {"param": "model.param", "bin": "model.bin"},
        "pad_px": writer.convolutions, "border": "replicate", "align_px": 1, "licence": "CC0-1.0", "style": "general",
        "description": description, "precisions": ["exact"],
    }
    with open(os.path.join(folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(card, file, indent=2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the model; its name is the model's")
    parser.add_argument("--channels", type=int, default=48)
    middle = parser.add_mutually_exclusive_group()
    middle.add_argument("--layers", type=int, default=6, help="plain ones, between the first and the last")
    middle.add_argument("--blocks", type=int, default=0, help="residual ones instead")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    writer, layers = Writer(args.seed), 0 if args.blocks else args.layers
    write_new(writer, args.channels, layers, args.blocks)
    body = f"{args.blocks} residual blocks" if args.blocks else f"{layers} layers"
    write_folder(writer, args.folder, f"{body} of {args.channels} channels between two more, untrained.")


if __name__ == "__main__":
    main()
