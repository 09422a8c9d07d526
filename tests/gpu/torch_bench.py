#!/usr/bin/env python3
"""The same networks in PyTorch: fp16, channels_last, eager layers with cuDNN's fastest algorithms in one CUDA graph.

Times by the device's events for one 1920x1080 result; images are in the device's memory already, as fp16
planes of 0..1 (cuda-bench starts from and ends at 8-bit samples). Weights are random. Also the rate of a
large matrix product. Prints a line of JSON for each; exit status 77: no PyTorch or no GPU.
"""
import argparse
import json
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    print(f"torch_bench: {error}", file=sys.stderr)
    sys.exit(77)

RESULT = (1920, 1080)
WARM_UP_S = 0.3


def leaky():
    return nn.LeakyReLU(0.1, inplace=True)


def vgg_7():
    layers, last = [nn.Upsample(scale_factor=2, mode="nearest")], 3
    for width in (32, 32, 64, 64, 128, 128):
        layers += [nn.Conv2d(last, width, 3), leaky()]
        last = width
    return nn.Sequential(*layers, nn.Conv2d(last, 3, 3)), 2, 4


def upconv_7():
    layers, last = [], 3
    for width in (16, 32, 64, 128, 128, 256):
        layers += [nn.Conv2d(last, width, 3), leaky()]
        last = width
    return nn.Sequential(*layers, nn.ConvTranspose2d(last, 3, 4, 2, 3)), 2, 7


class Srvgg(nn.Module):
    def __init__(self, scale):
        super().__init__()
        body = [nn.Conv2d(3, 64, 3, padding=1), nn.PReLU(64)]
        for _ in range(16):
            body += [nn.Conv2d(64, 64, 3, padding=1), nn.PReLU(64)]
        self.body = nn.Sequential(*body, nn.Conv2d(64, 3 * scale * scale, 3, padding=1),
                                  nn.PixelShuffle(scale))
        self.scale = scale

    def forward(self, x):
        return self.body(x) + F.interpolate(x, scale_factor=self.scale, mode="nearest")


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(64 + 32 * i, 32 if i < 4 else 64, 3, padding=1) for i in range(5))

    def forward(self, x):
        parts = [x]
        for conv in self.convs[:4]:
            parts.append(F.leaky_relu(conv(torch.cat(parts, 1)), 0.2, inplace=True))
        return self.convs[4](torch.cat(parts, 1)) * 0.2 + x


