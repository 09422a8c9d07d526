#!/usr/bin/env python3
"""Writes well-known networks with random weights as files, and what PyTorch computes with them.

    public_networks.py FOLDER SEED

FOLDER gets a folder for each: network.onnx, for some networks also network.param with network.bin, and an image and
its result as image.planes and result.planes: float32 planes behind three int32 (channels, height, width). Exits with
77 where there is no PyTorch.
"""
import pathlib
import sys

import ncnn_writer

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"needs python3-torch: {error}")
    sys.exit(77)


class Srvgg(nn.Module):
    """SRVGGNetCompact: 3x3 convolutions with PReLU, a pixel shuffle, and the image added."""

    def __init__(self, scale, convs=16, width=64):
        super().__init__()
        self.scale = scale
        self.body = nn.ModuleList([nn.Conv2d(3, width, 3, padding=1), nn.PReLU(width)])
        for _ in range(convs):
            self.body += [nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width)]
        self.last = nn.Conv2d(width, 3 * scale * scale, 3, padding=1)
        for layer in self.body:
            if isinstance(layer, nn.PReLU):
                nn.init.uniform_(layer.weight, -0.2, 0.5)

    def forward(self, x):
        y = x
        for layer in self.body:
            y = layer(y)
        return F.pixel_shuffle(self.last(y), self.scale) + F.interpolate(x, scale_factor=self.scale, mode="nearest")

    def write_ncnn(self, net):
        y = net.input()
        x = y
        for conv, activation in zip(self.body[::2], self.body[1::2]):
            y = net.prelu(net.conv(y, conv, half=True), activation)
        y = net.add_layer("PixelShuffle", [net.conv(y, self.last, half=True)], f"0={self.scale}")
        x = net.add_layer("Interp", [x], f"0=1 1={self.scale}.0 2={self.scale}.0")
        net.add_layer("BinaryOp", [y, x], "0=0")


class DenseBlock(nn.Module):
    """Five convolutions that each read all before them."""

    def __init__(self, width, growth):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(width + i * growth, growth if i < 4 else width, 3, padding=1)
                                    for i in range(5)])

    def forward(self, x):
        parts = [x]
        for conv in self.convs[:4]:
            parts.append(F.leaky_relu(conv(torch.cat(parts, 1)), 0.2))
        return self.convs[4](torch.cat(parts, 1)) * 0.2 + x

    def write_ncnn(self, net, x):
        parts = [x]
        for conv in self.convs[:4]:
            joined = net.add_layer("Concat", parts, "0=0") if len(parts) > 1 else x
            parts.append(net.conv(joined, conv, slope=0.2))
        last = net.conv(net.add_layer("Concat", parts, "0=0"), self.convs[4])
        return net.add_layer("Eltwise", [last, x], "0=1 -23301=2,0.2,1.0")


class Rrdb(nn.Module):
    """RRDBNet: residuals in residuals of dense blocks, then two times nearest x2."""

    def __init__(self, blocks=23, width=64, growth=32):
        super().__init__()
        def conv(inputs, outputs):
            return nn.Conv2d(inputs, outputs, 3, padding=1)
        self.first, self.trunk = conv(3, width), conv(width, width)
        self.blocks = nn.ModuleList([nn.ModuleList([DenseBlock(width, growth) for _ in range(3)])
                                     for _ in range(blocks)])
        self.up1, self.up2, self.hr, self.last = (conv(width, width), conv(width, width), conv(width, width),
                                                  conv(width, 3))

    def forward(self, x):
        x = self.first(x)
        y = x
        for block in self.blocks:
            z = y
            for dense in block:
                z = dense(z)
            y = z * 0.2 + y
        y = self.trunk(y) + x
        y = F.leaky_relu(self.up1(F.interpolate(y, scale_factor=2, mode="nearest")), 0.2)
        y = F.leaky_relu(self.up2(F.interpolate(y, scale_factor=2, mode="nearest")), 0.2)
        return self.last(F.leaky_relu(self.hr(y), 0.2))

    def write_ncnn(self, net):
        x = net.conv(net.input(), self.first)
        y = x
        for block in self.blocks:
            z = y
            for dense in block:
                z = dense.write_ncnn(net, z)
            y = net.add_layer("BinaryOp", [net.add_layer("BinaryOp", [z], "0=2 1=1 2=0.2"), y], "0=0")
        y = net.add_layer("BinaryOp", [net.conv(y, self.trunk), x], "0=0")
        for conv in (self.up1, self.up2):
            y = net.conv(net.add_layer("Interp", [y], "0=1 1=2.0 2=2.0"), conv, slope=0.2)
        net.conv(net.conv(y, self.hr, slope=0.2), self.last)


