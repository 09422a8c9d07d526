#!/usr/bin/env python3
"""Writes networks' weights as people publish them, and what PyTorch computes with them.

    published_weights.py FOLDER SEED

FOLDER gets a folder for each network: network.pth, for some also what EVERY_KIND writes, and an image and its result
as image.planes and result.planes (see public_networks.py). Exits with 77 where there is no PyTorch.

Models reuse memory (inplace=True) where the published code does: what reads a value later gets what became of it.
"""
import json
import re

import public_networks  # exits where there is no PyTorch
import torch
from torch import nn
from torch.nn import functional as F


class Srvgg(public_networks.Srvgg):
    """Names: body.0, body.1 and so on, the last convolution among them."""

    def __init__(self, scale, convs=16, width=64, planes=3):
        super().__init__(scale, convs, width)
        if planes != 3:
            self.body[0] = nn.Conv2d(planes, width, 3, padding=1)
            self.last = nn.Conv2d(width, planes * scale**2, 3, padding=1)

    def published(self):
        last = f"body.{len(self.body)}."
        return {re.sub("^last[.]", last, name): value for name, value in self.state_dict().items()}


RRDB_NAMES = {
    "real-esrgan": {"first": "conv_first", "blocks": "body.{}.rdb{}.conv{}", "trunk": "conv_body", "up": "conv_up{}",
                    "hr": "conv_hr", "last": "conv_last"},
    "bsrgan": {"first": "conv_first", "blocks": "RRDB_trunk.{}.RDB{}.conv{}", "trunk": "trunk_conv", "up": "upconv{}",
               "hr": "HRconv", "last": "conv_last"},
    "esrgan": {"first": "model.0", "blocks": "model.1.sub.{}.RDB{}.conv{}.0"},
}


class Rrdb(public_networks.Rrdb):
    """With any number of doublings, over blocks of pixels, in each of the three spellings."""

    def __init__(self, spelling, blocks, width=64, growth=32, ups=2, unshuffle=1, plus=False, planes=3):
        super().__init__(blocks, width, growth)
        self.first = nn.Conv2d(planes * unshuffle ** 2, width, 3, padding=1)
        if planes != 3:
            self.last = nn.Conv2d(width, planes, 3, padding=1)
        self.ups = nn.ModuleList([nn.Conv2d(width, width, 3, padding=1) for _ in range(ups)])
        del self.up1, self.up2
        self.spelling, self.unshuffle, self.plus = spelling, unshuffle, plus
        if plus:
            self.skips = nn.ModuleList([nn.ModuleList([nn.Conv2d(width, growth, 1, bias=False) for _ in range(3)])
                                        for _ in range(blocks)])

    def dense(self, x, block, index):
        dense = self.blocks[block][index]
        if not self.plus:
            return dense(x)
        parts = [x]
        for i, conv in enumerate(dense.convs[:4]):
            y = F.leaky_relu(conv(torch.cat(parts, 1)), 0.2)
            if i == 1:
                y = y + self.skips[block][index](x)
            if i == 3:
                y = y + parts[2]
            parts.append(y)
        return dense.convs[4](torch.cat(parts, 1)) * 0.2 + x

    def forward(self, x):
        height, width = x.shape[2:]
        factor = self.unshuffle
        x = F.pad(x, (0, -width % factor, 0, -height % factor), mode="replicate")
        first = self.first(F.pixel_unshuffle(x, factor))
        y = first
        for block in range(len(self.blocks)):
            z = y
            for index in range(3):
                z = self.dense(z, block, index)
            y = z * 0.2 + y
        y = self.trunk(y) + first
        for up in self.ups:
            y = F.leaky_relu(up(F.interpolate(y, scale_factor=2, mode="nearest")), 0.2)
        y = self.last(F.leaky_relu(self.hr(y), 0.2))
        scale = 2 ** len(self.ups) // factor
        return y[:, :, :height * scale, :width * scale]

    def published(self):
        names = dict(RRDB_NAMES[self.spelling])
        ups = len(self.ups)
        if self.spelling == "esrgan":
            names.update(trunk=f"model.1.sub.{len(self.blocks)}", hr=f"model.{3 * ups + 2}", last=f"model.{3 * ups + 4}")
        tensors = {}
        for name, value in self.state_dict().items():
            parts = name.split(".")
            if parts[0] == "blocks":
                module = names["blocks"].format(parts[1], int(parts[2]) + 1, int(parts[4]) + 1)
            elif parts[0] == "skips":
                module = f"model.1.sub.{parts[1]}.RDB{int(parts[2]) + 1}.conv1x1"
            elif parts[0] == "ups":
                number = int(parts[1]) + 1
                module = f"model.{3 * number}" if self.spelling == "esrgan" else names["up"].format(number)
            else:
                module = names[parts[0]]
            tensors[f"{module}.{parts[-1]}"] = value
        return tensors


class Conv3XC(nn.Module):
    """SPAN's convolution as it is trained."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.sk = nn.Conv2d(inputs, outputs, 1)
        self.conv = nn.Sequential(nn.Conv2d(inputs, inputs * 2, 1), nn.Conv2d(inputs * 2, outputs * 2, 3),
                                  nn.Conv2d(outputs * 2, outputs, 1))
        self.eval_conv = nn.Conv2d(inputs, outputs, 3, padding=1)  # stale: nobody may read it

    def forward(self, x):
        return self.conv(F.pad(x, (1, 1, 1, 1))) + self.sk(x)


class Spab(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c1_r, self.c2_r, self.c3_r = (Conv3XC(width, width) for _ in range(3))
        self.act1 = nn.SiLU(inplace=True)

    def forward(self, x):
        out1 = self.c1_r(x)
        out1_act = self.act1(out1)
        out2 = self.c2_r(out1_act)
        out2_act = self.act1(out2)
        out3 = self.c3_r(out2_act)
        sim_att = torch.sigmoid(out3) - 0.5
        return (out3 + x) * sim_att, out1


class Span(nn.Module):
    def __init__(self, scale, width=48, norm=True):
        super().__init__()
        self.scale = scale
        if not norm:
            self.register_buffer("no_norm", torch.zeros(1))
        self.conv_1, self.conv_2 = Conv3XC(3, width), Conv3XC(width, width)
        for i in range(6):
            setattr(self, f"block_{i + 1}", Spab(width))
        self.conv_cat = nn.Conv2d(4 * width, width, 1)
        self.upsampler = nn.Sequential(nn.Conv2d(width, 3 * scale ** 2, 3, padding=1), nn.PixelShuffle(scale))

    def forward(self, x):
        if not hasattr(self, "no_norm"):
            x = (x - torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1)) * 255
        features = self.conv_1(x)
        y = features
        for i in range(6):
            y, middle = getattr(self, f"block_{i + 1}")(y)
            if i == 0:
                first = y
        return self.upsampler(self.conv_cat(torch.cat([features, self.conv_2(y), first, middle], 1)))


def catmull_rom(x, factor):
    """Along both axes, as products with matrices; edges repeated."""
    def matrix(size):
        m = torch.zeros(size * factor, size)
        for out in range(size * factor):
            position = (out + 0.5) / factor - 0.5
            for tap in range(int(position // 1) - 1, int(position // 1) + 3):
                t = abs(position - tap)
                weight = 1.5 * t**3 - 2.5 * t**2 + 1 if t < 1 else -0.5 * t**3 + 2.5 * t**2 - 4 * t + 2
                m[out, min(max(tap, 0), size - 1)] += weight
        return m
    return matrix(x.shape[2]) @ x @ matrix(x.shape[3]).T


class Luma(nn.Module):
    """A network of one plane as a network of three: luma by BT.709, colour by Catmull-Rom."""

    def __init__(self, inner, scale):
        super().__init__()
        self.inner, self.scale = inner, scale

    def published(self):
        return self.inner.published() if hasattr(self.inner, "published") else self.inner.state_dict()

    def forward(self, x):
        red, green, blue = x[:, :1], x[:, 1:2], x[:, 2:]
        luma = 0.2126 * red + 0.7152 * green + 0.0722 * blue
        # As YCbCr, whose chroma is resized.
        cb, cr = (catmull_rom((c - luma) / d, self.scale) for c, d in ((blue, 1.8556), (red, 1.5748)))
        y = self.inner(luma)
        r, b = y + 1.5748 * cr, y + 1.8556 * cb
        return torch.cat([r, (y - 0.2126 * r - 0.0722 * b) / 0.7152, b], 1)


class Rgba(nn.Module):
    """A network of four planes as a network of three: it sees an opaque image."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def published(self):
        return self.inner.published()

    def forward(self, x):
        return self.inner(torch.cat([x, torch.ones_like(x[:, :1])], 1))[:, :3]


class ArtCnn(nn.Module):
    def __init__(self, scale, blocks, width, planes=3):
        super().__init__()
        def conv(inputs=width, outputs=width):
            return nn.Conv2d(inputs, outputs, 3, padding=1)
        def block():
            module = nn.Module()
            module.conv = nn.Sequential(nn.Sequential(conv(), nn.ReLU()), nn.Sequential(conv(), nn.ReLU()), conv())
            module.forward = lambda x: x + module.conv(x)
            return module
        self.conv0 = conv(planes)
        self.res_block = nn.Sequential(*[block() for _ in range(blocks)], conv())
        self.depth_to_space = nn.Module()
        self.depth_to_space.upscale = nn.Sequential(conv(width, planes * scale**2), nn.PixelShuffle(scale))

    def forward(self, x):
        x = self.conv0(x)
        return self.depth_to_space.upscale(x + self.res_block(x))


class Dis(nn.Module):
    def __init__(self, scale, blocks, width, depthwise=False, planes=3):
        super().__init__()
        self.scale = scale
        def conv(inputs=width, outputs=width, **options):
            return nn.Conv2d(inputs, outputs, 3, padding=1, **options)
        def prelu():
            act = nn.PReLU(width)
            nn.init.uniform_(act.weight, -0.2, 0.5)
            return act
        def block():
            module = nn.Module()
            module.act = prelu()
            if depthwise:
                module.dw_conv = nn.Module()
                module.dw_conv.depthwise = conv(groups=width, bias=False)
                module.dw_conv.pointwise = nn.Conv2d(width, width, 1, bias=False)
                module.forward = lambda x: x + module.act(module.dw_conv.pointwise(module.dw_conv.depthwise(x)))
            else:
                module.conv1, module.conv2 = conv(bias=False), conv(bias=False)
                module.forward = lambda x: x + module.conv2(module.act(module.conv1(x)))
            return module
        def stage(factor):
            module = nn.Module()
            module.conv, module.act = conv(width, width * factor**2), prelu()
            module.forward = lambda x: module.act(F.pixel_shuffle(module.conv(x), factor))
            return module
        self.head, self.head_act, self.fusion, self.tail = conv(planes), prelu(), conv(), conv(width, planes)
        self.body = nn.Sequential(*[block() for _ in range(blocks)])
        self.upsampler = {1: nn.Identity, 2: lambda: stage(2), 3: lambda: stage(3),
                          4: lambda: nn.Sequential(stage(2), stage(2))}[scale]()

    def forward(self, x):
        features = self.head_act(self.head(x))
        result = self.tail(self.upsampler(self.fusion(self.body(features)) + features))
        if self.scale == 1:
            return result + x
        return result + F.interpolate(x, scale_factor=self.scale, mode="bilinear", align_corners=False)


