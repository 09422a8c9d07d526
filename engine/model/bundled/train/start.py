#!/usr/bin/python3
"""Writes the model that a training from nothing begins with: a residual network whose result is the nearest enlargement
and a little noise. `upscale-train --models DIR --start NAME` goes on from there.

usage: start.py DIR/NAME [--channels 64] [--blocks 7] [--seed 1]

A 3x3 convolution from RGB, blocks of two (LeakyReLU between, the block's input added), one to 12 channels, a pixel
shuffle, plus the enlarged input. Convolutions are valid: each takes a pixel of every side.
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

    def __init__(self, seed):
        self.lines, self.blobs, self.bin, self.random = [], 0, b"", random.Random(seed)

    def layer(self, kind, inputs, outputs, params=""):
        self.lines.append(" ".join([kind, f"l{len(self.lines)}", str(len(inputs)), str(len(outputs)), *inputs, *outputs,
                                    params]).strip())
        self.blobs += len(outputs)

    def conv(self, blob, out, inputs, outputs, gain, slope=None):
        """Weights of He's deviation for the slope after it, times `gain`; no bias."""
        count = inputs * outputs * 9
        deviation = gain * math.sqrt(2 / (1 + (slope or 1) ** 2) / (inputs * 9))
        activation = f" 9=2 -23310=1,{slope}" if slope else ""
        self.layer("Convolution", [blob], [out], f"0={outputs} 1=3 5=1 6={count}{activation}")
        weights = array.array("f", (self.random.gauss(0, deviation) for _ in range(count)))
        self.bin += struct.pack("<I", 0) + weights.tobytes() + bytes(4 * outputs)

    def cropped(self, blob, out, px):
        self.layer("Crop", [blob], [out], f"-23309=2,{px},{px} -23310=2,{-px},{-px} -23311=2,1,2")

    def add(self, a, b, out):
        self.layer("BinaryOp", [a, b], [out], "0=0")


def write_network(writer, channels, blocks):
    writer.layer("Input", [], ["in"])
    writer.layer("Split", ["in"], ["in_a", "in_b"])
    writer.conv("in_a", "x0", 3, channels, 1)
    for i in range(blocks):
        writer.layer("Split", [f"x{i}"], [f"x{i}a", f"x{i}b"])
        writer.conv(f"x{i}a", f"y{i}", channels, channels, 1, SLOPE)
        writer.conv(f"y{i}", f"z{i}", channels, channels, 0.1)
        writer.cropped(f"x{i}b", f"c{i}", 2)
        writer.add(f"z{i}", f"c{i}", f"x{i + 1}")
    writer.conv(f"x{blocks}", "last", channels, 3 * SCALE * SCALE, 0.01)
    writer.layer("PixelShuffle", ["last"], ["detail"], f"0={SCALE}")
    writer.cropped("in_b", "middle", 2 * blocks + 2)
    writer.layer("Interp", ["middle"], ["enlarged"], f"0=1 1={SCALE} 2={SCALE}")
    writer.add("detail", "enlarged", "out")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the model; its name is the model's")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    writer = Writer(args.seed)
    write_network(writer, args.channels, args.blocks)
    os.makedirs(args.folder, exist_ok=True)
    with open(os.path.join(args.folder, "model.param"), "w", encoding="ascii") as file:
        file.write("\n".join(["7767517", f"{len(writer.lines)} {writer.blobs}", *writer.lines]) + "\n")
    with open(os.path.join(args.folder, "model.bin"), "wb") as file:
        file.write(writer.bin)
    card = {
        "name": os.path.basename(os.path.normpath(args.folder)), "family": "espcn", "version": 1, "format": "ncnn",
        "scale": SCALE, "noise_levels": [-1], "files": {"param": "model.param", "bin": "model.bin"},
        "pad_px": 2 * args.blocks + 2, "border": "replicate", "align_px": 1, "licence": "CC0-1.0", "style": "general",
        "description": f"{args.blocks} residual blocks of {args.channels} channels, untrained.", "precisions": ["exact"],
    }
    with open(os.path.join(args.folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(card, file, indent=2)


if __name__ == "__main__":
    main()
