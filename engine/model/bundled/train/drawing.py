"""Images drawn by program: pages of text and geometric shapes. Deterministic in the given numpy generator."""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

_LATIN = ("the quick brown fox jumps over a lazy dog while seven wizards box with five dozen liquor jugs and nobody "
          "minds that images of words have thin strokes round bowls sharp serifs and small counters").split()
_WORDS = _LATIN + [w.capitalize() for w in _LATIN] + "I/O 2x & 50% (a) [3] {x} f(x)=y 'to' \"be\" #7 1984 0.25".split()
_CYRILLIC = "съешь же ещё этих мягких французских булок да выпей чаю Широкая электрификация".split()
_ALPHABETS_IN = ("DejaVu", "Liberation", "OpenSans", "LinLibertine_R")  # fonts that hold Cyrillic and Greek
_GREEK = "ξεσκεπάζω την ψυχοφθόρα βδελυγμία Θάλασσα ουρανός".split()


def _color(rng):
    if rng.random() < 0.25:
        v = int(rng.integers(0, 256))
        return (v, v, v)
    return tuple(int(v) for v in rng.integers(0, 256, 3))


def _contrasting(rng, background, least):
    for _ in range(50):
        c = _color(rng)
        if abs(sum(c) - sum(background)) >= 3 * least:
            return c
    return (0, 0, 0) if sum(background) > 384 else (255, 255, 255)


def _gradient(rng, size):
    """A smooth two-colour ramp in a random direction, `size` px square."""
    angle = rng.uniform(0, 2 * math.pi)
    y, x = np.mgrid[0:size, 0:size] / size
    t = x * math.cos(angle) + y * math.sin(angle)
    t = ((t - t.min()) / (t.max() - t.min()))[..., None]
    a, b = np.array(_color(rng)), np.array(_color(rng))
    return Image.fromarray(np.round(a + (b - a) * t).astype(np.uint8))


def _line(rng, font_path, cjk):
    if cjk:
        kana = "".join(chr(int(c)) for c in rng.integers(0x3041, 0x3094, 8))
        han = "".join(chr(int(c)) for c in rng.integers(0x4E00, 0x7F00, 24))
        return "".join(rng.permutation(list(kana + han)))
    words = _WORDS
    if rng.random() < 0.15 and any(name in font_path for name in _ALPHABETS_IN):
        words = _CYRILLIC if rng.random() < 0.6 else _GREEK
    text = " ".join(rng.choice(words, 14))
    return text.upper() if rng.random() < 0.1 else text


def text_page(rng, fonts, cjk_fonts, size, photo=None):
    """A square page of text in random fonts, sizes and colours; on `photo` (an Image) if one is given."""
    plain = rng.random() < 0.5
    background = ((255, 255, 255) if rng.random() < 0.7 else (0, 0, 0)) if plain else _color(rng)
    page = Image.new("RGB", (size, size), background)
    if photo is not None:
        page = photo.resize((size, size), Image.BICUBIC)
        background = tuple(int(v) for v in np.asarray(page).mean((0, 1)))
    elif not plain and rng.random() < 0.3:
        page = _gradient(rng, size)
        background = tuple(int(v) for v in np.asarray(page).mean((0, 1)))
    # A third of the pages are drawn larger and reduced: glyph edges then fall anywhere between the pixels, as in print.
    zoom = 3 if rng.random() < 0.35 else 1
    mask_size = size * zoom
    y = int(rng.integers(-10, 6)) * zoom
    while y < mask_size:
        cjk = rng.random() < 0.15
        px = int(round(math.exp(rng.uniform(math.log(9), math.log(44))))) * zoom
        font_path = str(rng.choice(cjk_fonts if cjk else fonts))
        font = ImageFont.truetype(font_path, px)
        color = background
        if plain and rng.random() < 0.7:
            color = (0, 0, 0) if sum(background) > 384 else (255, 255, 255)
        else:
            color = _contrasting(rng, background, 60)
        lines = int(rng.integers(1, 4))
        mask = Image.new("L", (mask_size, int(px * 1.4 * lines) + 2))
        draw = ImageDraw.Draw(mask)
        for i in range(lines):
            draw.text((int(rng.integers(-20, 12)) * zoom, int(px * 1.35 * i)), _line(rng, font_path, cjk), 255, font=font)
        if zoom > 1:
            mask = mask.resize((size, max(1, mask.height // zoom)), Image.BOX)
        page.paste(color, (0, y // zoom), mask)
        y += int(px * 1.35 * lines) + int(rng.integers(0, px))
    return page


def shapes(rng, size):
    """Overlapping antialiased shapes, lines, rings and ramps: flat art, charts and line drawings."""
    zoom = 4
    big = size * zoom
    image = Image.new("RGB", (big, big), _color(rng)) if rng.random() < 0.7 else _gradient(rng, size).resize((big, big))
    draw = ImageDraw.Draw(image)
    line_art = rng.random() < 0.4
    for _ in range(int(rng.integers(6, 40))):
        kind = rng.integers(0, 6)
        c = _color(rng)
        x, y = rng.uniform(-0.1, 1.1, 2) * big
        w, h = np.exp(rng.uniform(math.log(0.02), math.log(0.5), 2)) * big
        stroke = max(1, int(zoom * math.exp(rng.uniform(math.log(0.7), math.log(6)))))
        outline = dict(outline=c, width=stroke) if line_art or rng.random() < 0.3 else dict(fill=c)
        if kind == 0:
            draw.rectangle((x, y, x + w, y + h), **outline)
        elif kind == 1:
            draw.ellipse((x, y, x + w, y + h), **outline)
        elif kind == 2:
            points = [tuple(rng.uniform(-0.5, 0.5, 2) * (w, h) + (x, y)) for _ in range(int(rng.integers(3, 7)))]
            draw.polygon(points, fill=c)
        elif kind == 3:
            draw.line([tuple(rng.uniform(0, 1, 2) * big) for _ in range(int(rng.integers(2, 5)))], c, stroke)
        elif kind == 4:
            for i in range(int(rng.integers(3, 12))):
                draw.line((x, y + i * stroke * 3, x + w, y + h * 0.3 + i * stroke * 3), c, stroke)
        else:
            draw.arc((x, y, x + w, y + w), int(rng.integers(0, 360)), int(rng.integers(0, 720)), c, stroke)
    out = image.resize((size, size), Image.BOX)
    if rng.random() < 0.1:
        out = out.filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.2)))
    return out
