#!/usr/bin/env python3
"""Training steps a second, ours beside PyTorch's, in turns in one run.

train_pytorch.py UPSCALE_BENCH [--rounds 7] [--seconds 1.5] [--threads 1,2] [--model general-2x ...]: a step is the loss of
8 patches of 48 px, its derivative, that one's norm and Adam, on both sides, on pixels in memory. PyTorch runs fp32 with its
oneDNN, with channels first and last; what is faster counts. Skips (77) without python3-torch.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    print("SKIPPED: needs PyTorch (python3-torch)")
    sys.exit(77)

BATCH, PATCH_PX, SCALE = 8, 48, 2
CONVS = {"general-2x": (3, 48, 48, 48, 48, 48, 48, 48, 12), "fast-2x": (3, 32, 32, 32, 32, 12), "random:upconv_7": (3, 16, 32, 64, 128, 128, 256)}
LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}


class WithEnlarged(torch.nn.Module):
    """The bundled models: `detail` plus the middle of the image, each pixel as four."""

    def __init__(self, detail: torch.nn.Module, border: int):
        super().__init__()
        self.detail, self.border = detail, border

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        middle = image[..., self.border:-self.border, self.border:-self.border]
        return self.detail(image) + torch.nn.functional.interpolate(middle, scale_factor=SCALE, mode="nearest")


def network_of(model: str) -> torch.nn.Module:
    layers = []
    for channels, out in zip(CONVS[model], CONVS[model][1:]):
        layers += [torch.nn.Conv2d(channels, out, 3), torch.nn.LeakyReLU(0.1, inplace=True)]
    if model == "random:upconv_7":
        return torch.nn.Sequential(*layers, torch.nn.ConvTranspose2d(256, 3, 4, 2, 3))
    if model == "general-2x":
        layers[-3] = torch.nn.PReLU(48)  # behind the last convolution but one
    return WithEnlarged(torch.nn.Sequential(*layers[:-1], torch.nn.PixelShuffle(SCALE)), len(CONVS[model]) - 1)


class PyTorch:
    def __init__(self, model: str, layout: torch.memory_format):
        self.network = network_of(model).to(memory_format=layout)
        side = PATCH_PX + 2 * (len(CONVS[model]) - 1 + (model == "random:upconv_7"))
        self.input = torch.rand(BATCH, 3, side, side).contiguous(memory_format=layout)
        self.target = torch.zeros(BATCH, 3, SCALE * PATCH_PX, SCALE * PATCH_PX)
        self.adam = torch.optim.Adam(self.network.parameters(), lr=1e-9, betas=(0.9, 0.99))

    def step(self) -> None:
        self.adam.zero_grad(set_to_none=True)
        errors = self.network(self.input) - self.target
        squares = torch.log(errors.square().mean(dim=(1, 2, 3)) + 1e-6)
        (0.1 * squares.mean() + 2 * errors.mean(dim=(2, 3)).abs().mean()).backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), 0.5)
        self.adam.step()

    def seconds(self, budget: float) -> float:
        """The median time of a step."""
        self.step()  # warms up
        times, end = [], time.monotonic() + budget
        while len(times) < 3 or time.monotonic() < end:
            begin = time.monotonic()
            self.step()
            times.append(time.monotonic() - begin)
        return statistics.median(times)


def ours(bench: str, model: str, threads: int, budget: float) -> dict:
    command = [bench, "train", "--no-layers", "--json", "--model", model, "--threads", str(threads), "--time", str(budget)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)[0]


def compare(args: argparse.Namespace, model: str, threads: int) -> None:
    torch.set_num_threads(threads)
    peers = {name: PyTorch(model, layout) for name, layout in LAYOUTS.items()}
    rounds = []
    for _ in range(args.rounds):
        row = ours(args.bench, model, threads, args.seconds)
        theirs = {name: peer.seconds(args.seconds / len(peers)) for name, peer in peers.items()}
        rounds.append((row["seconds"], row["ratio"], theirs))
    best = min(LAYOUTS, key=lambda name: statistics.median(theirs[name] for _, _, theirs in rounds))
    our_s = statistics.median(seconds for seconds, _, _ in rounds)
    their_s = statistics.median(theirs[best] for _, _, theirs in rounds)
    times = [theirs[best] / seconds for seconds, _, theirs in rounds]
    peak = statistics.median(ratio for _, ratio, _ in rounds)
    print(f"| {model} | {threads} | {1 / our_s:.1f} | {peak:.2f} | {1 / their_s:.1f} ({best}) | {statistics.median(times):.2f} "
          f"({min(times):.2f} to {max(times):.2f}) |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bench", help="the binary upscale-bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="for either side, each round")
    parser.add_argument("--threads", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    parser.add_argument("--model", action="append", choices=CONVS)
    args = parser.parse_args()
    print(f"PyTorch {torch.__version__}, oneDNN {'on' if torch.backends.mkldnn.is_available() else 'off'}\n")
    print("| network | threads | ours, steps/s | of the FMA peak | PyTorch, steps/s | times as fast (of the rounds) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for model in args.model or list(CONVS):
        for threads in args.threads:
            compare(args, model, threads)
    return 0


if __name__ == "__main__":
    sys.exit(main())
