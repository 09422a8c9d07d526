#!/usr/bin/python3
"""Bundled networks as PyTorch computes them, skips among them.

usage: ncnn_graph.py DIR/MODEL.param OUT.param     stores the weights of convolutions as float16, OUT.bin beside it

.bin, per convolution: flag u32 (0 = float32, 0x01306B47 = float16), weights [out][in][h][w], zeroes up to a multiple of
4 bytes, then the bias as float32 without a flag; per PReLU: its slopes as float32. Little endian.
"""

import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

MAGIC = "7767517"
FLAG_FP16 = 0x01306B47


def bin_beside(param):
    return os.path.splitext(param)[0] + ".bin"


class Layer:
    """A line of .param; `weights` and `bias`, float64 as stored, where it is a convolution, `slope` where a PReLU."""

    def __init__(self, line):
        self.kind, self.name, inputs, outputs, *rest = line.split()
        blobs = int(inputs) + int(outputs)
        self.inputs, self.outputs = rest[: int(inputs)], rest[int(inputs) : blobs]
        self.keys = dict(field.split("=") for field in rest[blobs:])

    def read(self, data, at):
        """Takes its part of .bin; where that ends."""
        if self.kind == "PReLU":
            self.slope = np.frombuffer(data, "<f4", int(self.keys["0"]), at)
            return at + self.slope.nbytes
        if self.kind != "Convolution":
            return at
        outputs, kernel_px, count = (int(self.keys[key]) for key in ("0", "1", "6"))
        half = int(np.frombuffer(data, "<u4", 1, at)[0]) == FLAG_FP16
        self.weights = np.frombuffer(data, "<f2" if half else "<f4", count, at + 4).reshape(outputs, -1, kernel_px, kernel_px)
        at += 4 + -(-self.weights.nbytes // 4) * 4
        self.bias = np.frombuffer(data, "<f4", outputs, at)
        return at + self.bias.nbytes

    def leaky_slope(self):
        """The slope of the LeakyReLU within a convolution; None: it has none."""
        return float(self.keys["-23310"].split(",")[1]) if self.keys.get("9") == "2" else None

    def line(self):
        counts = f"{len(self.inputs)} {len(self.outputs)}"
        return " ".join([self.kind, self.name, counts, *self.inputs, *self.outputs, *map("=".join, self.keys.items())])

    def half_bytes(self):
        if self.kind == "PReLU":
            return self.slope.tobytes()
        if self.kind != "Convolution":
            return b""
        weights = self.weights.astype("<f2").tobytes()
        return np.uint32(FLAG_FP16).astype("<u4").tobytes() + weights + bytes(-len(weights) % 4) + self.bias.tobytes()

    def run(self, x, *others):
        """Tensors of [n, channels, h, w]."""
        if self.kind == "Convolution":
            assert int(self.keys.get("3", 1)) == 1 and int(self.keys.get("4", 0)) == 0, self.name
            x = F.conv2d(x, torch.from_numpy(self.weights.astype(np.float64)).to(x.dtype),
                         torch.from_numpy(self.bias.astype(np.float64)).to(x.dtype))
            return x if self.leaky_slope() is None else F.leaky_relu(x, self.leaky_slope())
        if self.kind == "PReLU":
            return F.prelu(x, torch.from_numpy(self.slope.copy()).to(x.dtype))
        if self.kind == "Crop":
            px = int(self.keys["-23309"].split(",")[1])
            return x[..., px:-px, px:-px]
        if self.kind == "BinaryOp":
            assert self.keys["0"] == "0", self.name
            return x + others[0]
        if self.kind == "PixelShuffle":
            return F.pixel_shuffle(x, int(self.keys["0"]))
        if self.kind == "Interp":
            assert self.keys["0"] == "1", self.name
            return F.interpolate(x, scale_factor=round(float(self.keys["1"])), mode="nearest")
        assert self.kind == "Split", f"no {self.kind} here"
        return x


class Graph:
    """Exactly as stored; refuses what no bundled model has. The card beside it says what it needs around the image."""

    def __init__(self, param):
        with open(param, encoding="ascii") as file:
            magic, _, *lines = file.read().splitlines()
        with open(bin_beside(param), "rb") as file:
            data = file.read()
        assert magic == MAGIC
        self.layers, at = [Layer(line) for line in lines], 0
        for layer in self.layers:
            at = layer.read(data, at)
        assert at == len(data), f"{len(data) - at} bytes left over"
        with open(os.path.join(os.path.dirname(param), "model.json"), encoding="utf-8") as file:
            self.pad_px = json.load(file)["pad_px"]

    def upscale(self, pixels, dtype=torch.float64):
        """uint8 [h, w, c] -> [c, scale * h, scale * w] of `dtype`, in 0..1, not clamped."""
        x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(dtype) / 255
        return self.run(F.pad(x, (self.pad_px,) * 4, mode="replicate"))[0]

    def run(self, x, run_layer=Layer.run):
        """The result of `x`, which has what the network needs around the image, layer by layer."""
        blobs = {}
        for layer in self.layers:
            values = [blobs[name] for name in layer.inputs] or [x]
            result = values[0] if layer.kind == "Input" else run_layer(layer, *values)
            blobs.update((name, result) for name in layer.outputs)
        return result

    def fold_activations(self):
        """Has convolutions do the PReLUs of one slope after them, as the shipped ones do."""
        for layer, then in zip(self.layers, self.layers[1:]):
            if layer.kind == "Convolution" and then.kind == "PReLU" and len(then.slope) == 1 and then.inputs == layer.outputs:
                layer.keys |= {"9": "2", "-23310": f"1,{then.slope[0]:e}"}
                layer.outputs = then.outputs
                then.kind = "folded"
        self.layers = [layer for layer in self.layers if layer.kind != "folded"]

    def write_half(self, param):
        lines = [layer.line() for layer in self.layers]
        blobs = {name for layer in self.layers for name in layer.outputs}
        with open(param, "w", encoding="ascii") as file:
            file.write("\n".join([MAGIC, f"{len(lines)} {len(blobs)}", *lines, ""]))
        with open(bin_beside(param), "wb") as file:
            file.writelines(layer.half_bytes() for layer in self.layers)


if __name__ == "__main__":
    graph = Graph(sys.argv[1])
    graph.fold_activations()
    graph.write_half(sys.argv[2])
