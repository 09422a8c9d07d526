#!/usr/bin/python3
"""Draws sample.png, the 320 x 240 image of the quickstart: line art, text, smooth shading and texture.

usage: make_sample.py [sample.png]

Needs python3-pil, python3-numpy and fonts-dejavu-core. The image is part of this project and under its licence.
"""

import math
import sys

import numpy as np
from PIL import Image, ImageDraw, ImageFont

WIDTH_PX, HEIGHT_PX, ZOOM = 320, 240, 4
HORIZON_PX = 128
FONTS = "/usr/share/fonts/truetype/dejavu/"
INK = (32, 30, 40)


def grid():
    y, x = np.mgrid[0:HEIGHT_PX * ZOOM, 0:WIDTH_PX * ZOOM] / ZOOM
    return x, y


def blend(base, color, amount):
    return base + (np.asarray(color, float) - base) * np.clip(amount, 0, 1)[..., None]


def smooth_noise(rng, cell_px):
    """Noise in -1..1 whose bumps are about `cell_px` wide."""
    size = (int(WIDTH_PX / cell_px) + 3, int(HEIGHT_PX / cell_px) + 3)
    coarse = Image.fromarray(rng.uniform(-1, 1, size[::-1]).astype(np.float32))
    return np.asarray(coarse.resize((WIDTH_PX * ZOOM, HEIGHT_PX * ZOOM), Image.BICUBIC), float)


def landscape(rng):
    """Sky, sun, hills, and a meadow with texture, as float RGB at ZOOM."""
    x, y = grid()
    sky = (y / HORIZON_PX)[..., None]
    image = np.array([96.0, 156, 214]) * (1 - sky) + np.array([250.0, 226, 190]) * sky
    image = blend(image, (255, 246, 214), 1.1 - np.hypot(x - 250, y - 40) / 46)
    image = blend(image, (255, 252, 236), (18 - np.hypot(x - 250, y - 40)) * ZOOM)
    for base, swell, color in ((104, 14, (128, 150, 176)), (118, 9, (92, 128, 120))):
        ridge = base - swell * np.sin(x / 37 + base) - 0.4 * swell * np.sin(x / 11 + 2 * base)
        image = blend(image, color, (y - ridge) * ZOOM)
    meadow = np.array([92.0, 140, 62]) + (y - HORIZON_PX)[..., None] * np.array([-0.2, -0.35, -0.15])
    blades = smooth_noise(rng, 2.2) * 26 + smooth_noise(rng, 5) * 14 + smooth_noise(rng, 30) * 10
    meadow = meadow + (blades * np.clip((y - HORIZON_PX) / 40, 0.25, 1))[..., None] * np.array([0.9, 1.0, 0.5])
    inside = np.clip((y - HORIZON_PX - 3 * np.sin(x / 29)) * ZOOM, 0, 1)[..., None]
    return image * (1 - inside) + meadow * inside


def ball(image, cx, cy, radius):
    """A shaded ball with a highlight and a soft shadow."""
    x, y = grid()
    image = blend(image, (30, 48, 24), 0.55 * (1.25 - np.hypot((x - cx - 8) / 1.5, (y - cy - radius) / 0.35) / radius))
    nx, ny = (x - cx) / radius, (y - cy) / radius
    nz = np.sqrt(np.clip(1 - nx**2 - ny**2, 0, 1))
    light = np.clip(0.5 * nx - 0.55 * ny + 0.67 * nz, 0, 1)
    shade = np.array([206.0, 44, 52]) * (0.25 + 0.75 * light)[..., None] + 255 * (light**40)[..., None]
    inside = np.clip((radius - np.hypot(x - cx, y - cy)) * ZOOM, 0, 1)[..., None]
    return image * (1 - inside) + np.clip(shade, 0, 255) * inside


def house(pen):
    """Line art: an outlined cottage with bricks, a window, a roof and a fence."""
    z = ZOOM

    def points(*pairs):
        return [(a * z, b * z) for a, b in pairs]

    pen.rectangle(points((40, 92), (118, 160)), fill=(238, 214, 180), outline=INK, width=2 * z)
    for row in range(9):
        top = 98 + row * 7
        pen.line(points((42, top), (62, top)), (178, 120, 92), z)
        for column in range(3):
            left = 44 + column * 8 + (row % 2) * 4
            if left < 62:
                pen.line(points((left, top), (left, top + 7)), (178, 120, 92), z)
    pen.polygon(points((32, 94), (79, 54), (126, 94)), fill=(168, 66, 56), outline=INK)
    pen.line(points((32, 94), (79, 54), (126, 94), (32, 94)), INK, 2 * z, joint="curve")
    for i in range(1, 5):
        pen.line(points((79 - 47 * i / 5, 54 + 8 * i), (79 + 47 * i / 5, 54 + 8 * i)), (118, 40, 40), z)
    pen.rectangle(points((90, 102), (110, 122)), fill=(168, 212, 236), outline=INK, width=2 * z)
    pen.line(points((100, 102), (100, 122)), INK, z)
    pen.line(points((90, 112), (110, 112)), INK, z)
    pen.rectangle(points((68, 124), (84, 160)), fill=(96, 70, 120), outline=INK, width=2 * z)
    pen.ellipse(points((79, 141), (82, 144)), fill=(250, 210, 70))
    for i in range(7):
        left = 128 + i * 11
        pen.polygon(points((left, 166), (left, 142), (left + 3, 137), (left + 6, 142), (left + 6, 166)),
                    fill=(252, 250, 244), outline=INK)
    pen.line(points((126, 150), (204, 150)), INK, z)
    for i in range(12):  # a fan of hair lines
        angle = math.pi * (0.05 + 0.9 * i / 11)
        pen.line(points((160, 78), (160 - 34 * math.cos(angle), 78 - 34 * math.sin(angle))), INK, max(1, z // 2 + i % 3))


def lettering(image):
    """Text at several sizes, drawn at the final size as a screen would."""
    pen = ImageDraw.Draw(image)
    pen.rectangle((8, 184, 311, 231), fill=(252, 250, 244), outline=INK)
    pen.text((14, 186), "Upscaled", INK, font=ImageFont.truetype(FONTS + "DejaVuSerif-Bold.ttf", 22))
    small = ImageFont.truetype(FONTS + "DejaVuSans.ttf", 10)
    pen.text((14, 214), "twice as large, Grüße, 0123456789", INK, font=small)
    pen.rectangle((196, 190, 305, 225), fill=(28, 34, 58))
    pen.text((201, 193), "$ upscale a.png", (136, 226, 150), font=ImageFont.truetype(FONTS + "DejaVuSansMono.ttf", 11))
    pen.text((201, 209), "320x240 > 640x480", (236, 236, 240), font=ImageFont.truetype(FONTS + "DejaVuSansMono.ttf", 9))


def main():
    image = landscape(np.random.default_rng(5))
    image = ball(image, 252, 146, 26)
    image = Image.fromarray(np.clip(np.rint(image), 0, 255).astype(np.uint8))
    house(ImageDraw.Draw(image))
    image = image.resize((WIDTH_PX, HEIGHT_PX), Image.BOX)
    lettering(image)
    image.save(sys.argv[1] if len(sys.argv) > 1 else "sample.png", optimize=True)


if __name__ == "__main__":
    main()
