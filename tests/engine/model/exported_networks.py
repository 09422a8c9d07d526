#!/usr/bin/env python3
"""Writes networks as people export them, and what PyTorch computes with them.

    exported_networks.py FOLDER SEED [OPSET...]

FOLDER gets a folder for each network, operator set, and free or fixed size, with network.onnx, image.planes and
result.planes as public_networks.py writes them. The networks have random weights and the forward functions of the
projects that publish them, as far as these leave traces in the file. Exits with 77 where there is no PyTorch.
"""
import pathlib
import sys

import public_networks  # which exits where there is no PyTorch
import published_weights
import torch
from torch import nn
from torch.nn import functional as F


class Unshuffled(published_weights.Rrdb):
    """Real-ESRGAN's x2plus as BasicSR has it: blocks of pixels by views, no padding."""

    def __init__(self, spell):
        super().__init__("real-esrgan", 1, width=32, growth=16, unshuffle=2)
        self.spell = spell

    def forward(self, x):
        if self.spell == "views":
            b, c, height, width = x.size()
            x = x.view(b, c, height // 2, 2, width // 2, 2).permute(0, 1, 3, 5, 2, 4).reshape(b, c * 4, height // 2, width // 2)
        else:
            x = F.pixel_unshuffle(x, 2)
        first = self.first(x)
        y = first
        for dense in self.blocks[0]:
            y = dense(y)
        y = self.trunk(y * 0.2 + first) + first
        for up in self.ups:
            y = F.leaky_relu(up(F.interpolate(y, scale_factor=2, mode="nearest")), 0.2)
        return self.last(F.leaky_relu(self.hr(y), 0.2))


class PadToMultiple(published_weights.Rrdb):
    """Real-ESRGAN's x2plus behind a border, as spandrel has it."""

    def __init__(self, mode):
        super().__init__("real-esrgan", 1, width=32, growth=16, unshuffle=2)
        self.mode = mode

    def forward(self, x):
        _, _, height, width = x.size()
        pad_h, pad_w = (2 - height % 2) % 2, (2 - width % 2) % 2
        y = F.pad(x, (0, pad_w, 0, pad_h), self.mode)
        return Unshuffled.forward(self, y)[:, :, :height * 2, :width * 2]

    spell = "operator"


class PartialConv(nn.Module):
    def __init__(self, width, split):
        super().__init__()
        self.split, self.in_place = width // 4, not split
        self.conv = nn.Conv2d(self.split, self.split, 13, padding=6)

    def forward(self, x):
        if self.in_place:
            x[:, :self.split] = self.conv(x[:, :self.split])
            return x
        first, rest = torch.split(x, [self.split, x.size(1) - self.split], dim=1)
        return torch.cat([self.conv(first), rest], dim=1)


class Plksr(nn.Module):
    """PLKSR and RealPLKSR as published: in place or split, repeated channels."""

    def __init__(self, scale, real, norm=False, split=False, width=16, blocks=2):
        super().__init__()
        self.scale = scale

        def block():
            module = nn.Module()
            module.mixer = nn.Sequential(nn.Conv2d(width, 2 * width, 3, 1, 1), nn.Mish() if real else nn.GELU(),
                                         nn.Conv2d(2 * width, width, 3 if real else 1, 1, 1 if real else 0))
            module.lk = PartialConv(width, split)
            module.attn = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1), nn.Sigmoid())
            module.refine = nn.Conv2d(width, width, 1)
            module.norm = nn.GroupNorm(4, width) if norm else nn.Identity()
            if norm:
                nn.init.uniform_(module.norm.weight, 0.5, 1.5)
                nn.init.normal_(module.norm.bias, std=0.2)

            def forward(x):
                y = module.lk(module.mixer(x))
                y = y * module.attn(y)
                return module.norm(module.refine(y)) + x
            module.forward = forward
            return module
        self.feats = nn.Sequential(nn.Conv2d(3, width, 3, 1, 1), *[block() for _ in range(blocks)],
                                   nn.Conv2d(width, 3 * scale ** 2, 3, 1, 1))
        self.to_img = nn.PixelShuffle(scale)

    def forward(self, x):
        return self.to_img(self.feats(x) + torch.repeat_interleave(x, self.scale ** 2, dim=1))