class Rrdb(nn.Module):
    def __init__(self, blocks=23):
        super().__init__()
        conv = lambda i, o: nn.Conv2d(i, o, 3, padding=1)
        self.first, self.body_end = conv(3, 64), conv(64, 64)
        self.blocks = nn.ModuleList(nn.Sequential(Dense(), Dense(), Dense()) for _ in range(blocks))
        self.up1, self.up2, self.hr, self.last = conv(64, 64), conv(64, 64), conv(64, 64), conv(64, 3)

    def forward(self, x):
        x = first = self.first(x)
        for block in self.blocks:
            x = block(x) * 0.2 + x
        x = self.body_end(x) + first
        for up in (self.up1, self.up2):
            x = F.leaky_relu(up(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2, inplace=True)
        return self.last(F.leaky_relu(self.hr(x), 0.2, inplace=True))


class Pair(nn.Module):
    """Two valid convolutions, and squeeze-and-excite behind them."""

    def __init__(self, channels, middle, out, excite):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, middle, 3), leaky(), nn.Conv2d(middle, out, 3), leaky())
        self.excite = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(out, out // 8, 1), nn.ReLU(),
                                    nn.Conv2d(out // 8, out, 1), nn.Sigmoid()) if excite else None

    def forward(self, x):
        x = self.body(x)
        return x if self.excite is None else x * self.excite(x)


def down(channels):
    return nn.Sequential(nn.Conv2d(channels, channels, 2, 2), leaky())


def up(channels):
    return nn.Sequential(nn.ConvTranspose2d(channels, channels, 2, 2), leaky())


def crop(x, n):
    return x[:, :, n:-n, n:-n]


class UNet1(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv1_down = Pair(3, 32, 64, False), down(64)
        self.conv2, self.conv2_up = Pair(64, 128, 64, True), up(64)
        self.conv3 = nn.Sequential(nn.Conv2d(64, 64, 3), leaky())
        self.bottom = nn.ConvTranspose2d(64, 3, 4, 2, 3)

    def forward(self, x):
        a = self.conv1(x)
        b = self.conv2_up(self.conv2(self.conv1_down(a)))
        return self.bottom(self.conv3(crop(a, 4) + b))


class UNet2(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv1_down = Pair(3, 32, 64, False), down(64)
        self.conv2, self.conv2_down = Pair(64, 64, 128, True), down(128)
        self.conv3, self.conv3_up = Pair(128, 256, 128, True), up(128)
        self.conv4, self.conv4_up = Pair(128, 64, 64, True), up(64)
        self.conv5 = nn.Sequential(nn.Conv2d(64, 64, 3), leaky())
        self.bottom = nn.Conv2d(64, 3, 3)

    def forward(self, x):
        a = self.conv1(x)
        b = self.conv2(self.conv1_down(a))
        c = self.conv3_up(self.conv3(self.conv2_down(b)))
        d = self.conv4_up(self.conv4(crop(b, 4) + c))
        return self.bottom(self.conv5(crop(a, 16) + d))


class Cunet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = UNet1(), UNet2()

    def forward(self, x):
        z = self.first(x)
        return crop(z, 20) + self.second(z)


# Network, scale, border that the image is given on every side.
NETWORKS = {
    "random:vgg_7": vgg_7,
    "random:upconv_7": upconv_7,
    "random:cunet": lambda: (Cunet(), 2, 18),
    "random:srvgg": lambda: (Srvgg(2), 2, 0),
    "random:srvgg_x4": lambda: (Srvgg(4), 4, 0),
    "random:rrdb": lambda: (Rrdb(), 4, 0),
}


def median_seconds(run, repetitions):
    end = time.monotonic() + WARM_UP_S
    while time.monotonic() < end:
        run()
        torch.cuda.synchronize()
    times = []
    for _ in range(repetitions):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        run()  # the timed run waits in the queue behind it
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def time_network(make, repetitions):
    net, scale, border = make()
    net = net.eval().half().cuda().to(memory_format=torch.channels_last)
    width, height = RESULT[0] // scale + 2 * border, RESULT[1] // scale + 2 * border
    image = torch.rand(1, 3, height, width, dtype=torch.half, device="cuda")
    image = image.to(memory_format=torch.channels_last)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            net(image)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = net(image)
    graph.replay()
    assert result.shape[3] >= RESULT[0] and result.shape[2] >= RESULT[1], result.shape
    return median_seconds(graph.replay, repetitions)


def gemm_flops(side=8192, repetitions=20):
    a, b = (torch.randn(side, side, dtype=torch.half, device="cuda") for _ in range(2))
    return 2 * side ** 3 / median_seconds(lambda: a @ b, repetitions)


def measure(line, key, run):
    """Prints what was measured, or the error; what follows is measured all the same. Whether it could be."""
    try:
        line[key] = run()
    except (RuntimeError, AssertionError) as error:
        line["error"] = str(error)
    print(json.dumps(line), flush=True)
    return "error" not in line


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--check", action="store_true", help="run every network once, small, on the cpu")
    arguments = parser.parse_args()
    if arguments.check:
        for name, make in NETWORKS.items():
            net, scale, border = make()
            with torch.inference_mode():
                shape = net.eval()(torch.rand(1, 3, 16 + 2 * border, 24 + 2 * border)).shape
            print(name, tuple(shape), scale)
        return 0
    if not torch.cuda.is_available():
        print("torch_bench: PyTorch sees no GPU", file=sys.stderr)
        return 77
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0  # all algorithms, not the first ten
    measure({"device": torch.cuda.get_device_name()}, "torch", lambda: torch.__version__)
    with torch.inference_mode():
        done = [measure({}, "gemm_fp16_flops", gemm_flops)]
        done += [measure({"model": name, "precision": "fp16 channels_last"}, "seconds",
                         lambda: time_network(make, arguments.repetitions)) for name, make in NETWORKS.items()]
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
