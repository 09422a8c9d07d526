#!/usr/bin/env python3
"""The gradients of general-2x and of a network with squeeze and excite, and 200 steps of Adam, against PyTorch's.

pytorch_test.py WRITE_TRAINING: the binary that writes ours. Skips (77) without python3-torch.
"""
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("SKIPPED: needs PyTorch (python3-torch)")
    sys.exit(77)

BATCH, BATCHES, RATE = 2, 5, 1e-4
CHANNELS = (3, 48, 48, 48, 48, 48, 48, 48, 12)
PRELU = 6  # the layer whose slopes are learnt
# Relative to the gradient's norm, the median of batches: a sum within rounding of its activation's kink has one derivative in one
# program and another in the other, even in PyTorch's floats and doubles. And of a loss.
MAX_GRADIENT_ERROR, MAX_LOSS_ERROR = 1e-4, 1e-3


def read(file: pathlib.Path, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(file.read_bytes()), dtype=dtype).clone()


def images(values: torch.Tensor) -> torch.Tensor:
    side = round((values.numel() / BATCH / 3) ** 0.5)
    return values.view(BATCH, side, side, 3).permute(0, 3, 1, 2).contiguous()


class Network:
    """Leaves from the parameters as ours lie: for each of `layers` (taps, channels, out) weights [tap][out][in], bias [out] and,
    of those in `prelus`, slopes [out]."""

    def __init__(self, values: torch.Tensor, layers: list[tuple[int, int, int]], prelus: tuple[int, ...] = ()):
        self.leaves, self.convs, self.slopes = [], [], {}

        def take(*shape: int) -> torch.Tensor:
            nonlocal values
            taken, values = values.split([math.prod(shape), values.numel() - math.prod(shape)])
            self.leaves.append(taken.view(shape).clone().requires_grad_())
            return self.leaves[-1]

        for layer, (taps, channels, out) in enumerate(layers):
            side = round(taps**0.5)
            self.convs.append((take(side, side, out, channels), take(out)))
            if layer in prelus:
                self.slopes[layer] = take(out)
        assert values.numel() == 0, "it has other layers than this test"

    def conv(self, layer: int, x: torch.Tensor) -> torch.Tensor:
        weights, bias = self.convs[layer]
        return torch.nn.functional.conv2d(x, weights.permute(2, 3, 0, 1), bias)

    def gradient(self) -> torch.Tensor:
        return torch.cat([leaf.grad.flatten() for leaf in self.leaves])


class General(Network):
    def __init__(self, values: torch.Tensor):
        super().__init__(values, [(9, channels, out) for channels, out in zip(CHANNELS, CHANNELS[1:])], (PRELU,))

    def result(self, image: torch.Tensor) -> torch.Tensor:
        x, last = image, len(CHANNELS) - 2
        for layer in range(last):
            x = self.conv(layer, x)
            x = torch.prelu(x, self.slopes[layer]) if layer == PRELU else torch.nn.functional.leaky_relu(x, 0.1)
        border = len(CHANNELS) - 1
        enlarged = torch.nn.functional.interpolate(image[..., border:-border, border:-border], scale_factor=2, mode="nearest")
        return torch.pixel_shuffle(self.conv(last, x), 2) + enlarged


class Gated(Network):
    def __init__(self, values: torch.Tensor):
        super().__init__(values, [(9, 3, 8), (1, 8, 4), (1, 4, 8), (9, 8, 12)])

    def result(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.sigmoid(self.conv(0, x))
        gate = torch.sigmoid(self.conv(2, torch.relu(self.conv(1, x.mean(dim=(2, 3), keepdim=True)))))
        return torch.pixel_shuffle(self.conv(3, x * gate), 2)


def gradient_error(folder: pathlib.Path, network: Network, x: torch.Tensor, target: torch.Tensor) -> float:
    """The error of our gradient, relative to the norm."""
    errors = network.result(x) - target
    squares = torch.log(errors.square().mean(dim=(1, 2, 3)) + 1e-6)
    (0.1 * squares.mean() + 2 * errors.mean(dim=(2, 3)).abs().mean()).backward()
    gradient = network.gradient()
    return ((read(folder / "gradient", torch.float32) - gradient).norm() / gradient.norm()).item()


def parts(folder: pathlib.Path, name: str) -> list[pathlib.Path]:
    return [folder / name / str(batch) for batch in range(BATCHES)]


def compare(folder: pathlib.Path) -> bool:
    wrong = False
    for name, kind in (("gated", Gated), ("general-2x", General)):
        errors = []
        for part in reversed(parts(folder, name)):  # the first one comes last, and goes on below
            network = kind(read(folder / name / "parameters", torch.float32))
            x, target = (images(read(part / what, torch.float32)) for what in ("input", "target"))
            errors.append(gradient_error(part, network, x, target))
        print(f"{name}'s gradient: {', '.join(f'{error:.2e}' for error in errors)} of its norm (half at most {MAX_GRADIENT_ERROR})")
        wrong |= not statistics.median(errors) <= MAX_GRADIENT_ERROR
    losses = read(folder / "losses", torch.float64)  # general-2x's
    adam = torch.optim.Adam(network.leaves, lr=RATE, betas=(0.9, 0.99), eps=1e-8)
    wrong_by = 0.0
    for expected in losses.tolist():
        adam.zero_grad()
        loss = ((network.result(x) - target).square() + 0.01**2).sqrt().mean()  # Charbonnier's
        loss.backward()
        adam.step()
        wrong_by = max(wrong_by, abs(loss.item() - expected))
    print(f"{len(losses)} losses, {losses[0]:.4f} to {losses[-1]:.4f}: {wrong_by:.2e} (at most {MAX_LOSS_ERROR})")
    return not wrong and wrong_by <= MAX_LOSS_ERROR and bool(losses[-1] < losses[0])


def main() -> int:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name in ("gated", "general-2x"):
            for part in parts(folder, name):
                part.mkdir(parents=True)
        subprocess.run([sys.argv[1], temporary], check=True)
        return 0 if compare(folder) else 1


if __name__ == "__main__":
    sys.exit(main())