class Rcan(nn.Module):
    def __init__(self, scale, width=16):
        super().__init__()
        conv = lambda a, b, side=3: nn.Conv2d(a, b, side, padding=side // 2)

        def attention():
            module = nn.Module()
            module.avg_pool = nn.AdaptiveAvgPool2d(1)
            module.conv_du = nn.Sequential(nn.Conv2d(width, width // 4, 1), nn.ReLU(inplace=True),
                                           nn.Conv2d(width // 4, width, 1), nn.Sigmoid())
            module.forward = lambda x: x * module.conv_du(module.avg_pool(x))
            return module

        def block():
            module = nn.Module()
            module.body = nn.Sequential(conv(width, width), nn.ReLU(True), conv(width, width), attention())
            module.forward = lambda x: module.body(x) + x
            return module
        self.sub_mean, self.add_mean = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)
        self.head, self.last = conv(3, width), conv(width, width)
        self.body = nn.Sequential(*[block() for _ in range(2)], conv(width, width))
        self.tail = nn.Sequential(conv(width, 4 * width), nn.PixelShuffle(2), conv(width, 4 * width), nn.PixelShuffle(2),
                                  conv(width, 3))

    def forward(self, x):
        x = self.head(self.sub_mean(x))
        return self.add_mean(self.tail(self.body(x) + x))


class EvalConv(nn.Module):
    """SPAN's convolution: merged in forward, as its project does it."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.parts = published_weights.Conv3XC(inputs, outputs)
        self.eval_conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def update_params(self):
        w1, b1 = self.parts.conv[0].weight.data.clone().detach(), self.parts.conv[0].bias.data.clone().detach()
        w2, b2 = self.parts.conv[1].weight.data.clone().detach(), self.parts.conv[1].bias.data.clone().detach()
        w3, b3 = self.parts.conv[2].weight.data.clone().detach(), self.parts.conv[2].bias.data.clone().detach()
        w = F.conv2d(w1.flip(2, 3).permute(1, 0, 2, 3), w2, padding=2, stride=1).flip(2, 3).permute(1, 0, 2, 3)
        b = (w2 * b1.reshape(1, -1, 1, 1)).sum((1, 2, 3)) + b2
        weight = F.conv2d(w.flip(2, 3).permute(1, 0, 2, 3), w3, padding=0, stride=1).flip(2, 3).permute(1, 0, 2, 3)
        bias = (w3 * b.reshape(1, -1, 1, 1)).sum((1, 2, 3)) + b3
        sk_w, sk_b = self.parts.sk.weight.data.clone().detach(), self.parts.sk.bias.data.clone().detach()
        self.eval_conv.weight.data = weight + F.pad(sk_w, [1, 1, 1, 1])
        self.eval_conv.bias.data = bias + sk_b

    def forward(self, x):
        self.update_params()
        return self.eval_conv(x)


class Span(nn.Module):
    """SPAN, and SPANPlus with Mish and its own end."""

    def __init__(self, scale, plus=False, width=24):
        super().__init__()
        self.plus, act = plus, nn.Mish if plus else nn.SiLU

        def block():
            module = nn.Module()
            module.c1_r, module.c2_r, module.c3_r = (EvalConv(width, width) for _ in range(3))
            module.act = act(inplace=True)

            def forward(x):
                out1 = module.c1_r(x)
                out1_act = module.act(out1)
                out3 = module.c3_r(module.act(module.c2_r(out1_act)))
                return (out3 + x) * (torch.sigmoid(out3) - 0.5), out1
            module.forward = forward
            return module
        self.conv_1, self.conv_2 = EvalConv(3, width), EvalConv(width, width)
        self.blocks = nn.ModuleList([block() for _ in range(3)])
        self.conv_cat = nn.Conv2d(4 * width, width, 1)
        nn.init.trunc_normal_(self.conv_cat.weight, std=0.02)
        self.upsampler = nn.Sequential(nn.Conv2d(width, 3 * scale ** 2, 3, padding=1), nn.PixelShuffle(scale))
        self.mean = torch.Tensor((0.4488, 0.4371, 0.4040)).view(1, 3, 1, 1)

    def forward(self, x):
        if not self.plus:
            self.mean = self.mean.type_as(x)
            x = (x - self.mean) * 1.0
        features = self.conv_1(x)
        first, _ = self.blocks[0](features)
        y, _ = self.blocks[1](first)
        y, middle = self.blocks[2](y)
        return self.upsampler(self.conv_cat(torch.cat([features, self.conv_2(y), first, middle], 1)))


def waifu_convs(widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Conv2d(a, b, 3), nn.LeakyReLU(0.1)]
    return layers


class Vgg7(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*waifu_convs([3, 32, 32, 64, 64, 128, 128]), nn.Conv2d(128, 3, 3))

    def forward(self, x):
        return torch.clamp(self.net(x), 0.0, 1.0)


class Upconv7(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*waifu_convs([3, 16, 32, 64, 128, 128, 256]), nn.ConvTranspose2d(256, 3, 4, 2, 3))

    def forward(self, x):
        return torch.clamp(self.net(x), 0.0, 1.0)


class Waifu(nn.Module):
    """nunif's cunet and upcunet: valid convolutions, no border."""

    def __init__(self, factor):
        super().__init__()
        self.unet1, self.unet2 = published_weights.Unet1(3, 3, factor), published_weights.Unet2(3, 3)

    def forward(self, x):
        first = self.unet1(x)
        return torch.clamp(F.pad(first, (-20,) * 4) + self.unet2(first), 0.0, 1.0)


class Cugan(published_weights.Cunet):
    """Real-CUGAN, which pads the image by itself."""

    def __init__(self, scale, mode, pro=False):
        super().__init__(scale, pro)
        self.mode = mode

    def forward(self, x):
        n, c, h0, w0 = x.shape
        if hasattr(self, "pro"):
            x = x * 0.7 + 0.15
        border, align = {2: (18, 2), 3: (14, 4), 4: (19, 2)}[self.scale]
        ph, pw = ((h0 - 1) // align + 1) * align, ((w0 - 1) // align + 1) * align
        image = x
        x = F.pad(x, (border, border + pw - w0, border, border + ph - h0), self.mode)
        x = self.unet1(x)
        x0 = self.unet2(x)
        x = F.pad(x, (-20, -20, -20, -20))
        x = torch.add(x0, x)
        if self.scale == 4:
            x = F.pixel_shuffle(F.pad(self.conv_final(x), (-1, -1, -1, -1)), 2)
        if w0 != pw or h0 != ph or torch.jit.is_tracing():
            x = x[:, :, :h0 * self.scale, :w0 * self.scale]
        if self.scale == 4:
            x = x + F.interpolate(image, scale_factor=4, mode="nearest")
        return (x - 0.15) / 0.7 if hasattr(self, "pro") else x


def attend_in_windows(x, attn, window, shift):
    """As torchvision computes it, of sizes that tracing takes for values."""
    _, height, width, channels = x.shape
    right, bottom = (window - width % window) % window, (window - height % window) % window
    x = F.pad(x, (0, 0, 0, right, 0, bottom))
    _, padded_height, padded_width, _ = x.shape
    if shift:
        x = torch.roll(x, shifts=(-shift, -shift), dims=(1, 2))
    rows, columns, tokens = padded_height // window, padded_width // window, window * window
    x = x.view(1, rows, window, columns, window, channels)
    x = x.permute(0, 1, 3, 2, 4, 5).reshape(rows * columns, tokens, channels)
    qkv = attn.qkv(x).reshape(x.size(0), x.size(1), 3, attn.heads, channels // attn.heads).permute(2, 0, 3, 1, 4)
    q, k, v = qkv[0], qkv[1], qkv[2]
    scores = (q * (channels // attn.heads) ** -0.5).matmul(k.transpose(-2, -1))
    bias = attn.relative_position_bias_table[attn.relative_position_index.view(-1)].view(tokens, tokens, -1)
    scores = scores + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
    if shift:
        mask = x.new_zeros((padded_height, padded_width))
        count = 0
        for down in ((0, -window), (-window, -shift), (-shift, None)):
            for across in ((0, -window), (-window, -shift), (-shift, None)):
                mask[down[0]:down[1], across[0]:across[1]] = count
                count += 1
        mask = mask.view(rows, window, columns, window).permute(0, 2, 1, 3).reshape(rows * columns, tokens)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        mask = mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0))
        scores = scores.view(x.size(0) // (rows * columns), rows * columns, attn.heads, x.size(1), x.size(1))
        scores = scores + mask.unsqueeze(1).unsqueeze(0)
        scores = scores.view(-1, attn.heads, x.size(1), x.size(1))
    x = F.softmax(scores, dim=-1).matmul(v).transpose(1, 2).reshape(x.size(0), x.size(1), channels)
    x = attn.proj(x).view(1, rows, columns, window, window, channels)
    x = x.permute(0, 1, 3, 2, 4, 5).reshape(1, padded_height, padded_width, channels)
    if shift:
        x = torch.roll(x, shifts=(shift, shift), dims=(1, 2))
    return x[:, :height, :width, :].contiguous()


class SwinUnet(published_weights.SwinUnet):
    """nunif's swin_unet: whoever runs it pads the image."""

    def forward(self, x):
        unet = self.unet
        def stage(name, y):
            for block in unet[name]["block"]:
                y = y + attend_in_windows(block.norm1(y), block.attn, block.window, block.shift)
                y = y + block.mlp(block.norm2(y))
            return y
        def down(name, y):
            return unet[name]["conv"](y.permute(0, 3, 1, 2).contiguous()).permute(0, 2, 3, 1).contiguous()
        def up(name, y):
            return F.pixel_shuffle(unet[name]["proj"](y).permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1).contiguous()
        first = stage("swin1", F.pad(unet["patch"](x), (-6, -6, -6, -6)).permute(0, 2, 3, 1).contiguous())
        middle = stage("swin2", down("down1", first))
        y = up("up2", stage("swin3", down("down2", middle)))
        y = up("up1", stage("swin4", y + middle))
        y = stage("swin5", y + (unet["proj2"](first) if "proj2" in unet else first))
        y = unet["to_image"]["proj"](y).permute(0, 3, 1, 2).contiguous()
        if self.scale > 1:
            y = F.pixel_shuffle(y, self.scale)
        return torch.clamp(y, 0, 1)


def partition(x, window):
    b, height, width, channels = x.shape
    x = x.view(b, height // window, window, width // window, window, channels)
    return x.permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, window, window, channels)


class SwinIr(published_weights.SwinIr):
    """SwinIR as its authors' code has it: tokens, windows by two reshapes, a mask for the size."""

    def mask(self, height, width, window, shift):
        parts = torch.zeros((1, height, width, 1))
        slices = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
        count = 0
        for down in slices:
            for across in slices:
                parts[:, down, across, :] = count
                count += 1
        parts = partition(parts, window).view(-1, window * window)
        mask = parts.unsqueeze(1) - parts.unsqueeze(2)
        return mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0))

    def attend(self, attn, x, mask):
        windows, count, channels = x.shape
        tokens, factor = attn.window * attn.window, (attn.qkv.in_features // attn.heads) ** -0.5
        qkv = attn.qkv(x).reshape(windows, count, 3, attn.heads, channels // attn.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = q * factor @ k.transpose(-2, -1)
        bias = attn.relative_position_bias_table[attn.relative_position_index.view(-1)].view(tokens, tokens, -1)
        scores = scores + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        if mask is not None:
            shared = mask.shape[0]
            scores = scores.view(windows // shared, shared, attn.heads, count, count) + mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, attn.heads, count, count)
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(windows, count, channels)
        return attn.proj(x)

    def block(self, block, x, size):
        (height, width), window, shift = size, block.window, block.shift
        b, _, channels = x.shape
        y = block.norm1(x).view(b, height, width, channels)
        if shift:
            y = torch.roll(y, shifts=(-shift, -shift), dims=(1, 2))
        y = partition(y, window).view(-1, window * window, channels)
        y = self.attend(block.attn, y, self.mask(height, width, window, shift) if shift else None)
        y = y.view(-1, window, window, channels)
        b = int(y.shape[0] / (height * width / window / window))
        y = y.view(b, height // window, width // window, window, window, -1)
        y = y.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, height, width, -1)
        if shift:
            y = torch.roll(y, shifts=(shift, shift), dims=(1, 2))
        x = x + y.view(-1, height * width, channels)
        return x + block.mlp["fc2"](F.gelu(block.mlp["fc1"](block.norm2(x))))

    def features(self, x):
        size, channels = (x.shape[2], x.shape[3]), x.shape[1]
        def planes(tokens):
            return tokens.transpose(1, 2).view(-1, channels, size[0], size[1])
        x = self.patch_embed["norm"](x.flatten(2).transpose(1, 2))
        for layer in self.layers:
            y = x
            for block in layer["residual_group"]["blocks"]:
                y = self.block(block, y, size)
            x = layer["conv"](planes(y)).flatten(2).transpose(1, 2) + x
        return planes(self.norm(x))


class Swin2Sr(published_weights.Swin2Sr):
    """Swin2SR as its authors' code has it: cosines, biases by a perceptron, norms behind."""

    mask = SwinIr.mask

    def attend(self, attn, x, mask):
        windows, count, channels = x.shape
        tokens, heads = self.window * self.window, attn.heads
        bias = torch.cat((attn.q_bias, torch.zeros_like(attn.v_bias, requires_grad=False), attn.v_bias))
        qkv = F.linear(input=x, weight=attn.qkv.weight, bias=bias)
        qkv = qkv.reshape(windows, count, 3, heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        scores = scores * torch.clamp(attn.logit_scale, max=torch.log(torch.tensor(1. / 0.01))).exp()
        table = attn.cpb_mlp(attn.relative_coords_table).view(-1, heads)
        bias = table[attn.relative_position_index.view(-1)].view(tokens, tokens, -1)
        bias = 16 * torch.sigmoid(bias.permute(2, 0, 1).contiguous())
        scores = scores + bias.unsqueeze(0)
        if mask is not None:
            shared = mask.shape[0]
            scores = scores.view(windows // shared, shared, heads, count, count) + mask.unsqueeze(1).unsqueeze(0)
            scores = scores.view(-1, heads, count, count)
        x = (scores.softmax(-1) @ v).transpose(1, 2).reshape(windows, count, channels)
        return attn.proj(x)

    def block(self, block, x, size):
        (height, width), window, shift = size, block.window, block.shift
        b, _, channels = x.shape
        y = x.view(b, height, width, channels)
        if shift:
            y = torch.roll(y, shifts=(-shift, -shift), dims=(1, 2))
        y = partition(y, window).view(-1, window * window, channels)
        y = self.attend(block.attn, y, self.mask(height, width, window, shift) if shift else None)
        y = y.view(-1, window, window, channels)
        b = int(y.shape[0] / (height * width / window / window))
        y = y.view(b, height // window, width // window, window, window, -1)
        y = y.permute(0, 1, 3, 2, 4, 5).contiguous().view(b, height, width, -1)
        if shift:
            y = torch.roll(y, shifts=(shift, shift), dims=(1, 2))
        x = x + block.norm1(y.view(-1, height * width, channels))
        return x + block.norm2(block.mlp["fc2"](F.gelu(block.mlp["fc1"](x))))

    def features(self, x):
        size, channels = (x.shape[2], x.shape[3]), x.shape[1]
        def planes(tokens):
            return tokens.transpose(1, 2).view(-1, channels, size[0], size[1])
        def tokens(embed, x):
            return embed["proj"](x).flatten(2).transpose(1, 2)
        x = self.patch_embed["norm"](tokens(self.patch_embed, x))
        for layer in self.layers:
            y = x
            for block in layer["residual_group"]["blocks"]:
                y = self.block(block, y, size)
            x = tokens(layer["patch_embed"], layer["conv"](planes(y))) + x
        return planes(self.norm(x))


class Tail(nn.Module):
    """Curves and rearrangements that the networks above do not have."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 12, 3, padding=1), nn.Conv2d(12, 3, 3, padding=1)
        self.linear, self.norm = nn.Linear(12, 12), nn.LayerNorm(12)
        self.batch = nn.BatchNorm2d(12)
        nn.init.uniform_(self.batch.running_mean), nn.init.uniform_(self.batch.running_var, 0.5, 2)
        nn.init.uniform_(self.norm.weight, 0.5, 2), nn.init.normal_(self.norm.bias)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.batch(torch.tanh(self.first(x)))
        y = self.linear(self.norm(y.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        y = F.gelu(y, approximate="tanh") + F.silu(y.view(b, 3, 4, h, w).transpose(1, 2).reshape(b, 12, h, w))
        y = torch.cat(torch.chunk(y, 3, dim=1)[::-1], 1)[:, [2, 1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11]]
        s = y.flatten(2).mean(-1).view(b, 12, 1, 1)
        return self.last(F.interpolate(y * torch.sigmoid(s), size=(h * 2, w * 2), mode="bilinear")) / 2


# Size of the image, and the border that the network consumes.
NETWORKS = {
    "esrgan-x2plus": (lambda: Unshuffled("views"), (12, 18)),
    "esrgan-x2plus-operator": (lambda: Unshuffled("operator"), (12, 18)),
    "esrgan-x2plus-edge": (lambda: PadToMultiple("replicate"), (13, 18)),
    "esrgan-x2plus-reflect": (lambda: PadToMultiple("reflect"), (13, 18)),
    "real-plksr": (lambda: Plksr(2, True, norm=True), (13, 17)),
    "real-plksr-split": (lambda: Plksr(4, True, split=True), (13, 17)),
    "plksr": (lambda: Plksr(2, False), (13, 17)),
    "mosr": (lambda: published_weights.Mosr(2, convolved=12), (13, 17)),
    "mosr-mean": (lambda: published_weights.Mosr(2, convolved=12, mean_end=True), (13, 17)),
    "rcan": (lambda: Rcan(4), (9, 13)),
    "cugan-x2": (lambda: Cugan(2, "replicate"), (21, 26)),
    "cugan-x2-reflect": (lambda: Cugan(2, "reflect"), (21, 26)),
    "cugan-x3-reflect": (lambda: Cugan(3, "reflect"), (21, 26)),
    "cugan-x4-reflect": (lambda: Cugan(4, "reflect"), (21, 26)),
    "cugan-pro-x2-reflect": (lambda: Cugan(2, "reflect", pro=True), (21, 26)),
    "span": (lambda: Span(2), (13, 17)),
    "spanplus": (lambda: Span(2, plus=True), (13, 17)),
    "vgg_7": (Vgg7, (24, 29), 7),
    "upconv_7": (Upconv7, (24, 29), 7),
    "cunet": (lambda: Waifu(1), (24, 28), 28),
    "upcunet": (lambda: Waifu(2), (22, 28), 18),
    "swin-unet-x1": (lambda: SwinUnet(1, 48), (48, 96), 8),
    "swin-unet-x2": (lambda: SwinUnet(2, 48), (96, 48), 8),
    "swin-unet-x4-norm": (lambda: SwinUnet(4, 48, norm=True), (48, 48), 8),
    "swinir-x2": (lambda: SwinIr(2, 24, 1, 2, 3), (21, 26)),
    "swinir-x4-real": (lambda: SwinIr(4, 24, 1, 2, 3, ending="nearest+conv"), (16, 24)),
    "swinir-x3-light": (lambda: SwinIr(3, 24, 2, 2, 3, ending="pixelshuffledirect"), (24, 13)),
    "swin2sr-x2": (lambda: Swin2Sr(2, 24, 1, 2, 3), (21, 26)),
    "swin2sr-x4-real": (lambda: Swin2Sr(4, 24, 1, 2, 3, ending="nearest+conv"), (16, 24)),
    "swin2sr-x3-light": (lambda: Swin2Sr(3, 24, 2, 2, 3, ending="pixelshuffledirect"), (24, 13)),
    "tail": (Tail, (12, 14)),
}


def write(folder, operator_set, free, make, size, border=0, half=False, fold=True):
    model = make().eval()
    image = torch.rand(1, 3, *size)
    x = F.pad(image, (border,) * 4, mode="replicate")
    dynamic = {"input": {2: "height", 3: "width"}, "output": {2: "h", 3: "w"}} if free else None
    with torch.no_grad():
        result = model(x.clone())
        torch.onnx.export(model.half() if half else model, x.half() if half else x, str(folder / "network.onnx"),
                          opset_version=operator_set, input_names=["input"], output_names=["output"], dynamic_axes=dynamic,
                          do_constant_folding=fold)
    public_networks.write_planes(folder / "image.planes", image)
    public_networks.write_planes(folder / "result.planes", result)


def main():
    folder, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    for operator_set in [int(s) for s in sys.argv[3:]] or [11, 16]:
        for name, network in NETWORKS.items():
            for free in (False, True):
                # PyTorch 1.13 repeats channels of a free size by a Reshape that ONNX Runtime does not run either.
                if free and "plksr" in name:
                    continue
                torch.manual_seed(seed)
                case = folder / f"{name}_{operator_set}_{'free' if free else 'fixed'}"
                case.mkdir(parents=True)
                try:
                    write(case, operator_set, free, *network)
                except Exception as error:
                    print(f"{case.name}: not exported: {str(error)[:200]!r}", flush=True)
                    for file in case.iterdir():
                        file.unlink()
                    case.rmdir()


if __name__ == "__main__":
    main()
