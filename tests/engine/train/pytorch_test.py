#!/usr/bin/env python3
"""general-2x's gradient and 200 steps of Adam, against PyTorch's of the same mini-batch.

pytorch_test.py WRITE_TRAINING: the binary that writes ours. Skips (77) without python3-torch.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    print("SKIPPED: needs PyTorch (python3-torch)")
    sys.exit(77)

BATCH, RATE = 2, 1e-4
CHANNELS = (3, 48, 48, 48, 48, 48, 48, 12)
MAX_GRADIENT_ERROR, MAX_LOSS_ERROR = 1e-4, 1e-3  # relative to the gradient's norm, and of a loss


def read(file: pathlib.Path, dtype: torch.dtype) -> torch.Tensor:
    return torch.frombuffer(bytearray(file.read_bytes()), dtype=dtype).clone()


def images(values: torch.Tensor) -> torch.Tensor:
    side = round((values.numel() / BATCH / 3) ** 0.5)
    return values.view(BATCH, side, side, 3).permute(0, 3, 1, 2).contiguous()


class Network:
    """The parameters as ours lie: for each layer weights [tap][out][in] and bias [out]."""

    def __init__(self, values: torch.Tensor):
        self.leaves = []
        for channels, out in zip(CHANNELS, CHANNELS[1:]):
            weights, bias, values = values.split([9 * channels * out, out, values.numel() - (9 * channels + 1) * out])
            self.leaves += [weights.view(3, 3, out, channels).clone().requires_grad_(), bias.clone().requires_grad_()]
        assert values.numel() == 0, "general-2x has other layers than this test"

    def errors(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        for i in range(0, len(self.leaves), 2):
            x = torch.nn.functional.conv2d(x, self.leaves[i].permute(2, 3, 0, 1), self.leaves[i + 1])
            if i + 2 < len(self.leaves):
                x = torch.nn.functional.leaky_relu(x, 0.1)
        return torch.pixel_shuffle(x, 2) - target

    def gradient(self) -> torch.Tensor:
        return torch.cat([leaf.grad.flatten() for leaf in self.leaves])


def main() -> int:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        subprocess.run([sys.argv[1], name], check=True)
        folder = pathlib.Path(name)
        network = Network(read(folder / "parameters", torch.float32))
        x, target = (images(read(folder / what, torch.float32)) for what in ("input", "target"))
        ours = read(folder / "gradient", torch.float32)
        losses = read(folder / "losses", torch.float64)
    errors = network.errors(x, target)
    squares = torch.log(errors.square().mean(dim=(1, 2, 3)) + 1e-6)
    (0.1 * squares.mean() + 2 * errors.mean(dim=(2, 3)).abs().mean()).backward()
    gradient = network.gradient()
    error = ((ours - gradient).norm() / gradient.norm()).item()
    adam = torch.optim.Adam(network.leaves, lr=RATE, betas=(0.9, 0.99), eps=1e-8)
    wrong_by = 0.0
    for expected in losses.tolist():
        adam.zero_grad()
        loss = (network.errors(x, target).square() + 0.01**2).sqrt().mean()  # Charbonnier's
        loss.backward()
        adam.step()
        wrong_by = max(wrong_by, abs(loss.item() - expected))
    print(f"gradient: {error:.2e} of its norm (at most {MAX_GRADIENT_ERROR}); "
          f"{len(losses)} losses, {losses[0]:.4f} to {losses[-1]:.4f}: {wrong_by:.2e} (at most {MAX_LOSS_ERROR})")
    return 0 if error <= MAX_GRADIENT_ERROR and wrong_by <= MAX_LOSS_ERROR and losses[-1] < losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