def unet_convs(inputs, middle, outputs, excite):
    module = nn.Module()
    module.conv = nn.Sequential(nn.Conv2d(inputs, middle, 3), nn.LeakyReLU(0.1, inplace=True),
                                nn.Conv2d(middle, outputs, 3), nn.LeakyReLU(0.1, inplace=True))
    if excite:
        module.seblock = nn.Module()
        module.seblock.conv1 = nn.Conv2d(outputs, outputs // 8, 1)
        module.seblock.conv2 = nn.Conv2d(outputs // 8, outputs, 1)

    def forward(x):
        x = module.conv(x)
        if excite:
            s = F.relu(module.seblock.conv1(x.mean((2, 3), keepdim=True)), inplace=True)
            x = x * torch.sigmoid(module.seblock.conv2(s))
        return x
    module.forward = forward
    return module


def unet_bottom(width, outputs, factor):
    return {1: lambda: nn.Conv2d(width, outputs, 3), 2: lambda: nn.ConvTranspose2d(width, outputs, 4, 2, 3),
            3: lambda: nn.ConvTranspose2d(width, outputs, 5, 3, 2)}[factor]()


class Unet1(nn.Module):
    def __init__(self, inputs, outputs, factor):
        super().__init__()
        self.conv1, self.conv2 = unet_convs(inputs, 32, 64, False), unet_convs(64, 128, 64, True)
        self.conv1_down, self.conv2_up = nn.Conv2d(64, 64, 2, 2), nn.ConvTranspose2d(64, 64, 2, 2)
        self.conv3, self.conv_bottom = nn.Conv2d(64, 64, 3), unet_bottom(64, outputs, factor)

    def forward(self, x):
        wide = self.conv1(x)
        deep = self.conv2(F.leaky_relu(self.conv1_down(wide), 0.1, inplace=True))
        deep = F.leaky_relu(self.conv2_up(deep), 0.1, inplace=True)
        return self.conv_bottom(F.leaky_relu(self.conv3(F.pad(wide, (-4,) * 4) + deep), 0.1, inplace=True))


class Unet2(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.conv2 = unet_convs(inputs, 32, 64, False), unet_convs(64, 64, 128, True)
        self.conv3, self.conv4 = unet_convs(128, 256, 128, True), unet_convs(128, 64, 64, True)
        self.conv1_down, self.conv2_down = nn.Conv2d(64, 64, 2, 2), nn.Conv2d(128, 128, 2, 2)
        self.conv3_up, self.conv4_up = nn.ConvTranspose2d(128, 128, 2, 2), nn.ConvTranspose2d(64, 64, 2, 2)
        self.conv5, self.conv_bottom = nn.Conv2d(64, 64, 3), nn.Conv2d(64, outputs, 3)

    def forward(self, x):
        wide = self.conv1(x)
        middle = self.conv2(F.leaky_relu(self.conv1_down(wide), 0.1, inplace=True))
        deep = self.conv3(F.leaky_relu(self.conv2_down(middle), 0.1, inplace=True))
        deep = self.conv4(F.pad(middle, (-4,) * 4) + F.leaky_relu(self.conv3_up(deep), 0.1, inplace=True))
        deep = F.pad(wide, (-16,) * 4) + F.leaky_relu(self.conv4_up(deep), 0.1, inplace=True)
        return self.conv_bottom(F.leaky_relu(self.conv5(deep), 0.1, inplace=True))


class Cunet(nn.Module):
    """waifu2x's (x1, x2), whose border repeats the edge, and Real-CUGAN's (x2 to x4), whose border is reflected."""

    def __init__(self, scale, pro=False, mode="reflect", fast=False):
        super().__init__()
        self.scale, self.mode, self.fast = scale, mode, fast
        planes = 64 if scale == 4 or fast else 3
        self.unet1 = Unet1(12 if fast else 3, planes, min(scale, 2) if scale != 3 else 3)
        self.unet2 = Unet2(planes, planes)
        if scale == 4 or fast:
            self.conv_final = nn.Conv2d(64, 12, 3)
        if pro:
            self.register_buffer("pro", torch.zeros(1))

    def forward(self, x):
        height, width = x.shape[2:]
        if hasattr(self, "pro"):
            x = x * 0.7 + 0.15
        border = 38 if self.fast else {1: 28, 2: 18, 3: 14, 4: 19}[self.scale]
        align = 4 if self.scale in (1, 3) or self.fast else 2
        image = x
        x = F.pad(x, (border, border + -width % align, border, border + -height % align), mode=self.mode)
        if self.fast:
            x = F.pixel_unshuffle(x, 2)
        x = self.unet1(x)
        x = self.unet2(x) + F.pad(x, (-20,) * 4)
        if hasattr(self, "conv_final"):
            x = F.pixel_shuffle(F.pad(self.conv_final(x), (-1,) * 4), 2)
        x = x[:, :, :height * self.scale, :width * self.scale]
        if hasattr(self, "conv_final"):
            x = x + F.interpolate(image, scale_factor=self.scale, mode="nearest")
        return (x - 0.15) / 0.7 if hasattr(self, "pro") else x


def upsampler(scale, width):
    """EDSR's: a doubling or two, or one step by three."""
    steps = {1: [], 2: [2], 3: [3], 4: [2, 2]}[scale]
    return nn.Sequential(*[m for f in steps for m in (nn.Conv2d(width, width * f**2, 3, padding=1), nn.PixelShuffle(f))])


class Attention(nn.Module):
    """RCAN's, in either spelling."""

    def __init__(self, width, name):
        super().__init__()
        squeeze = [nn.Conv2d(width, width // 4, 1), nn.ReLU(), nn.Conv2d(width // 4, width, 1), nn.Sigmoid()]
        parts = squeeze if name == "conv_du" else [nn.AdaptiveAvgPool2d(1), *squeeze]
        self.name = name
        setattr(self, name, nn.Sequential(*parts))

    def forward(self, x):
        return x * getattr(self, self.name)(x.mean((2, 3), keepdim=True))


class Residual(nn.Module):
    """A block of EDSR or, with attention, of RCAN. `body`: its convolutions are a sequence of that name."""

    def __init__(self, width, body=None, attention=None, factor=1.0):
        super().__init__()
        convs = [nn.Conv2d(width, width, 3, padding=1) for _ in range(2)]
        parts = [convs[0], nn.ReLU(), convs[1], *([Attention(width, attention)] if attention else [])]
        self.factor, self.parts = factor, None
        if body:
            setattr(self, body, nn.Sequential(*parts))
            self.parts = body
        else:
            self.conv1, self.conv2 = convs

    def forward(self, x):
        y = getattr(self, self.parts)(x) if self.parts else self.conv2(F.relu(self.conv1(x)))
        return x + y * self.factor


class Group(nn.Module):
    def __init__(self, width, blocks, basicsr):
        super().__init__()
        conv = nn.Conv2d(width, width, 3, padding=1)
        if basicsr:
            self.residual_group = nn.Sequential(*[Residual(width, "rcab", "attention") for _ in range(blocks)])
            self.conv = conv
        else:
            self.body = nn.Sequential(*[Residual(width, "body", "conv_du") for _ in range(blocks)], conv)
        self.basicsr = basicsr

    def forward(self, x):
        return x + (self.conv(self.residual_group(x)) if self.basicsr else self.body(x))


class Edsr(nn.Module):
    """EDSR, and RCAN where there are groups, in their authors' spelling or in BasicSR's."""

    def __init__(self, scale, blocks, width, groups=0, basicsr=False):
        super().__init__()
        self.basicsr = basicsr
        factor = 0.1 if width == 256 else 1.0
        if groups:
            body = [Group(width, blocks, basicsr) for _ in range(groups)]
        else:
            body = [Residual(width, None if basicsr else "body", factor=factor) for _ in range(blocks)]
        def conv(inputs, outputs):
            return nn.Conv2d(inputs, outputs, 3, padding=1)
        if basicsr:
            self.conv_first, self.body, self.conv_after_body = conv(3, width), nn.Sequential(*body), conv(width, width)
            self.upsample, self.conv_last = upsampler(scale, width), conv(width, 3)
        else:
            self.sub_mean, self.add_mean = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
            self.head, self.body = nn.Sequential(conv(3, width)), nn.Sequential(*body, conv(width, width))
            self.tail = nn.Sequential(upsampler(scale, width), conv(width, 3))

    def forward(self, x):
        if self.basicsr:
            mean = torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1)
            x = self.conv_first((x - mean) * 255)
            x = x + self.conv_after_body(self.body(x))
            return self.conv_last(self.upsample(x)) / 255 + mean
        x = self.head(self.sub_mean(x * 255))
        return self.add_mean(self.tail(x + self.body(x))) / 255


class WindowAttention(nn.Module):
    """The windows of a batch, as Swin's code has it."""

    def __init__(self, width, window, heads):
        super().__init__()
        self.heads, self.window = heads, window
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads))
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        distance = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + window - 1
        self.register_buffer("relative_position_index", distance[:, :, 0] * (2 * window - 1) + distance[:, :, 1])
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        windows, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(windows, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q * (width // self.heads) ** -0.5 @ k.transpose(-2, -1)
        bias = self.relative_position_bias_table[self.relative_position_index.view(-1)]
        scores = scores + bias.view(tokens, tokens, -1).permute(2, 0, 1)
        if mask is not None:
            scores = (scores.view(-1, len(mask), self.heads, tokens, tokens) + mask[:, None]).view(scores.shape)
        x = scores.softmax(-1) @ v
        return self.proj(x.transpose(1, 2).reshape(windows, tokens, width))


def windows_of(x, window):
    """[N][H][W][C] as [N * windows][window^2][C]."""
    n, height, width, channels = x.shape
    x = x.view(n, height // window, window, width // window, window, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, window * window, channels)


def image_of(windows, window, height, width):
    x = windows.view(-1, height // window, width // window, window, window, windows.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, windows.shape[-1])


def seam_mask(height, width, window, shift):
    parts = torch.zeros(1, height, width, 1)
    slices = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
    for i, rows in enumerate(slices):
        for j, columns in enumerate(slices):
            parts[:, rows, columns] = 3 * i + j
    parts = windows_of(parts, window).squeeze(-1)
    return (parts[:, None, :] != parts[:, :, None]) * -100.0


class SwinBlock(nn.Module):
    """Over [N][H][W][C], with a cyclic shift and a mask."""

    def __init__(self, width, window, shift, heads, ratio):
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1, self.attn = nn.LayerNorm(width), WindowAttention(width, window, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, ratio * width), "fc2": nn.Linear(ratio * width, width)})
        if shift:
            self.register_buffer("attn_mask", seam_mask(window * 4, window * 4, window, shift))

    def forward(self, x):
        height, width = x.shape[1:3]
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        mask = seam_mask(height, width, self.window, self.shift) if self.shift else None
        y = image_of(self.attn(windows_of(y, self.window), mask), self.window, height, width)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class SwinIr(nn.Module):
    """SwinIR; `ending`: its upsampler, or "" for restoration."""

    def __init__(self, scale, width, groups, blocks, heads, window=8, ending="pixelshuffle", convs=1, planes=3):
        super().__init__()
        def conv(inputs=width, outputs=width, kernel=3):
            return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
        self.scale, self.window, self.ending = scale, window, ending
        self.range = 255 if window == 7 else 1
        self.mean = torch.tensor([0.4488, 0.4371, 0.4040] if planes == 3 else [0.0] * planes).view(1, -1, 1, 1)
        def last():
            if convs == 1:
                return conv()
            leaky, narrow = nn.LeakyReLU(0.2, inplace=True), width // 4
            return nn.Sequential(conv(width, narrow), leaky, conv(narrow, narrow, 1), leaky, conv(narrow, width))
        self.conv_first, self.conv_after_body = conv(planes), last()
        self.patch_embed = nn.ModuleDict({"norm": nn.LayerNorm(width)})
        self.norm, self.layers = nn.LayerNorm(width), nn.ModuleList()
        for _ in range(groups):
            body = nn.ModuleList([SwinBlock(width, window, i % 2 * (window // 2), heads, 2) for i in range(blocks)])
            self.layers.append(nn.ModuleDict({"residual_group": nn.ModuleDict({"blocks": body}), "conv": last()}))
        if ending in ("pixelshuffle", "nearest+conv"):
            self.conv_before_upsample = nn.Sequential(conv(width, 64), nn.LeakyReLU(inplace=True))
            self.conv_last = conv(64, planes)
        if ending == "pixelshuffle":
            self.upsample = upsampler(scale, 64)
        elif ending == "pixelshuffledirect":
            self.upsample = nn.Sequential(conv(width, planes * scale**2), nn.PixelShuffle(scale))
        elif ending == "nearest+conv":
            self.conv_up1, self.conv_hr = conv(64, 64), conv(64, 64)
            if scale == 4:
                self.conv_up2 = conv(64, 64)
        else:
            self.conv_last = conv(width, planes)

    def features(self, x):
        x = self.patch_embed["norm"](x.permute(0, 2, 3, 1))
        for layer in self.layers:
            y = x
            for block in layer["residual_group"]["blocks"]:
                y = block(y)
            x = x + layer["conv"](y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return self.norm(x).permute(0, 3, 1, 2)

    def enlarge(self, x, image):
        if self.ending == "":
            return image + self.conv_last(x)
        if self.ending == "pixelshuffledirect":
            return self.upsample(x)
        x = self.conv_before_upsample(x)
        if self.ending == "pixelshuffle":
            return self.conv_last(self.upsample(x))
        for i in range(1, 3 if self.scale == 4 else 2):
            x = F.leaky_relu(getattr(self, f"conv_up{i}")(F.interpolate(x, scale_factor=2, mode="nearest")), 0.2)
        return self.conv_last(F.leaky_relu(self.conv_hr(x), 0.2))

    def forward(self, x):
        height, width = x.shape[2:]
        x = F.pad(x, (0, -width % self.window, 0, -height % self.window), mode="reflect")
        image = (x - self.mean) * self.range
        first = self.conv_first(image)
        y = self.enlarge(self.conv_after_body(self.features(first)) + first, image)
        return (y / self.range + self.mean)[:, :, :height * self.scale, :width * self.scale]


class CosineAttention(nn.Module):
    """Swin2SR's: cosines, and biases by a perceptron on distances."""

    def __init__(self, width, window, heads):
        super().__init__()
        self.heads = heads
        self.logit_scale = nn.Parameter(torch.randn(heads, 1, 1) + 3)  # some above the limit
        self.cpb_mlp = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, heads, bias=False))
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.q_bias, self.v_bias = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))
        distances = torch.arange(1 - window, window).float() / (window - 1) * 8
        table = torch.stack(torch.meshgrid(distances, distances, indexing="ij"), -1)[None]
        table = torch.sign(table) * torch.log2(table.abs() + 1) / torch.log2(torch.tensor(8.0))
        self.register_buffer("relative_coords_table", table)
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        distance = places[:, :, None] - places[:, None, :] + window - 1
        self.register_buffer("relative_position_index", distance[0] * (2 * window - 1) + distance[1])

    def forward(self, x, mask):
        n, tokens, channels = x.shape
        bias = torch.cat((self.q_bias, torch.zeros(channels), self.v_bias))
        qkv = F.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * torch.clamp(self.logit_scale, max=torch.log(torch.tensor(100.0))).exp()
        table = self.cpb_mlp(self.relative_coords_table).view(-1, self.heads)
        biases = table[self.relative_position_index.flatten()].view(tokens, tokens, -1).permute(2, 0, 1)
        scores = scores + 16 * torch.sigmoid(biases)
        if mask is not None:
            scores = (scores.view(-1, len(mask), self.heads, tokens, tokens) + mask[:, None]).view(scores.shape)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class CosineBlock(SwinBlock):
    def __init__(self, width, window, shift, heads):
        super().__init__(width, window, shift, heads, 2)
        self.attn = CosineAttention(width, window, heads)

    def forward(self, x):
        height, width = x.shape[1:3]
        y = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        mask = seam_mask(height, width, self.window, self.shift) if self.shift else None
        y = image_of(self.attn(windows_of(y, self.window), mask), self.window, height, width)
        x = x + self.norm1(torch.roll(y, (self.shift, self.shift), (1, 2)))
        return x + self.norm2(self.mlp["fc2"](F.gelu(self.mlp["fc1"](x))))


class Swin2Sr(SwinIr):
    def __init__(self, scale, width, groups, blocks, heads, window=8, ending="pixelshuffle"):
        super().__init__(scale, width, 0, 0, heads, window, ending)
        self.patch_embed["proj"] = nn.Conv2d(width, width, 1)
        def group():
            body = nn.ModuleList([CosineBlock(width, window, i % 2 * (window // 2), heads) for i in range(blocks)])
            return nn.ModuleDict({"residual_group": nn.ModuleDict({"blocks": body}),
                                  "conv": nn.Conv2d(width, width, 3, padding=1),
                                  "patch_embed": nn.ModuleDict({"proj": nn.Conv2d(width, width, 1)})})
        self.layers.extend([group() for _ in range(groups)])

    def features(self, x):
        x = self.patch_embed["norm"](self.patch_embed["proj"](x).permute(0, 2, 3, 1))
        for layer in self.layers:
            y = x
            for block in layer["residual_group"]["blocks"]:
                y = block(y)
            y = layer["patch_embed"]["proj"](layer["conv"](y.permute(0, 3, 1, 2)))
            x = x + y.permute(0, 2, 3, 1)
        return self.norm(x).permute(0, 3, 1, 2)


class PermutedAttention(nn.Module):
    """SRFormer's: keys and values of a quarter of the channels, blocks of 2x2 pixels side by side."""

    def __init__(self, width, window, heads):
        super().__init__()
        self.heads, self.side = heads, window // 2
        side = self.side
        self.relative_position_bias_table = nn.Parameter(torch.randn((2 * side - 1) ** 2, heads))
        self.q, self.kv, self.proj = nn.Linear(width, width), nn.Linear(width, width // 2), nn.Linear(width, width)
        places = torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        distance = places[:, :, None] - places[:, None, :] + side - 1
        index = distance[0] * (2 * side - 1) + distance[1]
        index = index.reshape(side, side, 1, 1, side * side).repeat(1, 1, 2, 2, 1).permute(0, 2, 1, 3, 4)
        self.register_buffer("aligned_relative_position_index", index.reshape(4 * side * side, side * side))

    def forward(self, x, mask):
        n, tokens, channels = x.shape
        side = self.side
        kv = self.kv(x).reshape(n, side, 2, side, 2, 2, channels // 4).permute(0, 1, 3, 5, 2, 4, 6)
        k, v = kv.reshape(n, tokens // 4, 2, self.heads, channels // self.heads).permute(2, 0, 3, 1, 4)
        q = self.q(x).reshape(n, tokens, self.heads, channels // self.heads).permute(0, 2, 1, 3)
        scores = q * (channels // self.heads) ** -0.5 @ k.transpose(-2, -1)
        scores = scores + self.relative_position_bias_table[self.aligned_relative_position_index].permute(2, 0, 1)
        if mask is not None:
            scores = (scores.view(-1, len(mask), *scores.shape[1:]) + mask[:, None]).view(scores.shape)
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class PermutedBlock(SwinBlock):
    def __init__(self, width, window, shift, heads):
        super().__init__(width, window, 0, heads, 2)
        self.shift, self.attn = shift, PermutedAttention(width, window, heads)
        wide = 2 * width
        depthwise = nn.Conv2d(wide, wide, 5, padding=2, groups=wide)
        self.mlp["dwconv"] = nn.ModuleDict({"depthwise_conv": nn.Sequential(depthwise, nn.GELU())})

    def mask(self, height, width):
        """Pixels against blocks, whose borders are rounded as Python rounds -shift // 2."""
        def parts(height, width, window, last):
            numbers = torch.zeros(1, height, width, 1)
            slices = (slice(0, -window), slice(-window, last), slice(last, None))
            for i, rows in enumerate(slices):
                for j, columns in enumerate(slices):
                    numbers[:, rows, columns] = 3 * i + j
            return windows_of(numbers, window).squeeze(-1)
        pixels = parts(height, width, self.window, -self.shift)
        blocks = parts(height // 2, width // 2, self.window // 2, -self.shift // 2)
        return (pixels[:, :, None] != blocks[:, None, :]) * -100.0

    def forward(self, x):
        height, width = x.shape[1:3]
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        mask = self.mask(height, width) if self.shift else None
        y = image_of(self.attn(windows_of(y, self.window), mask), self.window, height, width)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        y = F.gelu(self.mlp["fc1"](self.norm2(x)))
        near = self.mlp["dwconv"]["depthwise_conv"](y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return x + self.mlp["fc2"](y + near)


class SrFormer(SwinIr):
    def __init__(self, scale, width, groups, blocks, heads, window=16, ending="pixelshuffle"):
        super().__init__(scale, width, 0, 0, heads, window, ending)
        for _ in range(groups):
            body = nn.ModuleList([PermutedBlock(width, window, i % 2 * (window // 2), heads) for i in range(blocks)])
            self.layers.append(nn.ModuleDict({"residual_group": nn.ModuleDict({"blocks": body}),
                                              "conv": nn.Conv2d(width, width, 3, padding=1)}))


class Scunet(nn.Module):
    """SCUNet; `blocks` of each level."""

    def __init__(self, width=64, blocks=(2, 1, 1, 3, 2, 1, 2), window=8):
        super().__init__()
        self.window = window
        def attention(channels):
            heads = channels // 32
            module = nn.Module()
            module.relative_position_params = nn.Parameter(torch.randn(heads, 2 * window - 1, 2 * window - 1))
            module.embedding_layer, module.linear = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
            return module
        def block(channels):
            half = channels // 2
            module = nn.Module()
            module.conv1_1, module.conv1_2 = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
            module.conv_block = nn.Sequential(nn.Conv2d(half, half, 3, padding=1, bias=False), nn.ReLU(),
                                              nn.Conv2d(half, half, 3, padding=1, bias=False))
            trans = module.trans_block = nn.Module()
            trans.ln1, trans.msa, trans.ln2 = nn.LayerNorm(half), attention(half), nn.LayerNorm(half)
            trans.mlp = nn.Sequential(nn.Linear(half, 4 * half), nn.GELU(), nn.Linear(4 * half, half))
            return module
        self.m_head = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False))
        for i in range(3):
            own = width * 2 ** i
            down = [block(own) for _ in range(blocks[i])] + [nn.Conv2d(own, 2 * own, 2, 2, bias=False)]
            up = [nn.ConvTranspose2d(2 * own, own, 2, 2, bias=False)] + [block(own) for _ in range(blocks[6 - i])]
            setattr(self, f"m_down{i + 1}", nn.ModuleList(down))
            setattr(self, f"m_up{i + 1}", nn.ModuleList(up))
        self.m_body = nn.ModuleList([block(8 * width) for _ in range(blocks[3])])
        self.m_tail = nn.Sequential(nn.Conv2d(width, 3, 3, padding=1, bias=False))

    def attend(self, msa, x, shift):
        """Over [1][H][W][C]; the parts that meet in the last windows do not see each other."""
        (height, width, channels), window, tokens = x.shape[1:], self.window, self.window ** 2
        heads = channels // 32
        qkv = msa.embedding_layer(windows_of(torch.roll(x, (-shift, -shift), (1, 2)), window))
        q, k, v = qkv.reshape(-1, tokens, 3, heads, 32).permute(2, 0, 3, 1, 4)
        at = torch.tensor([[i, j] for i in range(window) for j in range(window)])
        distance = at[:, None] - at[None] + window - 1
        scores = q @ k.transpose(-2, -1) * 32 ** -0.5 + msa.relative_position_params[:, distance[..., 0], distance[..., 1]]
        if shift:
            rows, columns = height // window, width // window
            mask = torch.zeros(rows, columns, window, window, window, window, dtype=torch.bool)
            kept = window - shift
            mask[-1, :, :kept, :, kept:, :] = mask[-1, :, kept:, :, :kept, :] = True
            mask[:, -1, :, :kept, :, kept:] = mask[:, -1, :, kept:, :, :kept] = True
            scores = scores.masked_fill(mask.view(-1, 1, tokens, tokens), float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, tokens, channels)
        return torch.roll(image_of(msa.linear(y), window, height, width), (shift, shift), (1, 2))

    def blocks(self, x, modules):
        for i, module in enumerate(modules):
            half = x.shape[1] // 2
            near, far = module.conv1_1(x).split(half, 1)
            near = module.conv_block(near) + near
            trans, far = module.trans_block, far.permute(0, 2, 3, 1)
            far = far + self.attend(trans.msa, trans.ln1(far), i % 2 * (self.window // 2))
            far = far + trans.mlp(trans.ln2(far))
            x = x + module.conv1_2(torch.cat((near, far.permute(0, 3, 1, 2)), 1))
        return x

    def forward(self, x):
        height, width = x.shape[2:]
        levels = [self.m_head(F.pad(x, (0, -width % 64, 0, -height % 64), mode="replicate"))]
        for down in (self.m_down1, self.m_down2, self.m_down3):
            levels.append(down[-1](self.blocks(levels[-1], down[:-1])))
        y = self.blocks(levels[3], self.m_body)
        for up, level in ((self.m_up3, 3), (self.m_up2, 2), (self.m_up1, 1)):
            y = self.blocks(up[0](y + levels[level]), up[1:])
        return self.m_tail(y + levels[0])[:, :, :height, :width]


class Drct(SwinIr):
    """DRCT; `growth`: the channels that each block of a group adds."""

    def __init__(self, scale, width, groups, heads, window=16, growth=16):
        super().__init__(scale, width, 0, 0, heads, window)
        for _ in range(groups):
            group = nn.ModuleDict()
            for i in range(5):
                inputs = width + i * growth
                own = heads - inputs % heads
                group[f"swin{i + 1}"] = SwinBlock(inputs, window, i % 2 * (window // 2), own, 2 if i < 3 else 1)
                group[f"adjust{i + 1}"] = nn.Conv2d(inputs, growth if i < 4 else width, 1)
            self.layers.append(group)

    def features(self, x):
        x = self.patch_embed["norm"](x.permute(0, 2, 3, 1))
        for layer in self.layers:
            parts = [x]
            for i in range(1, 6):
                y = layer[f"swin{i}"](torch.cat(parts, -1)).permute(0, 3, 1, 2)
                y = layer[f"adjust{i}"](y)
                parts.append((F.leaky_relu(y, 0.2) if i < 5 else y).permute(0, 2, 3, 1))
            x = parts[-1] * 0.2 + x
        return self.norm(x).permute(0, 3, 1, 2)


class HybridBlock(SwinBlock):
    """HAT's: a block of Swin that weighs channels as well."""

    def __init__(self, width, window, shift, heads):
        super().__init__(width, window, shift, heads, 2)
        attention = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 6, 1), nn.ReLU(),
                                  nn.Conv2d(width // 6, width, 1), nn.Sigmoid())
        cab = nn.Sequential(nn.Conv2d(width, width // 3, 3, padding=1), nn.GELU(),
                            nn.Conv2d(width // 3, width, 3, padding=1), nn.ModuleDict({"attention": attention}))
        self.conv_block = nn.ModuleDict({"cab": cab})

    def channels(self, x):
        cab = self.conv_block["cab"]
        y = cab[2](cab[1](cab[0](x.permute(0, 3, 1, 2))))
        return (y * cab[3]["attention"](y)).permute(0, 2, 3, 1)

    def forward(self, x):
        height, width = x.shape[1:3]
        normal = self.norm1(x)
        y = torch.roll(normal, (-self.shift, -self.shift), (1, 2))
        mask = seam_mask(height, width, self.window, self.shift) if self.shift else None
        y = image_of(self.attn(windows_of(y, self.window), mask), self.window, height, width)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2)) + self.channels(normal) * 0.01
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class OverlapBlock(nn.Module):
    """HAT's last block of a group: keys of larger windows, cut by unfold."""

    def __init__(self, width, window, heads):
        super().__init__()
        self.window, self.keys, self.heads = window, window + window // 2, heads
        self.relative_position_bias_table = nn.Parameter(torch.randn((window + self.keys - 1) ** 2, heads))
        self.norm1, self.norm2, self.qkv = nn.LayerNorm(width), nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 2 * width), "fc2": nn.Linear(2 * width, width)})

    def bias(self):
        def places(side):
            return torch.stack(torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")).flatten(1)
        distance = places(self.keys)[:, None, :] - places(self.window)[:, :, None] + self.window - self.keys + 1
        index = distance[0] * (self.window + self.keys - 1) + distance[1]  # below zero: from the table's end
        return self.relative_position_bias_table[index].permute(2, 0, 1)

    def forward(self, x):
        _, height, width, channels = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(channels, -1)
        def heads(tokens):
            return tokens.reshape(*tokens.shape[:2], self.heads, -1).transpose(1, 2)
        def unfold(planes):
            border = (self.keys - self.window) // 2
            y = F.unfold(planes.permute(0, 3, 1, 2), self.keys, stride=self.window, padding=border)
            return y.view(channels, self.keys ** 2, -1).permute(2, 1, 0)
        q, k, v = heads(windows_of(q, self.window)), heads(unfold(k)), heads(unfold(v))
        scores = q * (channels // self.heads) ** -0.5 @ k.transpose(-2, -1) + self.bias()
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, self.window ** 2, channels)
        x = self.proj(image_of(y, self.window, height, width)) + x
        return x + self.mlp["fc2"](F.gelu(self.mlp["fc1"](self.norm2(x))))


class Hat(SwinIr):
    def __init__(self, scale, width, groups, blocks, heads, window=16):
        super().__init__(scale, width, 0, 0, heads, window)
        self.register_buffer("relative_position_index_SA", torch.zeros(4, 4, dtype=torch.long))
        self.register_buffer("relative_position_index_OCA", torch.zeros(4, 9, dtype=torch.long))
        for _ in range(groups):
            body = nn.ModuleList([HybridBlock(width, window, i % 2 * (window // 2), heads) for i in range(blocks)])
            group = nn.ModuleDict({"blocks": body, "overlap_attn": OverlapBlock(width, window, heads)})
            self.layers.append(nn.ModuleDict({"residual_group": group, "conv": nn.Conv2d(width, width, 3, padding=1)}))

    def published(self):
        of_blocks = ("relative_position_index", "attn_mask")
        return {name: value for name, value in self.state_dict().items() if not name.endswith(of_blocks)}

    def features(self, x):
        x = self.patch_embed["norm"](x.permute(0, 2, 3, 1))
        for layer in self.layers:
            y = x
            for block in layer["residual_group"]["blocks"]:
                y = block(y)
            y = layer["residual_group"]["overlap_attn"](y)
            x = x + layer["conv"](y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return self.norm(x).permute(0, 3, 1, 2)


class PositionBias(nn.Module):
    """DAT's: a perceptron on distances."""

    def __init__(self, width, heads):
        super().__init__()
        self.pos_proj = nn.Linear(2, width)
        def layer(outputs):
            return nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, outputs))
        self.pos1, self.pos2, self.pos3 = layer(width), layer(width), layer(heads)

    def forward(self, x):
        return self.pos3(self.pos2(self.pos1(self.pos_proj(x))))


class Rectangles(nn.Module):
    """DAT's attention in windows of `height` x `width`, whose image is rolled by half of both."""

    def __init__(self, channels, height, width, heads, shifts):
        super().__init__()
        self.sides, self.heads, self.shifts = (height, width), heads, (height // 2, width // 2) if shifts else (0, 0)
        distances = torch.stack(torch.meshgrid(torch.arange(1 - height, height), torch.arange(1 - width, width),
                                               indexing="ij"))
        self.register_buffer("rpe_biases", distances.flatten(1).T.contiguous().float())
        at = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).flatten(1)
        distance = at[:, :, None] - at[:, None, :]
        self.register_buffer("relative_position_index",
                             (distance[0] + height - 1) * (2 * width - 1) + distance[1] + width - 1)
        self.pos = PositionBias(channels // 4 // 4, heads)

    def windows(self, x):
        (height, width), (rows, columns) = self.sides, x.shape[1:3]
        x = x.reshape(1, rows // height, height, columns // width, width, -1)
        return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, height * width, x.shape[-1])

    def mask(self, rows, columns):
        parts = torch.zeros(1, rows, columns, 1)
        slices = [(slice(0, -side), slice(-side, -shift), slice(-shift, None))
                  for side, shift in zip(self.sides, self.shifts)]
        for i, down in enumerate(slices[0]):
            for j, across in enumerate(slices[1]):
                parts[:, down, across] = 3 * i + j
        parts = self.windows(parts).squeeze(-1)
        return (parts[:, None, :] != parts[:, :, None]) * -100.0

    def forward(self, q, k, v):
        rows, columns, channels = q.shape[1:]
        rolled = [torch.roll(x, [-shift for shift in self.shifts], (1, 2)) for x in (q, k, v)]
        def heads(x):
            x = self.windows(x)
            return x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)
        q, k, v = [heads(x) for x in rolled]
        bias = self.pos(self.rpe_biases)[self.relative_position_index].permute(2, 0, 1)
        scores = q * (channels // self.heads) ** -0.5 @ k.transpose(-2, -1) + bias
        if max(self.shifts) > 0:
            scores = scores + self.mask(rows, columns)[:, None]
        height, width = self.sides
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(1, rows // height, columns // width, height, width, channels)
        return torch.roll(x.permute(0, 1, 3, 2, 4, 5).reshape(1, rows, columns, channels), self.shifts, (1, 2))


def norm_of_batches(width):
    norm = nn.BatchNorm2d(width)
    norm.running_mean, norm.running_var = torch.randn(width) * 0.1, torch.rand(width) + 0.5
    norm.weight.data.uniform_(0.5, 1.5)
    return norm


class DatAttention(nn.Module):
    """Over [N][H][W][C]; `windows` of None: among channels."""

    def __init__(self, width, heads, windows, shifts):
        super().__init__()
        self.heads, self.sides = heads, windows
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        if windows:
            high, wide = windows
            self.attns = nn.ModuleList([Rectangles(width // 2, high, wide, heads // 2, shifts),
                                        Rectangles(width // 2, wide, high, heads // 2, shifts)])
            for i in range(2 if shifts else 0):
                self.register_buffer(f"attn_mask_{i}", torch.zeros(2, 4, 4))
        else:
            self.temperature = nn.Parameter(torch.rand(heads, 1, 1) * 4)
        self.dwconv = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, groups=width), norm_of_batches(width), nn.GELU())
        narrow, least = width // 8, width // 16
        self.channel_interaction = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, narrow, 1),
                                                 norm_of_batches(narrow), nn.GELU(), nn.Conv2d(narrow, width, 1))
        self.spatial_interaction = nn.Sequential(nn.Conv2d(width, least, 1), norm_of_batches(least), nn.GELU(),
                                                 nn.Conv2d(least, 1, 1))

    def among_pixels(self, qkv):
        height, width, channels = qkv.shape[1:]
        side, half = max(self.sides), channels // 3 // 2
        qkv = F.pad(qkv, (0, 0, 0, -width % side, 0, -height % side)).split(half, -1)
        return torch.cat([self.attns[i](qkv[i], qkv[i + 2], qkv[i + 4]) for i in range(2)], -1)[:, :height, :width]

    def among_channels(self, qkv):
        height, width, channels = qkv.shape[1:]
        q, k, v = qkv.reshape(height * width, 3, self.heads, -1).permute(1, 2, 3, 0)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.temperature
        return (scores.softmax(-1) @ v).permute(2, 0, 1).reshape(1, height, width, channels // 3)

    def forward(self, x):
        qkv = self.qkv(x)
        convolved = self.dwconv(qkv.split(x.shape[-1], -1)[2].permute(0, 3, 1, 2))
        attended = (self.among_pixels if self.sides else self.among_channels)(qkv).permute(0, 3, 1, 2)
        pooled, seen = (convolved, attended) if self.sides else (attended, convolved)
        channels, pixels = self.channel_interaction(pooled).sigmoid(), self.spatial_interaction(seen).sigmoid()
        y = attended * channels + pixels * convolved if self.sides else attended * pixels + convolved * channels
        return self.proj(y.permute(0, 2, 3, 1))


class DatBlock(nn.Module):
    def __init__(self, width, heads, windows, shifts, expansion):
        super().__init__()
        hidden = width * expansion
        self.norm1, self.norm2, self.attn = nn.LayerNorm(width), nn.LayerNorm(width), DatAttention(width, heads, windows, shifts)
        gate = nn.ModuleDict({"norm": nn.LayerNorm(hidden // 2),
                              "conv": nn.Conv2d(hidden // 2, hidden // 2, 3, padding=1, groups=hidden // 2)})
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(width, hidden), "sg": gate, "fc2": nn.Linear(hidden // 2, width)})

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        first, gate = F.gelu(self.ffn["fc1"](self.norm2(x))).chunk(2, -1)
        gate = self.ffn["sg"]["conv"](self.ffn["sg"]["norm"](gate).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return x + self.ffn["fc2"](first * gate)


class Dat(SwinIr):
    def __init__(self, scale, width, depths, heads, windows, expansion=4, ending="pixelshuffle", convs=1):
        super().__init__(scale, width, 0, 0, heads, 1, ending, convs)
        self.before_RG = nn.Sequential(nn.Identity(), nn.LayerNorm(width))
        del self.patch_embed
        for group, depth in enumerate(depths):
            blocks = nn.ModuleList()
            for i in range(depth):
                shifts = i > 0 and (i - 2) % 4 == 0 if group % 2 == 0 else i % 4 == 0
                blocks.append(DatBlock(width, heads, windows if i % 2 == 0 else None, shifts, expansion))
            self.layers.append(nn.ModuleDict({"blocks": blocks, "conv": nn.Conv2d(width, width, 3, padding=1)}))

    def features(self, x):
        x = self.before_RG(x.permute(0, 2, 3, 1))
        for layer in self.layers:
            y = x
            for block in layer["blocks"]:
                y = block(y)
            x = x + layer["conv"](y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return self.norm(x).permute(0, 3, 1, 2)


class NoBiasNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.weight)


class UnetBlock(nn.Module):
    """torchvision's, whose shift is off on an axis of one window."""

    def __init__(self, width, window, shift, heads, norm):
        super().__init__()
        make = NoBiasNorm if norm else lambda _: nn.Identity()
        self.window, self.shift = window, shift
        self.norm1, self.attn, self.norm2 = make(width), WindowAttention(width, window, heads), make(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0), nn.Linear(2 * width, width))

    def forward(self, x):
        height, width = x.shape[1:3]
        assert min(height, width) > self.window
        y = torch.roll(self.norm1(x), (-self.shift, -self.shift), (1, 2))
        mask = seam_mask(height, width, self.window, self.shift) if self.shift else None
        y = image_of(self.attn(windows_of(y, self.window), mask), self.window, height, width)
        x = x + torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + self.mlp(self.norm2(x))


class SwinUnet(nn.Module):
    """nunif's swin_unet; the image's edge is repeated up to what its tiles need."""

    def __init__(self, scale, width=96, norm=False):
        super().__init__()
        heads, wide = width // 16, 2 * width
        def stage(channels, blocks=2):
            made = [UnetBlock(channels, 6, i % 2 * 3, heads, norm) for i in range(blocks)]
            return nn.ModuleDict({"block": nn.Sequential(*made)})
        unet = nn.ModuleDict({
            "patch": nn.Sequential(nn.Conv2d(3, width // 2, 3), nn.LeakyReLU(0.1), nn.Conv2d(width // 2, width, 3),
                                   nn.LeakyReLU(0.1)),
            "swin1": stage(width), "down1": nn.ModuleDict({"conv": nn.Conv2d(width, wide, 2, 2)}),
            "swin2": stage(wide), "down2": nn.ModuleDict({"conv": nn.Conv2d(wide, wide, 2, 2)}),
            "swin3": stage(wide, 6), "up2": nn.ModuleDict({"proj": nn.Linear(wide, 4 * wide)}), "swin4": stage(wide)})
        last = wide if scale == 4 else width
        unet["up1"] = nn.ModuleDict({"proj": nn.Linear(wide, 4 * last)})
        if scale == 4:
            unet["proj2"] = nn.Linear(width, wide)
        unet["swin5"] = stage(last)
        unet["to_image"] = nn.ModuleDict({"proj": nn.Linear(last, 3 * scale**2)})
        self.scale, self.unet = scale, unet
        unet["to_image"]["proj"].bias.data.fill_(0.5)

    def published(self):
        return {"nunif_model": 1, "name": f"waifu2x.swin_unet_{self.scale}x", "kwargs": {"in_channels": 3},
                "state_dict": self.state_dict()}

    def forward(self, x):
        unet = self.unet
        def stage(name, y):
            return unet[name]["block"](y)
        def down(name, y):
            return unet[name]["conv"](y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        def up(name, y):
            return F.pixel_shuffle(unet[name]["proj"](y).permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)
        height, width = x.shape[2:]
        x = F.pad(x, (8, 8 + -width % 48, 8, 8 + -height % 48), mode="replicate")
        first = stage("swin1", unet["patch"](x)[:, :, 6:-6, 6:-6].permute(0, 2, 3, 1))
        middle = stage("swin2", down("down1", first))
        y = up("up2", stage("swin3", down("down2", middle)))
        y = up("up1", stage("swin4", y + middle))
        y = stage("swin5", y + (unet["proj2"](first) if "proj2" in unet else first))
        y = unet["to_image"]["proj"](y).permute(0, 3, 1, 2)
        if self.scale > 1:
            y = F.pixel_shuffle(y, self.scale)
        return y.clamp(0, 1)[:, :, :height * self.scale, :width * self.scale]


class SrResNet(nn.Module):
    """BasicSR's MSRResNet."""

    def __init__(self, scale, blocks, width):
        super().__init__()
        def conv(inputs=width, outputs=width):
            return nn.Conv2d(inputs, outputs, 3, padding=1)
        self.scale = scale
        self.conv_first, self.body = conv(3), nn.Sequential(*[Residual(width) for _ in range(blocks)])
        self.steps = {1: [], 2: [2], 3: [3], 4: [2, 2]}[scale]
        for i, factor in enumerate(self.steps):
            setattr(self, f"upconv{i + 1}", conv(width, width * factor**2))
        self.conv_hr, self.conv_last = conv(), conv(width, 3)

    def forward(self, x):
        y = self.body(F.leaky_relu(self.conv_first(x), 0.1))
        for i, factor in enumerate(self.steps):
            y = F.leaky_relu(F.pixel_shuffle(getattr(self, f"upconv{i + 1}")(y), factor), 0.1)
        y = self.conv_last(F.leaky_relu(self.conv_hr(y), 0.1))
        return y + (F.interpolate(x, scale_factor=self.scale, mode="bilinear", align_corners=False)
                    if self.scale > 1 else x)


class SwiftSrgan(nn.Module):
    def __init__(self, scale, blocks, width):
        super().__init__()
        def separable(inputs=width, outputs=width, kernel=3):
            module = nn.Module()
            module.depthwise = nn.Conv2d(inputs, inputs, kernel, padding=kernel // 2, groups=inputs)
            module.pointwise = nn.Conv2d(inputs, outputs, 1)
            module.forward = lambda x: module.pointwise(module.depthwise(x))
            return module
        def prelu():
            act = nn.PReLU(width)
            nn.init.uniform_(act.weight, -0.2, 0.5)
            return act
        def norm():
            module = nn.BatchNorm2d(width)
            for tensor, least in ((module.running_mean, -0.5), (module.running_var, 0.5), (module.weight, 0.5),
                                  (module.bias, -0.5)):
                nn.init.uniform_(tensor, least, least + 1)
            return module
        def block(act):
            module = nn.Module()
            module.cnn, module.bn = separable(), norm()
            if act:
                module.act = prelu()
            module.forward = lambda x: module.act(module.bn(module.cnn(x))) if act else module.bn(module.cnn(x))
            return module
        def residual():
            module = nn.Module()
            module.block1, module.block2 = block(True), block(False)
            module.forward = lambda x: x + module.block2(module.block1(x))
            return module
        def doubling():
            module = nn.Module()
            module.conv, module.act = separable(width, 4 * width), prelu()
            module.forward = lambda x: module.act(F.pixel_shuffle(module.conv(x), 2))
            return module
        self.initial = nn.Module()
        self.initial.cnn, self.initial.act = separable(3, width, 9), prelu()
        self.residuals = nn.Sequential(*[residual() for _ in range(blocks)])
        self.convblock = block(False)
        self.upsamples = nn.Sequential(*[doubling() for _ in range(scale.bit_length() - 1)])
        self.final_conv = separable(width, 3, 9)

    def forward(self, x):
        initial = self.initial.act(self.initial.cnn(x))
        y = self.upsamples(self.convblock(self.residuals(initial)) + initial)
        return (torch.tanh(self.final_conv(y)) + 1) / 2


class SpanPlus(nn.Module):
    def __init__(self, scale, width=48, stages=(4,), conv=False, samples=False):
        super().__init__()
        self.feats = nn.Sequential(Conv3XC(3, width), *[SpanStage(width, blocks) for blocks in stages])
        if samples:
            self.upsampler = DySample(width, scale)
            return
        last = nn.Conv2d(width, 3 * scale**2, 3, padding=1)
        self.upsampler = last if conv else nn.Sequential(last, nn.PixelShuffle(scale))

    def forward(self, x):
        return self.upsampler(self.feats(x))


class SpanStage(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        def spab():
            module = Spab(width)
            module.act1 = nn.Mish(inplace=True)
            return module
        self.block_1, self.block_n = spab(), nn.ModuleList([spab() for _ in range(blocks)])
        self.block_end, self.conv_2 = spab(), Conv3XC(width, width)
        self.conv_cat = nn.Conv2d(4 * width, width, 1)

    def forward(self, x):
        first = self.block_1(x)[0]
        y = first
        for block in self.block_n:
            y = block(y)[0]
        y, middle = self.block_end(y)
        return self.conv_cat(torch.cat([x, self.conv_2(y), first, middle], 1))


class Nunif(nn.Module):
    """waifu2x's vgg_7 and upconv_7, and its cunets, as nunif stores them."""

    def __init__(self, widths=(), inner=None):
        super().__init__()
        self.inner, self.border = inner, 7
        if inner is None:
            layers = []
            for inputs, outputs in zip((3, *widths), widths):
                layers += [nn.Conv2d(inputs, outputs, 3), nn.LeakyReLU(0.1, inplace=True)]
            up = widths[-1] == 256
            layers.append(nn.ConvTranspose2d(256, 3, 4, 2, 3) if up else nn.Conv2d(widths[-1], 3, 3))
            self.net = nn.Sequential(*layers)

    def published(self):
        tensors = self.inner.state_dict() if self.inner else self.state_dict()
        return {"nunif_model": 1, "name": "waifu2x", "kwargs": {"in_channels": 3}, "state_dict": tensors}

    def forward(self, x):
        return self.inner(x) if self.inner else self.net(F.pad(x, (self.border,) * 4, mode="replicate"))


class Espcn(nn.Module):
    """A row of convolutions."""

    def __init__(self, scale, convs=7, width=48):
        super().__init__()
        self.scale, self.convs = scale, convs
        for i in range(1, convs + 1):
            outputs = width if i < convs else 3 * scale ** 2
            setattr(self, f"conv{i}", nn.Conv2d(width if i > 1 else 3, outputs, 3))

    def activated(self, x, number):
        return F.leaky_relu(x, 0.1)

    def forward(self, x):
        x = F.pad(x, (self.convs,) * 4, mode="replicate")
        for i in range(1, self.convs):
            x = self.activated(getattr(self, f"conv{i}")(x), i)
        return F.pixel_shuffle(getattr(self, f"conv{self.convs}")(x), self.scale)


class ResidualEspcn(nn.Module):
    """The enlarged image added, slopes of one layer learnt, as the bundled models have it."""

    def __init__(self, scale):
        super().__init__()
        self.residual = Espcn(scale)
        self.residual.prelu6 = nn.PReLU(48)
        nn.init.uniform_(self.residual.prelu6.weight, -0.2, 0.5)
        self.residual.activated = lambda x, i: self.residual.prelu6(x) if i == 6 else F.leaky_relu(x, 0.1)

    def forward(self, x):
        return self.residual(x) + F.interpolate(x, scale_factor=self.residual.scale, mode="nearest")


class DySample(nn.Module):
    """Enlarges by samples between pixels; `reach`: how far they move."""

    def __init__(self, channels, scale, groups=4, end=True, reach=4):
        super().__init__()
        self.scale, self.groups = scale, groups
        self.offset = nn.Conv2d(channels, 2 * groups * scale ** 2, 1)
        nn.init.normal_(self.offset.weight, std=reach / channels ** 0.5)
        self.scope = nn.Conv2d(channels, 2 * groups * scale ** 2, 1, bias=False)
        if end:
            self.end_conv = nn.Conv2d(channels, 3, 1)
        places = torch.arange((1 - scale) / 2, (scale - 1) / 2 + 1) / scale
        places = torch.stack(torch.meshgrid(places, places, indexing="ij")).transpose(1, 2)
        self.register_buffer("init_pos", places.repeat(1, groups, 1).reshape(1, -1, 1, 1))

    def forward(self, x):
        offset = self.offset(x) * self.scope(x).sigmoid() * 0.5 + self.init_pos
        height, width = x.shape[2:]
        offset = offset.view(1, 2, -1, height, width)
        at = torch.stack(torch.meshgrid(torch.arange(width) + 0.5, torch.arange(height) + 0.5, indexing="ij"))
        at = at.transpose(1, 2)[None, :, None]
        at = 2 * (at + offset) / torch.tensor([width, height]).view(1, 2, 1, 1, 1) - 1
        at = F.pixel_shuffle(at.view(1, -1, height, width), self.scale)
        at = at.view(2, self.groups, *at.shape[2:]).permute(1, 2, 3, 0)
        y = F.grid_sample(x.reshape(self.groups, -1, height, width), at, mode="bilinear", align_corners=False,
                          padding_mode="border")
        y = y.view(1, x.shape[1], *y.shape[2:])
        return self.end_conv(y) if hasattr(self, "end_conv") else y


class Plksr(nn.Module):
    """PLKSR (GELU) and RealPLKSR (Mish, and a dropout before the end), with its group normalisations or without."""

    def __init__(self, scale, blocks=2, width=32, kernel=17, real=False, gate=True, norm=False, samples=False):
        super().__init__()
        self.scale = scale
        def conv(inputs=width, outputs=width, side=3):
            return nn.Conv2d(inputs, outputs, side, padding=side // 2)
        def block():
            module = nn.Module()
            mixer = nn.Sequential(conv(width, 2 * width), nn.Mish() if real else nn.GELU(),
                                  conv(2 * width, width, 3 if real else 1))
            setattr(module, "channel_mixer" if real else "channe_mixer", mixer)
            module.lk = nn.Module()
            module.lk.conv = conv(width // 4, width // 4, kernel)
            module.attn = nn.Module()
            if gate:
                module.attn.f = nn.Sequential(conv(), nn.Sigmoid())
            module.refine = conv(side=1)
            if norm:
                module.norm = nn.GroupNorm(4, width)
                nn.init.uniform_(module.norm.weight, 0.5, 1.5)
                nn.init.normal_(module.norm.bias, std=0.2)
            def forward(x):
                y = mixer(x)
                y[:, :width // 4] = module.lk.conv(y[:, :width // 4])
                y = y * module.attn.f(y) if gate else y
                y = module.refine(y)
                return (module.norm(y) if norm else y) + x
            module.forward = forward
            return module
        self.feats = nn.Sequential(conv(3), *[block() for _ in range(blocks)], *[nn.Dropout2d(0)] * real,
                                   conv(width, 3 * scale ** 2))
        if samples:
            self.to_img = DySample(3 * scale ** 2, scale, 3 if scale % 2 else 4)

    def forward(self, x):
        y = self.feats(x) + torch.repeat_interleave(x, self.scale ** 2, dim=1)
        return self.to_img(y) if hasattr(self, "to_img") else F.pixel_shuffle(y, self.scale)


class LayerNorm(nn.Module):
    """Normalises each pixel over its channels."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))

    def forward(self, x):
        x = x - x.mean(1, keepdim=True)
        x = x / torch.sqrt(x.pow(2).mean(1, keepdim=True) + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class Mosr(nn.Module):
    def __init__(self, scale, blocks=2, width=24, convolved=24, mean_end=False, samples=False):
        super().__init__()
        self.scale, self.mean_end = scale, mean_end
        hidden = width * 3 // 2
        def conv(inputs=width, outputs=width, side=3, **options):
            return nn.Conv2d(inputs, outputs, side, padding=side // 2, **options)
        def block():
            module = nn.Module()
            module.norm, module.fc1, module.fc2 = LayerNorm(width), conv(width, 2 * hidden), conv(hidden, width)
            module.conv = conv(convolved, convolved, 7, groups=convolved)
            def forward(x):
                g, i, c = torch.split(module.fc1(module.norm(x)), [hidden, hidden - convolved, convolved], dim=1)
                y = module.fc2(F.mish(g) * torch.cat((i, module.conv(c)), dim=1))
                return F.mish(y) + (x - 0.5)
            module.forward = forward
            return module
        self.gblocks = nn.Sequential(conv(3), *[block() for _ in range(blocks)], conv(width, 2 * width), nn.Mish(),
                                     conv(2 * width, width), nn.Mish(), conv(side=1))
        self.shortcut = nn.Module()
        self.shortcut.block = nn.Sequential(conv(3), nn.Mish(), conv(), nn.Mish())
        self.shortcut.conv11 = conv(3, side=1)
        self.samples = samples
        if samples:
            self.upsampler = DySample(width, scale)
        elif mean_end:
            self.upsampler = nn.Module()
            self.upsampler.in_to_k = conv(width, 8 * 3 * scale ** 2)
        else:
            self.upsampler = nn.Sequential(conv(width, 3 * scale ** 2), nn.PixelShuffle(scale))

    def forward(self, x):
        y = self.gblocks(x) + (self.shortcut.block(x) + self.shortcut.conv11(x) - 0.5)
        if self.samples or not self.mean_end:
            return self.upsampler(y)
        y = self.upsampler.in_to_k(y)
        return F.pixel_shuffle(y.reshape(1, 8, -1, *y.shape[2:]).mean(dim=1), self.scale)


class SeqConv(nn.Module):
    """A 1x1 and a 3x3 convolution; the edge between them is the bias of the first."""

    def __init__(self, inputs, outputs):
        super().__init__()
        first, second = nn.Conv2d(inputs, 2 * outputs, 1), nn.Conv2d(2 * outputs, outputs, 3)
        self.k0, self.b0, self.k1, self.b1 = first.weight, first.bias, second.weight, second.bias

    def forward(self, x):
        x = F.pad(F.conv2d(x, self.k0), (1, 1, 1, 1)) + self.b0.view(1, -1, 1, 1)
        return F.conv2d(x, self.k1, self.b1)


class RepConv(nn.Module):
    """RTMoSR's convolution as it is trained."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1, self.conv2 = SeqConv(inputs, outputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv3 = Conv3XC(inputs, outputs)
        self.conv_3x3_rep = nn.Conv2d(inputs, outputs, 3, padding=1)  # stale: nobody may read it
        self.alpha = nn.Parameter(torch.randn(3) / 2)

    def forward(self, x):
        return self.alpha[0] * self.conv1(x) + self.alpha[1] * self.conv2(x) + self.alpha[2] * self.conv3(x)


class OmniShift(nn.Module):
    def __init__(self, width):
        super().__init__()
        for side in (1, 3, 5):
            setattr(self, f"conv{side}x{side}", nn.Conv2d(width, width, side, padding=side // 2, groups=width))
        for i in range(4):
            setattr(self, f"alpha{i + 1}", nn.Parameter(torch.randn(1, width, 1, 1)))
        self.conv5x5_reparam = nn.Conv2d(width, width, 5, padding=2, groups=width)  # stale: nobody may read it

    def forward(self, x):
        return (self.alpha1 * x + self.alpha2 * self.conv1x1(x) + self.alpha3 * self.conv3x3(x)
                + self.alpha4 * self.conv5x5(x))


class RtMosrBlock(nn.Module):
    def __init__(self, width, expansion, dccm, se):
        super().__init__()
        hidden, self.width = int(expansion * width), width
        self.norm = nn.Module()
        self.norm.scale, self.norm.offset = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))
        self.fc1 = RepConv(width, 2 * hidden)
        mixer = nn.Module()
        mixer.poll = nn.Sequential(nn.MaxPool2d(2, 2), RepConv(width, 4 * width))
        excite = nn.Module()
        if se:
            excite.squeezing = nn.Sequential(nn.Conv2d(4 * width, 2 * width, 1), nn.ReLU(),
                                             nn.Conv2d(2 * width, 4 * width, 1), nn.Hardsigmoid())
        self.conv = nn.Sequential(mixer, OmniShift(4 * width), excite, nn.PixelShuffle(2))
        self.fc2 = RepConv(hidden, width) if dccm else nn.Conv2d(hidden, width, 1)
        self.split = [hidden, hidden - width, width]

    def forward(self, x):
        y = x / (x.norm(2, dim=1, keepdim=True) * self.width**-0.5 + 1e-6)
        y = self.norm.scale[:, None, None] * y + self.norm.offset[:, None, None]
        g, i, c = torch.split(self.fc1(y), self.split, dim=1)
        c = self.conv[1](F.pixel_unshuffle(c, 2) + self.conv[0].poll(c))
        if hasattr(self.conv[2], "squeezing"):
            c = c * self.conv[2].squeezing(c.mean((2, 3), keepdim=True))
        return F.mish(self.fc2(F.mish(g) * torch.cat((i, self.conv[3](c)), dim=1))) + x


class RtMosr(nn.Module):
    def __init__(self, scale, width=16, blocks=2, expansion=2, unshuffle=1, dccm=True, se=True):
        super().__init__()
        self.scale, self.pad = scale, 2 * unshuffle
        first = RepConv(3 * unshuffle**2, width)
        self.to_feat = first if unshuffle == 1 else nn.Sequential(nn.PixelUnshuffle(unshuffle), first)
        self.body = nn.Sequential(*[RtMosrBlock(width, expansion, dccm, se) for _ in range(blocks)])
        self.to_img = nn.Sequential(RepConv(width, 3 * (scale * unshuffle)**2), nn.PixelShuffle(scale * unshuffle))

    def forward(self, x):
        height, width = x.shape[2:]
        y = F.pad(x, (0, -width % self.pad, 0, -height % self.pad), "reflect")
        y = self.to_img(self.body(self.to_feat(y)))
        return y[:, :, :height * self.scale, :width * self.scale] + F.interpolate(x, scale_factor=self.scale)


class MoEsrBlock(nn.Module):
    def __init__(self, width, expansion):
        super().__init__()
        hidden, share = int(expansion * width), width // 8
        self.norm, self.gamma = LayerNorm(width), nn.Parameter(torch.randn(1, width, 1, 1))
        self.fc1 = nn.Conv2d(width, 2 * hidden, 3, padding=1)
        self.conv = nn.Module()
        self.conv.dwconv_hw = nn.Conv2d(share, share, 3, padding=1, groups=share)
        self.conv.dwconv_w = nn.Conv2d(share, share, (1, 11), padding=(0, 5), groups=share)
        self.conv.dwconv_h = nn.Conv2d(share, share, (11, 1), padding=(5, 0), groups=share)
        self.fc2 = nn.Conv2d(hidden, width, 3, padding=1)
        self.split, self.shares = [hidden, hidden - width, width], [width - 3 * share] + 3 * [share]

    def forward(self, x):
        g, i, c = torch.split(self.fc1(self.norm(x)), self.split, dim=1)
        same, square, row, column = torch.split(c, self.shares, dim=1)
        c = torch.cat((same, self.conv.dwconv_hw(square), self.conv.dwconv_w(row), self.conv.dwconv_h(column)), dim=1)
        return F.mish(self.fc2(F.mish(g) * torch.cat((i, c), dim=1))) * self.gamma + x


class MoEsrGroup(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.blocks = nn.Sequential(*[MoEsrBlock(width, 1.5) for _ in range(blocks)])
        self.msg = nn.Module()
        self.msg.down = nn.Sequential(nn.Conv2d(width, width // 4, 3, padding=1), nn.PixelUnshuffle(2), nn.LeakyReLU(0.1))
        self.msg.gated = nn.Sequential(*[MoEsrBlock(width, 1.25) for _ in range(3)])
        self.msg.up = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.1))

    def forward(self, x):
        x = self.blocks(x)
        return self.msg.up(self.msg.gated(self.msg.down(x))) + x


class MoEsr(nn.Module):
    def __init__(self, scale, width=16, groups=1, blocks=2, ending="pixelshuffledirect", planes=3):
        super().__init__()
        self.scale = scale
        def conv(inputs=width, outputs=width):
            return nn.Conv2d(inputs, outputs, 3, padding=1)
        self.in_to_dim = conv(planes)
        self.blocks = nn.Sequential(*[MoEsrGroup(width, blocks) for _ in range(groups)])
        doublings = {2: 1, 4: 2, 8: 3}.get(scale, 0)
        if ending == "pixelshuffledirect":
            modules = [conv(width, planes * scale**2), nn.PixelShuffle(scale)]
        elif ending == "pixelshuffle":
            middle = 12
            shuffles = [(conv(middle, 4 * middle), nn.PixelShuffle(2)) for _ in range(doublings)]
            shuffles = shuffles or [(conv(middle, 9 * middle), nn.PixelShuffle(3))]
            modules = [conv(width, middle), nn.LeakyReLU(), *sum(shuffles, ()), conv(middle, planes)]
        elif ending == "nearest+conv":
            ups = [(conv(), nn.Upsample(scale_factor=2), nn.LeakyReLU(0.2)) for _ in range(doublings)]
            modules = [*sum(ups, ()), conv(), nn.LeakyReLU(0.2), conv(width, planes)]
        else:
            modules = [DySample(width, scale)]
        self.upscale = nn.Sequential(*modules)
        self.upscale.register_buffer("MetaUpsample", torch.tensor([1, 0, scale, width, planes, 12, 4], dtype=torch.uint8))

    def forward(self, x):
        height, width = x.shape[2:]
        first = self.in_to_dim(F.pad(x, (0, width % 2, 0, height % 2), "reflect"))
        return self.upscale(self.blocks(first) + first)[:, :, :height * self.scale, :width * self.scale]


class TokenAttention(nn.Module):
    """Omni-SR's, of tokens [window][token][channel]; with biases by distance, or none."""

    def __init__(self, width, window, biased):
        super().__init__()
        self.to_qkv, self.heads = nn.Linear(width, 3 * width, bias=False), 4
        self.to_out = nn.Sequential(nn.Linear(width, width, bias=False), nn.Dropout(0))
        self.biased = biased
        if biased:
            self.rel_pos_bias = nn.Embedding((2 * window - 1) ** 2, self.heads)
        places = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        distance = places[:, :, None] - places[:, None, :] + window - 1
        self.index = distance[0] * (2 * window - 1) + distance[1]

    def forward(self, x):
        n, tokens, width = x.shape
        q, k, v = self.to_qkv(x).reshape(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        if self.biased:
            scores = scores + self.rel_pos_bias(self.index).permute(2, 0, 1)
        return self.to_out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class OmniPart(nn.Module):
    """A part of a block, behind a norm and beside a skip: `attend` gives what is added."""

    def __init__(self, norm, parts, attend):
        super().__init__()
        self.norm, self.fn, self.attend = norm, nn.ModuleDict(parts) if isinstance(parts, dict) else parts, attend

    def forward(self, x):
        return self.attend(self.fn, self.norm, x) + x


class OmniBlock(nn.Module):
    def __init__(self, width, window, biased):
        super().__init__()
        self.window, heads = window, 4
        def conv(inputs=width, outputs=width, **options):
            return nn.Conv2d(inputs, outputs, 1, bias=False, **options)
        def depthwise(channels, bias=False):
            return nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=bias)
        def split(x, form):
            """[share][token][channel] of windows, or of the grids that are spread over the image."""
            n, c, height, width = x.shape
            a, b = (height // window, width // window)
            if form == "windows":
                return x.reshape(n, c, a, window, b, window).permute(0, 2, 4, 3, 5, 1).reshape(-1, window ** 2, c)
            return x.reshape(n, c, window, a, window, b).permute(0, 3, 5, 2, 4, 1).reshape(-1, window ** 2, c)
        def join(y, like, form):
            n, c, height, width = like.shape
            a, b = (height // window, width // window)
            y = y.reshape(n, a, b, window, window, c)
            order = (0, 5, 1, 3, 2, 4) if form == "windows" else (0, 5, 3, 1, 4, 2)
            return y.permute(*order).reshape(like.shape)
        def pixels(form):
            def attend(fn, norm, x):
                return join(fn(norm(split(x, form))), x, form)
            return OmniPart(nn.LayerNorm(width), TokenAttention(width, window, biased), attend)
        def channels(form):
            def attend(fn, norm, x):
                qkv = fn["qkv_dwconv"](fn["qkv"](norm(x)))
                n, c, height, wide = x.shape
                a, b = height // window, wide // window
                t = qkv.reshape(3, heads, c // heads, a, window, b, window)
                order = (0, 3, 5, 1, 2, 4, 6) if form == "windows" else (0, 4, 6, 1, 2, 3, 5)
                t = t.permute(*order)
                q, k, v = t.reshape(3, *t.shape[1:5], -1)
                y = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * fn.temperature).softmax(-1) @ v
                if form == "windows":
                    y = y.reshape(a, b, heads, c // heads, window, window).permute(2, 3, 0, 4, 1, 5)
                else:
                    y = y.reshape(window, window, heads, c // heads, a, b).permute(2, 3, 4, 0, 5, 1)
                return fn["project_out"](y.reshape(x.shape))
            part = OmniPart(LayerNorm(width), {"qkv": conv(width, 3 * width), "qkv_dwconv": depthwise(3 * width),
                                               "project_out": conv()}, attend)
            part.fn.temperature = nn.Parameter(torch.rand(heads, 1, 1) * 4)
            return part
        def forward_part():
            def gated(fn, norm, x):
                first, second = fn["dwconv"](fn["project_in"](norm(x))).chunk(2, dim=1)
                return fn["project_out"](F.gelu(first) * second)
            return OmniPart(LayerNorm(width), {"project_in": conv(width, 2 * width), "dwconv": depthwise(2 * width),
                                               "project_out": conv()}, gated)
        inverted = nn.Module()
        excite = nn.Module()
        excite.gate = nn.Sequential(nn.Identity(), nn.Linear(width, width // 4, bias=False), nn.SiLU(),
                                    nn.Linear(width // 4, width, bias=False), nn.Sigmoid())
        excite.forward = lambda x: x * excite.gate(x.mean((2, 3)))[:, :, None, None]
        inverted.fn = nn.Sequential(nn.Conv2d(width, width, 1), nn.GELU(), depthwise(width, True), nn.GELU(), excite,
                                    nn.Conv2d(width, width, 1))
        inverted.forward = lambda x: inverted.fn(x) + x
        skip = nn.Identity
        self.layer = nn.Sequential(inverted, skip(), pixels("windows"), skip(), forward_part(), channels("windows"),
                                   forward_part(), skip(), pixels("grids"), skip(), forward_part(), channels("grids"),
                                   forward_part())

    def forward(self, x):
        return self.layer(x)


class SpatialFactors(nn.Module):
    def __init__(self, width):
        super().__init__()
        narrow = max(width // 4, 16)
        self.conv1, self.conv_f = nn.Conv2d(width, narrow, 1), nn.Conv2d(narrow, narrow, 1)
        self.conv2, self.conv3 = nn.Conv2d(narrow, narrow, 3, 2), nn.Conv2d(narrow, narrow, 3, padding=1)
        self.conv4 = nn.Conv2d(narrow, width, 1)

    def forward(self, x):
        y = self.conv1(x)
        around = self.conv3(F.max_pool2d(self.conv2(y), 7, 3))
        around = F.interpolate(around, x.shape[2:], mode="bilinear", align_corners=False)
        return x * torch.sigmoid(self.conv4(around + self.conv_f(y)))


class OmniSr(nn.Module):
    def __init__(self, scale, width=64, groups=2, blocks=1, window=8, biased=True, counted=False):
        super().__init__()
        self.scale, self.window, self.counted = scale, window, counted
        def group():
            module = nn.Module()
            module.residual_layer = nn.Sequential(*[OmniBlock(width, window, biased) for _ in range(blocks)],
                                                  nn.Conv2d(width, width, 1))
            module.esa = SpatialFactors(width)
            module.forward = lambda x: module.esa(module.residual_layer(x) + x)
            return module
        self.residual_layer = nn.Sequential(*[group() for _ in range(groups)])
        self.input, self.output = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.up = nn.Sequential(nn.Conv2d(width, 3 * scale ** 2, 3, padding=1), nn.PixelShuffle(scale))

    def published(self):
        tensors = dict(self.state_dict())
        if self.counted:  # by a tool that leaves its counts in the file
            tensors.update({"total_ops": torch.zeros(1), "input.total_params": torch.zeros(1)})
        return tensors

    def forward(self, x):
        height, width = x.shape[2:]
        first = self.input(F.pad(x, (0, -width % self.window, 0, -height % self.window)))
        y = self.up(self.output(self.residual_layer(first)) + first)
        return y[:, :, :height * self.scale, :width * self.scale]


class DenseBlocks(nn.Module):
    """A residual block of three dense blocks, as ESRGAN names it."""

    def __init__(self, width, growth):
        super().__init__()
        for i in range(1, 4):
            dense = nn.Module()
            for j in range(5):
                conv = nn.Conv2d(width + j * growth, growth if j < 4 else width, 3, padding=1)
                setattr(dense, f"conv{j + 1}", nn.Sequential(conv, *[nn.LeakyReLU(0.2)] * (j < 4)))
            setattr(self, f"RDB{i}", dense)

    def forward(self, x):
        y = x
        for dense in (self.RDB1, self.RDB2, self.RDB3):
            parts = [y]
            for j in range(1, 6):
                parts.append(getattr(dense, f"conv{j}")(torch.cat(parts, 1)))
            y = parts[-1] * 0.2 + y
        return y * 0.2 + x


class Spsr(nn.Module):
    def __init__(self, scale, blocks, width=64, growth=32):
        super().__init__()
        def conv(inputs=width, outputs=width, curve=False):
            return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), *[nn.LeakyReLU(0.2)] * curve)
        def doublings():
            return [m for _ in range(scale.bit_length() - 1) for m in (nn.Upsample(scale_factor=2), *conv(curve=True))]
        gradient = torch.tensor([[0., 0, 0], [-1, 0, 1], [0, 0, 0]])
        self.get_g_nopadding = nn.Module()
        self.get_g_nopadding.weight_h = nn.Parameter(gradient[None, None])
        self.get_g_nopadding.weight_v = nn.Parameter(gradient.T[None, None].clone())
        trunk = nn.Module()
        trunk.sub = nn.Sequential(*[DenseBlocks(width, growth) for _ in range(blocks)], conv()[0])
        self.HR_conv0_new, self.HR_conv1_new = conv(curve=True), conv()
        self.model = nn.Sequential(conv(3)[0], trunk, *doublings(), *self.HR_conv0_new)
        self.b_fea_conv, self.b_LR_conv = conv(3), conv()
        for i in range(1, 5):
            setattr(self, f"b_block_{i}", DenseBlocks(2 * width, growth))
            setattr(self, f"b_concat_{i}", conv(2 * width))
        self.b_module = nn.Sequential(*doublings(), *conv(curve=True), *conv())
        self.conv_w = nn.Sequential(nn.Conv2d(width, 3, 1))
        self.f_block, self.f_concat = DenseBlocks(2 * width, growth), conv(2 * width)
        self.f_HR_conv0, self.f_HR_conv1 = conv(curve=True), conv(width, 3)

    def forward(self, x):
        planes = x.transpose(0, 1)
        squares = [F.conv2d(planes, getattr(self.get_g_nopadding, f"weight_{axis}"), padding=1) ** 2 for axis in "vh"]
        gradients = torch.sqrt(squares[0] + squares[1] + 1e-6).transpose(0, 1)
        first = self.model[0](x)
        x, seen = first, []
        for i, block in enumerate(self.model[1].sub):
            x = block(x)
            if i + 1 in (5, 10, 15, 20):
                seen.append(x)
        x = self.HR_conv1_new(self.model[2:](x + first))
        first = self.b_fea_conv(gradients)
        y = first
        for i, features in enumerate(seen, 1):
            y = getattr(self, f"b_concat_{i}")(getattr(self, f"b_block_{i}")(torch.cat([y, features], 1)))
        y = self.b_module(self.b_LR_conv(y) + first)
        y = self.f_concat(self.f_block(torch.cat([y, x], 1)))
        return self.f_HR_conv1(self.f_HR_conv0(y))


# Ways to write the tensors of a file of weights.

def views_of_one(tensors):
    """The same tensors as views of one storage, every other matrix transposed in it."""
    flat, views, place = torch.cat([t.flatten() for t in tensors.values()]), {}, 0
    for i, (name, tensor) in enumerate(tensors.items()):
        view = flat[place:place + tensor.numel()]
        place += tensor.numel()
        if i % 2 == 0 and tensor.dim() > 1:
            view = view.view(*tensor.shape[1:], tensor.shape[0]).movedim(-1, 0)
        else:
            view = view.view(tensor.shape)
        views[name] = view.copy_(tensor)
    return views


def checkpoint(tensors):
    """As PyTorch Lightning writes it, with the state of an optimiser that has made a step."""
    parameters = [nn.Parameter(t.clone()) for t in tensors.values()]
    optimizer = torch.optim.Adam(parameters)
    sum(p.sum() for p in parameters).backward()
    optimizer.step()
    return {"epoch": 3, "global_step": 2**33, "pytorch-lightning_version": "1.9.0", "loops": None,
            "state_dict": {f"model.{name}": value for name, value in tensors.items()},
            "optimizer_states": [optimizer.state_dict()], "lr_schedulers": [{"last_epoch": 3, "_last_lr": [1e-4]}],
            "hyper_parameters": {"scale": 4, "betas": (0.9, 0.999), "name": "r\u00e9seau", "ema": True}}


def old_pth(tensors, path):
    """As before PyTorch 1.6, of a network that was trained on several devices."""
    torch.save({f"module.{name}": value for name, value in tensors.items()}, path,
               _use_new_zipfile_serialization=False)


def safetensors(tensors, path):
    header, values = {"__metadata__": {"format": "pt"}}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [len(values), len(values) + len(raw)]}
        values += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + values)


EVERY_KIND = {
    "network.pth": lambda tensors, path: torch.save({"params_ema": tensors, "params": {}}, path),
    "old.pth": old_pth,
    "half.pth": lambda tensors, path: torch.save({name: value.half() for name, value in tensors.items()}, path),
    "bfloat16.pth": lambda tensors, path: torch.save({n: value.bfloat16() for n, value in tensors.items()}, path),
    "views.pth": lambda tensors, path: torch.save(views_of_one(tensors), path),
    "oldviews.pth": lambda tensors, path: old_pth(views_of_one(tensors), path),
    "model.pth": lambda tensors, path: torch.save({"model": tensors, "iteration": 250000}, path),
    "network.ckpt": lambda tensors, path: torch.save(checkpoint(tensors), path),
    "network.safetensors": safetensors,
}
ONE_KIND = {"network.pth": EVERY_KIND["network.pth"]}
NUNIF_KIND = {"network.pth": torch.save}


# Name: how to make it, the size of its image, and the files of its weights.
NETWORKS = {
    "compact-x4": (lambda: Srvgg(4), (9, 17), EVERY_KIND),
    "compact-x2-small": (lambda: Srvgg(2, convs=5, width=24), (18, 23), ONE_KIND),
    "compact-x1": (lambda: Srvgg(1, convs=8, width=48), (19, 22), ONE_KIND),
    "real-esrgan-x4": (lambda: Rrdb("real-esrgan", 23), (5, 7), ONE_KIND),
    "real-esrgan-x2": (lambda: Rrdb("real-esrgan", 2, unshuffle=2), (13, 18), ONE_KIND),
    "real-esrgan-x1": (lambda: Rrdb("real-esrgan", 2, unshuffle=4), (15, 21), ONE_KIND),
    "bsrgan-x2": (lambda: Rrdb("bsrgan", 2, ups=1), (9, 11), ONE_KIND),
    "esrgan-x4": (lambda: Rrdb("esrgan", 3), (9, 7), ONE_KIND),
    "esrgan-x1": (lambda: Rrdb("esrgan", 2, ups=0), (11, 13), ONE_KIND),
    "esrgan-x8": (lambda: Rrdb("esrgan", 1, width=32, growth=16, ups=3), (5, 7), EVERY_KIND),
    "esrgan-plus": (lambda: Rrdb("esrgan", 2, plus=True), (9, 11), ONE_KIND),
    "span-x4": (lambda: Span(4), (17, 23), EVERY_KIND),
    "span-x2": (lambda: Span(2, width=52, norm=False), (16, 21), ONE_KIND),
    "espcn-x2": (lambda: Espcn(2), (17, 23), ONE_KIND),
    "espcn-x2-residual": (lambda: ResidualEspcn(2), (17, 23), ONE_KIND),
    "artcnn-x2": (lambda: ArtCnn(2, 8, 64), (17, 22), EVERY_KIND),
    "artcnn-x4": (lambda: ArtCnn(4, 2, 24), (9, 11), ONE_KIND),
    "artcnn-luma-x2": (lambda: Luma(ArtCnn(2, 4, 32, planes=1), 2), (17, 22), ONE_KIND),
    "artcnn-luma-x3": (lambda: Luma(ArtCnn(3, 1, 16, planes=1), 3), (1, 13), ONE_KIND),
    "dis-x4": (lambda: Dis(4, 4, 32), (11, 17), EVERY_KIND),
    "dis-x3-depthwise": (lambda: Dis(3, 4, 24, depthwise=True), (13, 18), ONE_KIND),
    "dis-x1": (lambda: Dis(1, 3, 16), (14, 19), ONE_KIND),
    "dis-luma-x2": (lambda: Luma(Dis(2, 2, 16, depthwise=True, planes=1), 2), (12, 17), ONE_KIND),
    "plksr-x4": (lambda: Plksr(4, width=64), (15, 20), ONE_KIND),
    "real-plksr-x2": (lambda: Plksr(2, kernel=13, real=True), (21, 13), ONE_KIND),
    "real-plksr-x3-small": (lambda: Plksr(3, width=16, real=True, gate=False), (5, 9), ONE_KIND),
    "real-plksr-x4-norm": (lambda: Plksr(4, 9, real=True, norm=True), (13, 17), ONE_KIND),
    "real-plksr-x2-norm": (lambda: Plksr(2, real=True, norm=True), (22, 15), ONE_KIND),
    "real-plksr-x4-dysample": (lambda: Plksr(4, 9, real=True, norm=True, samples=True), (13, 17), ONE_KIND),
    "real-plksr-x3-dysample": (lambda: Plksr(3, width=16, real=True, samples=True), (11, 14), ONE_KIND),
    "mosr-x2-dysample": (lambda: Mosr(2, width=64, convolved=64, samples=True), (13, 18), ONE_KIND),
    "mosr-x4": (lambda: Mosr(4, width=64, convolved=64), (13, 17), ONE_KIND),
    "mosr-x2-mean": (lambda: Mosr(2, convolved=12, mean_end=True), (14, 19), ONE_KIND),
    "rtmosr-x4": (lambda: RtMosr(4), (13, 16), ONE_KIND),
    "rtmosr-x2-blocks": (lambda: RtMosr(2, 8, expansion=1.5, unshuffle=2, dccm=False), (17, 22), ONE_KIND),
    "rtmosr-x3-plain": (lambda: RtMosr(3, 8, 1, expansion=1, se=False), (8, 15), ONE_KIND),
    "moesr-x4": (lambda: MoEsr(4, 24), (13, 16), ONE_KIND),
    "moesr-x3-shuffle": (lambda: MoEsr(3, 16, 2, 1, "pixelshuffle"), (12, 9), ONE_KIND),
    "moesr-x4-nearest": (lambda: MoEsr(4, 16, ending="nearest+conv"), (9, 15), ONE_KIND),
    "moesr-x2-dysample": (lambda: MoEsr(2, 16, ending="dysample"), (14, 11), ONE_KIND),
    "moesr-luma-x1": (lambda: Luma(MoEsr(1, 16, 1, 1, planes=1), 1), (15, 12), ONE_KIND),
    "compact-luma-x2": (lambda: Luma(Srvgg(2, convs=5, width=16, planes=1), 2), (13, 18), ONE_KIND),
    "compact-rgba-x4": (lambda: Rgba(Srvgg(4, convs=4, width=16, planes=4)), (11, 9), ONE_KIND),
    "esrgan-luma-x4": (lambda: Luma(Rrdb("esrgan", 2, width=32, growth=16, planes=1), 4), (7, 9), ONE_KIND),
    "real-esrgan-rgba-x2": (lambda: Rgba(Rrdb("real-esrgan", 2, width=32, growth=16, unshuffle=2, planes=4)), (9, 12),
                            ONE_KIND),
    "cunet-x1": (lambda: Cunet(1, mode="replicate"), (21, 26), ONE_KIND),
    "cunet-x2": (lambda: Nunif(inner=Cunet(2, mode="replicate")), (21, 27), NUNIF_KIND),
    "cugan-x2": (lambda: Cunet(2), (21, 26), EVERY_KIND),
    "cugan-x2-odd": (lambda: Cunet(2), (20, 23), ONE_KIND),
    "cugan-fast-x2": (lambda: Cunet(2, fast=True), (45, 43), ONE_KIND),
    "cugan-x3": (lambda: Cunet(3), (21, 26), ONE_KIND),
    "cugan-x4": (lambda: Cunet(4), (21, 26), ONE_KIND),
    "cugan-pro-x2": (lambda: Cunet(2, pro=True), (21, 26), ONE_KIND),
    "edsr-x2": (lambda: Edsr(2, 3, 32), (11, 14), ONE_KIND),
    "edsr-x4-large": (lambda: Edsr(4, 2, 256), (5, 7), ONE_KIND),
    "edsr-x3-basicsr": (lambda: Edsr(3, 3, 24, basicsr=True), (9, 13), ONE_KIND),
    "rcan-x2": (lambda: Edsr(2, 2, 16, groups=2), (12, 15), ONE_KIND),
    "rcan-x4-basicsr": (lambda: Edsr(4, 2, 16, groups=2, basicsr=True), (9, 7), ONE_KIND),
    "swinir-x2": (lambda: SwinIr(2, 60, 2, 2, 6), (13, 18), ONE_KIND),
    "swinir-x3-direct": (lambda: SwinIr(3, 24, 1, 3, 4, ending="pixelshuffledirect"), (9, 23), ONE_KIND),
    "swinir-x4-real": (lambda: SwinIr(4, 36, 1, 2, 6, ending="nearest+conv", convs=3), (17, 12), ONE_KIND),
    "swinir-x1-jpeg": (lambda: SwinIr(1, 30, 1, 2, 3, window=7, ending=""), (20, 15), ONE_KIND),
    "swinir-luma-x1": (lambda: Luma(SwinIr(1, 24, 1, 2, 3, ending="", planes=1), 1), (15, 17), ONE_KIND),
    "swin2sr-x2": (lambda: Swin2Sr(2, 60, 2, 2, 6), (13, 18), ONE_KIND),
    "swin2sr-x4-real": (lambda: Swin2Sr(4, 36, 1, 3, 3, ending="nearest+conv"), (17, 12), ONE_KIND),
    "srformer-x2": (lambda: SrFormer(2, 24, 2, 2, 3), (21, 34), ONE_KIND),
    "srformer-x4-odd": (lambda: SrFormer(4, 36, 1, 3, 6, window=22), (45, 20), ONE_KIND),
    "srformer-x3-light": (lambda: SrFormer(3, 24, 1, 2, 2, window=12, ending="pixelshuffledirect"), (9, 23), ONE_KIND),
    "srformer-x1-odd": (lambda: SrFormer(1, 16, 1, 2, 2, window=6, ending=""), (20, 17), ONE_KIND),
    "scunet-x1": (lambda: Scunet(), (33, 70), ONE_KIND),
    "drct-x2": (lambda: Drct(2, 36, 2, 6, window=8, growth=12), (13, 18), ONE_KIND),
    "drct-x4": (lambda: Drct(4, 24, 1, 3), (17, 12), ONE_KIND),
    "hat-x2": (lambda: Hat(2, 36, 2, 2, 6, window=8), (13, 18), ONE_KIND),
    "hat-x4": (lambda: Hat(4, 24, 1, 3, 3), (17, 12), ONE_KIND),
    "dat-x2": (lambda: Dat(2, 48, (4, 3), 6, (2, 8)), (13, 21), ONE_KIND),
    "dat-x3-light": (lambda: Dat(3, 32, (5,), 4, (4, 16), 2, "pixelshuffledirect"), (15, 18), ONE_KIND),
    "dat-x4-square": (lambda: Dat(4, 64, (1, 2), 2, (8, 8)), (9, 12), ONE_KIND),
    "omnisr-x2": (lambda: OmniSr(2), (13, 18), ONE_KIND),
    "omnisr-x4": (lambda: OmniSr(4, 48, 1, 2, counted=True), (45, 22), ONE_KIND),
    "omnisr-x3-plain": (lambda: OmniSr(3, 32, 1, biased=False), (24, 31), ONE_KIND),
    "spsr-x4": (lambda: Spsr(4, 23, 16, 8), (9, 11), ONE_KIND),
    "spsr-x2": (lambda: Spsr(2, 20, 12, 4), (13, 8), ONE_KIND),
    "swin-unet-x1": (lambda: SwinUnet(1), (33, 47), NUNIF_KIND),
    "swin-unet-x2": (lambda: SwinUnet(2), (50, 31), NUNIF_KIND),
    "swin-unet-x4": (lambda: SwinUnet(4, 48), (49, 20), NUNIF_KIND),
    "swin-unet-x4-norm": (lambda: SwinUnet(4, 48, norm=True), (15, 48), NUNIF_KIND),
    "srresnet-x4": (lambda: SrResNet(4, 3, 32), (9, 11), ONE_KIND),
    "srresnet-x1": (lambda: SrResNet(1, 2, 16), (13, 10), ONE_KIND),
    "srresnet-x3": (lambda: SrResNet(3, 2, 16), (8, 11), ONE_KIND),
    "swift-srgan-x2": (lambda: SwiftSrgan(2, 2, 16), (13, 16), ONE_KIND),
    "swift-srgan-x4": (lambda: SwiftSrgan(4, 2, 24), (9, 11), ONE_KIND),
    "spanplus-x4": (lambda: SpanPlus(4), (13, 17), ONE_KIND),
    "spanplus-x2-stages": (lambda: SpanPlus(2, 32, (2, 1)), (16, 11), ONE_KIND),
    "spanplus-x2-dysample": (lambda: SpanPlus(2, 32, (2,), samples=True), (13, 18), ONE_KIND),
    "spanplus-x1": (lambda: SpanPlus(1, 32, (2,), conv=True), (14, 17), ONE_KIND),
    "nunif-vgg7": (lambda: Nunif((32, 32, 64, 64, 128, 128)), (17, 22), NUNIF_KIND),
    "nunif-upconv7": (lambda: Nunif((16, 32, 64, 128, 128, 256)), (17, 22), NUNIF_KIND),
}


def write(folder, make, size, kinds):
    model = make().eval()
    with torch.no_grad():
        x = torch.rand(1, 3, *size)
        if isinstance(model, (Rrdb, Span)):  # to the size of an image's values
            last = model.last if isinstance(model, Rrdb) else model.upsampler[0]
            last.weight.mul_(0.25 / model(x).std())
            last.bias.fill_(0.5)
        for parameter in model.parameters():  # as files of halves will hold them
            parameter.copy_(parameter.bfloat16().half().float())
        public_networks.write_planes(folder / "image.planes", x)
        public_networks.write_planes(folder / "result.planes", model(x))
    tensors = model.published() if hasattr(model, "published") else model.state_dict()
    for name, save in kinds.items():
        save(tensors, folder / name)


if __name__ == "__main__":
    public_networks.write_all(NETWORKS, write)
