"""The networks that bundled ones began as: plain valid 3x3 convolutions, LeakyReLU between, pixel shuffle at the end; and the table of models.

While training, every convolution is the sum of a 3x3, a 1x1, a wide 3x3 -> 1x1 pair and (between layers of equal width) the
identity. The sum is folded into one 3x3 kernel before it meets the image (Bhardwaj et al., "Collapsible Linear Blocks for
Super-Efficient Super Resolution", section 3), so the extra branches cost next to nothing and vanish from what is shipped.

It starts as a bilinear interpolator: channels 0..2 carry the RGB planes through unchanged (a LeakyReLU does not touch
values above zero) and the last layer interpolates them; training adds the rest. Or it starts as a folded network of as many
layers and no more channels (Chen et al., "Net2Net", section 2.3, with random new channels that nothing reads yet).
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

SCALE = 2
SLOPE = 0.1


@dataclass(frozen=True)
class Shape:
    width: int
    body_layers: int  # layers of `width` to `width` channels, between the first and the last

    @property
    def channels(self):
        return [3] + [self.width] * (self.body_layers + 1) + [3 * SCALE * SCALE]

    @property
    def pad_px(self):
        return self.body_layers + 2  # each valid 3x3 layer takes one pixel from every side

    @property
    def multiply_adds_per_output_px(self):
        return sum(9 * i * o for i, o in zip(self.channels, self.channels[1:])) / SCALE**2


@dataclass(frozen=True)
class Model:
    shape: Shape
    jpeg_quality: tuple = None  # lowest and highest quality that every small side is compressed at


GENERAL = Shape(width=48, body_layers=5)
MODELS = {
    "general-2x": Model(GENERAL),
    "general-2x-noise1": Model(GENERAL, jpeg_quality=(80, 97)),
    "general-2x-noise2": Model(GENERAL, jpeg_quality=(60, 90)),
    "general-2x-noise3": Model(GENERAL, jpeg_quality=(35, 75)),
    "fast-2x": Model(Shape(width=32, body_layers=3)),
}


class CollapsibleConv(nn.Module):
    def __init__(self, channels_in, channels_out, expansion=4, gain=1.0):
        super().__init__()
        wide = expansion * channels_out
        std = gain * (2.0 / (9 * channels_in)) ** 0.5
        self.base = nn.Parameter(torch.zeros(channels_out, channels_in, 3, 3))  # where it starts; not trained
        self.k3 = nn.Parameter(torch.randn(channels_out, channels_in, 3, 3) * std * 0.5)
        self.k1 = nn.Parameter(torch.randn(channels_out, channels_in) * std * 0.5)
        self.wide3 = nn.Parameter(torch.randn(wide, channels_in, 3, 3) * (1.0 / (9 * channels_in)) ** 0.5)
        self.wide1 = nn.Parameter(torch.randn(channels_out, wide) * gain * 0.5 * (1.0 / wide) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(channels_out))
        self.base.requires_grad_(False)

    def kernel(self):
        wide = torch.einsum("ow,wixy->oixy", self.wide1, self.wide3)
        return self.base + self.k3 + wide + F.pad(self.k1[:, :, None, None], (1, 1, 1, 1))

    def forward(self, x):
        return F.conv2d(x, self.kernel(), self.bias)

    def branches(self, x):
        """The same as forward, branch by branch on the image: what folding is checked against."""
        k1, wide1 = self.k1[:, :, None, None], self.wide1[:, :, None, None]
        inner = x[..., 1:-1, 1:-1]
        wide = F.conv2d(F.conv2d(x, self.wide3), wide1)
        return F.conv2d(x, self.base) + F.conv2d(x, self.k3) + F.conv2d(inner, k1) + wide + self.bias[:, None, None]


class Net(nn.Module):
    """RGB 0..1 [n, 3, h + 2 * pad_px, w + 2 * pad_px] -> RGB [n, 3, 2 h, 2 w], not clamped."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        widths = shape.channels
        gains = [1.0] + [0.4] * shape.body_layers + [0.02]
        self.convs = nn.ModuleList(CollapsibleConv(i, o, gain=g) for i, o, g in zip(widths, widths[1:], gains))
        self._start_as_interpolator()

    @torch.no_grad()
    def start_as(self, layers):
        """Computes what `layers`, as `folded` gives them, compute."""
        if len(layers) != len(self.convs):
            raise ValueError(f"{len(layers)} layers to start from, not {len(self.convs)}")
        for conv, (kernel, bias) in zip(self.convs, layers):
            outputs, inputs = kernel.shape[:2]
            if outputs > conv.base.shape[0] or inputs > conv.base.shape[1]:
                raise ValueError(f"a layer of {inputs}-{outputs} to start from, but only room for {conv.base.shape[1]}-{conv.base.shape[0]}")
            conv.base.zero_()
            conv.base[:outputs, :inputs] = kernel
            conv.bias[:outputs] = bias
            self._clear_branches(conv, outputs)

    @staticmethod
    def _clear_branches(conv, outputs):
        """The first `outputs` planes of `conv` are what `base` alone makes of them, until trained."""
        for p in (conv.k3, conv.k1, conv.wide1):
            p[:outputs] = 0

    @torch.no_grad()
    def _start_as_interpolator(self):
        first, *body, last = self.convs
        for conv in [first] + body:
            self._clear_branches(conv, 3)  # a clear path for the image
        for c in range(3):
            first.base[c, c, 1, 1] = 1
        for conv in body:
            for c in range(self.shape.width):
                conv.base[c, c, 1, 1] = 1
        # Half a pixel between the grids: bilinear weights 3/4 and 1/4 on each axis.
        rows = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.75, 0.25]])
        for c in range(3):
            for dy in range(2):
                for dx in range(2):
                    last.base[c * 4 + dy * 2 + dx, c] = torch.outer(rows[dy], rows[dx])

    def forward(self, x):
        *head, last = self.convs
        for conv in head:
            x = F.leaky_relu(conv(x), SLOPE, inplace=True)
        return F.pixel_shuffle(last(x), SCALE)

    def forward_branches(self, x):
        *head, last = self.convs
        for conv in head:
            x = F.leaky_relu(conv.branches(x), SLOPE)
        return F.pixel_shuffle(last.branches(x), SCALE)

    def folded(self):
        """[(kernel, bias)] of the plain convolutions, float64."""
        double = Net(self.shape).double()
        double.load_state_dict({k: v.double() for k, v in self.state_dict().items()})
        return [(conv.kernel().detach(), conv.bias.detach()) for conv in double.convs]


def run_plain(layers, x):
    """The shipped network: `layers` as `folded` gives them, on a padded [n, 3, h, w] tensor of their type."""
    for kernel, bias in layers[:-1]:
        x = F.leaky_relu(F.conv2d(x, kernel, bias), SLOPE)
    kernel, bias = layers[-1]
    return F.pixel_shuffle(F.conv2d(x, kernel, bias), SCALE)


def upscale(layers, pixels):
    """uint8 [h, w, 3] -> float [3, 2 h, 2 w] in 0..1, not clamped, in the type of the weights."""
    x = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].to(layers[0][0].dtype) / 255
    return run_plain(layers, F.pad(x, (len(layers),) * 4, mode="replicate"))[0]