class Operators(nn.Module):
    """Every operator of the ONNX loader that these networks do not have."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3)
        self.second = nn.Conv2d(16, 16, 5, padding=2)
        self.slope, self.grow = nn.PReLU(), nn.ConvTranspose2d(3, 3, 2, stride=2)
        self.end = nn.ConvTranspose2d(12, 3, 2, stride=2)
        self.up = nn.ConvTranspose2d(48, 12, 4, stride=2, padding=1)
        self.down = nn.Conv2d(12, 12, 2, stride=2)
        self.mean = nn.Parameter(torch.rand(3, 1, 1))

    def forward(self, x):
        y = F.pad((x - self.mean) * 2, (2, 2, 2, 2), mode="reflect")
        y = self.first(y)
        y = F.relu(y[:, :, 1:-1, 1:-1])
        a = torch.sigmoid(self.second(F.pad(y, (3, 3, 3, 3), mode="replicate")))
        b = torch.clamp(self.second(F.pad(y, (3, 3, 3, 3), value=0.25)), -0.5, 0.5)
        y = torch.cat([a, b, 1 - a * b], 1)[:, :, 3:-3, 3:-3]
        y = self.slope(self.down(self.up(y)))
        return self.end(y) - self.grow(x)


class Excite(nn.Module):
    """Squeeze and excite in two spellings."""

    def __init__(self, width=24):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.squeeze, self.excite = nn.Conv2d(width, 8, 1), nn.Conv2d(8, width, 1)
        self.fc1, self.fc2 = nn.Linear(width, 8), nn.Linear(8, width)

    def forward(self, x):
        y = F.leaky_relu(self.first(x), 0.1)
        y = y * torch.sigmoid(self.excite(F.relu(self.squeeze(F.adaptive_avg_pool2d(y, 1)))))
        s = torch.sigmoid(self.fc2(F.relu(self.fc1(y.mean((2, 3))))))
        y = self.last(y * s.reshape(1, -1, 1, 1))
        return F.interpolate(y, scale_factor=3, mode="bilinear", align_corners=False)


def write_planes(path, tensor):
    planes = tensor[0].contiguous()
    path.write_bytes(torch.tensor(planes.shape, dtype=torch.int32).numpy().tobytes() + planes.numpy().tobytes())


# Name: how to make it, the size of its image, and the operator set to export it with.
NETWORKS = {
    "srvgg-x2": (lambda: Srvgg(2), (9, 17), 12),
    "srvgg-x4": (lambda: Srvgg(4), (10, 15), 11),
    "rrdb-x4": (Rrdb, (5, 7), 13),
    "operators": (Operators, (20, 23), 10),
    "excite": (Excite, (21, 23), 17),
}


def write(folder, make, size, operator_set):
    model = make().eval()
    with torch.no_grad():
        if isinstance(model, Srvgg):  # as the ncnn file will hold them
            for conv in [m for m in model.modules() if isinstance(m, nn.Conv2d)]:
                conv.weight.copy_(conv.weight.half().float())
        x = torch.rand(1, 3, *size)
        if isinstance(model, Rrdb):  # to the size of an image's values
            model.last.weight.mul_(0.25 / model(x).std())
            model.last.bias.fill_(0.5)
        write_planes(folder / "image.planes", x)
        write_planes(folder / "result.planes", model(x))
    sides = {2: "height", 3: "width"}
    torch.onnx.export(model, x, str(folder / "network.onnx"), opset_version=operator_set,
                      input_names=["x"], output_names=["y"], dynamic_axes={"x": sides, "y": sides})
    if hasattr(model, "write_ncnn"):
        net = ncnn_writer.Ncnn()
        model.write_ncnn(net)
        net.save(folder / "network")


def write_all(networks, write_one):
    """Calls write_one(folder, ...) with each network's values, in a folder of its name."""
    torch.manual_seed(int(sys.argv[2]))
    torch.set_num_threads(1)
    for name, values in networks.items():
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir()
        write_one(folder, *values)


if __name__ == "__main__":
    write_all(NETWORKS, write)
