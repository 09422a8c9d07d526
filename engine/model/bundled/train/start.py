#!/usr/bin/python3
"""Writes the model that a training begins with: `upscale-train --models DIR --start NAME` goes on from there.

usage: start.py DIR/NAME [--channels 64] [--blocks 7] [--seed 1]
       start.py DIR/NAME --grow MODEL.param [--blocks 4] [--seed 1]

From nothing: a residual network whose result is the nearest enlargement and a little noise. A 3x3 convolution from RGB,
blocks of two (LeakyReLU between, the block's input added), one to 12 channels, a pixel shuffle, plus the enlarged input.

With --grow: a bundled network of plain convolutions with such a block behind each of its last layers but the very last.
What a block adds is nothing until it has learnt, so the network begins as what it grew from.

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
FLAG_FP16 = 0x01306B47


class Writer:
    """Lines of .param and bytes of .bin, as engine/model/ncnn_exporter.cc writes them."""

    def __init__(self, seed):
        self.lines, self.blobs, self.bin, self.random = [], 0, b"", random.Random(seed)
        self.convolutions = 0

    def layer(self, kind, inputs, outputs, params=""):
        self.lines.append(" ".join([kind, f"l{len(self.lines)}", str(len(inputs)), str(len(outputs)), *inputs, *outputs,
                                    params]).strip())
        self.blobs += len(outputs)

    def conv(self, blob, out, weights, bias, slope=None):
        activation = f" 9=2 -23310=1,{slope}" if slope else ""
        self.layer("Convolution", [blob], [out], f"0={len(bias)} 1=3 5=1 6={len(weights)}{activation}")
        self.bin += struct.pack("<I", 0) + array.array("f", weights).tobytes() + array.array("f", bias).tobytes()
        self.convolutions += 1

    def new_conv(self, blob, out, inputs, outputs, gain, slope=None):
        """Weights of He's deviation for the slope after it, times `gain`; no bias."""
        deviation = gain * math.sqrt(2 / (1 + (slope or 1) ** 2) / (inputs * 9))
        self.conv(blob, out, [self.random.gauss(0, deviation) for _ in range(inputs * outputs * 9)], [0] * outputs, slope)

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


def write_new(writer, channels, blocks):
    writer.layer("Input", [], ["in"])
    writer.layer("Split", ["in"], ["in_a", "in_b"])
    writer.new_conv("in_a", "x0", 3, channels, 1)
    for i in range(blocks):
        writer.block(f"x{i}", f"x{i + 1}", channels, 0.1)
    writer.new_conv(f"x{blocks}", "last", channels, 3 * SCALE * SCALE, 0.01)
    writer.layer("PixelShuffle", ["last"], ["detail"], f"0={SCALE}")
    writer.cropped("in_b", "middle", writer.convolutions)
    writer.layer("Interp", ["middle"], ["enlarged"], f"0=1 1={SCALE} 2={SCALE}")
    writer.add("detail", "enlarged", "out")


def read_plain(param):
    """[(weights, bias)] of a network of 3x3 convolutions and a pixel shuffle."""
    with open(param, encoding="ascii") as file:
        layers = [line.split() for line in file.read().splitlines()[2:]]
    with open(os.path.splitext(param)[0] + ".bin", "rb") as file:
        data = file.read()
    convolutions, at = [], 0
    for kind, *fields in layers:
        if kind in ("Input", "PixelShuffle"):
            continue
        keys = dict(field.split("=") for field in fields[5:])
        assert kind == "Convolution" and keys["1"] == "3" and keys["5"] == "1", kind
        outputs, count = int(keys["0"]), int(keys["6"])
        half = struct.unpack_from("<I", data, at) == (FLAG_FP16,)
        weights = struct.unpack_from(f"<{count}{'e' if half else 'f'}", data, at + 4)
        at += 4 + -(-count * (2 if half else 4) // 4) * 4
        convolutions.append((weights, struct.unpack_from(f"<{outputs}f", data, at)))
        at += 4 * outputs
    assert at == len(data), f"{len(data) - at} bytes left over"
    return convolutions


def write_grown(writer, layers, blocks):
    writer.layer("Input", [], ["x0"])
    blob, last = "x0", len(layers) - 1
    for i, (weights, bias) in enumerate(layers):
        writer.conv(blob, f"c{i}", weights, bias, SLOPE if i < last else None)
        blob = f"c{i}"
        if last - blocks <= i < last:
            writer.block(blob, f"x{i}", len(bias), 0)
            blob = f"x{i}"
    writer.layer("PixelShuffle", [blob], ["out"], f"0={SCALE}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="of the model; its name is the model's")
    parser.add_argument("--grow", metavar="MODEL.param", help="the network to begin as")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    writer = Writer(args.seed)
    if args.grow:
        blocks = args.blocks if args.blocks is not None else 4
        write_grown(writer, read_plain(args.grow), blocks)
        description = f"{os.path.basename(os.path.dirname(os.path.abspath(args.grow)))} with {blocks} residual blocks that add nothing yet."
    else:
        blocks = args.blocks if args.blocks is not None else 7
        write_new(writer, args.channels, blocks)
        description = f"{blocks} residual blocks of {args.channels} channels, untrained."
    os.makedirs(args.folder, exist_ok=True)
    with open(os.path.join(args.folder, "model.param"), "w", encoding="ascii") as file:
        file.write("\n".join(["7767517", f"{len(writer.lines)} {writer.blobs}", *writer.lines]) + "\n")
    with open(os.path.join(args.folder, "model.bin"), "wb") as file:
        file.write(writer.bin)
    card = {
        "name": os.path.basename(os.path.normpath(args.folder)), "family": "espcn", "version": 1, "format": "ncnn",
        "scale": SCALE, "noise_levels": [-1], "files": {"param": "model.param", "bin": "model.bin"},
        "pad_px": writer.convolutions, "border": "replicate", "align_px": 1, "licence": "CC0-1.0", "style": "general",
        "description": description, "precisions": ["exact"],
    }
    with open(os.path.join(args.folder, "model.json"), "w", encoding="utf-8") as file:
        json.dump(card, file, indent=2)


if __name__ == "__main__":
    main()
