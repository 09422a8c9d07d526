#!/usr/bin/env python3
"""Draws pages as a scanner sees them: small serif print, slightly turned, on paper that is not quite white.

draw_scans.py FOLDER [--pages 32] [--seed 0]: writes leaf-00.png, ... of 480x640 px, the same ones every time. Needs
python3-pil, python3-numpy and fonts-dejavu-core.
"""
import argparse
import pathlib

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

WIDTH, HEIGHT = 480, 640
ZOOM = 3  # drawn larger, so that the edges of glyphs fall anywhere between the scan's pixels
WORDS = ("a about after again all and any as at been before but by can came come could day do down each even every few find "
         "first for from gave good great had hand has have he her here him his house how if in into is it its keep last left "
         "letter light line little long made man many may men might more most much must my never new night no not now of old "
         "on one only or other our out over own page paper part people place read right river room said same saw say see she "
         "should side small so some still such take than that the their them then there these they thing this those though "
         "three through time to town two under until up very voice was water way we well went were what when where which "
         "while white who why will wind window with without word work world would write year yet you young").split()


def sentence(rng):
    words = list(rng.choice(WORDS, int(rng.integers(5, 16))))
    if len(words) > 9:
        words[len(words) // 2] += rng.choice([",", ";", ","])
    return " ".join(words).capitalize() + rng.choice([".", ".", ".", "?", "!"])


def lines_of(text, font, width):
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def set_column(draw, rng, left, top, width, bottom, fonts):
    """Paragraphs, some with a heading, from `top` down to `bottom`."""
    text_font, bold_font, italic_font = fonts
    step = round(text_font.size * 1.32)
    y = top
    while y < bottom:
        if rng.random() < 0.3:
            draw.text((left, y), " ".join(rng.choice(WORDS, 3)).capitalize(), 0, font=bold_font)
            y += round(step * 1.4)
        font = italic_font if rng.random() < 0.15 else text_font
        paragraph = " ".join(sentence(rng) for _ in range(int(rng.integers(2, 6))))
        for line in lines_of(paragraph, font, width):
            if y >= bottom:
                return
            draw.text((left, y), line, 0, font=font)
            y += step
        y += step // 2


def print_page(rng):
    """Black on white, ZOOM times as large as the scan."""
    size = float(rng.uniform(8.0, 10.5)) * ZOOM
    fonts = [ImageFont.truetype(f"DejaVuSerif{style}.ttf", round(size)) for style in ("", "-Bold", "-Italic")]
    page = Image.new("L", (WIDTH * ZOOM, HEIGHT * ZOOM), 255)
    draw = ImageDraw.Draw(page)
    margin, columns = 28 * ZOOM, int(rng.integers(1, 3))
    gap = 16 * ZOOM
    width = (WIDTH * ZOOM - 2 * margin - (columns - 1) * gap) // columns
    for column in range(columns):
        set_column(draw, rng, margin + column * (width + gap), margin, width, HEIGHT * ZOOM - margin, fonts)
    return page


def scan(rng, page):
    """`page` as the scanner's pixels."""
    page = page.rotate(float(rng.uniform(-1.2, 1.2)), Image.BICUBIC, fillcolor=255)
    page = page.filter(ImageFilter.GaussianBlur(float(rng.uniform(1.2, 1.8))))  # of the lens: half a pixel
    ink = 1 - np.asarray(page.resize((WIDTH, HEIGHT), Image.BOX), np.float64)[..., None] / 255
    paper = np.array([246, 242, 232]) + rng.uniform(-4, 4)
    shade = 1 - 0.03 * np.linspace(0, 1, WIDTH)[None, :, None]  # towards the fold
    pixels = paper * shade * (1 - ink) + np.array([42, 38, 40]) * ink
    pixels += rng.normal(0, 0.7, (HEIGHT, WIDTH, 1))  # grain
    return Image.fromarray(np.clip(np.round(pixels), 0, 255).astype(np.uint8))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pages", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for i in range(args.pages):
        rng = np.random.default_rng([args.seed, i])
        scan(rng, print_page(rng)).save(args.folder / f"leaf-{i:02}.png")


if __name__ == "__main__":
    main()
