#!/usr/bin/python3
"""Writes a checkpoint of train.py as ncnn .param and .bin, reads them back and checks them against the trained net.

usage: export_ncnn.py CHECKPOINT.pt OUT.param [--fp32]       OUT.bin beside it

.bin, per convolution: flag u32 (0 = float32, 0x01306B47 = float16), weights [out][in][3][3], zeroes up to a multiple of
4 bytes, then the bias as float32 without a flag. Little endian.
"""

import argparse
import os

import numpy as np
import torch

import net as nets

MAGIC = "7767517"
FLAG_FP16 = 0x01306B47


def param_text(layers):
    """One line per layer: type, name, input count, output count, blobs, key=value pairs (see ncnn's operator list)."""
    lines = ["Input            in0      0 1 in0"]
    blob = "in0"
    for i, (kernel, _) in enumerate(layers):
        name = f"conv{i + 1}"
        activation = f" 9=2 -23310=1,{nets.SLOPE:e}" if i + 1 < len(layers) else ""
        lines.append(f"Convolution      {name}    1 1 {blob} {name} "
                     f"0={kernel.shape[0]} 1=3 5=1 6={kernel.numel()}{activation}")
        blob = name
    lines.append(f"PixelShuffle     shuffle  1 1 {blob} out0 0={nets.SCALE}")
    return "\n".join([MAGIC, f"{len(lines)} {len(lines)}"] + lines) + "\n"


def bin_bytes(layers, fp16):
    out = b""
    for kernel, bias in layers:
        weights = kernel.numpy().astype("<f2" if fp16 else "<f4").tobytes()
        out += np.uint32(FLAG_FP16 if fp16 else 0).astype("<u4").tobytes() + weights + b"\0" * (-len(weights) % 4)
        out += bias.numpy().astype("<f4").tobytes()
    return out


def bin_beside(param):
    return os.path.splitext(param)[0] + ".bin"


def read_ncnn(param):
    """[(kernel, bias)] float64 of the model, exactly as stored. Refuses what export never writes."""
    with open(param, encoding="ascii") as file:
        lines = file.read().split("\n")
    assert lines[0] == MAGIC
    with open(bin_beside(param), "rb") as file:
        data = file.read()
    layers, at, channels, blob = [], 0, 3, "in0"
    for line in lines[2:]:
        fields = line.split()
        if not fields or fields[0] == "Input":
            continue
        assert fields[2:5] == ["1", "1", blob], line
        blob = fields[5]
        keys = dict(field.split("=") for field in fields[6:])
        if fields[0] == "PixelShuffle":
            assert keys == {"0": str(nets.SCALE)}, line
            continue
        assert fields[0] == "Convolution" and keys["1"] == "3" and keys["5"] == "1", line
        out, count = int(keys["0"]), int(keys["6"])
        assert count == out * channels * 9, line
        kind = {0: "<f4", FLAG_FP16: "<f2"}[int(np.frombuffer(data, "<u4", 1, at)[0])]
        kernel = np.frombuffer(data, kind, count, at + 4).reshape(out, channels, 3, 3)
        at += 4 + -(-kernel.nbytes // 4) * 4
        bias = np.frombuffer(data, "<f4", out, at)
        at += bias.nbytes
        layers.append((torch.from_numpy(kernel.astype(np.float64)), torch.from_numpy(bias.astype(np.float64))))
        channels = out
    assert at == len(data), f"{len(data) - at} bytes left over"
    return layers


def load_checkpoint(path):
    checkpoint = torch.load(path)
    net = nets.Net(nets.MODELS[checkpoint["model"]].shape)
    net.load_state_dict(checkpoint["ema"])
    return net


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("checkpoint")
    parser.add_argument("out")
    parser.add_argument("--fp32", action="store_true", help="store float32 weights instead of float16")
    args = parser.parse_args()
    model = load_checkpoint(args.checkpoint)
    layers = model.folded()
    os.makedirs(os.path.dirname(args.out) or ".", exist_ok=True)
    with open(args.out, "w", encoding="ascii") as file:
        file.write(param_text(layers))
    with open(bin_beside(args.out), "wb") as file:
        file.write(bin_bytes(layers, not args.fp32))

    # Three nets on noise and on a ramp: as trained, branch by branch; folded; as read back.
    stored = read_ncnn(args.out)
    x = torch.cat([torch.rand(2, 3, 40, 48), torch.linspace(0, 1, 48).expand(1, 3, 40, 48)]).double()
    trained = model.double().forward_branches(x).detach()
    fold_error = (nets.run_plain(layers, x) - trained).abs().max().item()
    store_error = (nets.run_plain(stored, x) - trained).abs().max().item()
    print(f"folding changes the output by at most {fold_error:.2e}, storing by {store_error:.2e}")
    assert fold_error < 1e-9, "the folded net is not the trained net"
    assert store_error < (1e-5 if args.fp32 else 0.02), "the stored net is not the trained net"


if __name__ == "__main__":
    main()
