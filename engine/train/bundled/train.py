#!/usr/bin/python3
"""Trains networks for a given time by PyTorch, on a GPU where there is one: what upscale-train does, for many more steps.

usage: train.py IMAGES --minutes 8 START.param:OUT.param[:LEVEL[:RATE]] ...

IMAGES holds the squares of `make_dataset.py --images`; those smaller than most are left out. Each network learns beside the
others, on batches of its own. LEVEL is what the small side has gone through: 0 box, bicubic or Lanczos, one in 25 JPEG, too;
1 to 3 JPEG, always, of that noise level.

Every 3x3 kernel is learnt as a sum of itself and of a product of two (Bhardwaj et al., "Collapsible Linear Blocks for
Super-Efficient Super Resolution", section 3); a GPU rounds it to float16, as it is stored, before it meets an image. The rate
follows a cosine over the time there is. OUT, with the average of the weights, is written twenty times, but at most every 20 s.
"""

import argparse
import glob
import io
import math
import mmap
import multiprocessing
import os
import shutil
import sys
import time
import typing

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import ncnn_graph

REDUCTIONS = [Image.BOX, Image.BICUBIC, Image.LANCZOS]
JPEG_QUALITY = [(85, 97), (80, 97), (60, 90), (35, 75)]  # of each level
JPEG_SHARE = 0.04  # of level 0
VARIANTS = len(REDUCTIONS) + len(JPEG_QUALITY)  # of a small side
BORDER_SHARE = 0.08  # of the patches whose halo is the replicated border of an image, for each axis, on one side
EXPANSION = 4
LOG_WEIGHT, LEAST_ERROR, MEAN_WEIGHT = 0.1, 1e-6, 2.0
BETAS, EPSILON, CLIP_NORM = (0.9, 0.99), 1e-8, 0.5
FINAL_RATE, WARMUP_STEPS, AVERAGE = 2e-6, 200, 0.999
GRADIENT_SCALE = 1024  # keeps float16's gradients above its smallest numbers


def shared_array(shape):
    """uint8, the same memory in all processes that are forked."""
    return np.frombuffer(mmap.mmap(-1, int(np.prod(shape))), np.uint8).reshape(shape)


def share(*arrays):
    """Begins a process whose `load` fills these."""
    load.large, load.small = arrays


