"""Writes ncnn's .param and .bin, as its own converter would."""
import struct

FLOAT16_TAG, FLOAT32_TAG = 0x01306B47, 0


class Ncnn:
    def __init__(self):
        self.layers = []  # (type, inputs, parameters), giving the blob of their index
        self.weights = b""

    def add_layer(self, kind, inputs, parameters):
        self.layers.append((kind, list(inputs), parameters))
        return len(self.layers) - 1

    def input(self):
        return self.add_layer("Input", [], "")

    def conv(self, x, conv, slope=None, half=False):
        weight, bias = conv.weight.detach(), conv.bias.detach()
        values = weight.half() if half else weight
        raw = values.numpy().tobytes()
        self.weights += struct.pack("<I", FLOAT16_TAG if half else FLOAT32_TAG) + raw + b"\0" * (-len(raw) % 4)
        self.weights += bias.numpy().tobytes()
        parameters = (f"0={weight.shape[0]} 1={weight.shape[2]} 3={conv.stride[0]} 4={conv.padding[0]} 5=1 "
                      f"6={weight.numel()}")
        return self.add_layer("Convolution", [x], parameters + (f" 9=2 -23310=1,{slope}" if slope else ""))

    def prelu(self, x, activation):
        self.weights += activation.weight.detach().numpy().tobytes()
        return self.add_layer("PReLU", [x], f"0={activation.weight.numel()}")

    def save(self, stem):
        """A blob is read once: what several layers read goes through a Split."""
        readers = [[] for _ in self.layers]
        for number, (_, inputs, _) in enumerate(self.layers):
            for blob in inputs:
                readers[blob].append(number)
        copies, lines, blobs = {}, [], 0
        for number, (kind, inputs, parameters) in enumerate(self.layers):
            names = [copies[(blob, number)] for blob in inputs]
            lines.append(f"{kind} layer{number} {len(names)} 1 {' '.join(names)} blob{number} {parameters}")
            split = [f"blob{number}_{i}" for i in range(len(readers[number]))]
            if len(split) > 1:
                lines.append(f"Split split{number} 1 {len(split)} blob{number} {' '.join(split)}")
            else:
                split = [f"blob{number}"]
            copies |= {(number, reader): name for reader, name in zip(readers[number], split)}
            blobs += 1 + len(split) * (len(split) > 1)
        stem.with_suffix(".param").write_text(f"7767517\n{len(lines)} {blobs}\n" + "\n".join(lines) + "\n")
        stem.with_suffix(".bin").write_bytes(self.weights)