def load(numbered):
    """Writes an image's pixels and its small sides into their places."""
    number, path = numbered
    rng = np.random.default_rng(number)
    side = load.large.shape[1]
    image = Image.open(path).convert("RGB").crop((0, 0, side, side))
    reduced = [image.resize((side // 2, side // 2), kernel) for kernel in REDUCTIONS]
    load.large[number] = np.asarray(image)
    for variant, pixels in enumerate(reduced):
        load.small[variant, number] = np.asarray(pixels)
    for level, (low, high) in enumerate(JPEG_QUALITY):
        file = io.BytesIO()
        reduced[rng.integers(len(reduced))].save(file, "JPEG", quality=int(rng.integers(low, high + 1)),
                                                 subsampling=int(rng.choice([0, 2])))
        load.small[len(REDUCTIONS) + level, number] = np.asarray(Image.open(file))


class Images:
    """uint8 on the device: `large` [n, side, side, 3], `small` [VARIANTS, n, side / 2, side / 2, 3]; only the first `count` are
    trained on."""

    def __init__(self, folder, validation, device, workers):
        paths = sorted(p for end in ("png", "webp") for p in glob.glob(f"{folder}/*.{end}"))
        sides = [min(Image.open(path).size) for path in paths]
        side = int(np.median(sides or [0])) // 2 * 2
        paths = [path for path, own in zip(paths, sides) if own >= side]
        if len(paths) <= validation:
            sys.exit(f"{folder}: {len(paths)} images of {side} px, none left beside {validation} to hold out")
        paths = [paths[i] for i in np.random.default_rng(5).permutation(len(paths))]
        arrays = shared_array((len(paths), side, side, 3)), shared_array((VARIANTS, len(paths), side // 2, side // 2, 3))
        with multiprocessing.get_context("fork").Pool(workers, share, arrays) as pool:
            for _ in pool.imap_unordered(load, enumerate(paths), chunksize=16):
                pass
        self.large, self.small = (torch.from_numpy(a).to(device) for a in arrays)
        self.count, self.side = len(paths) - validation, side
        print(f"{self.count} images of {side} px, and {validation} held out; on {device.type}", flush=True)


class Patches:
    """Draws batches: small sides with their halo and large ones, [n, 3, h, w] in 0..1."""

    def __init__(self, images, level, batch, patch, pad, generator):
        self.images, self.batch, self.patch, self.pad, self.generator = images, batch, patch, pad, generator
        odds = [0.0] * VARIANTS
        odds[len(REDUCTIONS) + level] = 1.0 if level else JPEG_SHARE
        if not level:
            odds[:len(REDUCTIONS)] = [(1 - JPEG_SHARE) / len(REDUCTIONS)] * len(REDUCTIONS)
        self.odds = torch.tensor(odds, device=images.large.device)

    def whole(self, limit):
        return torch.randint(limit, (self.batch,), device=self.odds.device, generator=self.generator)

    def chance(self, share):
        return torch.rand(self.batch, device=self.odds.device, generator=self.generator) < share

    def draw(self):
        number = self.whole(self.images.count)
        variant = torch.multinomial(self.odds, self.batch, replacement=True, generator=self.generator)
        extent = self.patch + 2 * self.pad
        colours = torch.argsort(torch.rand(self.batch, 3, device=self.odds.device, generator=self.generator), 1)
        small, large = [], []  # the places that are read, of rows and of columns
        for _ in range(2):
            first, border = self.whole(self.images.side // 2 - extent + 1), self.chance(BORDER_SHARE)
            read = torch.arange(extent, device=self.odds.device) + first[:, None]
            read = torch.maximum(read, (first + border * self.pad)[:, None])
            made = torch.arange(2 * self.patch, device=self.odds.device) + 2 * (first + self.pad)[:, None]
            turned = self.chance(0.5)[:, None]
            small.append(torch.where(turned, read.flip(1), read))
            large.append(torch.where(turned, made.flip(1), made))
        x = self.images.small[variant[:, None, None, None], number[:, None, None, None], small[0][:, :, None, None],
                              small[1][:, None, :, None], colours[:, None, None, :]]
        y = self.images.large[number[:, None, None, None], large[0][:, :, None, None], large[1][:, None, :, None],
                              colours[:, None, None, :]]
        half = self.batch // 2  # these are transposed

        def planes(a):
            a = torch.cat([a[:half].permute(0, 3, 1, 2), a[half:].permute(0, 3, 2, 1)])
            return a.float() / 255

        return planes(x), planes(y)


class Network:
    """A graph whose weights are one vector, `values`."""

    def __init__(self, param):
        self.graph = ncnn_graph.Graph(param)
        self.pad = self.graph.pad_px
        if [layer.keys["0"] for layer in self.graph.layers if layer.kind == "PixelShuffle"] != ["2"]:
            sys.exit(f"{param}: not a network that makes images twice as large")
        rng, parts, self.places, at = np.random.default_rng(1), [], {}, 0
        for layer in self.graph.layers:
            own = {}
            if layer.kind == "Convolution":
                outputs, inputs = layer.weights.shape[:2]
                wide = EXPANSION * outputs
                own = {"weights": layer.weights, "bias": layer.bias, "mix": np.zeros((outputs, wide)),
                       "wide": rng.normal(0, (9 * inputs) ** -0.5, (wide, *layer.weights.shape[1:]))}
            elif layer.kind == "PReLU":
                own = {"slope": layer.slope}
            for name, value in own.items():
                self.places[layer.name, name] = slice(at, at + value.size), value.shape
                parts.append(np.asarray(value, np.float32).reshape(-1))
                at += value.size
        self.values = torch.from_numpy(np.concatenate(parts))

    def views(self, values):
        return {key: values[place].view(shape) for key, (place, shape) in self.places.items()}

    def folded(self, views):
        """(name of a layer, of its part) -> weights as they are stored."""
        result = {}
        for (layer, name), value in views.items():
            if name == "weights":
                product = torch.einsum("ow,wixy->oixy", views[layer, "mix"], views[layer, "wide"])
                result[layer, name] = value + product
            elif name in ("bias", "slope"):
                result[layer, name] = value
        return result

    def run(self, x, folded, dtype):
        """[n, 3, h + 2 pad, w + 2 pad] -> [n, 3, 2 h, 2 w], float32. Convolutions are computed in `dtype`."""
        def run_layer(layer, a, *others):
            if layer.kind == "PReLU":
                return F.prelu(a, folded[layer.name, "slope"].to(a.dtype))
            if layer.kind != "Convolution":
                return layer.run(a, *others)
            a = a.to(dtype, memory_format=torch.channels_last)
            weights = folded[layer.name, "weights"].to(dtype, memory_format=torch.channels_last)
            a = F.conv2d(a, weights, folded[layer.name, "bias"].to(dtype))
            return a if layer.leaky_slope() is None else F.leaky_relu(a, layer.leaky_slope())

        return self.graph.run(x, run_layer).float()

    @torch.no_grad()
    def write(self, values, param):
        for (name, part), value in self.folded(self.views(values)).items():
            layer = next(layer for layer in self.graph.layers if layer.name == name)
            setattr(layer, part, value.cpu().numpy())
        self.graph.write_half(param)


class Spec(typing.NamedTuple):
    start: str
    out: str
    level: int
    rate: float  # None: that of all


def parse_network(text):
    try:
        start, out, level, rate, *more = text.split(":") + [""] * (3 - text.count(":"))
        spec = Spec(start, out, int(level or 0), float(rate) if rate else None)
    except ValueError:
        more = True
    if more or not out.endswith(".param"):
        raise argparse.ArgumentTypeError(f"{text} is not START.param:OUT.param[:LEVEL[:RATE]]")
    if spec.rate is not None and not spec.rate > 0:
        raise argparse.ArgumentTypeError(f"rate {spec.rate} is not above 0")
    if not 0 <= spec.level < len(JPEG_QUALITY):
        raise argparse.ArgumentTypeError(f"level {spec.level} is not in 0..{len(JPEG_QUALITY) - 1}")
    if not os.path.isfile(start):
        raise argparse.ArgumentTypeError(f"{start} is no file")
    if os.path.abspath(os.path.dirname(start)) == os.path.abspath(os.path.dirname(out)):
        raise argparse.ArgumentTypeError(f"{out} must not lie beside {start}")
    return spec


class Learner:
    """A network, its batches, and Adam with clipped gradients and an average of the weights."""

    def __init__(self, spec, network, images, args, seed):
        self.out, self.level, self.rate = spec.out, spec.level, spec.rate or args.rate
        device = images.large.device
        folder = os.path.dirname(self.out) or "."
        os.makedirs(folder, exist_ok=True)
        shutil.copy(os.path.join(os.path.dirname(spec.start), "model.json"), folder)
        self.dtype = torch.float16 if device.type == "cuda" else torch.float32
        self.network, self.values = network, network.values.to(device)
        self.patches = Patches(images, self.level, args.batch, args.patch, network.pad, torch.Generator(device).manual_seed(seed))
        self.average, self.gradient = self.values.clone(), torch.zeros_like(self.values)
        self.first, self.second = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.loss, self.steps = torch.zeros((), device=device), 0
        self.knobs = torch.zeros(4, device=device)  # step size, 1 / sqrt(1 - beta_2^t), what the average takes in, of the loss's
        self.leaves = {}
        gradients = self.network.views(self.gradient)
        for key, view in self.network.views(self.values).items():
            leaf = view.detach().requires_grad_()
            leaf.grad = gradients[key]
            self.leaves[key] = leaf
        self.x, self.y = self.patches.draw()
        self.graph = None

    def compute(self):
        """A step with the batch and the knobs that are set."""
        self.gradient.zero_()
        error = self.network.run(self.x, self.network.folded(self.leaves), self.dtype) - self.y
        loss = LOG_WEIGHT * torch.log((error**2).mean((1, 2, 3)) + LEAST_ERROR).mean()
        loss = loss + MEAN_WEIGHT * error.mean((2, 3)).abs().mean()
        (loss * GRADIENT_SCALE).backward()
        with torch.no_grad():
            norm = self.gradient.norm() / GRADIENT_SCALE
            factor = torch.where(torch.isfinite(norm), (CLIP_NORM / norm).clamp(max=1) / GRADIENT_SCALE, torch.zeros_like(norm))
            gradient = torch.nan_to_num(self.gradient, 0, 0, 0) * factor
            self.first.lerp_(gradient, 1 - BETAS[0])
            self.second.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
            step_size, root, share, loss_share = self.knobs.unbind()
            self.values.sub_(step_size * self.first / (self.second.sqrt() * root + EPSILON))
            self.average.add_((self.values - self.average) * share)
            self.loss.add_((loss.detach() - self.loss) * loss_share)

    def set_knobs(self, part):
        t = self.steps + 1
        rate = FINAL_RATE + (self.rate - FINAL_RATE) * 0.5 * (1 + math.cos(math.pi * part))
        rate *= min(1.0, t / WARMUP_STEPS)
        share = 1 - min(AVERAGE, (1 + t) / (10 + t))
        knobs = [rate / (1 - BETAS[0]**t), (1 - BETAS[1]**t) ** -0.5, share, max(0.01, 1 / t)]
        self.knobs.copy_(torch.tensor(knobs), non_blocking=True)

    def step(self, part):
        x, y = self.patches.draw()
        self.x.copy_(x)
        self.y.copy_(y)
        self.set_knobs(part)
        self.graph.replay() if self.graph else self.compute()
        self.steps += 1

    def capture(self, stream):
        """One launch for a whole step; the first few have been run on `stream`."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.compute()
        self.graph = graph

    @torch.no_grad()
    def validate(self, images):
        """Mean PSNR (dB, RGB) of the average of the weights over the images held out, each made small one way."""
        folded = self.network.folded(self.network.views(self.average))
        pad, total = self.network.pad, 0.0
        for i in range(images.count, len(images.large), 16):
            number = torch.arange(i, min(i + 16, len(images.large)))
            variant = torch.full_like(number, len(REDUCTIONS) + self.level) if self.level else number % len(REDUCTIONS)
            x = images.small[variant, number].permute(0, 3, 1, 2).float() / 255
            y = images.large[number, 2 * pad:-2 * pad, 2 * pad:-2 * pad].permute(0, 3, 1, 2).float() / 255
            error = self.network.run(x, folded, torch.float32).clamp(0, 1) - y
            total += (-10 * torch.log10((error**2).mean((1, 2, 3)).clamp_min(1e-6))).sum().item()
        return total / (len(images.large) - images.count)

    def report(self, images, minutes):
        self.network.write(self.average, self.out)
        print(f"{minutes:6.2f} min  {self.out}  step {self.steps}  loss {self.loss.item():.4f}  {self.validate(images):.3f} dB",
              flush=True)


def train(learners, images, budget_s, eager):
    cuda = images.large.device.type == "cuda"
    streams = [torch.cuda.Stream() if cuda else None for _ in learners]
    wait = torch.cuda.synchronize if cuda else lambda: None
    wait()
    begin = time.time()
    next_report_s = 0.0
    while (part := (time.time() - begin) / budget_s) < 1:
        for learner, stream in zip(learners, streams):
            with torch.cuda.stream(stream):
                if cuda and not eager and learner.steps == 5:
                    learner.capture(stream)
                learner.step(part)
        if learners[0].steps % 4 == 0:
            wait()  # or the clock would be asked for long before the work is done
        if part * budget_s >= next_report_s:
            wait()
            for learner in learners:
                learner.report(images, part * budget_s / 60)
            next_report_s = time.time() - begin + max(20.0, budget_s / 20)
    wait()
    for learner in learners:
        learner.report(images, budget_s / 60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images")
    parser.add_argument("networks", nargs="+", type=parse_network)
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--rate", type=float, default=6e-4, help="the highest, of networks that name none")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--patch", type=int, default=64, help="small pixels a side that count, the halo left aside")
    parser.add_argument("--seed", type=int, default=0, help="of the first network's batches; the next one's is one more")
    parser.add_argument("--validation", type=int, default=256, help="so many images are held out, the same each time")
    parser.add_argument("--eager", action="store_true", help="launch each kernel for itself, where no graph can be captured")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="processes that read the images")
    args = parser.parse_args()
    for name in ("minutes", "rate", "batch", "patch", "validation", "workers"):
        if not getattr(args, name) > 0:
            parser.error(f"--{name} {getattr(args, name)} is not above 0")
    torch.backends.cudnn.benchmark = True
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if len({os.path.abspath(spec.out) for spec in args.networks}) < len(args.networks):
        parser.error("two networks have one OUT")
    networks = [Network(spec.start) for spec in args.networks]
    images = Images(args.images, args.validation, device, args.workers)
    room = images.side // 2 - 2 * max(network.pad for network in networks)
    if args.patch > room:
        parser.error(f"--patch {args.patch} is larger than the {room} px that the halo leaves of a small side")
    learners = [Learner(spec, network, images, args, args.seed + i)
                for i, (spec, network) in enumerate(zip(args.networks, networks))]
    train(learners, images, args.minutes * 60, args.eager)


if __name__ == "__main__":
    main()
